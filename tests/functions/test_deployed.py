"""The deployment: template.yaml, built by `sam build`, each function a process, behind what API Gateway does."""

import json

import pytest

from tests.functions.replaying import replay
from tests.support import ROOT, Client, echo_server, eventually, fetch
from tests.support.deployed import SIGNED


@pytest.fixture(scope="module")
def client(deployed):
    client = Client(deployed.mcp)
    client.init()
    eventually(lambda: len(prefixes(client)) == 2, 20)
    return client


def prefixes(client):
    return {tool["name"].partition("_")[0] for tool in client.rpc("tools/list").result["tools"]}


def test_a_session_begins_lists_calls_and_ends(deployed, client):
    mine = Client(deployed.mcp)
    assert mine.init().result["serverInfo"]["name"] == "portico"
    assert prefixes(mine) == {"old", "new"}
    assert mine.call("old_echo", {"text": "a"}).text == "a"
    assert mine.call("new_echo", {"text": "b"}).text == "b"
    assert mine.delete().status == 200
    assert mine.rpc("tools/list").status == 404


def test_progress_arrives_as_it_is_sent(client):
    answer = client.call("old_slow", {"seconds": 1.5, "steps": 3}, meta={"progressToken": 1})
    times = [received.at for received in answer.messages]
    assert len(times) == 4
    assert times[-1] - times[0] > 0.5


def test_a_modern_client_needs_no_session(deployed, client):
    modern = Client(deployed.mcp)
    assert "2026-07-28" in modern.rpc26("server/discover").result["supportedVersions"]
    for name in ("old_echo", "new_echo"):
        answer = modern.call26(name, {"text": name})
        assert (answer.text, answer.session) == (name, None)


def test_a_held_call_goes_on_in_the_process_that_holds_it(deployed, client):
    modern = Client(deployed.mcp)
    able = {"capabilities": {"elicitation": {}}}
    asked = modern.call26("old_elicit", **able).result
    assert asked["resultType"] == "input_required"
    said = {"action": "accept", "content": {"name": "Ann"}}
    retry = {
        "name": "old_elicit",
        "arguments": {},
        "requestState": asked["requestState"],
        "inputResponses": dict.fromkeys(asked["inputRequests"], said),
    }
    assert '"Ann"' in modern.rpc26("tools/call", retry, **able).text


def test_a_legacy_client_is_asked_on_its_stream(deployed, client):
    mine = Client(deployed.mcp)
    mine.on["elicitation/create"] = lambda _: {"action": "accept", "content": {"name": "Eve"}}
    mine.init(capabilities={"elicitation": {}})
    assert '"Eve"' in mine.call("new_elicit").text


def test_errors_say_what_they_say_everywhere(deployed, client):
    assert client.call("nope").error == {"code": -32602, "message": "Unknown tool: nope"}
    assert Client(deployed.mcp).rpc("tools/list").status == 400
    mismatch = Client(deployed.mcp).rpc26("tools/list", headers={"mcp-method": "tools/call"})
    assert (mismatch.status, mismatch.error["code"]) == (400, -32020)


def operator(deployed, verb, path, fields=None):
    base = deployed.mcp.removesuffix("/mcp")
    return fetch(f"{base}{path}", fields, method=verb, headers=SIGNED)


def test_backends_come_and_go_without_another_deployment(deployed, client):
    """G1.32, G1.92"""
    with echo_server() as late:
        assert operator(deployed, "POST", "/backends", {"name": "late", "url": late.url}).status == 201
        eventually(lambda: "late" in prefixes(client), 10)
        assert client.call("late_echo", {"text": "a"}).text == "a"
        assert operator(deployed, "PATCH", "/backends/late", {"enabled": False}).status == 200
        eventually(lambda: "late" not in prefixes(client), 10)
        assert operator(deployed, "PATCH", "/backends/late", {"enabled": True}).status == 200
        eventually(lambda: "late" in prefixes(client), 10)
    assert operator(deployed, "DELETE", "/backends/late").status == 204
    eventually(lambda: "late" not in prefixes(client), 10)
    assert operator(deployed, "GET", "/backends/late").status == 404
    assert client.call("late_echo", {"text": "a"}).error["message"] == "Unknown tool: late_echo"


def test_what_operators_may_ask_is_described_and_nobody_may_ask_it_unsigned(deployed):
    base = deployed.mcp.removesuffix("/mcp")
    paths = fetch(f"{base}/openapi.json", headers=SIGNED).json()["paths"]
    assert {"/backends", "/backends/{name}", "/status"} <= paths.keys()
    assert fetch(f"{base}/docs", headers=SIGNED).status == 200
    for verb, path in (("GET", "/backends"), ("POST", "/backends"), ("GET", "/status"), ("GET", "/services")):
        assert fetch(f"{base}{path}", {} if verb == "POST" else None, method=verb).status in (401, 403, 404)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("edge", "list"),
        ("initialize", "initialize"),
        ("metadata", "health"),
        ("control", "backends"),
        ("control", "status-unknown"),
    ],
)
def test_a_custom_domain_with_a_base_path_leads_to_the_same(deployed, function, name):
    """API Gateway leaves that path before the route's own, in the event's `path`."""
    event = json.loads((ROOT / "events" / f"{function}.{name}.json").read_text())
    below = event | {"path": f"/tools{event['path']}"}
    plain, found = (replay(deployed, function, each) for each in (event, below))
    assert (found.status, found.body) == (plain.status, plain.body)
