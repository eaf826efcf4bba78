"""One backend's answer to one client: whole, or as a stream that is kept alive in silence and always has an end."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

from portico.errors import BackendBroken, BackendError, BackendRefused, BackendTimedOut, refused
from portico.http1 import Exchange
from portico.protocol import jsonrpc, sse
from portico.protocol.jsonrpc import Id, Member, Message
from portico.protocol.tickets import Cursor, Ticket, issue_ticket
from portico.registry import Limits


def readdress(data: bytes, session_id: str, backend: str, expires_at: float) -> tuple[bytes, Message | None]:
    """A backend's message as the client may see it: a request gets a ticket as its id (and as its progress token).

    The message as it was read; None where it cannot be.
    """
    message = jsonrpc.read_bytes(data)
    if not isinstance(message, Message) or message.kind != "request":
        return data, message if isinstance(message, Message) else None
    text = message.text
    try:
        token = _progress_token(message)
    except jsonrpc.Malformed:
        return data, None
    if token is not None:
        ticket = issue_ticket(session_id, Ticket(backend, token.value), expires_at)
        text = text[: token.start] + json.dumps(ticket) + text[token.end :]
        reread = jsonrpc.read(text)
        assert isinstance(reread, Message)  # noqa: S101 - one string was put in place of another value
        message = reread
    ticket = issue_ticket(session_id, Ticket(backend, message.id), expires_at)
    return message.splice(message.top["id"], ticket).encode(), message


def _progress_token(message: Message) -> Member | None:
    meta = message.params.get("_meta")
    if meta is None or not isinstance(meta.value, dict) or "progressToken" not in meta.value:
        return None
    return jsonrpc.members(message.text, meta.start)[0]["progressToken"]


def one_line(data: bytes) -> bytes:
    """Data that came in several lines, as one: JSON may be broken between tokens only."""
    return data.replace(b"\n", b" ") if b"\n" in data else data


class AnswerStream:
    """The frames of one call's answer, as they go to a client of the same era."""

    def __init__(self, exchange: Exchange, backend: str, request_id: Id, limits: Limits) -> None:
        self._exchange = exchange
        self._backend = backend
        self._request_id = request_id
        self._limits = limits
        self._decoder = sse.Decoder(limits.response_bytes)
        self._allowed = limits.call_timeout_s
        self.answered = False
        self.resumable = False

    async def frames(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._relay():
                yield piece
        except (BackendError, sse.FrameTooLarge) as error:
            failure = error if isinstance(error, BackendError) else BackendBroken(str(error))
            if not self.answered:
                yield sse.encode(jsonrpc.error(failure.rejection(self._backend, self._request_id)))
        finally:
            self._exchange.close()

    async def _relay(self) -> AsyncIterator[bytes]:
        silent = 0.0
        while True:
            patience = min(self._limits.keepalive_s, self._allowed - silent)
            chunk = await self._exchange.chunk(patience)
            if chunk is None:
                silent += patience
                if silent >= self._allowed:
                    raise BackendTimedOut(f"the backend has been silent for {self._allowed:g} s")
                yield sse.KEEP_ALIVE
                continue
            silent = 0.0
            if not chunk:
                break
            pieces = []
            for frame in self._decoder.feed(chunk):
                pieces.append(self._frame(frame))
                if self.answered:
                    break
            if pieces:
                yield b"".join(pieces)
            if self.answered:
                return
        if not self.answered and not self.resumable:
            raise BackendBroken("the backend ended its stream without an answer")

    def _frame(self, frame: sse.Frame) -> bytes:
        if not frame.data:
            return b""
        data = one_line(frame.data)
        message = jsonrpc.read_bytes(data)
        self._seen(message)
        if isinstance(message, Message) and message.kind != "notification" and not self.answered:
            raise BackendBroken("the backend sent what a modern server does not send")
        return sse.encode(data)

    def _seen(self, message: Any) -> None:
        if not isinstance(message, Message):
            raise BackendBroken("the backend sent an event that is not JSON-RPC")
        if message.kind == "response" and message.id == self._request_id:
            self.answered = True


class LegacyAnswerStream(AnswerStream):
    """With the backend's own requests among the frames, and with event ids to come back by."""

    def __init__(
        self, exchange: Exchange, backend: str, session_id: str, request_id: Id, limits: Limits
    ) -> None:
        super().__init__(exchange, backend, request_id, limits)
        self._session_id = session_id

    def _frame(self, frame: sse.Frame) -> bytes:
        cursor = None
        if frame.id is not None:
            self.resumable = True
            cursor = Cursor(backend=self._backend, event=frame.id).encode()
        if not frame.data:
            return sse.encode(b"", cursor, frame.retry)
        patience_s = self._limits.answer_ttl_s
        data, message = readdress(
            one_line(frame.data), self._session_id, self._backend, time.time() + patience_s
        )
        self._seen(message)
        asked = message is not None and message.kind == "request"
        self._allowed = patience_s if asked else self._limits.call_timeout_s
        return sse.encode(data, cursor, frame.retry)


async def head(exchange: Exchange, seconds: float) -> None:
    if not await exchange.head(seconds):
        raise BackendTimedOut(f"the backend did not answer within {seconds:g} s")


async def refuse_other_than_200(exchange: Exchange) -> None:
    if exchange.status != 200:
        body = await exchange.body(65536, 10)
        exchange.close()
        raise refused(exchange.status, body, exchange.challenge)


async def forgotten(exchange: Exchange) -> bool:
    """Whether the backend has forgotten the upstream session: 404, or a 400 that says so."""
    if exchange.status not in (404, 400):
        return False
    text = await exchange.body(65536, 10)
    exchange.close()
    if exchange.status == 404 or b"session" in text.lower():
        return True
    raise refused(400, text)


async def whole(exchange: Exchange, limits: Limits) -> bytes | None:
    """The body of a JSON answer; None where it comes as a stream."""
    kind = exchange.content_type
    if kind == b"application/json":
        body = await exchange.body(limits.response_bytes, limits.call_timeout_s)
        exchange.close()
        return body
    if not exchange.is_stream:
        exchange.close()
        shown = kind.decode("latin-1") or "no content type"
        raise BackendRefused(502, f"the backend answered with {shown}")
    return None


async def last_answer(frames: AsyncIterator[bytes], request_id: Id) -> bytes:
    """For a client that takes only JSON: the answer, without what came before it."""
    decoder, found = sse.Decoder(1 << 30), b""
    async for piece in frames:
        for frame in decoder.feed(piece):
            read = jsonrpc.read_bytes(frame.data) if frame.data else None
            if isinstance(read, Message) and read.kind == "response" and read.id == request_id:
                found = frame.data
    if not found:
        raise BackendBroken("the backend ended its stream without an answer")
    return found


def check_answer(body: bytes, request_id: Any) -> None:
    """Whether a JSON answer is one to this request. What is too large to look into is taken at its word."""
    if len(body) > 262144:
        if body[:1] != b"{" or body.rstrip()[-1:] != b"}":
            raise BackendBroken("the backend's answer is not JSON")
        return
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise BackendBroken("the backend's answer is not JSON") from None
    if (
        not isinstance(message, dict)
        or message.get("id") != request_id
        or not message.keys() & {"result", "error"}
    ):
        raise BackendBroken("the backend's answer is not an answer to this request")
