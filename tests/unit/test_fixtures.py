"""The test servers and the test client themselves, checked against an independent peer: the official SDK."""

import base64
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import mcp
import pytest
from mcp import types

from tests.support import Client, Echo, Faults, echo_server, eventually, fault_server, start

EVERYTHING = {"elicitation": {}, "sampling": {}, "roots": {}}
LIST_CHANGED = "notifications/tools/list_changed"


@pytest.fixture
def echo():
    with echo_server() as server:
        yield server


@pytest.fixture
def faults():
    with fault_server() as server:
        yield server


@pytest.fixture
def client(echo: Echo):
    client = Client(echo.url)
    client.init(capabilities=EVERYTHING)
    return client


# The official SDK against the echo server


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_sdk_client_lists_and_calls(echo: Echo, mode: str):
    echo.control("page_size", n=4)
    with anyio.fail_after(10):
        async with mcp.Client(echo.url, mode=mode) as client:
            tools, cursor = [], None
            while page := await client.list_tools(cursor=cursor):
                tools += page.tools
                if not (cursor := page.next_cursor):
                    break
            result = await client.call_tool("echo", {"text": "grüß 你"})
            structured = await client.call_tool("structured")
            prompt = await client.get_prompt("greet", {"name": "Ada"})
            blob = await client.read_resource("echo://static/blob")
            version = client.protocol_version
    assert {"echo", "fancy", "resumable"} <= {tool.name for tool in tools}
    assert result.content[0].text == "grüß 你"
    assert structured.structured_content["temperature"] == 22.5
    assert "Ada" in prompt.messages[0].content.text
    assert base64.b64decode(blob.contents[0].blob) == bytes(range(256))
    assert version == "2025-11-25"
    eventually(lambda: echo.counters()["deleted_sessions"])


async def test_sdk_client_gets_progress(echo: Echo):
    seen: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total))

    with anyio.fail_after(10):
        async with mcp.Client(echo.url, mode="legacy") as client:
            await client.call_tool("slow", {"seconds": 0.1, "steps": 3}, progress_callback=on_progress)
    assert seen == [(1, 3), (2, 3), (3, 3)]


async def test_sdk_client_answers_elicitations(echo: Echo):
    async def answer(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": params.message})

    with anyio.fail_after(10):
        async with mcp.Client(echo.url, mode="legacy", elicitation_callback=answer) as client:
            result = await client.call_tool("two_questions")
    answers = json.loads(result.content[0].text)
    assert [a["content"]["name"] for a in answers] == ["First name?", "Last name?"]


async def test_sdk_client_gets_notifications_on_its_get_stream(echo: Echo):
    changed = anyio.Event()

    async def on_message(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    with anyio.fail_after(10):
        async with mcp.Client(echo.url, mode="legacy", message_handler=on_message) as client:
            while not echo.counters()["get_streams_open"]:
                await anyio.sleep(0.01)
            echo.control("add_tool", name="extra")
            assert echo.control("notify", method=LIST_CHANGED)["sent"] == 1
            await changed.wait()
            result = await client.call_tool("extra", {"a": 1})
    assert json.loads(result.content[0].text) == {"tool": "extra", "arguments": {"a": 1}}


async def test_sdk_client_resumes_a_call_whose_connection_was_closed(echo: Echo):
    with anyio.fail_after(10):
        async with mcp.Client(echo.url, mode="legacy") as client:
            result = await client.call_tool("resumable", {"seconds": 0.2})
    assert result.content[0].text == "resumed"
    assert [entry for entry in echo.seen(http="GET") if "last-event-id" in entry["headers"]]


# Our own client against the echo server


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_echo_negotiates_every_legacy_version(echo: Echo, version: str):
    assert Client(echo.url).init(version).result["protocolVersion"] == version


def test_echo_answers_an_unknown_version_with_its_newest_and_a_pinned_one_always(echo: Echo):
    assert Client(echo.url).init("1999-01-01").result["protocolVersion"] == "2025-11-25"
    echo.control("pin_version", version="2021-11-05")
    assert Client(echo.url).init().result["protocolVersion"] == "2021-11-05"


def test_echo_statuses(echo: Echo, client: Client):
    assert client.rpc("ping").status == 200
    assert client.rpc("ping", headers={"mcp-session-id": None}).status == 400
    assert client.rpc("ping", headers={"mcp-session-id": "unknown"}).status == 404
    assert client.rpc("ping", headers={"mcp-protocol-version": "1"}).status == 400
    assert client.rpc("ping", headers={"accept": "text/html"}).status == 406
    assert client.post(b"{", {"content-type": "text/plain"}).status == 415
    assert client.post(b"{").status == 400
    assert client.notify("notifications/whatever").status == 202
    assert client.respond(99, {}).status == 202
    assert client.rpc("nonsense").error["code"] == -32601
    echo.control("no_get")
    assert client.stream().status == 405
    echo.control("require_auth", value="Bearer good")
    assert client.rpc("ping").status == 401
    assert client.rpc("ping", headers={"Authorization": "Bearer good"}).status == 200
    echo.control("require_auth")
    assert client.delete().status == 200
    assert client.rpc("ping").status == 404


def test_echo_shows_the_very_bytes_and_headers_it_got(echo: Echo, client: Client):
    body = b'{"jsonrpc":"2.0",  "id":"\xc3\xa9", "method":"tools/call","params":{"name":"body","n":1e400}}'
    answer = client.post(body, {"X-Custom": "1"}, rpc_id="é")
    assert base64.b64decode(answer.text) == body
    assert echo.seen("tools/call")[-1]["headers"]["x-custom"] == "1"
    assert json.loads(client.call("headers").text)["mcp-session-id"] == client.session


def test_echo_stops_a_cancelled_call_and_gives_no_answer(echo: Echo, client: Client):
    call = client.begin_call("slow", {"seconds": 60}, id="call").wait_open()
    assert client.notify("notifications/cancelled", {"requestId": "call"}).status == 202
    assert call.answer(5).message is None
    assert echo.counters()["cancelled"] == ["call"]


def test_echo_stops_a_call_whose_connection_is_closed(echo: Echo, client: Client):
    call = client.begin_call("slow", {"seconds": 60}, id=7).wait_open()
    call.close()
    counters = eventually(lambda: (c := echo.counters())["connections_closed_midcall"] and c)
    assert eventually(lambda: echo.counters()["stopped"]) == [7]
    assert counters["cancelled"] == []


def test_echo_numbers_its_requests_from_0_in_every_session(echo: Echo, client: Client):
    other = Client(echo.url)
    other.init(capabilities=EVERYTHING)
    calls = [c.begin_call("elicit") for c in (client, other)]
    ids = [call.wait_for("elicitation/create")["id"] for call in calls]
    other.respond(ids[1], {"action": "decline"})
    client.respond(ids[0], {"action": "cancel"})
    assert ids == [0, 0]
    assert [json.loads(call.answer(5).text)["action"] for call in calls] == ["cancel", "decline"]
    assert echo.seen()[-1]["answered_request"] == {"id": 0, "method": "elicitation/create"}


def test_echo_asks_only_what_the_client_can_do_unless_forced(echo: Echo):
    client = Client(echo.url)
    client.init()
    assert client.call("roots").error["code"] == -32602
    client.on["roots/list"] = lambda params: {"roots": []}
    assert json.loads(client.call("roots", {"force": True}).text) == {"roots": []}


def test_echo_asks_and_pings_on_get_streams_and_remembers_the_answers(echo: Echo, client: Client):
    client.on |= {"roots/list": lambda params: {"roots": []}, "ping": lambda params: {}}
    with client.stream():
        echo.control("ask_on_get")
        echo.control("ping_client")
        answers = eventually(lambda: len(a := echo.counters()["answers"]) == 2 and a)
    assert {a["method"]: a["answer"]["result"] for a in answers} == {"roots/list": {"roots": []}, "ping": {}}


def test_echo_replays_a_get_stream_with_event_ids(echo: Echo, client: Client):
    echo.control("event_ids")
    with client.stream() as stream:
        assert echo.control("close_streams")["sent"] == 1
        stream.wait_closed()
    echo.control("notify")
    with client.stream(stream.last_event_id) as resumed:
        assert resumed.wait_for(LIST_CHANGED)
    assert stream.all(LIST_CHANGED) == []


def test_echo_tells_subscribers_only(echo: Echo, client: Client):
    uri = "echo://static/one"
    with client.stream() as stream:
        assert echo.control("update_resource", uri=uri)["sent"] == 0
        client.rpc("resources/subscribe", {"uri": uri})
        assert echo.control("update_resource", uri=uri)["sent"] == 1
        assert stream.wait_for("notifications/resources/updated")["params"] == {"uri": uri}
        assert echo.counters()["subscriptions"] == [{"session": client.session, "uri": uri}]
        client.rpc("resources/unsubscribe", {"uri": uri})
    assert echo.counters()["subscriptions"] == []


def test_echo_logs_at_the_level_set(echo: Echo, client: Client):
    client.rpc("logging/setLevel", {"level": "error"})
    assert len(client.call("log", {"level": "info"}).messages) == 1
    answer = client.call("log", {"level": "critical", "text": "fire"})
    assert [m.message.get("method") for m in answer.messages] == ["notifications/message", None]


def test_echo_switches_refuse_delay_and_spoil(echo: Echo, client: Client):
    echo.control("invalid_tools")
    names = [tool["name"] for tool in client.rpc("tools/list").result["tools"]]
    assert {"", "no_schema", "string_schema", "nonsense_type", "echo"} <= set(names)
    echo.control("per_user")
    listed = client.rpc("tools/list", headers={"x-user": "ann"}).result["tools"]
    assert "ann_only" in [tool["name"] for tool in listed]
    assert client.call("ann_only").error["code"] == -32602
    echo.control("refuse_calls", status=503)
    assert client.call("echo", {"text": "a"}).status == 503
    echo.control("refuse_calls")
    echo.control("delay", seconds=0.2)
    before = time.monotonic()
    assert client.call("echo", {"text": "a"}).text == "a"
    assert time.monotonic() - before >= 0.15
    echo.control("delay")
    echo.control("drop_capability", name="tools")
    assert client.rpc("tools/list").error["code"] == -32601
    assert "tools" not in Client(echo.url).init().result["capabilities"]
    echo.control("refuse_initialize", status=403)
    assert Client(echo.url).init().status == 403
    echo.control("forget_sessions")
    assert client.rpc("ping").status == 404
    echo.control("reset_log")
    assert echo.seen() == []


def test_echo_always_sse_gives_the_same_messages(echo: Echo, client: Client):
    plain = client.call("echo", {"text": "a"}, id=1)
    echo.control("always_sse")
    streamed = client.call("echo", {"text": "a"}, id=1)
    assert plain.headers["content-type"] == "application/json"
    assert streamed.headers["content-type"] == "text/event-stream"
    assert plain.message == streamed.message
    assert Client(echo.url).init().result


def test_client_numbers_requests_safely_from_many_threads(echo: Echo, client: Client):
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: client.call("echo", {"text": str(n)}).text, range(100)))
    assert answers == [str(n) for n in range(100)]
    assert len({entry["id"] for entry in echo.seen("tools/call")}) == 100


def test_a_process_that_does_not_start_shows_what_it_said():
    with pytest.raises(RuntimeError, match=r"No module named tests\.servers\.missing"):
        start("tests.servers.missing")


def test_a_server_can_come_back_on_its_port():
    with echo_server() as first:
        port = first.port
        first.kill()
        with pytest.raises(ConnectionError):
            Client(first.url).init()
    with echo_server(port=port) as second:
        assert second.port == port
        assert Client(second.url).init().status == 200


# The fault server


def raw_call(faults: Faults, tool: str, seconds: float = 5) -> bytes:
    """Everything it sends for one call, until it closes or is silent for so long."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}}
    body = json.dumps(message).encode()
    received = b""
    with socket.create_connection(("127.0.0.1", faults.port), seconds) as connection:
        connection.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        try:
            while data := connection.recv(65536):
                received += data
        except TimeoutError:
            return received + b"<silence>"
    return received


def test_faults_is_well_behaved_until_called(faults: Faults):
    client = Client(faults.url)
    assert client.init().status == 200
    tools = {tool["name"] for tool in client.rpc("tools/list").result["tools"]}
    assert {"ok", "kill", "hang", "bad_chunk", "header_bomb", "status_429"} <= tools
    assert client.call("ok").text == "ok"
    assert client.stream().status == 405
    assert faults.counters()["calls"] == {"ok": 1}


@pytest.mark.parametrize(
    ("tool", "part"),
    [
        ("hang_sse", b":\n\n\r\n<silence>"),
        ("not_json", b"oops<silence>"),
        ("wrong_type", b"text/html"),
        ("redirect", b"302 Found"),
        ("status_429", b"Retry-After: 7"),
        ("wrong_id", b'"somebody-else"'),
    ],
)
def test_faults_that_keep_the_connection(faults: Faults, tool: str, part: bytes):
    received = raw_call(faults, tool, 0.3)
    assert part in received
    assert received.startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize(
    ("tool", "start_of_it", "end_of_it"),
    [
        ("garbage", b"\x00\x01", b"\r\n\r\n"),
        ("half_frame", b"HTTP/1.1 200", b'"id": '),
        ("half_body", b"HTTP/1.1 200", b"}"),
        ("no_response", b"HTTP/1.1 200", b"\n\n"),
        ("bad_chunk", b"HTTP/1.1 200", b"0\r\n\r\n"),
    ],
)
def test_faults_that_close_the_connection(faults: Faults, tool: str, start_of_it: bytes, end_of_it: bytes):
    received = raw_call(faults, tool)
    assert received.startswith(start_of_it)
    assert received.endswith(end_of_it)


def test_faults_hang_notices_who_hangs_up(faults: Faults):
    assert raw_call(faults, "hang", 0.1) == b"<silence>"
    eventually(lambda: faults.counters()["closed"] == {"hang": 1})


@pytest.mark.parametrize("tool", ["huge", "huge_sse"])
def test_faults_huge_answers_are_whole(faults: Faults, tool: str):
    client = Client(faults.url)
    assert len(client.call(tool, {"bytes": 10_000_000}).text) == 10_000_000


def test_faults_header_bomb_has_ten_thousand_lines(faults: Faults):
    assert raw_call(faults, "header_bomb", 0.5).count(b"X-Bomb-") == 10_000


def test_faults_kill_ends_the_process_in_the_middle_of_an_answer(faults: Faults):
    assert raw_call(faults, "kill") == b"HTTP/1.1 200 OK\r\nContent-"
    assert eventually(lambda: faults.returncode) == 9
