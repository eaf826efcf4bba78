"""The parts of a run: which targets are measured at what, behind which backends."""

from dataclasses import dataclass

from tests.bench.install import installed
from tests.bench.launch import Scene
from tests.bench.measure import Plan, Step, measure
from tests.bench.processes import ROOT, UnavailableError
from tests.bench.progress import Progress
from tests.bench.report import REFERENCE, TIMES, Table
from tests.bench.targets import Target

BACKEND_TOOLS = 10
WIDE_BACKENDS, WIDE_BACKEND_TOOLS = 10, 50
# At 64 a single wave of 500-tool lists takes the slow targets half a minute.
WIDE_MAX_CONCURRENCY = 16
# A function serves one request at a time: beyond this, a machine measures how many processes it can bear.
DEPLOYED_MAX_CONCURRENCY = 4
# What the time left is reckoned with: a start, and what the slower targets take beyond the time of their turn.
LAUNCH_S = 2.5
OVERTIME_S, WIDE_OVERTIME_S_PER_SESSION = 0.2, 0.1


@dataclass(frozen=True)
class Part:
    targets: list[Target]
    steps: list[Step]
    backends: int
    tools: int
    deployed: bool = False

    def expected_s(self, plan: Plan) -> float:
        return len(self.targets) * (LAUNCH_S + plan.turns * sum(step.turn_s for step in self.steps))

    def title(self, operation: str) -> str:
        if self.deployed:
            return f"{operation}, on Lambda"
        return operation if self.backends == 1 else f"{operation}, {self.backends} {TIMES} {self.tools} tools"


def parts(targets: list[Target], levels: list[int], plan: Plan) -> list[Part]:
    served = [target for target in targets if not target.deployed]
    wide = [
        Step("tools/list", level, plan.seconds + level * WIDE_OVERTIME_S_PER_SESSION)
        for level in levels
        if level <= WIDE_MAX_CONCURRENCY
    ]
    aggregating = [target for target in served if target.aggregates]
    found = [
        Part(served, narrow(levels, plan), 1, BACKEND_TOOLS),
        Part(aggregating, wide, WIDE_BACKENDS, WIDE_BACKEND_TOOLS),
        deployed_part(targets, levels, plan),
    ]
    return [part for part in found if part.targets and part.steps]


def narrow(levels: list[int], plan: Plan) -> list[Step]:
    operations = ("tools/call", "tools/list")
    return [Step(operation, level, plan.seconds + OVERTIME_S) for level in levels for operation in operations]


def deployed_part(targets: list[Target], levels: list[int], plan: Plan) -> Part:
    """With `portico serve` once more, to have something to compare with."""
    deployed = [target for target in targets if target.deployed]
    eras = {target.client_era for target in deployed}
    compared = [target for target in targets if target.name in {REFERENCE[era] for era in eras}]
    capped = sorted({min(level, DEPLOYED_MAX_CONCURRENCY) for level in levels})
    return Part([*compared, *deployed], narrow(capped, plan), 1, BACKEND_TOOLS, deployed=True)


async def run(targets: list[Target], levels: list[int], plan: Plan) -> list[Table]:
    missing = {target.name: reason for target in targets if (reason := await installed(target.install))}
    planned = parts(targets, levels, plan)
    progress = Progress(sum(part.expected_s(plan) for part in planned))
    return [table for part in planned for table in await perform(part, plan, missing, progress)]


async def perform(part: Part, plan: Plan, missing: dict[str, str], progress: Progress) -> list[Table]:
    """A table per operation. `missing` says which targets are not installed, and why."""
    eras = {target.backend_era for target in part.targets}
    scene, launched = Scene(part.backends, part.tools - 1, eras), []
    unavailable = dict(missing)
    try:
        await scene.open()
        for target in part.targets:
            if target.name not in missing:
                try:
                    launched.append(await scene.launch(target))
                except (UnavailableError, OSError) as error:
                    unavailable[target.name] = str(error).replace(f"{ROOT}/", "")
            progress.step(f"starting {target.name}", LAUNCH_S)
        for name, reason in unavailable.items():
            progress.say(f"{name} is not measured: {reason}")
        rows = await measure(launched, part.steps, plan, progress)
    finally:
        scene.stop()
    return [
        Table(
            part.title(operation),
            part.targets,
            [row for row in rows if row.operation == operation],
            unavailable,
            part.deployed,
        )
        for operation in dict.fromkeys(step.operation for step in part.steps)
    ]
