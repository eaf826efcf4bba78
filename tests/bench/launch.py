"""Starts targets and the backends behind them, and says when they answer."""

import asyncio
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench import echo
from tests.bench.processes import Running, UnavailableError, free_port
from tests.bench.session import FAILURES, SESSIONS, Session
from tests.bench.targets import Place, Target, backend

READY_S = 90.0
POLL_S = 0.1


@dataclass(frozen=True)
class Launched:
    target: Target
    url: str
    tools: int
    echo: str
    running: Running


class Scene:
    """Backends and the targets in front of them, all on 127.0.0.1; `stop` ends every process and file of it."""

    def __init__(self, backends: int, fillers: int, eras: set[echo.Era]) -> None:
        """As many backends of each of the eras."""
        self.count, self.fillers = backends, fillers
        self.directory = tempfile.TemporaryDirectory(prefix="portico-bench-")
        self.backends: dict[echo.Era, list[str]] = {era: [] for era in eras}
        self.running: list[Running] = []

    async def open(self) -> None:
        for era, urls in self.backends.items():
            for number in range(self.count):
                port = free_port()
                process = self.start(backend(port, self.fillers, era), f"backend-{era}-{number}")
                url = f"http://127.0.0.1:{port}/mcp"
                await answering(process, url, SESSIONS[era], self.fillers + 1, time.monotonic() + READY_S)
                urls.append(url)

    async def launch(self, target: Target) -> Launched:
        """Raises UnavailableError, with the reason, if the target cannot be brought to answer."""
        directory = Path(self.directory.name) / target.name
        directory.mkdir()
        place = Place(free_port(), self.backends[target.backend_era], self.fillers, directory)
        environment = target.environment(place)
        process = self.start(target.command(place), target.name, environment, functions_only=target.deployed)
        try:
            url, names = await self.ready(target, place, process, environment)
            check_names(names, self.fillers)
        except UnavailableError:
            process.stop()
            raise
        return Launched(target, url, len(names), next(filter(is_echo, names)), process)

    async def ready(
        self, target: Target, place: Place, process: Running, environment: dict[str, str]
    ) -> tuple[str, list[str]]:
        deadline = time.monotonic() + READY_S
        url = await address(target, place, process, deadline)
        if target.prepare:
            await asyncio.to_thread(target.prepare, place, environment)
        expected = (self.fillers + 1) * (1 if target.stdio else self.count)
        return url, await answering(process, url, target.session, expected, deadline)

    def start(
        self,
        command: list[str],
        name: str,
        environment: dict[str, str] | None = None,
        *,
        functions_only: bool = False,
    ) -> Running:
        log = Path(self.directory.name) / f"{name}.log"
        running = Running(command, log, environment, functions_only=functions_only)
        self.running.append(running)
        return running

    def stop(self) -> None:
        for running in reversed(self.running):
            running.stop()
        self.directory.cleanup()


def check_names(names: list[str], fillers: int) -> None:
    """Every backend's tools must be there, under whatever prefix; ContextForge also makes "_" a "-"."""
    plain = [f"_{name.replace('-', '_')}" for name in names]
    backends = sum(map(is_echo, plain))
    for tool in echo.tools(fillers):
        found = sum(name.endswith(f"_{tool['name']}") for name in plain)
        if not found or found != backends:
            raise UnavailableError(f"lists {found} tools named {tool['name']} and {backends} named echo")


def is_echo(name: str) -> bool:
    return re.search(r"(^|[^a-zA-Z0-9])echo$", name) is not None


async def address(target: Target, place: Place, process: Running, deadline: float) -> str:
    """The target's URL, once the target accepts connections on it."""
    while time.monotonic() < deadline:
        process.check()
        if target.ready is None:
            if await accepts(place.port):
                return f"http://127.0.0.1:{place.port}/mcp"
        elif found := re.search(target.ready, process.output()):
            return found[1]
        await asyncio.sleep(POLL_S)
    raise UnavailableError(f"not ready in {READY_S:.0f} s: {process.last_words()}")


async def accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def answering(
    process: Running, url: str, kind: type[Session], expected: int, deadline: float
) -> list[str]:
    """The names of the tools, once a client of this kind is answered and all of them are listed."""
    reason = "never answered"
    while time.monotonic() < deadline:
        process.check()
        session = kind(url)
        try:
            await session.open()
            names = await session.tools()
            if len(names) == expected:
                return names
            reason = f"lists {len(names)} of {expected} tools"
        except FAILURES as error:
            reason = str(error) or type(error).__name__
        finally:
            await session.close()
        await asyncio.sleep(POLL_S)
    raise UnavailableError(f"not ready in {READY_S:.0f} s: {reason}")
