"""OAuth clients that other people wrote, as they come, at a gateway that issues its own tokens."""

import contextlib
import json
import re
import subprocess

import pytest
from mcp.client.auth import OAuthFlowError

from tests import npm
from tests.interaction.test_clients import INSPECTOR, INSPECTOR_VERSION
from tests.support import ROOT, config, echo_server, eventually, fetch, gateway
from tests.support.client_documents import REDIRECT, client_documents
from tests.support.python_application import Application
from tests.support.terminal import Terminal
from tests.support.visitor import Visitor

pytestmark = [
    pytest.mark.serve_only("a deployment issues no tokens"),
    pytest.mark.timeout(300),  # the first run installs
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@pytest.fixture(scope="module")
def echo():
    with echo_server() as server:
        yield server


@pytest.fixture(scope="module")
def documents():
    with client_documents() as published:
        yield published


def demanding(echo, documents, **auth):
    declared = config(
        ("s1", echo.url, {}),
        auth={"mode": "dev", "scopes_supported": ["mcp:use"], "required_scopes": ["mcp:use"], **auth},
        policies=[{"match": {"tool": "s1_echo"}, "require": {"scopes": ["echo:say"]}}],
    )
    return gateway(declared, env=documents.trusted)


@pytest.fixture(scope="module")
def portico(echo, documents):
    with demanding(echo, documents) as process:
        yield process


@pytest.fixture
def published(documents, request):
    """The address of a document of this test's own."""
    return documents.publish(f"/{abs(hash(request.node.name))}.json")


@pytest.fixture(params=["registered", "published"])
def metadata_url(request, published):
    """None: it registers itself."""
    return published if request.param == "published" else None


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_python_sdk_goes_all_the_way(portico, metadata_url, echo, mode):
    """G1.66, G1.80: from knowing nothing to a tool that needs one scope more."""
    application = Application(portico, metadata_url)
    async with application.connected(mode=mode) as client:
        assert application.pages[0].scopes == ["mcp:use", "offline_access"]
        assert ("Published at" in application.pages[0].text) == (metadata_url is not None)
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert "s1_slow" in tools and "s1_echo" not in tools
        assert (await client.call_tool("s1_slow", {"seconds": 0, "steps": 1})).content[0].text
        assert len(application.pages) == 1

        said = await client.call_tool("s1_echo", {"text": "hi"})
        assert said.content[0].text == "hi"
        assert len(application.pages) == 2
        assert set(application.pages[1].scopes) == {"mcp:use", "echo:say", "offline_access"}
        await client.call_tool("s1_echo", {"text": "again"})
        assert len(application.pages) == 2
    assert application.storage.tokens.access_token not in json.dumps(echo.seen())


@pytest.mark.anyio
async def test_the_python_sdk_refreshes_when_its_token_has_expired(echo, documents):
    with demanding(echo, documents, access_token_s=1) as portico:
        application = Application(portico)
        async with application.connected(mode="legacy") as client:
            first = application.storage.tokens
            eventually(lambda: not application.provider.context.is_token_valid())
            assert (await client.call_tool("s1_slow", {"seconds": 0, "steps": 1})).content[0].text
        assert len(application.pages) == 1
        assert application.storage.tokens.refresh_token != first.refresh_token


class Script:
    """tests/clients/oauth.mjs, and the user in front of it."""

    def __init__(self, sdk, portico, **options):
        home = npm.install("@".join(sdk))
        given = {"redirect": REDIRECT, "tools": CALLS} | options
        self.pages = []
        self._user = Visitor()
        self._process = subprocess.Popen(
            [npm.node(), str(ROOT / "tests/clients/oauth.mjs"), home, sdk[0], portico.url, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()

    def heard(self, wanted):
        """What it says of `wanted`; until then its user does what he is asked to."""
        for line in self._process.stdout:
            message = json.loads(line)
            if wanted in message:
                return message[wanted]
            self.pages.append(self._user.open(message["open"]))
            self.tell(self._user.answer(self.pages[-1], subject="ada").headers["location"])
        raise AssertionError(self._process.stderr.read())

    def tell(self, line):
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()


CALLS = [("s1_slow", {"seconds": 0, "steps": 1}), ("s1_echo", {"text": "hi"}), ("s1_echo", {"text": "again"})]
SDK_1 = ("@modelcontextprotocol/sdk", "1.32.2")
SDK_2 = ("@modelcontextprotocol/client", "2.4.0")


@pytest.mark.parametrize(
    ("sdk", "modern"), [(SDK_1, False), (SDK_2, False), (SDK_2, True)], ids=["1", "2-legacy", "2-modern"]
)
def test_the_typescript_sdk_goes_all_the_way(portico, echo, metadata_url, sdk, modern):
    """G1.66, G1.80: from knowing nothing to a tool that needs one scope more."""
    with Script(sdk, portico, published=metadata_url, modern=modern) as script:
        saw = script.heard("saw")
    assert ("Published at" in script.pages[0].text) == (metadata_url is not None)
    assert "s1_slow" in saw["tools"] and "s1_echo" not in saw["tools"]
    assert saw["texts"][1:] == ["hi", "again"]
    assert len(script.pages) == 2
    assert {"mcp:use", "echo:say"} <= set(script.pages[1].scopes)
    assert {"mcp:use", "echo:say"} <= set(saw["tokens"]["scope"].split())
    assert saw["tokens"]["access_token"] not in json.dumps(echo.seen())


@pytest.mark.parametrize("sdk", [SDK_1, SDK_2], ids=["1", "2"])
def test_the_typescript_sdk_refreshes_when_its_token_has_expired(echo, documents, sdk):
    """1.x asks for offline_access only where the application says so, and nobody else says anything of scopes."""
    scopes = {} if sdk == SDK_2 else {"scopes_supported": [], "required_scopes": []}
    calls = [CALLS[0]]
    with (
        demanding(echo, documents, access_token_s=1, **scopes) as portico,
        Script(sdk, portico, scope="offline_access", tools=calls, pause=True) as script,
    ):
        first = script.heard("paused")
        known = {"authorization": f"Bearer {first['access_token']}"}
        eventually(lambda: fetch(f"{portico.base}/status", headers=known).status == 401)
        script.tell("on")
        saw = script.heard("saw")
    assert len(script.pages) == 1
    assert saw["texts"]
    assert saw["tokens"]["refresh_token"] != first["refresh_token"]


@pytest.mark.anyio
async def test_a_user_who_denies_is_an_error_in_the_application(portico):
    application = Application(portico, decision="deny")
    with pytest.raises(ExceptionGroup) as raised:
        async with application.connected(mode="legacy"):
            pass
    assert raised.group_contains(OAuthFlowError, match="No authorization code received")


def test_what_the_typescript_sdk_1_does_with_a_refresh_token_in_the_place_of_a_step_up(echo, documents):
    """It refreshes, gets the scopes that it had, and gives up (typescript-sdk issue 2255, mended in 2.x): the reason why
    refresh tokens are for those who ask for offline_access."""
    with (
        demanding(echo, documents, scopes_supported=[], required_scopes=[]) as portico,
        Script(SDK_1, portico, scope="offline_access") as script,
        pytest.raises(AssertionError, match="Server returned 403 after trying upscoping"),
    ):
        script.heard("saw")
    assert len(script.pages) == 1


LINK = re.compile(r"(http://127\.0\.0\.1:\d+/oauth/authorize\?[^\s\x00-\x1f]+)[\s\x00-\x1f]")


class Inspector:
    """Its command line, which keeps what it has got from one command to the next."""

    def __init__(self, home, portico):
        entry = (
            npm.install(f"{INSPECTOR}@{INSPECTOR_VERSION}") / INSPECTOR / "clients/launcher/build/index.js"
        )
        self._command = [npm.node(), str(entry), "--cli", portico.url, "--transport", "http", "--method"]
        self._env = {
            "HOME": str(home),
            "MCP_AUTO_OPEN_ENABLED": "false",
            "MCP_INSPECTOR_SECRET_STORE": "file",
        }
        self._back = "http://127.0.0.1:0/oauth/callback"

    def ask(self, *arguments, asked=True):
        """The boxes that its user has ticked, if he is asked; and what it said in the end."""
        terminal = Terminal([*self._command, *arguments, "--callback-url", self._back], self._env)
        scopes = []
        with contextlib.closing(terminal):
            if asked:
                user = Visitor()
                page = user.open(terminal.see(LINK))
                scopes = page.scopes
                fetch(user.answer(page, subject="ada").headers["location"])
            code, output = terminal.end()
        assert code == 0, terminal.shown
        return scopes, json.loads(output)


def test_the_inspector_logs_in_once_and_calls(portico, tmp_path):
    """G1.66: stepping up is more than 2.12.0 does at a terminal: it asks for what it had before, and gives up."""
    inspector = Inspector(tmp_path, portico)
    scopes, listed = inspector.ask("tools/list")
    assert scopes == ["mcp:use", "offline_access"]
    assert "s1_slow" in {tool["name"] for tool in listed["tools"]}
    _, called = inspector.ask("tools/call", "--tool-name", "s1_slow", "--tool-arg", "seconds=0", asked=False)
    assert not called.get("isError")
