"""The result as markdown: a table per operation, how each target was run, and one table that says it all."""

import math
from dataclasses import dataclass

from tests.bench.echo import Era
from tests.bench.install import Node, node_version
from tests.bench.measure import Plan, Row
from tests.bench.processes import machine
from tests.bench.targets import Target

# What a target is compared with: Portico, called by clients of the same era.
REFERENCE: dict[Era, str] = {"legacy": "portico", "modern": "portico-modern"}
TIMES = "\N{MULTIPLICATION SIGN}"
NOTHING = "\N{EN DASH}"
DIVIDED = "\N{DIVISION SIGN}"
NOISY_CORES = 0.2
# What the deployment's own choices cost.
COMPARED = (
    ("lambda-inline", "lambda"),
    ("lambda-inline-modern", "lambda-modern"),
    ("lambda-routed", "lambda-modern"),
    ("lambda", "portico"),
    ("lambda-modern", "portico-modern"),
)


@dataclass(frozen=True)
class Table:
    """Rows of one operation, and why a target has none."""

    title: str
    targets: list[Target]
    rows: list[Row]
    unavailable: dict[str, str]
    deployed: bool = False

    @property
    def levels(self) -> list[int]:
        return sorted({row.concurrency for row in self.rows})

    @property
    def reference_level(self) -> int:
        """Where one concurrency must do: 16, or the nearest below it that was measured."""
        return max((level for level in self.levels if level <= 16), default=min(self.levels, default=0))

    def at(self, target: str, level: int) -> Row | None:
        """The row, if it holds any operation."""
        found = (
            row for row in self.rows if (row.target, row.concurrency) == (target, level) and row.operations
        )
        return next(found, None)

    def reference(self, target: Target, level: int) -> Row | None:
        return self.at(REFERENCE[target.client_era], level)


def report(tables: list[Table], plan: Plan, seconds: float) -> str:
    bullets = "\n".join(f"* {line}" for line in notes(tables, plan, seconds))
    details = "\n\n".join(markdown(table) for table in tables)
    summaries = "\n\n".join(summary(found) for found in (served(tables), deployed(tables)) if found)
    return f"## Details\n\n{details}\n\n{bullets}\n\n## Summary\n\n{summaries}\n"


def served(tables: list[Table]) -> list[Table]:
    return [table for table in tables if not table.deployed]


def deployed(tables: list[Table]) -> list[Table]:
    return [table for table in tables if table.deployed]


def markdown(table: Table) -> str:
    head = [
        table.title,
        per_level("per second, c=", table.levels),
        f"Portico {DIVIDED} it",
        *(f"p50 / p99 ms, c={each}" for each in table.levels),
        per_level("CPU s per 1000, c=", table.levels),
        f"it {DIVIDED} Portico",
        "RSS MiB",
        "errors",
    ]
    return rendered([head, *(cells(table, target) for target in table.targets)])


def cells(table: Table, target: Target) -> list[str]:
    if reason := table.unavailable.get(target.name):
        return [titled(target), not_measured(reason)]
    rows = [table.at(target.name, level) for level in table.levels]
    return [
        titled(target),
        joined(row and short(row.per_s) for row in rows),
        joined(
            factor(table.reference(target, level), row, "per_s")
            for level, row in zip(table.levels, rows, strict=True)
        ),
        *(latency(row) for row in rows),
        joined(row and short(row.cpu_s_per_1000) for row in rows),
        joined(
            factor(row, table.reference(target, level), "cpu_s_per_1000")
            for level, row in zip(table.levels, rows, strict=True)
        ),
        f"{max((row.rss_mib for row in rows if row), default=math.nan):.0f}",
        str(sum(row.errors for row in table.rows if row.target == target.name)),
    ]


def summary(tables: list[Table]) -> str:
    """One row per target: calls in full, of the other tables what they say at the reference level."""
    calls, *others = tables
    level = calls.reference_level
    head = [
        f"c={level} unless said otherwise",
        per_level("calls per second, c=", calls.levels),
        f"Portico {DIVIDED} it",
        "p50 / p99 ms",
        "CPU s per 1000 calls",
        f"it {DIVIDED} Portico",
        "RSS MiB",
        *(f"{table.title}: per second" for table in others),
    ]
    return rendered([head, *(summary_cells(calls, others, target) for target in calls.targets)])


def summary_cells(calls: Table, others: list[Table], target: Target) -> list[str]:
    if reason := calls.unavailable.get(target.name):
        return [titled(target), not_measured(reason)]
    level = calls.reference_level
    own, reference = calls.at(target.name, level), calls.reference(target, level)
    rss = (row.rss_mib for table in (calls, *others) for row in table.rows if row.target == target.name)
    others_at = [table.at(target.name, table.reference_level) for table in others]
    return [
        titled(target),
        joined(row and short(row.per_s) for row in (calls.at(target.name, each) for each in calls.levels)),
        factor(reference, own, "per_s") or NOTHING,
        latency(own),
        short(own.cpu_s_per_1000) if own else NOTHING,
        factor(own, reference, "cpu_s_per_1000") or NOTHING,
        f"{max(rss, default=math.nan):.0f}",
        *(short(row.per_s) if row else NOTHING for row in others_at),
    ]


def rendered(lines: list[list[str]]) -> str:
    width = len(lines[0])
    padded = [line + [""] * (width - len(line)) for line in lines]
    padded.insert(1, ["---", *["---:"] * (width - 1)])
    return "\n".join("| " + " | ".join(line) + " |" for line in padded)


def titled(target: Target) -> str:
    return target.title + (" †" if target.stdio else "")


def not_measured(reason: str) -> str:
    return f"not measured: {reason.replace('|', '/')}"


def per_level(text: str, levels: list[int]) -> str:
    return text + " / ".join(map(str, levels))


def joined(texts) -> str:
    return " / ".join(text or NOTHING for text in texts)


def latency(row: Row | None) -> str:
    return f"{row.p50_ms:.2f} / {row.p99_ms:.2f}" if row else NOTHING


def factor(above: Row | None, below: Row | None, measure: str) -> str | None:
    if above is None or below is None or not getattr(below, measure):
        return None
    return short(getattr(above, measure) / getattr(below, measure))


def short(value: float) -> str:
    """Three digits, and never an exponent."""
    if math.isnan(value):
        return NOTHING
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def notes(tables: list[Table], plan: Plan, seconds: float) -> list[str]:
    targets = {target.name: target for table in tables for target in table.targets}
    run = (
        f"{machine()}, loopback. {plan.rounds} rounds of {plan.seconds:g} s after one of warm-up, every target in "
        f"turn; {seconds / 60:.1f} min in all. Closed loop, one session and one connection per client."
    )
    compared = "Modern is protocol 2026-07-28, anything else 2025-11-25. Targets are compared with the Portico of their clients' era."
    counted = (
        "Every gateway is one process (and what it starts), with what its package asks for and nothing added. CPU and "
        "RSS are of the gateway with its children; neither backends nor the stdio servers it runs are counted."
    )
    left_out = (
        "Peers that are not there as modern ones: ContextForge (stateful) and mcp-proxy (PyPI) refuse modern clients; "
        "supergateway and FastMCP as documented manage some tens of calls per second with them."
    )
    lines = [
        run,
        compared,
        left_out,
        *(f"{target.title}: {target.note}." for target in targets.values()),
        counted,
    ]
    if any(isinstance(target.install, Node) for target in targets.values() if measured(tables, target)):
        lines.append(f"What is from npm runs on Node {node_version()}.")
    if any(target.stdio for target in targets.values()):
        lines.append(
            "† fronts one stdio server: no HTTP on the upstream side, so it has less to do than the others."
        )
    if deployed(tables):
        lines.append(
            "On Lambda: CPU and RSS are of the functions alone, neither of the emulator nor of moto, which stand in "
            "for AWS; rate and latency have both in them. For information: nothing is judged but the answers."
        )
    return lines + functions_compared(deployed(tables)) + surroundings(tables) + first_errors(tables)


def functions_compared(tables: list[Table]) -> list[str]:
    """How the ways through the functions compare: CPU per request, at every concurrency."""
    titles = {target.name: target.title for table in tables for target in table.targets}
    found = []
    for above, below in COMPARED:
        ratios = [
            f"{table.title.partition(',')[0]} c={level} {ratio}{TIMES}"
            for table in tables
            for level in table.levels
            if (ratio := factor(table.at(above, level), table.at(below, level), "cpu_s_per_1000"))
        ]
        if ratios:
            found.append(f"CPU, {titles[above]} {DIVIDED} {titles[below]}: {', '.join(ratios)}.")
    return found


def measured(tables: list[Table], target: Target) -> bool:
    return any(row.target == target.name for table in tables for row in table.rows)


def surroundings(tables: list[Table]) -> list[str]:
    rows = [row for table in tables for row in table.rows if row.seconds]
    if not rows:
        return []
    cores = sum(row.foreign_cpu_s for row in rows) / sum(row.seconds for row in rows)
    line = f"Programs outside this run used {cores:.2f} cores on average during the turns"
    return [f"{line}: not a quiet machine, only ratios mean anything." if cores > NOISY_CORES else f"{line}."]


def first_errors(tables: list[Table]) -> list[str]:
    return [
        f"{row.target}, {row.operation} at c={row.concurrency}: {row.errors} errors, the first: {row.first_error}"
        for table in tables
        for row in table.rows
        if row.errors
    ]
