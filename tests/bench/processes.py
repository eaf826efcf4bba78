"""Processes the benchmark starts: each in its own group with its own log, measured through /proc, ended whole."""

import contextlib
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MIB = 2**20
GRACE_S = 8.0
# Part of the measured load, not of the gateway that happens to be its parent.
STDIO_BACKEND = [b"-m", b"tests.bench.stdio_backend"]
# What every process of a function is given, and nothing else is.
OF_A_FUNCTION = b"AWS_LAMBDA_RUNTIME_API="


class UnavailableError(Exception):
    """A target that cannot be measured here, and why."""


@dataclass(frozen=True)
class Usage:
    """CPU seconds since start and memory: of what counts as the gateway, and of the whole tree."""

    cpu_s: float
    tree_cpu_s: float
    rss_mib: float
    tree_rss_mib: float


@dataclass(frozen=True)
class Stat:
    parent: int
    cpu_s: float
    rss_mib: float


class Running:
    def __init__(
        self,
        command: list[str],
        log: Path,
        environment: dict[str, str] | None = None,
        *,
        functions_only: bool = False,
    ) -> None:
        """`functions_only`: what stands in for AWS is not counted."""
        self.log = log
        self.counts = is_function if functions_only else is_no_stdio_backend
        inherited = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**inherited, "NO_PROXY": "*", **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def check(self) -> None:
        if self.process.poll() is not None:
            raise UnavailableError(f"exited with {self.process.returncode}: {self.last_words()}")

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def last_words(self) -> str:
        lines = [line.strip() for line in self.output().splitlines() if line.strip()]
        return lines[-1].replace(f"{ROOT}/", "")[:200] if lines else "said nothing"

    def usage(self) -> Usage:
        stats = snapshot()
        members = tree(self.process.pid, stats)
        own = [pid for pid in members if self.counts(pid)]
        return Usage(
            sum(stats[pid].cpu_s for pid in own),
            sum(stats[pid].cpu_s for pid in members),
            sum(stats[pid].rss_mib for pid in own),
            sum(stats[pid].rss_mib for pid in members),
        )

    def stop(self) -> None:
        """Ends the group, then whatever of the tree had left the group."""
        members = tree(self.process.pid, snapshot())
        send_signal(os.killpg, self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            send_signal(os.killpg, self.process.pid, signal.SIGKILL)
            self.process.wait()
        for pid in members - {self.process.pid}:
            if is_stdio_backend(pid) or is_function(pid):
                send_signal(os.kill, pid, signal.SIGKILL)


def send_signal(kill: Callable[[int, int], None], pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        kill(pid, number)


def snapshot() -> dict[int, Stat]:
    return dict(stats())


def stats() -> Iterator[tuple[int, Stat]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (found := stat(int(entry.name))):
            yield int(entry.name), found


def stat(pid: int) -> Stat | None:
    """None for a process that is gone. CPU includes that of children it has reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rsplit(")", 1)[1].split()
    return Stat(
        int(fields[1]), sum(map(int, fields[11:15])) / TICKS_PER_S, int(fields[21]) * PAGE_BYTES / MIB
    )


def tree(root: int, stats: dict[int, Stat]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, each in stats.items():
        children.setdefault(each.parent, []).append(pid)
    members, waiting = set(), [root]
    while waiting:
        pid = waiting.pop()
        if pid in stats:
            members.add(pid)
        waiting += children.get(pid, [])
    return members


def is_stdio_backend(pid: int) -> bool:
    """By its own arguments: the gateway that runs it names it too, further along its command line."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return arguments[1:3] == STDIO_BACKEND


def is_no_stdio_backend(pid: int) -> bool:
    return not is_stdio_backend(pid)


def is_function(pid: int) -> bool:
    """Whether it runs a Lambda function, on the emulator."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(variable.startswith(OF_A_FUNCTION) for variable in variables)


def machine_cpu_s() -> float:
    """CPU seconds all programs of this machine have used."""
    with Path("/proc/stat").open() as file:
        user, nice, system = file.readline().split()[1:4]
    return (int(user) + int(nice) + int(system)) / TICKS_PER_S


def machine() -> str:
    """What the figures depend on, in a few words."""
    models = re.findall(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    model = " ".join(models[0].split()) if models else platform.machine()
    return f"{os.cpu_count()} cores ({model}), Linux {platform.release()}, Python {platform.python_version()}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def say(text: str) -> None:
    """Progress, apart from the report on stdout."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
