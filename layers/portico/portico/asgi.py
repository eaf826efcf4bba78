"""The /mcp endpoint: raw ASGI, no framework on the hot path."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol

from authz.origins import OriginRules, host_allowed, origin_allowed
from portico.broker import Broker, Reply, refusal
from portico.errors import BackendError
from portico.listening import Listening
from portico.protocol import versions
from portico.protocol.inbound import SESSION_HEADER, Batch, accepts, check_headers, check_post, classify
from portico.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Message, Rejection
from portico.protocol.tickets import decode_cursor
from portico.sessions import Session

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

WATCH_AFTER_S: Final = 0.05
"""Calls that take longer are watched for a client that goes away."""

log = logging.getLogger("portico.asgi")


class Operator(Protocol):
    async def status(self, name: str | None) -> dict[str, Any] | None: ...
    def nudge(self, name: str) -> None: ...


class Endpoint:
    def __init__(self, broker: Broker, operator: Operator, rules: OriginRules) -> None:
        self._broker = broker
        self._operator = operator
        self.rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            headers[name.decode("latin-1")] = value.decode("latin-1").strip()
        client = Client(scope, receive, send, headers)
        refused = self._refused(headers)
        if refused is not None:
            await client.reply(refusal(refused))
        elif scope["path"] == "/mcp":
            await self._mcp(client)
        else:
            await self._other(client, scope["path"])

    def _refused(self, headers: dict[str, str]) -> Rejection | None:
        if not host_allowed(self.rules, headers.get("host", "")):
            return Rejection(403, INVALID_REQUEST, "this Host is not served here")
        if "origin" in headers and not origin_allowed(self.rules, headers["origin"]):
            return Rejection(403, INVALID_REQUEST, "this Origin is not allowed")
        return None

    async def _mcp(self, client: "Client") -> None:
        verb = client.scope["method"]
        handle = {"POST": self._post, "GET": self._get, "DELETE": self._delete, "OPTIONS": self._options}.get(
            verb
        )
        if handle is None:
            await client.reply(Reply(405, headers=[(b"allow", b"GET, POST, DELETE")]))
            return
        async with client.watched():
            await client.reply(await self._guarded(handle, client))

    async def _guarded(self, handle: Callable[["Client"], Awaitable[Reply]], client: "Client") -> Reply:
        """The boundary: whatever goes wrong inside is logged here and answered without its internals."""
        try:
            refused = check_headers(client.headers)
            return refusal(refused) if refused else await handle(client)
        except BackendError as error:
            return refusal(error.rejection("", None))
        except Exception:
            log.exception("a request failed")
            return refusal(
                Rejection(500, INTERNAL_ERROR, "Internal error", "the gateway failed; see its log")
            )

    async def _post(self, client: "Client") -> Reply:
        refused = check_post(client.headers)
        if refused is not None:
            return refusal(refused)
        limit = self._broker.registry.limits.body_bytes
        body = await client.body(limit)
        if body is None:
            return refusal(Rejection(413, INVALID_REQUEST, f"the body is larger than {limit} bytes"))
        message = classify(body)
        if isinstance(message, Rejection):
            return refusal(message)
        if isinstance(message, Message) and message.method == "initialize" and message.kind == "request":
            return await self._broker.begin(message, client.headers)
        session = await self._session(client)
        if isinstance(session, Rejection):
            return refusal(session)
        if isinstance(message, Batch):
            return await self._batch(message, session, client)
        return await self._broker.carry(
            self._broker.decide(message, session), message, session, client.headers
        )

    async def _batch(self, batch: Batch, session: Session, client: "Client") -> Reply:
        if session.version not in versions.BATCHING:
            return refusal(Rejection(400, INVALID_REQUEST, "batches are part of 2025-03-26 only"), session.id)
        bodies = []
        headers = {**client.headers, "accept": "application/json"}
        for message in batch.messages:
            if isinstance(message, Rejection):
                bodies.append(refusal(message).body)
                continue
            reply = await self._broker.carry(self._broker.decide(message, session), message, session, headers)
            if message.kind == "request":
                bodies.append(reply.body)
        if not bodies:
            return Reply(202, session_id=session.id)
        return Reply(200, b"[" + b",".join(bodies) + b"]", session_id=session.id)

    async def _session(self, client: "Client") -> Session | Rejection:
        id_ = client.headers.get(SESSION_HEADER)
        if not id_:
            return Rejection(400, INVALID_REQUEST, "no session ID found")
        session = await self._broker.sessions.find(id_)
        return session or Rejection(404, INVALID_REQUEST, "session not found: it has ended or never was")

    async def _get(self, client: "Client") -> Reply:
        if not accepts(client.headers, "text/event-stream"):
            return refusal(Rejection(406, INVALID_REQUEST, "Accept must list text/event-stream"))
        session = await self._session(client)
        if isinstance(session, Rejection):
            return refusal(session)
        last = client.headers.get("last-event-id")
        cursor = decode_cursor(last) if last else None
        if cursor is not None and cursor.backend:
            return await self._broker.resume(session, cursor, client.headers)
        listening = Listening(
            session,
            self._broker.sessions,
            lambda: self._broker.backends,
            self._broker.publication,
            self._broker.registry.limits,
            cursor,
            client.headers,
            self._operator.nudge,
            self._broker.streams,
        )
        return Reply(200, frames=listening.frames(), session_id=session.id)

    async def _delete(self, client: "Client") -> Reply:
        session = await self._session(client)
        if isinstance(session, Rejection):
            return refusal(session)
        await self._broker.end(session, client.headers)
        return Reply(200)

    async def _options(self, _: "Client") -> Reply:
        allow = b"content-type, accept, authorization, mcp-session-id, mcp-protocol-version, last-event-id"
        return Reply(
            204,
            headers=[
                (b"access-control-allow-methods", b"GET, POST, DELETE"),
                (b"access-control-allow-headers", allow),
                (b"access-control-max-age", b"3600"),
            ],
        )

    async def _other(self, client: "Client", path: str) -> None:
        if client.scope["method"] not in ("GET", "HEAD"):
            await client.reply(Reply(404))
            return
        if path == "/health":
            await client.reply(Reply(200, b'{"status":"ok"}'))
            return
        found = None
        if path == "/status" or path.startswith("/status/"):
            found = await self._operator.status(path.removeprefix("/status").strip("/") or None)
        await client.reply(Reply(404) if found is None else Reply(200, json.dumps(found).encode()))


class Client:
    """One HTTP request of a client, and the answer to it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, headers: dict[str, str]) -> None:
        self.scope = scope
        self.headers = headers
        self._receive = receive
        self._send = send
        self._task = asyncio.current_task()
        self._gone = False
        self._read = False

    async def body(self, limit: int) -> bytes | None:
        """The request's body, None when it is larger than `limit`."""
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            return None
        message = await self._receive()
        body: bytes = message.get("body", b"")
        while message.get("more_body"):
            message = await self._receive()
            body += message.get("body", b"")
            if len(body) > limit:
                return None
        self._read = True
        return body

    @contextlib.asynccontextmanager
    async def watched(self) -> Any:
        """Whoever goes away ends his request; short ones are not worth watching."""
        watcher: list[asyncio.Task[None]] = []
        timer = asyncio.get_running_loop().call_later(
            WATCH_AFTER_S, lambda: watcher.append(asyncio.ensure_future(self._watch()))
        )
        try:
            yield
        except asyncio.CancelledError:
            if not self._gone:
                raise
        finally:
            timer.cancel()
            for task in watcher:
                task.cancel()

    async def _watch(self) -> None:
        if self.scope["method"] == "POST" and not self._read:
            return
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        if self._task is not None:
            self._task.cancel()

    async def reply(self, reply: Reply) -> None:
        headers = [*reply.headers]
        if reply.session_id:
            headers.append((b"mcp-session-id", reply.session_id.encode()))
        if "origin" in self.headers and reply.status != 403:
            headers.append((b"access-control-allow-origin", self.headers["origin"].encode("latin-1")))
            headers.append((b"access-control-expose-headers", b"mcp-session-id"))
        if reply.frames is not None:
            await self._stream(reply, headers)
            return
        if reply.body:
            headers.append((b"content-type", b"application/json"))
        headers.append((b"content-length", b"%d" % len(reply.body)))
        await self._send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": reply.body})

    async def _stream(self, reply: Reply, headers: list[tuple[bytes, bytes]]) -> None:
        frames = reply.frames
        assert frames is not None  # noqa: S101 - the caller looked
        headers += [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]
        await self._send({"type": "http.response.start", "status": reply.status, "headers": headers})
        try:
            async for piece in frames:
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            await frames.aclose()  # type: ignore[attr-defined]
        await self._send({"type": "http.response.body", "body": b""})
