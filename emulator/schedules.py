"""Schedules of the template: rate(…) at its pace, or each of them once."""

import asyncio
import json
import re
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime

from emulator.application import Schedule
from emulator.environments import log
from emulator.functions import Functions
from emulator.intrinsics import ACCOUNT, ARNS, REGION
from emulator.outcomes import Stream

RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
MINUTES = {"minute": 1, "hour": 60, "day": 24 * 60}


async def run(
    schedules: Iterable[Schedule], functions: Functions, *, once: bool, minute_s: float = 60.0
) -> None:
    """`once`: each at the start and never again, whatever its expression; else a cron(…) is not fired."""
    async with asyncio.TaskGroup() as group:
        for schedule in schedules:
            group.create_task(_one(schedule, functions, once=once, minute_s=minute_s))


async def _one(schedule: Schedule, functions: Functions, *, once: bool, minute_s: float) -> None:
    if once:
        await _fire(schedule, functions)
        return
    minutes = every_minutes(schedule.expression)
    if minutes is None:
        log(schedule.name, f"{schedule.expression} is not fired here; --once-schedules fires it at the start")
        return
    while True:
        await asyncio.sleep(minutes * minute_s)
        await _fire(schedule, functions)


async def _fire(schedule: Schedule, functions: Functions) -> None:
    event = schedule.payload.encode() if schedule.payload is not None else _event(schedule)
    outcome = await functions.invoke(schedule.function, event)
    payload = await outcome.whole() if isinstance(outcome, Stream) else outcome
    if payload.error:
        log(schedule.name, f"{schedule.function} failed: {payload.message()}")


def every_minutes(expression: str) -> int | None:
    """None for what is not a rate."""
    found = RATE.fullmatch(expression.strip())
    return int(found[1]) * MINUTES[found[2]] if found else None


def _event(schedule: Schedule) -> bytes:
    event = {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [ARNS["AWS::Events::Rule"].format(schedule.name)],
        "detail": {},
    }
    return json.dumps(event).encode()
