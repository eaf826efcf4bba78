"""The measurement: targets take turns in rounds, so that what disturbs the machine disturbs all of them alike.

A turn is a closed loop of as many workers as sessions, all with fresh connections. It starts nothing more once its
time is over: slow targets get fewer operations, not more time.
"""

import asyncio
import itertools
import math
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.bench.launch import Launched
from tests.bench.processes import machine_cpu_s, snapshot, tree
from tests.bench.progress import Progress
from tests.bench.session import FAILURES, Session

HANDSHAKES_AT_ONCE = 16
MAX_ERRORS = 20

Operation = Callable[[Session, str], Awaitable[float]]


@dataclass(frozen=True)
class Plan:
    """How long each target is measured at one operation and concurrency. The first turn of all is warm-up."""

    rounds: int
    seconds: float

    @property
    def turns(self) -> int:
        return self.rounds + 1


@dataclass
class Tally:
    """What a target's turns at one operation and concurrency add up to."""

    latencies: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)
    cpu_s_per_1000: list[float] = field(default_factory=list)
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
    per_s_rounds: list[float]
    p50_ms: float
    p99_ms: float
    cpu_s_per_1000: float
    cpu_s_per_1000_rounds: list[float]
    tree_cpu_s_per_1000: float
    rss_mib: float
    tree_rss_mib: float
    seconds: float
    foreign_cpu_s: float

    def summary(self) -> str:
        return (
            f"  {self.target:<24} {self.per_s:9,.1f}/s  p50 {self.p50_ms:8.2f} ms  p99 {self.p99_ms:8.2f} ms"
            f"  CPU {self.cpu_s_per_1000:8.3f} s/1000  {self.operations} operations, {self.errors} errors"
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no word for "not a number" but null."""
        return {name: None if value != value else value for name, value in asdict(self).items()}  # noqa: PLR0124


@dataclass(frozen=True)
class Step:
    """One operation at one concurrency, and how long a turn at it is expected to take."""

    operation: str
    concurrency: int
    turn_s: float

    def __str__(self) -> str:
        return f"{self.operation} c={self.concurrency}"


async def measure(targets: list[Launched], steps: list[Step], plan: Plan, progress: Progress) -> list[Row]:
    """One row per step and target. Steps of one concurrency share its sessions."""
    rows: list[Row] = []
    for level in sorted({step.concurrency for step in steps}):
        rows += await measure_level(
            targets, [step for step in steps if step.concurrency == level], plan, progress
        )
    return rows


async def measure_level(
    targets: list[Launched], steps: list[Step], plan: Plan, progress: Progress
) -> list[Row]:
    """A target whose sessions cannot be opened gets rows of errors."""
    level, rows, usable = steps[0].concurrency, [], []
    sessions: dict[str, list[Session]] = {}
    try:
        for target in targets:
            kind = target.target.session
            opened = sessions[target.target.name] = [kind(target.url) for _ in range(level)]
            if failure := await open_all(opened):
                rows += [row(step, target, Tally(errors=[failure])) for step in steps]
            else:
                usable.append(target)
        for step in steps:
            progress.say(f"{step}:")
            tallies = await rounds(usable, sessions, step, plan, progress)
            measured = [row(step, target, tallies[target.target.name]) for target in usable]
            progress.show([each.summary() for each in measured])
            rows += measured
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
    targets: list[Launched], sessions: dict[str, list[Session]], step: Step, plan: Plan, progress: Progress
) -> dict[str, Tally]:
    tallies = {each.target.name: Tally() for each in targets}
    for number in range(plan.turns):
        first = number % len(targets) if targets else 0
        for target in targets[first:] + targets[:first]:
            name = target.target.name
            opened, operate = sessions[name], operation_of(step.operation, target)
            if number == 0:
                warm_up = Tally()
                await turn(opened, operate, warm_up, plan.seconds)
                tallies[name].errors += warm_up.errors
            else:
                await measured_turn(target, opened, operate, tallies[name], plan.seconds)
            what = f"round {number} of {plan.rounds}" if number else "warm-up"
            progress.step(f"{step}: {what}, {name}", step.turn_s)
    return tallies


def operation_of(name: str, target: Launched) -> Operation:
    if name == "tools/call":
        return lambda session, text: session.time_call(target.echo, text)
    return lambda session, _: session.time_list(target.tools)


async def measured_turn(
    target: Launched, sessions: list[Session], operate: Operation, tally: Tally, seconds: float
) -> None:
    foreign, before, done = foreign_cpu_s(), target.running.usage(), len(tally.latencies)
    elapsed = await turn(sessions, operate, tally, seconds)
    after = target.running.usage()
    tally.elapsed_s += elapsed
    operations, cpu_s = len(tally.latencies) - done, after.cpu_s - before.cpu_s
    tally.per_s.append(operations / elapsed)
    if operations:
        tally.cpu_s_per_1000.append(1000 * cpu_s / operations)
    tally.cpu_s += cpu_s
    tally.tree_cpu_s += after.tree_cpu_s - before.tree_cpu_s
    tally.rss_mib, tally.tree_rss_mib = after.rss_mib, after.tree_rss_mib
    tally.foreign_cpu_s += max(0.0, foreign_cpu_s() - foreign)


async def turn(sessions: list[Session], operate: Operation, tally: Tally, seconds: float) -> float:
    """Seconds from the first request to the last answer."""
    try:
        await asyncio.gather(*(session.connect() for session in sessions))
    except OSError as error:
        tally.errors.append(f"not connected: {error}")
    texts = (f"text {number}" for number in itertools.count())
    started = time.perf_counter()

    async def work(session: Session) -> None:
        while time.perf_counter() - started < seconds and len(tally.errors) <= MAX_ERRORS:
            try:
                tally.latencies.append(await operate(session, next(texts)))
            except FAILURES as error:
                tally.errors.append(f"{type(error).__name__}: {error}")

    await asyncio.gather(*(work(session) for session in sessions))
    return time.perf_counter() - started


def foreign_cpu_s() -> float:
    """CPU seconds used by programs that are not part of this run: all of ours are below this process."""
    stats = snapshot()
    return machine_cpu_s() - sum(stats[pid].cpu_s for pid in tree(os.getpid(), stats))


def row(step: Step, target: Launched, tally: Tally) -> Row:
    done = len(tally.latencies)
    ordered = sorted(tally.latencies)
    thousands = done / 1000 or math.nan
    return Row(
        operation=step.operation,
        concurrency=step.concurrency,
        target=target.target.name,
        operations=done,
        errors=len(tally.errors),
        first_error=tally.errors[0] if tally.errors else None,
        per_s=done / tally.elapsed_s if tally.elapsed_s else 0.0,
        per_s_rounds=tally.per_s,
        p50_ms=percentile(ordered, 0.50) * 1000,
        p99_ms=percentile(ordered, 0.99) * 1000,
        cpu_s_per_1000=tally.cpu_s / thousands,
        cpu_s_per_1000_rounds=tally.cpu_s_per_1000,
        tree_cpu_s_per_1000=tally.tree_cpu_s / thousands,
        rss_mib=tally.rss_mib,
        tree_rss_mib=tally.tree_rss_mib,
        seconds=tally.elapsed_s,
        foreign_cpu_s=tally.foreign_cpu_s,
    )


def percentile(ordered: list[float], share: float) -> float:
    """Nearest rank; not a number if there is nothing."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else math.nan
