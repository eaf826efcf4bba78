"""An MCP server that is well behaved until a tool is called: each tool is one way to go wrong.

`python -m tests.servers.faults --port 0` prints `ready http://127.0.0.1:N/mcp` on stderr. It writes its own bytes
on a socket, for no HTTP library would. GET /control tells what was called, and who hung up on it.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
HUGE = 100_000_000
CHUNK = b"x" * 65536
SESSION = "faults-session"


@dataclass
class Counters:
    initialize: int = 0
    redirect_followed: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    closed: Counter[str] = field(
        default_factory=Counter
    )  # by the client, before the fault had run its course


@dataclass
class Request:
    http: str
    path: str
    headers: dict[str, str]
    body: bytes


class Fault(Exception):
    """Not an error: the connection is to be closed now."""


@dataclass
class Exchange:
    """A tools/call being answered wrongly."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    id: Any
    args: Json

    def response(self, text: str = "ok") -> Json:
        return {"jsonrpc": "2.0", "id": self.id, "result": {"content": [{"type": "text", "text": text}]}}

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: str = "200 OK", **headers: Any) -> None:
        lines = [
            f"HTTP/1.1 {status}",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]
        await self.write("\r\n".join([*lines, "\r\n"]).encode())

    async def json(self, body: bytes, status: str = "200 OK", **headers: Any) -> None:
        kind = headers.pop("Content_Type", "application/json")
        await self.head(status, Content_Type=kind, Content_Length=len(body), **headers)
        await self.write(body)

    async def sse(self) -> None:
        """The head of a stream that is ended by closing the connection."""
        await self.head(Content_Type="text/event-stream", Cache_Control="no-cache", Connection="close")

    async def event(self, message: Json) -> None:
        await self.write(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")

    async def until_hung_up(self) -> None:
        """A pipelined byte counts as being alive."""
        while await self.reader.read(65536):
            pass
        raise ConnectionResetError


Behaviour = Callable[[Exchange], Awaitable[None]]
FAULTS: dict[str, Behaviour] = {}


def fault(behaviour: Behaviour) -> Behaviour:
    FAULTS[behaviour.__name__] = behaviour
    return behaviour


@fault
async def ok(x: Exchange) -> None:
    await x.json(json.dumps(x.response()).encode())


@fault
async def kill(x: Exchange) -> None:
    """Dies with half of the head on the wire."""
    await x.write(b"HTTP/1.1 200 OK\r\nContent-")
    os._exit(9)


@fault
async def hang(x: Exchange) -> None:
    await x.until_hung_up()


@fault
async def hang_sse(x: Exchange) -> None:
    await x.head(Content_Type="text/event-stream", Transfer_Encoding="chunked")
    await x.write(b"3\r\n:\n\n\r\n")
    await x.until_hung_up()


@fault
async def trickle(x: Exchange) -> None:
    """A stream that goes on for ever and says nothing."""
    await x.sse()
    while True:
        await x.write(b":\n\n")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(x.until_hung_up(), 0.1)


@fault
async def garbage(x: Exchange) -> None:
    await x.write(bytes(range(256)) * 4 + b"\r\n\r\n")
    raise Fault


@fault
async def not_json(x: Exchange) -> None:
    await x.json(b'{"jsonrpc": "2.0", "id": 1, "result": {oops')


@fault
async def half_frame(x: Exchange) -> None:
    await x.sse()
    await x.write(b'event: message\ndata: {"jsonrpc": "2.0", "id": ')
    raise Fault


@fault
async def half_body(x: Exchange) -> None:
    body = json.dumps(x.response()).encode()
    await x.head(Content_Type="application/json", Content_Length=len(body) + 1000)
    await x.write(body)
    raise Fault


async def long_text(x: Exchange, start: bytes, end: bytes) -> None:
    await x.write(start)
    left = int(x.args.get("bytes", HUGE))
    while left > 0:
        await x.write(CHUNK[:left])
        left -= len(CHUNK)
    await x.write(end)


def around_text(x: Exchange) -> tuple[bytes, bytes]:
    start, _, end = json.dumps(x.response("@")).encode().rpartition(b"@")
    return start, end


@fault
async def huge(x: Exchange) -> None:
    start, end = around_text(x)
    length = len(start) + int(x.args.get("bytes", HUGE)) + len(end)
    await x.head(Content_Type="application/json", Content_Length=length)
    await long_text(x, start, end)


@fault
async def huge_sse(x: Exchange) -> None:
    start, end = around_text(x)
    await x.sse()
    await long_text(x, b"event: message\ndata: " + start, end + b"\n\n")
    raise Fault


@fault
async def wrong_type(x: Exchange) -> None:
    await x.json(b"<html><body>It works!</body></html>", Content_Type="text/html")


def status(line: str, **headers: Any) -> Behaviour:
    """A fault named after its status."""

    async def behaviour(x: Exchange) -> None:
        await x.json(b'{"detail": "internal detail of the backend"}', line, **headers)

    FAULTS[f"status_{line[:3]}"] = behaviour
    return behaviour


status("401 Unauthorized", WWW_Authenticate='Bearer realm="backend"')
status("403 Forbidden")
status("404 Not Found")
status("429 Too Many Requests", Retry_After="7")
status("500 Internal Server Error")


@fault
async def redirect(x: Exchange) -> None:
    await x.json(b"", "302 Found", Location="/elsewhere")


@fault
async def no_response(x: Exchange) -> None:
    await x.sse()
    await x.event(
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "bye"}}
    )
    raise Fault


@fault
async def two_tokens(x: Exchange) -> None:
    """Asks with a member that stands there twice."""
    await x.sse()
    meta = '{"progressToken": 1, "progressToken": 2}'
    asked = f'"jsonrpc": "2.0", "id": 1, "method": "roots/list", "params": {{"_meta": {meta}}}'
    await x.write(f"data: {{{asked}}}\n\n".encode())
    await x.event(x.response())
    raise Fault


@fault
async def later(x: Exchange) -> None:
    """Ends its stream and expects to be asked for the rest."""
    await x.sse()
    await x.write(b"id: 1\ndata: \n\n")
    raise Fault


@fault
async def wrong_id(x: Exchange) -> None:
    await x.json(json.dumps(x.response() | {"id": "somebody-else"}).encode())


@fault
async def slow_headers(x: Exchange) -> None:
    """A byte every `pause` seconds (0.5), so that no single read ever times out."""
    body = json.dumps(x.response()).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    for byte in head.encode():
        await x.write(bytes([byte]))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(x.until_hung_up(), float(x.args.get("pause", 0.5)))
    await x.write(body)


@fault
async def sends_response_twice(x: Exchange) -> None:
    """On one SSE stream."""
    await x.sse()
    await x.event(x.response("first"))
    await x.event(x.response("second"))
    raise Fault


@fault
async def two_replies(x: Exchange) -> None:
    """Two HTTP answers to one request: the next user of the connection must not get the second."""
    first, second = (json.dumps(x.response(text)).encode() for text in ("first", "second"))
    await x.json(first)
    await x.json(second)
    await x.until_hung_up()


@fault
async def bad_chunk(x: Exchange) -> None:
    await x.head(Content_Type="application/json", Transfer_Encoding="chunked")
    await x.write(b'8\r\n{"jsonrp\r\nnot hex\r\nc": "2.0"\r\n0\r\n\r\n')
    raise Fault


@fault
async def old_http(x: Exchange) -> None:
    """The connection ends a moment after the answer, as HTTP/1.0 has it."""
    body = json.dumps(x.response()).encode()
    head = f"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    await x.write(head.encode() + body)
    await asyncio.wait([asyncio.ensure_future(x.reader.read(1))], timeout=0.5)
    raise Fault


@fault
async def header_bomb(x: Exchange) -> None:
    body = json.dumps(x.response()).encode()
    bomb = {f"X_Bomb_{n}": "boom" * 8 for n in range(10_000)}
    await x.json(body, **bomb)


class Server:
    def __init__(self) -> None:
        self.seen = Counters()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await read_request(reader):
                await self.answer(request, reader, writer)
        except (Fault, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        plain = Exchange(reader, writer, None, {})
        if request.path == "/control":
            await plain.json(json.dumps(vars(self.seen)).encode())
        elif request.path == "/elsewhere":
            self.seen.redirect_followed += 1
            await plain.json(b"{}")
        elif request.path != "/mcp":
            await plain.json(b"{}", "404 Not Found")
        elif request.http == "DELETE":
            await plain.json(b"")
        elif request.http != "POST":
            await plain.json(b"", "405 Method Not Allowed", Allow="POST, DELETE")
        else:
            await self.rpc(json.loads(request.body), reader, writer)

    async def rpc(self, message: Json, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        params = message.get("params") or {}
        x = Exchange(reader, writer, message.get("id"), params.get("arguments") or {})
        match message.get("method"):
            case "initialize":
                self.seen.initialize += 1
                await self.result(x, initialized(params), Mcp_Session_Id=SESSION)
            case "tools/list":
                tools = [{"name": n, "description": n, "inputSchema": {"type": "object"}} for n in FAULTS]
                await self.result(x, {"tools": tools})
            case "ping":
                await self.result(x, {})
            case "tools/call" if params.get("name") in FAULTS:
                await self.misbehave(params["name"], x)
            case _ if "id" not in message or "method" not in message:
                await x.json(b"", "202 Accepted")
            case method:
                error = {"code": -32601, "message": f"Method not found: {method}"}
                await x.json(json.dumps({"jsonrpc": "2.0", "id": x.id, "error": error}).encode())

    async def result(self, x: Exchange, result: Json, **headers: Any) -> None:
        await x.json(json.dumps({"jsonrpc": "2.0", "id": x.id, "result": result}).encode(), **headers)

    async def misbehave(self, name: str, x: Exchange) -> None:
        self.seen.calls[name] += 1
        try:
            await FAULTS[name](x)
        except ConnectionError:
            self.seen.closed[name] += 1
            raise


def initialized(params: Json) -> Json:
    return {
        "protocolVersion": params.get("protocolVersion", "2025-11-25"),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "faults", "version": "1.0"},
    }


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    http, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        return Request(http, path, headers, await read_chunks(reader))
    return Request(http, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


async def read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).partition(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readuntil(b"\r\n")
    return body


async def run(port: int) -> None:
    server = await asyncio.start_server(Server().serve, "127.0.0.1", port, backlog=1024)
    print(f"ready http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(run(parser.parse_args().port))


if __name__ == "__main__":
    main()
