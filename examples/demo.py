"""What `make serve` runs: two MCP servers of its own, and Portico in front of them. Offline."""

import signal
import socket
import subprocess
import sys
import time

from portico.cli import main

SERVERS = {"examples.clock": 9001, "examples.notes": 9002}


def run() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the servers end with the demo
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [
        subprocess.Popen([sys.executable, "-m", module, str(port)], **quiet)  # noqa: S603
        for module, port in SERVERS.items()
    ]
    try:
        for port in SERVERS.values():
            wait_for(port)
        return main(["serve", *sys.argv[1:]])
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(10)


def wait_for(port: int, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(run())
