"""The two sequence diagrams of a gateway with authentication, arrow by arrow.

The authorization server is `portico dev-auth`, a process of its own as anybody's would be. On AWS the gateway's own
refusals without a token are API Gateway's, which knows no tool: there they lead to the metadata of the gateway.
"""

import json
import re
from urllib.parse import urlsplit

import pytest

from tests.support import CLIENT_INFO, Place, Process, config, fetch, gateway, module
from tests.support.authorization import guarded_server
from tests.support.grant import Granting

BASE = "https://gw.example.com"
HOST = "prefix.mcp.example"
TOOL = "prefix_echo"
METADATA = "/.well-known/oauth-protected-resource"
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT_INFO}
CALL = {"name": TOOL, "arguments": {"text": "hi"}}


@pytest.fixture(scope="module")
def authorization():
    options = ["--port", "0", "--resource", f"{BASE}/mcp", "--scope", "mcp:use", "--scope", "tool:echo"]
    with Process(module("portico.cli", "dev-auth", *options)) as process:
        yield process


@pytest.fixture(scope="module")
def server(authorization):
    """It has metadata of its own for its tool, and leaves tokens to the gateway."""
    with guarded_server(authorization.base) as process:
        own = {"authorization_servers": [authorization.base], "scopes_supported": ["mcp:use", "tool:echo"]}
        process.wants(open=True, tool=own | {"resource": "the server's own"})
        yield process


@pytest.fixture(scope="module")
def portico(authorization, server):
    with gateway(declared(authorization, server)) as process:
        yield process


def declared(authorization, server):
    return config(
        ("one", server.url, {"prefix": "prefix_", "hostname": HOST}),
        gateway={"public_url": BASE},
        auth={
            "mode": "jwt",
            "issuers": [{"issuer": authorization.base, "algorithms": ["ES256"]}],
            "scopes_supported": ["mcp:use"],
            "required_scopes": ["mcp:use"],
        },
        policies=[{"match": {"backend": "one", "tool": TOOL}, "require": {"scopes": ["tool:echo"]}}],
    )


def post(portico, method, params, token=None, session=None):
    sent = {"accept": "application/json, text/event-stream"}
    sent |= {"authorization": f"Bearer {token}"} if token else {}
    sent |= {"mcp-session-id": session} if session else {}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return fetch(portico.url, body, headers=sent)


def led_to(portico, challenge):
    """Where the challenge leads, asked for as a client would: without a token."""
    url = re.search(r'resource_metadata="([^"]+)"', challenge)[1]
    assert url.startswith(BASE)
    answer = fetch(portico.base + urlsplit(url).path)
    assert answer.status == 200
    return urlsplit(url).path, answer.json()


def granted(metadata, *scopes):
    """Registered and authenticated where the metadata says."""
    (issuer,) = metadata["authorization_servers"]
    client = Granting(issuer)
    assert client.client["client_id"]
    found = client.granted(" ".join(scopes), resource=metadata["resource"])
    return found["access_token"]


def test_initialize(portico, authorization, server):
    """G1.1, G1.60, G1.63, G1.66"""
    known = len(server.seen())
    # Client -> Gateway -> Router (no routing needed) -> auth -> Client: 401
    refused = post(portico, "initialize", INITIALIZE)
    assert refused.status == 401
    challenge = refused.headers["www-authenticate"]
    assert re.fullmatch(rf'Bearer (scope="mcp:use", )?resource_metadata="{BASE}{METADATA}/mcp"', challenge)
    # Client -> Gateway -> Router (no routing needed) -> Broker -> Client
    path, metadata = led_to(portico, challenge)
    assert path == f"{METADATA}/mcp"
    assert (metadata["resource"], metadata["authorization_servers"]) == (f"{BASE}/mcp", [authorization.base])
    # Client -> Auth Server: register, authenticate
    token = granted(metadata, "mcp:use")
    # Client -> Gateway -> Router (no routing needed) -> auth: 200 -> Broker -> Client
    begun = post(portico, "initialize", INITIALIZE, token)
    assert begun.status == 200
    assert begun.json()["result"]["protocolVersion"] == "2025-11-25"
    assert begun.headers["mcp-session-id"]
    # No arrow goes to the server.
    assert not [entry for entry in server.seen()[known:] if entry["method"] == "initialize"]


def test_a_tool_call(portico, authorization, server):
    """G1.73, G1.74, G1.75, G1.77, G1.80"""
    token = granted({"authorization_servers": [authorization.base], "resource": f"{BASE}/mcp"}, "mcp:use")
    session = post(portico, "initialize", INITIALIZE, token).headers["mcp-session-id"]
    tool = f"{METADATA}/tool/{TOOL}"
    # Client -> Gateway -> Router -> auth on authority, by JWT and tool name -> Client: 401, or 403 with a token
    nobody = post(portico, "tools/call", CALL, session=session)
    assert nobody.status == 401
    assert (
        f'{BASE}{tool if Place.chosen == "serve" else METADATA + "/mcp"}"'
        in nobody.headers["www-authenticate"]
    )
    refused = post(portico, "tools/call", CALL, token, session)
    assert refused.status == 403
    challenge = refused.json()["error"]["data"]["wwwAuthenticate"]
    assert (
        challenge == f'Bearer error="insufficient_scope", scope="tool:echo", resource_metadata="{BASE}{tool}"'
    )
    renamed = "www-authenticate" if Place.chosen == "serve" else "x-amzn-remapped-www-authenticate"
    assert refused.headers[renamed] == challenge
    assert not server.seen("tools/call")
    # Client -> Gateway -> Router: authority and path without the prefix -> Server -> Client
    path, metadata = led_to(portico, challenge)
    assert path == tool
    assert server.asked_for_tools() == [f"{METADATA}/tool/echo"]
    assert server.hosts_of_tools() == [HOST]
    assert metadata["scopes_supported"] == ["mcp:use", "tool:echo"]
    assert (metadata["resource"], metadata["authorization_servers"]) == (f"{BASE}/mcp", [authorization.base])
    # Client -> Auth Server: authenticate
    better = granted(metadata, *metadata["scopes_supported"])
    # Client -> Gateway -> Router: authority, body without the prefix, x-mcp-tool -> auth: 200 -> Server -> Client
    answer = post(portico, "tools/call", CALL, better, session)
    assert (answer.status, answer.text) == (200, "hi")
    (seen,) = server.seen("tools/call")
    assert seen["headers"]["host"] == HOST
    assert seen["headers"]["x-mcp-tool"] == "echo"
    assert "authorization" not in seen["headers"]
    assert json.loads(seen["body"])["params"] == {"name": "echo", "arguments": {"text": "hi"}}
