"""`portico doctor` in front of a gateway that is well, and of fronts that are not."""

import base64
import json
import os
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.support import Place, config, eventually, gateway, module, start
from tests.support.certificates import certify

LISTENING = ("--wait", "4")
HEADERS = "let Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method and Mcp-Name pass"
STORE = "every instance needs the same store"
UNBUFFERED = "ResponseTransferMode: RESPONSE_STREAM, not STREAM"
BEHIND = "look at the logs of what is behind it"
ROUTE = "with the stage, as in /prod/mcp"
PAGE = "check the URL's path, and that no login page"
TOKEN_STEPS = ["metadata", "authorization servers", "forged token", "token"]

# Faults of the front; the findings that are neither ok nor left out: verdict, part of the text, part of the fix.
SCENARIOS = {
    "well": {},
    "auth": {},
    "auth+rename": {
        "challenge": ("failed", "renamed to x-amzn-remapped-www-authenticate", "GatewayResponses"),
    },
    "auth+mute": {
        "challenge": ("failed", "401 without WWW-Authenticate", "Bearer resource_metadata="),
        "metadata": ("failed", "answers 404", "to everybody, without a token"),
    },
    "auth+wrong_resource+no_issuer+any_token": {
        "metadata": ("failed", "about https://other.example/mcp, not about", "public_url"),
        "authorization servers": ("failed", "has no metadata", "auth.issuers"),
        "forged token": ("failed", "nobody issued", "verify tokens"),
    },
    "auth+refuse": {
        "initialize": ("failed", "the token is refused (HTTP 401, invalid_token: unknown key)", "new token"),
    },
    "auth+reflect": {
        "tools/list": ("failed", "*** is not enough, nor *** (-32000)", "the gateway's log"),
        "modern tools/list": ("failed", "*** is not enough", "the gateway's log"),
        "header check": ("failed", "*** is not enough", "the gateway's log"),
    },
    "buffer+cookie": {
        "GET stream": ("failed", "not even its head came in 4 s", UNBUFFERED),
        "subscription": ("failed", "not even its head came in 4 s", UNBUFFERED),
        "headers": ("warning", "set a cookie", "sticky sessions off"),
    },
    "late_body+hide_origin": {
        "GET stream": ("failed", "its head came, but nothing else in 4 s", UNBUFFERED),
        "subscription": ("failed", "its head came, but nothing else in 4 s", UNBUFFERED),
        "origin": ("failed", "a web page from elsewhere is served", "gateway.allowed_origins"),
    },
    "together": {
        "GET stream": ("failed", "came together", UNBUFFERED),
        "subscription": ("failed", "came together", UNBUFFERED),
    },
    "lose_sessions": {
        "session": ("failed", "lost on 3 of 3 new connections", STORE),
        "GET stream": ("failed", "not known any more", STORE),
        "end": ("failed", "not known any more", STORE),
    },
    "immortal+skew+cache": {
        "clock": ("failed", "60 min ahead of this one", "NTP"),
        "end": ("failed", "after DELETE the session answers 200, not 404", STORE),
        "headers": ("failed", "a cache may keep answers (public, max-age=60)", "CachingDisabled"),
    },
    "strip": {
        "session": ("failed", "`initialize` names no session, yet one is asked for", HEADERS),
        "server/discover": ("failed", "arrived incomplete", HEADERS),
    },
    "strip_requests+any_page": {
        "tools/list": ("failed", "arrived incomplete (HTTP 400: no session ID found", HEADERS),
        "ping": ("failed", "arrived incomplete", HEADERS),
        "session": ("failed", "arrived incomplete", HEADERS),
        "server/discover": ("failed", "arrived incomplete", HEADERS),
        "GET stream": ("failed", "arrived incomplete", HEADERS),
        "end": ("failed", "arrived incomplete", HEADERS),
        "headers": ("warning", "Access-Control-Allow-Origin is *", "name your own pages"),
    },
    "bad_gateway": {
        "challenge": ("failed", "HTTP 502: the front answers, what is behind it does not", BEHIND),
        "initialize": ("failed", "HTTP 502: the front answers", BEHIND),
        "server/discover": ("failed", "HTTP 502: the front answers", BEHIND),
        "origin": ("failed", "HTTP 502: the front answers", BEHIND),
    },
    "no_initialize": {
        "challenge": ("failed", "HTTP 502: the front answers", BEHIND),
        "initialize": ("failed", "HTTP 502: the front answers", BEHIND),
        "origin": ("failed", "HTTP 502: the front answers", BEHIND),
    },
    "redirect": {
        "challenge": ("failed", "a redirect (308) to", "the address it leads to"),
        "initialize": ("failed", "a redirect (308) to", "the address it leads to"),
    },
    "no_route": {
        "challenge": ("failed", "API Gateway has no such route", ROUTE),
        "initialize": ("failed", "API Gateway has no such route", ROUTE),
    },
    "no_delete+patch_method": {
        "header check": ("failed", "a header that contradicts the body is not noticed", HEADERS),
        "end": ("failed", "API Gateway has no such route", "that the method is deployed"),
    },
    "html": {
        "health": ("failed", "a web page (HTTP 200)", PAGE),
        "challenge": ("failed", "a web page (HTTP 200)", PAGE),
        "initialize": ("failed", "a web page (HTTP 200)", PAGE),
    },
}


@dataclass
class Examined:
    returncode: int
    stdout: str
    stderr: str

    @property
    def findings(self):
        return {finding["step"]: finding for finding in json.loads(self.stdout)["findings"]}

    def bad(self):
        return {step for step, found in self.findings.items() if found["verdict"] in ("warning", "failed")}

    def left_out(self):
        return [step for step, found in self.findings.items() if found["verdict"] == "not applicable"]


def doctor(*arguments, **env):
    done = subprocess.run(
        module("portico.cli", "doctor", *arguments),
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Examined(done.returncode, done.stdout, done.stderr)


def jwt(**claims):
    parts = [json.dumps({"alg": "ES256"}), json.dumps(claims), "a signature of some length"]
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


TOKEN = jwt(exp=time.time() + 3600)


@pytest.fixture(scope="module")
def portico(echo):
    with gateway(config(("s1", echo.url, {}), limits={"keepalive_s": 1})) as process:
        yield process


@pytest.fixture(scope="module")
def front(portico):
    with start("tests.servers.broken_front", "--gateway", portico.url) as process:
        yield process


@pytest.fixture(scope="module")
def examined(front):
    """All of them at once: most of the time they listen."""

    def examine(faults):
        token = ["--token-env", "A_TOKEN"] if faults.startswith("auth") else []
        return doctor(f"{front.url}/{faults}/mcp", "--json", *LISTENING, *token, A_TOKEN=TOKEN)

    with ThreadPoolExecutor(5) as several:
        return dict(zip(SCENARIOS, several.map(examine, SCENARIOS), strict=True))


@pytest.mark.parametrize("faults", SCENARIOS)
def test_every_fault_of_a_front_is_found_with_its_fix(examined, faults):
    run, expected = examined[faults], SCENARIOS[faults]
    assert run.bad() == set(expected), run.stderr
    for step, (verdict, text, fix) in expected.items():
        found = run.findings[step]
        assert found["verdict"] == verdict
        assert text in found["text"], found
        assert fix in found["fix"], found
    assert run.returncode == (1 if any(verdict == "failed" for verdict, _, _ in expected.values()) else 0)


def test_a_protected_gateway_that_is_well_is_asked_everything(examined):
    assert examined["auth"].left_out() == []
    assert examined["well"].left_out() == TOKEN_STEPS


def test_the_token_is_never_shown(examined):
    for run in examined.values():
        for secret in [TOKEN, *TOKEN.split(".")]:
            assert secret not in run.stdout + run.stderr
    assert "\x1b" not in examined["auth+reflect"].stderr


def test_what_is_behind_a_failure_is_left_out_with_the_reason(examined):
    left_out = examined["bad_gateway"]
    assert left_out.findings["tools/call"]["text"] == "`initialize` failed"
    assert left_out.findings["subscription"]["text"] == "`server/discover` failed"
    assert examined["html"].findings["subscription"]["text"] == "`initialize` failed"
    assert examined["strip"].findings["ping"]["text"] == "there is no session"


def test_where_initialize_fails_the_modern_era_is_asked_all_the_same(examined):
    found = examined["no_initialize"].findings
    modern = ("server/discover", "modern tools/list", "header check", "subscription")
    assert {found[step]["verdict"] for step in modern} == {"ok"}
    assert found["GET stream"]["verdict"] == found["end"]["verdict"] == "not applicable"


def test_a_gateway_on_this_machine_is_well(portico):
    """G0.66 G1.28 G1.93 G1.98 G1.101"""
    run = doctor(portico.url)
    assert (run.returncode, run.stderr) == (0, "")
    lines = [line.split() for line in run.stdout.splitlines()]
    assert {line[0] for line in lines[1:-1]} == {"ok", "-"}
    clock = ["clock"] if Place.chosen == "serve" else []  # API Gateway says what time it is
    left_out = ["metadata", "authorization", "forged", *clock, "token"]
    assert [line[1] for line in lines if line[0] == "-"] == left_out
    assert "no token is asked for: fine on loopback" in run.stdout
    assert "s1_read_only answered in" in run.stdout
    counts = f"{22 - len(left_out)} ok, {len(left_out)} not applicable"
    assert run.stdout.splitlines()[-1] == f"well, as far as it was asked: {counts}"


def test_it_calls_the_named_tool_once_and_ends_its_session(portico, echo):
    """G1.28"""
    echo.control("reset_log")
    run = doctor(portico.url, "--json", "--tool", "s1_echo", "text=5", 'n={"a": [1]}', *LISTENING)
    assert run.findings["tools/call"]["text"].startswith("s1_echo answered in")
    assert run.findings["end"]["verdict"] == "ok"
    [call] = echo.seen("tools/call")
    assert json.loads(call["body"])["params"]["arguments"] == {"text": 5, "n": {"a": [1]}}
    eventually(lambda: call["session"] in [seen["session"] for seen in echo.seen(http="DELETE")])


def test_a_tool_that_fails_is_found(portico):
    run = doctor(portico.url, "--json", "--tool", "s1_nope", *LISTENING)
    found = run.findings["tools/call"]
    assert (run.returncode, found["verdict"]) == (1, "failed")
    assert "Unknown tool: s1_nope (-32602)" in found["text"]
    assert "portico tools" in found["fix"]


def test_without_a_token_a_protected_gateway_is_looked_at_from_outside(front):
    run = doctor(f"{front.url}/auth/mcp", "--json")
    assert (run.returncode, run.bad()) == (0, set())
    assert "give one with --token-env NAME" in run.findings["initialize"]["text"]
    assert run.findings["authorization servers"]["verdict"] == "ok"
    assert run.findings["forged token"]["verdict"] == "ok"


def test_an_expired_token_is_recognised_before_it_is_used(front):
    run = doctor(f"{front.url}/auth+refuse/mcp", "--json", "--token", jwt(exp=time.time() - 600))
    assert run.findings["token"]["text"] == "it expired 10 min ago"
    assert run.bad() == {"token", "initialize"}


@pytest.mark.parametrize(
    ("place", "step", "text", "fix"),
    [
        ("http://127.0.0.1:{closed}/mcp", "connection", "nothing listens at 127.0.0.1:", "start the gateway"),
        ("https://127.0.0.1:{gateway}/mcp", "connection", "no TLS there", "use http://"),
        ("http://nowhere.invalid/mcp", "address", "nowhere.invalid has no address", "DNS record"),
        ("http://127.0.0.1:{tls}/well/mcp", "connection", "the server closed the connection", "https://"),
        (
            "https://127.0.0.1:{tls}/well/mcp",
            "connection",
            "certificate is not to be trusted",
            "SSL_CERT_FILE",
        ),
    ],
)
def test_why_an_address_cannot_be_reached(portico, tls_front, place, step, text, fix):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    run = doctor(place.format(closed=closed, gateway=portico.port, tls=tls_front.port), "--json")
    assert (run.returncode, run.bad()) == (1, {step}), run.stderr
    assert text in run.findings[step]["text"]
    assert fix in run.findings[step]["fix"]
    assert run.findings["initialize"]["verdict"] == "not applicable"


def test_a_certificate_that_is_trusted_is_fine(tls_front, certificate):
    run = doctor(
        f"https://127.0.0.1:{tls_front.port}/well/mcp",
        "--json",
        *LISTENING,
        SSL_CERT_FILE=str(certificate.authority),
    )
    assert (run.returncode, run.bad()) == (0, set()), run.stderr
    assert "TLS is fine" in run.findings["connection"]["text"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "expected a URL"),
        (["http://h:99999/mcp"], "expected a URL"),
        (["http://127.0.0.1/mcp", "--token-env", "NOT_SET_HERE"], "NOT_SET_HERE is not set"),
        (["http://127.0.0.1/mcp", "--token", "a\nb"], "cannot stand in a header"),
        (["http://127.0.0.1/mcp", "--tool", "x", "y"], "expected KEY=VALUE, found 'y'"),
        (["http://127.0.0.1/mcp", "--wait", "never"], "expected a number of seconds"),
    ],
)
def test_what_cannot_be_run_at_all(arguments, said):
    run = doctor(*arguments)
    assert (run.returncode, run.stdout) == (2, "")
    assert said in run.stderr


def test_the_help_says_what_is_called_and_what_the_exit_status_means():
    run = doctor("--help")
    assert run.returncode == 0
    assert "A tool is called only if it is named, or if it says that it is read-only" in run.stdout
    assert "0 nothing failed, 1 something did, 2 wrong arguments" in run.stdout


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return certify("127.0.0.1", tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls_front(portico, certificate):
    with start(
        "tests.servers.broken_front", "--gateway", portico.url, "--cert", str(certificate.server)
    ) as process:
        yield process
