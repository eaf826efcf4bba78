"""An HTTP/1.1 client for the hot path: pooled keep-alive connections, nothing parsed in Python, streams as they come.

Chosen by measuring (`python -m tests.bench.candidates`). It follows no redirects, uses no proxy, keeps no cookies:
a gateway should do none of these behind its operator's back.
"""

import asyncio
import ssl
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import httptools

from portico.errors import BackendBroken, BackendTimedOut, BackendUnreachable

IDLE_S: Final = 4.0
"""Servers close idle connections after five seconds at the earliest; ours are given up before, since a request that
crosses the server's closing of its connection is lost and may not be safe to send again."""

CONNECT_S: Final = 10.0
MAX_HEADERS: Final = 256
MAX_HEADER_BYTES: Final = 65536
HIGH_WATER: Final = 1 << 20
MAX_IDLE: Final = 256

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a URL points, taken apart once."""

    host: str
    port: int
    tls: bool
    authority: bytes
    path: bytes


@lru_cache(maxsize=1024)
def address(url: str) -> Address:
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    host = parts.hostname or ""
    port = parts.port or (443 if tls else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    authority = parts.netloc.rpartition("@")[2]
    return Address(
        host, port, tls, authority.encode("idna" if not authority.isascii() else "ascii"), path.encode()
    )


class Pool:
    """Connections to one place that wait for their next request, the youngest on top."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._idle: deque[Connection] = deque()
        self._sweeper: asyncio.TimerHandle | None = None

    def keep(self, connection: "Connection") -> None:
        if len(self._idle) >= MAX_IDLE:
            connection.cut()
            return
        connection.idle_since = self.loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self.loop.call_later(IDLE_S, self._sweep)

    def take(self) -> "Connection | None":
        oldest = self.loop.time() - IDLE_S
        while self._idle:
            connection = self._idle.pop()
            fresh = connection.idle_since > oldest
            connection.idle_since = 0.0
            if connection.reusable and fresh:
                return connection
            connection.cut()
        return None

    def _sweep(self) -> None:
        """After a rush, what nobody needed for a while is closed."""
        oldest = self.loop.time() - IDLE_S
        while self._idle and self._idle[0].idle_since <= oldest:
            self._idle.popleft().cut()
        self._sweeper = self.loop.call_later(IDLE_S, self._sweep) if self._idle else None

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        while self._idle:
            self._idle.pop().cut()


class Connection(asyncio.Protocol):
    """One connection: idle in its pool, or busy with one exchange."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.loop = pool.loop
        self._exchange: Exchange | None = None
        self.transport: asyncio.Transport
        self.lost = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a stream transport, as asked for

    def data_received(self, data: bytes) -> None:
        if self._exchange is None or not self._exchange.feed(data):
            self.cut()  # an answer that nobody asked for must not be taken for the next one

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the transport names it
        self.lost = True
        if self._exchange is not None:
            self._exchange.lost()

    def begin(self, request: bytes) -> "Exchange":
        self._exchange = Exchange(self)
        self.transport.write(request)
        return self._exchange

    def end(self, *, reusable: bool) -> None:
        self._exchange = None
        if reusable and self.reusable:
            self._pool.keep(self)
        else:
            self.cut()

    @property
    def reusable(self) -> bool:
        return not (self.lost or bool(self.transport.is_closing()))

    def cut(self) -> None:
        if not self.lost:
            self.transport.abort()


class Exchange:
    """One request and the answer to it: head awaited, then body chunks, then done.

    `close()` gives the connection back to the pool when the answer was read to its end, and cuts it otherwise. It may
    be called as often as one likes: after the first time the connection is somebody else's.
    """

    def __init__(self, connection: Connection) -> None:
        self._loop = connection.loop
        self._connection: Connection | None = connection
        self._waiter: asyncio.Future[bool] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._header_bytes = 0
        self._paused = False
        self._failure: str | None = None
        self._surplus = False
        self._kept = False
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.complete = False

    # What the connection and the parser call

    def feed(self, data: bytes) -> bool:
        """False where something comes after the end of the answer."""
        try:
            if self.complete:
                return False
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail("the backend wants to switch protocols")
        except httptools.HttpParserError as error:
            self._fail(f"the backend sent what is not HTTP ({error})")
        finally:
            self._wake()
        return not self._surplus

    def lost(self) -> None:
        if not self.complete:
            framed = b"content-length" in self.headers or b"transfer-encoding" in self.headers
            if self.status and not framed:
                self.complete = True  # an answer that ends with its connection
            else:
                early = "the backend closed the connection before its answer was complete"
                self._failure = self._failure or early
        self._wake()

    def on_message_begin(self) -> None:
        self._surplus = self.complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._surplus:
            return
        self._header_bytes += len(name) + len(value)
        if len(self.headers) >= MAX_HEADERS or self._header_bytes > MAX_HEADER_BYTES:
            raise httptools.HttpParserCallbackError("too many headers")
        self.headers[name.lower()] = value.strip()

    def on_headers_complete(self) -> None:
        if self._surplus:
            return
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status
        else:
            self.headers.clear()

    def on_body(self, body: bytes) -> None:
        if self._surplus:
            return
        self._chunks.append(body)
        self._buffered += len(body)
        if self._buffered > HIGH_WATER and not self._paused and self._connection is not None:
            self._paused = True
            self._connection.transport.pause_reading()

    def on_message_complete(self) -> None:
        if self.status and not self._surplus:
            self.complete = True
            self._kept = bool(self._parser.should_keep_alive())

    def _fail(self, reason: str) -> None:
        self._failure = reason
        if self._connection is not None:
            self._connection.cut()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(True)

    # What its user calls

    async def _news(self, seconds: float) -> bool:
        """Wait until something arrives, or False when `seconds` have passed."""
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiter = waiter
        timer = self._loop.call_later(seconds, _give_up, waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiter = None

    async def head(self, seconds: float) -> bool:
        """Whether status and headers came in time. May be asked again."""
        deadline = self._loop.time() + seconds
        while not self.status:
            self._raise_failure()
            if not await self._news(deadline - self._loop.time()):
                return False
        return True

    @property
    def content_type(self) -> bytes:
        return self.headers.get(b"content-type", b"").split(b";")[0].strip().lower()

    @property
    def challenge(self) -> str:
        return self.headers.get(b"www-authenticate", b"").decode("latin-1")

    @property
    def is_stream(self) -> bool:
        """Whether the answer comes as events."""
        return self.content_type == b"text/event-stream"

    async def chunk(self, seconds: float) -> bytes | None:
        """The next piece of the body, empty at its end, None when `seconds` have passed without one."""
        while True:
            if self._chunks:
                piece = b"".join(self._chunks)
                self._chunks.clear()
                self._buffered = 0
                if self._paused and self._connection is not None and not self._connection.lost:
                    self._paused = False
                    self._connection.transport.resume_reading()
                return piece
            if self.complete:
                return b""
            self._raise_failure()
            if not await self._news(seconds):
                return None

    async def body(self, limit: int, seconds: float) -> bytes:
        """The whole body; BackendBroken when it is longer than `limit`."""
        deadline = self._loop.time() + seconds
        pieces: list[bytes] = []
        size = 0
        while piece := await self.chunk(deadline - self._loop.time()):
            size += len(piece)
            if size > limit:
                self.close()
                raise BackendBroken(f"the backend's answer is larger than {limit} bytes")
            pieces.append(piece)
        if piece is None:
            self.close()
            raise BackendTimedOut("the backend stopped in the middle of its answer")
        return b"".join(pieces)

    def _raise_failure(self) -> None:
        if self._failure:
            raise BackendBroken(self._failure)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if not self.complete:
            self._failure = self._failure or "the exchange was closed"
            self._wake()
        connection.end(reusable=self._kept and not self._chunks and not self._surplus)


def _head(verb: bytes, to: Address, authority: bytes | None, headers: Headers, length: int) -> bytes:
    lines = [verb + b" " + to.path + b" HTTP/1.1", b"host: " + (authority or to.authority)]
    lines += [name + b": " + value for name, value in headers]
    if length or verb == b"POST":
        lines.append(b"content-length: %d" % length)
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1:
        raise ValueError("a header has a line break in it")
    return head + b"\r\n\r\n"


def _give_up(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)


class HttpClient:
    """Connections by where they lead. One per process and event loop."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, int, str | None], Pool] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def open(
        self,
        verb: bytes,
        url: str,
        headers: Headers,
        body: bytes = b"",
        *,
        authority: bytes | None = None,
        ca_cert: str | None = None,
        at: str = "",
    ) -> Exchange:
        """Send a request; the answer is read from the exchange. The caller closes it.

        `at`: the address to connect to, where the host's name has been looked up already.
        """
        to = address(url)
        head = _head(verb, to, authority, headers, len(body))
        key = (f"{to.host} {at}" if at else to.host, to.port, ca_cert if to.tls else None)
        pool = self._pools.get(key) or self._pools.setdefault(key, Pool())
        connection = pool.take() or await self._connect(to, pool, ca_cert, at)
        return connection.begin(head + body)

    async def _connect(self, to: Address, pool: Pool, ca_cert: str | None, at: str) -> Connection:
        context = self._context(ca_cert) if to.tls else None
        name = to.host if to.tls else None
        try:
            async with asyncio.timeout(CONNECT_S):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(pool), at or to.host, to.port, ssl=context, server_hostname=name
                )
        except TimeoutError:
            raise BackendUnreachable("the backend did not accept a connection in time") from None
        except (OSError, ssl.SSLError, UnicodeError) as error:
            raise BackendUnreachable(f"the backend cannot be reached ({_short(error)})") from None
        return connection

    def _context(self, ca_cert: str | None) -> ssl.SSLContext:
        key = ca_cert or ""
        if key not in self._contexts:
            try:
                self._contexts[key] = ssl.create_default_context(cadata=ca_cert)
            except ssl.SSLError as error:
                raise BackendUnreachable(f"the CA certificate cannot be used ({_short(error)})") from None
        return self._contexts[key]

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


def _short(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
