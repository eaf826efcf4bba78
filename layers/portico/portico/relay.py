"""One backend's stream of frames to one client: ids made unique, silence kept alive, an end always said."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from portico.errors import BackendBroken, BackendError, BackendTimedOut
from portico.http1 import Exchange
from portico.protocol import jsonrpc, sse
from portico.protocol.jsonrpc import Id, Member, Message
from portico.protocol.tickets import Cursor, Ticket, issue_ticket


def readdress(data: bytes, session_id: str, backend: str, expires_at: float) -> tuple[bytes, Message | None]:
    """A backend's message as the client may see it: a request gets a ticket as its id (and as its progress token)."""
    message = jsonrpc.read(data.decode("utf-8", "replace"))
    if not isinstance(message, Message) or message.kind != "request":
        return data, message if isinstance(message, Message) else None
    text = message.text
    token = _progress_token(message)
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


class CallStream:
    """The frames of one call's answer, as they go to the client."""

    def __init__(
        self,
        exchange: Exchange,
        backend: str,
        session_id: str,
        request_id: Id,
        *,
        limit: int,
        keepalive_s: float,
        timeout_s: float,
        patience_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._exchange = exchange
        self._backend = backend
        self._session_id = session_id
        self._request_id = request_id
        self._decoder = sse.Decoder(limit)
        self._keepalive_s = keepalive_s
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._clock = clock
        self._allowed = timeout_s
        self.answered = False
        self.resumable = False

    async def frames(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._relay():
                yield piece
        except (BackendError, sse.FrameTooLarge) as error:
            failure = error if isinstance(error, BackendError) else BackendBroken(str(error))
            if not self.answered:
                self.answered = isinstance(failure, BackendTimedOut) and self.answered
                yield sse.encode(jsonrpc.error(failure.rejection(self._backend, self._request_id)))
        finally:
            self._exchange.close()

    async def _relay(self) -> AsyncIterator[bytes]:
        silent = 0.0
        while True:
            patience = min(self._keepalive_s, self._allowed - silent)
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
        cursor = None
        if frame.id is not None:
            self.resumable = True
            cursor = Cursor(backend=self._backend, event=frame.id).encode()
        if not frame.data:
            return sse.encode(b"", cursor, frame.retry)
        data = one_line(frame.data)
        data, message = readdress(data, self._session_id, self._backend, self._clock() + self._patience_s)
        if message is None:
            raise BackendBroken("the backend sent an event that is not JSON-RPC")
        self._allowed = self._patience_s if message.kind == "request" else self._timeout_s
        if message.kind == "response" and message.id == self._request_id:
            self.answered = True
        return sse.encode(data, cursor, frame.retry)


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
