"""The gateway, and the servers that stand behind it."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import yaml

from portico.stores import open_store
from portico.stores.base import Record, Store
from tests.support.client import Client, Headers, given
from tests.support.deployed import Deployed
from tests.support.exchange import Answer, Json, fetch
from tests.support.processes import ROOT, START_SECONDS, Process

T = TypeVar("T")


class Echo(Process):
    """tests.servers.echo; see echo_control for what it can be told to do."""

    @property
    def custom_url(self) -> str:
        return f"{self.base}/custom/path"

    def control(self, do: str, **arguments: Any) -> Json:
        """The answer: {"ok": true, "sent": number of streams reached, or None}."""
        answer = fetch(f"{self.base}/control", {"do": do} | arguments)
        assert answer.status == 200, f"control {do}: {answer.raw.decode()}"
        return answer.json()

    def seen(self, method: str | None = None, *, http: str | None = None) -> list[Json]:
        """The requests it saw since the start or `reset_log`, oldest first; of that RPC or HTTP method if given."""
        log = fetch(f"{self.base}/control").json()["log"]
        return [e for e in log if method in (None, e["method"]) and http in (None, e["http"])]

    def counters(self) -> Json:
        return fetch(f"{self.base}/control").json()["counters"]


class Faults(Process):
    """tests.servers.faults."""

    def counters(self) -> Json:
        """{"initialize": n, "calls": {tool: n}, "closed": {tool: n}, "redirect_followed": n}."""
        return fetch(f"{self.base}/control").json()


class Gateway(Process):
    """Portico, in a temporary directory that holds its portico.yaml."""

    def __init__(
        self,
        config: Json | str,
        *args: str,
        env: Mapping[str, str] | None = None,
        seconds: float = START_SECONDS,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="portico-"))
        self.config = self.directory / "portico.yaml"
        self.write(config)
        command = [
            sys.executable,
            "-m",
            "portico.cli",
            "serve",
            "--config",
            str(self.config),
            "--port",
            "0",
            *args,
        ]
        try:
            super().__init__(command, env=env, cwd=self.directory, seconds=seconds)
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise

    def write(self, config: Json | str) -> None:
        """Replaces portico.yaml in one step, as an editor or a deployment would."""
        text = (
            config if isinstance(config, str) else yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
        )
        draft = self.directory / "portico.yaml.new"
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.config)

    def look(self) -> None:
        """Nothing: it hears of changes by itself. A deployment needs its schedule."""

    def operator(
        self, path: str, body: Any = None, *, method: str | None = None, headers: Headers | None = None
    ) -> Answer:
        """What an operator asks of /status or /backends."""
        return fetch(f"{self.base}{path}", body, method=method, headers=given(headers))

    def records(self, partition: str) -> list[Record]:
        """Of a gateway whose store is a file."""
        return asyncio.run(self._with_store(lambda store: store.query(partition)))

    def write_record(self, partition: str, sort: str, value: bytes) -> None:
        asyncio.run(self._with_store(lambda store: store.put(partition, sort, value)))

    async def _with_store(self, action: Callable[[Store], Awaitable[T]]) -> T:
        store = open_store(yaml.safe_load(self.config.read_text(encoding="utf-8"))["store"])
        try:
            return await action(store)
        finally:
            await store.close()

    def client(self, **options: Any) -> Client:
        return Client(self.url, **options)

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.directory, ignore_errors=True)


def config(*backends: tuple[str, str, Json], **more: Any) -> Json:
    """A configuration with these remote backends: name, URL, and what else is declared of each."""
    declared = {name: {"kind": "remote", "url": url, **extra} for name, url, extra in backends}
    return {"version": 1, "store": "memory", "backends": declared, **more}


def module(name: str, *args: str) -> list[str]:
    return [sys.executable, "-m", name, *args]


def start(
    module_name: str, *args: str, env: Mapping[str, str] | None = None, cwd: Path | str = ROOT
) -> Process:
    """`python -m module_name args...`, once it is ready."""
    return Process(module(module_name, *args), env=env, cwd=cwd)


def echo_server(name: str = "echo", *, port: int = 0, host: str = "127.0.0.1") -> Echo:
    """Give the old port to start it again where it was."""
    return Echo(module("tests.servers.echo", "--port", str(port), "--name", name, "--host", host))


def echo26_server(
    name: str = "echo26", *, era: str = "modern", port: int = 0, host: str = "127.0.0.1"
) -> Echo:
    """The echo server in the modern era; `control("era", value="legacy")` takes it back."""
    options = ["--port", str(port), "--name", name, "--era", era, "--host", host]
    return Echo(module("tests.servers.echo26", *options))


def fault_server(*, port: int = 0) -> Faults:
    return Faults(module("tests.servers.faults", "--port", str(port)))


def everything_server(*args: str, port: int = 0) -> Process:
    return start("tests.servers.everything", "--port", str(port), *args)


class Place:
    """Where `gateway` runs Portico: as `portico serve`, or as what is deployed. `--place` says it to pytest."""

    chosen: ClassVar[str] = "serve"


def gateway(config: Json | str, *args: str, env: Mapping[str, str] | None = None) -> Gateway | Deployed:
    """Portico with this configuration (a mapping, or YAML text), once it is ready; `args` are `portico serve`'s."""
    if Place.chosen == "serve":
        return Gateway(config, *args, env=env)
    assert not args, "a deployment has no command line"
    return Deployed(config, env=env)
