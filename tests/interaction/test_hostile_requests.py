"""Generated requests of both eras, to a gateway with a backend of each: always an answer, never a fault of its own."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile import HEADERS, MESSAGE, PARAMS
from tests.support import MODERN, config, echo26_server, eventually, fetch, gateway

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
SHORT = {"stream_s": 0.2, "call_timeout_s": 3, "hold_s": 1, "answer_ttl_s": 1}
SERVED = st.sampled_from(
    [
        "tools/call",
        "prompts/get",
        "resources/read",
        "completion/complete",
        "subscriptions/listen",
        "tools/list",
    ]
)


@pytest.fixture(scope="module")
def portico(echo):
    with echo26_server() as modern:
        declared = config(("old", echo.url, {}), ("new", modern.url, {}), limits=SHORT)
        with gateway(declared) as process:
            yield process


@pytest.fixture(scope="module")
def session(portico):
    client = portico.client()
    client.init(capabilities={"elicitation": {}})
    return client


def post(client, body, headers):
    given_id = body.get("id")
    rpc_id = given_id if type(given_id) in (str, int) else None
    sent = {name: value.encode("latin-1").decode("latin-1") for name, value in headers.items()}
    answer = client.post(json.dumps(body).encode(), sent, rpc_id=rpc_id)
    assert answer.status in (200, 202, 400, 403, 404, 406, 502, 503, 504), answer
    if answer.status == 202:
        assert answer.raw == b""
        return
    message = answer.message
    assert message is not None, answer
    assert message["jsonrpc"] == "2.0"
    assert ("result" in message) != ("error" in message)
    if rpc_id is not None and "method" in body:
        assert message["id"] == rpc_id and type(message["id"]) is type(rpc_id), answer
    if "error" in message and message["error"]["code"] == -32603:
        raise AssertionError(answer)


@settings(max_examples=250)
@given(body=MESSAGE, headers=HEADERS)
def test_anything(portico, body, headers):
    """G1.98, C11"""
    post(portico.client(), body, headers)


@settings(max_examples=250)
@given(method=SERVED, params=PARAMS, rpc_id=st.integers() | st.text(max_size=4))
def test_modern_requests_with_odd_parameters(portico, method, params, rpc_id):
    """G1.98, G1.100"""
    meta = params.get("_meta")
    envelope = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    params = {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), **envelope}}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    name = params.get(NAMED.get(method, ""))
    if isinstance(name, str) and name.isascii() and name.isprintable() and name == name.strip():
        headers["Mcp-Name"] = name
    post(portico.client(), {"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params}, headers)


@settings(max_examples=150)
@given(body=MESSAGE)
def test_messages_of_a_session_with_odd_parameters(session, body):
    """G1.9, G1.100"""
    if body.get("method") != "initialize":
        post(session, body, {})


def test_the_gateway_is_as_it_was(portico, session):
    """G1.100: after all of the above."""
    assert fetch(f"{portico.base}/health").json() == {"status": "ok"}
    modern = portico.client()
    for tool in ("old_echo", "new_echo"):
        assert modern.call26(tool, {"text": "well"}).text == "well"
        assert session.call(tool, {"text": "well"}).text == "well"
    assert "Traceback" not in portico.stderr()
    eventually(lambda: portico.operator("/status").status == 200)
