"""A client's GET stream: changes of the catalogue, and what the session's backends say on their own streams.

The event id is a cursor, so the stream can be taken up again on any instance with nothing stored. Of several streams
of one session the newest speaks, the others are only kept alive: no message goes out on two of them.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

from portico.backends.remote import RemoteBackend
from portico.caller import RequestHeaders
from portico.catalogue import CHANGE_NOTICES, Catalogue
from portico.hearing import Opening, hear, opened
from portico.http1 import Exchange
from portico.protocol import jsonrpc, sse, versions
from portico.protocol.jsonrpc import Message
from portico.protocol.modern import SUBSCRIPTION_KEY
from portico.protocol.tickets import Cursor
from portico.publication import Publication
from portico.registry import Limits
from portico.relay import one_line, readdress
from portico.sessions import Session, Sessions, Streams, UpstreamSession
from portico.upstream import lines

LOOK_S = 1.0
"""How often a stream looks whether its session has ended, got a new upstream session, or speaks on another stream."""

SPEAKING_S = 90.0
"""A stream that has not said for so long that it speaks has died with its process, and another one may."""

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
        catalogue: Callable[[], Catalogue],
        limits: Limits,
        cursor: Cursor | None,
        headers: RequestHeaders,
        nudge: Callable[[str], None],
        streams: Streams,
        closing: asyncio.Event,
    ) -> None:
        self._session = session
        self._sessions = sessions
        self._backends = backends
        self._publication = publication
        self._catalogue = catalogue
        self._limits = limits
        self._headers = headers
        self._nudge = nudge
        self._streams = streams
        self._closing = closing
        self._known = dict(cursor.known) if cursor else dict(catalogue().digests)
        self._heard = dict(cursor.heard) if cursor else {}
        self._ears: dict[str, Ear] = {}
        self._retiring: asyncio.Task[None] | None = None
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(maxsize=256)
        self._id = uuid.uuid4().hex
        self._speaks = asyncio.Event()
        self._said_so = 0.0

    def _frame(self, data: bytes, retry: int | None = None) -> bytes:
        cursor = Cursor(heard=dict(self._heard), known=dict(self._known))
        return sse.encode(data, cursor.encode(), retry)

    async def frames(self) -> AsyncIterator[bytes]:
        ends = time.monotonic() + self._limits.stream_s if self._limits.stream_s else float("inf")
        beat = time.monotonic() + self._limits.keepalive_s
        watching: list[asyncio.Task[None]] = []
        try:
            await self._speak()
            yield self._frame(b"", 1000) if self._session.version in versions.RESUMABLE else b": open\n\n"
            watching = [
                asyncio.create_task(self._watch_session()),
                asyncio.create_task(self._watch_catalogue()),
            ]
            self._streams.setdefault(self._session.id, set()).add(self._attend)
            while not watching[0].done():
                now = time.monotonic()
                if now >= ends or self._closing.is_set():
                    yield self._frame(b"", 100)
                    return
                if now >= beat:
                    yield sse.KEEP_ALIVE
                    beat = now + self._limits.keepalive_s
                data = await self._next(min(beat, ends, now + LOOK_S) - now)
                if data is not None:
                    yield self._frame(data)
        finally:
            for task in watching:
                task.cancel()
            self._be_quiet()
            await asyncio.shield(self._leave())

    async def _speak(self) -> None:
        self._said_so = time.monotonic()
        await self._sessions.listen(self._session, self._id, SPEAKING_S)
        self._speaks.set()

    async def _leave(self) -> None:
        others = self._streams.get(self._session.id, set()) - {self._attend}
        self._streams[self._session.id] = others
        if not others:
            del self._streams[self._session.id]
        await self._sessions.stop_listening(self._session, self._id)

    async def _next(self, seconds: float) -> bytes | None:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                return await self._queue.get()
        except TimeoutError:
            return None

    async def _watch_catalogue(self) -> None:
        while True:
            await self._speaks.wait()
            digests = self._catalogue().digests
            changed = [kind for kind, digest in digests.items() if self._known.get(kind) != digest]
            if changed and await self._is_quiet():
                continue
            for kind in changed:
                self._known[kind] = digests[kind]
                await self._queue.put(jsonrpc.notification(CHANGE_NOTICES[kind]))
            await self._publication.next(3600)
            await asyncio.sleep(self._publication.lag_s)

    async def _is_quiet(self) -> bool:
        """Asked before speaking: another stream may have begun since the last look."""
        session = await self._sessions.find(self._session.id)
        if session is not None and session.listener not in ("", self._id):
            self._be_quiet()
            return True
        return False

    async def _watch_session(self) -> None:
        """Ends when the session does."""
        while (session := await self._sessions.find(self._session.id)) is not None:
            if session.listener not in ("", self._id):
                self._be_quiet()
            else:
                if not session.listener or time.monotonic() > self._said_so + SPEAKING_S / 3:
                    await self._speak()
                self._listen_to(session, late=True)
                for notice in session.notices:
                    if await self._sessions.take(notice):
                        await self._queue.put(notice.value)
            await asyncio.sleep(LOOK_S)

    def _be_quiet(self) -> None:
        self._speaks.clear()
        if self._retiring is not None:
            self._retiring.cancel()
        for ear in self._ears.values():
            ear.task.cancel()
        self._ears = {}

    async def _attend(self) -> None:
        """Hear what is new in the session from its beginning."""
        session = await self._sessions.find(self._session.id)
        if session is None or not self._speaks.is_set():
            return
        self._listen_to(session, late=False)
        await opened(OPEN_S, *(ear.open for ear in self._ears.values()))

    def _listen_to(self, session: Session, *, late: bool) -> None:
        """To the own streams of legacy backends; of modern ones to what the client has subscribed to.

        `late`: what was subscribed to has been noticed only now, so something may have been missed.
        """
        wanted: dict[str, tuple[RemoteBackend, Opening]] = {}
        for name, upstream in session.upstream.items():
            backend = self._backends().get(name)
            if backend is not None:
                opening = partial(self._open_legacy, backend, upstream)
                wanted[f"{name}#{upstream.record}"] = (backend, opening)
        for name, uris in self._modern_subscriptions(session).items():
            backend = self._backends().get(name)
            if backend is not None:
                wanted[f"{name}#{jsonrpc.dumps(uris)}"] = (backend, partial(self._open_modern, backend, uris))
        stale = [self._ears.pop(key) for key in self._ears.keys() - wanted.keys()]
        for key in wanted.keys() - self._ears.keys():
            answered = asyncio.Event()
            self._ears[key] = Ear(asyncio.create_task(self._hear(*wanted[key], answered, late)), answered)

        if stale:
            self._retiring = asyncio.create_task(self._retire(stale, [*self._ears.values()]))

    async def _retire(self, stale: list[Ear], fresh: list[Ear]) -> None:
        """Only once others hear in their place, so that nothing is missed in between."""
        try:
            await opened(OPEN_S, *(ear.open for ear in fresh))
        finally:
            for ear in stale:
                ear.task.cancel()

    def _modern_subscriptions(self, session: Session) -> dict[str, list[str]]:
        eras, found = self._catalogue().eras, dict[str, list[str]]()
        for uri, owner in sorted(session.subscriptions.items()):
            if "legacy" not in eras.get(owner, ["legacy"]):
                found.setdefault(owner, []).append(uri)
        return found

    async def _open_legacy(self, backend: RemoteBackend, upstream: UpstreamSession, last: str) -> Exchange:
        return await backend.listen(upstream, await lines(backend, self._headers), last)

    async def _open_modern(self, backend: RemoteBackend, uris: list[str], _: str) -> Exchange:
        sent = await lines(backend, self._headers)
        return await backend.subscribe({"resourceSubscriptions": uris}, sent)

    async def _hear(
        self,
        backend: RemoteBackend,
        opening: Opening,
        answered: asyncio.Event,
        late: bool,
    ) -> None:
        """One backend's stream for this session. A backend that offers none is left alone."""
        last = self._heard.get(backend.name, "")
        if late and not last:
            await self._catch_up(backend)
        async for frame in hear(opening, limit=self._limits.response_bytes, last=last, answered=answered.set):
            await self._pass_on(backend, frame)

    async def _catch_up(self, backend: RemoteBackend) -> None:
        """What was said between subscribing and hearing is lost, so each of these resources may have changed."""
        session = await self._sessions.find(self._session.id)
        for uri, owner in session.subscriptions.items() if session else ():
            if owner == backend.name:
                params = {"uri": uri}
                await self._queue.put(jsonrpc.notification("notifications/resources/updated", params))

    async def _pass_on(self, backend: RemoteBackend, frame: sse.Frame) -> None:
        if frame.id is not None:
            self._heard[backend.name] = frame.id
        if not frame.data:
            return
        expires_at = time.time() + self._limits.answer_ttl_s
        data, read = readdress(one_line(frame.data), self._session.id, backend.name, expires_at)
        message = jsonrpc.read_bytes(data)
        if read is None or not isinstance(message, Message) or message.kind == "response":
            return
        if message.method.endswith("/list_changed") and not backend.declared.user_specific_list:
            self._nudge(backend.name)  # the catalogue decides whether anything really changed
        elif message.method != "notifications/subscriptions/acknowledged":
            await self._queue.put(untagged(message))


def untagged(message: Message) -> bytes:
    """Without the mark by which a modern server says which subscription a notification belongs to."""
    meta = message.param("_meta")
    if not isinstance(meta, dict) or SUBSCRIPTION_KEY not in meta:
        return message.text.encode()
    params = {name: member.value for name, member in message.params.items() if name != "_meta"}
    return jsonrpc.notification(message.method, params)
