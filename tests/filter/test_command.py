"""`portico envoy`"""

import re
import subprocess
import sys

import yaml

from tests.bench.processes import free_port
from tests.filter.built import wasm
from tests.filter.envoy import said_of
from tests.support import config, eventually
from tests.support.exchange import fetch
from tests.support.processes import ROOT, Process

BASE = "https://gw.example.com"
DECLARED = config(
    gateway={"public_url": BASE},
    auth={
        "mode": "jwt",
        "issuers": [{"issuer": "https://as.example.com", "jwks_url": "https://localhost:9/jwks"}],
    },
)


def command(*more):
    return [sys.executable, "-m", "portico.cli", "envoy", *more]


def run(tmp_path, said, *more):
    file = tmp_path / "portico.yaml"
    file.write_text(yaml.safe_dump(said))
    options = ["--config", str(file), "--filter", str(wasm()), *more]
    return subprocess.run(command(*options), cwd=ROOT, capture_output=True, text=True, check=False)


def test_it_writes_what_the_file_says(tmp_path):
    done = run(tmp_path, DECLARED, "--gateway", "http://127.0.0.1:7", "--listen", "127.0.0.1:0")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout) == said_of(DECLARED, "http://127.0.0.1:7")


def test_what_the_filter_cannot_do_is_said(tmp_path):
    nobody = config(gateway={"public_url": BASE})
    assert "auth.mode is none" in run(tmp_path, nobody).stderr
    without = config(
        gateway={"public_url": BASE}, auth={"mode": "jwt", "issuers": [{"issuer": "https://as.example.com"}]}
    )
    done = run(tmp_path, without)
    assert done.returncode == 1
    assert "auth.issuers[0].jwks_url" in done.stderr
    for wrong in (("--listen", "10000"), ("--gateway", "127.0.0.1:1"), ("--gateway", "http://x/mcp")):
        assert run(tmp_path, DECLARED, *wrong).returncode == 2


def test_it_starts_envoy(tmp_path):
    file = tmp_path / "portico.yaml"
    file.write_text(yaml.safe_dump(DECLARED))
    port = free_port()
    options = ["--config", str(file), "--filter", str(wasm()), "--listen", f"127.0.0.1:{port}", "--run"]
    ready = re.compile("(starting main dispatch loop)")
    path = {"PATH": str(ROOT / ".venv" / "bin")}
    with Process(command(*options), ready=ready, seconds=60, env=path):
        assert eventually(lambda: fetch(f"http://127.0.0.1:{port}/mcp", {}), 10).status == 401
