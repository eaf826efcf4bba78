"""Scores Portico with the official MCP conformance suite, against the score without Portico.

    python -m tests.conformance [--only direct|portico] [--place serve|lambda] [--suite VERSION] [--spec REVISION]
                                [--scenario NAME]

Every server scenario runs twice: against `tests.servers.everything`, and against Portico in front of
it: `portico serve`, or the deployment on the emulator. There are several suites, all of which run unless one is named. The exit code is 1 if the server falls
short by itself, or if anything it can do is lost in the gateway. The suites come from npm on first use and
are kept in `.cache/`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests import npm
from tests.support import Deployed

ROOT = Path(__file__).resolve().parent.parent

PACKAGE = "@modelcontextprotocol/conformance"
RUNS: Sequence[tuple[str, str | None]] = (
    ("0.1.16", None),  # this one asks for no revision; later ones run one revision at a time
    ("0.2.0-alpha.12", "2025-11-25"),
    ("0.2.0-alpha.12", "2026-07-28"),
)

START_SECONDS = 30
SCENARIO_SECONDS = 30
AT_ONCE = 4
STREAM_S = 10

EVERYTHING_READY = re.compile(r"^ready (http://\S+/mcp)$")
PORTICO_READY = re.compile(r"^portico ready on (http://\S+/mcp)")
LISTED = re.compile(r"^\s*- (?P<name>\S+)(?: \[(?P<specs>[^\]]*)\])?\s*$", re.MULTILINE)

PORTICO_YAML = """\
version: 1
store: memory
backends:
  everything: {{kind: remote, url: "{url}", prefix: ""}}
"""


class ConformanceError(Exception):
    """The suite or a server could not be run: there is no score, not even a bad one."""


@dataclass(frozen=True)
class Suite:
    """An installed suite: how to run it, and what it consists of."""

    command: Sequence[str]
    spec: str | None
    scenarios: Sequence[str]


@dataclass(frozen=True)
class Outcome:
    """What one scenario came to: how many checks succeeded, and what the others said."""

    succeeded: int = 0
    warnings: Sequence[str] = ()
    failures: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        counts = [f"{self.succeeded} ok"]
        counts += [f"{len(self.warnings)} warned"] if self.warnings else []
        counts += [f"{len(self.failures)} failed"] if self.failures else []
        return ", ".join(counts)


@dataclass(frozen=True)
class Score:
    outcomes: Mapping[str, Outcome]

    @property
    def failed(self) -> dict[str, Outcome]:
        return {name: outcome for name, outcome in self.outcomes.items() if not outcome.passed}

    @property
    def full(self) -> bool:
        return bool(self.outcomes) and not self.failed

    def __str__(self) -> str:
        return f"{len(self.outcomes) - len(self.failed)}/{len(self.outcomes)}"


def lost(direct: Score, through: Score) -> dict[str, Outcome]:
    """What the gateway fails of what the server passes by itself."""
    return {name: outcome for name, outcome in through.failed.items() if name not in direct.failed}


def explain(outcomes: Mapping[str, Outcome]) -> str:
    return "\n".join(
        f"{name}: {failure}" for name, outcome in outcomes.items() for failure in outcome.failures
    )


def install(version: str, spec: str | None) -> Suite:
    """The suite, installed if it was not yet."""
    try:
        home = npm.install(f"{PACKAGE}@{version}")
        command = (npm.node(), str(home / PACKAGE / "dist" / "index.js"))
    except npm.NpmError as error:
        raise ConformanceError(str(error)) from error
    listing = subprocess.run([*command, "list", "--server"], capture_output=True, text=True, check=False)
    names = [
        found["name"]
        for found in LISTED.finditer(listing.stdout)
        if spec is None or spec in (found["specs"] or "").split(",")
    ]
    if not names:
        raise ConformanceError(
            f"Suite {version} lists no scenarios for {spec}:\n{listing.stdout}{listing.stderr}"
        )
    return Suite(command, spec, names)


def _outcome(checks: Iterable[Mapping[str, str]]) -> Outcome:
    said: dict[str, list[str]] = {"SUCCESS": [], "WARNING": [], "FAILURE": []}
    for check in checks:
        message = check.get("errorMessage") or check.get("description") or ""
        said.setdefault(check["status"], []).append(f"{check['id']}: {message}")
    return Outcome(len(said["SUCCESS"]), said["WARNING"], said["FAILURE"])


def _run_scenario(suite: Suite, name: str, url: str) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="conformance-") as results:
        command = [*suite.command, "server", "--url", url, "--scenario", name, "--output-dir", results]
        command += ["--spec-version", suite.spec] if suite.spec else []
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=SCENARIO_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Outcome(failures=(f"no result within {SCENARIO_SECONDS} s",))
        found = list(Path(results).glob("*/checks.json"))
        try:
            checks = json.loads(found[0].read_text())
        except (IndexError, ValueError):
            return Outcome(failures=(f"no result: {done.stdout.strip()[-400:]}",))
    return _outcome(checks) if checks else Outcome(failures=("no result: not a single check",))


def score(
    url: str,
    *,
    suite: str,
    spec: str | None,
    scenarios: Sequence[str] = (),
    report: Callable[[str, Outcome], object] = lambda name, outcome: None,
) -> Score:
    """Runs the scenarios (all of the suite's, unless some are named) against a URL.

    `report` is called in the caller's thread as each scenario ends. A scenario is a process of its
    own, so one that hangs costs nothing but itself.
    """
    installed = install(suite, spec)
    unknown = set(scenarios) - set(installed.scenarios)
    if unknown:
        raise ConformanceError(f"Suite {suite} has no scenario {', '.join(sorted(unknown))}")
    names = scenarios or installed.scenarios
    outcomes: dict[str, Outcome] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(_run_scenario, installed, name, url): name for name in names}
        for done in as_completed(running):
            outcomes[running[done]] = done.result()
            report(running[done], done.result())
    return Score({name: outcomes[name] for name in names})


class _Watched(threading.Thread):
    """Reads what a process says, to its end: notes the line that says it is ready, keeps the last ones."""

    def __init__(self, process: subprocess.Popen[str], ready: re.Pattern[str]) -> None:
        super().__init__(daemon=True)
        self._process, self._ready = process, ready
        self.settled = threading.Event()
        self.url: str | None = None
        self.last: deque[str] = deque(maxlen=30)

    def run(self) -> None:
        for line in self._process.stdout or ():
            self.last.append(line)
            found = self._ready.search(line.rstrip())
            if found and self.url is None:
                self.url = found[1]
                self.settled.set()
        self.settled.set()


@contextmanager
def serving(module: str, *arguments: str, ready: re.Pattern[str]) -> Iterator[str]:
    """Runs `python -m module` and yields the URL it says it listens on; it has to live as long as the block."""
    command = [sys.executable, "-m", module, *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        watched = _Watched(process, ready)
        watched.start()
        try:
            if not watched.settled.wait(START_SECONDS) or watched.url is None:
                raise ConformanceError(f"{module} did not get ready:\n{''.join(watched.last)}")
            yield watched.url
            if process.poll() is not None:
                raise ConformanceError(f"{module} ended with {process.returncode}:\n{''.join(watched.last)}")
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
            watched.join(5)


@contextmanager
def everything() -> Iterator[str]:
    """The everything server, on a free port."""
    with serving("tests.servers.everything", "--port", "0", ready=EVERYTHING_READY) as url:
        yield url


@contextmanager
def portico(backend: str, place: str = "serve") -> Iterator[str]:
    """Portico in front of one backend, whose names it leaves as they are."""
    if place == "lambda":
        # No scenario takes leave, and Lambda tells no function that its client has hung up.
        declared = yaml.safe_load(PORTICO_YAML.format(url=backend)) | {"limits": {"stream_s": STREAM_S}}
        with Deployed(declared) as deployed:
            yield deployed.url
        return
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        config = Path(folder, "portico.yaml")
        config.write_text(PORTICO_YAML.format(url=backend))
        with serving(
            "portico.cli", "serve", "--config", str(config), "--port", "0", ready=PORTICO_READY
        ) as url:
            yield url


def _progress(name: str, outcome: Outcome) -> None:
    print(f"  {'pass' if outcome.passed else 'FAIL'}  {name}", flush=True)
    for failure in outcome.failures:
        print(f"        {failure}", flush=True)


def _print_differences(direct: Score, through: Score) -> None:
    pairs = [(name, outcome, through.outcomes[name]) for name, outcome in direct.outcomes.items()]
    differing = [(name, str(one), str(other)) for name, one, other in pairs if str(one) != str(other)]
    if not differing:
        return
    header = ("scenario", "direct", "through portico")
    widths = [max(map(len, column)) for column in zip(header, *differing, strict=True)]
    print()
    for row in (header, *differing):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _verdict(scores: Mapping[str, Score]) -> bool:
    """Whether nothing is missing, or, with both scores, nothing that the gateway could be blamed for."""
    if len(scores) < 2:
        return all(result.full for result in scores.values())
    direct, through = scores.values()
    return direct.full and not lost(direct, through)


def _title(suite: str, spec: str | None) -> str:
    return f"{suite} @{spec}" if spec else suite


def _run(
    targets: Mapping[str, str], suite: str, spec: str | None, scenarios: Sequence[str]
) -> dict[str, Score]:
    scores = {}
    for name, url in targets.items():
        print(f"\n{_title(suite, spec)}, {name}: {url}", flush=True)
        scores[name] = score(url, suite=suite, spec=spec, scenarios=scenarios, report=_progress)
    if len(scores) == 2:
        _print_differences(*scores.values())
    return scores


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("direct", "portico"), help="score one of the two")
    parser.add_argument("--place", choices=("serve", "lambda"), default="serve", help="where Portico runs")
    parser.add_argument("--suite", metavar="VERSION", help=f"of {PACKAGE}")
    parser.add_argument("--spec", metavar="REVISION", help="of the protocol, for suites that want to be told")
    parser.add_argument("--scenario", action="append", default=[], metavar="NAME", help="may be repeated")
    options = parser.parse_args()
    runs = [run for run in RUNS if options.suite in (None, run[0]) and options.spec in (None, run[1])]
    runs = runs or [(options.suite or RUNS[-1][0], options.spec)]
    results: dict[str, dict[str, Score]] = {}
    try:
        with ExitStack() as servers:
            targets = {"direct": servers.enter_context(everything())}
            if options.only != "direct":
                targets["through portico"] = servers.enter_context(portico(targets["direct"], options.place))
            if options.only == "portico":
                del targets["direct"]
            for suite, spec in runs:
                results[_title(suite, spec)] = _run(targets, suite, spec, options.scenario)
    except ConformanceError as error:
        print(error, file=sys.stderr)
        return 1
    print()
    for title, scores in results.items():
        print(f"{title}: {', '.join(f'{name} {result}' for name, result in scores.items())}")
    return 0 if all(map(_verdict, results.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
