"""`subscriptions/listen`: what modern clients are told, what they are not, and how it ends."""

import signal

import pytest

from tests.support import Place, config, echo26_server, echo_server, eventually, gateway, reasons

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
CHANGED = {name: f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")}
TAG = "io.modelcontextprotocol/subscriptionId"
OLD, NEW = "old://one", "new://one"
QUICK = {"interval_s": 0.2}
ENDS_S = 15
"""Of a deployment's subscriptions: Lambda tells no function that its client has hung up."""


@pytest.fixture(scope="module")
def old():
    with echo_server("old") as server:
        server.control("add_resource", uri=OLD)
        yield server


@pytest.fixture(scope="module")
def new():
    with echo26_server("new") as server:
        server.control("add_resource", uri=NEW)
        yield server


@pytest.fixture(scope="module")
def portico(old, new):
    limits = {"keepalive_s": 1}
    if Place.chosen == "lambda":
        limits["stream_s"] = ENDS_S
    declared = config(("old", old.url, {}), ("new", new.url, {}), discovery=QUICK, limits=limits)
    with gateway(declared) as process:
        yield process


@pytest.fixture
def client(portico):
    return portico.client()


def listen(client, rpc_id="s", **wanted):
    """A subscription that has been acknowledged, and what was agreed to."""
    stream = client.begin26("subscriptions/listen", {"notifications": wanted}, id=rpc_id)
    first = stream.wait_for(ACKNOWLEDGED)
    assert stream.all()[0] == first
    assert first["params"]["_meta"] == {TAG: rpc_id}
    return stream, first["params"]["notifications"]


def idle(old, new):
    """Nobody but discovery listens."""
    return old.counters()["subscriptions"] == [] and new.counters()["listen_streams_open"] == of_discovery()


def of_discovery():
    return 1 if Place.chosen == "serve" else 0


AGREED = {
    "nothing": ({}, {}),
    "a list": ({"toolsListChanged": True}, {"toolsListChanged": True}),
    "false is no": ({"toolsListChanged": False, "promptsListChanged": True}, {"promptsListChanged": True}),
    "what is not true is no": ({"toolsListChanged": 1, "promptsListChanged": "yes"}, {}),
    "unknown kinds are left out": ({"weatherChanged": True}, {}),
    "addresses of both eras": (
        {"resourceSubscriptions": [OLD, NEW]},
        {"resourceSubscriptions": [OLD, NEW]},
    ),
    "unknown addresses are left out": (
        {"resourceSubscriptions": ["nowhere://x", NEW, "", "no address"]},
        {"resourceSubscriptions": [NEW]},
    ),
    "nothing but unknown ones": ({"resourceSubscriptions": ["nowhere://x"]}, {}),
    "one address twice": ({"resourceSubscriptions": [NEW, NEW]}, {"resourceSubscriptions": [NEW]}),
}


@pytest.mark.parametrize(("wanted", "agreed"), AGREED.values(), ids=AGREED)
def test_the_first_thing_said_is_what_was_agreed_to(client, wanted, agreed):
    """G1.93"""
    stream, got = listen(client, **wanted)
    assert got == agreed
    stream.close()


REFUSED = {
    "no object": {"notifications": []},
    "addresses that are no list": {"notifications": {"resourceSubscriptions": "new://one"}},
    "addresses that are no text": {"notifications": {"resourceSubscriptions": [1]}},
    "too many": {"notifications": {"resourceSubscriptions": ["new://one"] * 100_000}},
}


@pytest.mark.parametrize("params", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_listened_for_is_refused(client, params):
    """G1.93, G1.98"""
    answer = client.rpc26("subscriptions/listen", params, id="r")
    assert (answer.status, answer.error["code"], answer.message["id"]) == (400, -32602, "r")


def test_a_client_that_takes_no_stream_is_refused(client):
    """G1.93"""
    wanted = {"notifications": {"toolsListChanged": True}}
    answer = client.rpc26("subscriptions/listen", wanted, headers={"Accept": "application/json"}, id="j")
    assert (answer.status, answer.message["id"]) == (406, "j")


def test_several_subscriptions_each_hear_what_they_asked_for_under_their_own_id(client, old, new):
    """G1.93, C29: string and integer ids stay what they are, and 1 is not "1"."""
    eventually(lambda: idle(old, new), 2 * ENDS_S)
    tools, _ = listen(client, 1, toolsListChanged=True)
    prompts, _ = listen(client, "1", promptsListChanged=True)
    both, _ = listen(client, "both", toolsListChanged=True, resourceSubscriptions=[OLD, NEW])
    one, _ = listen(client, -7, resourceSubscriptions=[NEW])
    old.control("add_tool", name="fresh")
    old.control("notify")
    assert tools.wait_for(CHANGED["tools"])["params"]["_meta"] == {TAG: 1}
    assert both.wait_for(CHANGED["tools"])["params"]["_meta"] == {TAG: "both"}
    assert "old_fresh" in [tool["name"] for tool in client.rpc26("tools/list").result["tools"]]
    new.control("add_prompt", name="fresh")
    new.control("notify", method=CHANGED["prompts"])
    assert prompts.wait_for(CHANGED["prompts"])["params"]["_meta"] == {TAG: "1"}
    assert old.control("update_resource", uri=OLD)["sent"] == 1
    told = both.wait_for(UPDATED)["params"]
    assert told == {"uri": OLD, "_meta": {TAG: "both"}}
    assert new.control("update_resource", uri=NEW)["sent"] == 2
    assert one.wait_for(UPDATED)["params"] == {"uri": NEW, "_meta": {TAG: -7}}
    both.wait_for(lambda message: message.get("params", {}).get("uri") == NEW)
    kinds = {
        name: [message["method"] for message in stream.all()[1:]]
        for name, stream in {"tools": tools, "prompts": prompts, "one": one, "both": both}.items()
    }
    assert kinds == {
        "tools": [CHANGED["tools"]],
        "prompts": [CHANGED["prompts"]],
        "one": [UPDATED],
        "both": [CHANGED["tools"], UPDATED, UPDATED],
    }
    for stream in (tools, prompts, both, one):
        stream.close()
    eventually(lambda: idle(old, new), 2 * ENDS_S)


def test_an_address_that_a_backend_will_not_watch_costs_the_others_nothing(client, old, new):
    """G1.93"""
    old.control("reset_log")
    stream, _ = listen(client, resourceSubscriptions=["echo://item/unwatched", OLD])
    old.control("update_resource", uri=OLD)
    assert stream.wait_for(UPDATED)["params"]["uri"] == OLD
    begun = len(old.seen("initialize"))
    assert begun == 1 or Place.chosen == "lambda", "there every look at a backend begins with it"
    stream.close()
    eventually(lambda: idle(old, new), 2 * ENDS_S)


def test_a_client_that_hangs_up_leaves_nothing_behind(client, old, new):
    """G1.93"""
    eventually(lambda: idle(old, new), 2 * ENDS_S)
    sessions = old.counters()["sessions_open"]
    streams = [listen(client, n, resourceSubscriptions=[OLD, NEW])[0] for n in range(3)]
    assert len(old.counters()["subscriptions"]) == 3
    assert new.counters()["listen_streams_open"] == 3 + of_discovery()
    for stream in streams:
        stream.close()
    eventually(lambda: idle(old, new), 2 * ENDS_S)
    eventually(lambda: old.counters()["sessions_open"] <= sessions)


def test_a_backend_s_broken_stream_is_taken_up_again(client, old, new):
    """G1.93, G1.46"""
    stream, _ = listen(client, resourceSubscriptions=[NEW])
    new.control("close_streams", gracefully=False)
    eventually(lambda: new.control("update_resource", uri=NEW)["sent"] == 1)
    assert stream.wait_for(UPDATED)["params"]["uri"] == NEW
    stream.close()


def test_a_backend_that_changes_its_era_is_heard_in_the_new_one():
    """G1.93, G1.100, C34"""
    with echo26_server() as echo:
        echo.control("add_resource", uri=NEW)
        with gateway(config(("s1", echo.url, {}), discovery=QUICK)) as portico:
            stream, _ = listen(portico.client(), resourceSubscriptions=[NEW])
            for number, era in enumerate(("legacy", "modern"), 1):
                echo.control("era", value=era)
                eventually(lambda: echo.control("update_resource", uri=NEW)["sent"] > 0, 15)
                eventually(lambda n=number: len(stream.all(UPDATED)) >= n)


def test_a_subscription_is_kept_alive_and_ends_with_a_result_when_its_time_is_over(old, new):
    """G1.93, G0.66, C29"""
    declared = config(
        ("old", old.url, {}),
        ("new", new.url, {}),
        limits={"keepalive_s": 1, "stream_s": 2.5},
    )
    with gateway(declared) as portico:
        stream, _ = listen(portico.client(), "timed", resourceSubscriptions=[OLD, NEW])
        ended = stream.answer(10)
        assert ended.result["resultType"] == "complete"
        assert ended.result["_meta"][TAG] == "timed"
        assert stream.all()[-1]["id"] == "timed"
        comments = [line for line in ended.raw.splitlines() if line.startswith(b":")]
        assert len(comments) >= 2
        eventually(lambda: old.counters()["subscriptions"] == [])


@pytest.mark.serve_only(reasons.STOPPED)
def test_subscriptions_end_with_a_result_when_the_gateway_is_told_to_stop(old, new):
    """G1.93, C29"""
    with gateway(config(("old", old.url, {}), ("new", new.url, {}))) as portico:
        client = portico.client()
        streams = [listen(client, n, resourceSubscriptions=[OLD, NEW])[0] for n in ("a", 5)]
        portico.signal(signal.SIGTERM)
        for stream, rpc_id in zip(streams, ("a", 5), strict=True):
            ended = stream.answer(10)
            assert ended.broken is None
            assert ended.result["_meta"][TAG] == rpc_id
        assert portico.process.wait(10) == 0
    eventually(lambda: old.counters()["subscriptions"] == [])
