"""Gateway sessions and the upstream sessions that hang on them: rows in the store, one partition per session."""

import contextlib
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from portico.stores.base import ABSENT, Conflict, Record, Store

_ABOUT = "ABOUT"
_BACKEND = "BACKEND#"
_LISTENER = "LISTENER"
_NOTICE = "NOTICE#"
NOTICE_S = 600.0
"""For how long a client may come for what it is to be told."""
_KEPT = ("version", "client", "capabilities", "level", "subscriptions", "owner")
MOST_FOUND = 10_000
LONGEST_ID = 64
"""Ours are shorter, and no store is asked for what cannot be one."""
"""Sessions kept in mind at a time."""


@dataclass(frozen=True, slots=True)
class UpstreamSession:
    backend: str
    id: str
    """Empty when the backend keeps no sessions."""
    version: str
    record: str = ""
    """The record's version, for taking back just this one."""


Streams = dict[str, set[Callable[[], Awaitable[None]]]]
"""Per gateway session, its open GET streams in this process: what to await so that they hear all there is to hear."""


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    version: str
    client: dict[str, Any]
    capabilities: dict[str, Any]
    expires_at: float | None
    level: str | None = None
    subscriptions: dict[str, str] = field(default_factory=dict)
    """Address to backend."""
    upstream: dict[str, UpstreamSession] = field(default_factory=dict)
    record: str = ""
    listener: str = ""
    """The one GET stream, of however many, on which this session is told things."""
    owner: str = ""
    """The principal it belongs to; empty where nobody is asked who he is."""
    notices: tuple[Record, ...] = ()
    """What its client is still to be told."""

    def having(self, upstream: dict[str, UpstreamSession]) -> "Session":
        return replace(self, upstream=upstream)


class Sessions:
    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._stamp: object = None
        self._found: dict[str, Session] = {}

    async def begin(
        self,
        version: str,
        client: dict[str, Any],
        capabilities: dict[str, Any],
        ttl_s: float,
        owner: str = "",
    ) -> Session:
        expires_at = self._clock() + ttl_s if ttl_s else None
        session = Session(str(uuid.uuid4()), version, client, capabilities, expires_at, owner=owner)
        await self._store.put(
            _partition(session.id), _ABOUT, _pack(session), expect=ABSENT, expires_at=expires_at
        )
        return session

    async def find(self, id_: str) -> Session | None:
        """The session and all its upstream sessions. Not read again while nothing in the store has changed."""
        if len(id_) > LONGEST_ID:
            return None
        stamp = self._store.stamp()
        if stamp is None:
            return await self._read(id_)
        if stamp != self._stamp or len(self._found) > MOST_FOUND:
            self._found, self._stamp = {}, stamp
        session = self._found.get(id_) or await self._read(id_)
        if session is None or (session.expires_at is not None and session.expires_at <= self._clock()):
            return None
        self._found[id_] = session
        return session

    async def _read(self, id_: str) -> Session | None:
        about: Record | None = None
        upstream: dict[str, UpstreamSession] = {}
        listener = ""
        notices: list[Record] = []
        for record in await self._store.query(_partition(id_)):
            if record.sort == _ABOUT:
                about = record
            elif record.sort == _LISTENER:
                listener = record.value.decode()
            elif record.sort.startswith(_NOTICE):
                notices.append(record)
            elif record.sort.startswith(_BACKEND):
                name = record.sort[len(_BACKEND) :]
                fields = json.loads(record.value)
                upstream[name] = UpstreamSession(name, fields["id"], fields["version"], record.version)
        if about is None:
            return None
        return Session(
            id_,
            **_unpack(about.value),
            upstream=upstream,
            expires_at=about.expires_at,
            record=about.version,
            listener=listener,
            notices=tuple(notices),
        )

    async def tell(self, id_: str, notice: bytes) -> None:
        """Whichever process has the session's stream says it to the client."""
        partition, sort = _partition(id_), _NOTICE + uuid.uuid4().hex
        await self._store.put(partition, sort, notice, expires_at=self._clock() + NOTICE_S)
        if await self._store.get(partition, _ABOUT) is None:
            await self._store.delete(partition, sort)

    async def take(self, notice: Record) -> bool:
        """Whether it is this caller's to tell."""
        return await self._store.delete(notice.partition, notice.sort)

    async def listen(self, session: Session, listener: str, seconds: float) -> None:
        """From now on this stream speaks, and no other, until it has not said so again for that time."""
        partition = _partition(session.id)
        await self._store.put(partition, _LISTENER, listener.encode(), expires_at=self._clock() + seconds)
        if await self._store.get(partition, _ABOUT) is None:
            await self._store.delete(partition, _LISTENER)

    async def stop_listening(self, session: Session, listener: str) -> None:
        """Another stream of the session may speak now, unless one does already."""
        record = await self._store.get(_partition(session.id), _LISTENER)
        if record is not None and record.value == listener.encode():
            with contextlib.suppress(Conflict):
                await self._store.delete(_partition(session.id), _LISTENER, expect=record.version)

    async def change(
        self, session: Session, *, level: str | None = None, subscribe: tuple[str, str | None] | None = None
    ) -> None:
        """Remember a log level, or a subscription (address, backend; without a backend it ends)."""
        while True:
            fresh = await self.find(session.id)
            if fresh is None:
                return
            subscriptions = dict(fresh.subscriptions)
            if subscribe and subscribe[1]:
                subscriptions[subscribe[0]] = subscribe[1]
            elif subscribe:
                subscriptions.pop(subscribe[0], None)
            value = _pack(fresh, level=level or fresh.level, subscriptions=subscriptions)
            try:
                await self._store.put(
                    _partition(fresh.id), _ABOUT, value, expect=fresh.record, expires_at=fresh.expires_at
                )
            except Conflict:
                continue
            return

    async def join(self, session: Session, upstream: UpstreamSession) -> UpstreamSession | None:
        """Keep a new upstream session; None if another instance was first, or the session has ended meanwhile."""
        value = json.dumps({"id": upstream.id, "version": upstream.version}).encode()
        partition, sort = _partition(session.id), _BACKEND + upstream.backend
        try:
            record = await self._store.put(
                partition, sort, value, expect=ABSENT, expires_at=session.expires_at
            )
        except Conflict:
            return None
        if await self._store.get(partition, _ABOUT) is None:
            await self._store.delete(partition, sort)
            return None
        return UpstreamSession(upstream.backend, upstream.id, upstream.version, record.version)

    async def leave(self, session: Session, upstream: UpstreamSession) -> None:
        """Forget an upstream session that the backend has forgotten, unless somebody has replaced it already."""
        try:
            await self._store.delete(
                _partition(session.id), _BACKEND + upstream.backend, expect=upstream.record
            )
        except Conflict:
            return

    async def end(self, session: Session) -> None:
        await self._store.drop(_partition(session.id))


def _partition(id_: str) -> str:
    return f"SESSION#{id_}"


def _pack(session: Session, **changes: Any) -> bytes:
    return json.dumps({name: getattr(session, name) for name in _KEPT} | changes).encode()


def _unpack(value: bytes) -> dict[str, Any]:
    """What another release of Portico has added is passed over: several may share a store."""
    return {name: item for name, item in json.loads(value).items() if name in _KEPT}
