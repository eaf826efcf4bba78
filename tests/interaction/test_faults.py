"""Backends that fail and clients that err: each gets its documented answer, and the next call works."""

import json
import socket
import sqlite3
import time
from contextlib import closing

import pytest

from portico.client import WATCH_AFTER_S
from tests.support import Place, config, dump, echo_server, eventually, fault_server, fetch, gateway, reasons

FAULTS = {
    "hang": (504, -32001),
    "slow_headers": (504, -32001),
    "garbage": (502, -32000),
    "bad_chunk": (502, -32000),
    "not_json": (502, -32000),
    "half_body": (502, -32000),
    "wrong_type": (502, -32000),
    "wrong_id": (502, -32000),
    "status_401": (401, -32000),
    "status_403": (403, -32000),
    "status_404": (502, -32000),
    "status_429": (429, -32000),
    "status_500": (502, -32000),
    "redirect": (502, -32000),
    "header_bomb": (502, -32000),
    "huge": (502, -32000),
    "half_frame": (200, -32000),
    "two_tokens": (200, -32000),
    "no_response": (200, -32000),
    "huge_sse": (200, -32000),
    "hang_sse": (200, -32001),
}
HELD_OPEN = {"hang", "slow_headers", "huge", "huge_sse", "hang_sse"}


@pytest.fixture(scope="module")
def faults():
    with fault_server() as server:
        yield server


@pytest.fixture(scope="module")
def faulty(echo, faults):
    limits = {"call_timeout_s": 2}
    with gateway(config(("f", faults.url, {}), ("s1", echo.url, {}), limits=limits)) as process:
        yield process


@pytest.fixture
def client(faulty):
    client = faulty.client()
    client.init()
    return client


@pytest.mark.parametrize("fault", FAULTS)
def test_a_misbehaving_backend_gives_the_documented_answer(faults, client, fault):
    """G1.25, C11"""
    closed = faults.counters()["closed"].get(fault, 0)
    answer = client.call(f"f_{fault}")
    assert (answer.status, answer.error["code"]) == FAULTS[fault], answer.raw[:300]
    assert answer.error["data"] == {"backend": "f"}
    assert client.call("f_ok").text == "ok"
    assert client.call("s1_echo", {"text": "a"}).text == "a"
    if fault in HELD_OPEN:
        eventually(lambda: faults.counters()["closed"].get(fault, 0) > closed)


def test_a_redirect_is_not_followed(faults, client):
    """G1.25"""
    client.call("f_redirect")
    assert faults.counters()["redirect_followed"] == 0


@pytest.mark.parametrize("fault", ["two_replies", "sends_response_twice"])
def test_of_two_answers_the_first_counts_and_nobody_gets_the_second(faults, client, fault):
    """G1.22"""
    for _ in range(3):
        closed = faults.counters()["closed"].get("two_replies", 0)
        answer = client.call(f"f_{fault}", id=1)
        assert answer.text == "first"
        assert [m.message["id"] for m in answer.messages] == [1]
        if fault == "two_replies":  # the second may come late, but no request goes that way any more
            eventually(lambda: faults.counters()["closed"].get("two_replies", 0) > closed)  # noqa: B023
        assert client.call("f_ok", id=1).text == "ok"


def test_a_backend_that_dies_in_a_call_and_comes_back():
    """G1.25, G1.24"""
    faults = fault_server()
    with gateway(config(("f", faults.url, {}))) as process:
        client = process.client()
        client.init()
        died = client.call("f_kill")
        assert (died.status, died.error["code"]) == (502, -32000)
        gone = client.call("f_ok")
        assert (gone.status, gone.error["code"]) == (503, -32000)
        assert "cannot be reached" in gone.error["message"]
        with fault_server(port=faults.port):
            assert client.call("f_ok").text == "ok"
    faults.close()


def test_a_backend_that_dies_in_a_stream_and_comes_back():
    """G1.24, G1.25"""
    echo = echo_server()
    with gateway(config(("s1", echo.url, {}))) as process:
        client = process.client()
        client.init()
        call = client.begin_call("s1_slow", {"seconds": 60, "steps": 600}, meta={"progressToken": 1})
        call.wait_for("notifications/progress")
        echo.kill()
        answer = call.answer()
        assert (answer.status, answer.error["code"]) == (200, -32000)
        assert client.call("s1_echo", {"text": "a"}).status == 503
        with echo_server(port=echo.port) as again:
            assert client.call("s1_echo", {"text": "back"}).text == "back"
            assert again.counters()["calls"] == 1
    echo.close()


@pytest.mark.serve_only(reasons.HANGS_UP)
def test_a_client_that_goes_away_ends_a_call_that_has_not_answered(faults, client):
    closed = faults.counters()["closed"].get("hang", 0)
    called = faults.counters()["calls"].get("hang", 0)
    call = client.begin_call("f_hang")
    eventually(lambda: faults.counters()["calls"].get("hang", 0) > called)
    call.close()
    eventually(lambda: faults.counters()["closed"].get("hang", 0) > closed)
    assert client.call("f_ok").text == "ok"


@pytest.mark.serve_only(reasons.HANGS_UP)
def test_a_client_that_goes_away_ends_all_the_calls_of_its_batch(faults, client):
    """C30"""
    client.init("2025-03-26")
    before = faults.counters()

    def more(what, tool):
        return faults.counters()[what].get(tool, 0) > before[what].get(tool, 0)

    batch = [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": f"f_{tool}"}}
        for number, tool in enumerate(("trickle", "hang"))
    ]
    call = client.begin_post(dump(batch))
    eventually(lambda: more("calls", "trickle") and more("calls", "hang"))
    call.close()
    eventually(lambda: more("closed", "trickle") and more("closed", "hang"))


@pytest.mark.serve_only(reasons.HANGS_UP)
def test_a_client_that_took_its_time_to_ask_and_goes_away_ends_its_call_too(faults):
    with gateway(config(("f", faults.url, {}))) as process:
        client = process.client()
        client.init()
        body = dump({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f_hang"}})
        head = (
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Mcp-Session-Id: {client.session}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        before = faults.counters()
        with socket.create_connection(("127.0.0.1", process.port)) as connection:
            connection.sendall(head.encode())
            time.sleep(4 * WATCH_AFTER_S)
            connection.sendall(body)
            eventually(lambda: faults.counters()["calls"].get("hang", 0) > before["calls"].get("hang", 0))
        eventually(lambda: faults.counters()["closed"].get("hang", 0) > before["closed"].get("hang", 0))


def test_a_client_that_takes_no_streams_is_told_when_the_answer_would_come_on_another_one(client):
    answer = client.call("f_later", headers={"accept": "application/json"})
    assert (answer.status, answer.error["code"]) == (502, -32000)


def test_a_connection_is_used_again_only_if_the_backend_keeps_it(client):
    """An HTTP/1.0 backend closes after every answer, without saying so."""
    for _ in range(5):
        assert client.call("f_old_http").text == "ok"
        assert client.call("f_ok").text == "ok"


def chunked(body, size=65536):
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
LARGE = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"%s"}}' % (b"x" * 6_000_000)
CLIENT_FAULTS = {
    "too large": (LARGE, {}, 413, -32600),
    "too large in pieces": (chunked(LARGE), {"transfer-encoding": "chunked"}, 413, -32600),
    "not JSON": (b"nonsense", {}, 400, -32700),
    "not UTF-8": (b'"\xff"', {}, 400, -32700),
    "a batch": (b"[%s]" % PING, {}, 400, -32600),
    "not JSON-RPC 2.0": (PING.replace(b"2.0", b"1.0"), {}, 400, -32600),
    "another content type": (PING, {"content-type": "text/plain"}, 415, -32600),
    "no content type": (PING, {"content-type": None}, 415, -32600),
    "takes neither JSON nor streams": (PING, {"accept": "text/html"}, 406, -32600),
    "an unknown version": (PING, {"mcp-protocol-version": "1999-01-01"}, 400, -32022),
    "no session": (PING, {"mcp-session-id": None}, 400, -32600),
    "an unknown session": (PING, {"mcp-session-id": "x"}, 404, -32600),
    "an unknown method": (PING.replace(b"ping", b"pong"), {}, 200, -32601),
    "a foreign page": (PING, {"origin": "https://evil.example"}, 403, -32600),
}


@pytest.mark.parametrize("case", CLIENT_FAULTS)
def test_a_client_that_errs_is_told_how(client, case):
    """G0.64, G1.9, G1.29, G1.30, G1.101, C30, C33"""
    body, headers, status, code = CLIENT_FAULTS[case]
    answer = client.post(body, headers)
    assert (answer.status, answer.error["code"]) == (status, code), answer
    assert client.rpc("ping").result == {}


def test_a_large_body_within_the_limit_is_passed_on(client):
    """G1.29"""
    text = "ü" * 2_000_000
    assert client.call("s1_echo", {"text": text}).text == text
    raw = chunked(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode(), 7)
    assert client.post(raw, {"transfer-encoding": "chunked"}).result == {}


@pytest.mark.serve_only(reasons.ITS_STORE)
def test_a_fault_of_the_gateways_own_is_said_without_its_internals(tmp_path):
    """C11"""
    database = tmp_path / "portico.db"
    with gateway(config(store=f"sqlite:{database}")) as process:
        client = process.client()
        client.init()
        with closing(sqlite3.connect(database)) as db:
            db.execute("ALTER TABLE records RENAME TO hidden")
            failed = client.rpc("tools/list")
            assert failed.status == 500
            assert failed.error == {
                "code": -32603,
                "message": "Internal error",
                "data": "the gateway failed; see its log",
            }
            eventually(lambda: "no such table" in process.stderr())
            db.execute("ALTER TABLE hidden RENAME TO records")
        assert client.rpc("tools/list").result == {"tools": []}


def test_other_verbs_are_not_allowed(faulty, client):
    """C6"""
    answer = fetch(faulty.url, method="PUT", headers={"mcp-session-id": client.session})
    # API Gateway knows no other route, and gives the same answer as for any path that is not there.
    expected = (405, "GET, POST, DELETE") if Place.chosen == "serve" else (404, None)
    assert (answer.status, answer.headers["allow"]) == expected
