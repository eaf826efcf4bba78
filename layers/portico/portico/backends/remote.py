"""An HTTP MCP server behind the gateway: opening sessions with it, sending it messages, listing what it offers."""

import asyncio
import itertools
import json
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from portico.caller import RequestHeaders
from portico.catalogue import Listing, capabilities_of
from portico.credentials.calls import Credentials
from portico.errors import BackendBroken, BackendRefused, BackendTimedOut, BackendUnreachable, refused
from portico.http1 import Exchange, Headers, HttpClient
from portico.protocol import jsonrpc, sse, translate, versions
from portico.protocol.modern import TASKS_EXTENSION
from portico.protocol.versions import Era
from portico.registry import Backend, Gateway, UnresolvedReference
from portico.sessions import UpstreamSession

JSON: Final = (b"content-type", b"application/json")
BOTH: Final = (b"accept", b"application/json, text/event-stream")
STREAM: Final = (b"accept", b"text/event-stream")
HEADROOM: Final = 50
PAGES: Final = 1000
"""More pages than this is a backend that never ends its listing."""


ASKED: Final[dict[str, Any]] = {
    "roots": {"listChanged": True},
    "sampling": {"context": {}, "tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {"requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
}
"""All that clients behind a gateway may be asked for: some servers list a tool only to those who say they can."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a backend said of itself when it was met."""

    upstream: UpstreamSession
    """A modern one has no id: there are no sessions in that era."""
    eras: list[Era]
    capabilities: dict[str, dict[str, Any]]
    instructions: str


class RemoteBackend:
    def __init__(
        self,
        declared: Backend,
        http: HttpClient,
        credentials: Credentials,
        gateway: Gateway,
        response_bytes: int,
    ) -> None:
        self.declared = declared
        self._http = http
        self._credentials = credentials
        self._shown: Headers = []
        self._client = {"name": gateway.name, "version": gateway.version}
        self._agent = f"portico/{gateway.version}".encode()
        self._limit = response_bytes
        self.modern = UpstreamSession(declared.name, "", versions.NEWEST_MODERN)
        """In place of a session: there are none in that era."""
        self._ids = itertools.count(1)
        self._forwarded = frozenset(rule for rule in declared.forward_headers if not rule.endswith("*"))
        self._beginnings = tuple(rule[:-1] for rule in declared.forward_headers if rule.endswith("*"))
        # The backend's own name for itself is the safe default: servers check their Host header.
        own = declared.hostname_given
        self._authority = own.encode() if own else None

    @property
    def name(self) -> str:
        return self.declared.name

    def forwardable(self, headers: RequestHeaders) -> Headers:
        """Those of a client's headers that this backend may see."""
        return [
            (name.encode(), value.encode("latin-1"))
            for name, value in headers.items()
            if name in self._forwarded or (self._beginnings and name.startswith(self._beginnings))
        ]

    async def for_call(self, headers: RequestHeaders) -> Headers:
        """What a client's call carries besides."""
        return await self._credentials.for_call(self.declared, headers)

    async def for_discovery(self) -> Headers:
        """The gateway's own credential."""
        self._shown = await self._credentials.for_discovery(self.declared)
        return self._shown

    def discovery_refused(self) -> None:
        """The next look has another one, if there may be one."""
        self._credentials.discovery_refused(self.declared, self._shown)

    async def post(self, session: UpstreamSession | None, body: bytes, headers: Headers) -> Exchange:
        lines = [JSON, BOTH, (b"user-agent", self._agent), *headers]
        if session is not None:
            lines.append((b"mcp-protocol-version", session.version.encode()))
            if session.id:
                lines.append((b"mcp-session-id", session.id.encode()))
        return await self._open(b"POST", lines, body)

    async def listen(self, session: UpstreamSession, headers: Headers, last_event_id: str = "") -> Exchange:
        lines = [STREAM, (b"user-agent", self._agent), *headers, *_session_headers(session)]
        if last_event_id:
            lines.append((b"last-event-id", last_event_id.encode()))
        return await self._open(b"GET", lines)

    async def end(self, session: UpstreamSession, headers: Headers) -> None:
        if not session.id:
            return
        exchange = await self._open(
            b"DELETE", [(b"user-agent", self._agent), *headers, *_session_headers(session)]
        )
        await exchange.head(5)
        exchange.close()

    async def _open(self, verb: bytes, headers: Headers, body: bytes = b"") -> Exchange:
        try:
            ca_cert = self.declared.ca_cert.resolve() if self.declared.ca_cert else None
        except UnresolvedReference as error:
            raise BackendUnreachable(f"the CA certificate of this backend cannot be had ({error})") from None
        return await self._http.open(
            verb, self.declared.url, headers, body, authority=self._authority, ca_cert=ca_cert
        )

    async def initialize(
        self,
        version: str,
        client: dict[str, Any],
        capabilities: dict[str, Any],
        headers: Headers,
        seconds: float,
    ) -> tuple[UpstreamSession, dict[str, Any]]:
        """A new upstream session, and what the backend said of itself."""
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client}
        exchange = await self.post(None, jsonrpc.request("portico-0", "initialize", params), headers)
        message = await self._answer(exchange, "portico-0", seconds)
        id_ = exchange.headers.get(b"mcp-session-id", b"").decode("latin-1")
        about = _result(message)
        spoken = about.get("protocolVersion")
        if spoken not in versions.LEGACY:
            raise UnsupportedVersion(f"unsupported protocol version {spoken!r}"[:200])
        session = UpstreamSession(self.name, id_, spoken)
        await self.tell(session, jsonrpc.notification("notifications/initialized"), headers, seconds)
        return session, about

    async def tell(self, session: UpstreamSession, body: bytes, headers: Headers, seconds: float) -> int:
        """Send what has no answer (a notification, or an answer); the backend's HTTP status."""
        exchange = await self.post(session, body, headers)
        if not await exchange.head(seconds):
            exchange.close()
            raise BackendTimedOut("the backend did not answer in time")
        if exchange.is_stream:
            exchange.close()
        else:
            await exchange.body(self._limit, seconds)
            exchange.close()
        return exchange.status

    async def ask(
        self, session: UpstreamSession, method: str, params: dict[str, Any], headers: Headers, seconds: float
    ) -> dict[str, Any]:
        """A request of the gateway's own; its result."""
        id_ = f"portico-{next(self._ids)}"
        if session.version in versions.MODERN:
            params = {**params, "_meta": translate.envelope(self._client, ASKED, None)}
            headers = [*headers, (b"mcp-method", method.encode())]
        exchange = await self.post(session, jsonrpc.request(id_, method, params), headers)
        return _result(await self._answer(exchange, id_, seconds))

    # Which era it is of

    async def greet(self, headers: Headers, seconds: float) -> Greeting:
        """Modern first, as the specification says; a backend that speaks both is used in the client's own era."""
        modern = await self._discover(headers, seconds)
        try:
            session, about = await self.initialize(
                versions.NEWEST_LEGACY, self._client, ASKED, headers, seconds
            )
        except (BackendRefused, BackendBroken):
            if modern is None:
                raise
            return self._greeting(self.modern, ["modern"], modern)
        if modern is None:
            return self._greeting(session, ["legacy"], about)
        await self.end(session, headers)
        merged = {**modern, "capabilities": capabilities_of(about) | capabilities_of(modern)}
        return self._greeting(self.modern, ["modern", "legacy"], merged)

    def _greeting(self, upstream: UpstreamSession, eras: list[Era], about: dict[str, Any]) -> Greeting:
        said = about.get("instructions")
        return Greeting(upstream, eras, capabilities_of(about), said if isinstance(said, str) else "")

    async def _discover(self, headers: Headers, seconds: float) -> dict[str, Any] | None:
        """What a modern server says of itself; None where the answer is not that of one."""
        try:
            about = await self.ask(self.modern, "server/discover", {}, headers, seconds)
        except BackendRefused as error:
            if error.upstream_status in (401, 403):
                raise
            return None
        except BackendBroken:
            return None
        spoken = about.get("supportedVersions")
        return about if isinstance(spoken, list) and set(versions.MODERN) & set(map(str, spoken)) else None

    async def subscribe(self, notifications: dict[str, Any], headers: Headers) -> Exchange:
        """A modern server's stream of changes."""
        can: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}} if "taskIds" in notifications else {}
        params = {"notifications": notifications, "_meta": translate.envelope(self._client, can, None)}
        body = jsonrpc.request(f"portico-{next(self._ids)}", "subscriptions/listen", params)
        return await self.post(self.modern, body, [*headers, (b"mcp-method", b"subscriptions/listen")])

    # What it offers

    async def _answer(self, exchange: Exchange, id_: str, seconds: float) -> dict[str, Any]:
        try:
            if not await exchange.head(seconds):
                raise BackendTimedOut("the backend did not answer in time")
            if exchange.status != 200:
                raise refused(exchange.status, await exchange.body(65536, seconds), exchange.challenge)
            if exchange.is_stream:
                async with asyncio.timeout(seconds):
                    return await self._answer_in_stream(exchange, id_, seconds)
            return _loads(await exchange.body(self._limit, seconds))
        except TimeoutError:
            raise BackendTimedOut("the backend's stream brought no answer in time") from None
        except sse.FrameTooLarge as error:
            raise BackendBroken(f"the backend sent {error}") from None
        finally:
            exchange.close()

    async def _answer_in_stream(self, exchange: Exchange, id_: str, seconds: float) -> dict[str, Any]:
        decoder = sse.Decoder(self._limit)
        while chunk := await exchange.chunk(seconds):
            for frame in decoder.feed(chunk):
                message = _loads(frame.data) if frame.data else {}
                if message.get("id") == id_ and "method" not in message:
                    return message
        raise BackendBroken("the backend ended its stream without an answer")

    async def offers(self, greeting: Greeting, headers: Headers, seconds: float) -> Listing:
        """Everything it lists, page after page."""
        found: dict[str, list[dict[str, Any]]] = {}
        hints: dict[str, tuple[int, str]] = {}
        for method, key, capability in (
            ("tools/list", "tools", "tools"),
            ("prompts/list", "prompts", "prompts"),
            ("resources/list", "resources", "resources"),
            ("resources/templates/list", "resourceTemplates", "resources"),
        ):
            found[key] = []
            if capability in greeting.capabilities:
                pages = await self.pages(greeting.upstream, method, key, headers, seconds)
                found[key] = pages.items
                if "modern" in greeting.eras:
                    hints[key] = pages.hint
        return Listing(
            self.name,
            self.declared.prefix,
            found["tools"],
            _with(found["prompts"], "name"),
            _with(found["resources"], "uri"),
            _with(found["resourceTemplates"], "uriTemplate"),
            greeting.capabilities,
            greeting.instructions,
            greeting.upstream.version,
            self.declared.user_specific_list,
            greeting.eras,
            hints,
        )

    async def pages(
        self, session: UpstreamSession, method: str, key: str, headers: Headers, seconds: float
    ) -> "Pages":
        found = Pages()
        params: dict[str, Any] = {}
        size = 0
        for _ in range(PAGES):
            try:
                result = await self.ask(session, method, params, headers, seconds)
            except MethodUnknown:
                return found
            page = result.get(key)
            if not isinstance(page, list):
                raise BackendBroken(f"{method} answered without {key}")
            size += _written_size(page)
            if size > self._limit:
                raise BackendBroken(f"{method} lists more than {self._limit} bytes")
            found.add(page, result)
            cursor = result.get("nextCursor")
            if cursor is None or (cursor == "" and session.version not in versions.MODERN):
                return found
            if params.get("cursor") == cursor:
                raise BackendBroken(f"{method} goes round in a circle")
            params = {"cursor": cursor}
        raise BackendBroken(f"{method} does not end after {PAGES} pages")


@dataclass(slots=True)
class Pages:
    items: list[dict[str, Any]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    scopes: set[str] = field(default_factory=set)

    def add(self, page: list[Any], result: dict[str, Any]) -> None:
        self.items += [item for item in page if isinstance(item, dict)]
        time = result.get("ttlMs")
        self.times.append(time if isinstance(time, int) and time > 0 else 0)
        self.scopes.add("public" if result.get("cacheScope") == "public" else "private")

    @property
    def hint(self) -> tuple[int, str]:
        return min(self.times, default=0), "private" if "private" in self.scopes else "public"


class MethodUnknown(BackendBroken):
    pass


class UnsupportedVersion(BackendBroken):
    pass


def _written_size(page: list[Any]) -> int:
    """In characters. What nests too deep to be written again inside of other things is refused here."""
    wrapped: list[Any] = page
    for _ in range(HEADROOM):
        wrapped = [wrapped]
    try:
        return len(jsonrpc.dumps(wrapped))
    except RecursionError:
        raise BackendBroken("the backend's listing nests too deep") from None


def _with(items: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Those that can be named: the rest of a listing is of no use to anybody."""
    return [item for item in items if isinstance(item.get(key), str) and item[key]]


def _session_headers(session: UpstreamSession) -> Headers:
    lines = [(b"mcp-protocol-version", session.version.encode())]
    if session.id:
        lines.append((b"mcp-session-id", session.id.encode()))
    return lines


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _loads(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise BackendBroken("the backend sent what is not JSON") from None
    if not isinstance(message, dict):
        raise BackendBroken("the backend sent what is not a JSON-RPC message")
    return message


def _result(message: dict[str, Any]) -> dict[str, Any]:
    error = message.get("error")
    if isinstance(error, dict):
        kind = MethodUnknown if error.get("code") == jsonrpc.METHOD_NOT_FOUND else BackendBroken
        raise kind(f"the backend answered with the error {error.get('code')}: {error.get('message')}")
    result = message.get("result")
    if not isinstance(result, dict):
        raise BackendBroken("the backend answered without a result")
    return result
