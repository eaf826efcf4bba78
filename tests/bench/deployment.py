"""Portico as Lambda functions, on the emulator: built once a run, and given the configuration of each place."""

import functools
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.bench.install import CACHE, TIMEOUT_S
from tests.bench.processes import ROOT, UnavailableError, say

TOOLS = ROOT / ".cache" / "lambda" / "bin"
BUILD = CACHE / "lambda"
ARCHITECTURE = f"Architecture={platform.machine().replace('aarch64', 'arm64')}"


@dataclass(frozen=True)
class Deployment:
    """What `sam build` makes of the sources as they are now."""

    def ensure(self) -> None:
        build()


@functools.cache
def build() -> None:
    say("building the deployment")
    command = [TOOLS / "sam", "build", "--build-dir", BUILD, "--parameter-overrides", ARCHITECTURE]
    path = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"SAM_CLI_TELEMETRY": "0", "PATH": path}
    try:
        subprocess.run(
            command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        words = str(getattr(error, "stderr", None) or error).strip().splitlines()
        raise UnavailableError(f"not built: {words[-1][:200]}") from error


def with_config(directory: Path, config: str) -> Path:
    """The build with another portico.yaml in it. Layers are only linked."""
    place = directory / "build"
    place.mkdir()
    shutil.copy(BUILD / "template.yaml", place)
    for part in filter(Path.is_dir, BUILD.iterdir()):
        if part.name.endswith("Function"):
            shutil.copytree(part, place / part.name)
            (place / part.name / "portico.yaml").write_text(config)
        else:
            (place / part.name).symlink_to(part)
    return place


def command(build: Path, port: int, dispatch: str) -> list[str]:
    parameters = (ARCHITECTURE, f"DispatchMode={dispatch}")
    flags = [flag for parameter in parameters for flag in ("--parameter", parameter)]
    emulator = [str(TOOLS / "python"), "-m", "emulator", "template.yaml", str(build), "--once-schedules"]
    return [*emulator, "--port", str(port), *flags]
