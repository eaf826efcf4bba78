"""The operators' API where nothing runs between requests: what is declared is looked at before the answer."""

import json

import pytest

from portico.assembly import assemble
from portico.settings import Settings
from tests.support import echo_server


@pytest.fixture(scope="module")
def echo():
    with echo_server() as server:
        yield server


@pytest.fixture
def settings(tmp_path):
    file = tmp_path / "portico.yaml"
    file.write_text("backends: {}\n")
    return Settings(str(file), f"sqlite:{tmp_path}/portico.db")


async def asked(portico, verb, path, fields=None):
    """Status and body, as an ASGI server would have them of the operators' application."""
    await portico.catch_up()
    application = await portico.control()
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"" if fields is None else json.dumps(fields).encode()}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": verb,
        "path": path,
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    await application(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(body) if body else None


async def test_a_declared_backend_is_looked_at_and_every_other_function_sees_it(settings, echo):
    """G1.32, G1.92"""
    control, other = assemble(settings), assemble(settings)
    await other.catch_up()
    status, _ = await asked(control, "POST", "/backends", {"name": "late", "url": echo.url})
    assert status == 201
    status, found = await asked(control, "GET", "/status/late")
    assert (status, found["ready"]) == (200, True)
    assert found["totalTools"] > 0

    third = assemble(settings)
    assert (await asked(third, "GET", "/status"))[1]["healthyServers"] == 1
    assert (await asked(third, "DELETE", "/backends/late"))[0] == 204
    assert (await asked(third, "GET", "/status"))[1]["servers"] == []
    for portico in (control, other, third):
        await portico.stop()


async def test_a_backend_that_cannot_be_reached_is_declared_all_the_same(settings):
    """G1.47"""
    portico = assemble(settings)
    fields = {"name": "gone", "url": "http://127.0.0.1:1/mcp"}
    assert (await asked(portico, "POST", "/backends", fields))[0] == 201
    status = (await asked(portico, "GET", "/status"))[1]
    assert (status["totalServers"], status["healthyServers"]) == (1, 0)
    assert "cannot be reached" in status["servers"][0]["message"]
    await portico.stop()
