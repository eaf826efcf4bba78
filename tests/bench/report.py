"""The result as markdown: a table per question, what to know when reading it, and the verdicts."""

import math
from dataclasses import dataclass

from tests.bench.measure import Row
from tests.bench.targets import Target

REFERENCE = "portico"
NOT_PEERS = ("direct", REFERENCE)
TIMES = "\N{MULTIPLICATION SIGN}"
NOTHING = "\N{EN DASH}"


@dataclass(frozen=True)
class Table:
    """Rows of one operation, and why a target has none."""

    title: str
    targets: list[Target]
    rows: list[Row]
    unavailable: dict[str, str]

    @property
    def levels(self) -> list[int]:
        return sorted({row.concurrency for row in self.rows})

    @property
    def reference_level(self) -> int:
        """Ratios are taken at concurrency 16, or the nearest below it that was measured."""
        return max((level for level in self.levels if level <= 16), default=min(self.levels, default=0))

    def at(self, target: str, level: int) -> Row | None:
        """The row, if it holds any operation."""
        found = (
            row for row in self.rows if (row.target, row.concurrency) == (target, level) and row.operations
        )
        return next(found, None)


def markdown(table: Table) -> str:
    level = table.reference_level
    head = [
        table.title,
        per_level("per second, c=", table.levels),
        f"{TIMES} Portico (c={level})",
        *(f"p50 / p99 ms, c={each}" for each in table.levels),
        per_level("CPU s per 1000, c=", table.levels),
        f"{TIMES} Portico (c={level})",
        "RSS MiB",
        "errors",
    ]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    lines += [cells(table, target, len(head)) for target in table.targets]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def per_level(text: str, levels: list[int]) -> str:
    return text + " / ".join(map(str, levels))


def cells(table: Table, target: Target, width: int) -> list[str]:
    title = target.title + (" †" if target.stdio else "")
    if reason := table.unavailable.get(target.name):
        return [title, f"not measured: {reason.replace('|', '/')}", *[""] * (width - 2)]
    rows = [table.at(target.name, level) for level in table.levels]
    level = table.reference_level
    own, reference = table.at(target.name, level), table.at(REFERENCE, level)
    return [
        title,
        " / ".join(f"{row.per_s:,.0f}" if row else NOTHING for row in rows),
        ratio(own, reference, "per_s"),
        *(latency(row) for row in rows),
        " / ".join(f"{row.cpu_s_per_1000:.3g}" if row else NOTHING for row in rows),
        ratio(own, reference, "cpu_s_per_1000"),
        f"{max((row.rss_mib for row in rows if row), default=math.nan):.0f}",
        str(sum(row.errors for row in table.rows if row.target == target.name)),
    ]


def latency(row: Row | None) -> str:
    return f"{row.p50_ms:.2f} / {row.p99_ms:.2f}" if row else NOTHING


def ratio(row: Row | None, reference: Row | None, measure: str) -> str:
    if row is None or reference is None or not getattr(reference, measure):
        return NOTHING
    return f"{getattr(row, measure) / getattr(reference, measure):.3g}"


def notes(tables: list[Table]) -> list[str]:
    targets = {target.name: target for table in tables for target in table.targets}
    rows = [row for table in tables for row in table.rows if row.seconds]
    lines = [f"{target.title}: {target.note}." for target in targets.values()]
    if any(target.stdio for target in targets.values()):
        lines.append(
            "† can only front a stdio server: no HTTP on the upstream side, so not like for like. "
            "CPU and RSS are the gateway's; the stdio servers it runs are left out, as the backend is for the others."
        )
    lines.append(
        "Every peer runs in an environment of its own, with what its package asks for and nothing added."
    )
    if rows:
        cores = sum(row.foreign_cpu_s for row in rows) / sum(row.seconds for row in rows)
        lines.append(f"Programs outside this run used {cores:.2f} cores on average during the turns.")
    lines += first_errors(tables)
    return lines


def first_errors(tables: list[Table]) -> list[str]:
    return [
        f"{row.target}, {row.operation} at c={row.concurrency}: {row.errors} errors, the first: {row.first_error}"
        for table in tables
        for row in table.rows
        if row.errors
    ]


@dataclass(frozen=True)
class Verdict:
    text: str
    holds: bool = True


def verdicts(calls: Table) -> list[Verdict]:
    """What tools/call says about Portico; nothing if Portico was not among the targets."""
    names = [target.name for target in calls.targets]
    if REFERENCE not in names:
        return []
    if reason := calls.unavailable.get(REFERENCE):
        return [Verdict(f"Portico was not measured: {reason}", holds=False)]
    peers = [name for name in names if name not in NOT_PEERS]
    return [less_cpu(calls, peers), speed(calls, peers)] if peers else []


def less_cpu(calls: Table, peers: list[str]) -> Verdict:
    """Holds if Portico needs less at every concurrency. What could not be compared is named, not assumed."""
    less, not_less, unknown = [], [], []
    for peer in peers:
        for level in calls.levels:
            own, other = calls.at(REFERENCE, level), calls.at(peer, level)
            if own is None or other is None:
                unknown.append(f"{peer} at c={level}")
            else:
                (less if own.cpu_s_per_1000 < other.cpu_s_per_1000 else not_less).append(
                    f"{peer} at c={level}"
                )
    holds = bool(less) and not not_less
    text = f"Portico uses less CPU per call than every peer: {'yes' if holds else 'no'}"
    if not_less:
        text += f"; not less than {', '.join(not_less)}"
    if unknown:
        text += f"; not compared with {', '.join(unknown)}"
    return Verdict(text, holds)


def speed(calls: Table, peers: list[str]) -> Verdict:
    level = calls.reference_level
    own = calls.at(REFERENCE, level)
    measured = [(peer, row) for peer in peers if (row := calls.at(peer, level))]
    factors = [f"{peer}: {own.per_s / row.per_s:.1f}{TIMES}" for peer, row in measured] if own else []
    return Verdict(f"calls at concurrency {level} vs {', '.join(factors) or 'nobody: nothing to compare'}")
