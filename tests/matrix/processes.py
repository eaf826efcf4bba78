"""The processes of one setting: features servers, and what stands between them and the clients."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boto3

from portico.stores.dynamodb import create_table
from tests.dynamodb_local import running_dynamodb
from tests.support import ROOT, Place, Process, fetch, gateway, module

STORES = ("sqlite", "dynamodb", "moto")
MOTO = ROOT / ".cache" / "lambda" / "bin" / "moto_server"
TABLE = "portico"
PAGE_SIZE = 7  # not the servers' own
SCHEDULE_S = 0.5  # of a deployment, which hears of changes on its schedule alone


class Features(Process):
    """tests.servers.features."""

    def __init__(self, era: str) -> None:
        self.era = era
        super().__init__(module("tests.servers.features", "--era", era, "--port", "0"))

    def uri(self, own: str) -> str:
        return f"features-{self.era}://{own}"

    def report(self) -> dict[str, Any]:
        return fetch(f"{self.base}/control").json()

    def control(self, do: str, **arguments: str) -> None:
        answer = fetch(f"{self.base}/control", {"do": do} | arguments)
        assert answer.status == 200, answer


@dataclass(frozen=True)
class Setting:
    """Where a client finds each server, and what its names are prefixed with there."""

    servers: Mapping[str, Features]
    through: str | None  # the gateway's URL

    def url(self, server: str) -> str:
        return self.through or self.servers[server].url

    def prefix(self, server: str) -> str:
        return f"{server}_" if self.through else ""


@contextmanager
def setting(eras: Sequence[str], *, gateways: int = 1, store: str = "sqlite") -> Iterator[Setting]:
    """No gateways: the clients talk to the servers themselves."""
    with ExitStack() as stack:
        servers = {era: stack.enter_context(Features(era)) for era in eras}
        if not gateways:
            yield Setting(servers, None)
            return
        config = {
            "version": 1,
            "limits": {"page_size": PAGE_SIZE},
            "backends": {era: {"kind": "remote", "url": server.url} for era, server in servers.items()},
        }
        if Place.chosen == "lambda":
            config["discovery"] = {"interval_s": SCHEDULE_S}
        config["store"], environment = stack.enter_context(shared_store(store))
        started = [stack.enter_context(gateway(config, env=environment)) for _ in range(gateways)]
        if gateways == 1:
            yield Setting(servers, started[0].url)
            return
        command = module("tests.matrix.round_robin", *(process.base for process in started))
        yield Setting(servers, stack.enter_context(Process(command)).url)


@contextmanager
def running_moto(host: str = "127.0.0.1") -> Iterator[str]:
    """AWS as moto's server plays it; `make test` installs it."""
    ready = re.compile(rf"Running on (http://{re.escape(host)}:\d+)")
    with Process([str(MOTO), "-H", host, "-p", "0"], ready=ready) as process:
        yield process.base


@contextmanager
def shared_store(kind: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The setting, and the environment it needs."""
    if kind == "sqlite":
        with TemporaryDirectory(prefix="matrix-") as folder:
            yield f"sqlite:{Path(folder, 'portico.db')}", {}
        return
    with running_dynamodb() if kind == "dynamodb" else running_moto() as endpoint:
        environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_DEFAULT_REGION": "eu-west-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
        client = boto3.client(
            "dynamodb",
            endpoint_url=endpoint,
            region_name="eu-west-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        create_table(client, TABLE)
        client.close()
        yield f"dynamodb:{TABLE}", environment
