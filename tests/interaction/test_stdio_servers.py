"""Servers from PyPI that speak stdio, run by uvx and put behind HTTP by mcp-proxy, with Portico in front of them all."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interaction.test_real_servers import LISTS, exposed, person, steady
from tests.support import ROOT, Process, config, gateway

pytestmark = pytest.mark.timeout(300)  # the first run installs

PROXY = "mcp-proxy==0.13.0"
UVX = Path(sys.executable).with_name("uvx")
SERVERS = {
    "time": "mcp-server-time==2026.10.19 --local-timezone UTC",
    "git": "mcp-server-git==2026.10.19",
    "sqlite": "--with mcp==1.30.0 mcp-server-sqlite==2025.4.25 --db-path insights.db",
}
INSTALL_SECONDS = 200


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Where the servers run: a git repository with one commit and one change since."""
    folder = tmp_path_factory.mktemp("home")
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgsign=false"]
    (folder / "poem.txt").write_text("roses\n")
    for command in (["init", "-q"], ["add", "poem.txt"], [*who, "commit", "-q", "-m", "a first line"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    (folder / "poem.txt").write_text("roses\nviolets\n")
    return folder


@pytest.fixture(scope="module")
def servers(home):
    """Name to URL."""
    named = [part for name, rest in SERVERS.items() for part in ("--named-server", name, f"{UVX} {rest}")]
    with Process(
        [str(UVX), "--from", PROXY, "mcp-proxy", "--pass-environment", "--port", "0", *named],
        cwd=home,
        env={"UV_CACHE_DIR": str(ROOT / ".cache" / "uv")},
        ready=re.compile(r"Uvicorn running on (http://\S+)"),
        seconds=INSTALL_SECONDS,
    ) as process:
        yield {name: f"{process.url}/servers/{name}/mcp" for name in SERVERS}


@pytest.fixture(scope="module")
def direct(servers):
    clients = {name: person(url) for name, url in servers.items()}
    yield clients
    for client in clients.values():
        client.listening.close()


@pytest.fixture(scope="module")
def through(servers):
    with gateway(config(*((name, url, {}) for name, url in servers.items()))) as process:
        client = person(process.url)
        yield client
        client.listening.close()


@pytest.mark.parametrize(("method", "name"), LISTS.items())
def test_what_the_servers_list_is_listed_together(direct, through, method, name):
    own = [
        item
        for server, client in direct.items()
        for item in exposed(name, client.rpc(method).message.get("result", {}).get(name, []), f"{server}_")
    ]
    assert through.rpc(method).result[name] == own
    assert own or name == "resourceTemplates"


@pytest.mark.parametrize(
    ("server", "tool", "arguments", "part"),
    [
        (
            "time",
            "convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
            "+09:00",
        ),
        (
            "time",
            "convert_time",
            {"source_timezone": "Nowhere", "time": "1", "target_timezone": "UTC"},
            "Nowhere",
        ),
        ("git", "git_status", {"repo_path": "."}, "modified:   poem.txt"),
        ("git", "git_diff_unstaged", {"repo_path": "."}, "+violets"),
        ("git", "git_log", {"repo_path": "."}, "a first line"),
        ("git", "git_show", {"repo_path": ".", "revision": "HEAD"}, "+roses"),
        ("git", "git_show", {"repo_path": ".", "revision": "nonsense"}, "nonsense"),
        ("sqlite", "read_query", {"query": "SELECT 6 * 7 AS answer"}, "[{'answer': 42}]"),
        ("sqlite", "read_query", {"query": "SELECT * FROM nobody"}, "no such table"),
    ],
)
def test_a_tool_answers_as_it_does_directly(direct, through, home, server, tool, arguments, part):
    if "repo_path" in arguments:
        arguments = {**arguments, "repo_path": str(home)}
    own = direct[server].call(tool, arguments)
    assert part in own.text
    assert steady(through.call(f"{server}_{tool}", arguments).message) == steady(own.message)


def test_what_is_written_through_the_gateway_is_there(direct, through):
    through.call("sqlite_create_table", {"query": "CREATE TABLE people (name TEXT)"})
    through.call("sqlite_write_query", {"query": "INSERT INTO people VALUES ('Ann'), ('Łukasz')"})
    rows = direct["sqlite"].call("read_query", {"query": "SELECT name FROM people"}).text
    assert ast.literal_eval(rows) == [{"name": "Ann"}, {"name": "Łukasz"}]
    assert "people" in through.call("sqlite_list_tables").text


def test_a_resource_changes_when_a_tool_changes_it(through):
    through.call("sqlite_append_insight", {"insight": "violets are blue"})
    (memo,) = through.rpc("resources/read", {"uri": "memo://insights"}).result["contents"]
    assert "violets are blue" in memo["text"]


def test_a_prompt_reads_as_it_does_directly(direct, through):
    arguments = {"topic": "gardens"}
    own = direct["sqlite"].rpc("prompts/get", {"name": "mcp-demo", "arguments": arguments})
    assert "gardens" in own.result["messages"][0]["content"]["text"]
    theirs = through.rpc("prompts/get", {"name": "sqlite_mcp-demo", "arguments": arguments})
    assert theirs.result == own.result
