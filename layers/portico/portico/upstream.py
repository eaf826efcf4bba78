"""Upstream sessions: one per gateway session and backend, opened when first needed, brought to where the client is."""

import asyncio
import contextlib
from collections.abc import Callable

from portico.backends.remote import RemoteBackend
from portico.caller import RequestHeaders
from portico.catalogue import Catalogue
from portico.errands import Errands
from portico.errors import BackendError, BackendRefused, BackendUnreachable, EraChanged, Unauthorized
from portico.http1 import Headers
from portico.registry import Limits
from portico.sessions import Session, Sessions, Streams, UpstreamSession

LEVEL_S = 10.0
"""How long a backend may take to note a log level before the client is answered without it."""


async def lines(backend: RemoteBackend, headers: RequestHeaders) -> Headers:
    """The headers that a client's request has at this backend."""
    return [*backend.forwardable(headers), *await backend.for_call(headers)]


class Upstream:
    def __init__(self, sessions: Sessions, errands: Errands, limits: Callable[[], Limits]) -> None:
        self._sessions = sessions
        self._errands = errands
        self._limits = limits
        self.streams: Streams = {}
        self._opening: dict[tuple[str, str], asyncio.Future[UpstreamSession]] = {}

    async def session(
        self, backend: RemoteBackend, session: Session, catalogue: Catalogue, headers: RequestHeaders
    ) -> UpstreamSession:
        """However many calls need it first, one is opened."""
        known = session.upstream.get(backend.name)
        if known is not None:
            return known
        key = (session.id, backend.name)
        under_way = self._opening.get(key)
        if under_way is None:
            under_way = asyncio.ensure_future(self._open(backend, session, catalogue, headers))
            self._opening[key] = under_way
            under_way.add_done_callback(lambda _: self._opening.pop(key, None))
        return await asyncio.shield(under_way)

    async def renewed(
        self,
        backend: RemoteBackend,
        session: Session,
        forgotten: UpstreamSession,
        catalogue: Catalogue,
        headers: RequestHeaders,
    ) -> UpstreamSession:
        """In place of one that the backend has forgotten."""
        await self._sessions.leave(session, forgotten)
        without = {name: up for name, up in session.upstream.items() if name != backend.name}
        return await self.session(backend, session.having(without), catalogue, headers)

    async def _open(
        self, backend: RemoteBackend, session: Session, catalogue: Catalogue, headers: RequestHeaders
    ) -> UpstreamSession:
        known = await self._sessions.find(session.id)
        if known and backend.name in known.upstream:
            return known.upstream[backend.name]
        sent, seconds = await lines(backend, headers), self._limits().call_timeout_s
        try:
            made, _ = await backend.initialize(
                session.version, session.client, session.capabilities, sent, seconds
            )
        except EraChanged:
            raise
        except Unauthorized as error:
            text = f"failed to create session for mcp server ({error})"
            raise Unauthorized(error.upstream_status, text, error.challenge) from None
        except BackendRefused as error:
            text = f"failed to create session for mcp server ({error})"
            raise BackendRefused(error.upstream_status, text) from None
        joined = await self._sessions.join(session, made)
        if joined is None:
            self._errands.run(backend.end(made, sent))
            known = await self._sessions.find(session.id)
            if known and backend.name in known.upstream:
                return known.upstream[backend.name]
            raise BackendUnreachable("the session ended meanwhile")
        await self.attend(session.id)
        if known:
            await self._restore(backend, joined, known, catalogue, sent)
        return joined

    async def attend(self, session_id: str) -> None:
        """Let the session's streams in this process hear what there is to hear now, before it is missed."""
        for attend in tuple(self.streams.get(session_id, ())):
            await attend()

    async def _restore(
        self,
        backend: RemoteBackend,
        upstream: UpstreamSession,
        session: Session,
        catalogue: Catalogue,
        sent: Headers,
    ) -> None:
        """Bring a new upstream session to where the client believes it is."""
        seconds = self._limits().call_timeout_s
        with contextlib.suppress(BackendError):
            if session.level and "logging" in catalogue.capabilities.get(backend.name, {}):
                await self.set_level(backend, upstream, session.level, sent)
            for uri, owner in session.subscriptions.items():
                if owner == backend.name:
                    await backend.ask(upstream, "resources/subscribe", {"uri": uri}, sent, seconds)

    async def set_level(
        self, backend: RemoteBackend, upstream: UpstreamSession, level: str, sent: Headers
    ) -> None:
        seconds = min(LEVEL_S, self._limits().call_timeout_s)
        await backend.ask(upstream, "logging/setLevel", {"level": level}, sent, seconds)
