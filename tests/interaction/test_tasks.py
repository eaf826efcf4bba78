"""Tasks, relayed between client and server of one era."""

import pytest

from tests.support import config, gateway
from tests.support.servers import start

EXTENSION = "io.modelcontextprotocol/tasks"
ABLE = {"extensions": {EXTENSION: {}}, "elicitation": {}}


@pytest.fixture(scope="module")
def portico():
    with (
        start("tests.servers.tasks", "--era", "legacy") as one,
        start("tests.servers.tasks", "--era", "legacy") as two,
        start("tests.servers.tasks", "--era", "modern") as new,
        gateway(config(("one", one.url, {}), ("two", two.url, {}), ("new", new.url, {}))) as process,
    ):
        yield process


def begin(client, tool):
    call = {"name": tool, "arguments": {}, "task": {"ttl": 60000}}
    return client.rpc("tools/call", call).result["task"]["taskId"]


def test_a_legacy_task_is_begun_followed_and_fetched_at_its_own_backend(client):
    task, other = begin(client, "one_job"), begin(client, "two_job")
    assert client.rpc("tasks/get", {"taskId": task}).result["status"] == "working"
    result = client.rpc("tasks/result", {"taskId": task}).result
    assert result["content"] == [{"type": "text", "text": "done"}]
    assert result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task}
    assert client.rpc("tasks/cancel", {"taskId": other}).result["status"] == "cancelled"
    assert client.rpc("tasks/get", {"taskId": task}).result["status"] == "completed"
    listed = client.rpc("tasks/list").result["tasks"]
    assert {task, other} <= {item["taskId"] for item in listed}


def test_capabilities_say_which_tasks_there_are(portico):
    said = portico.client().init().result["capabilities"]["tasks"]
    assert said == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert portico.client().rpc26("server/discover").result["capabilities"]["extensions"] == {EXTENSION: {}}


def test_a_task_is_unknown_to_everybody_else(portico, client):
    task = begin(client, "one_job")
    stranger = portico.client()
    stranger.init()
    assert stranger.rpc("tasks/get", {"taskId": task}).error == {"code": -32602, "message": "Unknown task"}
    assert client.rpc("tasks/get", {"taskId": "nobody's"}).error["code"] == -32602
    assert client.rpc("tasks/get", {"taskId": 5}).error["code"] == -32602


def test_a_modern_task_asks_is_answered_and_completes(portico):
    client = portico.client()
    created = client.call26("new_job", capabilities=ABLE).result
    assert created["resultType"] == "task"
    named = {"taskId": created["taskId"]}
    asking = client.rpc26(
        "tasks/get", named, capabilities=ABLE, headers={"mcp-name": created["taskId"]}
    ).result
    assert asking["inputRequests"]["go"]["method"] == "elicitation/create"
    answers = {"inputResponses": {"go": {"action": "accept"}}}
    sent = {"capabilities": ABLE, "headers": {"mcp-name": created["taskId"]}}
    assert client.rpc26("tasks/update", named | answers, **sent).result["resultType"] == "complete"
    done = client.rpc26("tasks/get", named, **sent).result
    assert (done["status"], done["result"]["content"][0]["text"]) == ("completed", "done")
    assert done["answered"] == answers["inputResponses"]


def test_a_modern_task_tells_how_it_is(portico):
    client = portico.client()
    task = client.call26("new_job", capabilities=ABLE).result["taskId"]
    wanted = {"notifications": {"taskIds": [task, "unknown"]}}
    refused = client.rpc26("subscriptions/listen", wanted)
    assert (refused.status, refused.error["code"]) == (400, -32021)
    with client.begin26("subscriptions/listen", wanted, capabilities=ABLE, id="s") as stream:
        agreed = stream.wait_for("notifications/subscriptions/acknowledged")["params"]["notifications"]
        assert agreed == {"taskIds": [task]}
        told = stream.wait_for("notifications/tasks")["params"]
        assert told["taskId"] == task
        assert told["_meta"] == {"io.modelcontextprotocol/subscriptionId": "s"}


def test_a_task_is_named_in_the_header_too(portico):
    client = portico.client()
    task = client.call26("new_job", capabilities=ABLE).result["taskId"]
    answer = client.rpc26("tasks/get", {"taskId": task}, capabilities=ABLE, headers={"mcp-name": "other"})
    assert (answer.status, answer.error["code"]) == (400, -32020)


def test_across_eras_a_call_that_could_be_a_task_is_simply_answered(portico, client):
    """C34"""
    assert client.call("new_job").text == "done"
    call = {"name": "new_job", "arguments": {}, "task": {"ttl": 1000}}
    assert client.rpc("tools/call", call).text == "done"
    assert portico.client().call26("one_job", capabilities=ABLE).text == "done"
