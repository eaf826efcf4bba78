"""A modern client's request at a modern backend: relayed with nothing kept, its name put right in body and header."""

from collections.abc import AsyncIterator, Callable

from portico.backends.remote import RemoteBackend
from portico.errors import EraChanged
from portico.http1 import Exchange, Headers
from portico.protocol import jsonrpc, modern
from portico.protocol.inbound import accepts
from portico.protocol.jsonrpc import Message
from portico.registry import Limits
from portico.relay import AnswerStream, check_answer, head, last_answer, refuse_other_than_200, whole
from portico.replies import Reply
from portico.requests import ModernRequest


class ModernRelay:
    def __init__(self, limits: Callable[[], Limits]) -> None:
        self._limits = limits

    async def carry(
        self, backend: RemoteBackend, body: bytes, upstream_name: str, request: ModernRequest, sent: Headers
    ) -> Reply:
        headers = [*sent, *mirrored(request.message.method, upstream_name)]
        headers += [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in request.headers.items()
            if name.startswith(modern.PARAM_HEADER)
        ]
        exchange = await backend.post(backend.modern, body, headers)
        try:
            await head(exchange, self._limits().call_timeout_s)
            if exchange.status != 200:
                return await refused(exchange, request.message)
            answer = await whole(exchange, self._limits())
        except BaseException:
            exchange.close()
            raise
        if answer is not None:
            check_answer(answer, request.message.id)
            return Reply(200, answer)
        stream = AnswerStream(exchange, backend.name, request.message.id, self._limits())
        return await streamed(stream.frames(), request)


async def streamed(frames: AsyncIterator[bytes], request: ModernRequest) -> Reply:
    if accepts(request.headers, "text/event-stream"):
        return Reply(200, frames=frames)
    return Reply(200, await last_answer(frames, request.message.id))


def mirrored(method: str, name: str) -> Headers:
    """The headers that repeat a request's method and name."""
    headers = [(b"mcp-method", method.encode())]
    if method in modern.NAMED:
        headers.append((b"mcp-name", modern.encode_value(name).encode()))
    return headers


async def refused(exchange: Exchange, message: Message) -> Reply:
    """A modern server's error goes on as it is, HTTP status and all. Anything else is no modern server's."""
    if exchange.status in (400, 404):
        body = await exchange.body(65536, 10)
        answer = jsonrpc.read_bytes(body)
        exchange.close()
        if isinstance(answer, Message) and "error" in answer.top and answer.id == message.id:
            return Reply(exchange.status, body)
        raise EraChanged(exchange.status, f"the backend answered {exchange.status}")
    await refuse_other_than_200(exchange)
    raise AssertionError("200 is no refusal")
