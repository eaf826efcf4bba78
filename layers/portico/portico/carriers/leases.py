"""Upstream sessions for modern clients, who have none of their own.

A lease is used by one call at a time, so that whatever the backend says in that session belongs to that call. It is
kept for the next call of the same client, and ended when none comes.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from portico.backends.remote import RemoteBackend
from portico.errands import Errands
from portico.errors import BackendRefused
from portico.hearing import hear, opened
from portico.http1 import Headers
from portico.protocol import jsonrpc, translate, versions
from portico.protocol.jsonrpc import METHOD_NOT_FOUND, Message, Rejection
from portico.registry import DEFAULT_FORWARD_HEADERS, Limits
from portico.requests import ModernRequest
from portico.sessions import UpstreamSession

IDLE_S: Final = 60.0
MOST_IDLE: Final = 64
OPEN_S: Final = 1.0
"""How long a first call waits for the backend's own stream: what is said before that is open is lost."""


@dataclass(slots=True)
class Lease:
    backend: RemoteBackend
    upstream: UpstreamSession
    key: str
    client: dict[str, Any]
    capabilities: dict[str, Any]
    sent: Headers
    level: str | None = None
    heard: Callable[[Message], None] | None = None
    """Who is told what the backend says on its own stream; nobody between calls."""
    ear: asyncio.Task[None] | None = None
    idle_since: float = 0.0
    open: asyncio.Event = field(default_factory=asyncio.Event)


class Leases:
    def __init__(self, errands: Errands, limits: Callable[[], Limits]) -> None:
        self._errands = errands
        self._limits = limits
        self._idle: dict[str, list[Lease]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, backend: RemoteBackend, request: ModernRequest, sent: Headers) -> Lease:
        """An upstream session for this client alone: one that it had before, or a new one."""
        self._end_old()
        key = _key(backend, request, sent)
        waiting = self._idle.get(key)
        if waiting:
            lease = waiting.pop()
            lease.sent = sent
            return lease
        opening = asyncio.ensure_future(self._open(backend, request, key, sent))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._keep)
            raise

    def _keep(self, opened: asyncio.Future[Lease]) -> None:
        """Its client has gone while it was being opened: the next call of that client finds it."""
        if not opened.cancelled() and opened.exception() is None:
            self.give_back(opened.result())

    async def _open(self, backend: RemoteBackend, request: ModernRequest, key: str, sent: Headers) -> Lease:
        said = request.envelope.client
        client = said if isinstance(said, dict) else {"name": "unknown", "version": "0"}
        capabilities = translate.legacy_capabilities(request.envelope.capabilities)
        upstream = await self._initialize(backend, client, capabilities, sent)
        lease = Lease(backend, upstream, key, client, capabilities, sent)
        if capabilities.keys() & set(translate.ASKABLE.values()):
            await self.hear(lease)
        return lease

    async def _initialize(
        self, backend: RemoteBackend, client: dict[str, Any], capabilities: dict[str, Any], sent: Headers
    ) -> UpstreamSession:
        upstream, _ = await backend.initialize(
            versions.NEWEST_LEGACY, client, capabilities, sent, self._limits().call_timeout_s
        )
        return upstream

    async def renew(self, lease: Lease) -> None:
        """A new session in place of one that the backend has forgotten."""
        lease.upstream = await self._initialize(lease.backend, lease.client, lease.capabilities, lease.sent)
        if lease.level is not None:
            await self._ask_level(lease, lease.level)
        if lease.ear is not None:
            lease.ear.cancel()
            lease.open = asyncio.Event()
            await self.hear(lease)

    async def hear(self, lease: Lease) -> None:
        """Open the backend's own stream, where it may ask or tell something too."""
        lease.ear = asyncio.create_task(self._hear(lease))
        await opened(OPEN_S, lease.open)

    async def _hear(self, lease: Lease) -> None:
        frames = hear(
            lambda last: lease.backend.listen(lease.upstream, lease.sent, last),
            limit=self._limits().response_bytes,
            answered=lease.open.set,
        )
        async for frame in frames:
            message = jsonrpc.read_bytes(frame.data) if frame.data else None
            if not isinstance(message, Message):
                continue
            if lease.heard is not None:
                lease.heard(message)
            elif message.kind == "request":
                nobody = Rejection(200, METHOD_NOT_FOUND, "no call is under way", id=message.id)
                self._errands.run(_answer(lease, jsonrpc.error(nobody)))

    async def set_level(self, lease: Lease, level: str | None) -> None:
        """The level of this one call. One who wants no log messages gets none, whatever the backend sends."""
        if level is None or level == lease.level:
            return
        lease.level = level
        try:
            await self._ask_level(lease, level)
        except BackendRefused:
            await self.renew(lease)

    async def _ask_level(self, lease: Lease, level: str) -> None:
        seconds = self._limits().call_timeout_s
        await lease.backend.ask(lease.upstream, "logging/setLevel", {"level": level}, lease.sent, seconds)

    def give_back(self, lease: Lease) -> None:
        lease.heard = None
        lease.idle_since = time.monotonic()
        self._idle.setdefault(lease.key, []).append(lease)
        self._end_old()
        if self._timer is None:
            self._look_again()

    def _look_again(self) -> None:
        """For as long as any is kept: no call may ever come again."""
        self._end_old()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(IDLE_S, self._look_again) if self._idle else None

    def end(self, lease: Lease) -> None:
        lease.heard = None
        if lease.ear is not None:
            lease.ear.cancel()
        self._errands.run(lease.backend.end(lease.upstream, lease.sent))

    def _end_old(self) -> None:
        """Those that nobody has used for a while, and the oldest when there are too many."""
        every = sorted((lease for kept in self._idle.values() for lease in kept), key=lambda x: x.idle_since)
        oldest = time.monotonic() - IDLE_S
        for lease in every[: max(len(every) - MOST_IDLE, sum(x.idle_since < oldest for x in every))]:
            self._idle[lease.key].remove(lease)
            if not self._idle[lease.key]:
                del self._idle[lease.key]
            self.end(lease)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for lease in [lease for kept in self._idle.values() for lease in kept]:
            self.end(lease)
        self._idle = {}


async def _answer(lease: Lease, body: bytes) -> None:
    await lease.backend.tell(lease.upstream, body, lease.sent, 10)


def _key(backend: RemoteBackend, request: ModernRequest, sent: Headers) -> str:
    """What must be the same for two calls to share a session: the backend, who asks, and what he can do."""
    passing = {name.encode() for name in DEFAULT_FORWARD_HEADERS}
    lines = [
        [name.decode("latin-1"), value.decode("latin-1")]
        for name, value in sent
        if name not in passing and not name.startswith(b"x-mcp-")
    ]
    envelope = request.envelope
    who: list[Any] = [
        *(backend.name, backend.declared.url, request.principal),
        *(envelope.client, envelope.capabilities, sorted(lines)),
    ]
    return hashlib.sha256(jsonrpc.dumps(who).encode()).hexdigest()
