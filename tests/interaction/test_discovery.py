"""How backends are found, asked, watched, dropped and found again."""

import json

import pytest

from tests.support import config, echo_server, eventually, fault_server, gateway, reasons

QUICK = {"interval_s": 0.2, "timeout_s": 5}


@pytest.fixture(scope="module")
def other():
    with echo_server("other") as server:
        yield server


@pytest.fixture(scope="module")
def portico(echo, other):
    declared = config(("s1", echo.url, {}), ("s2", other.url, {}), discovery=QUICK)
    with gateway(declared) as process:
        yield process


@pytest.fixture
def restored(echo, portico):
    """The echo server; afterwards as it was, and ready again."""
    yield echo
    for switch in ("pin_version", "drop_capability", "page_size", "refuse_initialize"):
        echo.control(switch)
    for flag in ("no_get", "page_on_get", "invalid_tools", "event_ids"):
        echo.control(flag, on=False)
    echo.control("forget_sessions")
    eventually(lambda: status(portico, "s1")["ready"])


def status(process, name=""):
    return process.operator(f"/status/{name}".rstrip("/")).json()


def names(client, prefix=""):
    tools = client.rpc("tools/list").result["tools"]
    return [tool["name"] for tool in tools if tool["name"].startswith(prefix)]


def test_a_new_backend_is_asked_for_its_era_then_initialized_then_listed():
    """G1.38, G1.41"""
    with echo_server() as echo, gateway(config(("s1", echo.url, {}))):
        posts = [entry["method"] for entry in echo.seen(http="POST")]
        assert posts[:4] == ["server/discover", "initialize", "notifications/initialized", "tools/list"]


@pytest.mark.serve_only(reasons.NO_STREAM)
def test_a_new_backend_is_listened_to():
    """G1.44"""
    with echo_server() as echo, gateway(config(("s1", echo.url, {}))):
        eventually(lambda: echo.seen(http="GET"))
        listening = echo.seen(http="GET")[0]["headers"]
        assert listening["accept"] == "text/event-stream"
        assert listening["mcp-session-id"] == echo.seen("tools/list")[0]["session"]


def test_a_backend_of_an_unknown_version_is_not_used(portico, restored, client):
    """G1.40"""
    restored.control("pin_version", version="2021-11-05")
    restored.control("forget_sessions")
    said = eventually(lambda: (s := status(portico, "s1"))["message"].startswith("unsupported") and s)
    assert said["message"] == "unsupported protocol version '2021-11-05'"
    assert not said["ready"]
    assert said["protocolValidation"] == {
        "isValid": False,
        "supportedVersion": "",
        "expectedVersion": "2025-11-25",
    }
    assert names(client, "s1_") == []
    assert client.call("s2_echo", {"text": "a"}).text == "a"


def test_a_backend_without_tools_is_not_used_and_says_what_it_lacks(portico, restored, client):
    """G1.40"""
    restored.control("drop_capability", name="tools")
    restored.control("forget_sessions")
    said = eventually(lambda: (s := status(portico, "s1"))["missingCapabilities"] and s)
    assert said["missingCapabilities"] == ["tools"]
    assert not said["ready"]
    assert names(client, "s1_") == []
    assert names(client, "s2_")


def test_all_pages_are_read(restored, portico, client):
    """G1.43"""
    before = eventually(lambda: names(client, "s1_"))
    restored.control("page_size", n=2)
    restored.control("reset_log")
    restored.control("add_tool", name="on_the_last_page")
    restored.control("notify")
    eventually(lambda: "s1_on_the_last_page" in names(client, "s1_"))
    assert names(client, "s1_") == [*before, "s1_on_the_last_page"]
    cursors = [json.loads(entry["body"])["params"].get("cursor") for entry in restored.seen("tools/list")]
    assert len(set(cursors)) == -(-(len(before) + 1) // 2)
    restored.control("remove_tool", name="on_the_last_page")


@pytest.mark.serve_only(reasons.NO_STREAM)
@pytest.mark.parametrize(("says", "code"), [("no_get", 405), ("page_on_get", 200)])
def test_a_backend_without_a_stream_is_asked_again_and_again(restored, portico, client, says, code):
    """G1.45"""
    restored.control(says, on=True)
    restored.control("forget_sessions")
    restored.control("reset_log")
    eventually(lambda: any(entry["status"] == code for entry in restored.seen(http="GET")))
    eventually(lambda: status(portico, "s1")["ready"])
    restored.control("add_tool", name="unannounced")
    eventually(lambda: "s1_unannounced" in names(client))
    listed = len(restored.seen("tools/list"))
    eventually(lambda: len(restored.seen("tools/list")) > listed + 5)
    assert len(restored.seen(http="GET")) == 1, "a backend that says no is not asked for a stream again"
    restored.control("remove_tool", name="unannounced")


@pytest.mark.serve_only(reasons.NO_STREAM)
def test_a_broken_stream_is_taken_up_where_it_was(restored, client):
    """G1.46"""
    restored.control("event_ids", on=True)
    restored.control("forget_sessions")
    restored.control("reset_log")
    eventually(lambda: restored.seen(http="GET") and restored.counters()["get_streams_open"])
    eventually(lambda: restored.control("close_streams")["sent"])
    again = eventually(lambda: restored.seen(http="GET")[1:])[0]["headers"]
    assert again["last-event-id"].endswith("-0"), "the one event it had seen"


@pytest.mark.serve_only(reasons.NO_STREAM)
def test_a_ping_on_the_stream_is_answered(restored, portico):
    """G1.46"""
    eventually(lambda: restored.counters()["get_streams_open"])
    restored.control("ping_client")
    answers = eventually(lambda: restored.counters()["answers"])
    assert answers[0]["answer"]["result"] == {}


@pytest.mark.serve_only(reasons.NO_STREAM)
def test_a_restarted_backend_is_found_again_and_listened_to():
    """G1.46"""
    echo = echo_server()
    declared = config(("s1", echo.url, {}), discovery=QUICK)
    with gateway(declared) as process:
        client = process.client()
        client.init()
        echo.kill()
        eventually(lambda: not status(process, "s1")["ready"])
        with echo_server(port=echo.port) as again:
            eventually(lambda: status(process, "s1")["ready"] and again.counters()["get_streams_open"])
            assert client.call("s1_echo", {"text": "back"}).text == "back"
    echo.close()


def test_a_failing_backend_is_dropped_after_its_third_failure_and_comes_back():
    """G1.47, G1.90"""
    echo = echo_server()
    with echo_server("other") as other:
        declared = config(("s1", echo.url, {}), ("s2", other.url, {}), discovery={"interval_s": 1})
        with gateway(declared) as process:
            client = process.client()
            client.init()
            stream = client.stream()
            assert names(client, "s1_")
            echo.kill()
            listed_at = {}

            def dropped():
                before = status(process, "s1")
                listed = bool(names(client, "s1_"))
                if status(process, "s1") == before:  # else the two may not belong together
                    listed_at.setdefault(before["failures"], set()).add(listed)
                return before["failures"] >= 3 and not listed

            eventually(dropped, 10)
            assert listed_at[1] == listed_at[2] == {True}
            stream.wait_for("notifications/tools/list_changed")
            assert names(client, "s2_")
            assert client.call("s1_echo", {"text": "a"}).error["code"] == -32602
            told = len(stream.all("notifications/tools/list_changed"))
            with echo_server(port=echo.port):
                eventually(lambda: names(client, "s1_"), 10)
                eventually(lambda: len(stream.all("notifications/tools/list_changed")) == told + 1)
                assert client.call("s1_echo", {"text": "back"}).text == "back"
            stream.close()
    echo.close()


def test_single_failures_with_successes_between_do_not_add_up():
    """G1.47"""
    with echo_server() as echo, gateway(config(("s1", echo.url, {}), discovery=QUICK)) as process:
        client = process.client()
        client.init()
        for _ in range(4):
            echo.control("refuse_initialize", status=500)
            echo.control("forget_sessions")
            eventually(lambda: not status(process, "s1")["ready"])
            echo.control("refuse_initialize")
            eventually(lambda: status(process, "s1")["ready"])
            assert status(process, "s1")["failures"] == 0
        assert names(client, "s1_")


def test_bad_definitions_are_left_out(portico, restored, client):
    """G1.48"""
    before = names(client, "s1_")
    restored.control("invalid_tools", on=True)
    said = eventually(lambda: (s := status(portico, "s1"))["invalidTools"] and s)
    assert (said["ready"], said["invalidTools"], said["totalTools"]) == (True, 4, len(before))
    assert [tool["name"] for tool in said["invalidToolList"]] == [
        "",
        "no_schema",
        "string_schema",
        "nonsense_type",
    ]
    assert all(tool["reason"] for tool in said["invalidToolList"])
    assert names(client, "s1_") == before
    assert client.call("s1_no_schema").error["code"] == -32602


def test_a_bad_definition_costs_all_of_them_where_that_is_the_rule():
    """G1.48"""
    with echo_server() as echo, echo_server("other") as other:
        echo.control("invalid_tools", on=True)
        rules = {"interval_s": 0.2, "invalid_tools": "reject"}
        with gateway(config(("s1", echo.url, {}), ("s2", other.url, {}), discovery=rules)) as process:
            client = process.client()
            client.init()
            said = status(process, "s1")
            assert (said["ready"], said["invalidTools"]) == (False, 4)
            assert "no_schema" in said["message"]
            assert names(client, "s1_") == []
            assert names(client, "s2_")
            echo.control("invalid_tools", on=False)
            eventually(lambda: names(client, "s1_"))


def test_names_that_clash_are_the_first_backends(echo, other):
    """G1.49"""
    bare = {"prefix": ""}
    with gateway(config(("a", echo.url, bare), ("b", other.url, bare))) as process:
        client = process.client()
        client.init()
        whole = status(process)
        assert (whole["toolConflicts"], whole["overallValid"]) == (1, False)
        said = status(process, "b")
        assert not said["ready"]
        assert said["message"].startswith("conflicting tools discovered. conflicting tool names [echo, ")
        assert status(process, "a")["ready"]
        assert json.loads(client.call("whoami").text)["name"] == "echo"
        assert len(names(client)) == len(set(names(client)))


@pytest.mark.serve_only(reasons.ITS_FILE)
def test_names_that_clash_are_parted_by_a_prefix(echo, other):
    """G1.49"""
    bare = {"prefix": ""}
    with gateway(config(("a", echo.url, bare), ("b", other.url, bare))) as process:
        client = process.client()
        client.init()
        assert json.loads(client.call("whoami").text)["name"] == "echo"
        process.write(config(("a", echo.url, bare), ("b", other.url, {"prefix": "b_"})))
        eventually(lambda: names(client, "b_"))
        assert json.loads(client.call("b_whoami").text)["name"] == "other"
        assert status(process)["toolConflicts"] == 0


@pytest.mark.serve_only(reasons.ITS_FILE)
def test_a_disabled_backend_is_let_go_and_comes_back_when_enabled():
    """G1.50, G0.33, G1.90"""
    with echo_server() as echo, echo_server("other") as other:

        def declared(*, enabled):
            return config(("s1", echo.url, {"enabled": enabled}), ("s2", other.url, {}))

        with gateway(declared(enabled=True)) as process:
            client = process.client()
            client.init()
            eventually(lambda: echo.counters()["get_streams_open"])
            with client.stream() as stream:
                process.write(declared(enabled=False))
                stream.wait_for("notifications/tools/list_changed")
                assert names(client, "s1_") == []
                assert client.call("s1_echo", {"text": "a"}).error["message"] == "Unknown tool: s1_echo"
                said = status(process, "s1")
                assert (said["ready"], said["message"]) == (False, "disabled")
                eventually(lambda: not echo.counters()["get_streams_open"])
                assert names(client, "s2_")
                process.write(declared(enabled=True))
                eventually(lambda: len(stream.all("notifications/tools/list_changed")) == 2)
            assert client.call("s1_echo", {"text": "a"}).text == "a"


@pytest.mark.serve_only(reasons.ITS_FILE)
@pytest.mark.parametrize(
    "change",
    [{"hint": "new"}, {"tags": ["t"]}, {"category": ["c"]}, {"prefix": "new_"}, {"hostname": "new.internal"}],
    ids=lambda change: next(iter(change)),
)
def test_a_change_of_one_backend_leaves_the_others_alone(change):
    """G1.37, G1.36"""
    with (
        echo_server() as echo,
        echo_server("other") as other,
        gateway(config(("s1", echo.url, {}), ("s2", other.url, {}))) as process,
    ):
        client = process.client()
        client.init()
        session = json.loads(client.call("s2_whoami").text)["session"]
        eventually(lambda: other.counters()["get_streams_open"])
        for server in (echo, other):
            server.control("reset_log")
        process.write(config(("s1", echo.url, change), ("s2", other.url, {})))
        eventually(lambda: echo.seen("tools/list"))
        field, value = next(iter(change.items()))
        eventually(lambda: status(process, "s1")[field] == value)
        assert other.seen() == []
        assert json.loads(client.call("s2_whoami").text)["session"] == session


TEXT, NUMBER, FLAG = str, (int, float), bool
SERVER = {
    "id": TEXT,
    "name": TEXT,
    "hostname": TEXT,
    "prefix": TEXT,
    "ready": FLAG,
    "message": TEXT,
    "lastValidated": NUMBER,
    "totalTools": int,
    "totalPrompts": int,
    "invalidTools": int,
    "invalidToolList": list,
    "missingCapabilities": list,
    "protocolValidation": dict,
}
WHOLE = {
    "servers": list,
    "overallValid": FLAG,
    "totalServers": int,
    "healthyServers": int,
    "unHealthyServers": int,
    "toolConflicts": int,
    "timestamp": NUMBER,
}


def fits(value, shape):
    return [name for name, kind in shape.items() if not isinstance(value.get(name), kind)]


def test_the_status_has_its_documented_form(echo, client):
    """G1.33, G1.42, G1.51"""
    declared = config(
        ("s1", echo.url, {"hostname": "one.internal"}),
        ("s2", "http://127.0.0.1:9/mcp", {}),
        gateway={"public_url": "https://gw.example.com"},
    )
    with gateway(declared) as process:
        whole = status(process)
        assert fits(whole, WHOLE) == []
        assert [fits(server, SERVER) for server in whole["servers"]] == [[], []]
        assert (whole["totalServers"], whole["healthyServers"], whole["unHealthyServers"]) == (2, 1, 1)
        assert (whole["overallValid"], whole["toolConflicts"]) == (False, 0)
        good, bad = whole["servers"]
        assert good["id"] == "s1:s1_:one.internal"
        assert (good["ready"], good["totalTools"], good["totalPrompts"]) == (
            True,
            len(names(client, "s1_")),
            2,
        )
        assert good["protocolValidation"] == {
            "isValid": True,
            "supportedVersion": "2025-11-25",
            "expectedVersion": "2025-11-25",
        }
        assert (bad["id"], bad["ready"]) == ("s2:s2_:s2.gw.example.com", False)
        assert "cannot be reached" in bad["message"]
        one = status(process, "s1")
        assert {**one, "lastValidated": 0} == {**good, "lastValidated": 0}
        assert process.operator("/status/nobody").status == 404


@pytest.mark.serve_only(reasons.ITS_FILE)
def test_a_registered_servers_file_is_watched_too(echo, tmp_path):
    """G1.32, G1.35"""
    servers = tmp_path / "servers.yaml"
    one = (
        f"servers:\n- {{name: one, url: '{echo.url}', hostname: one.internal, enabled: true, prefix: one_}}\n"
    )
    servers.write_text(one)
    with gateway(config(include=[str(servers)])) as process:
        client = process.client()
        client.init()
        assert names(client, "one_")
        two = f"- {{name: two, url: '{echo.url}', hostname: two.internal, enabled: true, prefix: two_}}\n"
        servers.write_text(one + two)
        eventually(lambda: names(client, "two_"))
        servers.write_text(two.replace("- {", "servers:\n- {"))
        eventually(lambda: not names(client, "one_"))
        assert names(client, "two_")


def test_a_hanging_backend_holds_nobody_up(echo):
    """G1.47"""
    with fault_server() as faults, gateway(config(("s1", echo.url, {}), ("f", faults.url, {}))) as process:
        client = process.client()
        client.init()
        call = client.begin_call("f_hang")
        eventually(lambda: faults.counters()["calls"].get("hang"))
        assert client.call("s1_echo", {"text": "a"}).text == "a"
        assert client.call("f_ok").status == 200
        call.close()
