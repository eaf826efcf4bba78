"""Real gateway processes in front of real backends, through a plain HTTP client."""

import json
import signal
import sqlite3
from contextlib import closing

import pytest

from tests.support import Client, config, echo_server, eventually, fetch, gateway, reasons

ON_LOOPBACK = pytest.mark.serve_only("API Gateway serves its own host names alone, and never on loopback")


@pytest.fixture(scope="module")
def portico(echo):
    declared = config(
        ("s1", echo.url, {"forward_headers": ["x-custom"]}),
        gateway={"allowed_hosts": ["any-port.test", "one-port.test:8088"]},
    )
    with gateway(declared) as process:
        yield process


def test_a_call_opens_one_upstream_session_and_carries_what_it_should(echo, client):
    """G1.11, G1.12, G1.13, G1.15, G1.17, G1.20, G1.22"""
    echo.control("reset_log")
    sent = {"x-custom": "1", "x-mcp-authorized": "forged", "authorization": "Bearer t", "cookie": "a=b"}
    for _ in range(5):
        answer = client.call("s1_headers", {}, headers=sent)
    seen = json.loads(answer.text)
    assert [entry["method"] for entry in echo.seen()][:3] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert len([entry for entry in echo.seen() if entry["method"] == "initialize"]) == 1
    assert echo.seen("initialize")[0]["headers"]["x-custom"] == "1"
    assert (seen["x-mcp-tool"], seen["x-mcp-toolname"], seen["x-mcp-servername"]) == (
        "headers",
        "headers",
        "s1",
    )
    assert seen["x-mcp-method"] == "tools/call"
    assert seen["x-mcp-annotation-hints"].startswith("readOnly=")
    assert not {"authorization", "cookie", "x-mcp-authorized"} & set(seen)
    assert seen["mcp-session-id"] != answer.session == client.session


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        pytest.param({"host": "evil.example"}, 403, marks=ON_LOOPBACK),
        pytest.param({"origin": "http://localhost:1"}, 200, marks=ON_LOOPBACK),
        ({"host": "any-port.test:1"}, 200),
        ({"host": "One-Port.test:8088"}, 200),
        pytest.param({"host": "one-port.test:1"}, 403, marks=ON_LOOPBACK),
    ],
)
def test_web_pages_from_elsewhere_are_refused(portico, headers, status):
    """G1.101"""
    assert portico.client().init(initialized=False, headers=headers).status == status


def test_a_page_of_the_gateways_own_is_not_from_elsewhere(portico):
    """G1.101"""
    assert portico.client().init(initialized=False, headers={"origin": portico.base}).status == 200


def test_health_and_status(portico):
    """G0.4, G1.51"""
    assert fetch(portico.base + "/health").status == 200
    assert fetch(portico.base + "/other").status == 404
    status = portico.operator("/status").json()
    assert (status["totalServers"], status["healthyServers"]) == (1, 1)
    assert portico.operator("/status/s1").json()["id"].startswith("s1:s1_:")
    assert portico.operator("/status/nobody").status == 404


@pytest.mark.serve_only(reasons.ITS_FILE)
def test_a_change_of_the_file_is_picked_up_and_a_broken_one_is_not(echo):
    """G1.32, G1.34, G1.90"""
    with gateway(config()) as process:
        client = process.client()
        client.init()
        assert client.rpc("tools/list").result == {"tools": []}
        process.write(config(("late", echo.url, {})))
        eventually(lambda: client.rpc("tools/list").result["tools"])
        process.write("version: 1\nbackends: [nonsense]\n")
        eventually(lambda: fetch(process.base + "/status").json()["configError"])
        assert client.rpc("tools/list").result["tools"]
        process.write(config())
        eventually(lambda: not client.rpc("tools/list").result["tools"])


@pytest.mark.serve_only(reasons.SEVERAL)
def test_two_processes_on_one_file_share_sessions(echo, tmp_path):
    """G1.92"""
    shared = {**config(("s1", echo.url, {})), "store": f"sqlite:{tmp_path}/portico.db"}
    with gateway(shared) as one, gateway(shared) as two:
        client = one.client()
        client.init()
        assert client.call("s1_echo", {"text": "a"}).text == "a"
        other = Client(two.url, session=client.session, version="2025-11-25")
        assert other.call("s1_echo", {"text": "b"}).text == "b"


@pytest.mark.serve_only(reasons.ITS_STORE)
def test_a_store_that_fails_for_a_while_ends_nothing(echo, tmp_path):
    """G1.32"""
    database = tmp_path / "portico.db"

    def declared(*names):
        return config(*((name, echo.url, {}) for name in names), store=f"sqlite:{database}")

    with gateway(declared("one")) as process:
        with closing(sqlite3.connect(database)) as db:
            db.execute("ALTER TABLE records RENAME TO hidden")
            process.write(declared("one", "two"))
            eventually(lambda: "the configuration has changed" in process.stderr())
            eventually(lambda: "no such table" in process.stderr())
            db.execute("ALTER TABLE hidden RENAME TO records")
        client = process.client()
        client.init()
        eventually(lambda: "two_echo" in client.rpc("tools/list").raw.decode())
        process.write(declared("one", "two", "three"))
        eventually(lambda: "three_echo" in client.rpc("tools/list").raw.decode())
        process.signal(signal.SIGTERM)
        assert process.process.wait(10) == 0


@pytest.mark.serve_only(reasons.STOPPED)
def test_backends_that_do_not_take_leave_hold_the_end_up_once_not_each():
    with echo_server() as slow:
        names = ("one", "two", "three", "four")
        with gateway(config(*((name, slow.url, {}) for name in names))) as process:
            slow.control("delay", seconds=60)
            process.signal(signal.SIGTERM)
            assert process.process.wait(15) == 0


@pytest.mark.serve_only(reasons.ITS_STORE)
def test_what_another_release_has_added_to_the_store_is_passed_over(echo, tmp_path):
    """G1.92"""
    database = tmp_path / "portico.db"
    shared = config(("s1", echo.url, {}), store=f"sqlite:{database}")
    with gateway(shared) as process:
        client = process.client()
        client.init()
    with closing(sqlite3.connect(database)) as db:
        query = "SELECT rowid, value FROM records WHERE partition = 'LISTING' OR sort = 'ABOUT'"
        changed = [(json.dumps(json.loads(value) | {"new": 1}), row) for row, value in db.execute(query)]
        assert len(changed) == 2
        db.executemany("UPDATE records SET value = CAST(? AS BLOB) WHERE rowid = ?", changed)
        db.commit()
    with gateway(shared) as process:
        again = Client(process.url, session=client.session, version="2025-11-25")
        assert again.call("s1_echo", {"text": "a"}).text == "a"
