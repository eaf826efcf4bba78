"""One client of the load generator, of either era, on one connection. Every answer is checked."""

import json
import re
import time
from typing import Any
from urllib.parse import urlsplit

from tests.bench.echo import LEGACY_VERSIONS, MODERN_VERSION, Era
from tests.bench.wire import Answer, Connection

VERSION = LEGACY_VERSIONS[-1]
CLIENT = {"name": "portico-bench", "version": "1"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
# Ids of one width, unlike any number in a tool's schema: an answer minus its id can be compared as bytes.
FIRST_ID = 70_000_000


class WrongAnswerError(Exception):
    """The target answered, but not what the protocol or the echo tool promises."""


# What an operation can fail with: no answer, not JSON, not of the shape the protocol promises.
FAILURES = (OSError, TimeoutError, ValueError, LookupError, TypeError, WrongAnswerError)


class Session:
    """A legacy client: 2025-11-25, a session that is opened and closed."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port, self.path = parts.hostname or "", parts.port or 80, parts.path
        self.connection: Connection | None = None
        self.session_id: bytes | None = None
        self.last_id = FIRST_ID
        self.checked_listing = b""

    async def open(self) -> None:
        params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": CLIENT}
        answer = await self.send(self.request("initialize", params))
        self.result(answer)
        self.session_id = answer.headers.get(b"mcp-session-id")
        initialized = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        answer = await self.send(self.framed("POST", self.headers("", {}), initialized))
        if answer.status not in (200, 202, 204):
            raise WrongAnswerError(f"notifications/initialized: HTTP {answer.status}")

    async def close(self) -> None:
        """Ends the session as far as the target lets it be ended."""
        try:
            if self.session_id:
                await self.send(self.framed("DELETE", self.headers("", {}), b""))
        except (OSError, TimeoutError):
            pass
        finally:
            if self.connection:
                self.connection.close()

    async def tools(self) -> list[str]:
        """The names of all tools, following nextCursor."""
        names: list[str] = []
        params: dict[str, Any] | None = {}
        while params is not None:
            result = self.result(await self.send(self.request("tools/list", params)))
            names += [tool["name"] for tool in result["tools"]]
            params = next_page(result)
        return names

    async def time_call(self, tool: str, text: str) -> float:
        """Seconds from request to whole answer; neither writing nor checking is timed."""
        raw = self.request("tools/call", {"name": tool, "arguments": {"text": text}})
        started = time.perf_counter()
        answer = await self.send(raw)
        elapsed = time.perf_counter() - started
        result = self.result(answer)
        if result.get("isError") or not result["content"] or result["content"][0].get("text") != text:
            raise WrongAnswerError(f"wrong echo: {str(result)[:160]}")
        return elapsed

    async def time_list(self, expected: int) -> float:
        """Seconds for the whole list, all pages. What equals a checked answer but for its id is not parsed again."""
        elapsed, found = 0.0, 0
        params: dict[str, Any] | None = {}
        while params is not None:
            raw = self.request("tools/list", params)
            started = time.perf_counter()
            answer = await self.send(raw)
            elapsed += time.perf_counter() - started
            if answer.status == 200 and self.without_id(answer.body) == self.checked_listing:
                return elapsed
            result = self.result(answer)
            found += len(result["tools"])
            params = next_page(result)
        if found != expected:
            raise WrongAnswerError(f"{found} tools listed, {expected} expected")
        if len(result["tools"]) == expected:
            self.checked_listing = self.without_id(answer.body)
        return elapsed

    def request(self, method: str, params: dict[str, Any]) -> bytes:
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        body = json.dumps(message, separators=(",", ":")).encode()
        return self.framed("POST", self.headers(method, params), body)

    def framed(self, verb: str, headers: list[str], body: bytes, below: str = "") -> bytes:
        lines = [
            f"{verb} {self.path}{below} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "Accept: application/json, text/event-stream",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *headers,
        ]
        return "\r\n".join([*lines, "", ""]).encode() + body

    def headers(self, _method: str, _params: dict[str, Any]) -> list[str]:
        if not self.session_id:
            return []
        return [f"Mcp-Session-Id: {self.session_id.decode()}", f"MCP-Protocol-Version: {VERSION}"]

    async def send(self, raw: bytes) -> Answer:
        if self.connection is None or not self.connection.open:
            await self.connect()
        return await self.connection.request(raw)

    async def connect(self) -> None:
        """Anew: a server may have closed a connection that idled while other targets had their turn."""
        if self.connection:
            self.connection.close()
        self.connection = await Connection.connect(self.host, self.port)

    def result(self, answer: Answer) -> dict[str, Any]:
        if answer.status != 200:
            raise WrongAnswerError(f"HTTP {answer.status}: {answer.body[:160]!r}")
        is_stream = answer.headers.get(b"content-type", b"").startswith(b"text/event-stream")
        messages = frames(answer.body) if is_stream else [json.loads(answer.body)]
        message = next((each for each in messages if each.get("id") == self.last_id), None)
        if message is None:
            raise WrongAnswerError("no answer to this request")
        if "result" not in message:
            raise WrongAnswerError(f"error: {str(message.get('error'))[:160]}")
        return message["result"]

    def without_id(self, body: bytes) -> bytes:
        return body.replace(str(self.last_id).encode(), b"", 1)


class ModernSession(Session):
    """A modern client: 2026-07-28, which says all of itself in every request and has no session."""

    async def open(self) -> None:
        pass

    def request(self, method: str, params: dict[str, Any]) -> bytes:
        return super().request(method, {**params, "_meta": ENVELOPE})

    def headers(self, method: str, params: dict[str, Any]) -> list[str]:
        lines = [f"MCP-Protocol-Version: {MODERN_VERSION}", f"Mcp-Method: {method}"]
        return [*lines, f"Mcp-Name: {params['name']}"] if "name" in params else lines

    def result(self, answer: Answer) -> dict[str, Any]:
        result = super().result(answer)
        if result.get("resultType") != "complete":
            raise WrongAnswerError(f"resultType is {result.get('resultType')!r}")
        return result


class RoutedSession(ModernSession):
    """A modern client behind something that chooses the function by Mcp-Method, as the CloudFront function does."""

    def request(self, method: str, params: dict[str, Any]) -> bytes:
        self.below = "/tools-list" if method == "tools/list" else "/tools-call"
        return super().request(method, params)

    def framed(self, verb: str, headers: list[str], body: bytes, below: str = "") -> bytes:
        return super().framed(verb, headers, body, below or self.below)


SESSIONS: dict[Era, type[Session]] = {"legacy": Session, "modern": ModernSession}


def next_page(result: dict[str, Any]) -> dict[str, Any] | None:
    return {"cursor": result["nextCursor"]} if result.get("nextCursor") else None


def frames(stream: bytes) -> list[dict[str, Any]]:
    """The messages of a finished event stream; frames without data (a priming event, a comment) are none."""
    found = []
    for frame in re.split(rb"\r?\n\r?\n", stream):
        lines = [line[5:].strip() for line in frame.splitlines() if line.startswith(b"data:")]
        if data := b"\n".join(lines):
            found.append(json.loads(data))
    return found
