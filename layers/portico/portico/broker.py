"""Carries a Decision out: sessions, upstream sessions, relay. The only part that touches them."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any

from portico.backends.remote import RemoteBackend
from portico.catalogue import LISTS
from portico.discovery import Publication
from portico.errors import BackendError, BackendRefused, BackendTimedOut, BackendUnreachable
from portico.http1 import Exchange, Headers
from portico.protocol import jsonrpc, sse, versions
from portico.protocol.inbound import accepts
from portico.protocol.jsonrpc import INVALID_PARAMS, Message, Rejection
from portico.protocol.tickets import Cursor
from portico.registry import Registry
from portico.relay import CallStream, check_answer
from portico.router import Answer, Decision, Forward, Ignore, Refuse, Spread, UnknownTool, route
from portico.sessions import Session, Sessions, Streams, UpstreamSession

log = logging.getLogger("portico.broker")


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes to the client: a whole body, or frames as they come."""

    status: int = 200
    body: bytes = b""
    frames: AsyncIterator[bytes] | None = None
    session_id: str = ""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


def refusal(rejection: Rejection, session_id: str = "") -> Reply:
    return Reply(rejection.status, jsonrpc.error(rejection), session_id=session_id)


class Broker:
    def __init__(self, sessions: Sessions, publication: Publication) -> None:
        self.sessions = sessions
        self.publication = publication
        self.registry = Registry()
        self.backends: dict[str, RemoteBackend] = {}
        self.streams: Streams = {}
        self._opening: dict[tuple[str, str], asyncio.Future[UpstreamSession]] = {}
        self._errands: set[asyncio.Task[None]] = set()

    def decide(self, message: Message, session: Session) -> Decision:
        return route(message, self.publication.current, session.id, time.time())

    async def carry(
        self, decision: Decision, message: Message, session: Session, headers: dict[str, str]
    ) -> Reply:
        match decision:
            case Forward():
                reply = await self._forward(decision, message, session, headers)
            case Answer():
                reply = await self._answer(decision, message, session, headers)
            case UnknownTool():
                reply = self._unknown_tool(decision, message, session)
            case Refuse():
                reply = refusal(decision.rejection)
            case Spread():
                await self._spread(session, decision.body, headers)
                reply = Reply(202)
            case Ignore():
                reply = Reply(202)
        return self._dressed(reply, session, headers)

    def _dressed(self, reply: Reply, session: Session, headers: dict[str, str]) -> Reply:
        """With the session's id, and as SSE for a client that expects that."""
        wish = self.registry.compat.response
        streamed = wish == "sse" or (wish == "auto" and session.version in versions.STREAMED_ANSWERS)
        if (
            streamed
            and reply.status == 200
            and reply.frames is None
            and accepts(headers, "text/event-stream")
        ):
            return Reply(200, frames=_once(sse.encode(reply.body)), session_id=session.id)
        return Reply(reply.status, reply.body, reply.frames, session.id, reply.headers)

    # Answers of the gateway's own

    async def begin(self, message: Message, headers: dict[str, str]) -> Reply:
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
        body = jsonrpc.result(message.id, self._about(version))
        return self._dressed(Reply(200, body), session, headers)

    def _about(self, version: str) -> dict[str, Any]:
        catalogue, gateway = self.publication.current, self.registry.gateway
        capabilities: dict[str, Any] = {
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"listChanged": True},
        }
        if any((own.get("resources") or {}).get("subscribe") for own in catalogue.capabilities.values()):
            capabilities["resources"]["subscribe"] = True
        for name in ("logging", "completions"):
            if catalogue.offers(name):
                capabilities[name] = {}
        info = {"name": gateway.name, "version": gateway.version}
        if gateway.title:
            info["title"] = gateway.title
        if gateway.website_url:
            info["websiteUrl"] = gateway.website_url
        about: dict[str, Any] = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        instructions = gateway.instructions or catalogue.instructions
        if instructions:
            about["instructions"] = instructions
        return about

    async def _answer(
        self, decision: Answer, message: Message, session: Session, headers: dict[str, str]
    ) -> Reply:
        if decision.method in LISTS:
            return self._listing(LISTS[decision.method], message)
        if decision.method == "logging/setLevel":
            return await self._set_level(message, session, headers)
        return Reply(200, jsonrpc.result(message.id, {}))

    def _listing(self, name: str, message: Message) -> Reply:
        catalogue, size = self.publication.current, self.registry.limits.page_size
        if not size:
            return Reply(200, jsonrpc.result_bytes(message.id, catalogue.answers[name]))
        cursor = message.param("cursor")
        start = int(cursor) if isinstance(cursor, str) and cursor.isdecimal() and len(cursor) < 9 else None
        if cursor is not None and start is None:
            return refusal(Rejection(200, INVALID_PARAMS, "unknown cursor", id=message.id))
        items = catalogue.definitions[name]
        page = items[start or 0 : (start or 0) + size]
        value: dict[str, Any] = {name: page}
        if (start or 0) + size < len(items):
            value["nextCursor"] = str((start or 0) + size)
        return Reply(200, jsonrpc.result(message.id, value))

    async def _set_level(self, message: Message, session: Session, headers: dict[str, str]) -> Reply:
        level = message.param("level")
        known = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
        if level not in known:
            return refusal(
                Rejection(200, INVALID_PARAMS, f"level must be one of {', '.join(known)}", id=message.id)
            )
        await self.sessions.change(session, level=level)
        able = {name for name, own in self.publication.current.capabilities.items() if "logging" in own}
        for name, upstream in session.upstream.items():
            if name in able and name in self.backends:
                with contextlib.suppress(BackendError):
                    await self._level(self.backends[name], upstream, level, headers)
        return Reply(200, jsonrpc.result(message.id, {}))

    async def _level(
        self, backend: RemoteBackend, upstream: UpstreamSession, level: str, headers: dict[str, str]
    ) -> None:
        lines = self._lines(backend, headers)
        await backend.ask(
            upstream, "logging/setLevel", {"level": level}, lines, self.registry.limits.call_timeout_s
        )

    def _unknown_tool(self, decision: UnknownTool, message: Message, session: Session) -> Reply:
        wish = self.registry.compat.unknown_tool
        if wish == "result" or (wish == "auto" and session.version in versions.UNKNOWN_TOOL_IS_RESULT):
            text = f"Error: Tool '{decision.name}' not found"
            return Reply(
                200,
                jsonrpc.result(message.id, {"content": [{"type": "text", "text": text}], "isError": True}),
            )
        return refusal(Rejection(200, INVALID_PARAMS, f"Unknown tool: {decision.name}", id=message.id))

    # What a backend answers

    async def _forward(
        self, decision: Forward, message: Message, session: Session, headers: dict[str, str]
    ) -> Reply:
        backend = self.backends.get(decision.backend)
        if backend is None:
            gone = BackendUnreachable("the backend is not declared any more")
            return refusal(gone.rejection(decision.backend, message.id))
        lines = self._lines(backend, headers)
        lines += [(name.encode(), _header_value(value)) for name, value in decision.headers.items()]
        lines.append((b"x-mcp-servername", backend.name.encode()))
        try:
            if message.kind != "request":
                return await self._deliver(backend, decision, session, lines)
            lines.append((b"x-mcp-method", message.method.encode()))
            return await self._call(backend, decision.body, message, session, headers, lines)
        except BackendError as error:
            log.info("backend %s: %s", backend.name, error)
            return refusal(error.rejection(backend.name, message.id))

    async def _deliver(
        self, backend: RemoteBackend, decision: Forward, session: Session, lines: Headers
    ) -> Reply:
        """The client's answer to a backend's request, or its progress."""
        upstream = session.upstream.get(backend.name)
        if upstream is None:
            return refusal(
                Rejection(400, jsonrpc.INVALID_REQUEST, "no request with this id is waiting for an answer")
            )
        status = await backend.tell(upstream, decision.body, lines, self.registry.limits.call_timeout_s)
        return Reply(202 if status < 300 else 400)

    async def _call(
        self,
        backend: RemoteBackend,
        body: bytes,
        message: Message,
        session: Session,
        headers: dict[str, str],
        lines: Headers,
    ) -> Reply:
        upstream = session.upstream.get(backend.name) or await self._upstream(backend, session, headers)
        exchange = await backend.post(upstream, body, lines)
        try:
            await self._head(exchange)
            if await self._forgotten(exchange):
                await self.sessions.leave(session, upstream)
                upstream = await self._upstream(backend, session, headers)
                exchange = await backend.post(upstream, body, lines)
                await self._head(exchange)
            return await self._relay(exchange, backend, upstream, message, session, headers)
        except (asyncio.CancelledError, BackendTimedOut):
            exchange.close()
            self._errand(self._cancel(backend, upstream, message))
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
        self,
        exchange: Exchange,
        backend: RemoteBackend,
        upstream: UpstreamSession,
        message: Message,
        session: Session,
        headers: dict[str, str],
    ) -> Reply:
        limits = self.registry.limits
        if exchange.status != 200:
            text = (await exchange.body(65536, 10))[:200].decode("utf-8", "replace")
            exchange.close()
            raise BackendRefused(exchange.status, f"the backend answered {exchange.status}: {text}")
        kind = exchange.headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if kind == b"application/json":
            body = await exchange.body(limits.response_bytes, limits.call_timeout_s)
            exchange.close()
            check_answer(body, message.id)
            await self._remember(message, backend, session, body)
            return Reply(200, body)
        if kind != b"text/event-stream":
            exchange.close()
            raise BackendRefused(
                502, f"the backend answered with {kind.decode('latin-1') or 'no content type'}"
            )
        stream = self._stream(exchange, backend, session, message)
        frames = self._watched(stream, backend, upstream, message)
        await self._remember(message, backend, session, b'"result"')
        if accepts(headers, "text/event-stream"):
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
                self._errand(self._cancel(backend, upstream, message))

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
        if backend is None or upstream is None:
            return refusal(Rejection(400, INVALID_PARAMS, "the stream of this event is gone"), session.id)
        exchange = await backend.listen(upstream, self._lines(backend, headers), cursor.event)
        await self._head(exchange)
        if exchange.status != 200:
            exchange.close()
            return refusal(Rejection(400, INVALID_PARAMS, "the stream of this event is gone"), session.id)
        nothing = Message("", "request", "", None, {}, {})
        stream = self._stream(exchange, backend, session, nothing)
        stream.resumable = True
        return Reply(200, frames=stream.frames(), session_id=session.id)

    # Upstream sessions

    async def _upstream(
        self, backend: RemoteBackend, session: Session, headers: dict[str, str]
    ) -> UpstreamSession:
        """One upstream session per gateway session and backend, however many calls need it first."""
        key = (session.id, backend.name)
        under_way = self._opening.get(key)
        if under_way is not None:
            return await asyncio.shield(under_way)
        future: asyncio.Future[UpstreamSession] = asyncio.ensure_future(
            self._open_upstream(backend, session, headers)
        )
        self._opening[key] = future
        future.add_done_callback(lambda _: self._opening.pop(key, None))
        return await asyncio.shield(future)

    async def _open_upstream(
        self, backend: RemoteBackend, session: Session, headers: dict[str, str]
    ) -> UpstreamSession:
        known = await self.sessions.find(session.id)
        if known and backend.name in known.upstream:
            return known.upstream[backend.name]
        lines = self._lines(backend, headers)
        seconds = self.registry.limits.call_timeout_s
        try:
            made, _ = await backend.initialize(
                session.version, session.client, session.capabilities, lines, seconds
            )
        except BackendRefused as error:
            text = f"failed to create session for mcp server ({error})"
            raise BackendRefused(error.upstream_status, text) from None
        joined = await self.sessions.join(session, made)
        if joined is None:
            self._errand(backend.end(made, lines))
            known = await self.sessions.find(session.id)
            if known and backend.name in known.upstream:
                return known.upstream[backend.name]
            raise BackendUnreachable("the session ended meanwhile")
        for attend in tuple(self.streams.get(session.id, ())):
            await attend(joined)
        if known:
            await self._restore(backend, joined, known, headers)
        return joined

    async def _restore(
        self, backend: RemoteBackend, upstream: UpstreamSession, session: Session, headers: dict[str, str]
    ) -> None:
        """Bring a new upstream session to where the client believes it is."""
        own = self.publication.current.capabilities.get(backend.name, {})
        lines, seconds = self._lines(backend, headers), self.registry.limits.call_timeout_s
        with contextlib.suppress(BackendError):
            if session.level and "logging" in own:
                await self._level(backend, upstream, session.level, headers)
            for uri, owner in session.subscriptions.items():
                if owner == backend.name:
                    await backend.ask(upstream, "resources/subscribe", {"uri": uri}, lines, seconds)

    async def end(self, session: Session, headers: dict[str, str]) -> None:
        await self.sessions.end(session)
        for name, upstream in session.upstream.items():
            if name in self.backends:
                self._errand(self.backends[name].end(upstream, self._lines(self.backends[name], headers)))

    async def _spread(self, session: Session, body: bytes, headers: dict[str, str]) -> None:
        for name, upstream in session.upstream.items():
            backend = self.backends.get(name)
            if backend is not None:
                with contextlib.suppress(BackendError):
                    await backend.tell(upstream, body, self._lines(backend, headers), 10)

    async def _cancel(self, backend: RemoteBackend, upstream: UpstreamSession, message: Message) -> None:
        body = jsonrpc.notification(
            "notifications/cancelled", {"requestId": message.id, "reason": "client gone"}
        )
        await backend.tell(upstream, body, backend.credential("call"), 10)

    def _lines(self, backend: RemoteBackend, headers: dict[str, str]) -> Headers:
        return [*backend.forwardable(headers), *backend.credential("call")]

    def _errand(self, work: Coroutine[Any, Any, None]) -> None:
        """Something to do after the client has been answered."""

        async def quietly() -> None:
            with contextlib.suppress(BackendError):
                await work

        task = asyncio.create_task(quietly())
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def settle(self) -> None:
        """Finish what is still to be done for clients that were answered."""
        if self._errands:
            await asyncio.wait(self._errands, timeout=5)


def _header_value(value: str) -> bytes:
    return "".join(c if 32 <= ord(c) < 127 else "?" for c in value).encode()


async def _once(piece: bytes) -> AsyncIterator[bytes]:
    yield piece


async def _last_answer(frames: AsyncIterator[bytes], message: Message) -> bytes:
    """For a client that takes only JSON: the answer, without what came before it."""
    decoder, found = sse.Decoder(1 << 30), b""
    async for piece in frames:
        for frame in decoder.feed(piece):
            read = jsonrpc.read(frame.data.decode("utf-8", "replace")) if frame.data else None
            if isinstance(read, Message) and read.kind == "response" and read.id == message.id:
                found = frame.data
    return found
