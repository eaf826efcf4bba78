"""Carries a Decision out: sessions, upstream sessions, backends of either era. The only part that touches them."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from portico import answers, consenting
from portico.backends.remote import RemoteBackend
from portico.caller import RequestHeaders
from portico.carriers.legacy import LegacyRelay
from portico.carriers.legacy_to_modern import LegacyToModern, call_box
from portico.carriers.modern import ModernRelay
from portico.carriers.modern_to_legacy import ModernToLegacy
from portico.catalogue import LISTS, Catalogue
from portico.credentials.calls import Credentials
from portico.errands import Errands
from portico.errors import BackendError, BackendUnreachable, EraChanged, Unauthorized, UserNeeded
from portico.http1 import Headers
from portico.mailbox import Mailbox
from portico.personal import Personal
from portico.protocol import jsonrpc, modern, sse, versions
from portico.protocol.inbound import accepts
from portico.protocol.jsonrpc import INVALID_PARAMS, Message, Rejection
from portico.protocol.tickets import Cursor
from portico.protocol.versions import Era
from portico.publication import Publication
from portico.registry import Limits, Registry
from portico.replies import Reply, once, refusal
from portico.requests import LegacyRequest, ModernRequest, Request
from portico.router import (
    Answer,
    Decision,
    Deliver,
    Forward,
    ForwardTask,
    Ignore,
    Refuse,
    Spread,
    UnknownTool,
    route,
    route_modern,
)
from portico.sessions import Session, Sessions, UpstreamSession
from portico.stores.base import Store
from portico.subscriptions import Subscription, wanted
from portico.tasks import Tasks
from portico.upstream import Upstream, lines

TELL_S: Final = 10.0
"""How long a backend may take where others are told or asked the same."""

AtBackend = Callable[[RemoteBackend, UpstreamSession, Headers], Awaitable[None]]

MOST_IN_HEADER = 4096
"""Many servers refuse longer headers; what is too long for one is in the body anyway."""

log = logging.getLogger("portico.broker")


class Broker:
    def __init__(self, store: Store, publication: Publication, credentials: Credentials) -> None:
        self.credentials = credentials
        self.sessions = Sessions(store)
        self.publication = publication
        self.registry = Registry()
        self.backends: dict[str, RemoteBackend] = {}
        self.closing = asyncio.Event()
        self.errands = Errands()
        self._mailbox = Mailbox(store)
        self.upstream = Upstream(self.sessions, self.errands, self._limits)
        self._legacy = LegacyRelay(self.sessions, self.upstream, self.errands, self._limits)
        self._modern = ModernRelay(self._limits)
        self._legacy_to_modern = LegacyToModern(self.sessions, self.upstream, self._mailbox, self._limits)
        self._modern_to_legacy = ModernToLegacy(self._mailbox, store, self.errands, lambda: self.registry)
        self._personal = Personal(self.upstream, self._modern_to_legacy.leases, lambda: self.backends)
        self._tasks = Tasks(store)
        self._met: dict[str, tuple[Catalogue, list[Era]]] = {}

    @property
    def _about(self) -> dict[str, Any]:
        return answers.server_info(self.registry.gateway)

    def _limits(self) -> Limits:
        return self.registry.limits

    async def linger(self) -> None:
        """Until calls that are held have gone on or been given up."""
        await self._modern_to_legacy.linger()
        await self.errands.settle()

    async def settle(self) -> None:
        """Finish what is still to be done for clients that were answered."""
        await self._modern_to_legacy.close()
        await self.errands.settle()

    # Legacy clients

    def decide(self, request: LegacyRequest) -> Decision:
        return route(request.message, request.catalogue, request.session.id, time.time())

    async def carry(self, decision: Decision, request: LegacyRequest) -> Reply:
        match decision:
            case Forward():
                reply = await self._forward(decision, request)
            case ForwardTask():
                reply = await self._forward_task(decision, request)
            case Answer():
                reply = await self._answer(decision, request)
            case UnknownTool():
                wish, version = self.registry.compat.unknown_tool, request.session.version
                as_result = answers.unknown_tool_is_result(wish, version)
                reply = answers.unknown_tool(decision.name, request.message.id, as_result=as_result)
            case Refuse():
                reply = refusal(decision.rejection)
            case Deliver():
                reply = await self._deliver(decision, request)
            case Spread():
                await self._spread(request, decision.body)
                reply = Reply(202)
            case Ignore():
                reply = Reply(202)
        return self._dressed(reply, request.session, request.headers)

    def _dressed(self, reply: Reply, session: Session, headers: RequestHeaders) -> Reply:
        """With the session's id, and as SSE for a client that expects that."""
        if (
            reply.frames is None
            and reply.status == 200
            and answers.is_streamed(self.registry.compat.response, session.version)
            and accepts(headers, "text/event-stream")
        ):
            return Reply(200, frames=once(sse.encode(reply.body)), session_id=session.id)
        return Reply(reply.status, reply.body, reply.frames, session.id, reply.headers)

    async def begin(
        self, message: Message, headers: RequestHeaders, catalogue: Catalogue, owner: str = ""
    ) -> Reply:
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
            owner,
        )
        body = jsonrpc.result(message.id, answers.about(catalogue, self.registry.gateway, version))
        return self._dressed(Reply(200, body), session, headers)

    async def end(self, session: Session, headers: RequestHeaders) -> None:
        await self.sessions.end(session)
        for name, upstream in session.upstream.items():
            backend = self.backends.get(name)
            if backend is not None:
                self.errands.run(_end(backend, upstream, headers))

    async def resume(self, session: Session, cursor: Cursor, headers: RequestHeaders) -> Reply:
        return await self._legacy.resume(self.backends.get(cursor.backend), session, cursor, headers)

    async def _spread(self, request: LegacyRequest, body: bytes) -> None:
        cancelled = request.message.param("requestId")
        if request.message.method == "notifications/cancelled" and isinstance(cancelled, str | int):
            await self._mailbox.post(call_box(request.session.id, cancelled), b'{"kind":"cancel"}')

        async def tell(backend: RemoteBackend, upstream: UpstreamSession, sent: Headers) -> None:
            await backend.tell(upstream, body, sent, TELL_S)

        await self._everywhere(request, tell)

    async def _everywhere(self, request: LegacyRequest, action: AtBackend) -> None:
        """At all the session's backends at once. One that fails or hangs costs its own part only."""

        async def act(name: str, upstream: UpstreamSession) -> None:
            backend = self.backends.get(name)
            if backend is not None:
                with contextlib.suppress(BackendError):
                    await action(backend, upstream, await lines(backend, request.headers))

        await asyncio.gather(*(act(name, upstream) for name, upstream in request.session.upstream.items()))

    async def _deliver(self, decision: Deliver, request: LegacyRequest) -> Reply:
        """A client's answer to a question of a modern backend."""
        top = request.message.top
        said = {name: top[name].value for name in ("result", "error") if name in top}
        letter = jsonrpc.dumps({"kind": "answer", "key": decision.key, **said}).encode()
        await self._mailbox.post(call_box(request.session.id, decision.call), letter)
        return Reply(202)

    async def _answer(self, decision: Answer, request: LegacyRequest) -> Reply:
        message = request.message
        if decision.method in LISTS:
            listing = await self._listing(LISTS[decision.method], request, request.catalogue.legacy)
            if isinstance(listing, Rejection):
                return refusal(listing)
            return Reply(200, jsonrpc.result_bytes(message.id, listing))
        if decision.method == "logging/setLevel":
            return await self._set_level(request)
        if decision.method == "tasks/list":
            return await self._list_tasks(request)
        return Reply(200, jsonrpc.result(message.id, {}))

    async def _listing(self, name: str, request: Request, catalogue: Catalogue) -> bytes | Rejection:
        """The result's bytes: made once for each catalogue, unless the client sees a list of its own or a page."""
        size, cursor = self.registry.limits.page_size, request.message.param("cursor")
        personal = bool(catalogue.personal) and name in Personal.LISTINGS
        if not size and not personal and cursor is None:
            return catalogue.answers[name]
        items = catalogue.definitions[name]
        if personal:
            items = items + await self._personal.items(name, request, self.registry.discovery.timeout_s)
        page = answers.page(name, items, size, cursor)
        return page or Rejection(200, INVALID_PARAMS, "unknown cursor", id=request.message.id)

    async def _set_level(self, request: LegacyRequest) -> Reply:
        level, id_ = request.message.param("level"), request.message.id
        if level not in modern.LEVELS:
            known = ", ".join(modern.LEVELS)
            return refusal(Rejection(200, INVALID_PARAMS, f"level must be one of {known}", id=id_))
        await self.sessions.change(request.session, level=level)

        async def set_level(backend: RemoteBackend, upstream: UpstreamSession, sent: Headers) -> None:
            if "logging" in request.catalogue.capabilities.get(backend.name, {}):
                await self.upstream.set_level(backend, upstream, level, sent)

        await self._everywhere(request, set_level)
        return Reply(200, jsonrpc.result(id_, {}))

    async def _list_tasks(self, request: LegacyRequest) -> Reply:
        """Of all the backends in this session that can list theirs."""
        found: list[dict[str, Any]] = []

        async def add(backend: RemoteBackend, upstream: UpstreamSession, sent: Headers) -> None:
            tasks = request.catalogue.capabilities.get(backend.name, {}).get("tasks")
            if "list" in (tasks or {}):
                found.extend((await backend.pages(upstream, "tasks/list", "tasks", sent, TELL_S)).items)

        await self._everywhere(request, add)
        return Reply(200, jsonrpc.result(request.message.id, {"tasks": found}))

    # Modern clients

    def decide_modern(self, request: ModernRequest, repeated: frozenset[str]) -> Decision:
        return route_modern(request.message, request.catalogue, request.headers, repeated)

    async def carry_modern(self, decision: Decision, request: ModernRequest) -> Reply:
        match decision:
            case Forward():
                return await self._forward(decision, request)
            case ForwardTask():
                return await self._forward_task(decision, request)
            case Answer():
                return await self._answer_modern(decision, request)
            case UnknownTool():
                unknown = answers.unknown_tool(decision.name, request.message.id, as_result=False)
                return Reply(modern.STATUS[INVALID_PARAMS], unknown.body)
            case Refuse():
                return refusal(decision.rejection)
        return Reply(202)

    async def _answer_modern(self, decision: Answer, request: ModernRequest) -> Reply:
        message, gateway = request.message, self.registry.gateway
        if decision.method == "subscriptions/listen":
            return await self._subscribe(request)
        if decision.method == "server/discover":
            ttl_ms = int(self.registry.discovery.interval_s * 1000)
            found = answers.discovered(request.catalogue, gateway, ttl_ms)
            return Reply(200, jsonrpc.result(message.id, found))
        name = LISTS[decision.method]
        listing = await self._listing(name, request, request.catalogue)
        if isinstance(listing, Rejection):
            return Reply(modern.STATUS[listing.code], jsonrpc.error(listing))
        hint = request.catalogue.hints.get(name, (0, "public"))
        scope = "private" if request.catalogue.limits or request.catalogue.allows else hint[1]
        result = answers.modern_listing(listing, (hint[0], scope), gateway)
        return Reply(200, jsonrpc.result_bytes(message.id, *result))

    async def _subscribe(self, request: ModernRequest) -> Reply:
        found = await wanted(request, self.backends, self._tasks)
        if isinstance(found, Rejection):
            return refusal(found)
        subscription = Subscription(
            request,
            found,
            self.backends,
            self.publication,
            lambda: self.publication.view_as(request.catalogue),
            self._modern_to_legacy.leases,
            self.registry.limits,
            self._about,
            self.closing,
        )
        return Reply(200, frames=subscription.frames())

    # What a backend answers

    async def _forward_task(self, decision: ForwardTask, request: Request) -> Reply:
        owner = await self._tasks.owner(request, decision.task)
        if owner is None:
            unknown = Rejection(200, INVALID_PARAMS, "Unknown task", id=request.message.id)
            legacy = isinstance(request, LegacyRequest)
            return Reply(200 if legacy else modern.STATUS[INVALID_PARAMS], jsonrpc.error(unknown))
        return await self._forward(Forward(owner, request.message.text.encode(), name=decision.task), request)

    async def _forward(self, decision: Forward, request: Request) -> Reply:
        backend, message = self.backends.get(decision.backend), request.message
        if backend is None:
            gone = BackendUnreachable("the backend is not declared any more")
            return refusal(gone.rejection(decision.backend, message.id))
        try:
            if isinstance(request, ModernRequest) and consenting.is_back(request):
                found = await consenting.resumed(decision, request, self.credentials, self._about)
                if isinstance(found, Reply):
                    return found
                decision, request = found
            sent = await self._headers(backend, decision, request)
            if isinstance(request, LegacyRequest) and message.kind != "request":
                return await self._legacy.deliver(backend, decision.body, request.session, sent)
            reply = await self._call(backend, decision, request, sent)
            return await self._tasks.noticed(reply, request, backend.name)
        except UserNeeded as error:
            return consenting.needed(error, request, self.credentials, self._about)
        except BackendError as error:
            log.info("backend %s: %s", backend.name, error)
            return refusal(error.rejection(backend.name, message.id))

    async def _call(
        self, backend: RemoteBackend, decision: Forward, request: Request, sent: Headers
    ) -> Reply:
        """Once more with another credential, where the backend has refused the one it got and there may be one."""
        declared = backend.declared
        session = request.session.id if isinstance(request, LegacyRequest) else ""
        try:
            return await self._in_era(backend, decision, request, sent)
        except Unauthorized as error:
            if not await self.credentials.again(declared, request.headers, sent, error):
                raise await self.credentials.told(declared, request.headers, error, session) from None
        sent = await self._headers(backend, decision, request)
        try:
            return await self._in_era(backend, decision, request, sent)
        except Unauthorized as error:
            raise await self.credentials.told(declared, request.headers, error, session) from None

    async def _in_era(
        self, backend: RemoteBackend, decision: Forward, request: Request, sent: Headers
    ) -> Reply:
        """In the client's own era if the backend speaks it. One that turns out to speak another is met again, once."""
        eras = self._eras(backend, request.catalogue)
        try:
            return await self._carrier(backend, decision, request, sent, eras)
        except EraChanged:
            greeting = await backend.greet(await backend.for_discovery(), self.registry.discovery.timeout_s)
            if greeting.eras == eras:
                raise
            self._met[backend.name] = (self.publication.current, greeting.eras)
            return await self._carrier(backend, decision, request, sent, greeting.eras)

    def _eras(self, backend: RemoteBackend, catalogue: Catalogue) -> list[Era]:
        met = self._met.get(backend.name)
        if met is not None and met[0] is self.publication.current:
            return met[1]
        return catalogue.eras.get(backend.name, ["legacy"])

    async def _carrier(
        self,
        backend: RemoteBackend,
        decision: Forward,
        request: Request,
        sent: Headers,
        eras: list[Era],
    ) -> Reply:
        body, name = decision.body, decision.name
        if isinstance(request, LegacyRequest):
            if "legacy" in eras:
                return await self._legacy.carry(backend, body, request, sent)
            return await self._legacy_to_modern.carry(backend, body, name, request, sent)
        if "modern" in eras:
            return await self._modern.carry(backend, body, name, request, sent)
        return await self._modern_to_legacy.carry(backend, body, request, sent)

    async def _headers(self, backend: RemoteBackend, decision: Forward, request: Request) -> Headers:
        sent = await lines(backend, request.headers)
        sent += [
            (name.encode(), _header_value(value))
            for name, value in decision.headers.items()
            if len(value) <= MOST_IN_HEADER
        ]
        sent.append((b"x-mcp-servername", backend.name.encode()))
        if request.message.kind == "request":
            sent.append((b"x-mcp-method", request.message.method.encode()))
        return sent


async def _end(backend: RemoteBackend, upstream: UpstreamSession, headers: RequestHeaders) -> None:
    await backend.end(upstream, await lines(backend, headers))


def _header_value(value: str) -> bytes:
    if value.isascii() and value.isprintable():
        return value.encode()
    return "".join(c if 32 <= ord(c) < 127 else "?" for c in value).encode()
