"""What is sent arrives at once, whichever way through the deployment it takes; what is new is known at once."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support import Client, Deployed, config, echo_server, eventually

STEPS = 4
ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "gated", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "call", "inputSchema": {"type": "object"}}]},
}
WAYS = {
    "the edge hands it over": ("invoke", "/mcp"),
    "straight to tools_call": ("invoke", "/mcp/tools-call"),
    "the edge serves it itself": ("inline", "/mcp"),
}


class Gated(BaseHTTPRequestHandler):
    """A backend whose call goes on only when its last word has arrived."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = message["method"]
        if method == "tools/call":
            self.stream(message)
        elif method in ANSWERS:
            self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[method]})
        else:
            self.answer(202 if "id" not in message else 400, {})

    def do_DELETE(self):
        self.answer(200, {})

    def stream(self, message):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        token = message["params"]["_meta"]["progressToken"]
        for step in range(1, STEPS + 1):
            note = {"progressToken": token, "progress": step}
            self.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": note})
            if not self.server.arrived.acquire(timeout=10):
                return
        result = {"content": [{"type": "text", "text": "all arrived"}]}
        self.event({"jsonrpc": "2.0", "id": message["id"], "result": result})
        self.close_connection = True

    def event(self, message):
        self.wfile.write(b"event: message\ndata: %s\n\n" % json.dumps(message).encode())

    def answer(self, status, said):
        body = json.dumps(said).encode() if status == 200 else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def gated():
    with ThreadingHTTPServer(("127.0.0.1", 0), Gated) as server:
        server.url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.arrived = threading.Semaphore(0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def echo():
    with echo_server() as server:
        yield server


@pytest.fixture(scope="module")
def deployments(gated, echo):
    declared = config(("g", gated.url, {}), ("s1", echo.url, {}), limits={"stream_s": 20})
    with (
        Deployed(declared) as handing_over,
        Deployed(declared, parameters={"DispatchMode": "inline"}) as inline,
    ):
        yield {"invoke": handing_over, "inline": inline}


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(("mode", "path"), WAYS.values(), ids=WAYS)
def test_every_event_arrives_before_the_next_one_is_sent(deployments, gated, mode, path, era):
    """The backend waits for each to have arrived: where anything is held back, nothing more ever comes."""
    base = deployments[mode].base
    client = Client(f"{base}/mcp")
    if era == "legacy":
        client.init()
    client.url = base + path
    params = {"name": "g_call", "arguments": {}, "_meta": {"progressToken": "t"}}
    begin = client.begin if era == "legacy" else client.begin26
    with begin("tools/call", params) as call:
        for step in range(1, STEPS + 1):
            eventually(lambda step=step: len(call.all("notifications/progress")) == step, 9)
            gated.arrived.release()
        assert call.answer().text == "all arrived"


@pytest.mark.parametrize("mode", ["invoke", "inline"])
def test_every_event_of_a_get_stream_arrives_before_the_next_one_is_sent(deployments, echo, mode):
    client = deployments[mode].client()
    client.init()
    with client.stream() as stream:
        client.rpc("resources/subscribe", {"uri": "echo://static/one"})
        eventually(lambda: echo.control("update_resource", uri="echo://static/one")["sent"])
        for number in range(1, STEPS + 1):
            eventually(lambda number=number: len(stream.all("notifications/resources/updated")) >= number)
            echo.control("update_resource", uri="echo://static/one")
        assert client.delete().status == 200
        stream.wait_closed()


def test_a_tool_that_has_just_been_found_can_be_called_at_once(deployments, echo):
    deployed = deployments["invoke"]
    modern, legacy = deployed.client(), deployed.client()
    legacy.init()
    for number in range(4):
        for call in (modern.call26, legacy.call):
            assert call("s1_echo", {"text": "looked a moment ago"}).text == "looked a moment ago"
        echo.control("add_tool", name=f"just_{number}")
        deployed.look()
        for call in (modern.call26, legacy.call):
            assert call(f"s1_just_{number}").result


def test_a_stream_hears_of_what_the_schedule_finds(deployments, echo):
    """G1.88"""
    deployed = deployments["invoke"]
    client = deployed.client()
    client.init()
    with client.stream() as stream:
        echo.control("add_tool", name="announced")
        deployed.look()
        stream.wait_for("notifications/tools/list_changed")
        assert "s1_announced" in [tool["name"] for tool in client.rpc("tools/list").result["tools"]]
        client.delete()


def test_a_stream_that_hears_of_a_change_from_a_backend_has_it_looked_at(deployments, echo):
    """G1.88: long before the schedule would."""
    deployed = deployments["invoke"]
    client = deployed.client()
    client.init()
    assert client.call("s1_echo", {"text": "a"}).text == "a"
    with client.stream() as stream:
        eventually(lambda: client.session and echo.counters()["get_streams_open"])
        echo.control("add_tool", name="heard_of")
        echo.control("notify")
        stream.wait_for("notifications/tools/list_changed", 8)
        assert client.call("s1_heard_of").result
        client.delete()


def test_a_call_whose_client_hung_up_goes_on_until_it_is_cancelled(deployments, echo):
    """AWS documents that a streamed response is not interrupted when the client's connection is."""
    client = deployments["invoke"].client()
    client.init()
    params = {"seconds": 60, "steps": 120}
    with client.begin_call("s1_slow", params, meta={"progressToken": 1}, id="mine") as call:
        call.wait_for("notifications/progress")
        heard = len(call.all())
    assert heard
    assert echo.counters()["calls_running"] == 1
    client.notify("notifications/cancelled", {"requestId": "mine"})
    eventually(lambda: not echo.counters()["calls_running"])


def test_a_body_in_any_script_is_handed_over_as_it_is(deployments):
    """An event is 6 MB at the most, and escapes would make three of each."""
    client = deployments["invoke"].client()
    client.init()
    text = "ü" * 2_000_000
    assert client.call("s1_echo", {"text": text}).text == text
