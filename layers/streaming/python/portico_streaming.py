"""Response streaming for an ASGI application on Lambda's managed Python runtime, which has none itself.

Runs in place of the managed loop (AWS_LAMBDA_EXEC_WRAPPER) and speaks the Runtime API: the answer is a chunked POST, a
JSON prelude and eight NUL bytes before the body. Standard library only: it is imported before anything else.

An application may have a `linger` coroutine function: it is awaited after each answer, before the next request is
asked for, and so keeps what must go on alive; but not beyond the function's own time.
"""

import asyncio
import base64
import contextlib
import http.client
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import urlencode

RUNTIME: Final = "/2018-06-01/runtime"
STREAMED: Final = "application/vnd.awslambda.http-integration-response"
FAILED: Final = "Lambda-Runtime-Function-Error-Type"
SPARE_S: Final = 5.0
"""Before the function's time is over: to be killed is a failure of it, and the next request would start cold."""

Event = dict[str, Any]
Message = MutableMapping[str, Any]
Application = Callable[..., Awaitable[None]]


class Context:
    """What the managed runtime tells a handler of its invocation, under the same names."""

    def __init__(self, headers: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> None:
        self.aws_request_id = headers.get("Lambda-Runtime-Aws-Request-Id", "")
        self.invoked_function_arn = headers.get("Lambda-Runtime-Invoked-Function-Arn", "")
        self.function_name = environment.get("AWS_LAMBDA_FUNCTION_NAME", "")
        self.function_version = environment.get("AWS_LAMBDA_FUNCTION_VERSION", "")
        self.memory_limit_in_mb = environment.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
        self.log_group_name = environment.get("AWS_LAMBDA_LOG_GROUP_NAME", "")
        self.log_stream_name = environment.get("AWS_LAMBDA_LOG_STREAM_NAME", "")
        self._deadline_ms = int(headers.get("Lambda-Runtime-Deadline-Ms") or 0)

    def get_remaining_time_in_millis(self) -> int:
        return max(self._deadline_ms - int(time.time() * 1000), 0)

    def spare_s(self) -> float | None:
        """None if there is no end to it."""
        return self.get_remaining_time_in_millis() / 1000 - SPARE_S if self._deadline_ms else None


def scope_of(event: Event, context: Context | None = None) -> dict[str, Any]:
    """An API Gateway proxy event as an ASGI scope."""
    several = event.get("multiValueHeaders") or {}
    single = event.get("headers") or {}
    headers = {name: [value] for name, value in single.items()} | several
    query = event.get("multiValueQueryStringParameters") or {}
    identity = (event.get("requestContext") or {}).get("identity") or {}
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": event["httpMethod"],
        "scheme": "https",
        "path": event["path"],
        "raw_path": event["path"].encode(),
        "root_path": "",
        "query_string": urlencode(
            [(name, value) for name, values in query.items() for value in values]
        ).encode(),
        "headers": [
            (name.lower().encode("latin-1", "replace"), str(value).encode("latin-1", "replace"))
            for name, values in headers.items()
            for value in values
        ],
        "client": (identity.get("sourceIp") or "", 0),
        "server": None,
        "aws.event": event,
        "aws.context": context,
    }


def body_of(event: Event) -> bytes:
    body = event.get("body") or ""
    return base64.b64decode(body) if event.get("isBase64Encoded") else body.encode()


class Answer:
    """One response on its way to Lambda, a chunk at a time."""

    def __init__(self, host: str, request_id: str) -> None:
        self._connection = http.client.HTTPConnection(host)
        self._path = f"{RUNTIME}/invocation/{request_id}"
        self.begun = False
        self._ended = False

    def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._connection.putrequest("POST", f"{self._path}/response")
        self._connection.putheader("Lambda-Runtime-Function-Response-Mode", "streaming")
        self._connection.putheader("Content-Type", STREAMED)
        self._connection.putheader("Transfer-Encoding", "chunked")
        self._connection.putheader("Trailer", FAILED)
        self._connection.endheaders()
        self.begun = True
        self.piece(json.dumps(prelude(status, headers)).encode() + b"\0" * 8)

    def piece(self, data: bytes) -> None:
        if data:
            self._connection.send(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self, trailer: bytes = b"") -> None:
        if not self._ended:
            self._ended = True
            self._connection.send(b"0\r\n" + trailer + b"\r\n")
            self._connection.getresponse().read()

    def fail(self, error: BaseException) -> None:
        """Before the first byte an error of the invocation; afterwards all that is left is to say so at the end."""
        name = type(error).__name__
        if self.begun:
            self.end(f"{FAILED}: {name}\r\n".encode())
            return
        body = json.dumps({"errorMessage": "the function failed; see its log", "errorType": name})
        self._connection.request("POST", f"{self._path}/error", body)
        self._connection.getresponse().read()

    def close(self) -> None:
        self._connection.close()


class Whole(Answer):
    """`sam local` knows no streams: there the answer is one JSON document, as of any other function."""

    def __init__(self, host: str, request_id: str) -> None:
        super().__init__(host, request_id)
        self._head: dict[str, Any] = {}
        self._body = bytearray()

    def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._head = prelude(status, headers)

    def piece(self, data: bytes) -> None:
        self._body += data

    def end(self, trailer: bytes = b"") -> None:  # noqa: ARG002 - nothing has been sent that it could correct
        document = json.dumps(self._head | {"body": self._body.decode("utf-8", "replace")})
        self._connection.request("POST", f"{self._path}/response", document)
        self._connection.getresponse().read()


def prelude(status: int, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    found: dict[str, str] = {}
    cookies: list[str] = []
    for name, value in headers:
        text = value.decode("latin-1")
        key = name.decode("latin-1")
        if key.lower() == "set-cookie":
            cookies.append(text)
        else:
            found[key] = f"{found[key]}, {text}" if key in found else text
    return {"statusCode": status, "headers": found} | ({"cookies": cookies} if cookies else {})


async def serve(application: Application, event: Event, answer: Answer, context: Context) -> None:
    asked = False
    over = asyncio.Event()

    async def receive() -> Message:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": body_of(event), "more_body": False}
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        try:
            if message["type"] == "http.response.start":
                answer.begin(message["status"], list(message.get("headers", [])))
                return
            answer.piece(message.get("body", b""))
            if not message.get("more_body"):
                answer.end()
                over.set()
        except OSError:  # Lambda takes no more; that a client has hung up it does not tell
            over.set()
            await asyncio.sleep(0)

    await application(scope_of(event, context), receive, send)


async def lingered(linger: Callable[[], Awaitable[None]], context: Context) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(context.spare_s()):
            await linger()


def next_event(connection: http.client.HTTPConnection) -> tuple[Event, Context]:
    connection.request("GET", f"{RUNTIME}/invocation/next")
    response = connection.getresponse()
    event: Event = json.loads(response.read())
    os.environ["_X_AMZN_TRACE_ID"] = response.headers.get("Lambda-Runtime-Trace-Id", "")
    return event, Context(dict(response.headers))


def load(name: str) -> Application:
    module, _, attribute = name.rpartition(".")
    sys.path.insert(0, os.environ.get("LAMBDA_TASK_ROOT", "."))
    application: Application = getattr(importlib.import_module(module.replace("/", ".")), attribute)
    return application


def main() -> None:
    # Between requests the process is frozen, and what is still in a buffer with it.
    sys.stdout.reconfigure(line_buffering=True)
    host = os.environ["AWS_LAMBDA_RUNTIME_API"]
    connection = http.client.HTTPConnection(host)
    try:
        application = load(os.environ["_HANDLER"])
    except BaseException as error:
        body = json.dumps({"errorMessage": str(error), "errorType": type(error).__name__})
        connection.request("POST", f"{RUNTIME}/init/error", body)
        connection.getresponse().read()
        raise
    linger = getattr(application, "linger", None)
    kind = Whole if os.environ.get("AWS_SAM_LOCAL") else Answer
    with asyncio.Runner() as runner:
        while True:
            event, context = next_event(connection)
            answer = kind(host, context.aws_request_id)
            try:
                runner.run(serve(application, event, answer, context))
            except Exception as error:  # noqa: BLE001 - the boundary: Lambda is told, the next request comes
                traceback.print_exc()
                answer.fail(error)
            finally:
                answer.close()
            if linger is not None:
                runner.run(lingered(linger, context))


if __name__ == "__main__":
    main()
