"""HTTP/1.1 for the three servers of the emulator: header names keep their case, trailers are seen, bodies may stream."""

import asyncio
import contextlib
import socket
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Self

Pairs = list[tuple[str, str]]
NO_BODY = {204, 304}
LINE_LIMIT = 2**17
PIECE = 2**16
PATIENCE = 4
"""So many times what is allowed is read of a body; of a larger one nothing."""


class BadRequest(Exception):
    pass


@dataclass
class Request:
    method: str
    target: str
    headers: Pairs
    reader: asyncio.StreamReader
    peer: str
    trailers: dict[str, str] = field(default_factory=dict)
    unread: bool = False
    """The connection cannot be used again."""

    def header(self, name: str) -> str | None:
        """The last of that name, as API Gateway has it; None if there is none."""
        return next((v for k, v in reversed(self.headers) if k.lower() == name.lower()), None)

    def length(self) -> int | None:
        """None if it comes in chunks. What two readers might read differently is refused (RFC 9112, 6.3)."""
        lengths = {value for name, value in self.headers if name.lower() == "content-length"}
        chunked = (self.header("transfer-encoding") or "").lower() == "chunked"
        if len(lengths) + chunked > 1:
            raise BadRequest
        return None if chunked else _number(lengths.pop() if lengths else "0", 10)

    async def chunks(self) -> AsyncIterator[bytes]:
        left = self.length()
        if left is None:
            async for chunk in self._chunked():
                yield chunk
        else:
            while left:
                chunk = await self.reader.readexactly(min(left, PIECE))
                left -= len(chunk)
                yield chunk

    async def body(self, limit: int | None = None) -> bytes | None:
        """None if it is longer than the limit. Unless it is endless it is read, so that the other side hears the answer."""
        if limit is not None and (self.length() or 0) > PATIENCE * limit:
            self.unread = True
            return None
        found, length = bytearray(), 0
        async for chunk in self.chunks():
            length += len(chunk)
            if limit is None or length <= limit:
                found += chunk
        return bytes(found) if limit is None or length <= limit else None

    async def _chunked(self) -> AsyncIterator[bytes]:
        while size := await self._chunk_size():
            yield await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        self.trailers = {name.lower(): value for name, value in await _header_lines(self.reader)}

    async def _chunk_size(self) -> int:
        line = await self.reader.readuntil(b"\n")
        return _number(line.decode("latin-1").partition(";")[0].strip(), 16)

    async def gone(self) -> None:
        """Returns when the other side hangs up, or says more before it has its answer."""
        with contextlib.suppress(ConnectionError):
            await self.reader.read(1)


@dataclass
class Response:
    """A whole body, or one that comes in pieces. A stream that raises ends the connection in the middle."""

    status: int
    headers: Pairs = field(default_factory=list)
    body: bytes | AsyncIterator[bytes] = b""

    def header(self, name: str) -> str | None:
        return next((v for k, v in self.headers if k.lower() == name.lower()), None)


class StreamBroken(Exception):
    """What was begun cannot be ended properly."""


Handler = Callable[[Request], Awaitable[Response]]


def listen(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), backlog=1024)


class Server:
    """One listening socket on loopback."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self, where: socket.socket | None = None) -> Self:
        """Without `where`, on a free port."""
        where = where or listen(0)
        self.port = where.getsockname()[1]
        self._server = await asyncio.start_server(self._connected, sock=where, limit=LINE_LIMIT)
        return self

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()

    async def all_read(self, seconds: float) -> None:
        """Until what has been sent to it is read, and the other sides are gone."""
        if self._open:
            await asyncio.wait(self._open, timeout=seconds)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _read_head(reader, writer):
                if not await self._answer(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, StreamBroken):
            writer.transport.abort()
        except (BadRequest, ValueError):
            await _write_whole(writer, "GET", Response(400), keep=False)
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection may be used again."""
        if (request.header("expect") or "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        response = await self._handled(request)
        if isinstance(response.body, bytes):
            keep = (request.header("connection") or "").lower() != "close" and not request.unread
            await _write_whole(writer, request.method, response, keep=keep)
            return keep
        await _write_stream(writer, request, response, response.body)
        return False

    async def _handled(self, request: Request) -> Response:
        """A fault of the emulator's own is told, and the next request served."""
        try:
            return await self._handler(request)
        except (ConnectionError, asyncio.IncompleteReadError, StreamBroken, BadRequest):
            raise
        except Exception:  # noqa: BLE001
            traceback.print_exc()
            return Response(
                500, [("Content-Type", "text/plain")], b"the emulator failed; its log has the reason\n"
            )


async def _read_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    line = await reader.readline()
    if not line.strip():
        return None
    try:
        method, target, _ = line.decode("latin-1").split(" ", 2)
    except ValueError:
        raise BadRequest from None
    headers = await _header_lines(reader)
    return Request(method, target, headers, reader, writer.get_extra_info("peername")[0])


async def _header_lines(reader: asyncio.StreamReader) -> Pairs:
    found: Pairs = []
    while (line := await reader.readline()).strip():
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise BadRequest
        found.append((name.strip(), value.strip()))
    return found


def _number(text: str, base: int) -> int:
    if not text.isalnum():
        raise BadRequest
    try:
        return int(text, base)
    except ValueError:
        raise BadRequest from None


def _head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    known = {known.value for known in HTTPStatus}
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase if status in known else 'Unknown'}"]
    lines += [f"{name}: {_one_line(value)}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def _one_line(value: str) -> str:
    return value.replace("\r", " ").replace("\n", " ")


async def _write_whole(writer: asyncio.StreamWriter, method: str, response: Response, *, keep: bool) -> None:
    body = response.body if isinstance(response.body, bytes) else b""
    length = [] if response.status in NO_BODY else [("Content-Length", str(len(body)))]
    state = [("Connection", "keep-alive" if keep else "close")]
    sent = b"" if method == "HEAD" or response.status in NO_BODY else body
    writer.write(_head(response.status, [*response.headers, *length, *state]) + sent)
    await writer.drain()


async def _write_stream(
    writer: asyncio.StreamWriter, request: Request, response: Response, chunks: AsyncIterator[bytes]
) -> None:
    """Ends `chunks` when the other side hangs up, also while nothing is being sent."""
    headers = [*response.headers, ("Transfer-Encoding", "chunked"), ("Connection", "close")]
    writer.write(_head(response.status, headers))
    sending = asyncio.create_task(_send_chunks(writer, chunks))
    gone = asyncio.create_task(request.gone())
    try:
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            raise StreamBroken
        await sending
    finally:
        for task in (sending, gone):
            task.cancel()
        await asyncio.gather(sending, gone, return_exceptions=True)
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


async def _send_chunks(writer: asyncio.StreamWriter, chunks: AsyncIterator[bytes]) -> None:
    await writer.drain()
    async for chunk in chunks:
        if chunk:
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
