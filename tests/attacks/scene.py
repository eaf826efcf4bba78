"""What an attacker sees: a gateway that asks for tokens, and a way to send it any bytes at all."""

import http.client
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.support import CLIENT_INFO, MODERN, Echo
from tests.support.issuer import Issuer

BASE = "https://gw.example.com"
"""What the gateway is called outside."""
ALLOWED, DENIED, SCOPE = "s1_echo", "s1_destructive", "tool:add"
PLAIN = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
CALL = {"name": DENIED, "arguments": {}}
SECONDS = 20.0

Lines = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Reply:
    status: int
    headers: http.client.HTTPMessage
    raw: bytes

    @property
    def message(self) -> Any:
        """The last one, where it is a stream."""
        text = self.raw.decode(errors="replace")
        data = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
        try:
            return json.loads(data[-1] if data else text)
        except ValueError:
            return None

    @property
    def refused(self) -> bool:
        """By its status, or by an error: a tool that may not be seen is unknown, which legacy clients are told by 200."""
        said = self.message
        return 400 <= self.status < 500 or (
            self.status == 200 and isinstance(said, dict) and "error" in said and "result" not in said
        )


@dataclass(frozen=True)
class Scene:
    base: str
    issuer: Issuer
    backends: tuple[Echo, ...]
    second: Issuer
    """Trusted as well, and with users of its own."""

    def send(
        self, verb: str, target: str, headers: Mapping[str, str] | Lines = (), body: bytes = b""
    ) -> Reply:
        """These bytes, whatever they are; the answer, whatever it is."""
        lines = list(headers.items() if isinstance(headers, Mapping) else headers)
        names = {name.lower() for name, _ in lines}
        if "host" not in names:
            lines.insert(0, ("Host", urlsplit(self.base).netloc))
        if body and not names & {"content-length", "transfer-encoding"}:
            lines.append(("Content-Length", str(len(body))))
        head = f"{verb} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines)
        place = urlsplit(self.base)
        with socket.create_connection((place.hostname or "", place.port or 80), SECONDS) as connection:
            connection.sendall(head.encode("latin-1", "replace") + b"connection: close\r\n\r\n" + body)
            response = http.client.HTTPResponse(connection, method=verb)
            response.begin()
            return Reply(response.status, response.headers, response.read())

    def post(
        self,
        message: object,
        token: str | None = None,
        *,
        target: str = "/mcp",
        session: str | None = None,
        more: Mapping[str, str] | Lines = (),
    ) -> Reply:
        lines = [*PLAIN.items(), *(more.items() if isinstance(more, Mapping) else more)]
        if token is not None:
            lines.append(("Authorization", f"Bearer {token}"))
        if session is not None:
            lines.append(("Mcp-Session-Id", session))
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.send("POST", target, lines, body)

    def posted(self, message: object, token: str | None = None) -> Reply:
        """In a session of its own."""
        token = token or self.issuer.token()
        return self.post(message, token, session=self.session(token))

    def session(self, token: str) -> str:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT_INFO}
        reply = self.post(request("initialize", params), token)
        assert reply.status == 200, reply
        return str(reply.headers["mcp-session-id"])

    def call(self, token: str, params: Mapping[str, Any] = CALL, **more: Any) -> Reply:
        """As a legacy client."""
        return self.post(request("tools/call", params), token, session=self.session(token), **more)

    def call26(
        self, token: str, params: Mapping[str, Any] = CALL, more: Mapping[str, str] | None = None
    ) -> Reply:
        """As a modern client; `more` replaces headers."""
        headers = {
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": str(params["name"]),
        }
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        return self.post(
            request("tools/call", {**params, "_meta": meta}), token, more=headers | dict(more or {})
        )

    def reached(self) -> int:
        """How often anything but discovery has come to a backend."""
        used = ("tools/call", "prompts/get", "resources/read", "completion/complete")
        return sum(len(backend.seen(method)) for backend in self.backends for method in used)


def request(method: str, params: object = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
