"""One HTTP request and its answer, seen while it arrives."""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

SECONDS = 30.0

Json = dict[str, Any]


@dataclass(frozen=True)
class Received:
    """One JSON-RPC message as it came: from an SSE event, or the JSON body. `message` is None for an empty event."""

    message: Any
    at: float  # time.monotonic()
    event_id: str | None = None
    retry: int | None = None


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    message: Any  # the JSON-RPC response: the JSON body, or the SSE message with the request's id; else None
    messages: list[Received]
    raw: bytes
    broken: Exception | None = None  # why the body ended too early, if it did

    @property
    def result(self) -> Any:
        assert isinstance(self.message, dict) and "result" in self.message, f"no result: {self}"
        return self.message["result"]

    @property
    def error(self) -> Any:
        assert isinstance(self.message, dict) and "error" in self.message, f"no error: {self}"
        return self.message["error"]

    @property
    def text(self) -> str:
        """The first text of a tool's result."""
        return next(block["text"] for block in self.result["content"] if block["type"] == "text")

    @property
    def session(self) -> str | None:
        return self.headers.get("mcp-session-id")

    def json(self) -> Any:
        return json.loads(self.raw)

    def __str__(self) -> str:
        return f"{self.status} {dict(self.headers)} {self.raw[:2000]!r} {self.broken or ''}"


class EventReader:
    """SSE bytes in, events out."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # the pieces of an unfinished line: it may be 100 MB long
        self._fields: dict[str, list[str]] = {}

    def feed(self, data: bytes) -> Iterator[Received]:
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = b"".join([*self._line, end]).removesuffix(b"\r").decode()
            self._line = []
            if line:
                name, _, value = line.partition(":")
                self._fields.setdefault(name, []).append(value.removeprefix(" "))
            elif self._fields:
                yield self._event()
        self._line.append(rest)

    def _event(self) -> Received:
        fields, self._fields = self._fields, {}
        data = "\n".join(fields.get("data", []))
        event_id, retry = fields.get("id", [None])[-1], fields.get("retry", [None])[-1]
        return Received(
            json.loads(data) if data else None, time.monotonic(), event_id, int(retry) if retry else None
        )


class Exchange:
    """One HTTP request and its answer, read in the caller's thread by `run()` or in another by `start()`.

    Messages can be seen while they arrive. `close()` hangs up, as a client does that loses interest.
    """

    def __init__(
        self,
        url: str,
        method: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        rpc_id: Any = None,
        seconds: float = SECONDS,
        on_message: Callable[[Json], None] | None = None,
    ) -> None:
        self.status = 0
        self.headers = http.client.HTTPMessage()
        self.messages: list[Received] = []
        self.broken: Exception | None = None
        self._request = (method, body, dict(headers))
        self._id = rpc_id
        self._on_message = on_message
        self._raw = bytearray()
        self._news = threading.Condition()
        self._finished = False
        self._thread: threading.Thread | None = None
        target = urlsplit(url)
        self._path = (target.path or "/") + (f"?{target.query}" if target.query else "")
        self._connection = http.client.HTTPConnection(
            target.hostname or "", target.port or 80, timeout=seconds
        )
        self._socket: socket.socket | None = None

    def run(self) -> Self:
        """Raises only if there is no answer at all; a broken body is told by `broken`."""
        try:
            self._connection.connect()
            self._socket = self._connection.sock
            method, body, headers = self._request
            self._send(method, body, headers)
            with self._connection.getresponse() as response:
                self._read(response)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.broken = error
            if not self.status and self._thread is None:
                raise
        finally:
            self._connection.close()
            self._tell(finished=True)
        return self

    def start(self) -> Self:
        self._thread = threading.Thread(target=self.run, name=f"{self._request[0]} {self._path}", daemon=True)
        self._thread.start()
        return self

    def _send(self, method: str, body: bytes | None, headers: dict[str, str]) -> None:
        """Sends no header that was not asked for, but Host and Content-Length."""
        names = {name.lower() for name in headers}
        self._connection.putrequest(method, self._path, skip_host="host" in names, skip_accept_encoding=True)
        for name, value in headers.items():
            self._connection.putheader(name, value.encode("utf-8"))
        if body is not None and not names & {"content-length", "transfer-encoding"}:
            self._connection.putheader("Content-Length", str(len(body)))
        self._connection.endheaders(body)

    def _read(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers = response.status, response.headers
        self._tell()
        sse = self.headers.get_content_type() == "text/event-stream"
        events = EventReader()
        while data := response.read1(1 << 16):
            self._raw += data
            if sse:
                for received in events.feed(data):
                    self._add(received)
        if response.length:
            raise http.client.IncompleteRead(bytes(self._raw[-100:]), response.length)
        if self._raw and self.headers.get_content_type() == "application/json":
            self._add(Received(json.loads(self._raw), time.monotonic()))

    def _add(self, received: Received) -> None:
        self._tell(received)
        if self._on_message is not None and isinstance(received.message, dict):
            self._on_message(received.message)

    def _tell(self, received: Received | None = None, *, finished: bool = False) -> None:
        with self._news:
            if received is not None:
                self.messages.append(received)
            self._finished = self._finished or finished
            self._news.notify_all()

    @property
    def closed(self) -> bool:
        """No more will come."""
        return self._finished

    @property
    def last_event_id(self) -> str | None:
        return next((m.event_id for m in reversed(self.messages) if m.event_id is not None), None)

    def all(self, method: str | None = None) -> list[Json]:
        """The JSON-RPC messages so far; of that method if given."""
        messages = [m.message for m in self.messages if m.message is not None]
        return messages if method is None else [m for m in messages if m.get("method") == method]

    def wait_for(self, wanted: str | Callable[[Json], bool], seconds: float = 5) -> Json:
        """The first message, come or coming, that has this method or satisfies the predicate."""
        fits = (lambda m: m.get("method") == wanted) if isinstance(wanted, str) else wanted

        def found() -> Json | None:
            return next((m for m in self.all() if fits(m)), None)

        with self._news:
            self._news.wait_for(lambda: found() is not None or self._finished, seconds)
            message = found()
        assert message is not None, f"no such message within {seconds} s; {self}"
        return message

    def wait_open(self, seconds: float = 10) -> Self:
        """Until the answer's headers are there."""
        with self._news:
            self._news.wait_for(lambda: self.status or self._finished, seconds)
        assert self.status, f"no answer within {seconds} s; {self}"
        return self

    def wait_closed(self, seconds: float = 5) -> Self:
        with self._news:
            assert self._news.wait_for(lambda: self._finished, seconds), (
                f"still open after {seconds} s; {self}"
            )
        return self

    def answer(self, seconds: float = SECONDS) -> Answer:
        """Waits for the end. An exchange that never got a status raises what went wrong."""
        self.wait_closed(seconds)
        if not self.status:
            raise self.broken or AssertionError("no answer")
        return Answer(
            self.status, self.headers, self._response(), self.messages, bytes(self._raw), self.broken
        )

    def _response(self) -> Any:
        """In a JSON body whatever is there, in a stream what has our id."""
        if self.headers.get_content_type() != "text/event-stream":
            return self.messages[0].message if self.messages else None
        responses = [m for m in self.all() if "method" not in m and m.get("id") == self._id]
        return responses[0] if responses else None

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return f"{self._request[0]} {self._path}: {self.status or self.broken}, got {self.all()}"


def fetch(
    url: str, body: Any = None, *, method: str | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """Plain HTTP: GET, or POST of `body` (bytes as they are, anything else as JSON)."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    sent = (
        {"Content-Type": "application/json"} | dict(headers or {})
        if data is not None
        else dict(headers or {})
    )
    return Exchange(url, method or ("GET" if data is None else "POST"), data, sent).run().answer()
