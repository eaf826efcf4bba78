"""Many sessions at once: none fails, and nothing of them is left when they have ended."""

import asyncio
import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import config, eventually, gateway

pytestmark = pytest.mark.serve_only("of what one process holds, and for how long")

SESSIONS = 1000
CALLS = 10
CONNECTIONS = 64
BEGIN = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "load", "version": "1"},
}


class Connection:
    """One kept-alive connection, and requests on it one after the other."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    def begin(self, verb, message=None, session=None):
        body = json.dumps(message).encode() if message else b""
        lines = [
            f"{verb} /mcp HTTP/1.1",
            "host: 127.0.0.1",
            "content-type: application/json",
            "accept: application/json, text/event-stream",
            f"content-length: {len(body)}",
            *([f"mcp-session-id: {session}"] if session else []),
        ]
        self._writer.write("\r\n".join([*lines, "\r\n"]).encode() + body)

    async def send(self, verb, message=None, session=None):
        """Status, session id, and the message of the answer."""
        self.begin(verb, message, session)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        raw = await self._reader.readexactly(int(headers["content-length"]))
        return int(head[0].split()[1]), headers.get("mcp-session-id"), json.loads(raw) if raw else None

    async def close(self):
        self._writer.close()
        await self._writer.wait_closed()


async def all_of(port, work, items):
    """`work(connection, item)` for every item, on so many connections; the results in the order of the items."""
    left, results = iter(enumerate(items)), {}

    async def worker():
        connection = Connection(*await asyncio.open_connection("127.0.0.1", port))
        for number, item in left:
            results[number] = await work(connection, item)
        await connection.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(worker())
    return [results[number] for number in sorted(results)]


def request(method, params, id_=1):
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


async def begin(connection, _):
    status, session, message = await connection.send("POST", request("initialize", BEGIN))
    assert (status, message["result"]["protocolVersion"]) == (200, "2025-11-25")
    return session


async def call(connection, item):
    session, number = item
    text = f"{session} {number}"
    params = {"name": "s1_echo", "arguments": {"text": text}}
    status, named, message = await connection.send("POST", request("tools/call", params, number), session)
    assert (status, named, message["id"]) == (200, session, number)
    assert message["result"]["content"] == [{"type": "text", "text": text}]


async def end(connection, session):
    status, _, _ = await connection.send("DELETE", session=session)
    assert status == 200


async def rush(port, sessions, between):
    """All sessions live before the first call and until after the last."""
    ids = await all_of(port, begin, range(sessions))
    assert len(set(ids)) == sessions
    await all_of(port, call, [(session, number) for number in range(CALLS) for session in ids])
    between()
    await all_of(port, end, ids)


def descriptors(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))  # noqa: PTH208 - only their number


def resident(process):
    """In MiB."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def session_rows(database):
    with closing(sqlite3.connect(database)) as db:
        return db.execute("SELECT count(*) FROM records WHERE partition LIKE 'SESSION#%'").fetchone()[0]


@pytest.mark.timeout(300)
def test_a_thousand_sessions_leave_nothing_behind(echo, tmp_path):
    """G0.67, G1.15, G1.28"""
    database = tmp_path / "portico.db"
    with gateway(config(("s1", echo.url, {}), store=f"sqlite:{database}")) as process:
        eventually(lambda: echo.counters()["get_streams_open"])
        echo.control("log", on=False)
        open_before, upstream_before = descriptors(process), echo.counters()["sessions_open"]

        def all_live():
            assert session_rows(database) == 2 * SESSIONS
            assert echo.counters()["sessions_open"] == upstream_before + SESSIONS

        def nothing_left():
            assert session_rows(database) == 0
            assert echo.counters()["sessions_open"] == upstream_before
            assert descriptors(process) <= open_before + 5
            return True

        sizes = []
        for _ in range(3):
            asyncio.run(rush(process.port, SESSIONS, all_live))
            eventually(nothing_left, 30)
            sizes.append(resident(process))
        assert sizes[2] - sizes[1] < 5, f"MiB after each round: {sizes}"
        assert "Traceback" not in process.stderr()


SLOW = request("tools/call", {"name": "s1_slow", "arguments": {"seconds": 600, "steps": 6000}}, 7)
PROGRESS = {"_meta": {"progressToken": 1}}
WAYS = (  # verb, message, whether to wait for the head of the answer
    ("POST", SLOW, False),
    ("POST", SLOW, True),
    ("POST", SLOW | {"params": SLOW["params"] | PROGRESS}, True),
    ("GET", None, True),
)


async def hang_up(port, session, verb, message, wait):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connection = Connection(reader, writer)
    connection.begin(verb, message, session)
    await writer.drain()
    if wait:
        await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()


def test_clients_that_hang_up_leave_nothing_behind(echo):
    """G0.67"""
    with gateway(config(("s1", echo.url, {}))) as process:
        client = process.client()
        client.init()
        client.call("s1_echo", {"text": "a"})
        streams = echo.counters()["get_streams_open"]
        before = descriptors(process)

        async def all_hang_up():
            async with asyncio.TaskGroup() as group:
                for verb, message, wait in WAYS * 50:
                    group.create_task(hang_up(process.port, client.session, verb, message, wait))

        asyncio.run(all_hang_up())

        def nothing_left():
            assert echo.counters()["calls_running"] == 0
            assert echo.counters()["get_streams_open"] <= streams
            assert descriptors(process) <= before + 5
            return True

        eventually(nothing_left, 20)
        assert client.call("s1_echo", {"text": "still here"}).text == "still here"
        assert "Traceback" not in process.stderr()


def test_a_gateway_that_is_told_to_end_does_so_with_streams_and_calls_open(echo):
    """It ends by itself, and says goodbye to the backend."""
    with gateway(config(("s1", echo.url, {}))) as process:
        client = process.client()
        client.init()
        stream = client.stream()
        call = client.begin_call("s1_slow", {"seconds": 600, "steps": 6000}, meta={"progressToken": 1})
        call.wait_for("notifications/progress")
        deleted = len(echo.counters()["deleted_sessions"])
        process.signal(signal.SIGTERM)
        assert process.process.wait(10) == 0
        for exchange in (stream, call):
            exchange.wait_closed()
        assert len(echo.counters()["deleted_sessions"]) == deleted + 1, "the session of discovery"
        eventually(lambda: echo.counters()["calls_running"] == 0)
        assert "Traceback" not in process.stderr()
