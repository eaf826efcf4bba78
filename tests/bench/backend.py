"""The backend that everything is measured against: MCP over HTTP, raw ASGI, JSON answers.

Legacy is 2025-11-25 with sessions; modern is 2026-07-28, where headers repeat the body. Either does as little as its
protocol allows, so that what is measured is the gateway in front of it.
"""

import argparse
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

from tests.bench import echo

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

JSON_TYPE = (b"content-type", b"application/json")


class Backend:
    """Of either era. Whoever speaks another is answered 400."""

    era: echo.Era

    def __init__(self, fillers: int) -> None:
        fields = echo.CACHEABLE if self.era == "modern" else {}
        self.listing = json.dumps({"tools": echo.tools(fillers), **fields}, separators=(",", ":")).encode()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        raise NotImplementedError

    def answer(self, message: dict[str, Any]) -> bytes:
        if message["method"] == "tools/list":
            return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (
                json.dumps(message["id"]).encode(),
                self.listing,
            )
        return json.dumps(echo.answer(message, {}, self.era), separators=(",", ":")).encode()


class LegacyBackend(Backend):
    era = "legacy"

    def __init__(self, fillers: int) -> None:
        super().__init__(fillers)
        self.sessions: set[bytes] = set()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return None
        session = next((value for name, value in scope["headers"] if name == b"mcp-session-id"), None)
        if scope["method"] == "DELETE":
            self.sessions.discard(session or b"")
            return await respond(send, 204)
        if scope["method"] != "POST":
            return await respond(send, 405)
        return await self.post(json.loads(await read(receive)), session, send)

    async def post(self, message: dict[str, Any], session: bytes | None, send: Send) -> None:
        if message.get("method") == "initialize":
            session = secrets.token_hex(16).encode()
            self.sessions.add(session)
            return await respond(send, 200, self.answer(message), (b"mcp-session-id", session))
        if session not in self.sessions:
            return await respond(send, 404 if session else 400)
        if "id" not in message or "method" not in message:
            return await respond(send, 202)
        return await respond(send, 200, self.answer(message))


class ModernBackend(Backend):
    era = "modern"

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return None
        if scope["method"] != "POST":
            return await respond(send, 405)
        message = json.loads(await read(receive))
        if "id" not in message:
            return await respond(send, 202)
        if not is_mirrored(message, dict(scope["headers"])):
            return await respond(send, 400)
        return await respond(send, 200, self.answer(message))


def is_mirrored(message: dict[str, Any], headers: dict[bytes, bytes]) -> bool:
    """Whether the headers repeat what the body says."""
    method, name = message["method"], message["params"].get("name", "")
    return (
        headers.get(b"mcp-protocol-version") == echo.MODERN_VERSION.encode()
        and headers.get(b"mcp-method") == method.encode()
        and headers.get(b"mcp-name", b"") == name.encode()
    )


BACKENDS = {"legacy": LegacyBackend, "modern": ModernBackend}


async def read(receive: Receive) -> bytes:
    event = await receive()
    body = event.get("body", b"")
    while event.get("more_body"):
        event = await receive()
        body += event.get("body", b"")
    return body


async def respond(send: Send, status: int, body: bytes = b"", *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [JSON_TYPE, length, *headers]})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tools", type=int, default=9, help="filler tools beside echo")
    parser.add_argument("--era", choices=BACKENDS, default="legacy")
    options = parser.parse_args()
    uvicorn.run(
        BACKENDS[options.era](options.tools),
        host="127.0.0.1",
        port=options.port,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
