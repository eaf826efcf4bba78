"""A runtime that streams: `handler(event)` gives the prelude, and then bytes."""

import http.client
import importlib
import json
import os
import select

PATH = "/2018-06-01/runtime/invocation"
module, name = os.environ["_HANDLER"].rsplit(".", 1)
handler = getattr(importlib.import_module(module), name)
address = os.environ["AWS_LAMBDA_RUNTIME_API"]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def answer(connection: http.client.HTTPConnection, event: dict) -> None:
    connection.endheaders()
    try:
        for part in handler(event):
            data = part if isinstance(part, bytes) else json.dumps(part).encode() + b"\0" * 8
            if select.select([connection.sock], [], [], 0)[0]:
                raise ConnectionError("an answer before the end is a refusal")
            connection.send(chunk(data) if data else b"")
    except ValueError as error:
        trailer = f"Lambda-Runtime-Function-Error-Type: {type(error).__name__}"
        connection.send(b"0\r\n" + trailer.encode() + b"\r\n\r\n")
    else:
        connection.send(b"0\r\n\r\n")
    connection.getresponse().read()


while True:
    polling = http.client.HTTPConnection(address)
    polling.request("GET", f"{PATH}/next")
    given = polling.getresponse()
    event = json.loads(given.read())
    polling.close()
    connection = http.client.HTTPConnection(address)
    connection.putrequest("POST", f"{PATH}/{given.headers['Lambda-Runtime-Aws-Request-Id']}/response")
    connection.putheader("Lambda-Runtime-Function-Response-Mode", "streaming")
    connection.putheader("Transfer-Encoding", "chunked")
    try:
        answer(connection, event)
    except (OSError, http.client.HTTPException):
        print("refused: nobody listens any more", flush=True)
    connection.close()
