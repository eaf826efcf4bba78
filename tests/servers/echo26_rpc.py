"""What the echo server does differently in the modern era: its methods, its results, and asking in rounds."""

import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.servers import echo_rpc, echo_tools
from tests.servers.echo_state import LEVELS, Json, RpcError, State, Stream, joined
from tests.servers.echo_tools import INTEGER, STRING, Call, as_text

VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"
CACHEABLE = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "server/discover",
)
LIST_FLAGS = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
NOT_ANY_MORE = ("ping", "resources/subscribe", "resources/unsubscribe", "logging/setLevel")
LEGACY_TOOLS = ("resumable",)


class InputRequired(Exception):
    """The call goes on in another round."""

    def __init__(self, requests: Json, state: str) -> None:
        super().__init__(", ".join(requests))
        self.result = {"resultType": "input_required", "inputRequests": requests, "requestState": state}


@dataclass
class Subscription:
    """One `subscriptions/listen`."""

    id: Any
    wanted: Json
    stream: Stream

    @property
    def meta(self) -> Json:
        return {"_meta": {f"{META}subscriptionId": self.id}}

    def tell(self, method: str, params: Json | None = None) -> bool:
        """Whether this was asked for."""
        uri = (params or {}).get("uri")
        if method == "notifications/resources/updated":
            asked = uri in self.wanted.get("resourceSubscriptions", ())
        else:
            asked = bool(self.wanted.get(LIST_FLAGS.get(method, "")))
        if asked:
            self.stream.put({"jsonrpc": "2.0", "method": method, "params": {**self.meta, **(params or {})}})
        return asked

    def close(self, *, gracefully: bool) -> None:
        result = {"jsonrpc": "2.0", "id": self.id, "result": {"resultType": "complete", **self.meta}}
        self.stream.end(result if gracefully else None)


class State26(State):
    def __init__(self, name: str, era: str) -> None:
        self.era = era
        self.cache: dict[str, Json] = {}  # method, or "" for all of them: what its results say of caching
        self.subscriptions: list[Subscription] = []
        self.running: dict[str, Any] = {}
        super().__init__(name)

    def counters(self) -> Json:
        more = {"era": self.era, "listen_streams_open": len(self.subscriptions)}
        counters = super().counters()
        return counters | more | {"calls_running": counters["calls_running"] + len(self.running)}

    def caching(self, method: str) -> Json:
        if method not in CACHEABLE:
            return {}
        own = self.cache.get(method, self.cache.get("", {}))
        return {"ttlMs": 0, "cacheScope": "private"} | own


@dataclass
class ModernCall(Call):
    """A round of a call. Questions are numbered, so that the next round finds the answers of those before."""

    asked: int = 0
    known: list[Json] = field(default_factory=list)

    def __post_init__(self) -> None:
        state = self.params.get("requestState")
        try:
            self.known = json.loads(base64.b64decode(state, validate=True)) if state is not None else []
        except (ValueError, TypeError) as error:
            raise RpcError(-32602, "Invalid requestState") from error

    @property
    def meta(self) -> Json:
        return self.params["_meta"]

    async def ask(self, method: str, params: Json | None = None) -> Json:
        return (await self.ask_all((method, params)))[0]

    async def ask_all(self, *questions: tuple[str, Json | None]) -> list[Json]:
        """All in one round."""
        first, self.asked = self.asked, self.asked + len(questions)
        given = self.params.get("inputResponses") or {}
        keys = [f"q{number}" for number in range(first, self.asked)]
        if first == len(self.known) and all(key in given for key in keys):
            self.known += [given[key] for key in keys]
        if self.asked > len(self.known):
            requests = {
                key: {"method": method, "params": params or {}}
                for key, (method, params) in zip(keys, questions, strict=True)
            }
            raise InputRequired(requests, base64.b64encode(json.dumps(self.known).encode()).decode())
        return self.known[first : self.asked]

    def log(self, level: str, data: Any) -> None:
        wanted = self.meta.get(f"{META}logLevel")
        if wanted in LEVELS and LEVELS.index(level) >= LEVELS.index(wanted):
            self.send("notifications/message", {"level": level, "logger": self.state.name, "data": data})

    def lacks(self, capability: str) -> RpcError:
        needed = {"requiredCapabilities": {capability: {}}}
        return RpcError(-32021, f"the client did not declare the capability {capability}", needed)


async def both_questions(call: ModernCall, args: Json) -> Json:
    echo_tools.need(call, args, "elicitation")
    questions = [
        ("elicitation/create", {"mode": "form", "message": message, "requestedSchema": echo_tools.QUESTION})
        for message in ("First name?", "Last name?")
    ]
    return as_text(await call.ask_all(*questions))


async def region(call: ModernCall, args: Json) -> Json:
    given = {name: value for name, value in joined(call.headers).items() if name.startswith("mcp-param-")}
    return as_text({"arguments": args, "headers": given})


async def stray(call: ModernCall, args: Json) -> Json:
    call.stream.put(args["message"])
    return echo_tools.text("said it")


async def later(call: ModernCall, args: Json) -> Json:
    """Not ready yet, and has no question either: to be called again with its state."""
    if len(call.known) < 3:
        state = json.dumps([*call.known, {}]).encode()
        raise InputRequired({}, base64.b64encode(state).decode())
    return echo_tools.text("ready at last")


MODERN_TOOLS: dict[str, tuple[Json, Any]] = {
    "later": ({"name": "later", "description": "Is ready later.", "inputSchema": {"type": "object"}}, later),
    "both_questions": (
        {"name": "both_questions", "description": "Asks twice at once.", "inputSchema": {"type": "object"}},
        both_questions,
    ),
    "stray": (
        {"name": "stray", "description": "Says whatever it is told to.", "inputSchema": {"type": "object"}},
        stray,
    ),
    "region": (
        {
            "name": "region",
            "description": "Its arguments are repeated in headers.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "region": STRING | {"x-mcp-header": "Region"},
                    "count": INTEGER | {"x-mcp-header": "Count"},
                    "plain": STRING,
                },
            },
        },
        region,
    ),
}


def offered(call: Call) -> list[Json]:
    own = [definition for name, (definition, _) in MODERN_TOOLS.items() if name not in call.state.removed]
    return [tool for tool in echo_tools.offered(call) if tool["name"] not in LEGACY_TOOLS] + own


async def list_tools(call: ModernCall) -> Json:
    return echo_rpc.page(call, "tools", offered(call))


async def call_tool(call: ModernCall) -> Json:
    name = call.params.get("name")
    if name in LEGACY_TOOLS:
        raise RpcError(-32602, f"Unknown tool: {name}")
    if name in MODERN_TOOLS and name not in call.state.removed:
        call.state.calls += 1
        return await MODERN_TOOLS[name][1](call, call.params.get("arguments") or {})
    return await echo_tools.call_tool(call)


async def discover(call: ModernCall) -> Json:
    return {
        "supportedVersions": [VERSION],
        "capabilities": echo_rpc.capabilities(call.state),
        "instructions": f"Instructions of {call.state.name}.",
    }


METHODS: dict[str, Callable[[ModernCall], Awaitable[Json]]] = {
    **{name: method for name, method in echo_rpc.METHODS.items() if name not in NOT_ANY_MORE},
    "server/discover": discover,
    "tools/list": list_tools,
    "tools/call": call_tool,
}


async def answer(call: ModernCall) -> Json:
    """The whole response message. Only cancellation gets out of here as an exception."""
    message: Json = {"jsonrpc": "2.0", "id": call.id}
    if call.method in call.state.said:
        return message | {"result": call.state.said[call.method]}
    family = call.method.partition("/")[0]
    try:
        method = METHODS.get(call.method)
        if method is None or echo_rpc.CAPABILITY_OF.get(family, family) in call.state.switches.dropped:
            raise RpcError(-32601, f"Method not found: {call.method}")
        result = {"resultType": "complete"} | await method(call) | call.state.caching(call.method)
    except InputRequired as need:
        result = need.result
    except RpcError as error:
        return message | {"error": error.body() | ({"code": -32602} if error.code == -32002 else {})}
    info = {"name": call.state.name, "title": "Echo", "version": "1.0"}
    return message | {"result": result | {"_meta": {f"{META}serverInfo": info} | result.get("_meta", {})}}
