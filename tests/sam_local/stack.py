"""The deployment under `sam local`: the build that would be deployed, each function in containers.

What is added is where AWS is, as the functions' environment: `sam local` has no DynamoDB, and sets no variable that
the template does not declare.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import yaml

from portico.stores.dynamodb import create_table
from tests.matrix.processes import running_moto
from tests.sam_local.engine import Engine
from tests.sam_local.image import ARCHITECTURE
from tests.support import ROOT, Process
from tests.support.deployed import lay_out

SAM = ROOT / ".cache" / "lambda" / "bin" / "sam"
REGION = "us-east-1"
KEYS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": REGION}
TABLE = "Table"
"""The template's table has no name of its own: its logical id is what `sam local` takes for one."""
READY = re.compile(r"Running on (http://[^\s]+)")
VARIABLES = "variables.json"
START_S = 120.0


@dataclass(frozen=True)
class Local:
    url: str
    """Of the API."""
    process: Process
    sam: "Sam"

    @property
    def mcp(self) -> str:
        return f"{self.url}/mcp"


@dataclass(frozen=True)
class Sam:
    """`sam local` with one template, one engine, and one set of parameters."""

    engine: Engine
    template: Path
    parameters: Mapping[str, str]

    def invoke(self, function: str) -> Any:
        """What it returns; that it fails is an error that tells why."""
        done = subprocess.run(
            self._command("invoke", function, "--no-event"),
            cwd=self.template.parent,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=START_S,
        )
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout or "null")
        assert not (isinstance(answer, dict) and "errorType" in answer), done.stderr
        return answer

    def start(self, kind: str, host: str, port: int) -> Process:
        """Containers are made as they are needed, and kept."""
        options = ["--host", host, "--port", str(port), "--warm-containers", "LAZY", "--no-watch"]
        command = self._command(kind, *options)
        return Process(
            command, env=self._environment(), cwd=self.template.parent, ready=READY, seconds=START_S
        )

    def _command(self, *what: str) -> list[str]:
        options = ["--template", str(self.template), "--skip-pull-image", "--region", REGION]
        options += ["--env-vars", str(self.template.with_name(VARIABLES))]
        overrides = [f"{name}={value}" for name, value in self.parameters.items()]
        return [str(SAM), "local", *what, *options, "--parameter-overrides", *overrides]

    def _environment(self) -> dict[str, str]:
        return os.environ | KEYS | {"DOCKER_HOST": self.engine.host, "SAM_CLI_TELEMETRY": "0"}


@contextlib.contextmanager
def running(
    engine: Engine,
    place: Path,
    declared: dict[str, Any],
    *,
    port: int = 0,
    authority: Path | None = None,
    **parameters: str,
) -> Iterator[Local]:
    """`declared` is its portico.yaml, `authority` whose certificates its functions trust.

    Backends have been looked at once when it is ready.
    """
    parameters = {"Architecture": ARCHITECTURE, **parameters}
    with contextlib.ExitStack() as stack:
        dynamodb = stack.enter_context(running_moto(engine.address))
        invoking = _free_port(engine.address)
        endpoints = {
            "AWS_ENDPOINT_URL_DYNAMODB": dynamodb,
            "AWS_ENDPOINT_URL_LAMBDA": f"http://{engine.address}:{invoking}",
        }
        sam = Sam(engine, build(place, declared, endpoints, authority), parameters)
        _create_table(dynamodb)
        sam.invoke("DiscoveryFunction")
        stack.enter_context(sam.start("start-lambda", engine.address, invoking))
        api = stack.enter_context(sam.start("start-api", "127.0.0.1", port or _free_port("127.0.0.1")))
        yield Local(api.base, api, sam)


def build(
    place: Path, declared: dict[str, Any], environment: Mapping[str, str], authority: Path | None = None
) -> Path:
    """As `sam build` makes it, with this portico.yaml, and these variables for every function. The template's path."""
    lay_out(place, declared)
    if authority:
        for function in place.glob("*Function"):
            shutil.copy(authority, function)
        environment = {**environment, "SSL_CERT_FILE": f"/var/task/{authority.name}"}
    path = place / "template.yaml"
    template = yaml.safe_load(path.read_text())
    template["Globals"]["Function"]["Environment"]["Variables"].update(environment)
    path.write_text(yaml.safe_dump(template, sort_keys=False))
    # Once more, as variables of the shell that have the same names would go before those of the template.
    path.with_name(VARIABLES).write_text(json.dumps({"Parameters": environment}))
    return path


def _create_table(endpoint: str) -> None:
    client = boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )
    create_table(client, TABLE)
    client.close()


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
