"""What a deployed call leaves behind: a line, a metric, a trace, and no secret."""

import json
import re

import pytest

from tests.support import Client, eventually

TOKEN = "opaque-0123456789-never-to-be-logged"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJuZXZlci10by1iZS1sb2dnZWQifQ.bmV2ZXItdG8tYmUtbG9nZ2Vk"
TRACE = re.compile(r"1-[0-9a-f]{8}-[0-9a-f]{24}")


def lines(deployed, function="", **wanted):
    """The JSON lines of a function, those that say all of this."""
    found = []
    for text in deployed.stderr().splitlines():
        name, _, line = text.partition("] ")
        if line.startswith("{") and name.startswith(f"[{function}"):
            said = json.loads(line)
            if all(said.get(key) == value for key, value in wanted.items()):
                found.append(said)
    return found


def one(deployed, function, **wanted):
    eventually(lambda: lines(deployed, function, **wanted), 10)
    (found,) = lines(deployed, function, **wanted)
    return found


@pytest.fixture(scope="module")
def client(deployed):
    client = Client(deployed.mcp, headers={"Authorization": f"Bearer {TOKEN}", "Cookie": f"sid={JWT}"})
    client.init()
    eventually(lambda: len(client.rpc("tools/list").result["tools"]) > 2, 20)
    return client


def test_a_call_leaves_one_line_and_one_metric(deployed, client):
    assert client.call("old_echo", {"text": "a"}, headers={"X-Request-Id": "call-1"}).text == "a"
    said = one(deployed, "ToolsCallFunction", correlation_id="call-1")
    assert {
        name: said[name] for name in ("level", "service", "method", "tool", "backend", "outcome", "status")
    } == {
        "level": "INFO",
        "service": "portico",
        "method": "tools/call",
        "tool": "old_echo",
        "backend": "old",
        "outcome": "ok",
        "status": 200,
    }
    assert said["duration_ms"] > 0
    assert TRACE.fullmatch(said["xray_trace_id"])
    assert isinstance(said["cold_start"], bool)
    counted = one(
        deployed, "ToolsCallFunction", function_request_id=said["function_request_id"], Requests=[1.0]
    )
    (directive,) = counted["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Portico"
    assert sorted(map(sorted, directive["Dimensions"])) == [["backend", "function"], ["function", "service"]]
    assert {metric["Name"] for metric in directive["Metrics"]} == {"Requests", "Duration", "Ok"}
    assert (counted["backend"], counted["tool"], counted["Ok"]) == ("old", "old_echo", [1.0])
    assert counted["Duration"] == [said["duration_ms"]]


@pytest.mark.parametrize(
    ("tool", "arguments", "outcome"),
    [
        ("old_fail", {"message": "x"}, "tool_error"),
        ("nope", {}, "refused"),
        ("old_echo", {"text": '"error"'}, "ok"),
    ],
)
def test_a_line_says_what_became_of_the_call(deployed, client, tool, arguments, outcome):
    name = f"became-{tool}"
    client.call(tool, arguments, headers={"X-Request-Id": name})
    assert one(deployed, "ToolsCallFunction", correlation_id=name)["outcome"] == outcome


def test_what_is_handed_over_has_one_trace_with_its_upstream_call(deployed, client, backends):
    """A client that sends no trace gets one; one that does keeps its own."""
    client.call("old_headers", headers={"X-Request-Id": "traced"})
    edge = [said for said in lines(deployed, "EdgeFunction") if said.get("Requests") == [1.0]]
    assert edge
    own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    seen = client.call("old_headers", headers={"traceparent": own}).text
    assert own in seen
    made = re.search(r"00-([0-9a-f]{32})-[0-9a-f]{16}-0[01]", client.call("old_headers").text)
    assert one(deployed, "ToolsCallFunction", correlation_id=made[1])["tool"] == "old_headers"


def test_a_schedule_is_counted_too(deployed, client):
    eventually(lambda: lines(deployed, "DiscoveryFunction", Requests=[1.0]), 10)
    assert all(said["function"] for said in lines(deployed, "DiscoveryFunction", Requests=[1.0]))


def test_no_line_has_a_token(deployed, client):
    client.call("old_fail", {"message": f"{TOKEN} is not valid, Authorization: Bearer {JWT}"})
    client.call(f"unknown {TOKEN}", {}, headers={"X-Request-Id": TOKEN})
    client.rpc(f"method/{JWT}")
    client.post(f'{{"broken": "{TOKEN}'.encode())
    client.rpc("tools/list", headers={"Mcp-Session-Id": JWT})
    eventually(lambda: lines(deployed, "ToolsListFunction", status=404), 10)
    written = deployed.stderr()
    assert TOKEN not in written
    assert JWT.split(".")[1] not in written
    assert client.session not in written
