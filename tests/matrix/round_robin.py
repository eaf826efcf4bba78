"""A load balancer at its meanest: every single request goes to the next upstream, streams included.

    python -m tests.matrix.round_robin http://127.0.0.1:N http://127.0.0.1:M ...

Says `ready http://127.0.0.1:P/mcp` on stderr. Every connection carries one request, and is closed when either side
closes it: a client that hangs up is seen to hang up.
"""

import asyncio
import contextlib
import itertools
import re
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

CHUNK = 1 << 16
LENGTH = re.compile(rb"(?im)^content-length:\s*(\d+)\s*$")
CONNECTION = re.compile(rb"(?im)^connection:[^\r\n]*\r\n")

Address = tuple[str, int]


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Head and body; clients here always give the body's length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = LENGTH.search(head.replace(b"\r\n", b"\n"))
    body = await reader.readexactly(int(length[1])) if length else b""
    return CONNECTION.sub(b"", head)[:-2] + b"connection: close\r\n\r\n" + body


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()


async def carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstreams: Iterator[Address]
) -> None:
    try:
        request = await read_request(reader)
        upstream_reader, upstream_writer = await asyncio.open_connection(*next(upstreams))
    except (OSError, asyncio.IncompleteReadError):
        writer.close()
        return
    upstream_writer.write(request)
    directions = [
        asyncio.ensure_future(copy(upstream_reader, writer)),
        asyncio.ensure_future(copy(reader, upstream_writer)),
    ]
    await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
    for task in directions:
        task.cancel()
    upstream_writer.close()
    writer.close()


async def main(addresses: list[Address]) -> None:
    upstreams = itertools.cycle(addresses)
    server = await asyncio.start_server(
        lambda reader, writer: carry(reader, writer, upstreams), "127.0.0.1", 0, limit=1 << 20
    )
    port = server.sockets[0].getsockname()[1]
    print(f"ready http://127.0.0.1:{port}/mcp", file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    targets = [urlsplit(url) for url in sys.argv[1:]]
    asyncio.run(main([(target.hostname or "", target.port or 80) for target in targets]))
