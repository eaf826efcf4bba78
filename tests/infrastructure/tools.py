"""The tools of the deployment, in an environment of their own that `make` sets up on first use."""

import fcntl
import json
import os
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".cache" / "lambda" / "bin"


def ensure() -> None:
    """Processes that want them at the same time wait for the first one."""
    lock = BIN.parent.with_name("lambda.lock")
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        run("make", str(BIN.parent.relative_to(ROOT) / ".ready"))


def run(*command: str, **environment: str) -> str:
    """What it says; that it fails is an error that tells why."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "SAM_CLI_TELEMETRY": "0", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}"
    return done.stdout


def translated() -> dict[str, Any]:
    """SAM's translation of template.yaml, made anew."""
    found: dict[str, Any] = json.loads(run("python", "tests/infrastructure/translate.py", "template.yaml"))
    return found
