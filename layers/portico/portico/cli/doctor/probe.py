"""The one part that talks: requests in both eras over `portico.http1`, answers as values."""

import asyncio
import json
import socket
import time
from typing import Any, Final

from portico.cli.doctor.finding import Answer, Heard
from portico.errors import BackendError, BackendUnreachable
from portico.http1 import Exchange, Headers, HttpClient
from portico.protocol import jsonrpc, sse, versions
from portico.protocol.modern import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    METHOD_HEADER,
    NAME_HEADER,
    NAMED,
    VERSION_HEADER,
    VERSION_KEY,
    encode_value,
)

ABOUT: Final = {"name": "portico doctor", "version": "1"}
ANSWER_S: Final = 30.0
LARGEST: Final = 64 << 20


class Probe:
    """Says the token to the given URL only, never to an address that an answer names."""

    def __init__(self, url: str, token: str | None, wait: float) -> None:
        self._url = url
        self._authorization = [(b"authorization", f"Bearer {token}".encode())] if token else []
        self._wait = wait
        self._http = HttpClient()
        self._ids = 0
        self.answers: list[Answer] = []
        """Those of the URL."""

    def close(self) -> None:
        self._http.close()

    def anew(self) -> None:
        """What follows goes over a new connection."""
        self._http.close()
        self._http = HttpClient()

    async def get(self, url: str) -> Answer:
        """A document that is there for everybody."""
        return await self._read(b"GET", url, [(b"accept", b"application/json")], b"", None)

    async def initialize(self, *, token: bool = True, origin: str = "", forged: str = "") -> Answer:
        params = {"protocolVersion": versions.NEWEST_LEGACY, "capabilities": {}, "clientInfo": ABOUT}
        more = [(b"origin", origin.encode())] if origin else []
        more += [(b"authorization", f"Bearer {forged}".encode())] if forged else []
        return await self._post("initialize", params, more, token=token)

    async def legacy(self, session: str, method: str, params: dict[str, Any] | None = None) -> Answer:
        return await self._post(method, params or {}, _session(session))

    async def initialized(self, session: str) -> None:
        body = jsonrpc.notification("notifications/initialized")
        await self._read(b"POST", self._url, self._headers(_session(session)), body, None)

    async def modern(self, method: str, params: dict[str, Any] | None = None, *, said: str = "") -> Answer:
        """`said`: the method in the header, if not the body's."""
        params = _enveloped(params)
        return await self._post(method, params, _mirrored(method, params, said))

    async def delete(self, session: str) -> Answer:
        return await self._read(b"DELETE", self._url, self._headers(_session(session)), b"", None)

    async def listen(self, session: str) -> Heard:
        accept = [(b"accept", b"text/event-stream")]
        return await self._hear(b"GET", [*self._authorization, *_session(session), *accept], b"")

    async def subscribe(self) -> Heard:
        method, params = "subscriptions/listen", _enveloped({"notifications": {"toolsListChanged": True}})
        self._ids += 1
        headers = self._headers(_mirrored(method, params, ""))
        return await self._hear(b"POST", headers, jsonrpc.request(self._ids, method, params))

    def _headers(self, more: Headers, *, token: bool = True) -> Headers:
        return [
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
            *(self._authorization if token else []),
            *more,
        ]

    async def _post(
        self, method: str, params: dict[str, Any], more: Headers, *, token: bool = True
    ) -> Answer:
        self._ids += 1
        body = jsonrpc.request(self._ids, method, params)
        answer = await self._read(b"POST", self._url, self._headers(more, token=token), body, self._ids)
        self.answers.append(answer)
        return answer

    async def _read(self, verb: bytes, url: str, headers: Headers, body: bytes, id_: int | None) -> Answer:
        began = time.monotonic()
        exchange = None
        try:
            exchange = await self._http.open(verb, url, headers, body)
            if not await exchange.head(ANSWER_S):
                return Answer(failure=f"no answer in {ANSWER_S:.0f} s")
            told = b"" if exchange.is_stream else await exchange.body(LARGEST, ANSWER_S)
            message = await _streamed(exchange, id_) if exchange.is_stream else _json(told)
        except (BackendError, ValueError) as error:
            return Answer(failure=_told(error), cause=_cause(error))
        finally:
            if exchange is not None:
                exchange.close()
        return Answer(exchange.status, _text(exchange), told, message, time.monotonic() - began)

    async def _hear(self, verb: bytes, headers: Headers, body: bytes) -> Heard:
        """Until two pieces came, the stream ended, or the time is up."""
        began = time.monotonic()
        pieces: list[tuple[float, bytes]] = []
        answer, ended = Answer(), False
        http = HttpClient()
        try:
            exchange = await http.open(verb, self._url, headers, body)
            if await exchange.head(self._wait):
                answer = Answer(exchange.status, _text(exchange), seconds=time.monotonic() - began)
                ended = await _pieces(exchange, began, self._wait, pieces)
            if answer.status and not exchange.is_stream:
                told = b"".join(piece for _, piece in pieces)
                answer = Answer(answer.status, answer.headers, told, _json(told), answer.seconds)
            exchange.close()
        except BackendError as error:
            ended = True
            answer = answer if answer.status else Answer(failure=_told(error))
        finally:
            http.close()
        return Heard(answer, tuple(pieces), ended, time.monotonic() - began)


async def resolve(host: str, port: int) -> tuple[list[str], str]:
    """A name's addresses, or why there are none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return [], (getattr(error, "strerror", None) or str(error)).lower()
    return list(dict.fromkeys(str(place[4][0]) for place in found)), ""


def _cause(error: Exception) -> BaseException | None:
    return (error.__context__ or error) if isinstance(error, BackendUnreachable) else None


def _told(error: Exception) -> str:
    """`http1` speaks of backends, which is what a gateway is to it here."""
    return str(error).replace("the backend", "the server")


async def _pieces(exchange: Exchange, began: float, wait: float, pieces: list[tuple[float, bytes]]) -> bool:
    """Whether the stream ended."""
    while len(pieces) < 2:
        left = began + wait - time.monotonic()
        piece = await exchange.chunk(left) if left > 0 else None
        if piece is None:
            return False
        if not piece:
            return True
        pieces.append((time.monotonic() - began, piece))
    return False


async def _streamed(exchange: Exchange, id_: int | None) -> Any:
    """The message that answers the request, of those on its stream."""
    decoder = sse.Decoder(LARGEST)
    while chunk := await exchange.chunk(ANSWER_S):
        for frame in decoder.feed(chunk):
            message = _json(frame.data)
            if isinstance(message, dict) and message.get("id") == id_ and "method" not in message:
                return message
    return None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _text(exchange: Exchange) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.headers.items()}


def _session(session: str) -> Headers:
    version = (VERSION_HEADER.encode(), versions.NEWEST_LEGACY.encode())
    return [version, (b"mcp-session-id", session.encode())] if session else [version]


def _enveloped(params: dict[str, Any] | None) -> dict[str, Any]:
    meta = {VERSION_KEY: versions.NEWEST_MODERN, CLIENT_KEY: ABOUT, CAPABILITIES_KEY: {}}
    return {**(params or {}), "_meta": meta}


def _mirrored(method: str, params: dict[str, Any], said: str) -> Headers:
    headers = {VERSION_HEADER: versions.NEWEST_MODERN, METHOD_HEADER: said or method}
    if method in NAMED:
        headers[NAME_HEADER] = encode_value(str(params[NAMED[method]]))
    return [(name.encode(), value.encode()) for name, value in headers.items()]
