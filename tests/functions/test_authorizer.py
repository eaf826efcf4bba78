"""The deployment with AuthMode=jwt: API Gateway asks the authorizer before every function."""

import json

import pytest

from portico.aws.failures import METRIC
from tests.functions.conftest import BASE
from tests.support.exchange import fetch
from tests.support.waiting import eventually

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


def ask(guarded, method, params=None, token=None, **headers):
    sent = HEADERS | headers | ({"authorization": f"Bearer {token}"} if token else {})
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    return fetch(guarded.mcp, body, headers=sent)


def begun(guarded, token):
    answer = ask(guarded, "initialize", INITIALIZE, token)
    assert answer.status == 200, answer.raw
    return {"mcp-session-id": answer.headers["mcp-session-id"]}


@pytest.mark.parametrize("token", [None, "nonsense"])
def test_without_a_good_token_the_gateway_response_is_the_challenge(guarded, token):
    """G1.60, G1.71"""
    answer = ask(guarded, "initialize", INITIALIZE, token)
    assert answer.status == 401
    assert (
        answer.headers["www-authenticate"]
        == f'Bearer resource_metadata="{BASE}/.well-known/oauth-protected-resource/mcp"'
    )


def test_with_a_token_a_session_goes_from_its_beginning_to_its_end(guarded, issuer):
    """G1.71"""
    token = issuer.token()
    session = begun(guarded, token)
    tools = ask(guarded, "tools/list", None, token, **session).json()["result"]["tools"]
    assert "old_echo" in {tool["name"] for tool in tools}
    assert "old_destructive" not in {tool["name"] for tool in tools}
    call = {"name": "old_echo", "arguments": {"message": "hi"}}
    assert ask(guarded, "tools/call", call, token, **session).status == 200
    sent = session | {"authorization": f"Bearer {token}"}
    assert fetch(guarded.mcp, method="DELETE", headers=sent).status == 200
    assert ask(guarded, "tools/list", None, token, **session).status == 404


def test_another_s_session_is_not_found(guarded, issuer):
    """G1.69"""
    session = begun(guarded, issuer.token(sub="ada"))
    assert ask(guarded, "tools/list", None, issuer.token(sub="eve"), **session).status == 404


def test_a_function_s_refusal_keeps_its_challenge_in_the_error(guarded, issuer):
    """G1.75: the header itself is renamed by API Gateway."""
    token = issuer.token()
    call = {"name": "old_destructive", "arguments": {}}
    answer = ask(guarded, "tools/call", call, token, **begun(guarded, token))
    assert answer.status == 403
    place = f"{BASE}/.well-known/oauth-protected-resource/tool/old_destructive"
    challenge = f'Bearer error="insufficient_scope", scope="tool:destroy", resource_metadata="{place}"'
    assert answer.json()["error"]["data"]["wwwAuthenticate"] == challenge
    assert answer.headers["x-amzn-remapped-www-authenticate"] == challenge


def test_a_call_with_headers_is_refused_by_the_authorizer_with_a_real_challenge(guarded, issuer):
    """G1.75"""
    said = {"mcp-method": "tools/call", "mcp-name": "new_destructive", "mcp-protocol-version": "2026-07-28"}
    answer = ask(guarded, "tools/call", {"name": "new_destructive"}, issuer.token(), **said)
    assert answer.status == 403
    assert 'scope="tool:destroy"' in answer.headers["www-authenticate"]


def test_whoever_is_let_in_or_not_leaves_a_line(guarded, issuer):
    """Of a 401 there is the authorizer's only: no function hears of it."""
    ask(guarded, "initialize", INITIALIZE, issuer.token(sub="mallory", aud="https://elsewhere.example.com"))
    token = issuer.token(sub="grace")
    session = begun(guarded, token)
    ask(guarded, "tools/call", {"name": "old_destructive", "arguments": {}}, token, **session)

    def noted():
        written = [text.partition("] ")[2] for text in guarded.stderr().splitlines()]
        said = [json.loads(line) for line in written if line.startswith("{")]
        found = [one for one in said if "verdict" in one]
        refused = {one["reason"] for one in found if one["verdict"] == "refused"}
        assert {"the token is for another audience", "policies[0]: scopes are missing"} <= refused
        allowed = [one for one in found if one["verdict"] == "allowed" and one.get("principal") == "grace"]
        return {one["issuer"] for one in allowed} == {issuer.url} and len(allowed) >= 2

    assert eventually(noted, 10)
    assert token.rpartition(".")[2] not in guarded.stderr()
    assert METRIC not in guarded.stderr(), "nobody has to be woken for somebody's old token"


def test_operators_need_the_operators_scope(guarded, issuer):
    url = guarded.mcp.removesuffix("/mcp") + "/backends"
    assert fetch(url).status == 401
    assert fetch(url, headers={"authorization": f"Bearer {issuer.token()}"}).status == 403
    token = issuer.token(scope="portico:operate")
    assert fetch(url, headers={"authorization": f"Bearer {token}"}).status == 200


def test_the_metadata_is_open(guarded, issuer):
    """G1.63"""
    answer = fetch(guarded.mcp.removesuffix("/mcp") + "/.well-known/oauth-protected-resource/mcp")
    assert answer.status == 200
    assert answer.json()["authorization_servers"] == [issuer.url]


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer abc"}], ids=["without", "with"])
def test_what_is_not_there_is_not_there_with_a_token_or_without(guarded, headers):
    """API Gateway takes a token there for a bad signature."""
    answer = fetch(guarded.mcp.removesuffix("/mcp") + "/nowhere", headers=headers)
    assert (answer.status, answer.json()) == (404, {"message": "Not Found"})


def test_a_page_comes_to_read_why_it_was_refused(guarded, issuer):
    """And where to ask for a token: what API Gateway says itself no function has put headers on."""
    origin = {"origin": "https://client.example.com"}
    unknown = ask(guarded, "initialize", INITIALIZE, **origin)
    operators = guarded.mcp.removesuffix("/mcp") + "/backends"
    refused = fetch(operators, headers=origin | {"authorization": f"Bearer {issuer.token()}"})
    assert (unknown.status, refused.status) == (401, 403)
    for answer in (unknown, refused):
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-expose-headers"] == "www-authenticate"
        assert answer.headers["www-authenticate"].startswith("Bearer ")


def test_a_page_may_ask_for_the_metadata_with_a_header_of_mcp(guarded):
    """Which it asks about beforehand."""
    url = guarded.mcp.removesuffix("/mcp") + "/.well-known/oauth-protected-resource/mcp"
    asked = {"origin": BASE, "access-control-request-method": "GET"}
    answer = fetch(url, method="OPTIONS", headers=asked)
    assert answer.status in (200, 204)
    assert answer.headers["access-control-allow-origin"] in ("*", BASE)
    assert "mcp-protocol-version" in answer.headers["access-control-allow-headers"]
