"""A client's GET stream: changes of the catalogue, and what the session's backends say on their own streams.

The event id is a cursor, so the stream can be taken up again on any instance with nothing stored.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable

from portico.backends.remote import RemoteBackend
from portico.catalogue import CHANGE_NOTICES
from portico.discovery import Publication
from portico.errors import BackendError
from portico.http1 import Headers
from portico.protocol import jsonrpc, sse, versions
from portico.protocol.jsonrpc import Message
from portico.protocol.tickets import Cursor
from portico.registry import Limits
from portico.relay import one_line, readdress
from portico.sessions import Session, Sessions, UpstreamSession

LOOK_S = 1.0
"""How often a stream looks whether its session has ended or got a new upstream session elsewhere."""

log = logging.getLogger("portico.listening")


class Listening:
    def __init__(
        self,
        session: Session,
        sessions: Sessions,
        backends: Callable[[], dict[str, RemoteBackend]],
        publication: Publication,
        limits: Limits,
        cursor: Cursor | None,
        headers: dict[str, str],
        nudge: Callable[[str], None],
    ) -> None:
        self._session = session
        self._sessions = sessions
        self._backends = backends
        self._publication = publication
        self._limits = limits
        self._headers = headers
        self._nudge = nudge
        self._known = dict(cursor.known) if cursor else dict(publication.current.digests)
        self._heard = dict(cursor.heard) if cursor else {}
        self._ears: dict[str, asyncio.Task[None]] = {}
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(maxsize=256)

    def _frame(self, data: bytes, retry: int | None = None) -> bytes:
        cursor = Cursor(heard=dict(self._heard), known=dict(self._known))
        return sse.encode(data, cursor.encode(), retry)

    async def frames(self) -> AsyncIterator[bytes]:
        yield self._frame(b"", 1000) if self._session.version in versions.RESUMABLE else b": open\n\n"
        catalogue = asyncio.create_task(self._watch_catalogue())
        upstream = asyncio.create_task(self._watch_upstream())
        ends = time.monotonic() + self._limits.stream_s if self._limits.stream_s else None
        try:
            while not upstream.done():
                wait = self._limits.keepalive_s
                if ends is not None:
                    wait = min(wait, ends - time.monotonic())
                    if wait <= 0:
                        yield self._frame(b"", 100)
                        return
                try:
                    async with asyncio.timeout(min(wait, LOOK_S * 2) if ends is None else wait):
                        data = await self._queue.get()
                except TimeoutError:
                    if wait <= LOOK_S * 2 or self._due():
                        yield sse.KEEP_ALIVE
                    continue
                yield self._frame(data)
        finally:
            for task in (catalogue, upstream, *self._ears.values()):
                task.cancel()

    _last_beat = 0.0

    def _due(self) -> bool:
        now = time.monotonic()
        if now - self._last_beat < self._limits.keepalive_s:
            return False
        self._last_beat = now
        return True

    async def _watch_catalogue(self) -> None:
        while True:
            for kind, digest in self._publication.current.digests.items():
                if self._known.get(kind) != digest:
                    self._known[kind] = digest
                    await self._queue.put(jsonrpc.notification(CHANGE_NOTICES[kind]))
            await self._publication.next(3600)

    async def _watch_upstream(self) -> None:
        """Ends when the session does."""
        while (session := await self._sessions.find(self._session.id)) is not None:
            for name, upstream in session.upstream.items():
                key = f"{name}#{upstream.record}"
                backend = self._backends().get(name)
                if key not in self._ears and backend is not None:
                    self._ears[key] = asyncio.create_task(self._hear(backend, upstream))
            await asyncio.sleep(LOOK_S)

    async def _hear(self, backend: RemoteBackend, upstream: UpstreamSession) -> None:
        """One backend's own stream for this session. A backend that offers none is left alone."""
        headers: Headers = [*backend.forwardable(self._headers), *backend.credential("call")]
        while True:
            try:
                exchange = await backend.listen(upstream, headers, self._heard.get(backend.name, ""))
                try:
                    if not await exchange.head(10) or exchange.status != 200:
                        return
                    decoder = sse.Decoder(self._limits.response_bytes)
                    while (chunk := await exchange.chunk(3600)) != b"":
                        for frame in decoder.feed(chunk or b""):
                            await self._pass_on(backend, frame)
                finally:
                    exchange.close()
            except (BackendError, sse.FrameTooLarge) as error:
                log.debug("stream of %s broke: %s", backend.name, error)
            await asyncio.sleep(1)

    async def _pass_on(self, backend: RemoteBackend, frame: sse.Frame) -> None:
        if frame.id is not None:
            self._heard[backend.name] = frame.id
        if not frame.data:
            return
        expires_at = time.time() + self._limits.answer_ttl_s
        data, message = readdress(one_line(frame.data), self._session.id, backend.name, expires_at)
        if not isinstance(message, Message) or message.kind == "response":
            return
        if message.method.endswith("/list_changed") and not backend.declared.user_specific_list:
            self._nudge(backend.name)  # the catalogue decides whether anything really changed
            return
        await self._queue.put(data)
