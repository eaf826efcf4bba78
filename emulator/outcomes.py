"""What becomes of an invocation: a payload, or a stream of them."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass

PAYLOAD_LIMIT = 6 * 2**20  # of a buffered request or response, as Lambda has it
AHEAD = 16  # chunks that a function may be ahead of its reader


@dataclass(frozen=True)
class Payload:
    """All of it at once; with an error's name if the function failed."""

    data: bytes
    error: str | None = None

    def message(self) -> str:
        """What the function's error says."""
        try:
            said = json.loads(self.data)
        except ValueError:
            return ""
        return str(said.get("errorMessage", "")) if isinstance(said, dict) else ""


def failure(kind: str, message: str) -> Payload:
    return Payload(json.dumps({"errorMessage": message, "errorType": kind}).encode(), error=kind)


class Failed(Exception):
    """A stream ended with an error."""


class Stream:
    """Chunks as the function sends them. Whoever reads it closes it: what the function still sends is then lost.

    It is not told. Lambda does not interrupt a streamed response when the connection of whoever asked is broken:
    https://docs.aws.amazon.com/lambda/latest/dg/configuration-response-streaming.html
    """

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(AHEAD)
        self._abandoned = False
        self.ended = False
        self.error: str | None = None

    async def put(self, chunk: bytes) -> None:
        await self._room.acquire()
        if self._abandoned:
            self._room.release()
        else:
            self._chunks.put_nowait(chunk)

    def abandon(self) -> None:
        """Nobody will read on. May be called again."""
        self._abandoned = True
        self._room.release()

    def end(self, error: str | None = None) -> None:
        """May be called again; the first word counts."""
        if not self.ended:
            self.ended, self.error = True, error
            self._chunks.put_nowait(None)

    async def read(self) -> AsyncGenerator[bytes, None]:
        try:
            while (chunk := await self._chunks.get()) is not None:
                self._room.release()
                yield chunk
            if self.error:
                raise Failed(self.error)
        finally:
            self.abandon()

    async def whole(self) -> Payload:
        """As the Invoke API gives the answer of a function that streams."""
        found = b""
        try:
            async for chunk in self.read():
                found += chunk
                if len(found) > PAYLOAD_LIMIT:
                    return too_large()
        except Failed as error:
            return failure(str(error), "the function failed while it was streaming")
        return Payload(found)


Outcome = Payload | Stream


def too_large() -> Payload:
    return failure(
        "Function.ResponseSizeTooLarge",
        f"Response payload size exceeded maximum allowed payload size ({PAYLOAD_LIMIT} bytes).",
    )
