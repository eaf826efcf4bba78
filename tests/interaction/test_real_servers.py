"""Servers that other people wrote, behind Portico: nothing they say directly is lost or changed on the way."""

import base64
import gzip
import json
import re
import socket

import pytest

from tests import npm
from tests.support import Client, Process, config, eventually, gateway

pytestmark = pytest.mark.timeout(300)  # the first run installs

EVERYTHING = "@modelcontextprotocol/server-everything"
EVERYTHING_VERSION = "2026.8.31"
CAPABILITIES = {
    "roots": {"listChanged": True},
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {"requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
}
SAID = {
    "role": "assistant",
    "content": {"type": "text", "text": "a poem"},
    "model": "m",
    "stopReason": "endTurn",
}
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
VARYING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{1,2}:\d\d:\d\d [AP]M")
CALLS = {
    "echo": {"message": "grüß dich 🎉"},
    "get-annotated-message": {"messageType": "error", "includeImage": True},
    "get-env": {},
    "get-resource-links": {"count": 4},
    "get-resource-reference": {"resourceType": "Text", "resourceId": 2},
    "get-roots-list": {},
    "get-structured-content": {"location": "Chicago"},
    "get-sum": {"a": 1, "b": 2.5},
    "get-tiny-image": {},
    "gzip-file-as-resource": {"data": "data:text/plain,hello", "outputType": "resource"},
    "simulate-research-query": {"topic": "python"},
    "toggle-simulated-logging": {},
    "toggle-subscriber-updates": {},
    "trigger-elicitation-request": {},
    "trigger-elicitation-request-async": {},
    "trigger-long-running-operation": {"duration": 0.1, "steps": 2},
    "trigger-sampling-request": {"prompt": "a poem", "maxTokens": 10},
    "trigger-sampling-request-async": {"prompt": "a poem", "maxTokens": 10},
    "trigger-url-elicitation": {"url": "http://127.0.0.1/form", "elicitationId": "e1"},
}
PROMPTS = {
    "simple-prompt": {},
    "args-prompt": {"city": "Łódź", "state": "PL"},
    "completable-prompt": {"department": "Sales", "name": "Eve"},
    "resource-prompt": {"resourceType": "Text", "resourceId": "3"},
}


def person(url):
    """A client that can do all a server may ask for, connected, with its stream open."""
    client = Client(url)
    client.roots = [{"uri": "file:///home", "name": "home"}]
    client.on = {
        "ping": lambda _: {},
        "roots/list": lambda _: {"roots": client.roots},
        "sampling/createMessage": lambda params: _task("sampling") if "task" in params else SAID,
        "elicitation/create": lambda params: _task("elicitation") if "task" in params else _filled_in(params),
        "tasks/get": lambda params: _task(params["taskId"], "completed")["task"],
        "tasks/result": lambda params: SAID if params["taskId"] == "sampling" else _filled_in(params),
    }
    client.init(capabilities=CAPABILITIES)
    client.listening = client.stream()
    return client


def _task(name, status="working"):
    times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
    return {"task": {"taskId": name, "status": status, "ttl": None, "pollInterval": 10, **times}}


def _filled_in(params):
    if params.get("mode") == "url":
        return {"action": "accept"}
    return {"action": "accept", "content": {"name": "Ann", "check": True, "integer": 7}}


def steady(message):
    """What of an answer is the same in every session and at any time."""
    kept = {name: message[name] for name in ("result", "error") if name in message}
    return VARYING.sub("…", json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False))


def exposed(name, items, prefix):
    return [
        {**item, "name": prefix + item["name"]} if name in ("tools", "prompts") else item for item in items
    ]


@pytest.fixture(scope="module")
def everything():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    entry = npm.install(f"{EVERYTHING}@{EVERYTHING_VERSION}") / EVERYTHING / "dist" / "index.js"
    ready = re.compile(r"listening on port (\d+)")
    with Process([npm.node(), str(entry), "streamableHttp"], env={"PORT": str(port)}, ready=ready) as process:
        process.url = f"http://127.0.0.1:{port}/mcp"
        yield process


@pytest.fixture(scope="module")
def portico(everything):
    with gateway(config(("ev", everything.url, {}))) as process:
        yield process


@pytest.fixture(scope="module")
def direct(everything):
    client = person(everything.url)
    yield client
    client.listening.close()


@pytest.fixture(scope="module")
def through(portico):
    """Its stream is heard: on AWS another function has it, and knows of the server's session a little later."""
    client = person(portico.url)

    def asked():
        client.notify("notifications/roots/list_changed")
        return client.listening.all("roots/list")

    client.call("ev_echo", {"message": "hi"})
    eventually(asked, 20)
    yield client
    client.listening.close()


@pytest.mark.parametrize(("method", "name"), LISTS.items())
def test_everything_is_listed_as_the_server_lists_it(direct, through, method, name):
    own = direct.rpc(method).result[name]
    assert own
    assert through.rpc(method).result[name] == exposed(name, own, "ev_")


def test_no_tool_and_no_prompt_is_left_untried(direct):
    assert {tool["name"] for tool in direct.rpc("tools/list").result["tools"]} == set(CALLS)
    assert {prompt["name"] for prompt in direct.rpc("prompts/list").result["prompts"]} == set(PROMPTS)


@pytest.mark.parametrize("tool", CALLS)
def test_every_tool_answers_as_it_does_directly(direct, through, tool):
    own = direct.call(tool, CALLS[tool])
    assert steady(through.call(f"ev_{tool}", CALLS[tool]).message) == steady(own.message)


@pytest.mark.serve_only(
    "on AWS the client's stream is another function's, which hears of a new session within a second"
)
def test_the_first_call_of_a_session_may_ask_on_the_servers_own_stream(portico):
    client = person(portico.url)
    assert "file:///home" in client.call("ev_get-roots-list").text
    client.listening.close()


def test_a_change_of_roots_is_asked_for_again(through):
    through.call("ev_get-roots-list")
    through.roots = [{"uri": "file:///elsewhere", "name": "elsewhere"}]
    through.notify("notifications/roots/list_changed")
    eventually(lambda: "file:///elsewhere" in through.call("ev_get-roots-list").text)


@pytest.mark.parametrize("steps", [1, 4])
def test_progress_is_reported_step_by_step(through, steps):
    arguments = {"duration": 0.2, "steps": steps}
    answer = through.call("ev_trigger-long-running-operation", arguments, meta={"progressToken": "p"})
    told = [received.message["params"] for received in answer.messages[:-1] if received.message]
    assert told == [{"progressToken": "p", "progress": n, "total": steps} for n in range(1, steps + 1)]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get-sum", {"a": "one", "b": 2}),
        ("get-structured-content", {"location": "Atlantis"}),
        ("trigger-url-elicitation", {"url": "http://127.0.0.1/x", "errorPath": True}),
    ],
)
def test_a_tools_failure_is_the_same_as_directly(direct, through, tool, arguments):
    own = direct.call(tool, arguments).message
    assert own.get("error") or own["result"]["isError"]
    assert steady(through.call(f"ev_{tool}", arguments).message) == steady(own)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_every_prompt_reads_as_it_does_directly(direct, through, prompt):
    own, theirs = (
        client.rpc("prompts/get", {"name": prefix + prompt, "arguments": PROMPTS[prompt]})
        for client, prefix in ((direct, ""), (through, "ev_"))
    )
    assert own.result["messages"]
    assert steady(theirs.message) == steady(own.message)


def test_every_resource_reads_as_it_does_directly(direct, through):
    listed = [resource["uri"] for resource in through.rpc("resources/list").result["resources"]]
    made = ["demo://resource/dynamic/text/1", "demo://resource/dynamic/text/nonsense"]
    for uri in [*listed, *made]:
        own = direct.rpc("resources/read", {"uri": uri})
        assert steady(through.rpc("resources/read", {"uri": uri}).message) == steady(own.message)
    blob = through.rpc("resources/read", {"uri": "demo://resource/dynamic/blob/1"}).result["contents"][0]
    assert b"Resource 1" in base64.b64decode(blob["blob"])


def test_a_resource_that_only_this_session_has_can_be_read(through):
    """A tool may link to what no listing has."""
    answer = through.call("ev_gzip-file-as-resource", {"name": "own.gz", "data": "data:text/plain,mine"})
    (link,) = answer.result["content"]
    (read,) = through.rpc("resources/read", {"uri": link["uri"]}).result["contents"]
    assert gzip.decompress(base64.b64decode(read["blob"])) == b"mine"


@pytest.mark.parametrize(
    ("reference", "argument", "context", "values"),
    [
        ({"type": "ref/prompt", "name": "completable-prompt"}, ("department", "S"), {}, ["Sales", "Support"]),
        (
            {"type": "ref/prompt", "name": "completable-prompt"},
            ("name", ""),
            {"department": "Sales"},
            ["David", "Eve", "Frank"],
        ),
        (
            {"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"},
            ("resourceId", "7"),
            {},
            ["7"],
        ),
    ],
)
def test_completion_knows_prompts_and_templates(direct, through, reference, argument, context, values):
    for client, prefix in ((direct, ""), (through, "ev_")):
        named = {**reference, "name": prefix + reference["name"]} if "name" in reference else reference
        asked = {
            "ref": named,
            "argument": dict(zip(("name", "value"), argument, strict=True)),
            "context": {"arguments": context},
        }
        assert client.rpc("completion/complete", asked).result["completion"]["values"] == values


def test_log_messages_come_in_the_level_that_was_asked_for(portico):
    client = person(portico.url)
    assert client.rpc("logging/setLevel", {"level": "debug"}).result == {}
    client.call("ev_toggle-simulated-logging")
    told = client.listening.wait_for("notifications/message", 15)  # it logs every five seconds
    assert told["params"]["level"] in {
        "debug",
        "info",
        "notice",
        "warning",
        "error",
        "critical",
        "alert",
        "emergency",
    }
    assert "essage" in told["params"]["data"]
    client.listening.close()
    client.delete()


def test_a_subscriber_is_told_of_updates_and_of_nothing_else(portico):
    client = person(portico.url)
    wanted, left = "demo://resource/dynamic/text/5", "demo://resource/dynamic/text/6"
    for uri in (wanted, left):
        assert client.rpc("resources/subscribe", {"uri": uri}).result == {}
    assert client.rpc("resources/unsubscribe", {"uri": left}).result == {}
    client.call("ev_toggle-subscriber-updates")
    told = client.listening.wait_for("notifications/resources/updated")
    assert told["params"] == {"uri": wanted}
    # Maybe more than once: whoever began to hear late is told that it may have changed.
    every = client.listening.all("notifications/resources/updated")
    assert [message["params"] for message in every] == [{"uri": wanted}] * len(every)
    client.listening.close()
    client.delete()


def test_a_task_of_the_server_is_followed_to_its_result(direct, through):
    """Its stages take seconds; nothing is asked for, so it goes through them by itself."""

    def researched(client, prefix):
        call = {
            "name": f"{prefix}simulate-research-query",
            "arguments": {"topic": "python"},
            "task": {"ttl": 60000},
        }
        task = client.rpc("tools/call", call).result["task"]["taskId"]
        eventually(
            lambda: client.rpc("tasks/get", {"taskId": task}).result["status"] == "completed", seconds=30
        )
        return client.rpc("tasks/result", {"taskId": task}).result["content"]

    assert researched(through, "ev_") == researched(direct, "")
