"""The echo server's JSON-RPC methods other than `initialize`."""

import base64
from collections.abc import Awaitable, Callable, Sequence

from tests.servers.echo_state import LEVELS, VERSIONS, Json, RpcError, Session, State
from tests.servers.echo_tools import Call, call_tool, offered

PROMPTS: list[Json] = [
    {
        "name": "greet",
        "title": "Greeting",
        "description": "Greets someone.",
        "arguments": [{"name": "name", "description": "whom", "required": True}],
    },
    {"name": "plain", "description": "No arguments."},
]
BLOB = bytes(range(256))
RESOURCES: list[Json] = [
    {"uri": "echo://static/one", "name": "one", "title": "The first", "mimeType": "text/plain", "size": 3},
    {"uri": "echo://static/blob", "name": "blob", "mimeType": "application/octet-stream", "size": len(BLOB)},
]
TEMPLATES: list[Json] = [
    {"uriTemplate": "echo://item/{id}", "name": "item", "description": "Any item.", "mimeType": "text/plain"}
]
NAMES = ("Ada", "Alan", "Barbara", "Grace")

CAPABILITIES: Json = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
    "completions": {},
}
CAPABILITY_OF = {"completion": "completions"}  # method family to capability, where they differ


def capabilities(state: State) -> Json:
    """Without the dropped ones: "tools" drops all of it, "tools.listChanged" one flag."""
    dropped = state.switches.dropped
    return {
        name: {flag: on for flag, on in flags.items() if f"{name}.{flag}" not in dropped}
        for name, flags in CAPABILITIES.items()
        if name not in dropped
    }


def initialize(state: State, params: Json) -> tuple[Session, Json]:
    asked = params.get("protocolVersion")
    version = state.switches.pin_version or (asked if asked in VERSIONS else VERSIONS[-1])
    session = Session(version, params.get("capabilities") or {})
    state.sessions[session.id] = session
    state.initialized += 1
    result = {
        "protocolVersion": version,
        "capabilities": capabilities(state),
        "serverInfo": {"name": state.name, "title": "Echo", "version": "1.0"},
        "instructions": f"Instructions of {state.name}.",
    }
    return session, result | state.said.get("initialize", {})


def page(call: Call, name: str, items: Sequence[Json]) -> Json:
    size = call.state.switches.page_size or len(items)
    cursor = call.params.get("cursor")
    try:
        start = int(base64.b64decode(cursor, validate=True)) if cursor is not None else 0
    except (ValueError, TypeError) as error:
        raise RpcError(-32602, "Invalid cursor") from error
    result: Json = {name: list(items[start : start + size])}
    if start + size < len(items):
        result["nextCursor"] = base64.b64encode(str(start + size).encode()).decode()
    return result


async def list_tools(call: Call) -> Json:
    return page(call, "tools", offered(call))


async def list_prompts(call: Call) -> Json:
    return page(call, "prompts", [*PROMPTS, *call.state.prompts.values()])


async def list_resources(call: Call) -> Json:
    return page(call, "resources", [*RESOURCES, *call.state.resources.values()])


async def list_templates(call: Call) -> Json:
    return page(call, "resourceTemplates", TEMPLATES)


async def get_prompt(call: Call) -> Json:
    name, args = call.params.get("name"), call.params.get("arguments") or {}
    if name == "greet":
        if "name" not in args:
            raise RpcError(-32602, "Missing argument: name")
        words = f"Say hello to {args['name']} from {call.state.name}."
    elif name == "plain" or name in call.state.prompts:
        words = f"{name} of {call.state.name}"
    else:
        raise RpcError(-32602, f"Unknown prompt: {name}")
    message = {"role": "user", "content": {"type": "text", "text": words}}
    return {"description": f"Prompt {name}", "messages": [message]}


def contents(state: State, uri: str) -> Json:
    edition = state.updates.get(uri, 0)
    if uri == "echo://static/one":
        return {"mimeType": "text/plain", "text": f"one, edition {edition}" if edition else "one"}
    if uri == "echo://static/blob":
        return {"mimeType": "application/octet-stream", "blob": base64.b64encode(BLOB).decode()}
    if uri.startswith("echo://item/") or uri in state.resources:
        return {"mimeType": "text/plain", "text": f"{uri} of {state.name}, edition {edition}"}
    raise RpcError(-32002, "Resource not found", {"uri": uri})


async def read_resource(call: Call) -> Json:
    uri = call.params.get("uri", "")
    return {"contents": [{"uri": uri} | contents(call.state, uri)]}


async def subscribe(call: Call) -> Json:
    uri = call.params.get("uri", "")
    contents(call.state, uri)
    if uri == "echo://item/unwatched":
        raise RpcError(-32602, "nobody notices what becomes of this one")
    call.session.subscriptions.add(uri)
    return {}


async def unsubscribe(call: Call) -> Json:
    call.session.subscriptions.discard(call.params.get("uri", ""))
    return {}


async def complete(call: Call) -> Json:
    ref, argument = call.params.get("ref") or {}, call.params.get("argument") or {}
    match ref:
        case {"type": "ref/prompt", "name": "greet"} if argument.get("name") == "name":
            values = [name for name in NAMES if name.startswith(argument.get("value", ""))]
        case {"type": "ref/resource", "uri": "echo://item/{id}"} if argument.get("name") == "id":
            values = [str(n) for n in range(1, 4) if str(n).startswith(argument.get("value", ""))]
        case _:
            raise RpcError(-32602, "Unknown reference", {"ref": ref})
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


async def set_level(call: Call) -> Json:
    if call.params.get("level") not in LEVELS:
        raise RpcError(-32602, "Unknown level")
    call.session.level = call.params["level"]
    return {}


async def ping(call: Call) -> Json:
    return {}


METHODS: dict[str, Callable[[Call], Awaitable[Json]]] = {
    "ping": ping,
    "tools/list": list_tools,
    "tools/call": call_tool,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
    "completion/complete": complete,
    "logging/setLevel": set_level,
}


async def answer(call: Call) -> Json:
    """The whole response message. Only cancellation gets out of here as an exception."""
    family = call.method.partition("/")[0]
    method = METHODS.get(call.method)
    if call.method in call.state.said:
        return {"jsonrpc": "2.0", "id": call.id, "result": call.state.said[call.method]}
    try:
        if method is None or CAPABILITY_OF.get(family, family) in call.state.switches.dropped:
            raise RpcError(-32601, f"Method not found: {call.method}")
        return {"jsonrpc": "2.0", "id": call.id, "result": await method(call)}
    except RpcError as error:
        return {"jsonrpc": "2.0", "id": call.id, "error": error.body()}
