"""Streams, several processes on one store, and clients that go away."""

import http.client
import json
import signal

import pytest

from tests.support import Client, Place, config, dump, echo_server, eventually, gateway, reasons


@pytest.mark.serve_only(reasons.SEVERAL)
def test_an_answer_may_come_in_through_another_process(tmp_path):
    """G1.92, G1.95"""
    with echo_server() as echo:
        shared = {**config(("s1", echo.url, {})), "store": f"sqlite:{tmp_path}/portico.db"}
        with gateway(shared) as one, gateway(shared) as two:
            client = one.client()
            client.init(capabilities={"elicitation": {}})
            call = client.begin_call("s1_elicit")
            question = call.wait_for("elicitation/create")
            other = Client(two.url, session=client.session, version="2025-11-25")
            stranger = two.client()
            stranger.init()
            assert stranger.respond(question["id"], {"action": "accept"}).status == 403
            assert other.respond(question["id"], {"action": "accept", "content": {"n": 2}}).status == 202
            assert json.loads(call.answer(10).text) == {"action": "accept", "content": {"n": 2}}


@pytest.mark.serve_only(reasons.SEVERAL)
def test_a_new_tool_is_announced_by_every_process(tmp_path):
    """G1.92"""
    with echo_server() as echo:
        shared = {**config(("s1", echo.url, {})), "store": f"sqlite:{tmp_path}/portico.db"}
        with gateway(shared) as one, gateway(shared) as two:
            streams = []
            for process in (one, two):
                client = process.client()
                client.init()
                streams.append(client.stream())
            echo.control("add_tool", name="fresh")
            echo.control("notify", method="notifications/tools/list_changed")
            for stream in streams:
                stream.wait_for("notifications/tools/list_changed")
                stream.close()


@pytest.mark.serve_only(reasons.SEVERAL)
def test_a_process_that_was_suspended_leaves_the_backend_to_the_one_that_took_over(tmp_path):
    """G1.92"""
    with echo_server() as echo:
        shared = config(("s1", echo.url, {}), store=f"sqlite:{tmp_path}/portico.db")

        def watching():
            return echo.counters()["get_streams_open"]

        with gateway(shared) as one, gateway(shared):
            eventually(lambda: watching() == 1)
            one.signal(signal.SIGSTOP)
            eventually(lambda: watching() == 2, seconds=20)
            one.signal(signal.SIGCONT)
            eventually(lambda: watching() == 1)


def test_a_stream_closed_by_the_gateway_is_taken_up_with_nothing_lost():
    """G1.94"""
    lasts, soon = (2, 1.5) if Place.chosen == "serve" else (6, 5.5)
    limits = {"stream_s": lasts}
    with echo_server() as echo, gateway(config(("s1", echo.url, {}), limits=limits)) as process:
        client = process.client()
        client.init()
        stream = client.stream()
        stream.wait_closed(2 * lasts)
        echo.control("add_tool", name="meanwhile")
        echo.control("notify", method="notifications/tools/list_changed")
        process.look()
        eventually(
            lambda: "s1_meanwhile" in [tool["name"] for tool in client.rpc("tools/list").result["tools"]]
        )
        again = client.stream(stream.last_event_id)
        again.wait_for("notifications/tools/list_changed", soon)
        again.close()


def test_an_idle_stream_is_kept_alive():
    """G0.66"""
    with gateway(config(limits={"keepalive_s": 1})) as process:
        client = process.client()
        client.init()
        connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=10)
        connection.request(
            "GET", "/mcp", headers={"accept": "text/event-stream", "mcp-session-id": client.session}
        )
        response = connection.getresponse()
        lines = iter(response.readline, b"")
        assert next(line for line in lines if line.startswith(b": keep-alive"))
        response.close()
        connection.close()


@pytest.mark.serve_only(reasons.HANGS_UP)
def test_a_client_that_goes_away_stops_its_call():
    with echo_server() as echo, gateway(config(("s1", echo.url, {}))) as process:
        client = process.client()
        client.init()
        call = client.begin_call("s1_slow", {"seconds": 30, "steps": 60}, meta={"progressToken": 1})
        call.wait_for("notifications/progress")
        call.close()
        eventually(lambda: not echo.counters()["calls_running"])


@pytest.mark.serve_only(reasons.HANGS_UP)
def test_a_call_is_cancelled_in_the_name_of_the_client_that_went_away():
    """C27"""
    with echo_server() as echo, gateway(config(("s1", echo.url, {"call_auth": "passthrough"}))) as process:
        client = process.client(headers={"authorization": "Bearer mine"})
        client.init()
        call = client.begin_call("s1_slow", {"seconds": 30, "steps": 60}, meta={"progressToken": 1})
        call.wait_for("notifications/progress")
        call.close()
        told = eventually(lambda: echo.seen("notifications/cancelled"))
        assert told[0]["headers"]["authorization"] == "Bearer mine"


def test_a_cancelled_call_is_cancelled_at_the_backend():
    with echo_server() as echo, gateway(config(("s1", echo.url, {}))) as process:
        client = process.client()
        client.init()
        call = client.begin_call(
            "s1_slow", {"seconds": 30, "steps": 60}, meta={"progressToken": 1}, id="mine"
        )
        call.wait_for("notifications/progress")
        client.notify("notifications/cancelled", {"requestId": "mine"})
        eventually(lambda: "mine" in echo.counters()["cancelled"])
        call.wait_closed()


def test_a_hanging_backend_holds_up_no_word_to_the_others():
    with (
        echo_server() as stuck,
        echo_server() as echo,
        gateway(config(("a", stuck.url, {}), ("b", echo.url, {}))) as process,
    ):
        client = process.client()
        client.init()
        client.call("a_echo", {"text": "x"})
        slow = {"seconds": 60, "steps": 600}
        call = client.begin_call("b_slow", slow, meta={"progressToken": 1}, id="mine")
        call.wait_for("notifications/progress")
        stuck.signal(signal.SIGSTOP)
        level = client.begin("logging/setLevel", {"level": "error"})
        eventually(lambda: echo.seen("logging/setLevel"))
        notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "mine"}}
        cancelling = client.begin_post(dump(notice))
        eventually(lambda: "mine" in echo.counters()["cancelled"])
        stuck.signal(signal.SIGCONT)
        assert level.answer().result == {}
        assert cancelling.answer().status == 202


def test_what_a_backend_says_on_its_own_stream_reaches_the_client():
    with echo_server() as echo, gateway(config(("s1", echo.url, {}))) as process:
        client = process.client()
        client.on["roots/list"] = lambda _: {"roots": []}
        client.init(capabilities={"roots": {}})
        stream = client.stream()
        client.rpc("resources/subscribe", {"uri": "echo://static/one"})
        own = 2 if Place.chosen == "serve" else 1  # there discovery has one, too
        eventually(lambda: echo.counters()["get_streams_open"] >= own)
        echo.control("update_resource", uri="echo://static/one")
        told = stream.wait_for("notifications/resources/updated")
        assert told["params"]["uri"] == "echo://static/one"
        stream.close()


def test_sessions_end_by_themselves_and_pages_cover_everything():
    """G0.68, G0.34"""
    limits = {"session_ttl_s": 3, "page_size": 2}
    with echo_server() as echo, gateway(config(("s1", echo.url, {}), limits=limits)) as process:
        client = process.client()
        client.init()
        names, params = [], {}
        while True:
            page = client.rpc("tools/list", params).result
            names += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
        assert "s1_echo" in names
        assert len(names) == len(set(names)) > 10
        eventually(lambda: client.rpc("tools/list").status == 404, 6)


def test_a_credential_is_for_discovery_only():
    """G1.38, G1.39"""
    with echo_server() as echo:
        declared = config(("s1", echo.url, {"credential": "env:ECHO_TOKEN"}))
        with gateway(declared, env={"ECHO_TOKEN": "Bearer s3cret"}) as process:
            assert echo.seen("initialize")[0]["headers"]["authorization"] == "Bearer s3cret"
            client = process.client()
            client.init()
            assert "authorization" not in json.loads(client.call("s1_headers").text)
            assert "s3cret" not in process.stderr()


@pytest.mark.serve_only(reasons.NO_STREAM)
def test_a_backend_that_asks_discovery_gets_an_answer_at_once():
    """Discovery says it can do what clients may be able to do; it must not leave a server waiting."""
    with echo_server() as echo, gateway(config(("s1", echo.url, {}))):
        eventually(lambda: echo.counters()["get_streams_open"])
        for method in ("ping", "roots/list", "sampling/createMessage"):
            echo.control("ask_on_get", method=method)

        def answers():
            return {given["method"]: given["answer"] for given in echo.counters()["answers"]}

        eventually(lambda: len(answers()) == 3)
        assert answers()["ping"]["result"] == {}
        assert answers()["roots/list"]["result"] == {"roots": []}
        assert answers()["sampling/createMessage"]["error"]["code"] == -32601


@pytest.mark.serve_only(reasons.STOPPED)
def test_a_gateway_that_is_told_to_stop_ends_its_streams():
    """G1.93, G1.94"""
    with echo_server() as echo, gateway(config(("s1", echo.url, {}))) as process:
        client = process.client()
        client.init()
        old = client.stream()
        new = client.begin26("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=7)
        new.wait_for("notifications/subscriptions/acknowledged")
        process.signal(signal.SIGTERM)
        assert new.answer(5).result["_meta"]["io.modelcontextprotocol/subscriptionId"] == 7
        assert old.wait_closed().messages[-1].retry


@pytest.mark.serve_only(reasons.STOPPED)
def test_a_call_under_way_is_answered_when_the_gateway_stops():
    with echo_server() as echo, gateway(config(("s1", echo.url, {}))) as process:
        client = process.client()
        client.init()
        streamed = client.begin_call("s1_slow", {"seconds": 30, "steps": 60}, meta={"progressToken": 1})
        streamed.wait_for("notifications/progress")
        plain = client.begin_call("s1_slow", {"seconds": 30, "steps": 1})
        eventually(lambda: echo.counters()["calls_running"] == 2)
        process.signal(signal.SIGTERM)
        assert streamed.answer(10).error["message"] == "the gateway is stopping"
        assert plain.answer(10).error["code"] == -32603
