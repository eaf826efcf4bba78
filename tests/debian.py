"""Programs that tests need and Debian has."""

import os
import shutil
import subprocess


class DebianError(Exception):
    """apt could not install something."""


def install(packages: dict[str, str]) -> None:
    """What is missing of these programs, each with the package that has it. Root is needed then."""
    missing = sorted({package for program, package in packages.items() if shutil.which(program) is None})
    if not missing:
        return
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in ([*apt, "update"], [*apt, "install", "--yes", "--no-install-recommends", *missing]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DebianError(f"{' '.join(command)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
