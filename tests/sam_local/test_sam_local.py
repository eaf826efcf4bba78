"""The deployment in real containers: `sam local start-api`, its functions handing over by `sam local start-lambda`.

`sam local` cannot stream, so the functions that stream answer whole here; streams are tested on the emulator. Nor has it
gateway responses, or heeds a Deny: what the authorizer's refusals say to clients is tested there, too.
"""

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests import support
from tests.sam_local import engine, image, stack
from tests.support import config, echo26_server, echo_server, eventually
from tests.support.certificates import certify
from tests.support.exchange import fetch
from tests.support.issuer import published

BASE = "https://gw.example.com"

pytestmark = [
    pytest.mark.timeout(900),  # the first run installs an engine and makes the base image
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@pytest.fixture(scope="module")
def docker():
    with engine.running() as running:
        image.ensure(running)
        yield running


@pytest.fixture(scope="module")
def declared(docker):
    """A portico.yaml with a backend of each era, on this machine."""
    with echo_server(host=docker.address) as legacy, echo26_server(host=docker.address) as modern:
        written = config(("old", legacy.url, {}), ("new", modern.url, {}))
        yield {name: value for name, value in written.items() if name != "store"}


@pytest.fixture(scope="module")
def local(docker, declared, tmp_path_factory):
    place = tmp_path_factory.mktemp("open") / "build"
    with stack.running(docker, place, declared) as running:
        yield running


@pytest.fixture(scope="module")
def certificate(docker, tmp_path_factory):
    """For this machine as containers reach it: an issuer that is not on loopback must speak https."""
    return certify(docker.address, tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def issuer(docker, certificate):
    with published(f"{BASE}/mcp", host=docker.address, certificate=certificate.server) as made:
        yield made


@pytest.fixture(scope="module")
def guarded(docker, declared, issuer, certificate, tmp_path_factory):
    """Everybody needs mcp:use, and tools that destroy need a scope of their own."""
    place = tmp_path_factory.mktemp("guarded") / "build"
    access = {
        "auth": {"mode": "jwt", "issuers": [{"issuer": issuer.url}], "required_scopes": ["mcp:use"]},
        "policies": [{"match": {"tool": "*_destructive"}, "require": {"scopes": ["tool:destroy"]}}],
    }
    parameters = {"AuthMode": "jwt", "PublicBaseUrl": BASE}
    with stack.running(
        docker, place, declared | access, authority=certificate.authority, **parameters
    ) as running:
        yield running


async def spoken(url, headers):
    """What a client of the SDK is told: the tools, and the answers of both backends. DELETE is checked on its way."""
    ended = []

    async def watch(response):
        if response.request.method == "DELETE":
            ended.append(response.status_code)

    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, event_hooks={"response": [watch]}) as http,
        Client(streamable_http_client(url, http_client=http), mode="legacy") as client,
    ):
        tools = {tool.name for tool in (await client.list_tools()).tools}
        answers = [
            (await client.call_tool(f"{name}_echo", {"text": name})).content[0].text
            for name in ("old", "new")
        ]
    return tools, answers, ended


async def test_a_session_of_the_sdk_begins_lists_calls_and_ends(local):
    tools, answers, ended = await spoken(local.mcp, {})
    assert {"old_echo", "new_echo"} <= tools
    assert answers == ["old", "new"]
    assert ended == [200]


def test_a_modern_client_needs_no_session(local):
    modern = support.Client(local.mcp)
    assert "2026-07-28" in modern.rpc26("server/discover").result["supportedVersions"]
    assert modern.call26("new_echo", {"text": "a"}).text == "a"


def initialized(guarded, headers):
    """`initialize` as anybody may send it."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    return fetch(guarded.mcp, body, headers={"accept": "application/json, text/event-stream"} | headers)


def bearer(token):
    return {"authorization": f"Bearer {token}"}


async def test_with_a_token_a_session_of_the_sdk_begins_lists_calls_and_ends(guarded, issuer):
    """G1.71"""
    tools, answers, ended = await spoken(guarded.mcp, bearer(issuer.token()))
    assert {"old_echo", "new_echo"} <= tools
    assert "old_destructive" not in tools
    assert answers == ["old", "new"]
    assert ended == [200]


def test_without_a_token_nobody_gets_to_a_function(guarded):
    """`sam local` answers for the authorizer in words of its own, as it has no gateway responses: no challenge."""
    answer = initialized(guarded, {})
    assert (answer.status, answer.json()) == (401, {"message": "Unauthorized"})
    assert answer.headers["www-authenticate"] is None


def test_with_a_token_for_another_audience_nobody_gets_to_a_function(guarded, issuer):
    """What is 401 on API Gateway is 502 here: `sam local` knows no authorizer that says "Unauthorized"."""
    answer = initialized(guarded, bearer(issuer.token(aud="https://other.example.com/mcp")))
    assert (answer.status, answer.json()) == (502, {"message": "Internal server error"})
    why = "a token was refused: the token is for another audience"
    assert eventually(lambda: why in guarded.process.stderr(), 10), (
        "a container's log comes later than its answer"
    )


def test_without_what_everybody_needs_the_authorizer_refuses(guarded, issuer):
    answer = initialized(guarded, bearer(issuer.token(scope="other")))
    assert (answer.status, answer.json()["message"]) == (
        403,
        "User is not authorized to access this resource",
    )


def test_a_token_that_lacks_a_tool_s_scope_is_refused_at_the_tool(guarded, issuer):
    """G1.75"""
    client = support.Client(guarded.mcp, headers=bearer(issuer.token()))
    client.init()
    answer = client.call("old_destructive")
    assert answer.status == 403
    assert 'scope="tool:destroy"' in answer.error["data"]["wwwAuthenticate"]
    allowed = support.Client(guarded.mcp, headers=bearer(issuer.token(scope="mcp:use tool:destroy")))
    allowed.init()
    assert "error" not in allowed.call("old_destructive").message


def test_operators_need_the_operators_scope(guarded, issuer):
    url = f"{guarded.url}/backends"
    assert fetch(url).status == 401
    assert fetch(url, headers=bearer(issuer.token())).status == 403
    token = issuer.token(scope="portico:operate")
    assert fetch(url, headers=bearer(token)).status == 200
