"""Puts a peer into its own directory under .cache/bench/, once per pinned version."""

import asyncio
import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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
    """An npm package of an exact version; its install scripts do not run."""

    name: str
    package: str
    pinned: str

    @property
    def bin(self) -> Path:
        return CACHE / self.name / "node_modules" / ".bin"

    def ensure(self) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise UnavailableError("npm is not installed")
        wanted = f"{self.package}@{self.pinned}"
        flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", "--loglevel", "error"]
        install_once(self.name, wanted, [npm, "install", *flags, "--prefix", str(CACHE / self.name), wanted])


async def installed(wanted: Python | Node | None) -> str | None:
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
