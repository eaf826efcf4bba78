"""What goes back to a client: a whole body, or frames as they come."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from portico.protocol import jsonrpc
from portico.protocol.jsonrpc import Rejection


@dataclass(frozen=True, slots=True)
class Reply:
    status: int = 200
    body: bytes = b""
    frames: AsyncIterator[bytes] | None = None
    session_id: str = ""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


def refusal(rejection: Rejection, session_id: str = "") -> Reply:
    return Reply(rejection.status, jsonrpc.error(rejection), session_id=session_id)


async def once(piece: bytes) -> AsyncIterator[bytes]:
    yield piece


async def discard(reply: Reply) -> None:
    """Give back what a reply holds that nobody waits for any more. Frames are begun first: only then have they an end."""
    if reply.frames is not None:
        first = asyncio.ensure_future(anext(reply.frames, b""))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        await reply.frames.aclose()  # type: ignore[attr-defined]
