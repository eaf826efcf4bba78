"""What `make serve` runs: MCP servers of its own, and Portico in front of them. Offline.

Each backend of the configuration that is named after one of the servers here is started, at its URL's port.
"""

import argparse
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

from portico.cli import main
from portico.registry import InvalidConfig, load

SERVERS = {"clock": "examples.clock", "notes": "examples.notes"}


def run() -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--config", default="portico.yaml")
    config = parser.parse_known_args()[0].config
    try:
        backends = load(config).backends
    except InvalidConfig as error:
        print(error, file=sys.stderr)  # noqa: T201 - as `portico serve` does
        return 2
    ports = {SERVERS[b.name]: urlsplit(b.url).port or 80 for b in backends if b.name in SERVERS}
    for port in ports.values():
        if answers(port):
            print(f"port {port} is taken: give its server another one in {config}", file=sys.stderr)  # noqa: T201
            return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the servers end with the demo
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [
        subprocess.Popen([sys.executable, "-m", module, str(port)], **quiet)  # noqa: S603
        for module, port in ports.items()
    ]
    try:
        for port in ports.values():
            wait_for(port)
        return main(["serve", *sys.argv[1:]])
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(10)


def wait_for(port: int, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not answers(port):
        time.sleep(0.05)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    sys.exit(run())
