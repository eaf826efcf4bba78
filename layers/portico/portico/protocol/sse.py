"""Server-sent events: frames to bytes, and bytes to frames as they come in, whole or in pieces."""

from dataclasses import dataclass
from typing import Final

KEEP_ALIVE: Final = b": keep-alive\n\n"


class FrameTooLarge(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class Frame:
    data: bytes = b""
    id: str | None = None
    retry: int | None = None
    event: str = "message"


def encode(data: bytes, id_: str | None = None, retry: int | None = None) -> bytes:
    """One frame. The data must be one line, as compact JSON is."""
    head = b""
    if id_ is not None:
        head = b"id: " + id_.encode() + b"\n"
    if retry is not None:
        head += b"retry: %d\n" % retry
    return head + b"data: " + data + b"\n\n"


class Decoder:
    """Feed it bytes, take frames. Keeps at most `limit` bytes of an unfinished frame."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._searched = 0
        self._at_start = True
        self._size = 0
        self._clear()

    def _clear(self) -> None:
        self._data: list[bytes] = []
        self._id: str | None = None
        self._retry: int | None = None
        self._event = "message"
        self._seen = False
        self._size = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        self._rest += chunk
        frames = []
        for line in self._lines():
            if line:
                self._field(line)
            elif self._seen:
                frames.append(Frame(b"\n".join(self._data), self._id, self._retry, self._event))
                self._clear()
        if self._size + len(self._rest) > self._limit:
            raise FrameTooLarge(f"a frame of more than {self._limit} bytes")
        return frames

    def _lines(self) -> list[bytes]:
        """Complete lines so far. A line ends in LF, CR LF or CR; a CR at the very end may be half of a CR LF."""
        rest = self._rest
        last = max(rest.rfind(b"\n", self._searched), rest.rfind(b"\r", self._searched, len(rest) - 1))
        if last < 0:
            self._searched = max(0, len(rest) - 1)
            return []
        whole = bytes(rest[: last + 1])
        del rest[: last + 1]
        self._searched = 0
        if self._at_start:
            self._at_start = False
            whole = whole.removeprefix(b"\xef\xbb\xbf")
        if b"\r" in whole:
            whole = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return whole[:-1].split(b"\n")

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value)
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self._retry = int(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        else:
            return
        self._seen = True
