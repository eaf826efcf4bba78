"""What the filter costs Envoy: CPU time for each request, with and without it, in turns: `python -m tests.filter.cost`.

CPU time, not requests per second: whatever else this machine does, and how slow the client is, matters little to it. Envoy
answers by itself (`direct_response`), so that there is nothing but Envoy to pay for; requests have no body. One worker.
"""

import argparse
import asyncio
import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from tests.attacks.scene import BASE
from tests.edge.envoy import Started, manager
from tests.filter.envoy import said_of
from tests.support import config
from tests.support.issuer import Issuer, published
from tests.support.servers import Json
from tests.support.waiting import eventually

CLIENTS = 8
TICKS = os.sysconf("SC_CLK_TCK")


def answering(said: Json, *, bare: bool) -> Json:
    http = manager(said)
    http["route_config"]["virtual_hosts"][0]["routes"] = [
        {"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "{}"}}}
    ]
    if bare:
        http["http_filters"] = http["http_filters"][-1:]
    return said


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def ask(base: str, tokens: Iterator[str], count: int) -> None:
    place = urlsplit(base)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    for _ in range(count):
        head = f"GET /mcp HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {next(tokens)}\r\n\r\n"
        writer.write(head.encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        await reader.readexactly(2)
    writer.close()


async def turn(envoy: Started, tokens: Iterator[str], count: int) -> float:
    """Microseconds for each request."""
    before = cpu_s(envoy.pid)
    await asyncio.gather(*(ask(envoy.base, tokens, count // CLIENTS) for _ in range(CLIENTS)))
    return (cpu_s(envoy.pid) - before) / count * 1e6


async def compared(issuer: Issuer, bare: Started, filtered: Started, rounds: int, count: int) -> None:
    once = issuer.token("rs256")
    fresh = {
        kid: itertools.cycle([issuer.token(kid, jti=str(n)) for n in range(2048)])
        for kid in ("rs256", "es256")
    }
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, envoy, tokens in (
            ("bare", bare, itertools.repeat(once)),
            ("filter, a token that it knows", filtered, itertools.repeat(once)),
            ("filter, always another RS256 token", filtered, fresh["rs256"]),
            ("filter, always another ES256 token", filtered, fresh["es256"]),
        ):
            found.setdefault(name, []).append(await turn(envoy, tokens, count))
    base = median(found["bare"])
    for name, costs in found.items():
        own = median(costs)
        print(f"{name:36} {own:6.0f} µs of CPU  {own - base:+6.0f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=8000)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        issuer = stack.enter_context(published(f"{BASE}/mcp"))
        declared = {"issuer": issuer.url, "jwks_url": f"{issuer.url}/jwks"}
        said = config(gateway={"public_url": BASE}, auth={"mode": "jwt", "issuers": [declared]})
        bare, filtered = (
            stack.enter_context(Started(answering(said_of(said, "http://127.0.0.1:9"), bare=bare)))
            for bare in (True, False)
        )
        eventually(lambda: len(issuer.asked) >= 2, 20)
        asyncio.run(compared(issuer, bare, filtered, arguments.rounds, arguments.requests))


if __name__ == "__main__":
    main()
