"""One MCP server on the official SDK that shows every feature of the protocol, in one era or in both.

    python -m tests.servers.features [--era legacy|modern|both] [--port N] [--name X]

Says `ready http://127.0.0.1:N/mcp` on stderr once it listens. The SDK serves both eras; a gate in front refuses one
of them as a server of the other era would. `/control` tells what is going on (GET) and makes things happen (POST).
"""

import argparse
import contextlib
import logging
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.types import HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, UNSUPPORTED_PROTOCOL_VERSION
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.servers.everything import serve
from tests.servers.features_calls import Call, InputRequired, Json, session_of
from tests.servers.features_content import NAMES, Content, text

ERAS = ("legacy", "modern", "both")
PAGE_SIZE = 5
CACHEABLE = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "server/discover",
)
FRESH = CacheHint(ttl_ms=60_000, scope="public")
RESOURCE_NOT_FOUND = -32002  # of the legacy era; INVALID_PARAMS since
CHANGED = {
    "tools": (ToolsListChanged, "send_tool_list_changed"),
    "prompts": (PromptsListChanged, "send_prompt_list_changed"),
    "resources": (ResourcesListChanged, "send_resource_list_changed"),
}


class Announcing(Server):
    """Says in the handshake, too, that its lists may change."""

    def get_capabilities(self, notification_options=None, *arguments, **named):
        everything = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().get_capabilities(everything, *arguments, **named)


class Handlers:
    def __init__(self, content: Content) -> None:
        self.content = content
        self.audience = content.audience

    async def run(self, ctx, run, arguments) -> Any:
        try:
            return await run(Call(ctx, arguments or {}, self.audience))
        except InputRequired as need:
            return need.result

    async def list_tools(self, ctx, params):
        return page(self.content.tools, "tools", params)

    async def list_prompts(self, ctx, params):
        return page(self.content.prompts, "prompts", params)

    async def list_resources(self, ctx, params):
        return page(self.content.resources, "resources", params)

    async def list_templates(self, ctx, params):
        return {"resourceTemplates": [{"uriTemplate": self.content.template, "name": "item"}]}

    async def call_tool(self, ctx, params):
        if params.name not in self.content.tools.items:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        result = await self.run(ctx, self.content.tools.items[params.name][1], params.arguments)
        return {"content": [text(result)]} if isinstance(result, str) else result

    async def get_prompt(self, ctx, params):
        if params.name not in self.content.prompts.items:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
        return await self.run(ctx, self.content.prompts.items[params.name][1], params.arguments)

    async def read_resource(self, ctx, params):
        uri = str(params.uri)
        run = self.content.reader(uri)
        if run is None:
            code = INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": uri})
        return await self.run(ctx, run, {"uri": uri})

    async def complete(self, ctx, params):
        values = [name for name in NAMES if name.startswith(params.argument.value)]
        if params.ref.type == "ref/resource":
            values = [str(number) for number in (1, 12, 123) if str(number).startswith(params.argument.value)]
        return {"completion": {"values": values, "total": len(values), "hasMore": False}}

    async def set_level(self, ctx, params):
        self.audience.levels[session_of(ctx)] = params.level
        return {}

    async def subscribe(self, ctx, params):
        self.audience.subscribers.setdefault(str(params.uri), set()).add(session_of(ctx))
        return {}

    async def unsubscribe(self, ctx, params):
        self.audience.subscribers.get(str(params.uri), set()).discard(session_of(ctx))
        return {}

    async def note_session(self, ctx, call_next):
        if session := session_of(ctx):
            self.audience.sessions[session] = ctx.session
        return await call_next(ctx)


def page(shelf, kind, params) -> Json:
    items, following = shelf.page(params.cursor if params else None, PAGE_SIZE)
    return {kind: items} | ({"nextCursor": following} if following else {})


def shaped(handler):
    """The handler, its results marked as complete where the protocol version wants that said."""

    async def answer(ctx, params):
        result = await handler(ctx, params)
        return (
            {"resultType": "complete", **result}
            if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            else result
        )

    return answer


class Control:
    """GET: what is going on. POST: {"do": "add"|"remove", "kind": …, "name": …} or {"do": "update", "uri": …}."""

    def __init__(self, content: Content) -> None:
        self.content = content
        self.seen: list[Json] = []

    async def handle(self, request: Request) -> Response:
        audience = self.content.audience
        if request.method == "GET":
            state = {"running": audience.running, "cancelled": audience.cancelled, "seen": self.seen}
            return JSONResponse(state | {"sessions": list(audience.sessions)})
        wanted = await request.json()
        await getattr(self, f"do_{wanted.pop('do')}")(**wanted)
        return JSONResponse({"ok": True})

    async def do_add(self, kind: str, name: str) -> None:
        self.content.put(kind, name)
        await self.announce(kind)

    async def do_remove(self, kind: str, name: str) -> None:
        self.content.drop(kind, name)
        await self.announce(kind)

    async def do_update(self, uri: str) -> None:
        audience = self.content.audience
        self.content.versions[uri] = self.content.versions.get(uri, 0) + 1
        await audience.bus.publish(ResourceUpdated(uri=uri))
        for session in audience.subscribers.get(uri, set()) & audience.sessions.keys():
            await self.tell(session, "send_resource_updated", uri)

    async def announce(self, kind: str) -> None:
        event, method = CHANGED[kind]
        await self.content.audience.bus.publish(event())
        for session in list(self.content.audience.sessions):
            await self.tell(session, method)

    async def tell(self, session: str, method: str, *arguments: str) -> None:
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await getattr(self.content.audience.sessions[session], method)(*arguments)


Scope = dict[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]


class Gate:
    """Lets one era through, and answers the other as a server would that has never heard of it."""

    def __init__(self, era: str, application: Application, control: Control) -> None:
        self.era, self.application, self.control = era, application, control

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        version = headers.get("mcp-protocol-version")
        modern = version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS
        note = {"http": scope["method"], "method": headers.get("mcp-method"), "version": version}
        self.control.seen.append(note)
        if self.era == "legacy" and modern:
            await refused_by_legacy(version)(scope, receive, send)
        elif self.era == "modern" and not modern:
            await refused_by_modern(scope["method"], version)(scope, receive, send)
        else:
            if scope["method"] == "DELETE":
                self.control.content.audience.sessions.pop(headers.get("mcp-session-id", ""), None)
            await self.application(scope, receive, at_once(send) if scope["method"] == "GET" else send)


def at_once(send):
    """uvicorn keeps the headers back until the first body, which on a GET stream may take long."""

    async def sending(message):
        await send(message)
        if message["type"] == "http.response.start" and message["status"] == 200:
            await send({"type": "http.response.body", "body": b"", "more_body": True})

    return sending


def refused_by_legacy(version: str | None) -> Response:
    """In the words of the SDK of that time."""
    known = ", ".join(HANDSHAKE_PROTOCOL_VERSIONS)
    message = f"Bad Request: Unsupported protocol version: {version}. Supported versions: {known}"
    error = {"code": INVALID_REQUEST, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": "server-error", "error": error}, 400)


def refused_by_modern(http: str, version: str | None) -> Response:
    """Names the versions it knows in every refusal, as it should: an old client can show nothing else."""
    if http != "POST":
        return Response(status_code=405, headers={"allow": "POST"})
    known = list(MODERN_PROTOCOL_VERSIONS)
    if version is None:
        error = {"code": HEADER_MISMATCH, "message": f"MCP-Protocol-Version is missing; supported: {known}"}
    else:
        data = {"supported": known, "requested": version}
        error = {"code": UNSUPPORTED_PROTOCOL_VERSION, "message": "Unsupported protocol version"}
        error |= {"data": data}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)


def build(era: str, name: str) -> Starlette:
    content = Content(name)
    handlers, control = Handlers(content), Control(content)
    server = Announcing(
        name,
        version="1.0.0",
        instructions=f"Every feature there is, {era} era.",
        cache_hints=dict.fromkeys(CACHEABLE, FRESH),
        on_list_tools=shaped(handlers.list_tools),
        on_call_tool=shaped(handlers.call_tool),
        on_list_resources=shaped(handlers.list_resources),
        on_list_resource_templates=shaped(handlers.list_templates),
        on_read_resource=shaped(handlers.read_resource),
        on_subscribe_resource=shaped(handlers.subscribe),
        on_unsubscribe_resource=shaped(handlers.unsubscribe),
        on_subscriptions_listen=ListenHandler(content.audience.bus),
        on_list_prompts=shaped(handlers.list_prompts),
        on_get_prompt=shaped(handlers.get_prompt),
        on_completion=shaped(handlers.complete),
        on_set_logging_level=shaped(handlers.set_level),
    )
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=name))
    server.middleware.append(handlers.note_session)
    sessions = StreamableHTTPSessionManager(server)
    gate = Gate(era, StreamableHTTPASGIApp(sessions), control)
    routes = [Route("/mcp", gate), Route("/control", control.handle, methods=["GET", "POST"])]
    return Starlette(routes=routes, lifespan=lambda _: sessions.run())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--era", choices=ERAS, default="both")
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    parser.add_argument("--name", help="default: the era")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=MCPDeprecationWarning)  # old features are the point here
    logging.getLogger("mcp").setLevel(logging.ERROR)
    serve(build(options.era, options.name or options.era), options.port)


if __name__ == "__main__":
    main()
