import contextlib

import pytest

from tests.support import Process, config, echo26_server, echo_server
from tests.support.deployed import ARCHITECTURE, ENCRYPTION_KEY, LAMBDA, lay_out
from tests.support.issuer import published

BASE = "https://gw.example.com"


@pytest.fixture(scope="session")
def backends():
    with echo_server() as legacy, echo26_server() as modern:
        yield {"old": legacy, "new": modern}


@pytest.fixture(scope="session")
def deployed(tmp_path_factory, backends):
    """The deployment's /mcp, behind what a REST API does, with a table of moto's."""
    folder = tmp_path_factory.mktemp("deployed")
    record = folder / "record"
    declared = declaring(backends, virtual_servers={"dev": {"tools": ["old_echo"]}})
    with running(folder / "build", declared, "--record", str(record)) as process:
        process.record = record
        yield process


@pytest.fixture(scope="session")
def issuer():
    with published(f"{BASE}/mcp") as made:
        yield made


@pytest.fixture(scope="session")
def guarded(tmp_path_factory, backends, issuer):
    """The same with AuthMode=jwt."""
    declared = declaring(
        backends,
        auth={
            "mode": "jwt",
            "issuers": [{"issuer": issuer.url}],
            "encryption_key": "env:PORTICO_ENCRYPTION_KEY",
        },
        policies=[{"match": {"tool": "*_destructive"}, "require": {"scopes": ["tool:destroy"]}}],
    )
    folder = tmp_path_factory.mktemp("guarded")
    record = folder / "record"
    options = ("--record", str(record))
    said = {"AuthMode": "jwt", "PublicBaseUrl": BASE, "EncryptionKey": ENCRYPTION_KEY}
    with running(folder / "build", declared, *options, **said) as process:
        process.record = record
        yield process


def declaring(backends, **more):
    declared = config(*((name, server.url, {}) for name, server in backends.items()), **more)
    return {name: value for name, value in declared.items() if name != "store"}


@contextlib.contextmanager
def running(place, declared, *options, **parameters):
    """What is declared is looked at once, when it starts."""
    lay_out(place, declared)
    command = [str(LAMBDA / "python"), "-m", "emulator", "template.yaml", str(place), "--once-schedules"]
    for name, value in {"Architecture": ARCHITECTURE, **parameters}.items():
        command += ["--parameter", f"{name}={value}"]
    with Process([*command, *options], seconds=60) as process:
        process.mcp = f"{process.url.rstrip('/')}/mcp"
        yield process
