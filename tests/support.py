"""What the tests share: real processes to talk to, and a small blocking MCP client that hides nothing.

Everything here is a context manager and also works without `with`, as long as somebody calls `close()`:

    with echo_server() as echo, gateway({"backends": [{"name": "s1", "url": echo.url}]}) as portico:
        client = Client(portico.url)
        client.init()
        assert client.call("s1_echo", {"text": "hi"}).text == "hi"

The client is on http.client, one connection per request. It follows the specification by default and lets a test
break any of it: every header, id and byte can be given.
"""

import atexit
import base64
import contextlib
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import EllipsisType, TracebackType
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import urlsplit

import yaml

ROOT = Path(__file__).parent.parent
READY = re.compile(r"\bready\b.*?(http://[^\s/]+\S*)")
START_SECONDS = 15.0
STOP_SECONDS = 5.0

T = TypeVar("T")
Json = dict[str, Any]
Headers = Mapping[str, str | None]
Handler = Callable[[Json], Any]

MODERN = "2026-07-28"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}  # what Mcp-Name repeats
CLIENT_INFO = {"name": "t", "version": "1"}
SECONDS = 30.0


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
        given = {name: value for name, value in sent.items() if value is not None}
        return Exchange(
            self.url,
            method,
            body,
            given,
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


def eventually(check: Callable[[], T], seconds: float = 5) -> T:
    """What `check` gives as soon as it is true; an AssertionError it raises counts as "not yet"."""
    deadline = time.monotonic() + seconds
    pause = 0.002
    while True:
        failure: AssertionError | None = None
        try:
            if value := check():
                return value
        except AssertionError as error:
            failure = error
        if time.monotonic() >= deadline:
            raise failure or AssertionError(f"not true within {seconds} s; last value {value!r}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


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


class Process:
    """A program in a process group of its own, started at once and known by its ready line.

    Its output is kept (the last 5,000 lines, stdout and stderr together). How it ends is nobody's business here.
    """

    _alive: ClassVar[weakref.WeakSet["Process"]] = weakref.WeakSet()

    def __init__(
        self,
        command: list[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str = ROOT,
        ready: re.Pattern[str] = READY,
        seconds: float = START_SECONDS,
    ) -> None:
        self.command = command
        self.url = ""
        self._lines: deque[str] = deque(maxlen=5000)
        self._ready = threading.Event()
        self._pattern = ready
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"} | dict(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._alive.add(self)
        self._reader = threading.Thread(target=self._read, name=f"output of {self.pid}", daemon=True)
        self._reader.start()
        self._await_ready(seconds)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            line = raw.decode(errors="replace")
            self._lines.append(line)
            if not self._ready.is_set() and (match := self._pattern.search(line)):
                self.url = match[1]
                self._ready.set()
        self._ready.set()

    def _await_ready(self, seconds: float) -> None:
        in_time = self._ready.wait(seconds)
        if not self.url:
            why = "ended before" if in_time else f"not within {seconds} s after start"
            self.close()
            command = " ".join(self.command)
            raise RuntimeError(
                f"{command}: no ready line ({why}); exit {self.returncode}; it said:\n{self.stderr()}"
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.poll()

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 80

    @property
    def base(self) -> str:
        """The URL without its path."""
        return f"http://{urlsplit(self.url).netloc}"

    def stderr(self) -> str:
        """What it wrote so far."""
        return "".join(self._lines.copy())

    def signal(self, number: int) -> None:
        """To the whole process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Hard, and waits until it is gone. `close()` stays needed."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """SIGTERM, then SIGKILL to what is left of the group. May be called again."""
        if self not in self._alive:
            return
        self._alive.discard(self)
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        self.kill()
        # A descendant that left the group could hold the pipe open for ever.
        self._reader.join(STOP_SECONDS)
        if self.process.stdout is not None and not self._reader.is_alive():
            self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@atexit.register
def _close_leftovers() -> None:
    for process in list(Process._alive):
        process.close()


class Echo(Process):
    """tests.servers.echo; see echo_control for what it can be told to do."""

    @property
    def custom_url(self) -> str:
        return f"{self.base}/custom/path"

    def control(self, do: str, **arguments: Any) -> Json:
        """The answer: {"ok": true, "sent": number of streams reached, or None}."""
        answer = fetch(f"{self.base}/control", {"do": do} | arguments)
        assert answer.status == 200, f"control {do}: {answer.raw.decode()}"
        return answer.json()

    def seen(self, method: str | None = None, *, http: str | None = None) -> list[Json]:
        """The requests it saw since the start or `reset_log`, oldest first; of that RPC or HTTP method if given."""
        log = fetch(f"{self.base}/control").json()["log"]
        return [e for e in log if method in (None, e["method"]) and http in (None, e["http"])]

    def counters(self) -> Json:
        return fetch(f"{self.base}/control").json()["counters"]


class Faults(Process):
    """tests.servers.faults."""

    def counters(self) -> Json:
        """{"initialize": n, "calls": {tool: n}, "closed": {tool: n}, "redirect_followed": n}."""
        return fetch(f"{self.base}/control").json()


class Gateway(Process):
    """Portico, in a temporary directory that holds its portico.yaml."""

    def __init__(
        self,
        config: Json | str,
        *args: str,
        env: Mapping[str, str] | None = None,
        seconds: float = START_SECONDS,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="portico-"))
        self.config = self.directory / "portico.yaml"
        self.write(config)
        command = [
            sys.executable,
            "-m",
            "portico.cli",
            "serve",
            "--config",
            str(self.config),
            "--port",
            "0",
            *args,
        ]
        try:
            super().__init__(command, env=env, cwd=self.directory, seconds=seconds)
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise

    def write(self, config: Json | str) -> None:
        """Replaces portico.yaml in one step, as an editor or a deployment would."""
        text = (
            config if isinstance(config, str) else yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
        )
        draft = self.directory / "portico.yaml.new"
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.config)

    def client(self, **options: Any) -> Client:
        return Client(self.url, **options)

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.directory, ignore_errors=True)


def module(name: str, *args: str) -> list[str]:
    return [sys.executable, "-m", name, *args]


def start(
    module_name: str, *args: str, env: Mapping[str, str] | None = None, cwd: Path | str = ROOT
) -> Process:
    """`python -m module_name args...`, once it is ready."""
    return Process(module(module_name, *args), env=env, cwd=cwd)


def echo_server(name: str = "echo", *, port: int = 0) -> Echo:
    """Give the old port to start it again where it was."""
    return Echo(module("tests.servers.echo", "--port", str(port), "--name", name))


def fault_server(*, port: int = 0) -> Faults:
    return Faults(module("tests.servers.faults", "--port", str(port)))


def everything_server(*args: str, port: int = 0) -> Process:
    return start("tests.servers.everything", "--port", str(port), *args)


def gateway(config: Json | str, *args: str, env: Mapping[str, str] | None = None) -> Gateway:
    """`portico serve` with this configuration (a mapping, or YAML text), once it is ready."""
    return Gateway(config, *args, env=env)
