"""A Python for each runtime, and beside it what a managed runtime has: awslambdaric and boto3, and nothing else."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

WANTED = Path(__file__).parent.parent / "requirements" / "lambda-runtime.txt"
VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


class NoInterpreter(ValueError):
    pass


@dataclass(frozen=True)
class Interpreter:
    executable: Path
    version: str  # 3.13
    runtime: Path  # what is in /var/runtime on Lambda


def find(runtime: str, named: str | None) -> Interpreter:
    """Never one of a virtual environment: a function sees its own packages, its layers', and the runtime's."""
    wanted = runtime.removeprefix("python")
    for candidate in [named] if named else [f"{sys.base_prefix}/bin/{runtime}", shutil.which(runtime)]:
        if candidate and (version := _version(candidate)) and (named or version == wanted):
            return Interpreter(Path(candidate).absolute(), version, _runtime(candidate, version))
    raise NoInterpreter(
        f"{named} does not run"
        if named
        else f"the functions are for {runtime}, which is not on PATH: say --python PATH"
    )


def _version(executable: str) -> str | None:
    try:
        said = subprocess.run([executable, "-c", VERSION], capture_output=True, check=False, timeout=20)
    except OSError:
        return None
    return said.stdout.decode().strip() if said.returncode == 0 else None


def _runtime(executable: str, version: str) -> Path:
    """Installed on first use, into the environment that the emulator itself lives in."""
    home = Path(sys.prefix) / "lambda-runtime"
    place = home / f"{version}-{hashlib.sha256(WANTED.read_bytes()).hexdigest()[:12]}"
    if place.exists():
        return place
    print(f"installing the runtime for Python {version} (once)", file=sys.stderr, flush=True)
    home.mkdir(exist_ok=True)
    scratch = tempfile.mkdtemp(dir=home)
    command = [find_uv_bin(), "pip", "install", "--quiet", "--compile-bytecode", "--python", executable]
    command += ["--target", scratch, "--require-hashes", "-r", str(WANTED)]
    subprocess.run(command, check=True)
    try:
        os.rename(scratch, place)  # noqa: PTH104
    except OSError:
        shutil.rmtree(scratch)
        if not place.exists():  # otherwise another emulator was faster
            raise
    return place


if __name__ == "__main__":  # so that the first emulator need not wait for it
    find(f"python{sys.version_info.major}.{sys.version_info.minor}", None)
