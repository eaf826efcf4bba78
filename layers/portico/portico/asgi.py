"""The /mcp endpoint: raw ASGI, no framework on the hot path."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from authz.challenge import Refusal
from authz.metadata import document, scopes_of
from authz.model import Principal
from authz.origins import ON_LOOPBACK, OriginRules, host_allowed, origin_allowed
from portico.broker import Broker
from portico.caller import RequestHeaders
from portico.catalogue import Catalogue, named_target
from portico.client import Client, Receive, Scope, Send
from portico.errors import BackendError
from portico.listening import Listening
from portico.observability import Call, calls
from portico.parties import Admission, Issuing, Operator
from portico.permissions import allowing, answer, denied, not_admitted, not_operating
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
from portico.protocol.modern import VERSION_HEADER, is_modern, read_envelope, unsupported
from portico.protocol.tickets import decode_cursor
from portico.redaction import carry
from portico.replies import Reply, discard, refusal
from portico.requests import LegacyRequest, ModernRequest
from portico.sessions import Session
from portico.stores.base import Unavailable
from portico.toolmetadata import preferred

VIRTUAL_SERVER_HEADER: Final = "x-mcp-virtualserver"
CONTROL_PATHS: Final = frozenset({"/backends", "/openapi.json", "/docs"})
ISSUING_PATHS: Final = frozenset(
    {"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"}
    | {f"/oauth/{name}" for name in ("authorize", "token", "register", "revoke", "jwks")}
)
"""All of the server's own: others below /oauth/ are about tokens for backends."""
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
CONSENT_PATH: Final = "/oauth/"
TOKENS_PATH: Final = "/oauth/tokens/"
"""What users have let the gateway do: not open, but theirs."""
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
        elif self.issuing is not None and path in ISSUING_PATHS:
            await client.hand_over(self.issuing)
        elif self.admission is not None and not _is_open(client.scope["method"], path):
            await self._guarded_by(self.admission, client, path)
        else:
            await self._admitted(client, path)

    async def _guarded_by(self, admission: Admission, client: Client, path: str) -> None:
        """Everybody is asked who he is, on every request."""
        principal = await admission.admit(client)
        if isinstance(principal, Principal):
            client.principal = principal
            client.headers.admit(principal.key)
            mcp = path == "/mcp" or path.startswith(TOKENS_PATH)
            why = (
                not_admitted(admission.access, principal)
                if mcp
                else not_operating(admission.access, principal)
            )
            if why is None:
                await self._admitted(client, path)
                return
            principal = why
        await client.reply(answer(principal))

    async def _admitted(self, client: Client, path: str) -> None:
        if path.startswith(METADATA_PATH):
            broker, own = self._broker, self._metadata(path)
            now = broker.publication.current
            await client.reply(await preferred(path, own, broker.registry, now, broker.credentials))
        elif path == "/mcp":
            await self._mcp(client)
        elif path.startswith(CONSENT_PATH):
            await client.reply(await self._oauth(client, path))
        else:
            await self._other(client, path)

    def _metadata(self, path: str) -> Reply:
        """What clients may know of the resource before they have a token."""
        access, of = self._broker.registry.access, path.removeprefix(METADATA_PATH)
        found = None
        if access is not None and of in ("", "/mcp"):
            found = document(access)
        elif access is not None and of.startswith("/tool/"):
            name = unquote(of.removeprefix("/tool/"))
            entry = self._broker.publication.current.tool(name)
            target = named_target("tools", name, entry) if entry else None
            found = document(access, scopes_of(access, target)) if target else None
        if found is None:
            return Reply(404)
        headers = [
            (b"access-control-allow-origin", b"*"),
            (b"access-control-allow-headers", b"mcp-protocol-version"),
            (b"access-control-max-age", b"3600"),
        ]
        return Reply(200, json.dumps(found).encode(), headers=headers)

    async def _oauth(self, client: Client, path: str) -> Reply:
        """The pages on which users let the gateway act for them; and what they have let it do, to be taken back."""
        credentials, verb = self._broker.credentials, client.scope["method"]
        theirs = path.startswith(TOKENS_PATH)
        allowed = "DELETE" if theirs else "GET"
        if verb != allowed:
            return Reply(405, headers=[(b"allow", allowed.encode())])
        if theirs:
            known = await credentials.forget(path.removeprefix(TOKENS_PATH), client.owner)
            return Reply(204 if known else 404)
        query, gateway = client.scope["query_string"].decode("latin-1"), self._broker.registry.gateway
        return await credentials.wired.pages.answer(path, query, client.headers, gateway)

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
        if calls.isEnabledFor(logging.INFO):
            await client.reply(await self._observed(handle, client))
        else:
            await client.reply(await self._guarded(handle, client))

    async def _observed(self, handle: Callable[[Client], Awaitable[Reply]], client: Client) -> Reply:
        subject = client.principal.subject if client.principal else ""
        call = client.call = Call(client.scope["method"], subject)
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
        return await self._posted(message, client)

    async def _posted(self, message: Message | Batch, client: Client) -> Reply:
        catalogue = self._catalogue(client)
        if isinstance(catalogue, Rejection):
            return refusal(replace(catalogue, id=client.asked))
        if isinstance(message, Message) and (why := self._denied(message, client)):
            return answer(why, message)
        if isinstance(message, Message) and is_modern(message, client.headers):
            return await self._modern(message, client, catalogue)
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
        request = ModernRequest(message, client.headers, catalogue, envelope, client.owner)
        decision = self._broker.decide_modern(request, client.repeated)
        if client.call is not None:
            client.call.decided(decision)
        return await self._broker.carry_modern(decision, request)

    def _catalogue(self, client: Client) -> Catalogue | Rejection:
        """What this client may see: all of it, or what a virtual server shows and its principal is allowed to."""
        name = client.headers.get(VIRTUAL_SERVER_HEADER)
        server = None if name is None else self._broker.registry.virtual_servers.get(name)
        if name is not None and server is None:
            return Rejection(400, INVALID_REQUEST, f"there is no virtual server {name!r}")
        access, principal = self._broker.registry.access, client.principal
        if access is None or principal is None:
            return self._broker.publication.view(server)
        return self._broker.publication.view(server, principal.grants, allowing(access, principal))

    def _denied(self, message: Message, client: Client) -> Refusal | None:
        """What a virtual server does not show is unknown, and so not refused."""
        access, principal = self._broker.registry.access, client.principal
        if access is None or principal is None or message.kind != "request":
            return None
        name = client.headers.get(VIRTUAL_SERVER_HEADER)
        server = self._broker.registry.virtual_servers.get(name) if name else None
        return denied(access, principal, message, self._broker.publication.view(server))

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
        if why := self._denied(message, client):
            return answer(why, message)
        if message.method == "initialize":
            text = "initialize must not be part of a batch"
            return refusal(Rejection(400, INVALID_REQUEST, text, id=message.id))
        request = LegacyRequest(message, client.headers, catalogue, session)
        decision = self._broker.decide(request)
        if client.call is None:
            return await self._broker.carry(decision, request)
        client.call.method = "batch"
        call = Call("", client.call.principal)
        call.asked(message)
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


def _is_open(verb: str, path: str) -> bool:
    """A browser asks before it has a token to show, and a client must find out where to get one."""
    if path.startswith(CONSENT_PATH):
        return not path.startswith(TOKENS_PATH)
    return path == "/health" or path.startswith(METADATA_PATH) or (path == "/mcp" and verb == "OPTIONS")


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
