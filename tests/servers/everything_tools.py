"""The tools of the everything server: one decorated function each, by the names the suite calls.

A tool takes a `Call` and returns a string, a list of content blocks, or a whole result in wire form.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourceUpdated, ToolsListChanged
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    SamplingMessage,
    TextContent,
)

from tests.servers.everything_content import WATCHED_URI, audio, embedded, image, text

SEVERITIES = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


@dataclass
class Audience:
    """Who wants to hear what: per session its log level, per URI its subscribed sessions."""

    levels: dict[str, str]
    subscribers: dict[str, dict[str, Any]]
    bus: InMemorySubscriptionBus


@dataclass
class Call:
    """One tools/call: what came in, and the ways to talk to the client before answering."""

    ctx: ServerRequestContext
    params: CallToolRequestParams
    audience: Audience

    @property
    def arguments(self):
        return self.params.arguments or {}

    @property
    def answers(self):
        """The answered input requests of the previous round, in wire form as far as they were understood."""
        given = (self.ctx.params or {}).get("inputResponses")
        return given if isinstance(given, dict) else {}

    @property
    def state(self):
        """What the previous round left to itself, or None in the first one."""
        return self.params.request_state

    def client_can(self, capability):
        declared = self.ctx.session.client_capabilities
        return declared is not None and getattr(declared, capability) is not None

    async def log(self, message, level="info"):
        wanted = self.audience.levels.get(session_of(self.ctx), "debug")
        if SEVERITIES.index(level) >= SEVERITIES.index(wanted):
            await self.ctx.session.send_log_message(
                level, message, "everything", related_request_id=self.ctx.request_id
            )

    async def elicit(self, message, schema):
        """Ask the user, on the stream of this call: the standalone one may not be open."""
        answer = await self.ctx.session.elicit_form(message, schema, self.ctx.request_id)
        return f"action={answer.action}, content={json.dumps(answer.content or {})}"


Answer = str | list[dict[str, Any]] | dict[str, Any]


@dataclass(frozen=True)
class Tool:
    definition: dict[str, Any]
    run: Callable[[Call], Awaitable[Answer]]


TOOLS: dict[str, Tool] = {}


def session_of(ctx):
    """The session id a request came with; "" for requests of the session-less protocol."""
    return ctx.request.headers.get("mcp-session-id", "") if ctx.request else ""


def takes(*required, **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def tool(description, schema=None):
    def register(function):
        name = function.__name__
        definition = {"name": name, "description": description, "inputSchema": schema or {"type": "object"}}
        TOOLS[name] = Tool(definition, function)
        return function

    return register


@tool("A sentence")
async def test_simple_text(call):
    return "This is a simple text response for testing."


@tool("A picture")
async def test_image_content(call):
    return [image()]


@tool("A sound")
async def test_audio_content(call):
    return [audio()]


@tool("A resource in the result")
async def test_embedded_resource(call):
    return [embedded("test://embedded-resource", "This is an embedded resource content.")]


@tool("A sentence, a picture and a resource")
async def test_multiple_content_types(call):
    data = json.dumps({"test": "data", "value": 123})
    resource = embedded("test://mixed-content-resource", data, "application/json")
    return [text("Multiple content types test:"), image(), resource]


@tool("An error, always")
async def test_error_handling(call):
    return {"isError": True, "content": [text("This tool intentionally returns an error for testing")]}


@tool("Three log messages on the way")
async def test_tool_with_logging(call):
    await call.log("Tool execution started")
    await asyncio.sleep(0.05)
    await call.log("Tool processing data")
    await asyncio.sleep(0.05)
    await call.log("Tool execution completed")
    return "Logged three times."


@tool("One log message, for those who asked for it")
async def test_logging_tool(call):
    await call.log("A message")
    return "Logged once, if that was wanted."


@tool("Three progress notifications on the way")
async def test_tool_with_progress(call):
    for done in (0, 50, 100):
        await call.ctx.session.report_progress(done, 100, f"{done} of 100")
        await asyncio.sleep(0.05)
    return "Progressed."


@tool("Has the client's model answer", takes("prompt", prompt={"type": "string"}))
async def test_sampling(call):
    if not call.client_can("sampling"):
        return {"isError": True, "content": [text("This client does not offer sampling.")]}
    asked = SamplingMessage(role="user", content=TextContent(type="text", text=call.arguments["prompt"]))
    reply = await call.ctx.session.create_message(
        [asked], max_tokens=100, related_request_id=call.ctx.request_id
    )
    said = reply.content.text if reply.content.type == "text" else f"({reply.content.type})"
    return f"LLM response: {said}"


async def _elicited(call, message, schema, prefix="Elicitation completed"):
    if not call.client_can("elicitation"):
        return {"isError": True, "content": [text("This client does not offer elicitation.")]}
    return f"{prefix}: {await call.elicit(message, schema)}"


@tool("Asks the user for a name and an address", takes("message", message={"type": "string"}))
async def test_elicitation(call):
    schema = takes(
        "username",
        "email",
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return await _elicited(call, call.arguments["message"], schema, "User response")


@tool("Asks with a default in every field (SEP-1034)")
async def test_elicitation_sep1034_defaults(call):
    schema = takes(
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return await _elicited(call, "Check what we assumed about you", schema)


def _titled(**titles):
    return [{"const": value, "title": title} for value, title in titles.items()]


@tool("Asks for a choice, in each of the five ways there are (SEP-1330)")
async def test_elicitation_sep1330_enums(call):
    options = ["option1", "option2", "option3"]
    titled = _titled(value1="First", value2="Second", value3="Third")
    schema = takes(
        untitledSingle={"type": "string", "enum": options},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": options}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return await _elicited(call, "Choose", schema)


@tool("Closes its own stream half-way and finishes afterwards (SEP-1699)")
async def test_reconnection(call):
    await call.log("Before the stream closes")
    if call.ctx.close_sse_stream:  # absent when the client is too old to resume a stream
        await call.ctx.close_sse_stream()
    await asyncio.sleep(0.2)
    await call.log("After the stream closed")
    return "Finished on another stream."


_JSON_SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool("Its schema uses what JSON Schema 2020-12 brought (SEP-1613, SEP-2106)", _JSON_SCHEMA_2020_12)
async def json_schema_2020_12_tool(call):
    return json.dumps(call.arguments)


@tool(
    "Its argument is repeated in a header (SEP-2243)",
    takes(region={"type": "string", "x-mcp-header": "Region"}),
)
async def test_x_mcp_header(call):
    return f"region={call.arguments.get('region')}"


@tool("For clients with sampling only")
async def test_missing_capability(call):
    if not call.client_can("sampling"):
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs sampling", needed)
    return "Sampling is there."


@tool("Announces a change of the tools")
async def test_trigger_tool_change(call):
    await call.audience.bus.publish(ToolsListChanged())
    return "Announced."


@tool("Announces a change of the prompts")
async def test_trigger_prompt_change(call):
    await call.audience.bus.publish(PromptsListChanged())
    return "Announced."


@tool("Announces a change of the watched resource, to whoever subscribed to it")
async def test_trigger_resource_update(call):
    await call.audience.bus.publish(ResourceUpdated(uri=WATCHED_URI))
    subscribers = call.audience.subscribers.get(WATCHED_URI, {})
    for session in list(subscribers.values()):
        await session.send_resource_updated(WATCHED_URI)
    return f"Announced to {len(subscribers)} sessions."
