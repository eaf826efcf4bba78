"""A client's GET stream: changes of the catalogue, and what the session's backends say on their own streams.

The event id is a cursor, so the stream can be taken up again on any instance with nothing stored.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

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
from portico.sessions import Session, Sessions, Streams, UpstreamSession

LOOK_S = 1.0
"""How often a stream looks whether its session has ended or got a new upstream session elsewhere."""

OPEN_S = 1.0
"""How long a session's first call waits for the backend's own stream: what comes before that is open is lost."""

log = logging.getLogger("portico.listening")


@dataclass(frozen=True, slots=True)
class Ear:
    """One upstream stream being heard."""

    task: asyncio.Task[None]
    open: asyncio.Event
    """Set once the backend has answered, also if it has no stream."""


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
        streams: Streams,
    ) -> None:
        self._session = session
        self._sessions = sessions
        self._backends = backends
        self._publication = publication
        self._limits = limits
        self._headers = headers
        self._nudge = nudge
        self._streams = streams
        self._known = dict(cursor.known) if cursor else dict(publication.current.digests)
        self._heard = dict(cursor.heard) if cursor else {}
        self._ears: dict[str, Ear] = {}
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(maxsize=256)

    def _frame(self, data: bytes, retry: int | None = None) -> bytes:
        cursor = Cursor(heard=dict(self._heard), known=dict(self._known))
        return sse.encode(data, cursor.encode(), retry)

    async def frames(self) -> AsyncIterator[bytes]:
        yield self._frame(b"", 1000) if self._session.version in versions.RESUMABLE else b": open\n\n"
        catalogue = asyncio.create_task(self._watch_catalogue())
        upstream = asyncio.create_task(self._watch_upstream())
        self._streams.setdefault(self._session.id, set()).add(self.attend)
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
            self._streams[self._session.id].discard(self.attend)
            if not self._streams[self._session.id]:
                del self._streams[self._session.id]
            for task in (catalogue, upstream, *(ear.task for ear in self._ears.values())):
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
            for upstream in session.upstream.values():
                self._attend(upstream)
            await asyncio.sleep(LOOK_S)

    async def attend(self, upstream: UpstreamSession) -> None:
        """Hear a new upstream session from its beginning."""
        ear = self._attend(upstream)
        if ear is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OPEN_S):
                    await ear.open.wait()

    def _attend(self, upstream: UpstreamSession) -> Ear | None:
        key = f"{upstream.backend}#{upstream.record}"
        backend = self._backends().get(upstream.backend)
        if key not in self._ears and backend is not None:
            answered = asyncio.Event()
            self._ears[key] = Ear(asyncio.create_task(self._hear(backend, upstream, answered)), answered)
        return self._ears.get(key)

    async def _hear(self, backend: RemoteBackend, upstream: UpstreamSession, answered: asyncio.Event) -> None:
        """One backend's own stream for this session. A backend that offers none is left alone."""
        headers: Headers = [*backend.forwardable(self._headers), *backend.credential("call")]
        while True:
            try:
                exchange = await backend.listen(upstream, headers, self._heard.get(backend.name, ""))
                try:
                    there = await exchange.head(10) and exchange.status == 200
                    answered.set()
                    if not there:
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
