"""What a client sees may differ: by virtual server, by user, by the name of the session header."""

import json

import pytest

from tests.support import Client, config, echo_server, fetch, gateway, reasons


def names(answer):
    return [tool["name"] for tool in answer.result["tools"]]


@pytest.fixture(scope="module")
def echo():
    with echo_server() as server:
        server.control("per_user", on=True)
        yield server


@pytest.fixture(scope="module")
def portico(echo):
    declared = config(
        ("s1", echo.url, {}),
        ("mine", echo.url, {"user_specific_list": True, "forward_headers": ["x-user"]}),
        gateway={"session_header_alias": "g-session-id"},
        virtual_servers={"dev": {"tools": ["s1_echo", "mine_ann_only"], "prompts": []}},
    )
    with gateway(declared) as process:
        yield process


def started(portico, **headers):
    client = portico.client(headers=headers)
    client.init()
    return client


def test_a_virtual_server_limits_what_is_listed_and_what_can_be_called(portico):
    """G1.56"""
    client = started(portico, **{"x-mcp-virtualserver": "dev"})
    assert names(client.rpc("tools/list")) == ["s1_echo"]
    assert client.rpc("prompts/list").result == {"prompts": []}
    assert client.rpc("resources/list").result["resources"]
    assert client.call("s1_echo", {"text": "a"}).text == "a"
    assert client.call("s1_headers").error == {"code": -32602, "message": "Unknown tool: s1_headers"}
    assert client.rpc("prompts/get", {"name": "s1_greet"}).error["code"] == -32602


def test_a_virtual_server_has_a_path_of_its_own(portico):
    """G1.85: in both eras, with all three verbs."""
    url = f"{portico.base}/mcp/v/dev"
    client = Client(url)
    client.init()
    assert names(client.rpc("tools/list")) == ["s1_echo"]
    assert client.call("s1_headers").error["code"] == -32602
    assert names(Client(url).rpc26("tools/list")) == ["s1_echo"]
    assert names(client.rpc("tools/list", headers={"x-mcp-virtualserver": "dev"})) == ["s1_echo"]
    sent = {"mcp-session-id": client.session, "accept": "text/event-stream"}
    for verb in ("GET", "DELETE"):
        other = fetch(url, method=verb, headers=sent | {"x-mcp-virtualserver": "ops"})
        assert other.status == 400
        assert "and the header another one" in other.json()["error"]["message"]
        assert fetch(f"{portico.base}/mcp/v/nobody", method=verb, headers=sent).status == 404
        assert fetch(f"{portico.base}/mcp/v/", method=verb, headers=sent).status == 404
    with client.stream() as stream:
        assert stream.status == 200
    assert fetch(url, method="DELETE", headers=sent).status == 200
    assert client.rpc("tools/list").status == 404


def test_an_unknown_virtual_server_is_refused(portico):
    """G1.56"""
    answer = started(portico).rpc("tools/list", headers={"x-mcp-virtualserver": "nobody"})
    assert (answer.status, answer.error["message"]) == (400, "there is no virtual server 'nobody'")


def test_each_user_sees_and_calls_his_own_tools(portico):
    """G1.59, G1.27"""
    ann, bob, nobody = (
        started(portico, **{"x-user": "ann"}),
        started(portico, **{"x-user": "bob"}),
        started(portico),
    )
    assert "mine_ann_only" in names(ann.rpc("tools/list"))
    assert "mine_ann_only" not in names(bob.rpc("tools/list"))
    assert "mine_bob_only" in names(bob.rpc("tools/list"))
    assert {"s1_echo", "mine_echo"} <= set(names(nobody.rpc("tools/list")))
    assert ann.call("mine_ann_only").result
    prompt = ann.rpc("prompts/get", {"name": "mine_greet", "arguments": {"name": "Ann"}})
    assert prompt.result["messages"]
    limited = started(portico, **{"x-user": "ann", "x-mcp-virtualserver": "dev"})
    assert names(limited.rpc("tools/list")) == ["s1_echo", "mine_ann_only"]
    assert limited.call("mine_echo").error["code"] == -32602


def test_a_personal_list_is_there_again_when_the_backend_has_forgotten_its_sessions(portico, echo):
    """G1.59"""
    ann, modern = started(portico, **{"x-user": "ann"}), portico.client(headers={"x-user": "ann"})
    for _ in range(2):
        assert "mine_ann_only" in names(ann.rpc("tools/list"))
        assert "mine_ann_only" in names(modern.rpc26("tools/list"))
        echo.control("forget_sessions")


def test_a_personal_list_that_cannot_be_had_costs_only_itself():
    """G1.59"""
    with echo_server() as good, echo_server() as bad:
        declared = config(("good", good.url, {}), ("bad", bad.url, {"user_specific_list": True}))
        with gateway(declared) as process:
            client = started(process)
            assert "bad_echo" in names(client.rpc("tools/list"))
            bad.close()
            assert {name.split("_")[0] for name in names(client.rpc("tools/list"))} == {"good"}


def test_the_session_header_may_have_a_second_name(portico):
    """G1.3"""
    client = portico.client()
    begun = client.init()
    assert begun.headers.get_all("mcp-session-id") == [begun.session]
    assert begun.headers.get_all("g-session-id") == [begun.session]
    alias = portico.client(headers={"g-session-id": begun.session})
    assert alias.rpc("ping").result == {}


def test_a_slow_backend_does_not_leave_the_client_in_silence(echo):
    limits = {"keepalive_s": 0.2}
    with gateway(config(("s1", echo.url, {}), limits=limits)) as process:
        client = started(process)
        answer = client.call("s1_slow", {"seconds": 1, "steps": 1})
        assert answer.status == 200
        assert answer.session == client.session
        assert answer.raw.startswith(b": keep-alive\n\n")
        assert answer.result
        plain = client.call("s1_slow", {"seconds": 1, "steps": 1}, headers={"accept": "application/json"})
        assert plain.json()["result"]


def test_of_two_streams_of_a_session_one_speaks(echo, portico):
    """The specification: a message goes out on one stream only."""
    client = started(portico)
    with client.stream() as old, client.stream() as new:
        echo.control("add_tool", name="spoken")
        echo.control("notify", method="notifications/tools/list_changed")
        portico.look()
        new.wait_for("notifications/tools/list_changed")
        assert not old.all()


@pytest.mark.serve_only(reasons.HANGS_UP)
def test_a_stream_speaks_again_when_the_one_that_came_after_it_has_gone(echo, portico):
    client = started(portico)
    with client.stream() as old, client.stream() as new:
        new.close()
        echo.control("add_tool", name="spoken_later")
        echo.control("notify", method="notifications/tools/list_changed")
        old.wait_for("notifications/tools/list_changed")


def test_a_batch_is_answered_together_and_its_notes_come_through(echo, portico):
    """C30"""
    client = portico.client()
    client.init("2025-03-26")
    slow = {"name": "s1_slow", "arguments": {"seconds": 0.2, "steps": 2}, "_meta": {"progressToken": 7}}
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": slow},
        {"jsonrpc": "2.0", "id": 2, "method": "ping"},
        {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {}},
    ]
    answer = client.post(json.dumps(batch).encode())
    messages = [received.message for received in answer.messages]
    assert sum(message.get("method") == "notifications/progress" for message in messages) == 2
    assert {message["id"] for message in messages if "id" in message} == {1, 2, 3}
    assert next(message for message in messages if message.get("id") == 3)["error"]["code"] == -32600
