"""Carries a Decision out: sessions, upstream sessions, relay. The only part that touches them."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from portico import answers
from portico.backends.remote import RemoteBackend
from portico.catalogue import LISTS, Catalogue, Definition, tool_problem
from portico.discovery import Publication
from portico.errands import Errands
from portico.errors import BackendError, BackendRefused, BackendTimedOut, BackendUnreachable
from portico.http1 import Exchange, Headers
from portico.protocol import jsonrpc, names, sse, versions
from portico.protocol.inbound import accepts
from portico.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Message, Rejection
from portico.protocol.tickets import Cursor
from portico.registry import Registry
from portico.relay import CallStream, check_answer
from portico.replies import Reply, once, refusal
from portico.router import Answer, Decision, Forward, Ignore, Refuse, Spread, UnknownTool, route
from portico.sessions import Session, Sessions, UpstreamSession
from portico.upstream import Upstream, lines

log = logging.getLogger("portico.broker")

PERSONAL: dict[str, str] = {"tools": "tools/list", "prompts": "prompts/list"}
"""The listings that may differ from user to user."""


@dataclass(frozen=True, slots=True)
class Request:
    """One message of a client, and what is known of who sent it."""

    message: Message
    headers: dict[str, str]
    session: Session
    catalogue: Catalogue
    """As this client may see it."""


class Broker:
    def __init__(self, sessions: Sessions, publication: Publication) -> None:
        self.sessions = sessions
        self.publication = publication
        self.registry = Registry()
        self.backends: dict[str, RemoteBackend] = {}
        self._errands = Errands()
        self.upstream = Upstream(sessions, self._errands, lambda: self.registry.limits)

    def decide(self, request: Request) -> Decision:
        return route(request.message, request.catalogue, request.session.id, time.time())

    async def carry(self, decision: Decision, request: Request) -> Reply:
        match decision:
            case Forward():
                reply = await self._forward(decision, request)
            case Answer():
                reply = await self._answer(decision, request)
            case UnknownTool():
                wish, version = self.registry.compat.unknown_tool, request.session.version
                as_result = answers.unknown_tool_is_result(wish, version)
                reply = answers.unknown_tool(decision.name, request.message.id, as_result=as_result)
            case Refuse():
                reply = refusal(decision.rejection)
            case Spread():
                await self._spread(request, decision.body)
                reply = Reply(202)
            case Ignore():
                reply = Reply(202)
        return self._dressed(reply, request.session, request.headers)

    def _dressed(self, reply: Reply, session: Session, headers: dict[str, str]) -> Reply:
        """With the session's id, and as SSE for a client that expects that."""
        if (
            reply.frames is None
            and reply.status == 200
            and answers.is_streamed(self.registry.compat.response, session.version)
            and accepts(headers, "text/event-stream")
        ):
            return Reply(200, frames=once(sse.encode(reply.body)), session_id=session.id)
        return Reply(reply.status, reply.body, reply.frames, session.id, reply.headers)

    async def settle(self) -> None:
        """Finish what is still to be done for clients that were answered."""
        await self._errands.settle()

    # Sessions

    async def begin(self, message: Message, headers: dict[str, str], catalogue: Catalogue) -> Reply:
        requested = message.param("protocolVersion")
        if requested is not None and not isinstance(requested, str):
            return refusal(Rejection(400, INVALID_PARAMS, "protocolVersion must be a string", id=message.id))
        version = versions.negotiate(requested or "")
        client, capabilities = message.param("clientInfo"), message.param("capabilities")
        session = await self.sessions.begin(
            version,
            client if isinstance(client, dict) else {"name": "unknown", "version": "0"},
            capabilities if isinstance(capabilities, dict) else {},
            self.registry.limits.session_ttl_s,
        )
        body = jsonrpc.result(message.id, answers.about(catalogue, self.registry.gateway, version))
        return self._dressed(Reply(200, body), session, headers)

    async def end(self, session: Session, headers: dict[str, str]) -> None:
        await self.sessions.end(session)
        for name, upstream in session.upstream.items():
            backend = self.backends.get(name)
            if backend is not None:
                self._errands.run(backend.end(upstream, lines(backend, headers)))

    async def _spread(self, request: Request, body: bytes) -> None:
        for name, upstream in request.session.upstream.items():
            backend = self.backends.get(name)
            if backend is not None:
                with contextlib.suppress(BackendError):
                    await backend.tell(upstream, body, lines(backend, request.headers), 10)

    # Answers of the gateway's own

    async def _answer(self, decision: Answer, request: Request) -> Reply:
        message = request.message
        if decision.method in LISTS:
            return await self._listing(LISTS[decision.method], request)
        if decision.method == "logging/setLevel":
            return await self._set_level(request)
        return Reply(200, jsonrpc.result(message.id, {}))

    async def _listing(self, name: str, request: Request) -> Reply:
        catalogue, size, id_ = request.catalogue, self.registry.limits.page_size, request.message.id
        personal = name in PERSONAL and bool(catalogue.personal)
        if not size and not personal:
            return Reply(200, jsonrpc.result_bytes(id_, catalogue.answers[name]))
        items = catalogue.definitions[name]
        if personal:
            items = items + await self._personal_items(name, request)
        return answers.page(id_, name, items, size, request.message.param("cursor"))

    async def _personal_items(self, name: str, request: Request) -> list[Definition]:
        """What the backends with a list for each user show to this one. One that fails costs its own part only."""
        found = await asyncio.gather(
            *(self._personal_part(name, backend, request) for backend in request.catalogue.personal.values())
        )
        known = {item["name"] for item in request.catalogue.definitions[name]}
        return [item for part in found for item in part if item["name"] not in known]

    async def _personal_part(self, name: str, owner: str, request: Request) -> list[Definition]:
        backend = self.backends.get(owner)
        if backend is None:
            return []
        sent, seconds = lines(backend, request.headers), self.registry.discovery.timeout_s
        try:
            upstream = await self.upstream.session(
                backend, request.session, request.catalogue, request.headers
            )
            items = (await backend.pages(upstream, PERSONAL[name], name, sent, seconds)).items
        except BackendError as error:
            log.warning("backend %s: %s", owner, error)
            return []
        named = [item for item in items if isinstance(item.get("name"), str)]
        good = [item for item in named if name != "tools" or not tool_problem(item)]
        exposed = [{**item, "name": names.expose(backend.declared.prefix, item["name"])} for item in good]
        return [item for item in exposed if request.catalogue.shows(name, item["name"])]

    async def _set_level(self, request: Request) -> Reply:
        level, id_ = request.message.param("level"), request.message.id
        if level not in answers.LEVELS:
            known = ", ".join(answers.LEVELS)
            return refusal(Rejection(200, INVALID_PARAMS, f"level must be one of {known}", id=id_))
        await self.sessions.change(request.session, level=level)
        for name, upstream in request.session.upstream.items():
            backend = self.backends.get(name)
            if backend is not None and "logging" in request.catalogue.capabilities.get(name, {}):
                with contextlib.suppress(BackendError):
                    await self.upstream.set_level(backend, upstream, level, lines(backend, request.headers))
        return Reply(200, jsonrpc.result(id_, {}))

    # What a backend answers

    async def _forward(self, decision: Forward, request: Request) -> Reply:
        backend, message = self.backends.get(decision.backend), request.message
        if backend is None:
            gone = BackendUnreachable("the backend is not declared any more")
            return refusal(gone.rejection(decision.backend, message.id))
        sent = lines(backend, request.headers)
        sent += [(name.encode(), _header_value(value)) for name, value in decision.headers.items()]
        sent.append((b"x-mcp-servername", backend.name.encode()))
        try:
            if message.kind != "request":
                return await self._deliver(backend, decision, request.session, sent)
            sent.append((b"x-mcp-method", message.method.encode()))
            return await self._call(backend, decision.body, request, sent)
        except BackendError as error:
            log.info("backend %s: %s", backend.name, error)
            return refusal(error.rejection(backend.name, message.id))

    async def _deliver(
        self, backend: RemoteBackend, decision: Forward, session: Session, sent: Headers
    ) -> Reply:
        """The client's answer to a backend's request, or its progress."""
        upstream = session.upstream.get(backend.name)
        if upstream is None:
            nobody = "no request with this id is waiting for an answer"
            return refusal(Rejection(400, INVALID_REQUEST, nobody))
        status = await backend.tell(upstream, decision.body, sent, self.registry.limits.call_timeout_s)
        return Reply(202 if status < 300 else 400)

    async def _call(self, backend: RemoteBackend, body: bytes, request: Request, sent: Headers) -> Reply:
        session, catalogue = request.session, request.catalogue
        upstream = await self.upstream.session(backend, session, catalogue, request.headers)
        reply = await self._attempt(backend, upstream, body, request, sent)
        if reply is None:
            upstream = await self.upstream.renewed(backend, session, upstream, catalogue, request.headers)
            reply = await self._attempt(backend, upstream, body, request, sent)
        if reply is None:
            raise BackendRefused(404, "the backend does not know the session it has just made")
        return reply

    async def _attempt(
        self, backend: RemoteBackend, upstream: UpstreamSession, body: bytes, request: Request, sent: Headers
    ) -> Reply | None:
        """None when the backend has forgotten the session.

        An exchange may serve somebody else as soon as it is closed, so nothing is awaited after that.
        """
        exchange = await backend.post(upstream, body, sent)
        try:
            await self._head(exchange)
            if await self._forgotten(exchange):
                return None
            return await self._relay(exchange, backend, upstream, request)
        except (asyncio.CancelledError, BackendTimedOut):
            exchange.close()
            self._errands.run(self._cancel(backend, upstream, request.message))
            raise
        except BackendError:
            exchange.close()
            raise

    async def _head(self, exchange: Exchange) -> None:
        seconds = self.registry.limits.call_timeout_s
        if not await exchange.head(seconds):
            raise BackendTimedOut(f"the backend did not answer within {seconds:g} s")

    async def _forgotten(self, exchange: Exchange) -> bool:
        """Whether the backend has forgotten the upstream session: 404, or a 400 that says so."""
        if exchange.status not in (404, 400):
            return False
        text = await exchange.body(65536, 10)
        exchange.close()
        if exchange.status == 404 or b"session" in text.lower():
            return True
        raise BackendRefused(400, f"the backend answered 400: {text[:200].decode('utf-8', 'replace')}")

    async def _relay(
        self, exchange: Exchange, backend: RemoteBackend, upstream: UpstreamSession, request: Request
    ) -> Reply:
        limits, message = self.registry.limits, request.message
        if exchange.status != 200:
            text = (await exchange.body(65536, 10))[:200].decode("utf-8", "replace")
            exchange.close()
            raise BackendRefused(exchange.status, f"the backend answered {exchange.status}: {text}")
        kind = exchange.headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind == b"application/json":
            body = await exchange.body(limits.response_bytes, limits.call_timeout_s)
            check_answer(body, message.id)
            await self._remember(message, backend, request.session, body)
            exchange.close()
            return Reply(200, body)
        if kind != b"text/event-stream":
            exchange.close()
            shown = kind.decode("latin-1") or "no content type"
            raise BackendRefused(502, f"the backend answered with {shown}")
        stream = self._stream(exchange, backend, request.session, message)
        frames = self._watched(stream, backend, upstream, message)
        await self._remember(message, backend, request.session, b'"result"')
        if accepts(request.headers, "text/event-stream"):
            return Reply(200, frames=frames)
        return Reply(200, await _last_answer(frames, message))

    def _stream(
        self, exchange: Exchange, backend: RemoteBackend, session: Session, message: Message
    ) -> CallStream:
        limits = self.registry.limits
        return CallStream(
            exchange,
            backend.name,
            session.id,
            message.id,
            limit=limits.response_bytes,
            keepalive_s=limits.keepalive_s,
            timeout_s=limits.call_timeout_s,
            patience_s=limits.answer_ttl_s,
            clock=time.time,
        )

    async def _watched(
        self, stream: CallStream, backend: RemoteBackend, upstream: UpstreamSession, message: Message
    ) -> AsyncIterator[bytes]:
        """The stream; when the client goes away before the answer and cannot take it up again, the call is cancelled."""
        ended = False
        try:
            async for piece in stream.frames():
                yield piece
            ended = True
        finally:
            if not ended and not stream.answered and not stream.resumable:
                self._errands.run(self._cancel(backend, upstream, message))

    async def _remember(
        self, message: Message, backend: RemoteBackend, session: Session, body: bytes
    ) -> None:
        """A subscription outlives the upstream session it was made in."""
        if b'"result"' not in body:
            return
        if message.method == "resources/subscribe":
            await self.sessions.change(session, subscribe=(message.param("uri"), backend.name))
        elif message.method == "resources/unsubscribe":
            await self.sessions.change(session, subscribe=(message.param("uri"), None))

    async def resume(self, session: Session, cursor: Cursor, headers: dict[str, str]) -> Reply:
        """Take up the stream of a call again, at the backend that keeps it."""
        backend, upstream = self.backends.get(cursor.backend), session.upstream.get(cursor.backend)
        gone = refusal(Rejection(400, INVALID_PARAMS, "the stream of this event is gone"), session.id)
        if backend is None or upstream is None:
            return gone
        exchange = await backend.listen(upstream, lines(backend, headers), cursor.event)
        await self._head(exchange)
        if exchange.status != 200:
            exchange.close()
            return gone
        nothing = Message("", "request", "", None, {}, {})
        stream = self._stream(exchange, backend, session, nothing)
        stream.resumable = True
        return Reply(200, frames=stream.frames(), session_id=session.id)

    async def _cancel(self, backend: RemoteBackend, upstream: UpstreamSession, message: Message) -> None:
        params: dict[str, Any] = {"requestId": message.id, "reason": "client gone"}
        body = jsonrpc.notification("notifications/cancelled", params)
        await backend.tell(upstream, body, backend.credential("call"), 10)


def _header_value(value: str) -> bytes:
    return "".join(c if 32 <= ord(c) < 127 else "?" for c in value).encode()


async def _last_answer(frames: AsyncIterator[bytes], message: Message) -> bytes:
    """For a client that takes only JSON: the answer, without what came before it."""
    decoder, found = sse.Decoder(1 << 30), b""
    async for piece in frames:
        for frame in decoder.feed(piece):
            read = jsonrpc.read(frame.data.decode("utf-8", "replace")) if frame.data else None
            if isinstance(read, Message) and read.kind == "response" and read.id == message.id:
                found = frame.data
    return found
