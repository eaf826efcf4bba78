"""The runtime that streams: a real process of it, against a Runtime API of ours."""

import base64
import contextlib
import http.server
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support import eventually

RUNTIME = Path(__file__).parents[2] / "layers" / "streaming" / "bootstrap"

APPLICATION = """
import asyncio, json, pathlib

async def handler(scope, receive, send):
    body = (await receive())["body"]
    if scope["path"] == "/crash":
        raise RuntimeError("secret")
    headers = [(b"content-type", b"text/event-stream"), (b"x-a", b"1"), (b"x-a", b"2"), (b"set-cookie", b"c=1")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    if scope["path"] == "/late":
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        raise RuntimeError("secret")
    for n in range(3):
        await send({"type": "http.response.body", "body": b"%d" % n, "more_body": True})
        await asyncio.sleep(0.05)
    await send({"type": "http.response.body", "body": json.dumps([
        scope["method"], scope["path"], scope["query_string"].decode(), body.decode(),
        [[a.decode(), b.decode()] for a, b in scope["headers"]]]).encode()})

async def linger():
    pathlib.Path("lingered").touch()

handler.linger = linger
"""


class RuntimeApi(http.server.ThreadingHTTPServer):
    """Hands out events, and keeps what comes back with the time each piece came."""

    daemon_threads = True
    seconds = 900.0

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.events = queue.Queue()
        self.answers = queue.Queue()

    def invoke(self, event):
        self.events.put(event)
        return self.answers.get(timeout=10)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = json.dumps(self.server.events.get()).encode()
        self.send_response(200)
        self.send_header("Lambda-Runtime-Aws-Request-Id", "r1")
        self.send_header("Lambda-Runtime-Deadline-Ms", str(int((time.time() + self.server.seconds) * 1000)))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        if self.headers.get("transfer-encoding") == "chunked":
            pieces, trailer = self.chunks()
            found = {"path": self.path, "headers": dict(self.headers), "pieces": pieces, "trailer": trailer}
        else:
            body = self.rfile.read(int(self.headers["content-length"]))
            found = {"path": self.path, "body": json.loads(body)}
        self.server.answers.put(found)
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def chunks(self):
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        trailer = b""
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            trailer += line
        return pieces, trailer

    def log_message(self, *_):
        pass


def event(path="/mcp", **more):
    return {"httpMethod": "POST", "path": path, "headers": {"A": "1"}, "body": "hello", **more}


@contextlib.contextmanager
def running(tmp_path, source=APPLICATION):
    (tmp_path / "app.py").write_text(source)
    with RuntimeApi() as api:
        threading.Thread(target=api.serve_forever, daemon=True).start()
        environment = {
            "PATH": os.environ["PATH"],
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{api.server_address[1]}",
            "_HANDLER": "app.handler",
            "LAMBDA_TASK_ROOT": str(tmp_path),
        }
        command = [str(RUNTIME), sys.executable, "-m", "awslambdaric"]
        with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
            try:
                yield api
            finally:
                process.kill()
                api.shutdown()


@pytest.fixture
def api(tmp_path):
    with running(tmp_path) as server:
        yield server


def test_an_answer_is_streamed_with_its_prelude(api, tmp_path):
    several = {"multiValueHeaders": {"B": ["1", "2"]}, "multiValueQueryStringParameters": {"q": ["x y", "z"]}}
    found = api.invoke(event(**several))
    assert found["headers"]["Lambda-Runtime-Function-Response-Mode"] == "streaming"
    prelude, _, rest = found["pieces"][0].partition(b"\0" * 8)
    assert json.loads(prelude) == {
        "statusCode": 201,
        "headers": {"content-type": "text/event-stream", "x-a": "1, 2"},
        "cookies": ["c=1"],
    }
    assert rest == b""
    assert found["pieces"][1:4] == [b"0", b"1", b"2"]
    method, path, query, body, headers = json.loads(found["pieces"][4])
    assert (method, path, query, body) == ("POST", "/mcp", "q=x+y&q=z", "hello")
    assert sorted(headers) == [["a", "1"], ["b", "1"], ["b", "2"]]
    eventually((tmp_path / "lingered").exists)


def test_a_body_in_base64_is_what_it_stands_for(api):
    found = api.invoke(event(body=base64.b64encode("ü".encode()).decode(), isBase64Encoded=True))
    assert json.loads(found["pieces"][-1])[3] == "ü"


def test_a_crash_is_told_without_its_reason_and_the_next_request_is_served(api):
    crashed = api.invoke(event("/crash"))
    assert crashed["path"].endswith("/invocation/r1/error")
    assert crashed["body"]["errorType"] == "RuntimeError"
    assert "secret" not in json.dumps(crashed["body"])
    assert api.invoke(event())["pieces"]


def test_a_crash_in_the_middle_ends_the_stream_with_an_error(api):
    broken = api.invoke(event("/late"))
    assert b"Lambda-Runtime-Function-Error-Type: RuntimeError" in broken["trailer"]
    assert api.invoke(event())["pieces"]


def test_an_application_that_cannot_be_loaded_is_reported(tmp_path):
    with running(tmp_path, "raise ValueError('PORTICO_DISPATCH: expected invoke or inline')") as api:
        failed = api.answers.get(timeout=10)
    assert failed["path"].endswith("/init/error")
    assert failed["body"] == {
        "errorMessage": "PORTICO_DISPATCH: expected invoke or inline",
        "errorType": "ValueError",
    }


def test_what_goes_on_for_ever_ends_before_the_function_is_killed(tmp_path):
    source = APPLICATION.replace("pathlib.Path", "await asyncio.Event().wait(); pathlib.Path")
    with running(tmp_path, source) as api:
        api.seconds = 5.5
        assert api.invoke(event())["path"].endswith("/response")
        assert api.invoke(event())["path"].endswith("/response")
    assert not (tmp_path / "lingered").exists()


def test_the_trailer_that_tells_of_a_failure_is_announced(api):
    """As HTTP wants it of whoever sends one."""
    found = api.invoke(event("/late"))
    assert found["headers"]["Trailer"] == found["trailer"].partition(b":")[0].decode()
