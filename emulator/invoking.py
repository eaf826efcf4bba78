"""Lambda's own API, as far as functions call each other: Invoke and InvokeWithResponseStream."""

import asyncio
import json
import re
import struct
import urllib.parse
import uuid
import zlib
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from emulator.functions import Functions
from emulator.outcomes import PAYLOAD_LIMIT, Failed, Outcome, Payload, Stream
from emulator.wire import Request, Response

PATH = re.compile(r"/20[0-9-]+/functions/([^/]+)/(invocations|response-streaming-invocations)")


class Invoking:
    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._unwatched: set[asyncio.Task[Outcome]] = set()

    async def handle(self, request: Request) -> Response:
        event = await request.body(PAYLOAD_LIMIT)
        path = urllib.parse.unquote(urllib.parse.urlsplit(request.target).path)
        found = PATH.fullmatch(path)
        name = _name(found[1]) if found else ""
        if found is None or request.method != "POST" or name not in self._functions:
            return _error(404, "ResourceNotFoundException", f"Function not found: {name or path}")
        if event is None:
            message = f"Request must be smaller than {PAYLOAD_LIMIT} bytes for the InvokeFunction operation"
            return _error(413, "RequestTooLargeException", message)
        if not _is_json(event):
            return _error(400, "InvalidRequestContentException", "Could not parse request body into json")
        work = self._functions.invoke(name, event or b"{}")
        if found[2] == "invocations":
            return await self._plain(request.header("X-Amz-Invocation-Type"), work)
        return _streaming(await work)

    async def _plain(self, kind: str | None, work: Coroutine[Any, Any, Outcome]) -> Response:
        if kind == "DryRun":
            work.close()
            return _response(204, {}, b"")
        if kind == "Event":
            task = asyncio.create_task(work)
            self._unwatched.add(task)
            task.add_done_callback(self._unwatched.discard)
            return _response(202, {}, b"")
        outcome = await work
        payload = await outcome.whole() if isinstance(outcome, Stream) else outcome
        failed = {"X-Amz-Function-Error": "Unhandled"} if payload.error else {}
        return _response(200, failed, payload.data)


def _name(said: str) -> str:
    """From a name, an ARN or a part of one, with or without a qualifier."""
    parts = said.split(":")
    return parts[parts.index("function") + 1] if "function" in parts[:-1] else parts[0]


def _is_json(event: bytes) -> bool:
    try:
        json.loads(event or b"{}")
    except ValueError:
        return False
    return True


def _response(status: int, headers: dict[str, str], body: bytes) -> Response:
    usual = {"Content-Type": "application/json", "x-amzn-RequestId": str(uuid.uuid4())}
    return Response(status, [*usual.items(), ("X-Amz-Executed-Version", "$LATEST"), *headers.items()], body)


def _error(status: int, kind: str, message: str) -> Response:
    body = json.dumps({"Type": "User", "Message": message, "message": message}).encode()
    return _response(status, {"x-amzn-ErrorType": kind}, body)


def _streaming(outcome: Outcome) -> Response:
    headers = [("Content-Type", "application/vnd.amazon.eventstream"), ("X-Amz-Executed-Version", "$LATEST")]
    return Response(200, headers, _frames(outcome))


async def _frames(outcome: Outcome) -> AsyncGenerator[bytes, None]:
    error: dict[str, str] = {}
    if isinstance(outcome, Payload):
        if outcome.error:
            error = {"ErrorCode": outcome.error, "ErrorDetails": outcome.data.decode(errors="replace")}
        else:
            yield frame("PayloadChunk", "application/octet-stream", outcome.data)
    else:
        chunks = outcome.read()
        try:
            async for chunk in chunks:
                yield frame("PayloadChunk", "application/octet-stream", chunk)
        except Failed as failed:
            error = {"ErrorCode": str(failed), "ErrorDetails": str(failed)}
        finally:
            await chunks.aclose()
    yield frame("InvokeComplete", "application/json", json.dumps(error).encode())


def frame(event_type: str, content_type: str, payload: bytes) -> bytes:
    """One message of application/vnd.amazon.eventstream."""
    named = {":event-type": event_type, ":content-type": content_type, ":message-type": "event"}
    headers = b"".join(
        struct.pack(f"!B{len(name)}sBH", len(name), name.encode(), 7, len(value)) + value.encode()
        for name, value in named.items()
    )
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack("!I", zlib.crc32(message))
