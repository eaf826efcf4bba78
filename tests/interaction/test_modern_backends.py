"""Backends of 2026-07-28: how they are recognised, met again when they change, listened to, and called."""

import json
from functools import partial

import pytest

from tests.support import MODERN, config, echo26_server, eventually, gateway, reasons

SELDOM = {"interval_s": 3600}
ASKS = {"elicitation": {}}


@pytest.fixture(scope="module")
def echo26():
    with echo26_server() as server:
        yield server


@pytest.fixture(scope="module")
def portico(echo26):
    with gateway(config(("s1", echo26.url, {}), discovery=SELDOM)) as process:
        yield process


def status(process, name):
    return process.operator(f"/status/{name}").json()


def legacy_caller(portico):
    client = portico.client()
    client.init()
    return client.call


def modern_caller(portico):
    client = portico.client()
    return client.call26


@pytest.mark.parametrize("caller", [legacy_caller, modern_caller], ids=["legacy client", "modern client"])
def test_a_backend_that_has_changed_its_era_is_met_again_and_no_call_is_lost(caller):
    """G1.100, C34: the very next call works, and so do those after it; each is made once."""
    with (
        echo26_server(era="modern") as echo,
        gateway(config(("s1", echo.url, {}), discovery=SELDOM)) as portico,
    ):
        call = caller(portico)
        for era in ("modern", "legacy", "modern", "both", "legacy", "both", "modern"):
            echo.control("era", value=era)
            echo.control("reset_log")
            assert call("s1_echo", {"text": f"now {era}"}).text == f"now {era}"
            assert call("s1_echo", {"text": "again"}).text == "again"
            assert caller(portico)("s1_echo", {"text": "another"}).text == "another"
            assert echo.counters()["calls"] == 3


def test_a_change_of_era_in_the_middle_of_a_question_is_told_and_the_next_call_works(echo26):
    """G1.100: what was under way at the old server is lost, and said to be."""
    with (
        echo26_server(era="legacy") as echo,
        gateway(config(("s1", echo.url, {}), discovery=SELDOM)) as portico,
    ):
        client = portico.client()
        need = client.call26("s1_elicit", capabilities=ASKS).result
        echo.control("era", value="modern")
        answers = {key: {"action": "decline"} for key in need["inputRequests"]}
        params = {"name": "s1_elicit", "arguments": {}, "inputResponses": answers}
        lost = client.rpc26("tools/call", params | {"requestState": need["requestState"]}, capabilities=ASKS)
        assert lost.error["message"]
        assert lost.status >= 400
        assert client.call26("s1_echo", {"text": "hi"}).text == "hi"


def test_the_era_is_seen_once_and_shown(portico, echo26):
    """G1.100"""
    eventually(lambda: status(portico, "s1")["ready"])
    assert status(portico, "s1")["protocolValidation"]["supportedVersion"] == MODERN
    echo26.control("reset_log")
    client = portico.client()
    client.init()
    for _ in range(3):
        client.call("s1_echo", {"text": "hi"})
        client.call26("s1_echo", {"text": "hi"})
    assert not echo26.seen("server/discover")
    assert not echo26.seen("initialize")


@pytest.mark.serve_only(reasons.NO_STREAM)
def test_discovery_listens_for_every_change_of_a_list():
    """G1.44, C29"""
    with echo26_server() as fresh, gateway(config(("s2", fresh.url, {}), discovery=SELDOM)) as other:
        (seen,) = eventually(lambda: fresh.seen("subscriptions/listen"))
        wanted = json.loads(seen["body"])["params"]["notifications"]
        assert wanted["toolsListChanged"] is True
        assert seen["headers"]["mcp-method"] == "subscriptions/listen"
        client = other.client()
        fresh.control("add_tool", name="fresh")
        fresh.control("notify")
        eventually(lambda: client.call26("s2_fresh").status == 200)
        for gracefully in (True, False):
            assert fresh.control("close_streams", gracefully=gracefully)["sent"] == 1
            name = f"missed_{gracefully}".lower()
            fresh.control("add_tool", name=name)
            eventually(lambda name=name: client.call26(f"s2_{name}").status == 200)


@pytest.mark.serve_only("how often a deployment looks is its schedule's to say")
def test_a_listing_that_is_good_for_a_second_is_asked_for_again_after_it():
    """G1.57: however seldom discovery looks by itself."""
    with echo26_server() as echo:
        echo.control("cache", method="tools/list", ttlMs=1000, cacheScope="public")
        with gateway(config(("s1", echo.url, {}), discovery=SELDOM)) as portico:
            echo.control("add_tool", name="unannounced")
            eventually(lambda: portico.client().call26("s1_unannounced").status == 200)


PARAMETERS = {
    "plain": ({"region": "eu", "count": 3, "plain": "p"}, {"mcp-param-region": "eu", "mcp-param-count": "3"}),
    "encoded": ({"region": "grün"}, {"mcp-param-region": "=?base64?Z3LDvG4=?="}),
    "null": ({"region": None}, {}),
    "nothing": ({}, {}),
    "of another type": ({"region": ["eu"]}, {}),
    "large": ({"count": 2**70}, {"mcp-param-count": str(2**70)}),
}


@pytest.mark.parametrize(("arguments", "headers"), PARAMETERS.values(), ids=PARAMETERS)
def test_a_legacy_client_s_arguments_are_repeated_in_headers_for_it(portico, arguments, headers):
    """G1.100"""
    client = portico.client()
    client.init()
    assert json.loads(client.call("s1_region", arguments).text) == {
        "arguments": arguments,
        "headers": headers,
    }


INVALID = {
    "on a number": {"type": "number", "x-mcp-header": "A"},
    "with a space": {"type": "string", "x-mcp-header": "a b"},
    "empty": {"type": "string", "x-mcp-header": ""},
    "not a string": {"type": "string", "x-mcp-header": 5},
    "in a list": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}},
}


def test_tools_whose_headers_are_nonsense_are_left_out_and_named(portico, echo26):
    """G1.48, G1.98"""
    for n, inner in enumerate(INVALID.values()):
        schema = {"type": "object", "properties": {"p": inner}}
        echo26.control("add_tool", name=f"bad_{n}", tool={"inputSchema": schema})
    twice = {name: {"type": "string", "x-mcp-header": header} for name, header in (("p", "A"), ("q", "a"))}
    echo26.control(
        "add_tool", name="bad_twice", tool={"inputSchema": {"type": "object", "properties": twice}}
    )
    echo26.control("add_tool", name="good")
    echo26.control("notify")
    portico.look()
    client = portico.client()
    eventually(lambda: client.call26("s1_good").status == 200)
    listed = [tool["name"] for tool in client.rpc26("tools/list").result["tools"]]
    assert not [name for name in listed if "bad_" in name]
    named = eventually(lambda: status(portico, "s1")["invalidToolList"])
    assert {tool["name"] for tool in named} == {*(f"bad_{n}" for n in range(len(INVALID))), "bad_twice"}
    assert all("x-mcp-header" in tool["reason"] for tool in named)


def test_structured_content_that_is_no_object_is_put_into_one_for_legacy_clients_alone(portico, echo26):
    """G1.100: and so is what its schema says of it."""
    schema = {"type": "array", "items": {"type": "number"}}
    echo26.control("add_tool", name="numbers", tool={"outputSchema": schema})
    echo26.control("notify")
    portico.look()
    content = [{"type": "text", "text": "1"}]
    said = {"resultType": "complete", "content": content, "structuredContent": [1.5, 2], "com.example/x": 1}
    modern, legacy = portico.client(), portico.client()
    legacy.init()
    for answer in (partial(modern.rpc26, "tools/list"), partial(legacy.rpc, "tools/list")):
        eventually(lambda answer=answer: b"s1_numbers" in answer().raw)
    echo26.control("say", method="tools/call", result=said)
    try:
        there, back = modern.call26("s1_numbers").result, legacy.call("s1_numbers").result
    finally:
        echo26.control("say")
    assert there == said
    assert back == {"content": content, "structuredContent": {"result": [1.5, 2]}, "com.example/x": 1}

    def shown(answer):
        (tool,) = (tool for tool in answer.result["tools"] if tool["name"] == "s1_numbers")
        return tool["outputSchema"]

    assert shown(modern.rpc26("tools/list")) == schema
    wrapped = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    assert shown(legacy.rpc("tools/list")) == wrapped


def test_a_call_that_is_cancelled_while_its_client_is_asked_is_not_begun_again(portico, echo26):
    """G1.100"""
    client = portico.client()
    client.init(capabilities={"elicitation": {}})
    call = client.begin_call("s1_elicit", id="asked")
    call.wait_for("elicitation/create")
    echo26.control("reset_log")
    client.notify("notifications/cancelled", {"requestId": "asked"})
    call.wait_closed()
    assert client.call("s1_echo", {"text": "next"}).text == "next"
    assert len(echo26.seen("tools/call")) == 1


STRAY = {
    "a request": {"jsonrpc": "2.0", "id": "stray", "method": "roots/list"},
    "another call's answer": {"jsonrpc": "2.0", "id": "stray", "result": {}},
}


@pytest.mark.parametrize("caller", [legacy_caller, modern_caller], ids=["legacy client", "modern client"])
@pytest.mark.parametrize("message", STRAY.values(), ids=STRAY)
def test_what_no_modern_server_says_within_a_call_is_not_passed_on(portico, caller, message):
    """The specification: notifications and the answer, nothing else."""
    answer = caller(portico)("s1_stray", {"message": message})
    assert answer.error["code"] == -32000
    assert b"stray" not in answer.raw.replace(b"s1_stray", b"")
