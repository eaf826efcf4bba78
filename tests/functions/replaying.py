"""Invoking a deployed function with an event, as API Gateway does: at once, or as a stream."""

import http.client
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from portico.aws.eventstream import Decoder

STREAMING = frozenset({"edge", "tools_call", "stream"})
MARK = b"\0" * 8


@dataclass
class Replayed:
    """`body` is JSON where it can be read as that, and so is the one event of a stream."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    fails: str | None = None
    """What the function failed with."""


def replay(process, function, event, *, endless=False):
    """The answer; of an endless stream its beginning, and then the caller hangs up."""
    name = "".join(word.title() for word in function.split("_")) + "Function"
    kind = "response-streaming-invocations" if function in STREAMING else "invocations"
    address = re.search(r"Lambda is at (\S+)", process.stderr())[1]
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    connection.request("POST", f"/2015-03-31/functions/{name}/{kind}", json.dumps(event))
    response = connection.getresponse()
    assert response.status == 200, response.read()
    try:
        if function in STREAMING:
            return _streamed(response, endless)
        answer = json.loads(response.read() or b"null")
        if response.headers.get("X-Amz-Function-Error"):
            return Replayed(fails=answer["errorMessage"])
        return _whole(answer)
    finally:
        connection.close()


def _whole(answer):
    if not isinstance(answer, dict) or "statusCode" not in answer:
        return Replayed(body=answer)
    several = answer.get("multiValueHeaders") or {}
    headers = (answer.get("headers") or {}) | {name: values[-1] for name, values in several.items()}
    assert answer["isBase64Encoded"] is False
    return Replayed(answer["statusCode"], _lower(headers), _read(answer.get("body") or ""))


def _streamed(response, endless):
    decoder, found = Decoder(), b""
    while not (endless and MARK in found) and (chunk := response.read1(65536)):
        for event in decoder.feed(chunk):
            if event.type == "PayloadChunk":
                found += event.payload
            else:
                assert json.loads(event.payload) == {}
    prelude, mark, body = found.partition(MARK)
    assert mark, found
    said = json.loads(prelude)
    return Replayed(said["statusCode"], _lower(said["headers"]), None if endless else _read(body.decode()))


def _lower(headers):
    return {name.lower(): value for name, value in headers.items()}


def _read(text):
    data = re.fullmatch(r"(?:event: message\r?\n)?data: ?(.*)\s+", text)
    try:
        return json.loads(data[1] if data else text)
    except ValueError:
        return text
