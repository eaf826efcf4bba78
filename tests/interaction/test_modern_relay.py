"""A modern client and a modern backend: relayed, with nothing kept and nothing changed but the name."""

import base64
import contextlib
import sqlite3

import pytest

from tests.support import MODERN, config, echo26_server, gateway, reasons

META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28", "io.modelcontextprotocol/clientCapabilities":{}}'
HEADERS = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call"}


@pytest.fixture(scope="module")
def echo26():
    with echo26_server() as server:
        yield server


@pytest.fixture(scope="module")
def portico(echo26):
    declared = config(
        ("new", echo26.url, {}),
        ("bare", echo26.url, {"prefix": "", "forward_headers": ["x-request-id"]}),
        store="sqlite:portico.db",
    )
    with gateway(declared) as process:
        yield process


@pytest.fixture
def client(portico):
    return portico.client()


ODD = (
    ' {"params" : {"arguments":{"n":1.0e2,"b":12345678901234567890123,"u":"\\u00e4ä","e":"\\/"},  "name":"%s",'
    + META
    + ',"com.example/x":[ ]}, "method":"tools/call","jsonrpc":"2.0","id":"\\u0061", "extra":null}\n'
)


@pytest.mark.parametrize(("called", "upstream"), [("new_body", "body"), ("body", "body")])
def test_only_the_prefix_is_taken_away_from_body_and_header(client, called, upstream):
    """G1.99, G1.19: numbers, escapes, spaces, unknown members and the id stay as they were written."""
    answer = client.post((ODD % called).encode(), {**HEADERS, "Mcp-Name": called}, rpc_id="a")
    assert base64.b64decode(answer.text).decode() == ODD % upstream


def test_the_headers_say_what_the_body_says(client, echo26):
    """G1.99"""
    echo26.control("reset_log")
    for name, params in (
        ("tools/call", {"name": "new_echo", "arguments": {"text": "hi"}}),
        ("prompts/get", {"name": "new_greet", "arguments": {"name": "A"}}),
        ("resources/read", {"uri": "echo://static/one"}),
    ):
        assert client.rpc26(name, params).status == 200
    seen = [entry for entry in echo26.seen(http="POST") if entry["method"].partition("/")[2] != "list"]
    named = [(e["headers"]["mcp-method"], e["headers"].get("mcp-name")) for e in seen if e["status"] == 200]
    assert named[:3] == [
        ("tools/call", "echo"),
        ("prompts/get", "greet"),
        ("resources/read", "echo://static/one"),
    ]
    assert {entry["headers"]["mcp-protocol-version"] for entry in seen} == {MODERN}
    assert [entry["headers"].get("mcp-session-id") for entry in seen] == [None] * len(seen)


def test_tokens_and_other_headers_stay_behind_and_what_may_pass_does(client, echo26):
    """G1.99, G1.13"""
    echo26.control("reset_log")
    given = {"Authorization": "Bearer secret", "X-Request-Id": "r1", "X-Other": "o", "Mcp-Param-Region": "eu"}
    assert client.call26("region", {"region": "eu"}, headers=given).status == 200
    (seen,) = echo26.seen("tools/call")
    passed = {name: seen["headers"].get(name) for name in ("authorization", "x-request-id", "x-other")}
    assert passed == {"authorization": None, "x-request-id": "r1", "x-other": None}
    assert seen["headers"]["mcp-param-region"] == "eu"


@pytest.mark.parametrize(
    ("method", "params", "capabilities", "status", "code"),
    [
        ("tools/call", {"name": "new_elicit"}, {}, 400, -32021),
        ("tools/call", {"name": "new_echo"}, {}, 400, -32602),
        ("tools/call", {"name": "new_rpc_error"}, {}, 200, -32050),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "new_greet"}}, {}, 400, -32602),
    ],
)
def test_a_backend_s_refusal_goes_on_unchanged(client, echo26, method, params, capabilities, status, code):
    """G1.99: the code and status are the backend's own, and so is every word."""
    given = client.rpc26(method, params, capabilities=capabilities, id="same")
    assert (given.status, given.error["code"]) == (status, code)
    upstream = {**params}
    if "name" in params:
        upstream["name"] = params["name"].removeprefix("new_")
    if "ref" in params:
        upstream["ref"] = {**params["ref"], "name": "greet"}
    direct = type(client)(echo26.url).rpc26(method, upstream, capabilities=capabilities, id="same")
    assert given.raw == direct.raw


def test_a_method_that_the_backend_no_longer_knows_is_404(client, echo26):
    """G1.98, G1.99"""
    echo26.control("drop_capability", name="completions")
    params = {"ref": {"type": "ref/prompt", "name": "new_greet"}, "argument": {"name": "name", "value": "a"}}
    try:
        answer = client.rpc26("completion/complete", params, id="c")
        assert (answer.status, answer.error["code"], answer.message["id"]) == (404, -32601, "c")
    finally:
        echo26.control("drop_capability")


def test_a_question_and_its_answer_go_through_with_the_backend_s_own_state(client):
    """G1.99"""
    asks = {"elicitation": {}}
    need = client.call26("new_elicit", capabilities=asks).result
    assert need["resultType"] == "input_required"
    assert not need["requestState"].startswith("portico")
    answers = {key: {"action": "accept", "content": {"name": "A"}} for key in need["inputRequests"]}
    params = {"name": "new_elicit", "arguments": {}, "inputResponses": answers}
    done = client.rpc26(
        "tools/call", params | {"requestState": need["requestState"]}, capabilities=asks
    ).result
    assert done["resultType"] == "complete"


def test_progress_and_log_lines_come_while_the_call_runs(client):
    """G1.23, G1.99"""
    meta = {"progressToken": "t", "io.modelcontextprotocol/logLevel": "debug"}
    call = client.begin26(
        "tools/call", {"name": "new_slow", "arguments": {"seconds": 0.2, "steps": 2}, "_meta": meta}
    )
    assert call.wait_for("notifications/progress")["params"]["progressToken"] == "t"
    assert call.answer().text.startswith("slept")


@pytest.mark.serve_only(reasons.ITS_STORE)
def test_the_store_has_no_part_in_it(echo26):
    """G1.99, G1.97: without a store, sessions fail, and modern clients are served by modern backends all the same."""
    with gateway(config(("new", echo26.url, {}), store="sqlite:portico.db")) as portico:
        client = portico.client()
        with contextlib.closing(sqlite3.connect(portico.directory / "portico.db")) as connection:
            kept = connection.execute("SELECT partition FROM records").fetchall()
            connection.execute("DROP TABLE records")
        assert {partition for (partition,) in kept} <= {"LISTING", "STATUS", "LEASE"}
        assert client.init(initialized=False).status == 503
        assert client.call26("new_echo", {"text": "no store"}).text == "no store"
        assert client.rpc26("tools/list").result["tools"]
        assert client.rpc26("server/discover").status == 200
        assert client.rpc26("prompts/get", {"name": "new_greet", "arguments": {"name": "A"}}).status == 200
        assert client.rpc26("resources/read", {"uri": "echo://static/one"}).status == 200
        question = client.call26("new_elicit", capabilities={"elicitation": {}})
        assert question.result["resultType"] == "input_required"
    assert echo26.counters()["sessions_open"] == 0
