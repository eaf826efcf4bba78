"""Who asks what of AWS: a line for each (function, action, resource) that is seen, as IAM has the words."""

import asyncio
import http.client
import json
import re
import urllib.parse
from collections.abc import Iterable
from pathlib import Path

from emulator.wire import Handler, Pairs, Request, Response

# Every function signs with a key that is named after it.
KEY = re.compile(r"Credential=([^/]+)/")
HOP = {"connection", "transfer-encoding", "content-length", "host"}


class Recording:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: set[tuple[str, ...]] = set()
        file.touch()

    def invoking(self, handler: Handler) -> Handler:
        """Functions that call each other. A streamed answer takes the same right."""

        async def handle(request: Request) -> Response:
            name = urllib.parse.unquote(request.target).split("/functions/")[-1].split("/")[0]
            self._note(request, "lambda:InvokeFunction", [name])
            return await handler(request)

        return handle

    def database(self, endpoint: str) -> Handler:
        """What DynamoDB is asked, passed on to it."""
        where = urllib.parse.urlsplit(endpoint).netloc

        async def handle(request: Request) -> Response:
            body = await request.body() or b""
            operation = (request.header("X-Amz-Target") or "").rpartition(".")[2]
            self._note(request, f"dynamodb:{operation}", _tables(json.loads(body or b"{}")))
            return await asyncio.to_thread(_forwarded, where, request, body)

        return handle

    def _note(self, request: Request, action: str, resources: Iterable[str]) -> None:
        key = KEY.search(request.header("Authorization") or "")
        for resource in resources:
            line = (key[1] if key else "", action, resource)
            if line not in self._seen:
                self._seen.add(line)
                with self._file.open("a") as file:
                    file.write(" ".join(line) + "\n")


def _tables(asked: dict[str, object]) -> list[str]:
    batch = asked.get("RequestItems")
    return list(batch) if isinstance(batch, dict) else [str(asked.get("TableName"))]


def _forwarded(where: str, request: Request, body: bytes) -> Response:
    connection = http.client.HTTPConnection(where)
    try:
        connection.request(request.method, request.target, body, dict(_end_to_end(request.headers)))
        answer = connection.getresponse()
        return Response(answer.status, _end_to_end(answer.getheaders()), answer.read())
    finally:
        connection.close()


def _end_to_end(headers: Pairs) -> Pairs:
    return [(name, value) for name, value in headers if name.lower() not in HOP]
