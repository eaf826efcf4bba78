"""A small blocking MCP client that hides nothing."""

import base64
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any

from tests.support.exchange import SECONDS, Answer, Exchange, Json

Headers = Mapping[str, str | None]
Handler = Callable[[Json], Any]

MODERN = "2026-07-28"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}  # what Mcp-Name repeats
CLIENT_INFO = {"name": "t", "version": "1"}


@dataclass
class Client:
    """One MCP client. Header values given as None are left out; `on` answers the server's requests by method."""

    url: str
    headers: Headers = field(default_factory=dict)
    seconds: float = SECONDS
    session: str | None = None
    version: str | None = None
    on: dict[str, Handler] = field(default_factory=dict)
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)  # safe among threads

    def post(self, body: bytes, headers: Headers | None = None, *, rpc_id: Any = None) -> Answer:
        """These bytes, whatever they are."""
        return self._exchange("POST", body, headers, rpc_id).run().answer()

    def begin_post(self, body: bytes, headers: Headers | None = None, *, rpc_id: Any = None) -> Exchange:
        return self._exchange("POST", body, headers, rpc_id).start()

    def rpc(
        self,
        method: str,
        params: Any = None,
        *,
        headers: Headers | None = None,
        id: Any | EllipsisType = ...,  # noqa: A002
    ) -> Answer:
        """Waits for the whole answer; the server's requests meanwhile are answered by `on`."""
        message = self._request(method, params, id)
        return self.post(dump(message), headers, rpc_id=message["id"])

    def begin(
        self,
        method: str,
        params: Any = None,
        *,
        headers: Headers | None = None,
        id: Any | EllipsisType = ...,  # noqa: A002
    ) -> Exchange:
        """As `rpc`, in another thread: watch it, answer it, hang up on it."""
        message = self._request(method, params, id)
        return self.begin_post(dump(message), headers, rpc_id=message["id"])

    def init(
        self,
        version: str = "2025-11-25",
        capabilities: Json | None = None,
        *,
        initialized: bool = True,
        headers: Headers | None = None,
    ) -> Answer:
        """A new session, used from here on; and `notifications/initialized` unless told not to."""
        self.session = self.version = None
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": CLIENT_INFO}
        answer = self.rpc("initialize", params, headers=headers)
        if isinstance(answer.message, dict) and "result" in answer.message:
            self.session, self.version = answer.session, answer.result["protocolVersion"]
            if initialized:
                self.notify("notifications/initialized", headers=headers)
        return answer

    def call(
        self, tool: str, args: Json | None = None, *, meta: Json | None = None, **options: Any
    ) -> Answer:
        return self.rpc("tools/call", call_params(tool, args, meta), **options)

    def begin_call(
        self, tool: str, args: Json | None = None, *, meta: Json | None = None, **options: Any
    ) -> Exchange:
        return self.begin("tools/call", call_params(tool, args, meta), **options)

    def notify(self, method: str, params: Any = None, *, headers: Headers | None = None) -> Answer:
        message: Json = {"jsonrpc": "2.0", "method": method}
        return self.post(dump(message if params is None else message | {"params": params}), headers)

    def respond(
        self,
        id: Any,  # noqa: A002
        result: Any = None,
        *,
        error: Json | None = None,
        headers: Headers | None = None,
    ) -> Answer:
        """Answers a request of the server."""
        outcome = {"result": result if result is not None else {}} if error is None else {"error": error}
        return self.post(dump({"jsonrpc": "2.0", "id": id} | outcome), headers)

    def stream(self, last_event_id: str | None = None, *, headers: Headers | None = None) -> Exchange:
        """The GET stream; returns once its headers came (look at `.status`)."""
        sent = {"Accept": "text/event-stream", "Content-Type": None, "Last-Event-ID": last_event_id} | dict(
            headers or {}
        )
        return self._exchange("GET", None, sent, None).start().wait_open()

    def delete(self, *, headers: Headers | None = None) -> Answer:
        return (
            self._exchange("DELETE", None, {"Content-Type": None} | dict(headers or {}), None).run().answer()
        )

    def rpc26(
        self,
        method: str,
        params: Json | None = None,
        *,
        capabilities: Json | None = None,
        headers: Headers | None = None,
        id: Any | EllipsisType = ...,  # noqa: A002
    ) -> Answer:
        """As `rpc`, in the way of 2026-07-28: no session, everything in the request."""
        message, sent = self._modern(method, params, capabilities, headers, id)
        return self.post(dump(message), sent, rpc_id=message["id"])

    def begin26(
        self,
        method: str,
        params: Json | None = None,
        *,
        capabilities: Json | None = None,
        headers: Headers | None = None,
        id: Any | EllipsisType = ...,  # noqa: A002
    ) -> Exchange:
        message, sent = self._modern(method, params, capabilities, headers, id)
        return self.begin_post(dump(message), sent, rpc_id=message["id"])

    def call26(
        self, tool: str, args: Json | None = None, *, meta: Json | None = None, **options: Any
    ) -> Answer:
        return self.rpc26("tools/call", call_params(tool, args, meta), **options)

    def next_id(self) -> int:
        return next(self._ids)

    def _request(self, method: str, params: Any, rpc_id: Any) -> Json:
        message = {"jsonrpc": "2.0", "id": self.next_id() if rpc_id is ... else rpc_id, "method": method}
        return message if params is None else message | {"params": params}

    def _modern(
        self,
        method: str,
        params: Json | None,
        capabilities: Json | None,
        headers: Headers | None,
        rpc_id: Any,
    ) -> tuple[Json, Headers]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
            "io.modelcontextprotocol/clientCapabilities": capabilities or {},
        }
        params = dict(params or {})
        params["_meta"] = meta | (params.get("_meta") or {})
        sent: dict[str, str | None] = {
            "Mcp-Session-Id": None,
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
        }
        if method in NAMED_BY and NAMED_BY[method] in params:
            sent["Mcp-Name"] = header_value(str(params[NAMED_BY[method]]))
        return self._request(method, params, rpc_id), sent | dict(headers or {})

    def _exchange(self, method: str, body: bytes | None, headers: Headers | None, rpc_id: Any) -> Exchange:
        sent: dict[str, str | None] = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Mcp-Session-Id": self.session,
            "MCP-Protocol-Version": self.version,
        }
        for name, value in [*self.headers.items(), *(headers or {}).items()]:
            sent = {known: v for known, v in sent.items() if known.lower() != name.lower()} | {name: value}
        return Exchange(
            self.url,
            method,
            body,
            given(sent),
            rpc_id=rpc_id,
            seconds=self.seconds,
            on_message=self._answer_request,
        )

    def _answer_request(self, message: Json) -> None:
        handler = self.on.get(message.get("method", ""))
        if handler is not None and "id" in message:
            self.respond(message["id"], handler(message.get("params") or {}))
        elif handler is not None:
            handler(message.get("params") or {})


def given(headers: Headers | None) -> dict[str, str]:
    return {name: value for name, value in (headers or {}).items() if value is not None}


def call_params(tool: str, args: Json | None, meta: Json | None) -> Json:
    params: Json = {"name": tool, "arguments": args or {}}
    return params if meta is None else params | {"_meta": meta}


def dump(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()


def header_value(value: str) -> str:
    """As it is if a header can carry it, else in the base64 form of the 2026-07-28 specification."""
    plain = value.isascii() and value.isprintable() and value == value.strip() and value
    if plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="
