"""An answer that may take its time: whole if it is there at once, else a stream that begins with what there is."""

from collections.abc import AsyncGenerator, AsyncIterator

from portico.caller import RequestHeaders
from portico.protocol import sse
from portico.protocol.inbound import accepts
from portico.replies import Reply

Pieces = AsyncGenerator[tuple[int, bytes], None]
"""Messages for the client with status 0, empty ones to keep it waiting; the last has its own status."""


async def replied(pieces: Pieces, headers: RequestHeaders) -> Reply:
    """For a client that takes only JSON: the answer, without what came before it. None at all is a call cancelled."""
    try:
        status, first = await anext(pieces)
    except StopAsyncIteration:
        return Reply(202)
    if not status and accepts(headers, "text/event-stream"):
        return Reply(200, frames=_frames(first, pieces))
    while not status:
        status, first = await anext(pieces, (202, b""))
    await pieces.aclose()
    return Reply(status, first)


async def _frames(first: bytes, pieces: Pieces) -> AsyncIterator[bytes]:
    try:
        yield sse.encode(first) if first else sse.KEEP_ALIVE
        async for _, piece in pieces:
            yield sse.encode(piece) if piece else sse.KEEP_ALIVE
    finally:
        await pieces.aclose()
