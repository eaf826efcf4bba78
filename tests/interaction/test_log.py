"""What `portico serve` writes: a line per request for those who ask, and never a secret."""

import http.server
import json
import threading

import pytest

from tests.support import config, dump, eventually, gateway

TOKEN = "opaque-0123456789-of-the-client"
CREDENTIAL = "opaque-0123456789-of-the-gateway"
TOOLS = [{"name": "call", "inputSchema": {"type": "object"}}]
ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "telltale", "version": "1"},
    },
    "tools/list": {"tools": TOOLS},
}


class Telltale(http.server.BaseHTTPRequestHandler):
    """A backend that says back in its errors what it was sent, in forms of its own."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if message["method"] in ANSWERS:
            return self.answer(
                200, {"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[message["method"]]}
            )
        if "id" not in message:
            return self.answer(202, {})
        sent = self.headers.get("authorization", "")
        words = [sent.removeprefix("Bearer "), str(dict(self.headers)), f"/?access_token={sent}"]
        return self.answer(401 if message["method"] == "tools/call" else 400, {"error": "\n".join(words)})

    def answer(self, status, said):
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


pytestmark = pytest.mark.serve_only("of its command line; what functions log is tested in tests/functions")


@pytest.fixture(scope="module")
def telltale():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Telltale) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()


@pytest.fixture(params=["text", "json"])
def logging(request, telltale, echo):
    declared = config(
        ("tell", telltale, {"call_auth": "passthrough"}),
        ("own", telltale, {"credential": "env:TELLTALE", "credential_use": ["discovery", "call"]}),
        ("s1", echo.url, {}),
    )
    arguments = ("--log-calls", "--log-format", request.param)
    with gateway(declared, *arguments, env={"TELLTALE": f"Bearer {CREDENTIAL}"}) as process:
        process.format = request.param
        yield process


def test_a_line_says_what_became_of_a_call_and_none_shows_a_secret(logging):
    client = logging.client(headers={"Authorization": f"Bearer {TOKEN}"})
    client.init()
    assert client.call("s1_echo", {"text": "a"}).text == "a"
    for tool, status in (("tell_call", 401), ("own_call", 502)):
        assert client.call(tool).status == status
    client.call("nope\nERROR portico: forged")
    client.post(dump({"jsonrpc": "2.0", "id": 1, "method": f"{TOKEN}/x"}))
    lines = [
        ("s1_echo", "s1", "ok", 200),
        ("tell_call", "tell", "backend_error", 401),
        ("own_call", "own", "backend_error", 502),
    ]
    eventually(lambda: "/x" in logging.stderr(), 10)
    written = logging.stderr()
    for tool, backend, outcome, status in lines:
        if logging.format == "text":
            assert f"INFO portico.calls: tools/call {tool} at {backend}: {outcome}, {status} in " in written
        else:
            (said,) = [line for line in read(written) if line.get("tool") == tool]
            assert (said["backend"], said["outcome"], said["status"]) == (backend, outcome, status)
    assert "a backend answered 401" in written
    assert TOKEN not in written
    assert CREDENTIAL not in written
    assert "\nERROR portico: forged" not in written


def read(written):
    """All lines but the one that says it is ready are JSON."""
    return [json.loads(line) for line in written.splitlines() if not line.startswith("portico ready")]


def test_lines_about_calls_are_asked_for(echo):
    with gateway(config(("s1", echo.url, {}))) as process:
        client = process.client()
        client.init()
        assert client.call("s1_echo", {"text": "a"}).text == "a"
        assert "portico.calls" not in process.stderr()
