"""A tool's metadata, where its backend has its own."""

import json

import pytest

from tests.servers.echo_tools import DEFINITIONS
from tests.support import config, fetch, gateway

BASE = "https://gw.example.com"
WELL_KNOWN = "/.well-known/oauth-protected-resource/tool"


@pytest.fixture(scope="module")
def process(trusted, guarded):
    auth = {"mode": "jwt", "issuers": [{"issuer": trusted.issuer}], "scopes_supported": ["mcp:use"]}
    policies = [{"match": {"backend": "g"}, "require": {"scopes": ["own"]}}]
    own = config(("g", guarded.url, {}), gateway={"public_url": BASE}, auth=auth, policies=policies)
    with gateway(own) as made:
        yield made


@pytest.fixture
def portico(process, server, backend):
    return process


@pytest.fixture(scope="module")
def tools():
    """What a backend says of one is kept for a while: each test has its own."""
    return iter(DEFINITIONS)


@pytest.fixture
def tool(tools):
    return next(tools)


def described(portico, tool):
    answer = fetch(f"{portico.base}{WELL_KNOWN}/g_{tool}")
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    return answer.json()


def test_a_backends_own_metadata_is_answered_as_clients_may_use_it(portico, server, backend, tool):
    """G1.77: about the gateway (RFC 9728, 3.3), with the authorization servers whose tokens the gateway takes."""
    own = {
        "resource": "echo:own",
        "authorization_servers": [server.issuer, "https://evil.example"],
        "scopes_supported": ["theirs"],
        "x-more": {"a": [1]},
    }
    backend.wants(tool=own)
    found = own | {"resource": f"{BASE}/mcp", "authorization_servers": [server.issuer]}
    assert [described(portico, tool) for _ in range(3)] == [found] * 3
    assert backend.asked_for_tools() == [f"{WELL_KNOWN}/{tool}"]


@pytest.mark.parametrize(
    "wants",
    [
        {},
        {"tool": {"authorization_servers": ["https://as"]}, "status": 404},
        {"tool": {"authorization_servers": ["https://evil.example"]}},
        {"tool": {"resource": "x"}},
        {"tool": []},
        {"tool": {"authorization_servers": "x"}},
        {"tool": {"filler": "x" * 300_000}},
        {"tool": {"a": 1}, "status": 302},
    ],
    ids=lambda wants: json.dumps(wants)[:60],
)
def test_anything_else_is_answered_from_the_policy(portico, server, backend, tool, wants):
    """G1.77, G1.78"""
    backend.wants(**wants)
    found = described(portico, tool)
    assert found["scopes_supported"] == ["own"]
    assert (found["resource"], found["authorization_servers"]) == (f"{BASE}/mcp", [server.issuer])


def test_of_an_unknown_tool_no_backend_is_asked(portico, backend):
    """G1.79"""
    backend.wants(tool={"authorization_servers": ["https://as.example"]})
    for tool in ("g_nothing", "nothing", "..%2Fmcp", ""):
        assert fetch(f"{portico.base}{WELL_KNOWN}/{tool}").status == 404
    assert backend.asked_for_tools() == []


def test_without_tokens_a_backends_metadata_is_the_clients_business(backend):
    """G1.77: unchanged, since the gateway has nothing to say of it."""
    own = {"resource": "echo:own", "authorization_servers": ["https://as.example"]}
    backend.wants(tool=own)
    with gateway(config(("g", backend.url, {}))) as process:
        assert described(process, "echo") == own
        assert fetch(f"{process.base}{WELL_KNOWN}/g_nothing").status == 404
