"""One HTTP client, measured in a process of its own: python -m tests.bench.candidate_clients CLIENT URL COUNT WORKERS.

Prints the CPU microseconds this process used per request. Exits with ABSENT if the client is not installed.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from urllib.parse import urlsplit

import uvloop

ABSENT = 3
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}'
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
WARM_UP = 200

Post = Callable[[], Awaitable[bytes]]


@asynccontextmanager
async def bare(url: str) -> AsyncIterator[Post]:
    """httptools on a socket and nothing else: what a client cannot do better than."""
    from tests.bench.wire import Connection

    parts = urlsplit(url)
    head = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}", f"Content-Length: {len(BODY)}"]
    head += [f"{name}: {value}" for name, value in HEADERS.items()]
    raw = "\r\n".join([*head, "", ""]).encode() + BODY
    idle: list[Connection] = []

    async def post() -> bytes:
        connection = idle.pop() if idle else await Connection.connect(parts.hostname or "", parts.port or 80)
        answer = await connection.request(raw)
        idle.append(connection)
        return answer.body

    yield post
    for connection in idle:
        connection.close()


@asynccontextmanager
async def with_aiohttp(url: str) -> AsyncIterator[Post]:
    import aiohttp

    async with aiohttp.ClientSession(headers=HEADERS) as session:

        async def post() -> bytes:
            async with session.post(url, data=BODY) as answer:
                return await answer.read()

        yield post


@asynccontextmanager
async def with_httpx(url: str) -> AsyncIterator[Post]:
    import httpx

    async with httpx.AsyncClient(headers=HEADERS, trust_env=False) as client:

        async def post() -> bytes:
            return (await client.post(url, content=BODY)).content

        yield post


@asynccontextmanager
async def with_portico(url: str) -> AsyncIterator[Post]:
    from portico.http1 import HttpClient

    client = HttpClient()
    headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def post() -> bytes:
        exchange = await client.open(b"POST", url, headers, BODY)
        await exchange.head(10)
        body = await exchange.body(1 << 20, 10)
        exchange.close()
        return body

    yield post
    client.close()


CLIENTS: dict[str, Callable[[str], AbstractAsyncContextManager[Post]]] = {
    "bare": bare,
    "aiohttp": with_aiohttp,
    "httpx": with_httpx,
    "portico": with_portico,
}


async def cpu_us_per_request(name: str, url: str, count: int, workers: int) -> float:
    async with CLIENTS[name](url) as post:
        await burst(post, WARM_UP, workers)
        started = time.process_time()
        await burst(post, count, workers)
        return (time.process_time() - started) / count * 1e6


async def burst(post: Post, count: int, workers: int) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        for _ in numbers:
            if await post() != BODY:
                raise ValueError("wrong echo")

    await asyncio.gather(*(work() for _ in range(workers)))


if __name__ == "__main__":
    client, address, count, workers = sys.argv[1:]
    try:
        print(uvloop.run(cpu_us_per_request(client, address, int(count), int(workers))))
    except ModuleNotFoundError as error:
        print(f"absent: no module {error.name}", file=sys.stderr)
        sys.exit(ABSENT)
