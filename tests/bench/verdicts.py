"""What the measurement says about Portico, in plain words."""

import math
from dataclasses import dataclass
from statistics import median

from tests.bench.report import REFERENCE, TIMES, Table, served, short
from tests.bench.targets import Target

LEGACY, MODERN = REFERENCE["legacy"], REFERENCE["modern"]
# Answers of a usual size. A list of 500 tools is mostly copying, in this process and in the kernel.
ORDINARY = ("tools/call", "tools/list")
# Beyond this share, more CPU is more; below it, it is the machine's noise.
NOISE = 0.05
# How many times the calls of these Portico must serve, and at which concurrency.
FACTOR, FACTOR_LEVEL, FACTOR_PEERS = 20, 16, ("fastmcp", "contextforge")


@dataclass(frozen=True)
class Verdict:
    claim: str
    holds: bool
    evidence: str

    def __str__(self) -> str:
        return f"{self.claim}: **{'yes' if self.holds else 'no'}** ({self.evidence})"


def verdicts(tables: list[Table]) -> list[Verdict]:
    """Only about what was asked for: nothing is said of targets left out."""
    judged = [all_answered(tables)]
    tables = served(tables)
    targets = {target.name: target for target in tables[0].targets} if tables else {}
    peers = [each for each in targets.values() if each.peer and REFERENCE[each.client_era] in targets]
    if LEGACY in targets and MODERN in targets:
        judged.append(modern_costs_no_more(tables))
    if peers:
        judged.append(less_cpu(tables, peers))
        judged += more_calls(tables[0], [peer.name for peer in peers if peer.name in FACTOR_PEERS])
    return judged


def all_answered(tables: list[Table]) -> Verdict:
    operations = sum(row.operations for table in tables for row in table.rows)
    errors = sum(row.errors for table in tables for row in table.rows)
    missing = sorted({name for table in tables for name in table.unavailable})
    evidence = f"{operations:,} right answers, {errors} errors"
    if missing:
        evidence += f"; not measured: {', '.join(missing)}"
    return Verdict("Every target was measured and every answer right", not errors and not missing, evidence)


def modern_costs_no_more(tables: list[Table]) -> Verdict:
    claim = f"Modern clients and backend cost Portico no more CPU per request than legacy ones (within {NOISE:.0%})"
    ratios = {table.title: modern_by_legacy(table) for table in tables}
    judged = [ratio for title in ORDINARY for ratio in ratios.get(title, {}).values()]
    evidence = "; ".join(
        f"{title} {', '.join(f'c={level} {ratio:.2f}{TIMES}' for level, ratio in found.items())}"
        + ("" if title in ORDINARY else " (for information)")
        for title, found in ratios.items()
        if found
    )
    holds = bool(judged) and max(judged) <= 1 + NOISE
    return Verdict(claim, holds, evidence or "nothing to compare")


def modern_by_legacy(table: Table) -> dict[int, float]:
    """Per concurrency, the ratio of the medians of the rounds; infinite if one of the two has no figures."""
    if not {LEGACY, MODERN} <= {target.name for target in table.targets}:
        return {}
    found = {}
    for level in table.levels:
        rows = [table.at(name, level) for name in (MODERN, LEGACY)]
        modern, legacy = (median(row.cpu_s_per_1000_rounds) if row else 0.0 for row in rows)
        found[level] = modern / legacy if modern and legacy else math.inf
    return found


def less_cpu(tables: list[Table], peers: list[Target]) -> Verdict:
    """At every operation and concurrency. What could not be compared counts against the claim."""
    claim = "Portico uses less CPU per call than every peer, at every operation and concurrency"
    ratios: dict[str, float] = {}
    unknown = []
    for table in tables:
        for peer in (target for target in table.targets if target in peers):
            for level in table.levels:
                case = f"{peer.name}, {table.title} c={level}"
                own, other = table.reference(peer, level), table.at(peer.name, level)
                if own and other and own.cpu_s_per_1000:
                    ratios[case] = other.cpu_s_per_1000 / own.cpu_s_per_1000
                else:
                    unknown.append(case)
    if not ratios:
        return Verdict(claim, holds=False, evidence="nothing to compare")
    nearest = min(ratios, key=ratios.__getitem__)
    evidence = f"the nearest uses {ratios[nearest]:.2f} times as much: {nearest}"
    if unknown:
        evidence += f"; not compared: {'; '.join(unknown)}"
    return Verdict(claim, ratios[nearest] > 1 and not unknown, evidence)


def more_calls(calls: Table, peers: list[str]) -> list[Verdict]:
    if not peers or FACTOR_LEVEL not in calls.levels:
        return []
    claim = f"At c={FACTOR_LEVEL} Portico serves at least {FACTOR} times the calls of the aggregating peers"
    own = calls.at(LEGACY, FACTOR_LEVEL)
    factors = {
        peer: own.per_s / other.per_s if own and (other := calls.at(peer, FACTOR_LEVEL)) else 0.0
        for peer in peers
    }
    evidence = ", ".join(
        f"{peer} {short(factor)}{TIMES}" if factor else f"{peer} unknown" for peer, factor in factors.items()
    )
    return [Verdict(claim, min(factors.values()) >= FACTOR, evidence)]
