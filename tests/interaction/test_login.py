"""`portico login`, and the commands that use what it has got."""

import json
import os
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support import Process, config, echo_server, eventually, fetch, gateway
from tests.support.visitor import Visitor

pytestmark = pytest.mark.serve_only("a deployment issues no tokens")

LINK = re.compile(r"\b(http://127\.0\.0\.1:\d+/oauth/authorize\S+)")
NEEDS = [{"match": {"tool": "s1_echo"}, "require": {"scopes": ["echo:say"]}}]


@pytest.fixture(scope="module")
def echo():
    with echo_server() as server:
        yield server


def demanding(echo, **more):
    auth = {"mode": "dev", "scopes_supported": ["mcp:use"], "required_scopes": ["mcp:use"], **more}
    return gateway(config(("s1", echo.url, {}), auth=auth, policies=NEEDS))


@pytest.fixture(scope="module")
def portico(echo):
    with demanding(echo) as process:
        yield process


class User:
    """Somebody at a terminal, with a browser beside it."""

    def __init__(self, home, portico):
        self.home = home
        self.url = portico.url
        self.env = {"XDG_STATE_HOME": str(home), "HOME": str(home)}
        self.page = None

    def run(self, *arguments):
        command = [sys.executable, "-m", "portico.cli", *arguments]
        environment = os.environ | self.env
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def call(self, *arguments):
        return self.run("call", "--url", self.url, *arguments)

    def login(self, *more, decision="allow", back=None, without=()):
        """How it ended, and all that was said. `back` is given the address that the browser is sent to."""
        command = [sys.executable, "-m", "portico.cli", "login", self.url, "--no-browser", *more]
        with Process(command, env=self.env, ready=LINK) as process:
            browser = Visitor()
            self.page = browser.open(process.url)
            address = browser.answer(self.page, decision, without=without).headers["location"]
            for one in back(address) if back else [address]:
                fetch(one)
            return process.process.wait(30), eventually(process.stderr)

    @property
    def kept(self):
        (file,) = (self.home / "portico" / "logins").glob("*.json")
        return file


@pytest.fixture
def user(tmp_path, portico):
    return User(tmp_path, portico)


def test_a_gateway_that_asks_for_a_token_says_what_to_type(user):
    for command in (["tools"], ["status"], ["backends"], ["call", "s1_slow"]):
        done = user.run(*command, "--url", user.url)
        assert done.returncode == 1
        assert done.stderr == f"portico: {user.url} asks for a token: portico login {user.url}\n"


def test_after_a_login_the_commands_work(user):
    """G1.66"""
    code, said = user.login()
    assert code == 0, said
    assert user.page.scopes == ["mcp:use", "offline_access"]
    tools = user.run("tools", "--url", user.url)
    assert "s1_slow" in tools.stdout
    assert "s1_echo" not in tools.stdout
    assert user.call("s1_slow", "seconds=0").returncode == 0


def test_what_is_kept_is_nobody_elses(user):
    user.login()
    assert stat.S_IMODE(user.kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(user.kept.parent.stat().st_mode) == 0o700
    token = json.loads(user.kept.read_text())["access_token"]
    assert token not in user.run("tools", "--url", user.url).stderr


def test_who_needs_more_is_told_what_to_type_and_keeps_what_he_has(user):
    """G1.80"""
    user.login()
    refused = user.call("s1_echo", "text=hi")
    assert refused.returncode == 1
    assert refused.stderr == f"portico: you need more for that: portico login {user.url} --scope echo:say\n"
    code, _ = user.login("--scope", "echo:say")
    assert code == 0
    assert user.call("s1_echo", "text=hi").stdout == "hi\n"
    assert user.call("s1_slow", "seconds=0").returncode == 0


def test_operators_log_in_for_what_operators_need(user):
    user.login()
    refused = user.run("status", "--url", user.url)
    assert f"portico login {user.url} --scope portico:operate" in refused.stderr
    user.login("--scope", "portico:operate")
    assert user.run("status", "--url", user.url).returncode == 0


def test_a_token_that_has_expired_is_made_new_even_by_many_at_once(echo, tmp_path):
    with demanding(echo, access_token_s=1) as portico:
        user = User(tmp_path, portico)
        user.login()
        first = json.loads(user.kept.read_text())
        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(lambda _: user.run("tools", "--url", user.url), range(4)))
        assert [one.returncode for one in done] == [0] * 4, [one.stderr for one in done]
        assert json.loads(user.kept.read_text())["refresh_token"] != first["refresh_token"]


def test_who_has_no_refresh_token_logs_in_again(echo, tmp_path):
    with demanding(echo, access_token_s=1) as portico:
        user = User(tmp_path, portico)
        user.login(without=("offline_access",))
        token = json.loads(user.kept.read_text())["access_token"]
        known = {"authorization": f"Bearer {token}"}
        eventually(lambda: fetch(f"{portico.base}/status", headers=known).status == 401)
        done = user.run("tools", "--url", user.url)
        expected = f"portico: {user.url} does not accept your token any more: portico login {user.url}\n"
        assert done.stderr == expected


def test_a_logout_forgets(user):
    user.login()
    assert user.run("logout", user.url).stdout == f"logged out of {user.url}\n"
    assert "asks for a token" in user.run("tools", "--url", user.url).stderr
    assert user.run("logout", user.url).stdout == f"nobody was logged in to {user.url}\n"


def test_a_file_that_is_broken_is_as_good_as_none(user):
    user.login()
    for content in ("", "{}", "[]", '{"url": 1}', "\x00"):
        user.kept.write_text(content)
        assert "asks for a token" in user.run("tools", "--url", user.url).stderr
    code, _ = user.login()
    assert code == 0


def test_who_denies_is_told_so(user):
    code, said = user.login(decision="deny")
    assert code == 1
    assert "access_denied" in said
    assert "Traceback" not in said


def test_what_comes_from_elsewhere_is_not_what_is_waited_for(user):
    """Another state, another path: the right one may still come."""

    def back(address):
        state = parse_qs(urlsplit(address).query)["state"][0]
        stranger = address.replace(state, "x" * len(state))
        assert fetch(stranger).status == 400
        assert fetch(address.replace("/callback", "/other")).status == 400
        return [address]

    code, said = user.login(back=back)
    assert code == 0, said


@pytest.mark.parametrize("issuer", ["http%3A%2F%2F127.0.0.1%3A1", None])
def test_an_answer_of_another_server_is_not_believed(user, issuer):
    """RFC 9207"""

    def back(address):
        stripped = re.sub(r"&iss=[^&]*", "", address)
        return [stripped if issuer is None else f"{stripped}&iss={issuer}"]

    code, said = user.login(back=back)
    assert code == 1
    assert "came from another authorization server" in said


def test_a_gateway_that_asks_for_nothing_needs_no_login(echo, tmp_path):
    with gateway(config(("s1", echo.url, {}))) as portico:
        done = User(tmp_path, portico).run("login", portico.url, "--no-browser")
        assert done.returncode == 1
        assert "asks for no token" in done.stderr


def test_a_gateway_that_cannot_be_reached_or_is_none(echo, tmp_path, portico):
    user = User(tmp_path, portico)
    for url, why in (
        ("http://127.0.0.1:9/mcp", "cannot be reached"),
        ("http://gw.example.com/mcp", "no https:// address"),
        (f"{echo.base}/nothing", "asks for no token"),
    ):
        done = user.run("login", url, "--no-browser")
        assert done.returncode == 1
        assert why in done.stderr
        assert "Traceback" not in done.stderr
