"""Gateway sessions and the upstream sessions behind them."""

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support import Client, config, echo_server, eventually, fetch, gateway, reasons


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return tmp_path_factory.mktemp("sessions") / "portico.db"


@pytest.fixture(scope="module")
def portico(echo, database):
    with gateway(config(("s1", echo.url, {}), store=f"sqlite:{database}")) as process:
        yield process


@pytest.fixture
def restored(echo):
    """The echo server, as it was afterwards."""
    yield echo
    echo.control("delay")
    echo.control("refuse_initialize")


def rows(process, session):
    """Sort key to value and expiry, of one session."""
    found = process.records(f"SESSION#{session}")
    return {record.sort: (json.loads(record.value), record.expires_at) for record in found}


def in_parallel(work, times):
    with ThreadPoolExecutor(20) as pool:
        return list(pool.map(work, range(times)))


def test_a_hundred_initializations_at_once_make_a_hundred_sessions(portico):
    """G0.25, G0.26, G1.3, G1.5, C4"""
    answers = in_parallel(lambda _: portico.client().init(initialized=False), 100)
    ids = [answer.headers.get_all("mcp-session-id") for answer in answers]
    assert all(len(one) == 1 for one in ids)
    assert len({one[0] for one in ids}) == 100
    assert all(0x21 <= ord(c) <= 0x7E for one in ids for c in one[0])


def test_an_old_session_id_sent_with_initialize_is_ignored(portico):
    """G1.5"""
    client = portico.client()
    old = client.init().session
    again = client.init(headers={"mcp-session-id": old}).session
    assert again != old
    assert client.rpc("ping", headers={"mcp-session-id": old}).result == {}


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("2026-01-01", "2025-11-25"),
        ("", "2025-03-26"),
    ],
)
def test_the_version_is_negotiated(portico, asked, agreed):
    """G0.24, G1.7, G1.8, C18"""
    assert portico.client().init(asked, initialized=False).result["protocolVersion"] == agreed


def test_a_session_lasts_a_day(portico):
    """G1.6, C5"""
    before = time.time()
    session = portico.client().init().session
    _, expires_at = rows(portico, session)["ABOUT"]
    assert before + 86400 <= expires_at <= time.time() + 86400


def test_a_session_without_a_limit_never_expires(echo, tmp_path):
    """G0.68, C5"""
    declared = config(store=f"sqlite:{tmp_path}/p.db", limits={"session_ttl_s": 0})
    with gateway(declared) as process:
        session = process.client().init().session
        assert rows(process, session)["ABOUT"][1] is None


def test_what_the_gateway_says_of_itself_is_what_the_operator_wrote():
    """G0.27, G0.28, C31"""
    about = {
        "name": "acme",
        "title": "Acme tools",
        "version": "7.1",
        "website_url": "https://acme.example",
        "instructions": "Ask nicely.",
    }
    with gateway(config(gateway=about)) as process:
        said = process.client().init().result
    assert said["serverInfo"] == {
        "name": "acme",
        "title": "Acme tools",
        "version": "7.1",
        "websiteUrl": "https://acme.example",
    }
    assert said["instructions"] == "Ask nicely."
    assert said["capabilities"] == {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True},
    }


@pytest.mark.parametrize(
    ("body", "status", "code", "message"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, 400, -32602, "no tool name set"),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call"}, 400, -32602, "no tool name set"),
        (
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5}},
            400,
            -32602,
            "no tool name set",
        ),
        ({"jsonrpc": "1.0", "id": 1, "method": "tools/call"}, 400, -32600, "json rpc version invalid"),
        ({"id": 1, "method": "tools/call"}, 400, -32600, "json rpc version invalid"),
        ({"jsonrpc": "2.0", "id": 1}, 400, -32600, "no method set in json rpc payload"),
        ({"jsonrpc": "2.0", "id": 1, "method": ""}, 400, -32600, "no method set in json rpc payload"),
        (
            {
                "jsonrpc": "2.0",
                "method": "tools/call",
                "params": {"name": "s1_echo", "arguments": {"text": ""}},
            },
            400,
            -32600,
            "no id set in json rpc payload",
        ),
        (
            {"jsonrpc": "2.0", "id": None, "method": "ping"},
            400,
            -32600,
            "the id must be a string or an integer",
        ),
        (
            {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
            400,
            -32600,
            "the id must be a string or an integer",
        ),
        (
            {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {}},
            400,
            -32602,
            "no prompt name set",
        ),
        (
            {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": []}},
            400,
            -32602,
            "no resource uri set",
        ),
        ({"jsonrpc": "2.0", "id": 1, "method": "no/such"}, 200, -32601, "Method not found: no/such"),
    ],
)
def test_a_request_that_is_not_one_is_refused_with_the_reason(echo, client, body, status, code, message):
    """G1.9, G0.64, C11"""
    calls = echo.counters()["calls"]
    answer = client.post(json.dumps(body).encode())
    assert (answer.status, answer.error["code"], answer.error["message"]) == (status, code, message)
    assert echo.counters()["calls"] == calls


@pytest.mark.parametrize(
    "method", ["tools/list", "tools/call", "resources/list", "notifications/initialized"]
)
def test_nothing_is_done_without_a_session(portico, method):
    """G0.30, G0.31, G1.9, C33"""
    client = portico.client()
    body = {"jsonrpc": "2.0", "method": method, "params": {"name": "s1_echo"}}
    if not method.startswith("notifications/"):
        body["id"] = 1
    raw = json.dumps(body).encode()
    missing = client.post(raw)
    assert (missing.status, missing.error["message"]) == (400, "no session ID found")
    for id_ in ("6f1c3a52-0000-4000-8000-000000000000", "x" * 3000):
        unknown = client.post(raw, {"mcp-session-id": id_})
        assert unknown.status == 404
        assert "result" not in unknown.message


def test_every_answer_in_a_session_names_it(portico):
    """G0.65, G1.22"""
    for version in ("2024-11-05", "2025-11-25"):
        client = portico.client()
        client.init(version)
        answers = [
            client.rpc("ping"),
            client.rpc("tools/list"),
            client.rpc("no/such"),
            client.call("s1_echo", {"text": "a"}),
            client.call("s1_slow", {"seconds": 0.01, "steps": 1}),
            client.call("no such"),
            client.rpc("tools/call", {}),
            client.notify("notifications/initialized"),
        ]
        with client.stream() as stream:
            answers.append(stream)
        assert [answer.headers.get_all("mcp-session-id") for answer in answers] == [[client.session]] * 9


def test_the_upstream_session_is_kept_beside_the_gateways_own(client, portico):
    """G1.10, G1.14, G1.15, G1.17"""
    seen = {json.loads(client.call("s1_whoami").text)["session"] for _ in range(10)}
    kept = rows(portico, client.session)
    assert sorted(kept) == ["ABOUT", "BACKEND#s1"]
    upstream, expires_at = kept["BACKEND#s1"]
    assert seen == {upstream["id"]}
    assert upstream["id"] != client.session
    assert expires_at == kept["ABOUT"][1]


def test_twenty_first_calls_at_once_open_one_upstream_session(restored, client):
    """G1.16"""
    restored.control("delay", seconds=0.1)
    before = restored.counters()["initialize"]
    seen = in_parallel(lambda _: json.loads(client.call("s1_whoami").text)["session"], 20)
    assert len(set(seen)) == 1
    assert restored.counters()["initialize"] == before + 1


@pytest.mark.serve_only(reasons.SEVERAL)
def test_of_two_processes_that_open_an_upstream_session_one_gives_its_own_back(tmp_path):
    """G1.16"""
    with echo_server() as echo:
        shared = config(("s1", echo.url, {}), store=f"sqlite:{tmp_path}/p.db")
        with gateway(shared) as one, gateway(shared) as two:
            client = one.client()
            client.init()
            other = Client(two.url, session=client.session, version=client.version)
            echo.control("reset_log")
            echo.control("delay", seconds=0.5)
            calls = [caller.begin_call("s1_whoami") for caller in (client, other)]
            seen = {json.loads(call.answer().text)["session"] for call in calls}
            assert echo.counters()["initialize"] == 2, "both were to open one"
            (live,) = seen
            (gone,) = eventually(lambda: echo.counters()["deleted_sessions"])
            assert gone != live
            assert rows(one, client.session)["BACKEND#s1"][0]["id"] == live


def test_a_backend_that_forgot_the_session_is_initialized_once_more(echo, client, portico):
    """G1.24"""
    first = json.loads(client.call("s1_whoami").text)["session"]
    echo.control("forget_sessions")
    echo.control("reset_log")
    second = json.loads(client.call("s1_whoami").text)["session"]
    assert second != first
    own = [
        entry
        for entry in echo.seen("initialize")
        if json.loads(entry["body"])["params"]["clientInfo"]["name"] == "t"
    ]
    assert len(own) == 1
    assert rows(portico, client.session)["BACKEND#s1"][0]["id"] == second


@pytest.mark.parametrize(("refused", "told"), [(401, 401), (403, 403), (429, 429), (404, 502), (500, 502)])
def test_a_backend_that_refuses_a_session_is_named_as_the_cause(restored, client, refused, told):
    """G1.25"""
    restored.control("refuse_initialize", status=refused)
    answer = client.call("s1_echo", {"text": "a"})
    assert answer.status == told
    assert "failed to create session for mcp server" in answer.error["message"]
    assert answer.error["data"] == {"backend": "s1"}
    restored.control("refuse_initialize")
    assert client.call("s1_echo", {"text": "a"}).text == "a"


def test_delete_leaves_nothing_behind(echo, client, portico):
    """G1.28"""
    upstream = json.loads(client.call("s1_whoami").text)["session"]
    assert client.delete().status == 200
    assert rows(portico, client.session) == {}
    eventually(lambda: upstream in echo.counters()["deleted_sessions"])
    assert client.delete().status == 404
    assert client.rpc("tools/list").status == 404
    assert client.stream().status == 404


def test_sessions_and_calls_may_come_all_at_once(portico):
    """G0.67"""
    clients = in_parallel(lambda _: portico.client(), 50)
    ids = in_parallel(lambda n: clients[n].init().session, 50)
    assert len(set(ids)) == 50
    answers = in_parallel(lambda n: clients[n % 50].call("s1_echo", {"text": str(n)}).text, 500)
    assert answers == [str(n) for n in range(500)]


def test_it_listens_on_loopback_at_one_path(portico):
    """G0.3, G0.4, C6"""
    assert portico.client().init().status == 200
    assert fetch(f"{portico.base}/other", {}).status == 404
    with pytest.raises(ConnectionRefusedError):
        fetch(f"http://127.0.0.2:{portico.port}/health")


def test_initialize_makes_a_fresh_session_and_contacts_no_backend(echo, portico):
    """G0.24, G0.25, G0.26, G0.27, G1.3, G1.4, G1.5"""
    before = echo.counters()["initialize"]
    first, second = (
        portico.client().init("2024-11-05"),
        portico.client().init(headers={"mcp-session-id": "old"}),
    )
    assert first.message["result"]["protocolVersion"] == "2024-11-05"
    assert uuid.UUID(first.session) != uuid.UUID(second.session)
    assert {"tools", "resources"} <= set(first.message["result"]["capabilities"])
    assert echo.counters()["initialize"] == before


@pytest.mark.parametrize(
    "method", ["notifications/initialized", "notifications/roots/list_changed", "notifications/other"]
)
def test_a_notification_is_taken_without_a_word(client, method):
    """G0.31, C2"""
    answer = client.notify(method)
    assert (answer.status, answer.raw) == (202, b"")
