"""The echo server's tools: what `tools/list` says of them, and what they do."""

import asyncio
import base64
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.servers.echo_state import LEVELS, Json, RpcError, Session, State, Stream, joined, key


@dataclass
class Call:
    """One JSON-RPC request being answered; `send` and `ask` turn its answer into an SSE stream."""

    state: State
    session: Session
    method: str
    id: Any
    params: Json
    headers: list[tuple[bytes, bytes]]
    body: bytes
    stream: Stream

    def send(self, method: str, params: Json) -> None:
        self.stream.put({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, method: str, params: Json | None = None) -> Json:
        """The client's result, or {"error": ...}."""
        request, answer = self.session.ask(method, params)
        self.stream.put(request)
        try:
            message = await answer
        finally:
            self.session.asked.pop(key(request["id"]), None)
        return message["result"] if "result" in message else {"error": message.get("error")}

    def log(self, level: str, data: Any) -> None:
        if LEVELS.index(level) >= LEVELS.index(self.session.level):
            self.send("notifications/message", {"level": level, "logger": self.state.name, "data": data})

    def lacks(self, capability: str) -> RpcError:
        return RpcError(-32602, f"the client did not declare the capability {capability}")


Tool = Callable[[Call, Json], Awaitable[Json]]

DEFINITIONS: dict[str, Json] = {}
BEHAVIOUR: dict[str, Tool] = {}


def tool(
    description: str, *required: str, properties: Json | None = None, **more: Any
) -> Callable[[Tool], Tool]:
    def register(behaviour: Tool) -> Tool:
        schema: Json = {"type": "object", "properties": properties or {}}
        if required:
            schema["required"] = list(required)
        name = behaviour.__name__
        DEFINITIONS[name] = {"name": name, "description": description, "inputSchema": schema} | more
        BEHAVIOUR[name] = behaviour
        return behaviour

    return register


def text(value: str) -> Json:
    return {"content": [{"type": "text", "text": value}]}


def as_text(value: Any) -> Json:
    return text(json.dumps(value, ensure_ascii=False))


STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
WEATHER: Json = {
    "type": "object",
    "properties": {"temperature": NUMBER, "conditions": STRING, "serial": INTEGER},
    "required": ["temperature", "conditions"],
}


@tool("Gives its text back.", "text", properties={"text": STRING})
async def echo(call: Call, args: Json) -> Json:
    return text(args["text"])


@tool("The headers of this very request, as JSON.")
async def headers(call: Call, args: Json) -> Json:
    return as_text(joined(call.headers))


@tool("The exact body of this very request, in base64.")
async def body(call: Call, args: Json) -> Json:
    return text(base64.b64encode(call.body).decode())


@tool("Which server, process and session this is.")
async def whoami(call: Call, args: Json) -> Json:
    session = call.session
    return as_text(
        {
            "name": call.state.name,
            "pid": os.getpid(),
            "session": session.id,
            "version": session.version,
            "capabilities": session.capabilities,
        }
    )


@tool("Takes its time and reports progress, or comments.", properties={"seconds": NUMBER, "steps": INTEGER})
async def slow(call: Call, args: Json) -> Json:
    call.stream.sse = True
    call.stream.wake.set()
    seconds, steps = args.get("seconds", 1), args.get("steps", 5)
    meta = call.params.get("_meta") or {}
    for step in range(1, steps + 1):
        await asyncio.sleep(seconds / steps)
        call.stream.comment()
        if "progressToken" in meta:
            progress = {"progress": step, "total": steps, "message": f"step {step} of {steps}"}
            call.send("notifications/progress", {"progressToken": meta["progressToken"]} | progress)
    return text(f"slept {seconds} s in {steps} steps")


@tool("A tool that fails.")
async def fail(call: Call, args: Json) -> Json:
    return text("failed as asked") | {"isError": True}


@tool("Answers with a JSON-RPC error.")
async def rpc_error(call: Call, args: Json) -> Json:
    raise RpcError(-32050, "refused as asked", {"why": "asked for", "serial": 2**70, "unicode": "ß✓"})


def need(call: Call, args: Json, capability: str) -> None:
    """The specification forbids to ask for what the client did not declare; {"force": true} asks all the same."""
    if capability not in call.session.capabilities and not args.get("force"):
        raise call.lacks(capability)


FORCE = {"force": {"type": "boolean"}}
QUESTION: Json = {"type": "object", "properties": {"name": STRING}, "required": ["name"]}


@tool(
    "Asks the user, then takes its time.",
    properties={"message": STRING, "requestedSchema": {"type": "object"}, "seconds": NUMBER} | FORCE,
)
async def elicit(call: Call, args: Json) -> Json:
    need(call, args, "elicitation")
    question = {"mode": "form", "message": "What is your name?", "requestedSchema": QUESTION}
    given = await call.ask("elicitation/create", question | {k: args[k] for k in args if k in question})
    await asyncio.sleep(args.get("seconds", 0))
    return as_text(given)


@tool("Asks the user twice, one after the other.", properties=FORCE)
async def two_questions(call: Call, args: Json) -> Json:
    need(call, args, "elicitation")
    answers = [
        await call.ask("elicitation/create", {"message": message, "requestedSchema": QUESTION})
        for message in ("First name?", "Last name?")
    ]
    return as_text(answers)


@tool("Asks the client's model.", properties={"prompt": STRING} | FORCE)
async def sample(call: Call, args: Json) -> Json:
    need(call, args, "sampling")
    question = {"role": "user", "content": {"type": "text", "text": args.get("prompt", "Say hello.")}}
    params = {"messages": [question], "maxTokens": 100, "_meta": {"progressToken": "sampling-0"}}
    return as_text(await call.ask("sampling/createMessage", params))


@tool("Asks for the client's roots.", properties=FORCE)
async def roots(call: Call, args: Json) -> Json:
    need(call, args, "roots")
    return as_text(await call.ask("roots/list"))


@tool("Logs a line before it answers.", properties={"level": {"enum": list(LEVELS)}, "text": STRING})
async def log(call: Call, args: Json) -> Json:
    call.log(args.get("level", "info"), args.get("text", "hello"))
    return text("logged")


@tool("Structured content.", title="Structured", outputSchema=WEATHER)
async def structured(call: Call, args: Json) -> Json:
    weather = {"temperature": 22.5, "conditions": "wolkig, 多云", "serial": 12345678901234567890}
    return as_text(weather) | {"structuredContent": weather}


@tool("A text of so many bytes.", "bytes", properties={"bytes": INTEGER})
async def big(call: Call, args: Json) -> Json:
    return text("x" * args["bytes"])


@tool("A link to one of this server's resources, and the resource itself.")
async def link(call: Call, args: Json) -> Json:
    return {
        "content": [
            {"type": "resource_link", "uri": "echo://static/one", "name": "one", "mimeType": "text/plain"},
            {
                "type": "resource",
                "resource": {"uri": "echo://static/one", "mimeType": "text/plain", "text": "one"},
            },
        ]
    }


@tool("Closes its connection and answers on the resumed stream.", properties={"seconds": NUMBER})
async def resumable(call: Call, args: Json) -> Json:
    """Writes an event id first, hangs up, and leaves the result for a GET with Last-Event-ID."""
    call.stream.with_ids = True
    call.session.streams[call.stream.name] = call.stream
    call.stream.prime(200)
    call.log("info", "hanging up")
    call.stream.cut()
    await asyncio.sleep(args.get("seconds", 0.3))
    call.log("info", "nearly done")
    return text("resumed")


@tool(
    "Beschreibung mit Umlauten: äöü, 日本語, emoji 🚪.",
    "naïve",
    properties={"naïve": {"type": "string", "description": "ein Wört"}, "n": {"type": ["integer", "null"]}},
    title="Fancy ✨ tool",
    annotations={
        "title": "Fancy",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    },
    icons=[{"src": "data:image/png;base64,iVBORw0KGgo=", "mimeType": "image/png", "sizes": ["48x48"]}],
    outputSchema=WEATHER,
    _meta={"com.example/owner": {"team": "ü", "rank": 1}},
)
async def fancy(call: Call, args: Json) -> Json:
    return await structured(call, args)


@tool("Only reads.", annotations={"readOnlyHint": True})
async def read_only(call: Call, args: Json) -> Json:
    return text("read")


@tool("Destroys.", annotations={"readOnlyHint": False, "destructiveHint": True})
async def destructive(call: Call, args: Json) -> Json:
    return text("destroyed")


@tool("Wants its user to go somewhere first; the second call finds that done.")
async def visit(call: Call, args: Json) -> Json:
    call.state.visits += 1
    if call.state.visits % 2:
        asked = {"mode": "url", "url": "https://example.com/", "message": "Go there", "elicitationId": "v1"}
        raise RpcError(-32042, "Somewhere to go first", {"elicitations": [asked]})
    return text("visited")


async def added(call: Call, args: Json) -> Json:
    """What tools made by `add_tool`, `invalid_tools` and `per_user` do."""
    return as_text({"tool": call.params["name"], "arguments": args})


OBJECT: Json = {"type": "object"}
INVALID: list[Json] = [
    {"name": "", "description": "no name", "inputSchema": OBJECT},
    {"name": "no_schema", "description": "no input schema"},
    {"name": "string_schema", "inputSchema": {"type": "string"}},
    {"name": "nonsense_type", "inputSchema": {"type": "object", "properties": {"a": {"type": "nonsense"}}}},
]


def offered(call: Call) -> list[Json]:
    """The tools of this server as this client may see them now."""
    state = call.state
    tools = [t for name, t in (DEFINITIONS | state.tools).items() if name not in state.removed]
    if state.switches.invalid_tools:
        tools = INVALID[:2] + tools + INVALID[2:]
    user = joined(call.headers).get("x-user")
    if state.switches.per_user and user:
        tools.append({"name": f"{user}_only", "description": f"For {user}.", "inputSchema": OBJECT})
    return tools


async def call_tool(call: Call) -> Json:
    name = call.params.get("name")
    if name not in {tool["name"] for tool in offered(call)}:
        raise RpcError(-32602, f"Unknown tool: {name}")
    call.state.calls += 1
    args = call.params.get("arguments") or {}
    try:
        return await BEHAVIOUR.get(str(name), added)(call, args)
    except (KeyError, TypeError, ValueError) as error:
        raise RpcError(-32602, f"Invalid arguments: {error!r}") from error
