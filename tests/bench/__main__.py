"""Measures Portico, the backend alone and its peers in one run: python -m tests.bench (make bench).

Prints markdown tables. Exits with 1 if a verdict is "no", an answer was wrong, or Portico could not be measured.
"""

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
import time
from pathlib import Path

import uvloop

from tests.bench.launch import Scene
from tests.bench.measure import Plan, Row, measure
from tests.bench.processes import UnavailableError, say
from tests.bench.report import TIMES, Table, markdown, notes, verdicts
from tests.bench.targets import TARGETS, Target

BACKEND_TOOLS = 10
WIDE_BACKENDS, WIDE_BACKEND_TOOLS = 10, 50
# At 64 a single wave of 500-tool lists takes the slow targets longer than their turn.
WIDE_MAX_CONCURRENCY = 16
QUICK = {"count": 300, "rounds": 1, "seconds": 0.5, "concurrency": "1,16"}


async def run(targets: list[Target], concurrency: list[int], plan: Plan) -> list[Table]:
    end_on_signals()
    operations = ["tools/call", "tools/list"]
    rows, unavailable = await scene(targets, operations, concurrency, plan, backends=1, tools=BACKEND_TOOLS)
    tables = [
        Table(operation, targets, [row for row in rows if row.operation == operation], unavailable)
        for operation in operations
    ]
    wide = [target for target in targets if target.aggregates]
    levels = [level for level in concurrency if level <= WIDE_MAX_CONCURRENCY]
    if wide and levels:
        rows, unavailable = await scene(
            wide, ["tools/list"], levels, plan, backends=WIDE_BACKENDS, tools=WIDE_BACKEND_TOOLS
        )
        title = f"tools/list, {WIDE_BACKENDS} {TIMES} {WIDE_BACKEND_TOOLS} tools"
        tables.append(Table(title, wide, rows, unavailable))
    return tables


def end_on_signals() -> None:
    """Cancels the run rather than dying, so that whatever it started is ended with it."""
    task = asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def scene(
    targets: list[Target],
    operations: list[str],
    concurrency: list[int],
    plan: Plan,
    *,
    backends: int,
    tools: int,
) -> tuple[list[Row], dict[str, str]]:
    """The rows of the targets that could be started, and why the others could not."""
    stage, launched, rows = Scene(backends, tools - 1), [], []
    unavailable: dict[str, str] = {}
    try:
        await stage.open()
        for target in targets:
            try:
                launched.append(await stage.launch(target))
            except (UnavailableError, OSError) as error:
                unavailable[target.name] = str(error)
                say(f"{target.name} is not measured: {error}")
        for level in concurrency:
            rows += await measure(launched, operations, level, plan)
    finally:
        stage.stop()
    return rows, unavailable


def parse(arguments: list[str]) -> argparse.Namespace:
    names = [target.name for target in TARGETS]
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--targets", "--only", help=f"comma-separated, of {', '.join(names)} (default: all)")
    parser.add_argument(
        "--count", type=int, default=12000, help="operations per measurement, over all rounds"
    )
    parser.add_argument("--concurrency", default="1,16,64", help="comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="after which a turn starts nothing more")
    parser.add_argument("--quick", action="store_true", help="few operations: to see that everything runs")
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


def write_json(path: Path, tables: list[Table], seconds: float) -> None:
    content = {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 1),
        "cores": os.cpu_count(),
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
    plan = Plan(options.count, options.rounds, options.seconds)
    try:
        tables = uvloop.run(run(options.targets, options.concurrency, plan))
    except asyncio.CancelledError:
        say("stopped")
        return 130
    seconds = time.monotonic() - started
    for table in tables:
        print(f"{markdown(table)}\n")
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, loopback, {seconds:.0f} s in all"
    print("\n".join(f"* {line}" for line in [machine, *notes(tables)]))
    judged = verdicts(tables[0])
    print("", *(verdict.text for verdict in judged), sep="\n")
    if options.json:
        write_json(options.json, tables, seconds)
    wrong = any(row.errors for table in tables for row in table.rows)
    return 0 if all(verdict.holds for verdict in judged) and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
