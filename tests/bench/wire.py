"""The load generator's HTTP/1.1 client: one keep-alive connection, one request at a time."""

import asyncio
from dataclasses import dataclass, field

import httptools

TIMEOUT_S = 60.0


@dataclass
class Answer:
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiter: asyncio.Future[Answer] | None = None
        self.open = False

    @classmethod
    async def connect(cls, host: str, port: int) -> "Connection":
        _, connection = await asyncio.get_running_loop().create_connection(cls, host, port)
        return connection

    async def request(self, raw: bytes) -> Answer:
        """Raises ConnectionResetError if the server closed first, TimeoutError if it kept silent."""
        if not self.open:
            raise ConnectionResetError("connection already closed")
        self.parser = httptools.HttpResponseParser(self)
        self.answer = Answer()
        self.chunks: list[bytes] = []
        self.waiter = self.loop.create_future()
        expiry = self.loop.call_later(TIMEOUT_S, self.fail, TimeoutError(f"no answer in {TIMEOUT_S:.0f} s"))
        self.transport.write(raw)
        try:
            return await self.waiter
        finally:
            expiry.cancel()

    def close(self) -> None:
        if self.open:
            self.open = False
            self.transport.close()

    def fail(self, error: Exception) -> None:
        self.close()
        if self.waiter and not self.waiter.done():
            self.waiter.set_exception(error)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.open = transport, True

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self.fail(ConnectionResetError("connection closed by the server"))

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.fail(ConnectionAbortedError(f"not HTTP: {error}"))

    # httptools.HttpResponseParser

    def on_header(self, name: bytes, value: bytes) -> None:
        self.answer.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self.chunks.append(body)

    def on_message_complete(self) -> None:
        self.answer.status = self.parser.get_status_code()
        self.answer.body = b"".join(self.chunks)
        if not self.parser.should_keep_alive():
            self.close()
        if self.waiter and not self.waiter.done():
            self.waiter.set_result(self.answer)
