"""Sessions at legacy backends that modern clients know nothing of: what becomes of them when clients or backends vanish."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from portico.backends.remote import RemoteBackend
from portico.carriers import leases
from portico.catalogue import merge
from portico.credentials.calls import Credentials
from portico.errands import Errands
from portico.http1 import HttpClient
from portico.protocol import jsonrpc
from portico.protocol.modern import Envelope
from portico.registry import Backend, Gateway, Limits
from portico.requests import ModernRequest
from tests.support import config, echo_server, eventually, gateway, reasons

ASKS = {"elicitation": {}}
LEVEL = {"io.modelcontextprotocol/logLevel": "info"}


@pytest.fixture(scope="module")
def echo():
    with echo_server() as server:
        yield server


@pytest.fixture(scope="module")
def portico(echo):
    with gateway(config(("s1", echo.url, {}), limits={"keepalive_s": 1, "call_timeout_s": 2})) as process:
        yield process


@pytest.fixture
def client(portico):
    return portico.client()


def test_a_session_in_place_of_a_forgotten_one_has_the_log_level_too(client, echo):
    """G1.100"""
    for _ in range(2):
        assert client.call26("s1_log", meta=LEVEL).result
        echo.control("forget_sessions")
    methods = [seen["method"] for seen in reversed(echo.seen())]
    assert "logging/setLevel" in methods[: methods.index("initialize")]


def test_progress_of_a_call_that_is_over_is_not_taken_for_the_next_one_s(client, echo):
    """G1.100"""
    meta = {"progressToken": "mine"}
    arguments = {"seconds": 1, "steps": 2}
    params = {"name": "s1_slow", "arguments": arguments, "_meta": meta}
    with client.begin26("tools/call", params, capabilities=ASKS) as call:
        call.wait_for("notifications/progress")
        old = {"progressToken": "portico-old", "progress": 99}
        assert echo.control("notify", method="notifications/progress", params=old)
        assert call.answer().result
        assert [note["params"]["progress"] for note in call.all("notifications/progress")] == [1, 2]


def test_an_error_has_the_status_of_the_code_that_it_has_in_this_era(client):
    """C17, G1.98"""
    answer = client.rpc26("resources/read", {"uri": "echo://unknown/1"})
    assert (answer.status, answer.error["code"]) == (400, -32602)


def test_a_backend_that_only_comments_is_not_silent(client):
    """G1.100: as long as that, a legacy client may wait too."""
    assert client.call26("s1_slow", {"seconds": 4, "steps": 8}).text == "slept 4 s in 8 steps"


@pytest.mark.serve_only(reasons.ITS_STORE)
def test_a_call_that_cannot_be_kept_is_answered_and_its_session_ended(echo, tmp_path):
    """G1.100, C11"""
    database = tmp_path / "portico.db"
    with gateway(config(("s1", echo.url, {}), store=f"sqlite:{database}")) as process:
        client = process.client()
        before = echo.counters()["calls_running"]
        with closing(sqlite3.connect(database)) as db:
            db.execute("ALTER TABLE records RENAME TO hidden")
            failed = client.call26("s1_elicit", capabilities=ASKS)
            db.execute("ALTER TABLE hidden RENAME TO records")
        assert (failed.status, failed.error["code"]) == (500, -32603)
        eventually(lambda: echo.counters()["calls_running"] == before)
        assert client.call26("s1_echo", {"text": "next"}).text == "next"


@pytest.mark.parametrize("hung_up", [False, True], ids=["kept", "its client hung up while it was opened"])
def test_a_session_that_no_call_comes_for_is_ended(echo, monkeypatch, hung_up):
    """G1.100"""
    monkeypatch.setattr(leases, "IDLE_S", 0.1)
    before = echo.counters()
    echo.control("delay", seconds=0.3)
    asyncio.run(open_one(echo, hung_up=hung_up))
    echo.control("delay", seconds=0)
    after = echo.counters()
    assert after["initialize"] == before["initialize"] + 1
    assert after["sessions_open"] == before["sessions_open"]
    assert after["get_streams_open"] == before["get_streams_open"]


def unwired():
    raise AssertionError("nothing is to be fetched")


async def open_one(echo, *, hung_up: bool) -> None:
    http, errands = HttpClient(), Errands()
    backend = RemoteBackend(
        Backend("s1", echo.url, "s1_", "localhost"),
        http,
        Credentials(unwired),
        Gateway(),
        1 << 20,
    )
    message = jsonrpc.read('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}')
    request = ModernRequest(message, {}, merge([]), Envelope("2026-07-28", None, ASKS, None, None))
    kept, deleted = leases.Leases(errands, Limits), echo.counters()["deleted_sessions"]
    opening = asyncio.ensure_future(kept.take(backend, request, []))
    if hung_up:
        sessions = echo.counters()["sessions_open"]
        await asyncio.to_thread(eventually, lambda: echo.counters()["sessions_open"] > sessions)
        opening.cancel()
    else:
        kept.give_back(await opening)
    await asyncio.to_thread(eventually, lambda: len(echo.counters()["deleted_sessions"]) > len(deleted))
    await errands.settle()
    http.close()
