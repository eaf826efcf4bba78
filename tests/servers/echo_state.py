"""What the echo server remembers: its switches, sessions, streams, and the log of all it saw."""

import asyncio
import json
import time
import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def dumps(value: Any) -> bytes:
    """Compact UTF-8; a lone surrogate, which UTF-8 can not carry, falls back to escapes."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def key(rpc_id: Any) -> str:
    """Request ids 1 and "1" are two ids."""
    return json.dumps(rpc_id)


class RpcError(Exception):
    """A JSON-RPC error answer."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def body(self) -> Json:
        error: Json = {"code": self.code, "message": self.message}
        return error if self.data is None else error | {"data": self.data}


@dataclass
class Switches:
    """What POST /control turns on and off."""

    pin_version: str | None = None
    dropped: set[str] = field(default_factory=set)
    page_size: int = 0
    no_get: bool = False
    page_on_get: bool = False
    no_delete: bool = False
    invalid_tools: bool = False
    refuse_initialize: int = 0
    refuse_calls: int = 0
    require_auth: str | None = None
    per_user: bool = False
    delay: float = 0.0
    always_sse: bool = False
    event_ids: bool = False
    log: bool = True


class Stream:
    """One SSE stream. It outlives its connection when its events carry ids.

    Frames are added by `put` and taken by one connection at a time; a newer connection pushes out the older.
    """

    def __init__(self, name: str, *, with_ids: bool = False, sse: bool = False) -> None:
        self.name = name
        self.with_ids = with_ids
        self.sse = sse  # answer by SSE even if the response is the only message
        self.frames: list[bytes] = []
        self.answer: bytes | None = None
        self.over = False
        self.connection = 0  # the number of the connection now served; 0 before the first
        self.cut_off = 0  # the number of the connection to close, though the stream goes on
        self.connected = False
        self.wake = asyncio.Event()

    def put(self, message: Any) -> None:
        self._frame(b"data: " + dumps(message))

    def comment(self) -> None:
        self.frames.append(b": still here\n\n")
        self.wake.set()

    def prime(self, retry: int) -> None:
        """An event with an id, no data, and the reconnection time."""
        self._frame(b"retry: %d\ndata:" % retry, event=b"")

    def end(self, answer: Any = None) -> None:
        """The last message of a call; None when it was cancelled and has none."""
        if answer is not None and (self.sse or self.frames):
            self.put(answer)
        elif answer is not None:
            self.answer = dumps(answer)
        self.over = True
        self.wake.set()

    def cut(self) -> None:
        """Closes the connection, not the stream."""
        self.cut_off = self.connection
        self.wake.set()

    def _frame(self, fields: bytes, event: bytes = b"event: message\n") -> None:
        number = b"id: %s-%d\n" % (self.name.encode(), len(self.frames)) if self.with_ids else b""
        self.frames.append(event + number + fields + b"\n\n")
        self.wake.set()


@dataclass
class Asked:
    """A request of ours which the client has yet to answer."""

    method: str
    answer: asyncio.Future[Json]


class Session:
    def __init__(self, version: str, capabilities: Json) -> None:
        self.id = uuid.uuid4().hex
        self.version = version
        self.capabilities = capabilities
        self.level = "debug"
        self.subscriptions: set[str] = set()
        self.asked: dict[str, Asked] = {}
        self.running: dict[str, asyncio.Task[None]] = {}
        self.streams: dict[str, Stream] = {}  # those that can be resumed
        self.listening: list[Stream] = []  # GET streams, newest last
        self._next_request = 0
        self._next_stream = 0

    def new_stream(self, *, with_ids: bool = False, sse: bool = False) -> Stream:
        self._next_stream += 1
        stream = Stream(f"s{self._next_stream}", with_ids=with_ids, sse=sse)
        if with_ids:
            self.streams[stream.name] = stream
        return stream

    def ask(self, method: str, params: Json | None = None) -> tuple[Json, asyncio.Future[Json]]:
        """Our request, numbered from 0 in every session so that two servers clash, and its coming answer."""
        number = self._next_request
        self._next_request += 1
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self.asked[key(number)] = Asked(method, answer)
        request: Json = {"jsonrpc": "2.0", "id": number, "method": method}
        return request if params is None else request | {"params": params}, answer

    def push(self, message: Json) -> bool:
        """On one GET stream only, as the specification wants; a connected one if there is any."""
        stream = next((s for s in reversed(self.listening) if s.connected), None)
        stream = stream or (self.listening[-1] if self.listening else None)
        if stream is None:
            return False
        stream.put(message)
        return True


@dataclass(slots=True)
class Seen:
    """One HTTP request, kept raw: a load test pays for rendering only if it looks."""

    http: str
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    method: str | None = None
    id: Any = None
    session: str | None = None
    answered_request: Json | None = None
    status: int | None = None
    at: float = field(default_factory=time.time)

    def render(self) -> Json:
        return {
            "http": self.http,
            "path": self.path,
            "method": self.method,
            "id": self.id,
            "headers": joined(self.headers),
            "session": self.session,
            "body": self.body.decode(errors="backslashreplace"),
            "answered_request": self.answered_request,
            "status": self.status,
            "at": self.at,
        }


def joined(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Header names in lower case; values of a repeated header joined by ", ", so that a repetition shows."""
    result: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        result[name] = f"{result[name]}, {value}" if name in result else value
    return result


class State:
    def __init__(self, name: str) -> None:
        self.name = name
        self.switches = Switches()
        self.sessions: dict[str, Session] = {}
        self.tools: dict[str, Json] = {}
        self.removed: set[str] = set()
        self.prompts: dict[str, Json] = {}
        self.resources: dict[str, Json] = {}
        self.updates: dict[str, int] = {}
        self.visits = 0
        self.said: dict[str, Any] = {}  # method to the result it gives instead of its own
        self.log: deque[Seen] = deque(maxlen=50_000)
        self.reset_log()

    def reset_log(self) -> None:
        self.log.clear()
        self.initialized = 0
        self.calls = 0
        self.closed_midcall = 0
        self.cancelled: list[Any] = []
        self.stopped: list[Any] = []
        self.deleted: list[str] = []
        self.answers: list[Json] = []

    def counters(self) -> Json:
        sessions = self.sessions.values()
        return {
            "initialize": self.initialized,
            "calls": self.calls,
            "calls_running": sum(len(session.running) for session in sessions),
            "sessions_open": len(sessions),
            "get_streams_open": sum(stream.connected for s in sessions for stream in s.listening),
            "cancelled": self.cancelled,
            "stopped": self.stopped,
            "connections_closed_midcall": self.closed_midcall,
            "deleted_sessions": self.deleted,
            "subscriptions": [
                {"session": s.id, "uri": uri} for s in sessions for uri in sorted(s.subscriptions)
            ],
            "answers": self.answers,
        }
