"""How the ASGI server and the HTTP client were chosen: python -m tests.bench.candidates.

CPU microseconds per request with 1 and 16 connections, and import time, of each candidate: servers with one trivial
echo application, clients against the fastest of these servers. Everything is on this machine's loopback.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop

from tests.bench.candidate_clients import BODY, CLIENTS, WARM_UP
from tests.bench.install import Python
from tests.bench.processes import ROOT, Running, UnavailableError, free_port, say
from tests.bench.wire import Connection

VENV = Python("candidates")
APP = "tests.bench.candidate_app:app"
LEVELS = (1, 16)
IMPORTS = 5
READY_S = 20.0
REQUEST = f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY


@dataclass(frozen=True)
class Server:
    title: str
    module: str
    arguments: tuple[str, ...]

    def command(self, port: int) -> list[str]:
        place = ("--bind", f"127.0.0.1:{port}") if self.module == "hypercorn" else ("--port", str(port))
        return [str(VENV.bin / "python"), "-m", self.module, *self.arguments, *place, APP]


UVICORN = ("--host", "127.0.0.1", "--lifespan", "off", "--no-access-log", "--log-level", "warning")
SERVERS = (
    Server("uvicorn, httptools and uvloop", "uvicorn", (*UVICORN, "--http", "httptools", "--loop", "uvloop")),
    Server("uvicorn, h11 and asyncio", "uvicorn", (*UVICORN, "--http", "h11", "--loop", "asyncio")),
    Server(
        "granian", "granian", ("--host", "127.0.0.1", "--interface", "asginl", "--loop", "uvloop", "--no-ws")
    ),
    Server("hypercorn, uvloop", "hypercorn", ("--worker-class", "uvloop")),
)
CLIENT_MODULES = {"bare": "httptools", "aiohttp": "aiohttp", "httpx": "httpx", "portico": "portico.http1"}


def client_environment() -> dict[str, str]:
    """Portico is read from the checkout; the candidates' environment holds what it needs."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "layers" / "portico")}


def import_ms(module: str) -> float:
    """The best of a few, in fresh processes."""
    code = f"import time; t = time.perf_counter(); import {module}; print((time.perf_counter() - t) * 1000)"
    return min(float(run_python("-c", code)) for _ in range(IMPORTS))


def run_python(*arguments: str) -> str:
    done = subprocess.run(
        [str(VENV.bin / "python"), *arguments],
        cwd=ROOT,
        env=client_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["said nothing"]
        raise UnavailableError(words[-1][:120])
    return done.stdout


async def until_ready(process: Running, port: int) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        process.check()
        try:
            connection = await Connection.connect("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
            continue
        connection.close()
        return
    raise UnavailableError(f"not ready in {READY_S:.0f} s: {process.last_words()}")


async def load(port: int, count: int, workers: int) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        connection = await Connection.connect("127.0.0.1", port)
        for _ in numbers:
            if not connection.open:  # hypercorn serves a thousand requests per connection
                connection = await Connection.connect("127.0.0.1", port)
            if (await connection.request(REQUEST)).body != BODY:
                raise ValueError("wrong echo")
        connection.close()

    await asyncio.gather(*(work() for _ in range(workers)))


async def server_us(process: Running, port: int, count: int, workers: int) -> float:
    await load(port, WARM_UP, workers)
    before = process.usage()
    await load(port, count, workers)
    return (process.usage().cpu_s - before.cpu_s) / count * 1e6


async def measure_servers(count: int, logs: Path) -> list[list[str]]:
    rows = []
    for server in SERVERS:
        say(f"server {server.title}")
        port = free_port()
        process = Running(server.command(port), logs / "server.log")
        try:
            await until_ready(process, port)
            costs = [await server_us(process, port, count, level) for level in LEVELS]
            rows.append([server.title, *(f"{cost:.0f}" for cost in costs), f"{import_ms(server.module):.0f}"])
        except (UnavailableError, OSError) as error:
            rows.append([server.title, f"not measured: {error}", "", ""])
        finally:
            process.stop()
    return rows


async def measure_clients(count: int, logs: Path) -> list[list[str]]:
    rows = []
    port = free_port()
    process = Running(SERVERS[0].command(port), logs / "server.log")
    try:
        await until_ready(process, port)
        for client in CLIENTS:
            say(f"client {client}")
            rows.append(await asyncio.to_thread(client_row, client, port, count))
    finally:
        process.stop()
    return rows


def client_row(client: str, port: int, count: int) -> list[str]:
    module = CLIENT_MODULES[client]
    arguments = ("-m", "tests.bench.candidate_clients", client, f"http://127.0.0.1:{port}/", str(count))
    try:
        costs = [float(run_python(*arguments, str(level))) for level in LEVELS]
        return [client, *(f"{cost:.0f}" for cost in costs), f"{import_ms(module):.0f}"]
    except UnavailableError as error:
        return [client, f"not measured: {error}", "", ""]


def markdown(title: str, rows: list[list[str]]) -> str:
    head = [title, *(f"CPU µs per request, c={level}" for level in LEVELS), "import ms"]
    lines = [head, ["---", *["---:"] * len(LEVELS), "---:"], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


async def run(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="portico-bench-") as directory:
        servers = await measure_servers(count, Path(directory))
        clients = await measure_clients(count, Path(directory))
    print(markdown("server", servers), markdown("client", clients), sep="\n\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.candidates", description=__doc__)
    parser.add_argument("--count", type=int, default=20000, help="requests per measurement")
    options = parser.parse_args()
    try:
        VENV.ensure()
    except UnavailableError as error:
        sys.exit(f"the candidates are {error}")
    uvloop.run(run(options.count))
