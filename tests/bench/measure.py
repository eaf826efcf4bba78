"""The measurement: targets take turns in rounds, so that what disturbs the machine disturbs all of them alike.

A turn is a closed loop of as many workers as sessions. It ends after its share of the operations or after its time,
whichever comes first: slow targets get fewer operations, not more time.
"""

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.bench.launch import Launched
from tests.bench.processes import machine_cpu_s, say, snapshot, tree
from tests.bench.session import FAILURES, Session

HANDSHAKES_AT_ONCE = 16
MAX_ERRORS = 20
WARM_UP = 1000

Operation = Callable[[Session, str], Awaitable[float]]


@dataclass(frozen=True)
class Plan:
    count: int
    rounds: int
    seconds: float


@dataclass
class Tally:
    """What a target's turns at one operation and concurrency add up to."""

    latencies: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    tree_cpu_s: float = 0.0
    rss_mib: float = 0.0
    tree_rss_mib: float = 0.0
    foreign_cpu_s: float = 0.0


@dataclass(frozen=True)
class Row:
    operation: str
    concurrency: int
    target: str
    operations: int
    errors: int
    first_error: str | None
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_s_per_1000: float
    tree_cpu_s_per_1000: float
    rss_mib: float
    tree_rss_mib: float
    seconds: float
    foreign_cpu_s: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no word for "not a number" but null."""
        return {name: None if value != value else value for name, value in asdict(self).items()}  # noqa: PLR0124


async def measure(targets: list[Launched], operations: list[str], concurrency: int, plan: Plan) -> list[Row]:
    """One row per operation and target. A target whose sessions cannot be opened gets a row of errors."""
    sessions: dict[str, list[Session]] = {}
    rows: list[Row] = []
    try:
        for target in targets:
            opened = sessions[target.target.name] = [Session(target.url) for _ in range(concurrency)]
            if failure := await open_all(opened):
                lost = Tally(errors=[failure] * concurrency)
                rows += [row(operation, concurrency, target, lost) for operation in operations]
        lost_names = {each.target for each in rows}
        usable = [target for target in targets if target.target.name not in lost_names]
        for operation in operations:
            tallies = await rounds(usable, sessions, operation, plan)
            rows += [row(operation, concurrency, target, tallies[target.target.name]) for target in usable]
    finally:
        await asyncio.gather(*(session.close() for opened in sessions.values() for session in opened))
    return rows


async def open_all(sessions: list[Session]) -> str | None:
    """Opens them, a few at a time; the first failure, if there was one."""
    for start in range(0, len(sessions), HANDSHAKES_AT_ONCE):
        batch = sessions[start : start + HANDSHAKES_AT_ONCE]
        for outcome in await asyncio.gather(*(each.open() for each in batch), return_exceptions=True):
            if isinstance(outcome, FAILURES):
                return f"session not opened: {outcome}"
            if isinstance(outcome, BaseException):
                raise outcome
    return None


async def rounds(
    targets: list[Launched], sessions: dict[str, list[Session]], operation: str, plan: Plan
) -> dict[str, Tally]:
    tallies = {each.target.name: Tally() for each in targets}
    share = math.ceil(plan.count / plan.rounds)
    for number in range(plan.rounds):
        first = number % len(targets) if targets else 0
        for target in targets[first:] + targets[:first]:
            opened, tally = sessions[target.target.name], tallies[target.target.name]
            operate = operation_of(operation, target)
            # Untimed: compilers get warm once, connections closed during the others' turns are made anew.
            warm_up = Tally()
            count = len(opened) if number else max(len(opened), min(share, WARM_UP))
            await turn(opened, operate, warm_up, count=count, seconds=plan.seconds)
            tally.errors += warm_up.errors
            await measured_turn(target, opened, operate, tally, count=share, seconds=plan.seconds)
    for target in targets:
        progress(operation, target, tallies[target.target.name], len(sessions[target.target.name]))
    return tallies


def operation_of(name: str, target: Launched) -> Operation:
    if name == "tools/call":
        return lambda session, text: session.time_call(target.echo, text)
    return lambda session, _: session.time_list(target.tools)


async def measured_turn(
    target: Launched, sessions: list[Session], operate: Operation, tally: Tally, *, count: int, seconds: float
) -> None:
    foreign, before = foreign_cpu_s(), target.running.usage()
    elapsed = await turn(sessions, operate, tally, count=count, seconds=seconds)
    after = target.running.usage()
    tally.elapsed_s += elapsed
    tally.cpu_s += after.cpu_s - before.cpu_s
    tally.tree_cpu_s += after.tree_cpu_s - before.tree_cpu_s
    tally.rss_mib, tally.tree_rss_mib = after.rss_mib, after.tree_rss_mib
    tally.foreign_cpu_s += max(0.0, foreign_cpu_s() - foreign)


async def turn(
    sessions: list[Session], operate: Operation, tally: Tally, *, count: int, seconds: float
) -> float:
    """Seconds from the first request to the last answer."""
    texts = (f"text {number}" for number in range(count))
    started = time.perf_counter()

    async def work(session: Session) -> None:
        for text in texts:
            try:
                tally.latencies.append(await operate(session, text))
            except FAILURES as error:
                tally.errors.append(f"{type(error).__name__}: {error}")
            if time.perf_counter() - started > seconds or len(tally.errors) > MAX_ERRORS:
                return

    await asyncio.gather(*(work(session) for session in sessions))
    return time.perf_counter() - started


def foreign_cpu_s() -> float:
    """CPU seconds used by programs that are not part of this run: all of ours are below this process."""
    stats = snapshot()
    return machine_cpu_s() - sum(stats[pid].cpu_s for pid in tree(os.getpid(), stats))


def row(operation: str, concurrency: int, target: Launched, tally: Tally) -> Row:
    done = len(tally.latencies)
    ordered = sorted(tally.latencies)
    thousands = done / 1000 or math.nan
    return Row(
        operation=operation,
        concurrency=concurrency,
        target=target.target.name,
        operations=done,
        errors=len(tally.errors),
        first_error=tally.errors[0] if tally.errors else None,
        per_s=done / tally.elapsed_s if tally.elapsed_s else 0.0,
        p50_ms=percentile(ordered, 0.50) * 1000,
        p99_ms=percentile(ordered, 0.99) * 1000,
        cpu_s_per_1000=tally.cpu_s / thousands,
        tree_cpu_s_per_1000=tally.tree_cpu_s / thousands,
        rss_mib=tally.rss_mib,
        tree_rss_mib=tally.tree_rss_mib,
        seconds=tally.elapsed_s,
        foreign_cpu_s=tally.foreign_cpu_s,
    )


def percentile(ordered: list[float], share: float) -> float:
    """Nearest rank; not a number if there is nothing."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else math.nan


def progress(operation: str, target: Launched, tally: Tally, concurrency: int) -> None:
    each = row(operation, concurrency, target, tally)
    say(
        f"{operation:<10} c={concurrency:<3} {target.target.name:<15} {each.per_s:9.1f}/s  p50 {each.p50_ms:.2f} ms"
        f"  CPU {each.cpu_s_per_1000:.3f} s/1000  {each.operations} operations, {each.errors} errors"
    )
