"""A legacy-era MCP server over HTTP, by hand, so that every byte and every status is under a test's control.

`python -m tests.servers.echo --port 0 [--name X] [--host ADDRESS]` prints `ready http://127.0.0.1:N/mcp` on stderr.
The tools are in echo_tools, the other methods in echo_rpc, the control endpoint in echo_control.
"""

import argparse
import asyncio
import json
import socket
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

from tests.servers import echo_control, echo_rpc
from tests.servers.echo_state import VERSIONS, Json, Seen, Session, State, Stream, dumps, joined, key
from tests.servers.echo_tools import Call

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

ENDPOINTS = ("/mcp", "/custom/path")
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"


async def read_body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def reply(send: Send, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
    extra = [(b"content-length", str(len(body)).encode())] if status != 204 else []
    if body:
        extra.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": extra + (headers or [])})
    await send({"type": "http.response.body", "body": body})


async def refuse(
    send: Send, status: int, text: str, code: int = -32600, headers: Headers | None = None
) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}}
    await reply(send, status, dumps(error), headers)


async def carry(stream: Stream, receive: Receive, send: Send, headers: Headers, position: int = 0) -> bool:
    """Writes the stream to this connection; False if the client hung up before its end.

    A call that sent nothing but its response is answered in plain JSON.
    """
    stream.connection += 1
    mine = stream.connection
    stream.connected = True
    stream.wake.set()
    watcher = asyncio.ensure_future(gone(receive))
    watcher.add_done_callback(lambda _: stream.wake.set())
    started = False
    try:
        while stream.connection == mine:
            if not started and (stream.sse or stream.frames or (stream.over and stream.answer is None)):
                sse = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
                await send({"type": "http.response.start", "status": 200, "headers": sse + headers})
                # uvicorn keeps the headers back until the first body
                await send({"type": "http.response.body", "body": b"", "more_body": True})
                started = True
            while started and position < len(stream.frames):
                frame = stream.frames[position]
                position += 1
                await send({"type": "http.response.body", "body": frame, "more_body": True})
            if stream.over and not started:
                await reply(send, 200, stream.answer or b"", headers)
                return True
            if stream.cut_off == mine or (stream.over and position >= len(stream.frames)):
                break
            if watcher.done():
                return False
            stream.wake.clear()
            await stream.wake.wait()
        await send({"type": "http.response.body", "body": b""})
        return True
    finally:
        watcher.cancel()
        if stream.connection == mine:
            stream.connected = False


class Echo:
    """The ASGI application."""

    def __init__(self, name: str) -> None:
        self.state = State(name)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        path, query = scope["path"], scope["query_string"].decode("latin-1")
        if path == "/control":
            await self.control(scope["method"], body, send)
            return
        seen = Seen(scope["method"], f"{path}?{query}" if query else path, scope["headers"], body)
        if self.state.switches.log:
            self.state.log.append(seen)

        async def send_noting_status(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.status = message["status"]
            await send(message)

        if path in ENDPOINTS:
            await self.endpoint(seen, receive, send_noting_status)
        elif path == f"{RESOURCE_METADATA}/tool/echo":
            document = {
                "resource": f"echo:{self.state.name}",
                "authorization_servers": ["https://as.example"],
            }
            await reply(send_noting_status, 200, dumps(document))
        else:
            await refuse(send_noting_status, 404, "Not found")

    async def control(self, method: str, body: bytes, send: Send) -> None:
        if method == "GET":
            await reply(send, 200, dumps(echo_control.report(self.state)))
            return
        try:
            answer = echo_control.control(self.state, json.loads(body))
        except (ValueError, KeyError, AttributeError) as error:
            answer = {"ok": False, "error": repr(error)}
        await reply(send, 200 if answer["ok"] else 400, dumps(answer))

    async def endpoint(self, seen: Seen, receive: Receive, send: Send) -> None:
        headers, switches = joined(seen.headers), self.state.switches
        seen.session = headers.get("mcp-session-id")
        if switches.require_auth is not None and headers.get("authorization") != switches.require_auth:
            challenge = [(b"www-authenticate", b'Bearer realm="echo"')]
            await refuse(send, 401, "Unauthorized", headers=challenge)
        elif seen.http == "POST":
            await self.post(seen, headers, receive, send)
        elif seen.http == "GET" and not switches.no_get:
            await self.get(seen, headers, receive, send)
        elif seen.http == "DELETE" and not switches.no_delete:
            await self.delete(seen, headers, send)
        else:
            await refuse(send, 405, "Method not allowed", headers=[(b"allow", b"POST, GET, DELETE")])

    async def find_session(self, headers: dict[str, str], send: Send) -> Session | None:
        """None when the request has been refused."""
        if "mcp-session-id" not in headers:
            await refuse(send, 400, "Bad request: no session id")
            return None
        session = self.state.sessions.get(headers["mcp-session-id"])
        if session is None:
            await refuse(send, 404, "Session not found", -32001)
            return None
        version = headers.get("mcp-protocol-version", session.version)
        if version not in (*VERSIONS, session.version):
            await refuse(send, 400, f"Bad request: unsupported protocol version {version}")
            return None
        return session

    async def post(self, seen: Seen, headers: dict[str, str], receive: Receive, send: Send) -> None:
        accept = headers.get("accept", "")
        if not headers.get("content-type", "").startswith("application/json"):
            await refuse(send, 415, "Content-Type must be application/json")
            return
        if "*/*" not in accept and not ("application/json" in accept and "text/event-stream" in accept):
            await refuse(send, 406, "Accept must have application/json and text/event-stream")
            return
        try:
            message = json.loads(seen.body)
        except ValueError:
            await refuse(send, 400, "Parse error", -32700)
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            await refuse(send, 400, "Invalid request")
            return
        seen.method, seen.id = message.get("method"), message.get("id")
        if seen.method == "initialize":
            await self.initialize(message, receive, send)
            return
        session = await self.find_session(headers, send)
        if session is None:
            return
        if seen.method is not None and "id" in message:
            await self.request(session, message, seen, receive, send)
            return
        await asyncio.sleep(self.state.switches.delay)
        if seen.method is None:
            seen.answered_request = settle(session, message)
        elif seen.method == "notifications/cancelled":
            self.cancel(session, message.get("params") or {})
        await reply(send, 202)

    async def initialize(self, message: Json, receive: Receive, send: Send) -> None:
        switches = self.state.switches
        await asyncio.sleep(switches.delay)
        if switches.refuse_initialize:
            await refuse(send, switches.refuse_initialize, "initialize refused as asked")
            return
        session, result = echo_rpc.initialize(self.state, message.get("params") or {})
        stream = Stream("initialize", sse=switches.always_sse)
        stream.end({"jsonrpc": "2.0", "id": message.get("id"), "result": result})
        await carry(stream, receive, send, session_header(session))

    async def request(
        self, session: Session, message: Json, seen: Seen, receive: Receive, send: Send
    ) -> None:
        state = self.state
        if message["method"] == "tools/call" and state.switches.refuse_calls:
            await refuse(send, state.switches.refuse_calls, "call refused as asked")
            return
        stream = session.new_stream(sse=state.switches.always_sse)
        params = message.get("params") or {}
        call = Call(state, session, message["method"], message["id"], params, seen.headers, seen.body, stream)
        task = asyncio.ensure_future(self.run(call))
        session.running[key(call.id)] = task
        finished = await carry(stream, receive, send, session_header(session))
        if not finished:
            state.closed_midcall += 1
            if not stream.with_ids:
                task.cancel()

    async def run(self, call: Call) -> None:
        """Ends the call's stream, whatever happens."""
        mine = asyncio.current_task()
        message = None
        try:
            await asyncio.sleep(self.state.switches.delay)
            message = await echo_rpc.answer(call)
        except asyncio.CancelledError:
            self.state.stopped.append(call.id)
        except Exception as error:
            traceback.print_exc()
            message = {"jsonrpc": "2.0", "id": call.id, "error": {"code": -32603, "message": repr(error)}}
        finally:
            if call.session.running.get(key(call.id)) is mine:
                del call.session.running[key(call.id)]
            call.stream.end(message)

    def cancel(self, session: Session, params: Json) -> None:
        """Records only what was running: anything else is to be ignored, says the specification."""
        task = session.running.get(key(params.get("requestId")))
        if task is not None:
            self.state.cancelled.append(params["requestId"])
            task.cancel()

    async def get(self, seen: Seen, headers: dict[str, str], receive: Receive, send: Send) -> None:
        if not any(kind in headers.get("accept", "") for kind in ("text/event-stream", "*/*")):
            await refuse(send, 406, "Accept must have text/event-stream")
            return
        session = await self.find_session(headers, send)
        if session is None:
            return
        await asyncio.sleep(self.state.switches.delay)
        if self.state.switches.page_on_get:
            await reply(send, 200, b"<html>It works!</html>", [(b"content-type", b"text/html")])
            return
        last = headers.get("last-event-id")
        if last is not None:
            name, _, number = last.rpartition("-")
            if name not in session.streams or not number.isdecimal():
                await refuse(send, 400, f"Bad request: unknown event id {last}")
                return
            stream, position = session.streams[name], int(number) + 1
        else:
            stream, position = session.new_stream(with_ids=self.state.switches.event_ids), 0
            session.listening.append(stream)
            if stream.with_ids:
                stream.prime(200)
        stream.sse = True
        await carry(stream, receive, send, session_header(session), position)
        if stream in session.listening and (stream.over or not stream.with_ids):
            session.listening.remove(stream)

    async def delete(self, seen: Seen, headers: dict[str, str], send: Send) -> None:
        session = await self.find_session(headers, send)
        if session is None:
            return
        await asyncio.sleep(self.state.switches.delay)
        echo_control.end_session(self.state, session)
        self.state.deleted.append(session.id)
        await reply(send, 200)


def session_header(session: Session) -> Headers:
    return [(b"mcp-session-id", session.id.encode())]


def settle(session: Session, message: Json) -> Json:
    """Hands the client's answer to whoever asked; says which request of ours it was for."""
    asked = session.asked.pop(key(message.get("id")), None)
    if asked is not None and not asked.answer.done():
        asked.answer.set_result(message)
    return {"id": message.get("id"), "method": asked.method if asked else None}


class Server(uvicorn.Server):
    """Says so when it is ready."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if sockets:
            host, port = sockets[0].getsockname()
            print(f"ready http://{host}:{port}/mcp", file=sys.stderr, flush=True)


def serve(application: Any, port: int, host: str = "127.0.0.1") -> None:
    """Until a signal; never waits for open streams."""
    listener = socket.create_server((host, port), backlog=4096)
    config = uvicorn.Config(
        application,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        loop="uvloop",
        http="httptools",
        backlog=4096,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=0,
    )
    Server(config).run(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--name", default="echo")
    parser.add_argument("--host", default="127.0.0.1")
    arguments = parser.parse_args()
    serve(Echo(arguments.name), arguments.port, arguments.host)


if __name__ == "__main__":
    main()
