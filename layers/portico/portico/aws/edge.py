"""POST /mcp on AWS: API Gateway cannot route on a body, so the edge does, and hands over by Lambda invoke.

Imports neither the gateway nor boto3: this function is the one that everybody waits for.
"""

import base64
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from portico.aws.events import header
from portico.aws.eventstream import BrokenStream, Decoder
from portico.client import Receive, Scope, Send
from portico.errors import BackendError
from portico.http1 import Exchange, HttpClient
from portico.protocol.jsonrpc import INTERNAL_ERROR, Rejection, error
from portico.redaction import excerpt
from portico.settings import Dispatch
from portico.signing import Credentials, credentials_from, signed

LISTED: Final = frozenset({"tools/list", "prompts/list", "resources/list", "resources/templates/list"})
BEGUN: Final = frozenset({"initialize", "server/discover", "ping", "logging/setLevel"})
WAIT_S: Final = 900.0
MARK: Final = b"\0" * 8
THROTTLED: Final = 429

FAILED: Final = Rejection(502, INTERNAL_ERROR, "Internal error", "the gateway failed; see its log")
BUSY: Final = Rejection(503, INTERNAL_ERROR, "Internal error", "too much is asked at once; try again")

log = logging.getLogger("portico.edge")


class HandedOverFailed(Exception):
    """The other function did not answer as it should; the message is for the log."""


def chosen(event: dict[str, Any]) -> str:
    """Which of the three functions a request is for: by its header, or by a look into its body."""
    method = header(event, "mcp-method") or _method(event)
    if method in LISTED:
        return "tools_list"
    return "initialize" if method in BEGUN else "tools_call"


def _method(event: dict[str, Any]) -> str:
    body = event.get("body") or ""
    try:
        message = json.loads(base64.b64decode(body) if event.get("isBase64Encoded") else body)
    except (ValueError, RecursionError):
        return ""
    method = message.get("method") if isinstance(message, dict) else None
    return method if isinstance(method, str) else ""


class Throttled(HandedOverFailed):
    """As many run already as may: another attempt may find room."""


class Lambda:
    """The part of Lambda's API that hands over."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._http = HttpClient()
        region = environment.get("AWS_REGION", "us-east-1")
        self._region = region
        self._base = environment.get("AWS_ENDPOINT_URL_LAMBDA") or f"https://lambda.{region}.amazonaws.com"

    async def invoke(self, function: str, event: dict[str, Any]) -> dict[str, Any]:
        exchange = await self._open(f"/2015-03-31/functions/{quote(function, safe='')}/invocations", event)
        body = await exchange.body(1 << 24, WAIT_S)
        exchange.close()
        answer = json.loads(body)
        if b"x-amz-function-error" in exchange.headers or "statusCode" not in answer:
            raise HandedOverFailed(f"{function} failed: {excerpt(body)}")
        found: dict[str, Any] = answer
        return found

    async def stream(self, function: str, event: dict[str, Any]) -> AsyncIterator[bytes]:
        path = f"/2021-11-15/functions/{quote(function, safe='')}/response-streaming-invocations"
        exchange = await self._open(path, event)
        decoder = Decoder()
        try:
            while chunk := await exchange.chunk(WAIT_S):
                for part in decoder.feed(chunk):
                    if part.type == "PayloadChunk":
                        yield part.payload
                    elif part.type != "InvokeComplete" or b"ErrorCode" in part.payload:
                        raise HandedOverFailed(f"{function} failed: {excerpt(part.payload)}")
        finally:
            exchange.close()

    async def _open(self, path: str, event: dict[str, Any]) -> Exchange:
        body = json.dumps(event, ensure_ascii=False).encode(
            "utf-8", "replace"
        )  # an event has 6 MB at the most
        credentials = credentials_from(self._environment) or Credentials("", "")
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        host = urlsplit(self._base).netloc
        headers = signed(credentials, "lambda", self._region, host, path, body, stamp)
        lines = [(name.encode(), value.encode()) for name, value in headers.items() if name != "host"]
        exchange = await self._http.open(b"POST", self._base + path, lines, body)
        if not await exchange.head(WAIT_S) or exchange.status != 200:
            text = excerpt(await exchange.body(65536, 10)) if exchange.status else ""
            exchange.close()
            kind = Throttled if exchange.status == THROTTLED else HandedOverFailed
            raise kind(f"Lambda answered {exchange.status}: {text}")
        return exchange


class Edge:
    def __init__(self, dispatch: Dispatch, environment: Mapping[str, str] = os.environ) -> None:
        self._dispatch = dispatch
        self._lambda = Lambda(environment)
        # `sam local` cannot stream: there the layer for streaming answers as any other function does.
        self._streams = not environment.get("AWS_SAM_LOCAL")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - Lambda never tells that the client is gone
        event = scope["aws.event"]
        name = chosen(event)
        function: str = getattr(self._dispatch, name)
        begun = False
        try:
            if name != "tools_call" or not self._streams:
                await _reply(await self._lambda.invoke(function, event), send)
                return
            async for message in _messages(self._lambda.stream(function, event)):
                begun = True
                await send(message)
        except (BackendError, HandedOverFailed, BrokenStream, ValueError) as failure:
            log.exception("handing over to %s failed", name)
            if begun:
                raise
            await _refuse(send, BUSY if isinstance(failure, Throttled) else FAILED)


async def _messages(pieces: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """A streamed function's answer as ASGI messages: a prelude, eight NUL bytes, then the body as it comes."""
    held = b""
    async for piece in pieces:
        held += piece
        if MARK in held:
            break
    head, found, rest = held.partition(MARK)
    if not found:
        raise HandedOverFailed("the function answered without a prelude")
    prelude = json.loads(head)
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in prelude["headers"].items()]
    yield {"type": "http.response.start", "status": prelude["statusCode"], "headers": headers}
    if rest:
        yield {"type": "http.response.body", "body": rest, "more_body": True}
    async for piece in pieces:
        yield {"type": "http.response.body", "body": piece, "more_body": True}
    yield {"type": "http.response.body", "body": b""}


async def _reply(answer: dict[str, Any], send: Send) -> None:
    several = answer.get("multiValueHeaders") or {}
    headers = {name: [value] for name, value in (answer.get("headers") or {}).items()} | several
    lines = [
        (name.lower().encode(), str(v).encode("latin-1")) for name, values in headers.items() for v in values
    ]
    body = (answer.get("body") or "").encode()
    await send({"type": "http.response.start", "status": answer["statusCode"], "headers": lines})
    await send({"type": "http.response.body", "body": body})


async def _refuse(send: Send, rejection: Rejection) -> None:
    body = error(rejection)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": rejection.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
