"""The same echo server over stdio, for peers that can only front a process. Standard library only.

It reads and writes file descriptors directly: Python's buffered text streams would cost more than the answers.
"""

import argparse
import json
import os

from tests.bench import echo


def serve(fillers: int) -> None:
    listing = {"tools": echo.tools(fillers)}
    pending = b""
    while chunk := os.read(0, 1 << 16):
        *lines, pending = (pending + chunk).split(b"\n")
        answers = [
            json.dumps(echo.answer(message, listing), separators=(",", ":"))
            for message in map(json.loads, filter(None, lines))
            if "id" in message and "method" in message
        ]
        write("".join(f"{line}\n" for line in answers).encode())


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=9, help="filler tools beside echo")
    serve(parser.parse_args().tools)
