"""The deployment, on this machine: what `sam build` builds, run by the emulator."""

import asyncio
import base64
import fcntl
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import boto3
import yaml

from portico.stores.base import Record
from portico.stores.dynamodb import DynamoStore
from tests.support.client import Client, Headers, given
from tests.support.exchange import Answer, Json, fetch
from tests.support.processes import ROOT, Process

LAMBDA = ROOT / ".cache" / "lambda" / "bin"
BUILDS = ROOT / ".cache" / "deployed"
SOURCES = ("template.yaml", "functions", "layers", "authz", "requirements")
ARCHITECTURE = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
REGION = "us-east-1"
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": REGION}
SIGNED = {"Authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/execute-api/aws4_request"}
START_SECONDS = 60.0
ENCRYPTION_KEY = base64.b64encode(b"portico" * 4 + b"test").decode()
KEPT_S = 24 * 3600.0
NEVER = 24 * 3600.0
T = TypeVar("T")


@functools.cache
def built() -> Path:
    """Where `sam build` put the sources as they are now: once, however many processes ask."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    place = BUILDS / _digest()
    with (BUILDS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "done").exists():
            _prune()
            _build(place)
            (place / "done").touch()
    return place


def lay_out(place: Path, declared: Json) -> None:
    """The build, with another portico.yaml in every function."""
    shutil.copytree(built(), place)
    for function in place.glob("*Function"):
        (function / "portico.yaml").write_text(yaml.safe_dump(declared))


def _prune() -> None:
    """Not what another run may still be using."""
    for old in BUILDS.glob("*/"):
        if old.stat().st_mtime < time.time() - KEPT_S:
            shutil.rmtree(old)


def _digest() -> str:
    found = hashlib.sha256()
    for source in SOURCES:
        files = [ROOT / source, *(ROOT / source).rglob("*")]
        for file in sorted(file for file in files if file.is_file() and file.suffix != ".pyc"):
            found.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]


def _build(place: Path) -> None:
    command = [LAMBDA / "sam", "build", "--build-dir", place]
    command += ["--parameter-overrides", f"Architecture={ARCHITECTURE}"]
    environment = os.environ | {"SAM_CLI_TELEMETRY": "0", "PATH": f"{LAMBDA}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr


class Deployed(Process):
    """Portico behind what a REST API does, with a table of its own; backends are looked at when it starts.

    Its schedules never fire by themselves, unless `discovery.interval_s` is declared: that is then their pace.
    """

    def __init__(
        self,
        config: Json | str,
        *,
        env: Mapping[str, str] | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="portico-"))
        declared = yaml.safe_load(config) if isinstance(config, str) else config
        self._lay_out(declared, env or {})
        command = [str(LAMBDA / "python"), "-m", "emulator", str(self.directory / "template.yaml")]
        command += [str(self.directory), "--parameter", f"Architecture={ARCHITECTURE}"]
        command += ["--minute", str(declared.get("discovery", {}).get("interval_s", NEVER))]
        for name, value in (_said_beside(declared) | dict(parameters or {})).items():
            command += ["--parameter", f"{name}={value}"]
        try:
            super().__init__(command, seconds=START_SECONDS)
            self.url = f"{self.base}/mcp"
            self.look()
        except BaseException:
            self.close()
            raise

    def _lay_out(self, config: Json, env: Mapping[str, str]) -> None:
        """As `sam build` leaves it, but for the configuration, and for an operator's own variables."""
        code = self.directory / "functions"
        shutil.copytree(built() / "EdgeFunction", code)
        kept = {name: value for name, value in config.items() if name != "store"}
        if (auth := config.get("auth", {})).get("mode") == "jwt":
            kept["auth"] = {"encryption_key": "env:PORTICO_ENCRYPTION_KEY"} | auth
        (code / "portico.yaml").write_text(
            yaml.safe_dump(kept, sort_keys=False, allow_unicode=True), encoding="utf-8"
        )
        template = (built() / "template.yaml").read_text(encoding="utf-8")
        template = re.sub(r"CodeUri: \w+Function", f"CodeUri: {code}", template)
        template = re.sub(r"ContentUri: (\w+)", rf"ContentUri: {built()}/\1", template)
        variables = "".join(f"        {name}: {json.dumps(value)}\n" for name, value in env.items())
        first = re.search(r"^ +PORTICO_CONFIG: .*\n", template, re.MULTILINE)
        assert first, "the template has changed"
        text = template[: first.end()] + variables + template[first.end() :]
        (self.directory / "template.yaml").write_text(text, encoding="utf-8")

    def look(self) -> None:
        """Fires the schedule on which backends are looked at."""
        answer = fetch(f"{self._said('Lambda')}/2015-03-31/functions/DiscoveryFunction/invocations", {})
        assert (answer.status, answer.headers["x-amz-function-error"]) == (200, None), answer.raw.decode()

    def operator(
        self, path: str, body: Any = None, *, method: str | None = None, headers: Headers | None = None
    ) -> Answer:
        """What somebody of this AWS account asks of /status or /backends."""
        return fetch(f"{self.base}{path}", body, method=method, headers=SIGNED | given(headers))

    def records(self, partition: str) -> list[Record]:
        return self._with_store(lambda store: store.query(partition))

    def write_record(self, partition: str, sort: str, value: bytes) -> None:
        self._with_store(lambda store: store.put(partition, sort, value))

    def _with_store(self, action: Callable[[DynamoStore], Coroutine[Any, Any, T]]) -> T:
        client = boto3.client("dynamodb", endpoint_url=self._said("DynamoDB"), **KEYS)
        try:
            return asyncio.run(action(DynamoStore("Table", client=client)))
        finally:
            client.close()

    def client(self, **options: Any) -> Client:
        return Client(self.url, **options)

    def _said(self, service: str) -> str:
        found = re.search(rf"^emulator: {service} is at (http://\S+)$", self.stderr(), re.MULTILINE)
        assert found, f"the emulator did not say where {service} is"
        return found[1]

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _said_beside(config: Json) -> dict[str, str]:
    """What whoever deploys this configuration says beside it."""
    url = config.get("gateway", {}).get("public_url", "http://127.0.0.1:{port}")
    mode = config.get("auth", {}).get("mode", "none")
    return {"AuthMode": mode, "PublicBaseUrl": url, "EncryptionKey": ENCRYPTION_KEY}
