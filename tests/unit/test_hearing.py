"""A backend's stream is heard, however late it begins."""

import asyncio

from portico import hearing
from portico.http1 import HttpClient

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def test_a_stream_that_begins_with_its_first_event_is_heard(monkeypatch):
    """G1.44"""
    monkeypatch.setattr(hearing, "OPEN_S", 0.01)
    known = asyncio.Event()

    async def backend(_reader, writer):
        await known.wait()
        writer.write(HEAD + b"data: at last\n\n")
        await writer.drain()
        writer.close()

    async def first_frame():
        client = HttpClient()
        async with await asyncio.start_server(backend, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
            frames = hearing.hear(lambda _: client.open(b"GET", url, []), limit=1000, answered=known.set)
            async with asyncio.timeout(10):
                frame = await anext(frames)
            await frames.aclose()
        client.close()
        return frame

    assert asyncio.run(first_frame()).data == b"at last"
