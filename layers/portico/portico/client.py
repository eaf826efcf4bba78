"""One HTTP request of a client and the answer to it: reading it, noticing that it hung up, keeping it waiting alive."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final

from portico.protocol import sse
from portico.protocol.inbound import accepts
from portico.protocol.jsonrpc import Id
from portico.replies import Reply

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

STREAM_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)

WATCH_AFTER_S: Final = 0.05
"""Calls that take longer are watched for a client that goes away."""


class Client:
    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: dict[str, str],
        repeated: frozenset[str],
        alias: str | None,
    ) -> None:
        self.scope = scope
        self.headers = headers
        self.repeated = repeated
        """The names of headers that came more than once: only the last is in `headers`."""
        self.asked: Id = None
        """The id of the request in it, once that has been read."""
        self._receive = receive
        self._send = send
        self._alias = alias
        self._task = asyncio.current_task()
        self._gone = False
        self._read = asyncio.Event()
        self._begun = False
        self._beat: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None

    async def body(self, limit: int) -> bytes | None:
        """The request's body, None when it is larger than `limit`."""
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            return None
        message = await self._receive()
        body: bytes = message.get("body", b"")
        while message.get("more_body"):
            message = await self._receive()
            body += message.get("body", b"")
            if len(body) > limit:
                return None
        self._read.set()
        return body

    @contextlib.asynccontextmanager
    async def watched(self) -> Any:
        """Whoever goes away ends his request; short ones are not worth watching."""
        watcher: list[asyncio.Task[None]] = []
        timer = asyncio.get_running_loop().call_later(
            WATCH_AFTER_S, lambda: watcher.append(asyncio.ensure_future(self._watch()))
        )
        try:
            yield
        except asyncio.CancelledError:
            if not self._gone:
                raise
        finally:
            timer.cancel()
            self._stop_beating()
            for task in watcher:
                task.cancel()

    async def _watch(self) -> None:
        if self.scope["method"] == "POST":
            await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        if self._task is not None:
            self._task.cancel()

    def keep_alive(self, session_id: str, seconds: float) -> None:
        """While nothing has been answered, begin a stream after this time and go on commenting on it."""
        if accepts(self.headers, "text/event-stream"):
            loop = asyncio.get_running_loop()
            self._beat = loop.call_later(seconds, self._start_beating, session_id, seconds)

    def _start_beating(self, session_id: str, seconds: float) -> None:
        self._beating = asyncio.ensure_future(self._beat_on(session_id, seconds))

    async def _beat_on(self, session_id: str, seconds: float) -> None:
        await self._begin_stream(self._headers(Reply(session_id=session_id)))
        while True:
            await self._piece(sse.KEEP_ALIVE)
            await asyncio.sleep(seconds)

    def _stop_beating(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
        if self._beating is not None:
            self._beating.cancel()

    async def reply(self, reply: Reply) -> None:
        self._stop_beating()
        if reply.frames is not None:
            await self._stream(reply.frames, self._headers(reply), reply.status)
        elif self._begun:
            await self._send({"type": "http.response.body", "body": sse.encode(reply.body)})
        else:
            headers = self._headers(reply)
            if reply.body:
                headers.append((b"content-type", b"application/json"))
            headers.append((b"content-length", b"%d" % len(reply.body)))
            await self._send({"type": "http.response.start", "status": reply.status, "headers": headers})
            await self._send({"type": "http.response.body", "body": reply.body})

    def _headers(self, reply: Reply) -> list[tuple[bytes, bytes]]:
        headers = [*reply.headers]
        if reply.session_id:
            headers.append((b"mcp-session-id", reply.session_id.encode()))
            if self._alias:
                headers.append((self._alias.encode(), reply.session_id.encode()))
        if "origin" in self.headers and reply.status != 403:
            headers.append((b"access-control-allow-origin", self.headers["origin"].encode("latin-1")))
            headers.append((b"access-control-expose-headers", b"mcp-session-id"))
        return headers

    async def _stream(
        self, frames: AsyncIterator[bytes], headers: list[tuple[bytes, bytes]], status: int
    ) -> None:
        if not self._begun:
            await self._begin_stream(headers, status)
        try:
            async for piece in frames:
                await self._piece(piece)
        finally:
            await frames.aclose()  # type: ignore[attr-defined]
        await self._send({"type": "http.response.body", "body": b""})

    async def _begin_stream(self, headers: list[tuple[bytes, bytes]], status: int = 200) -> None:
        sent = [*headers, *STREAM_HEADERS]
        await self._send({"type": "http.response.start", "status": status, "headers": sent})
        self._begun = True

    async def _piece(self, piece: bytes) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})
