"""A gateway that issues its own tokens, and the server that issues them by itself."""

import asyncio
import base64
import json
import signal
import subprocess
import sys

import pytest

from authz.model import Access
from portico.assembly import Portico, assemble
from portico.registry import DevAuth, Registry, Watch, load
from portico.settings import Settings
from tests.support import ROOT, Process, config, echo_server, eventually, fetch, gateway, module
from tests.support.grant import Granting
from tests.support.python_application import Application

pytestmark = [
    pytest.mark.serve_only("a deployment issues no tokens"),
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
PAGE = {"origin": "http://localhost:6274"}
AUTH = {"mode": "dev", "scopes_supported": ["mcp:use"], "required_scopes": ["mcp:use"]}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


@pytest.fixture(scope="module")
def portico():
    with gateway(config(auth=AUTH)) as process:
        yield process


@pytest.fixture
def client(portico):
    return Granting(portico.base)


def initialize(portico, token=None, **headers):
    sent = {"accept": "application/json, text/event-stream"} | headers
    sent |= {"authorization": f"Bearer {token}"} if token else {}
    return fetch(portico.url, INITIALIZE, headers=sent)


def test_nothing_has_to_be_configured():
    with gateway(config(auth={"mode": "dev"})) as portico:
        assert initialize(portico).status == 401
        metadata = fetch(f"{portico.base}/.well-known/oauth-protected-resource/mcp").json()
        assert metadata["resource"] == portico.url
        assert metadata["authorization_servers"] == [portico.base]
        token = Granting(portico.base).granted()["access_token"]
        assert initialize(portico, token).status == 200


def test_clients_of_2025_03_26_find_the_server_where_they_look(portico):
    """At the root of the gateway's origin, for they know nothing of resources."""
    found = fetch(f"{portico.base}/.well-known/oauth-authorization-server").json()
    assert found["issuer"] == portico.base


def test_what_has_been_revoked_is_refused_at_once(portico, client):
    """G1.67"""
    said = client.granted("mcp:use offline_access")
    assert initialize(portico, said["access_token"]).status == 200
    form = {"token": said["refresh_token"], "client_id": client.client["client_id"]}
    assert client.post("revoke", form).status == 200
    refused = initialize(portico, said["access_token"])
    assert refused.status == 401
    assert 'error="invalid_token"' in refused.headers["www-authenticate"]


def test_a_code_that_is_replayed_takes_its_token_along(portico, client):
    token = client.granted("mcp:use")["access_token"]
    assert initialize(portico, token).status == 200
    assert client.redeem().status == 400
    assert initialize(portico, token).status == 401


def test_a_token_for_another_audience_is_refused(portico):
    exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
    token = Granting(portico.base).granted("mcp:use")["access_token"]
    server = Granting(
        portico.base,
        grant_types=[exchange],
        redirect_uris=[],
        token_endpoint_auth_method="client_secret_basic",
    )
    pair = f"{server.client['client_id']}:{server.client['client_secret']}".encode()
    form = {
        "grant_type": exchange,
        "subject_token": token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "audience": "https://backend.example.com/mcp",
    }
    answer = server.post("token", form, authorization=f"Basic {base64.b64encode(pair).decode()}")
    assert answer.status == 200
    assert initialize(portico, answer.json()["access_token"]).status == 401


def test_a_rotation_troubles_nobody(portico, client):
    """G1.72"""
    before = client.granted("mcp:use")["access_token"]
    assert initialize(portico, before).status == 200
    kids = {key["kid"] for key in fetch(f"{portico.base}/oauth/jwks").json()["keys"]}
    portico.signal(signal.SIGHUP)
    eventually(lambda: {k["kid"] for k in fetch(f"{portico.base}/oauth/jwks").json()["keys"]} != kids)
    after = client.granted("mcp:use")["access_token"]
    assert before.partition(".")[0] != after.partition(".")[0]
    assert initialize(portico, after).status == 200
    assert initialize(portico, before).status == 200


def test_a_restart_logs_nobody_out(tmp_path):
    declared = {"version": 1, "store": f"sqlite:{tmp_path}/portico.db", "auth": AUTH}
    with gateway(declared) as first:
        origin = first.base
        client = Granting(origin)
        token = client.granted("mcp:use")["access_token"]
    with gateway(declared | {"gateway": {"public_url": origin}}) as second:
        assert initialize(second, token).status == 200
    assert (tmp_path / "dev-auth.json").stat().st_mode & 0o777 == 0o600


def test_what_is_about_tokens_for_backends_stays_the_gateways_own(portico):
    """A client that needs one is described there, and its user's token is taken away there."""
    paths = ("/oauth/upstream/client.json", "/oauth/upstream/start", "/oauth/upstream/callback")
    with gateway(config()) as other:
        for path in paths:
            assert fetch(f"{portico.base}{path}").status == fetch(f"{other.base}{path}").status
    assert fetch(f"{portico.base}/oauth/upstream/tokens/s1", method="DELETE").status == 401


def test_other_modes_have_no_such_paths():
    with gateway(config()) as portico:
        for path in ("/oauth/jwks", "/oauth/authorize", "/.well-known/oauth-authorization-server"):
            assert fetch(f"{portico.base}{path}").status == 404


def test_the_mode_can_be_changed_while_it_runs(portico):
    with gateway(config()) as changing:
        assert initialize(changing).status == 200
        changing.write(config(auth=AUTH))
        eventually(lambda: initialize(changing).status == 401)
        token = Granting(changing.base).granted("mcp:use")["access_token"]
        assert initialize(changing, token).status == 200
        changing.write(config())
        eventually(lambda: fetch(f"{changing.base}/oauth/jwks").status == 404)


# Web pages


def test_a_page_can_read_the_challenge_and_where_it_leads(portico, client):
    refused = initialize(portico, **PAGE)
    assert refused.status == 401
    poor = client.granted("portico:operate")["access_token"]
    lacking = initialize(portico, poor, **PAGE)
    assert lacking.status == 403
    for answer in (refused, lacking):
        assert answer.headers.get_all("access-control-allow-origin") == [PAGE["origin"]]
        exposed = answer.headers["access-control-expose-headers"]
        assert {"www-authenticate", "mcp-session-id"} <= {name.strip() for name in exposed.split(",")}
        assert answer.headers["www-authenticate"].startswith("Bearer ")


def test_a_page_can_read_all_metadata(portico):
    """G1.65: once, or browsers do not believe it."""
    for path in ("oauth-protected-resource/mcp", "oauth-authorization-server", "openid-configuration"):
        url = f"{portico.base}/.well-known/{path}"
        asks = PAGE | {"access-control-request-headers": "mcp-protocol-version"}
        before = fetch(url, method="OPTIONS", headers=asks)
        assert before.status in (200, 204)
        assert "mcp-protocol-version" in before.headers["access-control-allow-headers"]
        for answer in (before, fetch(url, headers=PAGE)):
            assert len(answer.headers.get_all("access-control-allow-origin")) == 1
            assert answer.headers["access-control-allow-origin"] in ("*", PAGE["origin"])


def test_a_page_from_elsewhere_learns_nothing(portico):
    for path in ("/mcp", "/oauth/jwks", "/oauth/authorize", "/.well-known/oauth-authorization-server"):
        answer = fetch(f"{portico.base}{path}", headers={"origin": "https://evil.example.com"})
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers


# Where it is not to be


@pytest.mark.parametrize("more", [[], ["--insecure"]])
def test_it_listens_on_loopback_whatever_is_said(tmp_path, more):
    file = tmp_path / "portico.yaml"
    file.write_text("{version: 1, store: memory, auth: {mode: dev}}")
    command = module("portico.cli", "serve", "--config", str(file), "--port", "0", "--host", "0.0.0.0", *more)
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "this machine only" in done.stderr


def test_it_is_not_deployed(tmp_path):
    file = tmp_path / "portico.yaml"
    file.write_text("{version: 1, store: memory, auth: {mode: dev}}")
    with pytest.raises(ValueError, match=r"auth\.mode is dev"):
        assemble(Settings(config=str(file)))


def test_a_gateway_for_others_does_not_begin_to_issue_tokens():
    registry = Registry(store="memory", access=Access("http://127.0.0.1:8088/mcp"), dev_auth=DevAuth())
    with pytest.raises(ValueError, match="only on this machine"):
        Portico(registry, loopback=False)


def test_a_gateway_for_others_goes_on_as_it_was_when_its_file_begins_to_say_dev(tmp_path):
    file = tmp_path / "portico.yaml"
    file.write_text("{version: 1, store: memory}")
    watch = Watch(file)

    async def told():
        portico = Portico(watch.poll(), loopback=False, watch=watch)
        await portico.start(0)
        try:
            file.write_text("{version: 1, store: memory, auth: {mode: dev}}")
            async with asyncio.timeout(10):
                while (error := (await portico.status(None))["configError"]) is None:
                    await asyncio.sleep(0.05)
            return error, portico.dev_auth
        finally:
            await portico.stop()

    error, dev_auth = asyncio.run(told())
    assert "listens on loopback" in error
    assert dev_auth is None


# By itself


@pytest.fixture
def dev_auth(request):
    more = getattr(request, "param", [])
    with Process(module("portico.cli", "dev-auth", "--port", "0", *more)) as process:
        yield process


@pytest.mark.anyio
async def test_the_server_by_itself_is_as_good_as_any(dev_auth):
    """G1.66: its metadata and keys by HTTP, as those of a stranger's."""
    policies = [{"match": {"tool": "s1_echo"}, "require": {"scopes": ["echo:say"]}}]
    issuers = [{"issuer": dev_auth.base, "algorithms": ["ES256"]}]
    auth = AUTH | {"mode": "jwt", "issuers": issuers}
    with echo_server() as echo:
        declared = config(("s1", echo.url, {}), auth=auth, policies=policies)
        with gateway(declared) as portico:
            declared["gateway"] = {"public_url": portico.base}
            portico.write(declared)
            path = f"{portico.base}/.well-known/oauth-protected-resource"
            eventually(lambda: fetch(path).json()["resource"] == portico.url)
            application = Application(portico)
            async with application.connected(mode="legacy") as client:
                assert (await client.call_tool("s1_echo", {"text": "hi"})).content[0].text == "hi"
    assert len(application.pages) == 2


@pytest.mark.parametrize(
    "dev_auth", [["--resource", "https://a.example/mcp", "--scope", "a:b"]], indirect=True
)
def test_the_server_by_itself_knows_what_it_is_told(dev_auth):
    client = Granting(dev_auth.base)
    said = client.granted("a:b", resource="https://a.example/mcp")
    payload = said["access_token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert (claims["iss"], claims["aud"], claims["scope"]) == (dev_auth.base, "https://a.example/mcp", "a:b")
    metadata = fetch(f"{dev_auth.base}/.well-known/oauth-authorization-server").json()
    assert metadata["scopes_supported"] == ["a:b", "offline_access"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--host", "0.0.0.0"], "never listens"),
        (["--issuer", "https://as.example.com"], "on this machine"),
        (["--issuer", "http://127.0.0.1:1/path"], "on this machine"),
        (["--token-seconds", "0"], "expected a number of seconds"),
    ],
)
def test_the_server_by_itself_refuses_to_be_anything_else(arguments, why):
    command = [sys.executable, "-m", "portico.cli", "dev-auth", "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode in (1, 2)
    assert why in done.stderr


def test_the_example_is_fine():
    registry = load(ROOT / "examples" / "dev-auth.yaml")
    assert registry.dev_auth is not None
    assert [rule.require.scopes for rule in registry.access.rules] == [("notes:write",)]


def test_what_a_scope_more_would_allow_is_listed_if_the_operator_likes():
    """G1.74: and what no scope would allow is not."""
    policies = [
        {"match": {"tool": "s1_echo"}, "require": {"scopes": ["echo:say"]}},
        {"match": {"tool": "s1_slow"}, "require": {"never": True}},
        {"match": {"tool": "s1_fail"}, "require": {"scopes": ["echo:say"], "roles": ["admin"]}},
    ]
    with echo_server() as echo:
        for lists, expected in (("allowed", set()), ("obtainable", {"s1_echo"})):
            declared = config(("s1", echo.url, {}), auth=AUTH | {"lists": lists}, policies=policies)
            with gateway(declared) as portico:
                token = Granting(portico.base).granted("mcp:use")["access_token"]
                client = portico.client(headers={"authorization": f"Bearer {token}"})
                client.init()
                seen = {tool["name"] for tool in client.rpc("tools/list").result["tools"]}
                assert seen & {"s1_echo", "s1_slow", "s1_fail"} == expected
                assert client.call("s1_echo", {"text": "hi"}).status == 403
