"""Puts a peer into its own directory under .cache/, once per pinned version."""

import asyncio
import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests import npm
from tests.bench.processes import ROOT, UnavailableError, say

CACHE = ROOT / ".cache" / "bench"
TIMEOUT_S = 600


@dataclass(frozen=True)
class Python:
    """A virtual environment made from requirements/bench-<name>.txt, by hash."""

    name: str

    @property
    def bin(self) -> Path:
        return CACHE / self.name / "venv" / "bin"

    @property
    def requirements(self) -> Path:
        return ROOT / "requirements" / f"bench-{self.name}.txt"

    def version(self, package: str) -> str:
        lines = self.requirements.read_text().splitlines()
        pins = [line for line in lines if line.startswith(f"{package}==")]
        return pins[0].split("==")[1].split()[0]

    def ensure(self) -> None:
        wanted = hashlib.sha256(self.requirements.read_bytes()).hexdigest()
        uv = [sys.executable, "-m", "uv"]
        venv = self.bin.parent
        source = ["--require-hashes", "--requirement", str(self.requirements)]
        install_once(
            self.name,
            wanted,
            [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(venv)],
            [*uv, "pip", "install", "--quiet", "--python", str(self.bin / "python"), *source],
        )


@dataclass(frozen=True)
class Node:
    """An npm package of an exact version, and the Node that runs it."""

    package: str
    pinned: str

    def command(self) -> list[str]:
        """Of the program named as the package is."""
        return [npm.node(), str(npm.install(f"{self.package}@{self.pinned}") / ".bin" / self.package)]

    def ensure(self) -> None:
        try:
            self.command()
        except npm.NpmError as error:
            raise UnavailableError(f"not installed: {str(error).splitlines()[0]}") from error


def node_version() -> str:
    return subprocess.run(
        [npm.node(), "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()


class Wanted(Protocol):
    def ensure(self) -> None:
        """Raises UnavailableError, with the reason, if it cannot be there."""


async def installed(wanted: Wanted | None) -> str | None:
    """None once it is there, else why it is not."""
    try:
        if wanted:
            await asyncio.to_thread(wanted.ensure)
    except UnavailableError as error:
        return str(error)
    return None


def install_once(name: str, wanted: str, *commands: list[str]) -> None:
    stamp = CACHE / name / ".ready"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say(f"installing {name} (once)")
    shutil.rmtree(stamp.parent, ignore_errors=True)
    stamp.parent.mkdir(parents=True)
    for command in commands:
        try:
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.CalledProcessError as error:
            words = error.stderr.strip().splitlines() or ["said nothing"]
            raise UnavailableError(f"not installed: {words[0][:200]}") from error
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(f"not installed within {TIMEOUT_S} s") from error
    stamp.write_text(wanted)
