"""How the features server's tools, prompts and resources talk to whoever called them, in either era.

One description serves both. `Call.ask` sends requests and waits for the answers where the protocol has sessions;
where it has none, it breaks off with what must be asked, and the next round runs the same function again with the
answers of all rounds so far.
"""

import asyncio
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    ListRootsRequest,
    ListRootsResult,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

Json = dict[str, Any]

SEVERITIES = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
TYPES = {
    "elicitation/create": (ElicitRequest, ElicitResult),
    "sampling/createMessage": (CreateMessageRequest, CreateMessageResult),
    "roots/list": (ListRootsRequest, ListRootsResult),
}


class InputRequired(Exception):
    """The rest cannot be done before these are answered."""

    def __init__(self, requests: Mapping[str, Json], state: str) -> None:
        super().__init__(", ".join(requests))
        self.result = {
            "resultType": "input_required",
            "inputRequests": dict(requests),
            "requestState": state,
        }


@dataclass
class Audience:
    """Who wants to hear what, and what is going on."""

    sessions: dict[str, Any] = field(default_factory=dict)  # id: the SDK's way to its stream
    levels: dict[str, str] = field(default_factory=dict)
    subscribers: dict[str, set[str]] = field(default_factory=dict)  # URI: session ids
    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    running: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)


def session_of(ctx: ServerRequestContext) -> str:
    """The session id a request came with; "" for requests of the session-less protocol."""
    return ctx.request.headers.get("mcp-session-id", "") if ctx.request else ""


def form(message: str, **properties: Json) -> Json:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


def visit(message: str, url: str) -> Json:
    return {"method": "elicitation/create", "params": {"mode": "url", "message": message, "url": url}}


def sample(prompt: str) -> Json:
    messages = [{"role": "user", "content": {"type": "text", "text": prompt}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}}


def list_roots() -> Json:
    return {"method": "roots/list", "params": {}}


@dataclass
class Call:
    """One tools/call, prompts/get or resources/read."""

    ctx: ServerRequestContext
    arguments: Mapping[str, Any]
    audience: Audience
    _rounds: int = 0

    @property
    def modern(self) -> bool:
        return self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def progress(self, done: float, total: float, message: str) -> None:
        await self.ctx.session.report_progress(done, total, message)

    async def log(self, level: str, data: Any) -> None:
        """Where there are sessions, the session's level decides here; elsewhere the SDK reads the request's."""
        wanted = self.audience.levels.get(session_of(self.ctx), "debug")
        if self.modern or SEVERITIES.index(level) >= SEVERITIES.index(wanted):
            await self.ctx.session.send_log_message(
                level, data, "features", related_request_id=self.ctx.request_id
            )

    async def ask(self, **requests: Json) -> dict[str, Json]:
        """The answers to all of them, which are open at the same time."""
        if not self.modern:
            answers = await asyncio.gather(*(self._request(request) for request in requests.values()))
            return dict(zip(requests, answers, strict=True))
        params = self.ctx.params or {}
        known = json.loads(params.get("requestState") or "[]")
        given = params.get("inputResponses") or {}
        this, self._rounds = self._rounds, self._rounds + 1
        if this < len(known):
            return known[this]
        if this > len(known) or not requests.keys() <= given.keys():
            settled = [*known, given] if this > len(known) else known
            raise InputRequired(requests, json.dumps(settled))
        return given

    async def _request(self, request: Json) -> Json:
        asked, answered = TYPES[request["method"]]
        if request["params"].get("mode") == "url":
            request = {**request, "params": {**request["params"], "elicitationId": str(uuid.uuid4())}}
        related = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        answer = await self.ctx.session.send_request(
            asked.model_validate(request), answered, metadata=related
        )
        if "elicitationId" in request["params"]:
            await self.ctx.session.send_elicit_complete(
                request["params"]["elicitationId"], self.ctx.request_id
            )
        return answer.model_dump(mode="json", by_alias=True, exclude_none=True)
