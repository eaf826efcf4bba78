"""Measures Portico, the backend alone and its peers in one run: python -m tests.bench (make bench).

Prints markdown. Exits with 1 if Portico is not as fast as it should be, an answer was wrong, or a target asked for
could not be measured.
"""

import argparse
import asyncio
import json
import platform
import signal
import sys
import time
from pathlib import Path

import uvloop

from tests.bench.measure import Plan
from tests.bench.parts import run
from tests.bench.processes import machine, say
from tests.bench.report import Table, report
from tests.bench.targets import TARGETS, Target
from tests.bench.verdicts import verdicts

QUICK = {"rounds": 2, "seconds": 0.4}


def parse(arguments: list[str]) -> argparse.Namespace:
    names = [target.name for target in TARGETS]
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--targets", "--only", help=f"comma-separated, of {', '.join(names)} (default: all)")
    parser.add_argument("--concurrency", default="1,16,64", help="comma-separated")
    parser.add_argument("--rounds", type=int, default=5, help="measured turns of each target at each thing")
    parser.add_argument("--seconds", type=float, default=1.0, help="after which a turn starts nothing more")
    parser.add_argument("--quick", action="store_true", help="short turns: to see that everything runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure to FILE")
    if "--quick" in arguments:
        parser.set_defaults(**QUICK)
    options = parser.parse_args(arguments)
    asked = options.targets.split(",") if options.targets else names
    if unknown := set(asked) - set(names):
        parser.error(f"unknown targets: {', '.join(sorted(unknown))}")
    options.concurrency = [int(level) for level in options.concurrency.split(",")]
    options.targets = [target for target in TARGETS if target.name in asked]
    return options


async def ending_on_signals(targets: list[Target], levels: list[int], plan: Plan) -> list[Table]:
    """Cancels the run rather than dying, so that whatever it started is ended with it."""
    task = asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await run(targets, levels, plan)


def write_json(path: Path, tables: list[Table], seconds: float) -> None:
    content = {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 1),
        "machine": machine(),
        "python": platform.python_version(),
        "tables": [
            {
                "title": table.title,
                "unavailable": table.unavailable,
                "rows": [row.as_dict() for row in table.rows],
            }
            for table in tables
        ],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    started = time.monotonic()
    plan = Plan(options.rounds, options.seconds)
    try:
        tables = uvloop.run(ending_on_signals(options.targets, options.concurrency, plan))
    except asyncio.CancelledError:
        say("stopped")
        return 130
    seconds = time.monotonic() - started
    judged = verdicts(tables)
    if options.json:
        write_json(options.json, tables, seconds)
    print(report(tables, plan, seconds), *(f"* {verdict}" for verdict in judged), sep="\n")
    return 0 if all(verdict.holds for verdict in judged) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
