"""From a function's answer to HTTP: the proxy response, its renamed headers, and the prelude of a stream."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncGenerator
from typing import Any

from emulator.outcomes import Failed, Payload, Stream
from emulator.wire import Pairs, Response, StreamBroken

REMAPPED = {
    "authorization",
    "connection",
    "content-length",
    "content-md5",
    "date",
    "expect",
    "host",
    "max-forwards",
    "proxy-authenticate",
    "server",
    "te",
    "trailer",
    "upgrade",
    "user-agent",
    "www-authenticate",
}
DROPPED = {"transfer-encoding"}
END_OF_PRELUDE = b"\0" * 8
PRELUDE_LIMIT = 16 * 2**10
IDLE_S = 300.0
KNOWN = {"statusCode", "headers", "multiValueHeaders", "body", "isBase64Encoded"}


def buffered(payload: Payload, *, decode: bool) -> Response | None:
    """None for what is no proxy response: 502. `decode`: whether a base64 body may be sent as bytes."""
    if payload.error:
        return None
    try:
        answer = json.loads(payload.data)
    except ValueError:
        return None
    if not isinstance(answer, dict) or answer.keys() - KNOWN or "statusCode" not in answer:
        return None
    body = answer.get("body")
    head = _head(answer)
    if head is None or not isinstance(body, str | None):
        return None
    data = (body or "").encode()
    if answer.get("isBase64Encoded") and decode:
        data = base64.b64decode(data)
    return Response(head.status, head.headers, data)


async def streamed(stream: Stream, seconds: float) -> Response | None:
    """The answer to a route that streams, as soon as its prelude is there; None if that is none: 502.

    After that many seconds, or a long silence, it breaks off.
    """
    until = time.monotonic() + seconds
    chunks = stream.read()
    start = b""
    try:
        async for chunk in chunks:
            start += chunk
            if END_OF_PRELUDE in start or len(start) > PRELUDE_LIMIT:
                break
    except Failed:
        return None
    prelude, end, rest = start.partition(END_OF_PRELUDE)
    head = _read_prelude(prelude) if end else None
    if head is None:
        await chunks.aclose()
        return None
    return Response(head.status, head.headers, _body(rest, chunks, until))


async def _body(rest: bytes, chunks: AsyncGenerator[bytes, None], until: float) -> AsyncGenerator[bytes]:
    try:
        yield rest
        while True:
            limit = min(until - time.monotonic(), IDLE_S)
            yield await asyncio.wait_for(anext(chunks), limit)
    except StopAsyncIteration:
        return
    except (Failed, TimeoutError) as error:
        raise StreamBroken from error
    finally:
        await chunks.aclose()


def _read_prelude(prelude: bytes) -> Response | None:
    try:
        answer = json.loads(prelude)
    except ValueError:
        return None
    return _head(answer) if isinstance(answer, dict) else None


def _head(answer: dict[str, Any]) -> Response | None:
    try:
        status = int(answer.get("statusCode", 200))
        headers = _headers(answer)
    except (ValueError, TypeError, AttributeError):
        return None
    return Response(status, headers) if 100 <= status <= 599 else None


def _headers(answer: dict[str, Any]) -> Pairs:
    """Of a name that is in both, multiValueHeaders' values go first, as API Gateway merges them."""
    pairs = [
        (name, str(v)) for name, values in (answer.get("multiValueHeaders") or {}).items() for v in values
    ]
    for name, value in (answer.get("headers") or {}).items():
        if value is not None and (name.lower(), str(value)) not in {(k.lower(), v) for k, v in pairs}:
            pairs.append((name, _text(value)))
    pairs += [("Set-Cookie", str(cookie)) for cookie in answer.get("cookies") or []]
    kept = [(_renamed(name), value) for name, value in pairs if name.lower() not in DROPPED]
    typed = any(name.lower() == "content-type" for name, _ in kept)
    return kept if typed else [("Content-Type", "application/json"), *kept]


def _renamed(name: str) -> str:
    return f"x-amzn-Remapped-{name}" if name.lower() in REMAPPED else name


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
