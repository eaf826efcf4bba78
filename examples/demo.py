"""What `make serve` runs: two MCP servers of its own, and Portico in front of them. Offline."""

import subprocess
import sys

from portico.cli import main

SERVERS = {"examples.clock": 9001, "examples.notes": 9002}


def run() -> int:
    started = [
        subprocess.Popen([sys.executable, "-m", module, str(port)], stderr=subprocess.DEVNULL)  # noqa: S603
        for module, port in SERVERS.items()
    ]
    try:
        return main(["serve", *sys.argv[1:]])
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(10)


if __name__ == "__main__":
    sys.exit(run())
