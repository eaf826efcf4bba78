"""How a function's process is started: what Lambda would put at /var/task, /opt and /var/runtime, and its environment."""

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from emulator.application import Function
from emulator.interpreters import Interpreter
from emulator.intrinsics import REGION


@dataclass(frozen=True)
class Sandbox:
    command: list[str]
    directory: Path
    environment: dict[str, str]


class Sandboxes:
    """Makes them below `scratch`, which goes with the emulator."""

    def __init__(
        self, scratch: Path, interpreter: Callable[[str], Interpreter], endpoints: Mapping[str, str]
    ) -> None:
        self._scratch = scratch
        self._interpreter = interpreter
        self._endpoints = endpoints
        self._merged: dict[tuple[Path, ...], Path] = {}

    def make(self, function: Function) -> Sandbox:
        """Without AWS_LAMBDA_RUNTIME_API, which each process has for itself."""
        interpreter = self._interpreter(function.runtime)
        opt = self._opt(function.layers)
        python = self._bin(interpreter) / "python3"
        command = [str(python), "-m", "awslambdaric", function.handler]
        if wrapper := function.environment.get("AWS_LAMBDA_EXEC_WRAPPER"):
            command.insert(0, _here(wrapper, function.root, opt))
        of_lambda = self._of_lambda(function, interpreter, opt)
        return Sandbox(command, function.root, {**of_lambda, **function.environment})

    def _of_lambda(self, function: Function, interpreter: Interpreter, opt: Path) -> dict[str, str]:
        packages = opt / "python" / "lib" / f"python{interpreter.version}" / "site-packages"
        path = [function.root, packages, opt / "python", interpreter.runtime]
        return {
            **self._endpoints,
            "_HANDLER": function.handler,
            "AWS_ACCESS_KEY_ID": function.name,  # so that it can be told who asks
            "AWS_SECRET_ACCESS_KEY": "emulator",
            "AWS_SESSION_TOKEN": "emulator",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.runtime}",
            "AWS_LAMBDA_FUNCTION_NAME": function.name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": "emulator",
            "LAMBDA_TASK_ROOT": str(function.root),
            "LAMBDA_RUNTIME_DIR": str(interpreter.runtime),
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "PWD": str(function.root),
            "PATH": f"{self._bin(interpreter)}:{opt / 'bin'}:{os.defpath}",
            "LD_LIBRARY_PATH": f"{opt / 'lib'}",
            "PYTHONPATH": os.pathsep.join(map(str, path)),
        }

    def _bin(self, interpreter: Interpreter) -> Path:
        """A folder for PATH in which `python` is the function's own, and writes no bytecode: Lambda's disk is read-only."""
        place = self._scratch / f"bin-{interpreter.version}"
        if not place.exists():
            place.mkdir()
            for name in ("python", "python3", f"python{interpreter.version}"):
                (place / name).write_text(
                    f'#!/bin/sh\nexec {shlex.quote(str(interpreter.executable))} -B -s "$@"\n'
                )
                (place / name).chmod(0o755)
        return place

    def _opt(self, layers: tuple[Path, ...]) -> Path:
        """All layers in one folder, the later ones over the earlier."""
        if len(layers) == 1:
            return layers[0]
        if layers not in self._merged:
            self._merged[layers] = place = self._scratch / f"opt-{len(self._merged)}"
            place.mkdir()
            for layer in layers:
                shutil.copytree(layer, place, copy_function=_link, dirs_exist_ok=True)
        return self._merged[layers]


def _link(source: str, target: str) -> str:
    Path(target).unlink(missing_ok=True)
    Path(target).symlink_to(source)
    return target


def _here(path: str, root: Path, opt: Path) -> str:
    for prefix, place in (("/opt/", opt), ("/var/task/", root)):
        if path.startswith(prefix):
            return str(place / path.removeprefix(prefix))
    return path
