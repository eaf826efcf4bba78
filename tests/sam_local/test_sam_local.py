"""The deployment in real containers: `sam local start-api`, its functions handing over by `sam local start-lambda`.

`sam local` cannot stream, so the functions that stream answer whole here; streams are tested on the emulator.
"""

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests import support
from tests.sam_local import engine, image, stack
from tests.support import config, echo26_server, echo_server

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
