"""Throws bytes at the core of the filter: `python -m tests.filter.fuzz --seconds 600`.

What is thrown grows out of tests/filter/corpus, where everything belongs that was ever a problem. It is thrown in another
process: if that dies, its last bytes are kept.
"""

import argparse
import base64
import contextlib
import ctypes
import mmap
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.filter.built import native
from tests.support import ROOT

CORPUS = Path(__file__).parent / "corpus"
KINDS = ("body", "token", "keys", "config", "path", "values")
"""The beginning of a corpus file's name says what it is thrown at."""
MOST = 4096
NEVER = 2**62
PIECES = (b'"', b"\\", b"\\u", b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"-", b"e+", b".", b"0", b"1e999",
          b"\xff", b"\xc3\xa9", b"\xed\xa0\x80", b"%2e", b"%", b"/..", b"//", b"\0", b" ", b"=?base64?", b"?=", b"[[[[[[[[", b'{"a":', b'"a":1,')  # fmt: skip


def corpus(kind: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(CORPUS.glob(f"{kind}-*"))]


def changed(chance: random.Random, seeds: list[bytes]) -> bytes:
    found = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(found) + 1)
        match chance.randrange(6):
            case 0:
                found[at:at] = chance.choice(PIECES)
            case 1:
                del found[at : at + chance.choice((1, 1, 2, 8, 64))]
            case 2 if at < len(found):
                found[at] ^= 1 << chance.randrange(8)
            case 3:
                found[at : at + 1] = bytes([chance.randrange(256)])
            case 4:
                other = chance.choice(seeds)
                begin = chance.randrange(len(other) + 1)
                found[at:at] = other[begin : begin + chance.choice((1, 4, 16, 64))]
            case _:
                begin = chance.randrange(len(found) + 1)
                found[at:at] = found[begin : begin + chance.choice((1, 4, 16, 64))] * chance.choice(
                    (1, 2, 50)
                )
    return bytes(found[:MOST])


def signed(chance: random.Random, seeds: list[bytes]) -> bytes:
    """What is inside a token changed, more often than the token."""
    parts = chance.choice(seeds).split(b".")
    if len(parts) != 3 or chance.random() < 0.2:
        return changed(chance, seeds)
    at = chance.randrange(2)
    with contextlib.suppress(ValueError):
        inside = base64.urlsafe_b64decode(parts[at] + b"==")
        parts[at] = base64.urlsafe_b64encode(changed(chance, [inside])).rstrip(b"=")
    return b".".join(parts)[:MOST]


def thrown(library: str, kind: str, data: bytes, fail_at: int = NEVER) -> int:
    throw = ctypes.CDLL(library).throw
    throw.argtypes = (ctypes.c_uint8, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t)
    throw.restype = ctypes.c_uint32
    return int(throw(KINDS.index(kind), data, len(data), fail_at))


def run(library: str, seconds: float, seed: int, last: mmap.mmap) -> None:
    chance, until, count = random.Random(seed), time.monotonic() + seconds, 0
    seeds = {kind: corpus(kind) for kind in KINDS}
    ways: dict[str, set[int]] = {kind: set() for kind in KINDS}
    while time.monotonic() < until:
        kind = chance.choice(KINDS)
        data = (signed if kind == "token" else changed)(chance, seeds[kind])
        fail_at = chance.randrange(40) if chance.random() < 0.1 else NEVER
        last[: len(data) + 5] = bytes([KINDS.index(kind)]) + len(data).to_bytes(4, "little") + data
        way = thrown(library, kind, data, fail_at)
        if way not in ways[kind]:
            ways[kind].add(way)
            seeds[kind].append(data)
        count += 1
    print(f"{count} thrown, {sum(map(len, ways.values()))} ways taken, none lost", flush=True)


def fuzz(seconds: float, seed: int) -> tuple[str, bytes] | None:
    """What the other process died of: its kind, and the bytes."""
    with tempfile.NamedTemporaryFile() as shared:
        shared.truncate(MOST + 5)
        command = [sys.executable, "-m", "tests.filter.fuzz", "--seconds", str(seconds), "--seed", str(seed)]
        done = subprocess.run([*command, "--within", shared.name], cwd=ROOT, check=False)
        last = Path(shared.name).read_bytes()
    if done.returncode == 0:
        return None
    return KINDS[last[0]], last[5 : 5 + int.from_bytes(last[1:5], "little")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--within", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.within:
        with Path(arguments.within).open("r+b") as shared:
            run(str(native()), arguments.seconds, arguments.seed, mmap.mmap(shared.fileno(), 0))
        return 0
    print(f"seed {arguments.seed}", flush=True)
    found = fuzz(arguments.seconds, arguments.seed)
    if found is None:
        return 0
    kind, data = found
    kept = CORPUS / f"{kind}-{arguments.seed}"
    kept.write_bytes(data)
    print(f"lost: {data!r}, kept as {kept}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
