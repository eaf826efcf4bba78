"""The /mcp endpoint: raw ASGI, no framework on the hot path."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Final

from authz.audit import Decided
from authz.challenge import Refusal
from authz.check import entering
from authz.identity import is_dropped
from authz.model import Principal
from authz.origins import ON_LOOPBACK, OriginRules, host_allowed, origin_allowed
from authz.places import METADATA, issues_tokens, place
from portico.broker import Broker
from portico.caller import RequestHeaders
from portico.catalogue import Catalogue
from portico.client import Client, Receive, Scope, Send
from portico.consent import consent
from portico.errors import BackendError
from portico.listening import Listening
from portico.metadata import described
from portico.observability import Call, calls
from portico.parties import Admission, Issuing, Operator
from portico.permissions import answer
from portico.protocol import sse, versions
from portico.protocol.inbound import (
    SESSION_HEADER,
    Batch,
    accepts,
    check_headers,
    check_post,
    classify,
)
from portico.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Message, Rejection
from portico.protocol.modern import VERSION_HEADER, contradicted, is_modern, read_envelope, unsupported
from portico.protocol.tickets import decode_cursor
from portico.redaction import carry
from portico.replies import Reply, discard, refusal
from portico.requests import LegacyRequest, ModernRequest
from portico.router import names_unknown
from portico.sessions import Session
from portico.stores.base import Unavailable
from portico.toolmetadata import preferred
from portico.views import heard_by, refused_to, seen_by

CONTROL_PATHS: Final = frozenset({"/backends", "/openapi.json", "/docs"})
NO_BATCHES: Final = Rejection(400, INVALID_REQUEST, "batches are part of 2025-03-26 only")

log = logging.getLogger("portico.asgi")


class Endpoint:
    def __init__(self, broker: Broker, operator: Operator, rules: OriginRules) -> None:
        self._broker = broker
        self._operator = operator
        self._loop: asyncio.AbstractEventLoop | None = None
        self.rules = rules
        self.admission: Admission | None = None
        """None: nobody is asked who he is."""
        self.issuing: Issuing | None = None
        """What issues tokens, where the gateway does that itself."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = RequestHeaders()
        for name, value in scope["headers"]:
            headers[name.decode("latin-1")] = value.decode("latin-1").strip()
        repeated = _repeated(scope["headers"]) if len(headers) < len(scope["headers"]) else frozenset()
        for forged in [name for name in headers if is_dropped(name)]:
            del headers[forged]
        alias = self._broker.registry.gateway.session_header_alias
        self._loop = loop = self._loop or asyncio.get_running_loop()
        client = Client(scope, receive, send, headers, repeated, alias, loop)
        carry(headers)
        try:
            await self._serve(client, scope["path"])
        except asyncio.CancelledError:
            if not client.gone:
                if self._broker.closing.is_set():
                    stopping = Rejection(503, INTERNAL_ERROR, "the gateway is stopping", id=client.asked)
                    await client.reply(refusal(stopping))
                raise
        finally:
            client.close()

    async def _serve(self, client: Client, path: str) -> None:
        refused = self._refused(client.headers, self.rules)
        if refused is not None:
            client.headers.pop("origin", None)  # a page from elsewhere need not know why
            await client.reply(refusal(refused))
            return
        if self.issuing is not None and issues_tokens(path):
            await client.hand_over(self.issuing)
            return
        client.place = place(client.scope["method"], path)
        if self.admission is not None and not client.place.free:
            await self._guarded_by(self.admission, client, path)
        else:
            await self._admitted(client, path)

    async def _guarded_by(self, admission: Admission, client: Client, path: str) -> None:
        """Everybody is asked who he is, on every request."""
        call = client.call = Call(f"{client.scope['method']} {path}", audited=Decided())
        found = await admission.admit(client)
        if isinstance(found, Principal):
            client.principal = found
            call.admitted(found)
            client.headers.admit(found.key)
            refused = entering(admission.access, found, client.place)
            if refused is None:
                await self._admitted(client, path)
                return
        else:
            refused = found
        call.refused(refused)
        await client.reply(call.watched(answer(refused, client.asked)))

    async def _admitted(self, client: Client, path: str) -> None:
        if client.place.kind == "mcp":
            await self._mcp(client)
        elif client.place.kind == "consent":
            client.note()
            await client.reply(await self._guarded(self._consent, client))
        elif path.startswith(METADATA):
            await client.reply(await self._guarded(self._metadata, client))
        else:
            client.note()
            await self._other(client, path)

    async def _consent(self, client: Client) -> Reply:
        broker = self._broker
        return await consent(client, client.scope["path"], broker.credentials, broker.registry.gateway)

    async def _metadata(self, client: Client) -> Reply:
        path, now, registry = client.scope["path"], self._broker.publication.current, self._broker.registry
        return await preferred(path, described(path, registry, now), registry, now, self._broker.credentials)

    async def _control(self, client: Client) -> None:
        """Who may declare backends may send credentials anywhere: without authentication, nobody but this machine."""
        local = self.rules.loopback and self._refused(client.headers, ON_LOOPBACK) is None
        if client.principal is None and not local:
            text = "backends are declared on the gateway's own machine while auth.mode is none"
            await client.reply(refusal(Rejection(403, INVALID_REQUEST, text)))
            return
        application = await self._operator.control()
        if application is None:
            text = "this needs FastAPI: install portico[control]"
            await client.reply(refusal(Rejection(501, INVALID_REQUEST, text)))
            return
        await client.hand_over(application)

    def _refused(self, headers: dict[str, str], rules: OriginRules) -> Rejection | None:
        if not host_allowed(rules, headers.get("host", "")):
            return Rejection(403, INVALID_REQUEST, "this Host is not served here")
        if "origin" in headers and not origin_allowed(rules, headers["origin"]):
            return Rejection(403, INVALID_REQUEST, "this Origin is not allowed")
        return None

    async def _mcp(self, client: Client) -> None:
        verb = client.scope["method"]
        handle = {"POST": self._post, "GET": self._get, "DELETE": self._delete, "OPTIONS": self._options}.get(
            verb
        )
        sessionless = client.headers.get(VERSION_HEADER) in versions.MODERN
        if handle is None or (sessionless and verb in ("GET", "DELETE")):
            allowed = b"POST" if sessionless else b"GET, POST, DELETE"
            await client.reply(Reply(405, headers=[(b"allow", allowed)]))
            return
        if client.call is not None or calls.isEnabledFor(logging.INFO):
            await client.reply(await self._observed(handle, client))
        else:
            await client.reply(await self._guarded(handle, client))

    async def _observed(self, handle: Callable[[Client], Awaitable[Reply]], client: Client) -> Reply:
        call = client.call = client.call or Call(client.scope["method"])
        try:
            return call.watched(await self._guarded(handle, client))
        except asyncio.CancelledError:
            call.end("gone", 0)
            raise

    async def _guarded(self, handle: Callable[[Client], Awaitable[Reply]], client: Client) -> Reply:
        """The boundary: whatever goes wrong inside is logged here and answered without its internals."""
        try:
            return await handle(client)
        except BackendError as error:
            return refusal(error.rejection("", client.asked))
        except Unavailable as error:
            log.warning("the store cannot be used: %s", error)
            why = "the gateway's store cannot be used at the moment"
            return refusal(Rejection(503, INTERNAL_ERROR, "Internal error", why, client.asked))
        except Exception:
            log.exception("a request failed")
            why = "the gateway failed; see its log"
            return refusal(Rejection(500, INTERNAL_ERROR, "Internal error", why, client.asked))

    async def _post(self, client: Client) -> Reply:
        refused = check_post(client.headers)
        if refused is not None:
            return refusal(refused)
        limits = self._broker.registry.limits
        body = await client.body(limits.body_bytes)
        if body is None:
            return refusal(
                Rejection(413, INVALID_REQUEST, f"the body is larger than {limits.body_bytes} bytes")
            )
        client.watch()
        message = classify(body)
        if isinstance(message, Rejection):
            return refusal(message)
        if isinstance(message, Message):
            client.read(message)
        if self._is_news(message):
            await self._operator.look_again()
        return await self._posted(message, client)

    async def _posted(self, message: Message | Batch, client: Client) -> Reply:
        catalogue = self._catalogue(client)
        if isinstance(catalogue, Rejection):
            return refusal(replace(catalogue, id=client.asked))
        if isinstance(message, Message):
            if lie := contradicted(message, client.headers):
                return refusal(lie)
            if why := self._denied(message, client, client.call):
                return answer(why, message.id)
            if is_modern(message, client.headers):
                return await self._modern(message, client, catalogue)
        return await self._legacy(message, client, catalogue)

    async def _legacy(self, message: Message | Batch, client: Client, catalogue: Catalogue) -> Reply:
        if isinstance(message, Message) and message.method == "initialize" and message.kind == "request":
            return await self._broker.begin(message, client.headers, catalogue, client.owner)
        if isinstance(message, Batch) and client.headers.get(VERSION_HEADER) in versions.MODERN:
            return refusal(NO_BATCHES)
        session = await self._session(client)
        if isinstance(session, Rejection):
            return refusal(replace(session, id=client.asked))
        if isinstance(message, Batch) or message.kind == "request":
            client.keep_alive(session.id, self._broker.registry.limits.keepalive_s)
        if isinstance(message, Batch):
            return await self._batch(message, session, client, catalogue)
        request = LegacyRequest(message, client.headers, catalogue, session)
        decision = self._broker.decide(request)
        if client.call is not None:
            client.call.decided(decision)
        return await self._broker.carry(decision, request)

    def _is_news(self, message: Message | Batch) -> bool:
        """Whether it asks for what this process has yet to hear of, though another may have listed it already."""
        messages = message.messages if isinstance(message, Batch) else [message]
        known = self._broker.publication.current
        return any(isinstance(each, Message) and names_unknown(each, known) for each in messages)

    async def _modern(self, message: Message, client: Client, catalogue: Catalogue) -> Reply:
        """A request that says all there is to know; a notification is taken note of, and there is nobody to tell."""
        if message.kind == "response":
            return refusal(Rejection(400, INVALID_REQUEST, "modern clients send no responses"))
        version = client.headers.get(VERSION_HEADER, "")
        if message.kind == "notification":
            return Reply(202) if version in versions.MODERN else refusal(unsupported(version))
        envelope = read_envelope(message, client.headers, client.repeated)
        if isinstance(envelope, Rejection):
            return refusal(envelope)
        if message.method == "subscriptions/listen" and not accepts(client.headers, "text/event-stream"):
            return refusal(
                Rejection(406, INVALID_REQUEST, "Accept must list text/event-stream", id=message.id)
            )
        client.keep_alive("", self._broker.registry.limits.keepalive_s)
        hears = heard_by(client, self._broker.registry)
        request = ModernRequest(message, client.headers, catalogue, envelope, client.owner, hears)
        decision = self._broker.decide_modern(request, client.repeated)
        if client.call is not None:
            client.call.decided(decision)
        return await self._broker.carry_modern(decision, request)

    def _catalogue(self, client: Client) -> Catalogue | Rejection:
        return seen_by(client, self._broker.registry, self._broker.publication)

    def _denied(self, message: Message, client: Client, call: Call | None) -> Refusal | None:
        return refused_to(client, message, self._broker.registry, self._broker.publication, call)

    async def _batch(self, batch: Batch, session: Session, client: Client, catalogue: Catalogue) -> Reply:
        if session.version not in versions.BATCHING:
            return refusal(NO_BATCHES, session.id)
        parts = [
            asyncio.create_task(self._batched(message, session, client, catalogue))
            for message in batch.messages
        ]
        try:
            replies = await asyncio.gather(*parts)
        except BaseException:
            await _give_up(parts)
            raise
        answered = [reply for reply in replies if reply.body or reply.frames is not None]
        if not answered:
            return Reply(202, session_id=session.id)
        if all(reply.frames is None for reply in answered):
            bodies = b",".join(reply.body for reply in answered)
            return Reply(200, b"[" + bodies + b"]", session_id=session.id)
        return Reply(200, frames=merged(answered), session_id=session.id)

    async def _batched(
        self, message: Message | Rejection, session: Session, client: Client, catalogue: Catalogue
    ) -> Reply:
        if isinstance(message, Rejection):
            return refusal(message)
        call = client.call.part() if client.call else None
        if call is not None:
            call.asked(message)
        if why := self._denied(message, client, call):
            reply = answer(why, message.id)
            return call.watched(reply) if call else reply
        if message.method == "initialize":
            text = "initialize must not be part of a batch"
            return refusal(Rejection(400, INVALID_REQUEST, text, id=message.id))
        request = LegacyRequest(message, client.headers, catalogue, session)
        decision = self._broker.decide(request)
        if call is None or client.call is None:
            return await self._broker.carry(decision, request)
        client.call.method = "batch"
        call.decided(decision)
        return call.watched(await self._broker.carry(decision, request))

    async def _session(self, client: Client) -> Session | Rejection:
        refused = check_headers(client.headers)
        if refused is not None:
            return refused
        id_ = client.headers.get(SESSION_HEADER)
        alias = self._broker.registry.gateway.session_header_alias
        if not id_ and alias:
            id_ = client.headers.get(alias)
        if not id_:
            return Rejection(400, INVALID_REQUEST, "no session ID found")
        session = await self._broker.sessions.find(id_)
        if session is not None and session.owner == client.owner:
            return session
        return Rejection(404, INVALID_REQUEST, "session not found: it has ended or never was")

    async def _get(self, client: Client) -> Reply:
        if not accepts(client.headers, "text/event-stream"):
            return refusal(Rejection(406, INVALID_REQUEST, "Accept must list text/event-stream"))
        catalogue = self._catalogue(client)
        if isinstance(catalogue, Rejection):
            return refusal(catalogue)
        session = await self._session(client)
        if isinstance(session, Rejection):
            return refusal(session)
        client.watch()
        last = client.headers.get("last-event-id")
        cursor = decode_cursor(last) if last else None
        if cursor is not None and cursor.backend:
            return await self._broker.resume(session, cursor, client.headers)

        def seen() -> Catalogue:
            now = self._catalogue(client)
            return catalogue if isinstance(now, Rejection) else now

        listening = Listening(
            session,
            self._broker.sessions,
            lambda: self._broker.backends,
            self._broker.publication,
            seen,
            self._broker.registry.limits,
            cursor,
            client.headers,
            self._operator.nudge,
            self._broker.upstream.streams,
            self._broker.closing,
        )
        return Reply(200, frames=listening.frames(), session_id=session.id)

    async def _delete(self, client: Client) -> Reply:
        catalogue = self._catalogue(client)
        if isinstance(catalogue, Rejection):
            return refusal(catalogue)
        session = await self._session(client)
        if isinstance(session, Rejection):
            return refusal(session)
        await self._broker.end(session, client.headers)
        return Reply(200)

    async def _options(self, _: Client) -> Reply:
        allow = (
            b"content-type, accept, authorization, mcp-session-id, mcp-protocol-version, last-event-id,"
            b" mcp-method, mcp-name"
        )
        return Reply(
            204,
            headers=[
                (b"access-control-allow-methods", b"GET, POST, DELETE"),
                (b"access-control-allow-headers", allow),
                (b"access-control-max-age", b"3600"),
            ],
        )

    async def _other(self, client: Client, path: str) -> None:
        if path in CONTROL_PATHS or path.startswith("/backends/"):
            await self._control(client)
            return
        if client.scope["method"] not in ("GET", "HEAD"):
            await client.reply(Reply(404))
            return
        if path == "/health":
            await client.reply(Reply(200, b'{"status":"ok"}'))
            return
        found = None
        if path == "/status" or path.startswith("/status/"):
            found = await self._operator.status(path.removeprefix("/status").strip("/") or None)
        await client.reply(Reply(404) if found is None else Reply(200, json.dumps(found).encode()))


def _repeated(headers: list[tuple[bytes, bytes]]) -> frozenset[str]:
    counted = Counter(name.decode("latin-1") for name, _ in headers)
    return frozenset(name for name, count in counted.items() if count > 1)


async def _give_up(parts: list[asyncio.Task[Reply]]) -> None:
    """The client of a batch has gone: those of its calls that have begun to answer are ended with the others."""
    for part in parts:
        part.cancel()
    for reply in await asyncio.gather(*parts, return_exceptions=True):
        if isinstance(reply, Reply):
            await discard(reply)


async def merged(replies: list[Reply]) -> AsyncIterator[bytes]:
    """The answers of a batch as they come, each as an event of its own."""
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=64)

    async def drain(reply: Reply) -> None:
        try:
            if reply.frames is None:
                await queue.put(sse.encode(reply.body))
            else:
                async for piece in reply.frames:
                    await queue.put(piece)
        except Exception:  # the boundary: the others' answers still come
            log.exception("a part of a batch failed")
        await queue.put(None)

    drains = [asyncio.create_task(drain(reply)) for reply in replies]
    try:
        left = len(drains)
        while left:
            piece = await queue.get()
            if piece is None:
                left -= 1
            else:
                yield piece
    finally:
        for task in drains:
            task.cancel()
        await asyncio.wait(drains)
        for reply in replies:
            await discard(reply)
