"""Who asked for what, what was decided, why, and what became of it: a line for each."""

import json

import pytest

from tests.interaction.test_auth import INITIALIZE, ask, begun
from tests.support import Place, config, echo_server, eventually, fetch, gateway
from tests.support.issuer import published

BASE = "https://gw.example.com"


@pytest.fixture(scope="module")
def issuer():
    with published(f"{BASE}/mcp") as made:
        yield made


@pytest.fixture(scope="module")
def portico(issuer):
    with echo_server() as echo:
        declared = config(
            ("s1", echo.url, {}),
            gateway={"public_url": BASE},
            auth={"mode": "jwt", "issuers": [{"issuer": issuer.url}]},
            policies=[{"match": {"tool": "s1_destructive"}, "require": {"scopes": ["tool:destroy"]}}],
            virtual_servers={"dev": {"tools": ["s1_echo"]}},
        )
        as_json = ("--log-format", "json") if Place.chosen == "serve" else ()
        level = {"LOG_LEVEL": "ERROR"} if Place.chosen == "serve" else {}
        with gateway(declared, *as_json, env=level) as process:
            process.echo = echo
            yield process


def lines(portico):
    written = [line for line in portico.stderr().splitlines() if line.startswith("{")]
    return [said for said in map(json.loads, written) if said["logger"] == "authz.audit"]


def line(portico, **wanted):
    """The last that has all this, once it is written."""

    def found():
        return [said for said in lines(portico) if wanted.items() <= said.items()]

    return eventually(found, 10)[-1]


@pytest.mark.serve_only("a deployment writes to its functions' logs")
def test_who_called_what_and_what_became_of_it(portico, issuer):
    token = issuer.token()
    session = begun(portico, token)
    call = {"name": "s1_echo", "arguments": {"text": "a secret of mine"}}
    assert ask(portico, "tools/call", call, token=token, session=session).status == 200
    said = line(portico, tool="s1_echo")
    expected = {
        "issuer": issuer.url,
        "principal": "ada",
        "method": "tools/call",
        "backend": "s1",
        "verdict": "allowed",
        "reason": "no rule fits",
        "outcome": "ok",
        "status": 200,
    }
    assert expected.items() <= said.items()
    assert said["duration_ms"] > 0
    assert line(portico, method="initialize")["status"] == 200
    assert token.rpartition(".")[2] not in portico.stderr()
    assert "a secret of mine" not in portico.stderr()


@pytest.mark.serve_only("a deployment writes to its functions' logs")
def test_whoever_is_refused_leaves_a_line_too(portico, issuer):
    """G1.61, C26"""
    answer = ask(portico, "tools/call", {"name": "s1_echo"})
    assert answer.json()["error"]["message"] == "Authentication required."
    assert answer.json()["id"] == 1
    where = f"{BASE}/.well-known/oauth-protected-resource/tool/s1_echo"
    assert answer.headers["www-authenticate"] == f'Bearer resource_metadata="{where}"'
    said = line(portico, verdict="refused", tool="s1_echo")
    assert (said["status"], said["outcome"], said["reason"]) == (401, "refused", "Authentication required.")
    assert "principal" not in said
    token = issuer.token()
    session = begun(portico, token)
    answer = ask(portico, "tools/call", {"name": "s1_destructive"}, token=token, session=session)
    assert answer.json()["error"]["message"] == "MCP Access denied: Insufficient permissions."
    said = line(portico, verdict="refused", tool="s1_destructive")
    assert (said["status"], said["principal"], said["backend"]) == (403, "ada", "s1")
    assert said["reason"] == "policies[0]: scopes are missing"


@pytest.mark.serve_only("a deployment writes to its functions' logs")
def test_operators_leave_lines_and_so_does_each_call_of_a_batch(portico, issuer):
    sent = {"authorization": f"Bearer {issuer.token(scope='portico:operate', sub='olga')}"}
    assert fetch(f"{portico.base}/status", headers=sent).status == 200
    assert line(portico, method="GET /status")["principal"] == "olga"
    assert fetch(f"{portico.base}/backends", headers=sent).status == 200
    assert line(portico, method="GET /backends")["status"] == 200
    assert fetch(f"{portico.base}/backends/nobody", headers=sent).status == 404
    assert line(portico, method="GET /backends/nobody")["outcome"] == "refused"
    token = issuer.token(sub="bea")
    old = ask(portico, "initialize", INITIALIZE | {"protocolVersion": "2025-03-26"}, token=token)
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": {}}}
        for number, name in enumerate(("s1_echo", "s1_destructive"))
    ]
    headers = {
        "authorization": f"Bearer {token}",
        "mcp-session-id": old.headers["mcp-session-id"],
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
    }
    assert fetch(portico.url, batch, headers=headers).status == 200
    assert line(portico, principal="bea", tool="s1_echo")["verdict"] == "allowed"
    assert line(portico, principal="bea", tool="s1_destructive")["verdict"] == "refused"


@pytest.mark.serve_only("a deployment writes to its functions' logs")
def test_without_keys_that_is_what_the_line_says(issuer):
    """G1.72"""
    issuers = [{"issuer": issuer.url, "jwks_url": "http://127.0.0.1:9/jwks"}]
    declared = config(auth={"mode": "jwt", "issuers": issuers})
    with gateway(declared, "--log-format", "json") as process:
        assert ask(process, "initialize", INITIALIZE, token=issuer.token()).status == 503
        said = line(process, status=503)
        assert (said["verdict"], said["reason"], said["outcome"]) == ("refused", "no keys", "failed")


@pytest.mark.serve_only("a deployment writes to its functions' logs")
def test_for_people_a_line_is_a_sentence(issuer):
    with gateway(config(auth={"mode": "jwt", "issuers": [{"issuer": issuer.url}]})) as process:
        ask(process, "initialize", INITIALIZE)
        text = "INFO authz.audit: somebody: initialize: refused (Authentication required.), refused, 401 in"
        eventually(lambda: text in process.stderr(), 10)
        ask(process, "ping", token=issuer.token(sub="ada\nERROR portico: forged", aud=process.url))
        assert "\nERROR portico: forged" not in process.stderr()


def test_a_session_at_a_virtual_server_goes_from_its_beginning_to_its_end(portico, issuer):
    """G1.85, G1.60"""
    token = issuer.token(aud=f"{BASE}/mcp/v/dev")
    path = "/mcp/v/dev"
    answer = ask(portico, "initialize", INITIALIZE, token=token, path=path)
    assert answer.status == 200
    session = answer.headers["mcp-session-id"]
    tools = ask(portico, "tools/list", token=token, session=session, path=path).json()["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["s1_echo"]
    sent = {"authorization": f"Bearer {token}", "mcp-session-id": session}
    assert fetch(portico.url, method="DELETE", headers=sent).status == 401, "the token is for dev only"
    unknown = fetch(
        f"{portico.base}/mcp/v/nobody", method="GET", headers=sent | {"accept": "text/event-stream"}
    )
    assert unknown.status == 401
    assert fetch(f"{portico.base}{path}", method="DELETE", headers=sent).status == 200
    assert ask(portico, "tools/list", token=token, session=session, path=path).status == 404


def test_nothing_from_outside_says_who_somebody_is(portico, issuer):
    """G1.84: nor does the backend see it."""
    token = issuer.token()
    session = begun(portico, token)
    forged = dict.fromkeys(("x-mcp-verified-sub", "x-portico-principal", "x-mcp-servername"), "mallory")
    call = {"name": "s1_echo", "arguments": {"text": "hi"}}
    assert ask(portico, "tools/call", call, token=token, session=session, **forged).status == 200
    assert "mallory" not in json.dumps(portico.echo.seen("tools/call"))
    assert "mallory" not in portico.stderr()


@pytest.mark.serve_only("a deployment writes to its functions' logs")
def test_what_users_take_back_leaves_a_line(portico, issuer):
    sent = {"authorization": f"Bearer {issuer.token(sub='tina')}"}
    answer = fetch(f"{portico.base}/oauth/upstream/tokens/s1", method="DELETE", headers=sent)
    assert answer.status == 404, "he has given none"
    said = line(portico, method="DELETE /oauth/upstream/tokens/s1")
    assert (said["principal"], said["status"]) == ("tina", answer.status)
