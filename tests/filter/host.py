"""A host for one proxy-wasm 0.2.1 filter, on wasmtime: as much of Envoy as the filter calls, and none of its patience.

Tests say what time it is, answer the filter's calls when they like, and may take away what a host has.
"""

import json
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import wasmtime

OK, NOT_FOUND, BAD_ARGUMENT = 0, 1, 2
GO_ON, WAIT = 0, 1
ROOT = 1
REQUEST_BODY, CALL_BODY, CONFIGURATION = 0, 4, 7
REQUEST_HEADERS, CALL_HEADERS = 0, 6

Header = tuple[bytes, bytes]
Foreign = Callable[[bytes], bytes]


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body)


@dataclass
class Call:
    cluster: str
    headers: dict[str, str]
    timeout: int


@dataclass
class Request:
    """What the host knows of a request, and what became of it."""

    id: int
    headers: list[Header]
    body: bytes = b""
    action: int = WAIT
    reply: Reply | None = None

    @property
    def passed(self) -> bool:
        return self.reply is None and self.action == GO_ON

    def header(self, name: str) -> str | None:
        found = [value.decode() for own, value in self.headers if own == name.encode()]
        assert len(found) < 2, found
        return found[0] if found else None


@cache
def _module(path: Path) -> tuple[wasmtime.Engine, wasmtime.Module]:
    engine = wasmtime.Engine()
    return engine, wasmtime.Module.from_file(engine, str(path))


@dataclass
class _State:
    """Whom the filter speaks for, and what it has asked for."""

    context: int = ROOT
    calls: dict[int, Call] = field(default_factory=dict)
    answered: tuple[list[Header], bytes] = ((), b"")  # type: ignore[assignment]


class Host:
    def __init__(self, path: Path, configuration: object, *, now: float | None = None) -> None:
        self.path = path
        self.now = now
        """None: what the clock says."""
        self.logs: list[str] = []
        self.requests: dict[int, Request] = {}
        self.foreign: dict[str, Foreign] = {}
        self.missing: set[str] = set()
        """Functions that fail whenever they are called."""
        self.tick_ms = 0
        self.configuration = b""
        self._state = _State()
        self._next = ROOT
        engine, module = _module(path)
        self._store = wasmtime.Store(engine)
        linker = wasmtime.Linker(engine)
        for wanted in module.imports:
            assert wanted.module == "env"
            function = wasmtime.Func(self._store, wanted.type, self._import(str(wanted.name)))
            linker.define(self._store, wanted.module, str(wanted.name), function)
        self._exports = linker.instantiate(self._store, module).exports(self._store)
        self._memory: Any = self._exports["memory"]
        self.call("proxy_on_context_create", ROOT, 0)
        assert self.call("proxy_on_vm_start", ROOT, 0) == 1
        self.configured = self.configure(configuration)

    # What Envoy does

    def configure(self, configuration: object) -> bool:
        text = configuration if isinstance(configuration, bytes) else json.dumps(configuration).encode()
        self.configuration = text
        return bool(self.call("proxy_on_configure", ROOT, len(text)))

    def call(self, name: str, context: int, *rest: int) -> Any:
        self._state.context = context
        function: Any = self._exports[name]
        return function(self._store, context, *rest)

    def tick(self) -> None:
        self.call("proxy_on_tick", ROOT)

    @property
    def calls(self) -> dict[int, Call]:
        return self._state.calls

    def answer(self, call: int, status: int | None, body: bytes = b"") -> None:
        """`None`: nobody answered in time."""
        self._state.calls.pop(call, None)
        headers = [] if status is None else [(b":status", str(status).encode())]
        self._state.answered = (headers, body)
        self.call("proxy_on_http_call_response", ROOT, call, len(headers), len(body), 0)

    def begin(self, headers: list[tuple[str, str]], *, ends: bool) -> Request:
        self._next += 1
        lines = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
        request = self.requests[self._next] = Request(self._next, lines)
        self.call("proxy_on_context_create", request.id, ROOT)
        request.action = self.call("proxy_on_request_headers", request.id, len(lines), int(ends))
        return request

    def send(self, request: Request, piece: bytes, *, ends: bool) -> None:
        request.body += piece
        request.action = self.call("proxy_on_request_body", request.id, len(request.body), int(ends))

    def end(self, request: Request) -> None:
        for name in ("proxy_on_done", "proxy_on_delete"):
            self.call(name, request.id)
        del self.requests[request.id]

    def ask(
        self, verb: str, path: str, headers: list[tuple[str, str]], body: bytes = b"", piece: int = 1 << 20
    ) -> Request:
        """A whole request, its body in pieces of that size."""
        said = [(":method", verb), (":path", path), (":authority", "gw.example.com"), *headers]
        request = self.begin(said, ends=not body)
        while body and request.reply is None and request.action == WAIT:
            here, body = body[:piece], body[piece:]
            self.send(request, here, ends=not body)
        return request

    @property
    def memory_bytes(self) -> int:
        return int(self._memory.data_len(self._store))

    @property
    def stack_bytes(self) -> int:
        pointer: Any = self._exports["__stack_pointer"]
        return int(pointer.value(self._store))

    # What the filter calls

    def _import(self, name: str) -> Callable[..., int]:
        own = getattr(self, f"_{name.removeprefix('proxy_')}")

        def called(*arguments: int) -> int:
            if name in self.missing:
                return NOT_FOUND
            return int(own(*(value & 0xFFFFFFFF for value in arguments)))

        return called

    def _read(self, at: int, size: int) -> bytes:
        return bytes(self._memory.read(self._store, at, at + size)) if size else b""

    def _write(self, at: int, data: bytes) -> None:
        self._memory.write(self._store, data, at)

    def _give(self, data: bytes, at: int, size_at: int) -> int:
        place = 0
        if data:
            allocate: Any = self._exports["proxy_on_memory_allocate"]
            place = allocate(self._store, len(data)) & 0xFFFFFFFF
            self._write(place, data)
        self._write(at, struct.pack("<I", place))
        self._write(size_at, struct.pack("<I", len(data)))
        return OK

    def _map(self, kind: int) -> list[Header] | None:
        request = self.requests.get(self._state.context)
        if kind == REQUEST_HEADERS:
            return request.headers if request else None
        return self._state.answered[0] if kind == CALL_HEADERS else None

    def _log(self, _level: int, at: int, size: int) -> int:
        self.logs.append(self._read(at, size).decode(errors="replace"))
        return OK

    def _get_current_time_nanoseconds(self, at: int) -> int:
        now = time.time() if self.now is None else self.now
        self._write(at, struct.pack("<Q", int(now * 1e9)))
        return OK

    def _set_tick_period_milliseconds(self, period: int) -> int:
        self.tick_ms = period
        return OK

    def _get_buffer_bytes(self, kind: int, start: int, most: int, at: int, size_at: int) -> int:
        request = self.requests.get(self._state.context)
        found = {
            REQUEST_BODY: request.body if request else None,
            CALL_BODY: self._state.answered[1],
            CONFIGURATION: self.configuration,
        }.get(kind)
        return NOT_FOUND if found is None else self._give(found[start : start + most], at, size_at)

    def _get_header_map_pairs(self, kind: int, at: int, size_at: int) -> int:
        found = self._map(kind)
        return BAD_ARGUMENT if found is None else self._give(written(found), at, size_at)

    def _replace_header_map_value(self, kind: int, at: int, size: int, value_at: int, value_size: int) -> int:
        self._remove_header_map_value(kind, at, size)
        found = self._map(kind)
        if found is None:
            return BAD_ARGUMENT
        found.append((self._read(at, size).lower(), self._read(value_at, value_size)))
        return OK

    def _remove_header_map_value(self, kind: int, at: int, size: int) -> int:
        found, name = self._map(kind), self._read(at, size).lower()
        if found is None:
            return BAD_ARGUMENT
        found[:] = [header for header in found if header[0] != name]
        return OK

    def _send_local_response(self, status: int, _: int, __: int, *rest: int) -> int:
        body_at, body_size, headers_at, headers_size, _grpc = rest
        request = self.requests.get(self._state.context)
        if request is None:
            return BAD_ARGUMENT
        assert request.reply is None, "one request, two answers"
        headers = {
            name.decode(): value.decode("latin-1")
            for name, value in read(self._read(headers_at, headers_size))
        }
        request.reply = Reply(status, headers, self._read(body_at, body_size))
        return OK

    def _http_call(self, at: int, size: int, headers_at: int, headers_size: int, *rest: int) -> int:
        *_, timeout, call_at = rest
        headers = {
            name.decode(): value.decode() for name, value in read(self._read(headers_at, headers_size))
        }
        self._next += 1
        self._state.calls[self._next] = Call(self._read(at, size).decode(), headers, timeout)
        self._write(call_at, struct.pack("<I", self._next))
        return OK

    def _continue_stream(self, _kind: int) -> int:
        request = self.requests[self._state.context]
        assert request.reply is None, "refused, and let through"
        request.action = GO_ON
        return OK

    def _set_effective_context(self, context: int) -> int:
        if context != ROOT and context not in self.requests:
            return BAD_ARGUMENT
        self._state.context = context
        return OK

    def _call_foreign_function(self, at: int, size: int, data_at: int, data_size: int, *out: int) -> int:
        function = self.foreign.get(self._read(at, size).decode())
        return NOT_FOUND if function is None else self._give(function(self._read(data_at, data_size)), *out)


def written(pairs: list[Header]) -> bytes:
    sizes = b"".join(struct.pack("<II", len(name), len(value)) for name, value in pairs)
    return struct.pack("<I", len(pairs)) + sizes + b"".join(b"%b\0%b\0" % pair for pair in pairs)


def read(data: bytes) -> list[Header]:
    (count,) = struct.unpack_from("<I", data)
    at, found = 4 + 8 * count, []
    for number in range(count):
        name, value = struct.unpack_from("<II", data, 4 + 8 * number)
        found.append((data[at : at + name], data[at + name + 1 : at + name + 1 + value]))
        at += name + value + 2
    return found
