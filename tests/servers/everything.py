"""An MCP server with everything the conformance suite asks for, on the official SDK.

    python -m tests.servers.everything [--port N]

Says `ready http://127.0.0.1:N/mcp` on stderr once it listens. It speaks every protocol version the
SDK does, with sessions, resumable streams and the Host and Origin check where they belong.
"""

import argparse
import socket
import sys
import warnings
from collections.abc import Sequence

import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.types import INVALID_PARAMS
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.routing import Route

from tests.servers import everything_content as content
from tests.servers.everything_rounds import ROUND_PROMPT, round_prompt
from tests.servers.everything_tools import TOOLS, Audience, Call, session_of

NAME = "everything"
RETRY_MS = 50  # shorter than the gap test_reconnection leaves, so that a client is back before the result
RESOURCE_NOT_FOUND = -32002  # up to 2025-11-25; INVALID_PARAMS since

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_FRESH = CacheHint(ttl_ms=60_000, scope="public")
_CACHEABLE = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "server/discover",
)


class Events(EventStore):
    """The events of one session, in the order they were sent; an event's id is its place."""

    def __init__(self):
        self._events = []

    async def store_event(self, stream_id, message):
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id, send_callback):
        seen = int(last_event_id) if last_event_id.isdecimal() else 0
        if not 0 < seen <= len(self._events):
            return None
        stream = self._events[seen - 1][0]
        for place, (stream_id, message) in enumerate(self._events[seen:], seen + 1):
            if stream_id == stream and message is not None:  # None marks the start of a stream
                await send_callback(EventMessage(message, str(place)))
        return stream


class Sessions(StreamableHTTPSessionManager):
    """Gives each session its own event store.

    The SDK shares one among all sessions and names a stream by the id of its request, which clients
    count from zero: a resumed stream could be handed the events of somebody else's.
    """

    @property
    def event_store(self):
        return Events()

    @event_store.setter
    def event_store(self, _):
        pass


class Handlers:
    def __init__(self):
        self.audience = Audience(levels={}, subscribers={}, bus=InMemorySubscriptionBus())

    async def list_tools(self, ctx, params):
        return {"tools": [tool.definition for tool in TOOLS.values()]}

    async def call_tool(self, ctx, params):
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        _refuse_missing(tool.definition["inputSchema"].get("required", ()), params.arguments)
        answer = await tool.run(Call(ctx, params, self.audience))
        if isinstance(answer, str):
            answer = [content.text(answer)]
        return {"content": answer} if isinstance(answer, list) else answer

    async def list_resources(self, ctx, params):
        return {"resources": content.RESOURCES}

    async def list_templates(self, ctx, params):
        return {"resourceTemplates": content.TEMPLATES}

    async def read_resource(self, ctx, params):
        uri = str(params.uri)
        found = content.read(uri)
        if found is None:
            code = INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": uri})
        return {"contents": [found]}

    async def subscribe(self, ctx, params):
        self.audience.subscribers.setdefault(str(params.uri), {})[session_of(ctx)] = ctx.session
        return {}

    async def unsubscribe(self, ctx, params):
        self.audience.subscribers.get(str(params.uri), {}).pop(session_of(ctx), None)
        return {}

    async def list_prompts(self, ctx, params):
        prompts = [
            {
                "name": name,
                "description": description,
                "arguments": [{"name": argument, "required": True} for argument in arguments],
            }
            for name, (description, arguments, _) in content.PROMPTS.items()
        ]
        return {"prompts": [*prompts, {"name": ROUND_PROMPT, "description": "Asks for its context first"}]}

    async def get_prompt(self, ctx, params):
        if params.name == ROUND_PROMPT:
            return round_prompt((ctx.params or {}).get("inputResponses") or {})
        if params.name not in content.PROMPTS:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
        _, arguments, render = content.PROMPTS[params.name]
        _refuse_missing(arguments, params.arguments)
        return render(params.arguments or {})

    async def complete(self, ctx, params):
        values = content.complete(params.argument.name, params.argument.value)
        return {"completion": {"values": values, "total": len(values), "hasMore": False}}

    async def set_level(self, ctx, params):
        self.audience.levels[session_of(ctx)] = params.level
        return {}


def _refuse_missing(required: Sequence[str], arguments):
    missing = [name for name in required if name not in (arguments or {})]
    if missing:
        raise MCPError(INVALID_PARAMS, f"Missing arguments: {', '.join(missing)}")


def _shaped(handler):
    """The handler, its results marked as complete where the protocol version wants that said."""

    async def answer(ctx, params):
        result = await handler(ctx, params)
        return (
            {"resultType": "complete", **result}
            if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            else result
        )

    return answer


def _schema_of(name):
    return TOOLS[name].definition["inputSchema"] if name in TOOLS else None


def build():
    """The ASGI application."""
    handlers = Handlers()
    server = Server(
        NAME,
        version="1.0.0",
        instructions="Every tool does one thing a client or a gateway could get wrong.",
        cache_hints=dict.fromkeys(_CACHEABLE, _FRESH),
        get_tool_input_schema=_schema_of,
        on_list_tools=_shaped(handlers.list_tools),
        on_call_tool=_shaped(handlers.call_tool),
        on_list_resources=_shaped(handlers.list_resources),
        on_list_resource_templates=_shaped(handlers.list_templates),
        on_read_resource=_shaped(handlers.read_resource),
        on_subscribe_resource=_shaped(handlers.subscribe),
        on_unsubscribe_resource=_shaped(handlers.unsubscribe),
        on_subscriptions_listen=ListenHandler(handlers.audience.bus),
        on_list_prompts=_shaped(handlers.list_prompts),
        on_get_prompt=_shaped(handlers.get_prompt),
        on_completion=_shaped(handlers.complete),
        on_set_logging_level=_shaped(handlers.set_level),
    )
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    sessions = Sessions(
        server,
        retry_interval=RETRY_MS,
        security_settings=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[f"{host}:*" for host in _LOOPBACK],
            allowed_origins=[f"http://{host}:*" for host in _LOOPBACK],
        ),
    )
    route = Route("/mcp", StreamableHTTPASGIApp(sessions))
    return Starlette(routes=[route], lifespan=lambda _: sessions.run())


class _Announcing(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets=sockets)
        for listening in sockets or ():
            host, port = listening.getsockname()
            print(f"ready http://{host}:{port}/mcp", file=sys.stderr, flush=True)


def serve(application, port):
    """On 127.0.0.1, until a signal."""
    listening = socket.create_server(("127.0.0.1", port))
    # httptools keeps the blanks around header values, which the SDK's header checks then refuse
    config = uvicorn.Config(application, http="h11", log_level="warning", timeout_graceful_shutdown=1)
    _Announcing(config).run(sockets=[listening])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=MCPDeprecationWarning)  # old features are the point here
    serve(build(), options.port)


if __name__ == "__main__":
    main()
