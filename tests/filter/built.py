"""The filter as it is now, built once, however many processes ask."""

import fcntl
import functools
import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.support.processes import ROOT

SOURCES = ROOT / "authz" / "filter"
BUILDS = ROOT / ".cache" / "filter" / "builds"
KEPT_S = 24 * 3600.0
ZIG = f"{sys.executable} -m ziglang"


@functools.cache
def wasm() -> Path:
    BUILDS.mkdir(parents=True, exist_ok=True)
    place = BUILDS / digest()
    with (BUILDS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "portico.wasm").exists():
            _prune()
            make(place)
            shutil.rmtree(place / "zig")
    return place / "portico.wasm"


def digest() -> str:
    found = hashlib.sha256()
    for file in sorted(file for file in SOURCES.rglob("*") if file.is_file()):
        found.update(str(file.relative_to(SOURCES)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]


def make(place: Path) -> Path:
    command = ["make", "--no-print-directory", "-C", str(SOURCES), f"OUT={place}", f"ZIG={ZIG}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return place / "portico.wasm"


def _prune() -> None:
    """Not what another run may still be using."""
    for old in BUILDS.glob("*/"):
        if old.stat().st_mtime < time.time() - KEPT_S:
            shutil.rmtree(old)
