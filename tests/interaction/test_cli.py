"""The demo that `make serve` runs, and the `portico` command as somebody types it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, Process, config, echo_server, eventually, fetch, gateway, module

pytestmark = pytest.mark.serve_only("of the command line")

PORTICO = Path(sys.executable).with_name("portico")


def portico(*arguments, cwd=ROOT, env=None):
    return subprocess.run(
        [str(PORTICO), *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=30, check=False
    )


def free_ports(count):
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def ports():
    return free_ports(2)


@pytest.fixture(scope="module")
def demo_config(tmp_path_factory, ports):
    """portico.yaml as it is, on other ports."""
    folder = tmp_path_factory.mktemp("demo")
    text = (ROOT / "portico.yaml").read_text().replace("sqlite:.portico", f"sqlite:{folder}")
    for own, other in zip(("9001", "9002"), ports, strict=True):
        assert own in text
        text = text.replace(own, str(other))
    file = folder / "portico.yaml"
    file.write_text(text)
    return file


@pytest.fixture(scope="module")
def demo(demo_config):
    with Process(["make", "serve", f"CONFIG={demo_config}", "PORT=0"]) as process:
        yield process


def test_the_demos_tools_are_listed(demo):
    done = portico("tools", "--url", demo.url)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "clock_now",
        "clock_countdown",
        "notes_write",
        "notes_read",
    ]
    assert "Count down, one step every fifth of a second, with progress." in done.stdout
    whole = json.loads(portico("tools", "--json", "--url", demo.url).stdout)
    assert whole[1]["inputSchema"]["required"] == ["steps"]


def test_a_call_shows_progress_apart_from_its_result(demo):
    done = portico("call", "--url", demo.url, "clock_countdown", "steps=3")
    assert (done.returncode, done.stdout) == (0, "lift-off\n")
    assert re.findall(r"(\d) to go", done.stderr) == ["2", "1", "0"]


def test_values_are_json_or_else_text(demo):
    written = portico("call", "--url", demo.url, "notes_write", 'title="5"', "text=a=b, {c}")
    assert "kept '5'" in written.stdout
    read = portico("call", "--json", "--url", demo.url, "notes_read", 'title="5"')
    assert json.loads(read.stdout)["content"] == [{"type": "text", "text": "a=b, {c}"}]


def test_a_tool_that_fails_says_why_on_stderr(demo):
    done = portico("call", "--url", demo.url, "notes_read", "title=nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no note 'nobody', only welcome" in done.stderr
    unknown = portico("call", "--url", demo.url, "nope")
    assert (unknown.returncode, unknown.stderr) == (1, "portico: Unknown tool: nope (-32602)\n")


def test_status_shows_each_backend(demo):
    done = portico("status", "--url", demo.url)
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["clock", "ready", "2", "tools"],
        ["notes", "ready", "2", "tools"],
    ]
    assert json.loads(portico("status", "--json", "--url", demo.url).stdout)["healthyServers"] == 2


def test_status_tells_what_is_wrong():
    (port,) = free_ports(1)
    with gateway(config(("gone", f"http://127.0.0.1:{port}/mcp", {}))) as process:
        done = portico("status", "--url", process.url)
        assert done.returncode == 1
        assert re.match(r"gone +NOT READY +0 tools +\S+", done.stdout)
        process.write(config())
        eventually(lambda: portico("status", "--url", process.url).returncode == 0)
        process.write("version: 1\nbackends: [nonsense]\n")
        eventually(lambda: fetch(process.base + "/status").json()["configError"])
        broken = portico("status", "--url", process.url)
        assert broken.returncode == 1
        assert "backends: expected a mapping" in broken.stderr


def test_what_answers_but_is_no_gateway_is_said_so(demo, ports):
    for command in (["tools"], ["call", "x"], ["status"]):
        done = portico(*command, "--url", f"http://127.0.0.1:{ports[0]}/elsewhere")
        assert done.returncode == 1
        assert "no MCP gateway (HTTP status 404)" in done.stderr


@pytest.mark.parametrize(
    "said",
    [{}, {"tools": None}, {"tools": "x"}, {"tools": [], "nextCursor": "again"}],
    ids=["nothing", "null", "text", "a circle"],
)
def test_a_server_that_lists_no_tools_as_it_should_is_said_so(said):
    with echo_server() as echo:
        echo.control("say", method="tools/list", result=said)
        done = portico("tools", "--url", echo.url)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"portico: what answers at {echo.url} does not list tools as MCP has it\n"


def test_without_a_gateway_the_command_says_what_to_do():
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/mcp"
    for command in (["tools"], ["call", "x", "a=1"], ["status"]):
        done = portico(*command, "--url", url)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            f"portico: no gateway answers at {url}; start one with `portico serve`, or say where it is with --url\n"
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["call", "x", "steps"], "expected KEY=VALUE, found 'steps'"),
        (["call", "x", "=3"], "expected KEY=VALUE, found '=3'"),
        (["call"], "required: TOOL"),
        (["tools", "--url", "127.0.0.1:8088"], "expected a URL such as http://127.0.0.1:8088/mcp"),
        (["serve", "--port", "99999"], "Invalid port number: 99999"),
        ([], "required: COMMAND"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    done = portico(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_help_tells_all_that_there_is():
    overview = portico("--help")
    assert overview.returncode == 0
    for name in ("serve", "check", "status", "tools", "call", "doctor"):
        assert f"    {name} " in overview.stdout
        one = portico(name, "--help")
        assert one.returncode == 0
        assert "(default: " in one.stdout
    assert "portico call clock_countdown steps=3" in portico("call", "--help").stdout
    assert re.fullmatch(r"portico \d+\.\d+\.\d+\n", portico("--version").stdout)


def test_check_names_every_problem_with_its_line(tmp_path):
    """G1.34"""
    text = 'version: 1\nbackends:\n  a: {kind: remote, url: "http://h/mcp", prefx: b}\n  "b c": {}\n'
    (tmp_path / "portico.yaml").write_text(text)
    for arguments in ([], ["portico.yaml"], ["--config", "portico.yaml"]):
        done = portico("check", *arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert "portico.yaml:3: backends.a.prefx" in done.stderr
        assert "did you mean prefix?" in done.stderr
        assert "portico.yaml:4: backends.'b c'" in done.stderr
    refused = portico("serve", "--port", "0", cwd=tmp_path)
    assert (refused.returncode, refused.stderr) == (2, done.stderr)


def test_check_finds_a_good_file_good_and_a_missing_one_missing(tmp_path):
    assert portico("check").stdout == "portico.yaml is fine: 2 backends\n"
    missing = portico("check", cwd=tmp_path)
    assert (missing.returncode, missing.stderr) == (2, "portico.yaml: expected a file, found nothing\n")


def test_check_warns_of_a_credential_that_is_not_there(tmp_path):
    file = tmp_path / "other.yaml"
    file.write_text(
        'version: 1\nbackends: {a: {kind: remote, url: "http://h/mcp", credential: "env:NOT_SET_HERE"}}\n'
    )
    done = portico("check", str(file))
    assert (done.returncode, done.stdout) == (0, f"{file} is fine: 1 backend\n")
    assert "warning: backends.a.credential" in done.stderr
    assert "NOT_SET_HERE" in done.stderr


def test_the_demo_takes_its_servers_along_when_it_ends(tmp_path):
    ports = free_ports(2)
    file = tmp_path / "portico.yaml"
    file.write_text(
        "version: 1\nstore: memory\nbackends:\n"
        f'  clock: {{kind: remote, url: "http://127.0.0.1:{ports[0]}/mcp"}}\n'
        f'  notes: {{kind: remote, url: "http://127.0.0.1:{ports[1]}/mcp"}}\n'
    )
    command = module("examples.demo", "--config", str(file), "--port", "0")
    with Process(command) as process:
        assert all(map(listens, ports))
        taken = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
        assert taken.returncode == 1
        assert f"port {ports[0]} is taken" in taken.stderr
        os.kill(process.pid, signal.SIGTERM)
        eventually(lambda: not any(map(listens, ports)), 10)
        process.process.wait(10)


def test_a_store_that_cannot_be_had_is_said_so(tmp_path):
    file = tmp_path / "portico.yaml"
    file.write_text("version: 1\nstore: dynamodb:sessions\n")
    done = portico("serve", "--config", str(file), "--port", "0", env={"AWS_CONFIG_FILE": os.devnull})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "portico: DynamoDB cannot be used: You must specify a region.\n"
