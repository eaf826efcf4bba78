import os
import subprocess

import pytest
import yaml

from tests.support import ROOT, Process, config, echo26_server, echo_server

LAMBDA = ROOT / ".cache" / "lambda" / "bin"


def build(place, declared):
    """The deployment as `sam build` makes it, with another portico.yaml in it."""
    command = [LAMBDA / "sam", "build", "--build-dir", place, "--parameter-overrides", "Architecture=x86_64"]
    environment = os.environ | {"SAM_CLI_TELEMETRY": "0", "PATH": f"{LAMBDA}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=110
    )
    assert done.returncode == 0, done.stderr
    for function in place.glob("*Function"):
        (function / "portico.yaml").write_text(yaml.safe_dump(declared))


@pytest.fixture(scope="session")
def backends():
    with echo_server() as legacy, echo26_server() as modern:
        yield {"old": legacy, "new": modern}


@pytest.fixture(scope="session")
def deployed(tmp_path_factory, backends):
    """The deployment's /mcp, behind what a REST API does, with a table of moto's."""
    folder = tmp_path_factory.mktemp("deployed")
    place, record = folder / "build", folder / "record"
    declared = config(*((name, server.url, {}) for name, server in backends.items()))
    build(place, {name: value for name, value in declared.items() if name != "store"})
    command = [str(LAMBDA / "python"), "-m", "emulator", "template.yaml", str(place)]
    options = ["--parameter", "Architecture=x86_64", "--once-schedules", "--record", str(record)]
    with Process([*command, *options], seconds=60) as process:
        process.record = record
        process.mcp = f"{process.url.rstrip('/')}/mcp"
        yield process
