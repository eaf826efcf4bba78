"""Hearing a backend out: its stream, taken up again whenever it breaks."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from portico.errors import BackendError
from portico.http1 import Exchange
from portico.protocol import sse

OPEN_S = 10.0
IDLE_S = 3600.0
LONGEST_PAUSE_S = 60.0

log = logging.getLogger("portico.hearing")

Opening = Callable[[str], Awaitable[Exchange]]
"""Opens the stream, after the event with this id."""


async def hear(
    opening: Opening, *, limit: int, last: str = "", answered: Callable[[], None] = lambda: None
) -> AsyncIterator[sse.Frame]:
    """Ends where the backend has no such stream. `answered` is called each time the backend has said so or begun."""
    pause = 1.0
    while True:
        try:
            exchange = await opening(last)
            try:
                begun = await exchange.head(OPEN_S)
                answered()
                if not begun:  # some send no headers before they have something to say
                    await exchange.head(IDLE_S)
                if exchange.status and (exchange.status != 200 or not exchange.is_stream):
                    return
                pause = 1.0
                decoder = sse.Decoder(limit)
                while (chunk := await exchange.chunk(IDLE_S)) != b"":
                    for frame in decoder.feed(chunk or b""):
                        last = frame.id or last
                        yield frame
            finally:
                exchange.close()
        except (BackendError, sse.FrameTooLarge) as error:
            log.debug("a stream broke: %s", error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_S)


async def opened(seconds: float, *streams: asyncio.Event) -> None:
    """Until all of these streams are open, but not for longer than that: what is said before is lost."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for stream in streams:
                await stream.wait()
