"""A legacy client's request at a legacy backend: relayed within the upstream session, to the byte."""

import asyncio
from collections.abc import AsyncIterator, Callable

from portico.backends.remote import RemoteBackend
from portico.caller import RequestHeaders
from portico.errands import Errands
from portico.errors import BackendError, BackendTimedOut
from portico.http1 import Exchange, Headers
from portico.protocol import jsonrpc
from portico.protocol.inbound import accepts
from portico.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Message, Rejection
from portico.protocol.tickets import Cursor
from portico.registry import Limits
from portico.relay import (
    LegacyAnswerStream,
    check_answer,
    forgotten,
    head,
    last_answer,
    refuse_other_than_200,
    whole,
)
from portico.replies import Reply, refusal
from portico.requests import LegacyRequest
from portico.sessions import Session, Sessions, UpstreamSession
from portico.upstream import Upstream, lines


class LegacyRelay:
    def __init__(
        self, sessions: Sessions, upstream: Upstream, errands: Errands, limits: Callable[[], Limits]
    ) -> None:
        self._sessions = sessions
        self._upstream = upstream
        self._errands = errands
        self._limits = limits

    async def carry(
        self, backend: RemoteBackend, body: bytes, request: LegacyRequest, sent: Headers
    ) -> Reply:
        session, catalogue = request.session, request.catalogue
        upstream = await self._upstream.session(backend, session, catalogue, request.headers)
        exchange = await backend.post(upstream, body, sent)
        seconds = self._limits().call_timeout_s
        try:
            await head(exchange, seconds)
            if await forgotten(exchange):
                upstream = await self._upstream.renewed(
                    backend, session, upstream, catalogue, request.headers
                )
                exchange = await backend.post(upstream, body, sent)
                await head(exchange, seconds)
            return await self._answer(exchange, backend, upstream, request)
        except (asyncio.CancelledError, BackendTimedOut):
            exchange.close()
            self._errands.run(_cancel(backend, upstream, request))
            raise
        except BackendError:
            exchange.close()
            raise

    async def _answer(
        self, exchange: Exchange, backend: RemoteBackend, upstream: UpstreamSession, request: LegacyRequest
    ) -> Reply:
        message = request.message
        await refuse_other_than_200(exchange)
        body = await whole(exchange, self._limits())
        if body is not None:
            check_answer(body, message.id)
            await self._remember(message, backend, request.session, body)
            return Reply(200, body)
        stream = LegacyAnswerStream(exchange, backend.name, request.session.id, message.id, self._limits())
        frames = self._watched(stream, backend, upstream, request)
        await self._remember(message, backend, request.session, b'"result"')
        if accepts(request.headers, "text/event-stream"):
            return Reply(200, frames=frames)
        return Reply(200, await last_answer(frames, message.id))

    async def _watched(
        self,
        stream: LegacyAnswerStream,
        backend: RemoteBackend,
        upstream: UpstreamSession,
        request: LegacyRequest,
    ) -> AsyncIterator[bytes]:
        """The stream; one that ends before its answer and cannot be taken up again is a call cancelled."""
        try:
            async for piece in stream.frames():
                yield piece
        finally:
            if not stream.answered and not stream.resumable:
                self._errands.run(_cancel(backend, upstream, request))

    async def _remember(
        self, message: Message, backend: RemoteBackend, session: Session, body: bytes
    ) -> None:
        """A subscription outlives the upstream session it was made in."""
        if b'"result"' not in body:
            return
        if message.method == "resources/subscribe":
            await self._sessions.change(session, subscribe=(message.param("uri"), backend.name))
        elif message.method == "resources/unsubscribe":
            await self._sessions.change(session, subscribe=(message.param("uri"), None))

    async def deliver(self, backend: RemoteBackend, body: bytes, session: Session, sent: Headers) -> Reply:
        """The client's answer to a backend's request, or its progress."""
        upstream = session.upstream.get(backend.name)
        if upstream is None:
            nobody = "no request with this id is waiting for an answer"
            return refusal(Rejection(400, INVALID_REQUEST, nobody))
        status = await backend.tell(upstream, body, sent, self._limits().call_timeout_s)
        return Reply(202 if status < 300 else 400)

    async def resume(
        self, backend: RemoteBackend | None, session: Session, cursor: Cursor, headers: RequestHeaders
    ) -> Reply:
        """Take up the stream of a call again, at the backend that keeps it."""
        upstream = session.upstream.get(cursor.backend)
        gone = refusal(Rejection(400, INVALID_PARAMS, "the stream of this event is gone"), session.id)
        if backend is None or upstream is None:
            return gone
        exchange = await backend.listen(upstream, await lines(backend, headers), cursor.event)
        await head(exchange, self._limits().call_timeout_s)
        if exchange.status != 200:
            exchange.close()
            return gone
        stream = LegacyAnswerStream(exchange, backend.name, session.id, None, self._limits())
        stream.resumable = True
        return Reply(200, frames=stream.frames(), session_id=session.id)


async def _cancel(backend: RemoteBackend, upstream: UpstreamSession, request: LegacyRequest) -> None:
    params = {"requestId": request.message.id, "reason": "client gone"}
    body = jsonrpc.notification("notifications/cancelled", params)
    await backend.tell(upstream, body, await lines(backend, request.headers), 10)
