"""One HTTP request of a client and the answer to it: reading it, noticing that it hung up, keeping it waiting alive."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from authz.model import Principal
from authz.places import Place
from portico.caller import RequestHeaders
from portico.protocol import sse
from portico.protocol.inbound import accepts
from portico.protocol.jsonrpc import Id, Message
from portico.replies import Reply

if TYPE_CHECKING:  # the edge takes types from here, and must not wait for the router
    from portico.observability import Call

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

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
        headers: RequestHeaders,
        repeated: frozenset[str],
        alias: str | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.scope = scope
        self.headers = headers
        self.repeated = repeated
        """The names of headers that came more than once: only the last is in `headers`."""
        self._receive = receive
        self._send = send
        self._alias = alias
        self._loop = loop
        self._task = asyncio.current_task(loop)
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._comments: asyncio.Task[None] | None = None
        self._alive: tuple[str, float] | None = None
        self._begun = False
        self.asked: Id = None
        """The id of the request in it, once that has been read."""
        self.place = Place("open", free=True)
        self.principal: Principal | None = None
        """Who asks, where everybody is asked who he is."""
        self.call: Call | None = None
        """What is noted of it, if anybody wants to know."""
        self.gone = False
        """It has hung up, and whoever worked for it was told by a CancelledError."""

    def note(self) -> None:
        """What is noted of it ends with the answer, whoever gives it."""
        if self.call is not None:
            self._send = self.call.seen_by(self._send)

    @property
    def owner(self) -> str:
        """To whom whatever it begins belongs."""
        return self.principal.key if self.principal else ""

    def read(self, message: Message) -> None:
        """What it asks, as soon as it is known: an answer needs its id, and the log its name."""
        if message.kind == "request":
            self.asked = message.id
        if self.call is not None:
            self.call.asked(message)

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
        return body if len(body) <= limit else None

    async def hand_over(self, application: Application) -> None:
        """The whole request, unread, and the answering of it."""
        await application(self.scope, self._receive, self._send)

    # While it waits

    def watch(self) -> None:
        """Whoever goes away ends his request. Only once the request has been read, and short ones not at all."""
        self._timer = self._loop.call_later(WATCH_AFTER_S, self._start_watching)

    def keep_alive(self, session_id: str, seconds: float) -> None:
        """While nothing has been answered, begin a stream after this time and go on commenting on it."""
        self._alive = (session_id, seconds)
        if self._watcher is not None:
            self._comments = self._loop.create_task(self._comment(*self._alive))

    def _start_watching(self) -> None:
        self._watcher = self._loop.create_task(self._watch_connection())
        if self._alive is not None:
            self._comments = self._loop.create_task(self._comment(*self._alive))

    async def _watch_connection(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        if self._task is not None:
            self._task.cancel()

    async def _comment(self, session_id: str, seconds: float) -> None:
        await asyncio.sleep(max(seconds - WATCH_AFTER_S, 0))
        if accepts(self.headers, "text/event-stream"):
            await self._begin_stream(self._headers(Reply(session_id=session_id)))
            while True:
                await self._piece(sse.KEEP_ALIVE)
                await asyncio.sleep(seconds)

    def _stop_commenting(self) -> None:
        self._alive = None
        if self._comments is not None:
            self._comments.cancel()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        self._stop_commenting()

    # The answer

    async def reply(self, reply: Reply) -> None:
        self._stop_commenting()
        if reply.frames is not None:
            await self._stream(reply.frames, self._headers(reply), reply.status)
        elif self._begun:
            await self._send({"type": "http.response.body", "body": sse.encode(reply.body)})
        else:
            headers = self._headers(reply)
            if reply.body and not any(name == b"content-type" for name, _ in headers):
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
        if "origin" in self.headers and not any(
            name == b"access-control-allow-origin" for name, _ in headers
        ):
            headers.append((b"access-control-allow-origin", self.headers["origin"].encode("latin-1")))
            headers.append((b"access-control-expose-headers", b"mcp-session-id, www-authenticate"))
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
