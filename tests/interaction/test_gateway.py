"""Real gateway processes in front of real backends, through a plain HTTP client."""

import json
import uuid

import pytest

from tests.support import Client, echo_server, eventually, fetch, gateway


def config(*backends, **more):
    declared = {name: {"kind": "remote", "url": url, **extra} for name, url, extra in backends}
    return {"version": 1, "store": "memory", "backends": declared, **more}


@pytest.fixture(scope="module")
def echo():
    with echo_server() as server:
        yield server


@pytest.fixture(scope="module")
def portico(echo):
    with gateway(config(("s1", echo.url, {"forward_headers": ["x-custom"]}))) as process:
        yield process


@pytest.fixture
def client(portico):
    client = portico.client()
    client.init()
    return client


def test_initialize_makes_a_fresh_session_and_contacts_no_backend(echo, portico):
    """G0.24, G0.25, G0.26, G0.27, G1.3, G1.4, G1.5"""
    before = echo.counters()["initialize"]
    first, second = (
        portico.client().init("2024-11-05"),
        portico.client().init(headers={"mcp-session-id": "old"}),
    )
    assert first.message["result"]["protocolVersion"] == "2024-11-05"
    assert uuid.UUID(first.session) != uuid.UUID(second.session)
    assert {"tools", "resources"} <= set(first.message["result"]["capabilities"])
    assert echo.counters()["initialize"] == before


def test_a_2024_client_is_answered_by_one_event(portico):
    """G0.29, G0.65, C3"""
    answer = portico.client().init("2024-11-05")
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.raw.startswith(b"data: {")
    assert answer.raw.count(b"data:") == 1


def test_sessions_are_required_and_checked(portico):
    """G0.30, G0.31, G1.9, C2, C33"""
    client = portico.client()
    missing = client.rpc("tools/list")
    assert (missing.status, missing.error["message"]) == (400, "no session ID found")
    assert client.rpc("tools/list", headers={"mcp-session-id": "nope"}).status == 404
    client.init()
    told = client.notify("notifications/initialized")
    assert (told.status, told.raw) == (202, b"")


def test_listed_tools_are_the_backends_own_but_for_the_prefix(echo, client):
    """G0.32, G1.53, G1.55"""
    direct = Client(echo.url)
    direct.init()
    own = direct.rpc("tools/list").result["tools"]
    listed = client.rpc("tools/list").result["tools"]
    assert [{**tool, "name": "s1_" + tool["name"]} for tool in own] == listed


def test_lists_ask_no_backend(echo, client):
    """G1.52, G1.2"""
    echo.control("reset_log")
    for _ in range(100):
        client.rpc("tools/list")
    assert client.rpc("ping").result == {}
    assert client.rpc("no/such").error["code"] == -32601
    assert [entry["method"] for entry in echo.seen() if entry["http"] == "POST"] == []


def test_a_call_opens_one_upstream_session_and_carries_what_it_should(echo, client):
    """G1.11, G1.12, G1.13, G1.15, G1.17, G1.20, G1.22"""
    echo.control("reset_log")
    sent = {"x-custom": "1", "x-mcp-authorized": "forged", "authorization": "Bearer t", "cookie": "a=b"}
    for _ in range(5):
        answer = client.call("s1_headers", {}, headers=sent)
    seen = json.loads(answer.text)
    assert [entry["method"] for entry in echo.seen()][:3] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert len([entry for entry in echo.seen() if entry["method"] == "initialize"]) == 1
    assert echo.seen("initialize")[0]["headers"]["x-custom"] == "1"
    assert (seen["x-mcp-tool"], seen["x-mcp-toolname"], seen["x-mcp-servername"]) == (
        "headers",
        "headers",
        "s1",
    )
    assert seen["x-mcp-method"] == "tools/call"
    assert seen["x-mcp-annotation-hints"].startswith("readOnly=")
    assert not {"authorization", "cookie", "x-mcp-authorized"} & set(seen)
    assert seen["mcp-session-id"] != answer.session == client.session


def test_the_backend_forgetting_its_sessions_is_not_noticed(echo, client):
    """G1.24"""
    assert client.call("s1_echo", {"text": "a"}).text == "a"
    echo.control("reset_log")
    echo.control("forget_sessions")
    assert client.call("s1_echo", {"text": "b"}).text == "b"
    assert len([entry for entry in echo.seen("initialize") if "x-custom" not in entry["headers"]]) >= 1


def test_progress_comes_before_the_result(client):
    """G1.23"""
    answer = client.call("s1_slow", {"seconds": 0.3, "steps": 3}, meta={"progressToken": "p"})
    progress, result = answer.messages[:-1], answer.messages[-1]
    assert len(progress) == 3
    assert {note.message["params"]["progressToken"] for note in progress} == {"p"}
    assert progress[0].at < result.at


def test_a_question_of_the_backend_reaches_the_client_and_its_answer_the_backend(portico):
    """G1.95"""
    client = portico.client()
    client.on["elicitation/create"] = lambda _: {"action": "accept", "content": {"n": 1}}
    client.init(capabilities={"elicitation": {}})
    assert json.loads(client.call("s1_two_questions").text)


def test_unknown_tools_are_refused_in_the_clients_own_form(portico):
    """G1.26, C1"""
    new, old = portico.client(), portico.client()
    new.init()
    old.init("2024-11-05")
    assert new.call("nope").error == {"code": -32602, "message": "Unknown tool: nope"}
    assert old.call("nope").result == {
        "content": [{"type": "text", "text": "Error: Tool 'nope' not found"}],
        "isError": True,
    }


def test_prompts_resources_templates_and_completion_are_routed(client):
    """G1.31"""
    assert client.rpc("prompts/get", {"name": "s1_greet", "arguments": {"name": "Ann"}}).result["messages"]
    assert client.rpc("resources/read", {"uri": "echo://static/one"}).result["contents"]
    assert client.rpc("resources/read", {"uri": "echo://item/7"}).result["contents"]
    assert client.rpc("resources/read", {"uri": "nobody://x"}).error["code"] == -32002
    reference = {"type": "ref/prompt", "name": "s1_greet"}
    answer = client.rpc("completion/complete", {"ref": reference, "argument": {"name": "name", "value": "a"}})
    assert "completion" in answer.result


def test_delete_ends_the_session_and_those_behind_it(echo, portico):
    """G1.28"""
    client = portico.client()
    client.init()
    client.call("s1_echo", {"text": "a"})
    before = len(echo.counters()["deleted_sessions"])
    assert client.delete().status == 200
    assert client.rpc("tools/list").status == 404
    eventually(lambda: len(echo.counters()["deleted_sessions"]) > before)


def test_a_new_tool_is_announced_on_every_stream(echo, portico):
    """G1.87, G1.88"""
    streams = []
    for _ in range(3):
        client = portico.client()
        client.init()
        streams.append(client.stream())
    echo.control("add_tool", name="fresh")
    echo.control("notify", method="notifications/tools/list_changed")
    for stream in streams:
        assert stream.wait_for("notifications/tools/list_changed") == {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
        }
    assert "s1_fresh" in [tool["name"] for tool in client.rpc("tools/list").result["tools"]]
    for stream in streams:
        stream.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"host": "evil.example"}, 403),
        ({"origin": "http://localhost:1"}, 200),
    ],
)
def test_web_pages_from_elsewhere_are_refused(portico, headers, status):
    """G1.101"""
    assert portico.client().init(initialized=False, headers=headers).status == status


def test_bodies_that_are_no_message_are_refused(portico, client):
    """G0.64, G1.29, G1.30, C30"""
    assert client.post(b"x" * 6_000_000).status == 413
    assert client.post(b"{}", {"content-type": "text/plain"}).status == 415
    assert client.post(b"nonsense").error["code"] == -32700
    assert client.post(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]').error["code"] == -32600
    assert client.rpc("ping", headers={"mcp-protocol-version": "1999-01-01"}).status == 400


def test_a_2025_03_26_session_may_send_batches(portico):
    """C30"""
    client = portico.client()
    client.init("2025-03-26")
    body = (
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]'
    )
    assert json.loads(client.post(body).raw) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


def test_health_and_status(portico):
    """G0.4, G1.51"""
    assert fetch(portico.base + "/health").status == 200
    assert fetch(portico.base + "/other").status == 404
    status = fetch(portico.base + "/status").json()
    assert (status["totalServers"], status["healthyServers"]) == (1, 1)
    assert fetch(portico.base + "/status/s1").json()["id"].startswith("s1:s1_:")
    assert fetch(portico.base + "/status/nobody").status == 404


def test_a_change_of_the_file_is_picked_up_and_a_broken_one_is_not(echo):
    """G1.32, G1.34, G1.90"""
    with gateway(config()) as process:
        client = process.client()
        client.init()
        assert client.rpc("tools/list").result == {"tools": []}
        process.write(config(("late", echo.url, {})))
        eventually(lambda: client.rpc("tools/list").result["tools"])
        process.write("version: 1\nbackends: [nonsense]\n")
        eventually(lambda: fetch(process.base + "/status").json()["configError"])
        assert client.rpc("tools/list").result["tools"]
        process.write(config())
        eventually(lambda: not client.rpc("tools/list").result["tools"])


def test_two_processes_on_one_file_share_sessions(echo, tmp_path):
    """G1.92"""
    shared = {**config(("s1", echo.url, {})), "store": f"sqlite:{tmp_path}/portico.db"}
    with gateway(shared) as one, gateway(shared) as two:
        client = one.client()
        client.init()
        assert client.call("s1_echo", {"text": "a"}).text == "a"
        other = Client(two.url, session=client.session, version="2025-11-25")
        assert other.call("s1_echo", {"text": "b"}).text == "b"
