"""The filter as it is now, built once, however many processes ask."""

import fcntl
import functools
import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.processes import ROOT

HERE = Path(__file__).parent
SOURCES = ROOT / "authz" / "filter"
BUILDS = ROOT / ".cache" / "filter" / "builds"
KEPT_S = 24 * 3600.0
ZIG = f"{sys.executable} -m ziglang"


@functools.cache
def wasm() -> Path:
    return _once("portico.wasm", make)


def _once(name: str, build: Callable[[Path], object]) -> Path:
    place = BUILDS / digest()
    place.mkdir(parents=True, exist_ok=True)
    with (BUILDS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / name).exists():
            _prune()
            build(place)
            shutil.rmtree(place / "zig")
    return place / name


@functools.cache
def native() -> Path:
    """The core as a library of this machine's."""
    return _once("native.so", _native)


def digest() -> str:
    found = hashlib.sha256()
    files = [file for file in SOURCES.rglob("*") if file.is_file()]
    for file in sorted([*files, *HERE.glob("*.zig")]):
        found.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]


def zig(*command: str) -> subprocess.CompletedProcess[str]:
    """With the core as a module of that name; the first file is the root."""
    verb, root, *more = command
    modules = ["--dep", "core", f"-Mroot={root}", f"-Mcore={SOURCES / 'core.zig'}"]
    return subprocess.run(
        [*ZIG.split(), verb, *more, *modules], capture_output=True, text=True, check=False, timeout=600
    )


def _native(place: Path) -> None:
    caches = ["--cache-dir", str(place / "zig"), "--global-cache-dir", str(place / "zig")]
    target = place / "native.so"
    done = zig(
        "build-lib", str(HERE / "native.zig"), "-dynamic", "-OReleaseSafe", f"-femit-bin={target}", *caches
    )
    assert done.returncode == 0, done.stderr


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
