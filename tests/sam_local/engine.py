"""A Docker engine of the tests' own: on a bridge of its own, and gone with all its containers when the block ends.

It minds no other engine on the machine. Images stay, in .cache, for the next run. Root is needed, as by any engine.
"""

import contextlib
import fcntl
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import debian
from tests.support import ROOT

HOME = ROOT / ".cache" / "docker"
PACKAGES = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "iptables": "iptables",
    "ip": "iproute2",
    "debootstrap": "debootstrap",
}
START_S = 60.0
STOP_S = 30.0


class EngineFailed(Exception):
    pass


@dataclass(frozen=True)
class Engine:
    host: str
    """For DOCKER_HOST."""
    address: str
    """Where containers reach this machine."""

    def docker(self, *arguments: str, feed: int | None = None) -> str:
        done = subprocess.run(
            ["docker", *arguments],
            env=os.environ | {"DOCKER_HOST": self.host},
            stdin=feed if feed is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise EngineFailed(f"docker {' '.join(arguments)}: {done.stderr}")
        return done.stdout.strip()


@contextlib.contextmanager
def running() -> Iterator[Engine]:
    """One at a time in a checkout: whoever comes second waits."""
    install()
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock, contextlib.ExitStack() as stack:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Short: the path of a socket may not be longer than 107 bytes.
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="engine-")))
        bridge, address = stack.enter_context(_bridge())
        engine = Engine(f"unix://{scratch}/docker.sock", address)
        stack.enter_context(_daemon(engine, scratch, bridge))
        stack.callback(_remove_containers, engine)
        _remove_containers(engine)
        yield engine


def install() -> None:
    """What is missing, as Debian has it."""
    debian.install(PACKAGES)


@contextlib.contextmanager
def _bridge() -> Iterator[tuple[str, str]]:
    """Its name, and this machine's address on it; both this process's own."""
    number = os.getpid() % 65536
    name, address = f"portico{number}", f"10.{200 + number % 50}.{number // 50 % 250}.1"
    _run(["ip", "link", "add", name, "type", "bridge"])
    try:
        _run(["ip", "address", "add", f"{address}/24", "dev", name])
        _run(["ip", "link", "set", name, "up"])
        yield name, address
    finally:
        _run(["ip", "link", "delete", name])


@contextlib.contextmanager
def _daemon(engine: Engine, scratch: Path, bridge: str) -> Iterator[None]:
    # No rules for packets: containers need this machine only, and sam publishes its ports on loopback, by docker-proxy.
    command = ["dockerd", "--host", engine.host, "--data-root", str(HOME / "data"), "--bridge", bridge]
    command += ["--exec-root", str(scratch / "exec"), "--pidfile", str(scratch / "pid")]
    command += ["--iptables=false", "--ip6tables=false", "--log-level", "warn"]
    log = HOME / "dockerd.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        _await_answer(engine, process, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_answer(engine: Engine, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(EngineFailed):
            engine.docker("version")
            return
        time.sleep(0.2)
    raise EngineFailed(f"dockerd did not start; it said:\n{log.read_text()[-3000:]}")


def _remove_containers(engine: Engine) -> None:
    """Also those that a run left behind which was killed."""
    if found := engine.docker("ps", "--all", "--quiet").split():
        engine.docker("rm", "--force", "--volumes", *found)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineFailed(f"{' '.join(command)}: {done.stdout}{done.stderr}")
