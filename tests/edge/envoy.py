"""Envoy itself, in front of whatever a test has: with examples/envoy.yaml, or with what else a test wants."""

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from tests.support import fetch
from tests.support.processes import ROOT, Process
from tests.support.waiting import eventually

EXAMPLE = ROOT / "examples" / "envoy.yaml"
LOOPBACK = {"socket_address": {"address": "127.0.0.1", "port_value": 0}}


def example() -> dict[str, Any]:
    return yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))


def manager(said: dict[str, Any]) -> dict[str, Any]:
    return said["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]


class Started(Process):
    """With this configuration, but that it listens where there is room."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="envoy-"))
        said = said | {"admin": {"address": LOOPBACK}}
        for listener in said["static_resources"]["listeners"][:1]:
            listener["address"] = LOOPBACK
        config, admin = self.directory / "envoy.yaml", self.directory / "admin"
        config.write_text(yaml.safe_dump(said))
        command = [str(Path(sys.executable).parent / "envoy"), "-c", str(config), "--concurrency", "1"]
        command += ["--admin-address-path", str(admin), "--disable-hot-restart"]
        try:
            super().__init__(command, ready=re.compile("(starting main dispatch loop)"), seconds=60)
            self.url = f"http://{eventually(lambda: self._listener(admin), 20)}/mcp"
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _listener(admin: Path) -> str | None:
        if not admin.exists():
            return None
        found = fetch(f"http://{admin.read_text().strip()}/listeners?format=json").json()
        addresses = [one["local_address"] for one in found.get("listener_statuses", [])]
        ports = (one["socket_address"]["port_value"] for one in addresses if "socket_address" in one)
        return next((f"127.0.0.1:{port}" for port in ports), None)

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.directory, ignore_errors=True)


class Envoy(Started):
    """The example; `portico` and `authz` are where those are."""

    def __init__(self, portico: str, authz: str) -> None:
        said = example()
        for cluster, url in zip(said["static_resources"]["clusters"], (portico, authz), strict=True):
            endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
            endpoint["address"]["socket_address"]["port_value"] = urlsplit(url).port
        super().__init__(said)
