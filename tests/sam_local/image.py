"""The base image that `sam local` asks for, made here: where these tests run, images cannot be pulled.

As Amazon's: Python in /var/lang, the runtime (awslambdaric, boto3) in /var/runtime, whose bootstrap minds
AWS_LAMBDA_EXEC_WRAPPER. Beneath is a small Debian instead of Amazon Linux.
"""

import hashlib
import json
import platform
import shutil
import subprocess
from pathlib import Path

from tests.sam_local.engine import HOME, Engine
from tests.support import ROOT

LAMBDA = ROOT / ".cache" / "lambda" / "bin"
ARCHITECTURE = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
NAME = f"public.ecr.aws/lambda/python:3.13-{ARCHITECTURE}"
SUITE = "bookworm"
LABEL = "portico.made-from"
UNWANTED = shutil.ignore_patterns("test", "idlelib", "site-packages", "__pycache__", "*.a", "share")
BOOTSTRAP = """#!/bin/sh
export PYTHONPATH=/var/task:/opt/python/lib/python3.13/site-packages:/opt/python:/var/runtime
if [ -n "$AWS_LAMBDA_EXEC_WRAPPER" ]; then
  exec "$AWS_LAMBDA_EXEC_WRAPPER" /var/lang/bin/python3.13 -m awslambdaric "$_HANDLER"
fi
exec /var/lang/bin/python3.13 -m awslambdaric "$_HANDLER"
"""
SETTINGS = (
    "WORKDIR /var/task",
    "ENV LAMBDA_TASK_ROOT=/var/task",
    "ENV LAMBDA_RUNTIME_DIR=/var/runtime",
    "ENV PATH=/var/lang/bin:/usr/local/bin:/usr/bin:/bin:/opt/bin",
    "ENV LD_LIBRARY_PATH=/var/lang/lib:/var/runtime:/var/task:/opt/lib",
    "ENV LANG=C.UTF-8",
    "ENV PYTHONDONTWRITEBYTECODE=1",
)
ASK = (
    "import json, sys; from emulator import interpreters; found = interpreters.find('python3.13', None);"
    "json.dump([sys.base_prefix, str(found.runtime)], sys.stdout)"
)


def ensure(engine: Engine) -> None:
    """Made once, and again when what it is made from has changed."""
    prefix, runtime = (Path(each) for each in json.loads(_said([str(LAMBDA / "python"), "-c", ASK])))
    made_from = hashlib.sha256(f"{Path(__file__).read_text()}{prefix}{runtime}".encode()).hexdigest()
    there = engine.docker("images", "--quiet", "--filter", f"label={LABEL}={made_from}", NAME)
    if there:
        return
    root = HOME / "root"
    shutil.rmtree(root, ignore_errors=True)
    try:
        _fill(root, prefix, runtime)
        _bring_in(engine, root, made_from)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _fill(root: Path, prefix: Path, runtime: Path) -> None:
    _said(["debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, str(root)])
    shutil.rmtree(root / "var/cache/apt")
    shutil.copytree(prefix, root / "var/lang", ignore=UNWANTED, symlinks=True)
    shutil.copytree(runtime, root / "var/runtime")
    (root / "var/task").mkdir()
    bootstrap = root / "var/runtime/bootstrap"
    bootstrap.write_text(BOOTSTRAP)
    bootstrap.chmod(0o755)
    for library in _libraries(prefix):
        target = root / library.relative_to("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)


def _libraries(prefix: Path) -> set[Path]:
    """What this machine's Python was linked with, apart from its own."""
    objects = [prefix / "bin/python3.13", *prefix.glob("lib/python3.13/lib-dynload/*.so")]
    words = _said(["ldd", *map(str, objects)]).split()
    return {Path(word) for word in words if word.startswith(("/lib", "/usr/lib")) and not word.endswith(":")}


def _bring_in(engine: Engine, root: Path, made_from: str) -> None:
    changes = [*SETTINGS, f"LABEL {LABEL}={made_from}"]
    options = [word for change in changes for word in ("--change", change)]
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
        assert tar.stdout is not None
        engine.docker("import", *options, "-", NAME, feed=tar.stdout.fileno())
    assert tar.returncode == 0


def _said(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
    return done.stdout
