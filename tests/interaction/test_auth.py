"""A gateway that asks everybody for a token."""

import json

import pytest

from tests.support import Place, config, echo_server, gateway
from tests.support.exchange import fetch
from tests.support.issuer import published

BASE = "https://gw.example.com"
METADATA = f"{BASE}/.well-known/oauth-protected-resource"
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


@pytest.fixture(scope="module")
def issuer():
    with published(f"{BASE}/mcp") as made:
        yield made


@pytest.fixture(scope="module")
def echo():
    with echo_server() as server:
        yield server


@pytest.fixture(scope="module")
def portico(echo, issuer):
    declared = config(
        ("s1", echo.url, {}),
        gateway={"public_url": BASE},
        auth={
            "mode": "jwt",
            "issuers": [{"issuer": issuer.url}],
            "scopes_supported": ["mcp:use", "tool:add"],
        },
        policies=[{"match": {"tool": "s1_destructive"}, "require": {"scopes": ["tool:add"]}}],
    )
    with gateway(declared) as process:
        yield process


def ask(portico, method, params=None, *, token=None, session=None, path="/mcp", **headers):
    sent = HEADERS | headers
    sent |= {"authorization": f"Bearer {token}"} if token else {}
    sent |= {"mcp-session-id": session} if session else {}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    return fetch(f"{portico.base}{path}", body, headers=sent)


def begun(portico, token):
    answer = ask(portico, "initialize", INITIALIZE, token=token)
    assert answer.status == 200, answer.raw
    return answer.headers["mcp-session-id"]


def test_without_a_token_a_client_is_told_where_to_get_one(portico):
    """G1.60"""
    answer = ask(portico, "initialize", INITIALIZE)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == f'Bearer resource_metadata="{METADATA}/mcp"'


def test_what_the_challenge_points_at_is_open_and_names_the_issuer(portico, issuer):
    """G1.63, G1.64, G1.65"""
    for path in ("", "/mcp"):
        answer = fetch(f"{portico.base}/.well-known/oauth-protected-resource{path}")
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.json() == {
            "resource_name": "MCP Server",
            "resource": f"{BASE}/mcp",
            "authorization_servers": [issuer.url],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["mcp:use", "tool:add"],
        }


def test_the_metadata_of_a_tool_has_its_scopes_and_an_unknown_one_has_none(portico):
    """G1.78, G1.79"""
    answer = fetch(f"{portico.base}/.well-known/oauth-protected-resource/tool/s1_destructive")
    assert answer.json()["scopes_supported"] == ["tool:add"]
    assert answer.json()["resource"] == f"{BASE}/mcp"
    for path in ("tool/s1_nothing", "tool/", "tool/..%2Fmcp", "other"):
        assert fetch(f"{portico.base}/.well-known/oauth-protected-resource/{path}").status == 404


def test_a_token_is_needed_on_every_request(portico, issuer):
    """G1.68, G1.70"""
    token = issuer.token()
    session = begun(portico, token)
    assert ask(portico, "tools/list", token=token, session=session).status == 200
    assert ask(portico, "tools/list", session=session).status == 401
    assert ask(portico, "tools/list", session=session, path=f"/mcp?access_token={token}").status == 401
    for verb in ("GET", "DELETE"):
        sent = {"mcp-session-id": session, "accept": "text/event-stream"}
        assert fetch(portico.url, method=verb, headers=sent).status == 401


def test_a_session_belongs_to_whom_it_was_begun_by(portico, issuer):
    """G1.69"""
    session = begun(portico, issuer.token(sub="ada"))
    assert ask(portico, "ping", token=issuer.token(sub="eve"), session=session).status == 404
    assert ask(portico, "ping", token=issuer.token(sub="ada"), session=session).status == 200


def test_what_a_principal_may_not_use_it_does_not_see(portico, issuer):
    """G1.74"""
    poor, rich = issuer.token(), issuer.token(scope="tool:add")
    seen = {
        token: {
            tool["name"]
            for tool in ask(portico, "tools/list", token=token, session=begun(portico, token)).json()[
                "result"
            ]["tools"]
        }
        for token in (poor, rich)
    }
    assert seen[rich] - seen[poor] == {"s1_destructive"}


def test_a_call_that_needs_another_scope_is_challenged_and_never_reaches_the_backend(portico, issuer, echo):
    """G1.75, G1.80"""
    token = issuer.token()
    session = begun(portico, token)
    before = len(echo.seen("tools/call"))
    call = {"name": "s1_destructive", "arguments": {}}
    refused = ask(portico, "tools/call", call, token=token, session=session)
    assert refused.status == 403
    challenge = f'Bearer error="insufficient_scope", scope="tool:add", resource_metadata="{METADATA}/tool/s1_destructive"'
    renamed = (
        "" if Place.chosen == "serve" else "x-amzn-remapped-"
    )  # so API Gateway does with a function's own
    assert refused.headers[f"{renamed}www-authenticate"] == challenge
    assert refused.json()["error"]["data"]["wwwAuthenticate"] == challenge
    assert refused.json()["id"] == 1
    assert len(echo.seen("tools/call")) == before
    better = issuer.token(scope="tool:add")
    assert ask(portico, "tools/call", call, token=better, session=session).status == 200


def test_the_token_stays_at_the_gateway(portico, issuer, echo):
    """G1.82: unless the operator wants something else, the backend has no credential."""
    token = issuer.token()
    session = begun(portico, token)
    call = {"name": "s1_echo", "arguments": {"message": "hi"}}
    assert ask(portico, "tools/call", call, token=token, session=session).status == 200
    assert token not in json.dumps(echo.seen())


def test_operators_need_the_operators_scope(portico, issuer):
    for path in ("/status", "/backends"):
        assert fetch(f"{portico.base}{path}").status == 401
        poor = fetch(f"{portico.base}{path}", headers={"authorization": f"Bearer {issuer.token()}"})
        assert poor.status == 403
        assert 'scope="portico:operate"' in poor.headers["www-authenticate"]
        token = issuer.token(scope="portico:operate")
        assert fetch(f"{portico.base}{path}", headers={"authorization": f"Bearer {token}"}).status == 200
    assert fetch(f"{portico.base}/health").status == 200


def test_a_rule_about_annotations_holds_for_tools_whose_annotations_only_their_user_knows(issuer, echo):
    """G1.59, G1.74: else a list of one's own would be a way around it."""
    declared = config(
        ("mine", echo.url, {"user_specific_list": True}),
        gateway={"public_url": BASE},
        auth={"mode": "jwt", "issuers": [{"issuer": issuer.url}]},
        policies=[
            {"match": {"annotations": {"destructiveHint": True}}, "require": {"scopes": ["tool:destroy"]}}
        ],
    )
    with gateway(declared) as process:
        for scope, goes in (("mcp:use", False), ("tool:destroy", True)):
            token = issuer.token(scope=scope)
            session = begun(process, token)
            listed = ask(process, "tools/list", token=token, session=session).json()["result"]["tools"]
            assert ("mine_destructive" in [tool["name"] for tool in listed]) is goes
            before = len(echo.seen("tools/call"))
            call = {"name": "mine_destructive", "arguments": {}}
            answer = ask(process, "tools/call", call, token=token, session=session)
            assert answer.status == (200 if goes else 403)
            assert goes or answer.json()["error"]["data"]["scopes"] == ["tool:destroy"]
            assert len(echo.seen("tools/call")) == before + goes


def test_a_backend_that_a_principal_may_not_use_does_not_speak_to_him(issuer, echo):
    """G1.74: neither in the instructions of `initialize` nor in those of `server/discover`."""
    declared = config(
        ("open", echo.url, {}),
        ("hidden", echo.url, {}),
        gateway={"public_url": BASE},
        auth={"mode": "jwt", "issuers": [{"issuer": issuer.url}]},
        policies=[{"match": {"backend": "hidden"}, "require": {"scopes": ["hidden:use"]}}],
    )
    with gateway(declared) as process:
        for scope, sees in (("mcp:use", False), ("hidden:use", True)):
            token = issuer.token(scope=scope)
            begun = ask(process, "initialize", INITIALIZE, token=token).json()["result"]
            client = process.client(headers={"authorization": f"Bearer {token}"})
            discovered = client.rpc26("server/discover").result
            assert discovered["cacheScope"] == "private"
            for said in (begun["instructions"], discovered["instructions"]):
                assert "## open" in said
                assert ("## hidden" in said) is sees
