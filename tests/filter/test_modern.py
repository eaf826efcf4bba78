"""Modern requests say in headers what they ask for: with `modern_bodies: pass` nobody waits for their bodies."""

import json

import pytest

from tests.filter.built import wasm
from tests.filter.edge import declared, give_keys
from tests.filter.host import GO_ON, WAIT, Host
from tests.vectors.cases import JWKS, TIME, TOKENS

ADA = TOKENS["tokens"]["ada"]["text"]
MODERN = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call")]


@pytest.fixture(scope="module")
def host():
    made = Host(wasm(), declared("required") | {"modern_bodies": "pass"}, now=TIME)
    made.tick()
    give_keys(made, *JWKS.values())
    return made


def begun(host, *more, token=ADA):
    headers = [(":method", "POST"), (":path", "/mcp"), ("authorization", f"Bearer {token}")]
    return host.begin([*headers, *more], ends=False)


def test_what_may_pass_passes_before_its_body(host):
    request = begun(host, *MODERN, ("mcp-name", "gh_plain"))
    assert request.action == GO_ON
    assert request.header("x-portico-principal") == "ada"
    host.send(request, b'{"whatever": "the gateway compares', ends=False)
    assert request.action == GO_ON
    host.send(request, b' the two"}', ends=True)
    assert request.passed


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ([("mcp-name", "gh_delete_repo")], 403),
        ([("mcp-name", "=?base64?Z2hfZGVsZXRlX3JlcG8=?=")], 403),
        ([("mcp-name", "gh_plain"), ("mcp-name", "gh_delete_repo")], 400),
        ([("mcp-method", "ping")], 400),
    ],
)
def test_what_may_not_is_refused_before_its_body(host, more, status):
    request = begun(host, *MODERN, *more)
    assert request.reply is not None
    assert request.reply.status == status


def test_without_a_token_it_is_refused_with_the_tool_that_the_headers_name(host):
    request = begun(host, *MODERN, ("mcp-name", "gh_plain"), token="x")
    assert request.reply.status == 401
    assert '/tool/gh_plain"' in request.reply.headers["www-authenticate"]


@pytest.mark.parametrize(
    "more", [[], MODERN[:1], MODERN[1:], [("mcp-protocol-version", "2025-11-25"), MODERN[1]]]
)
def test_of_all_others_the_body_is_read(host, more):
    request = begun(host, *more)
    assert request.action == WAIT
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "gh_delete_repo"}}
    host.send(request, json.dumps(call).encode(), ends=True)
    assert request.reply.status == 403
