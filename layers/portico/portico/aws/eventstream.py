"""AWS's event stream framing, as Lambda's InvokeWithResponseStream answers in. Pure."""

import struct
import zlib
from dataclasses import dataclass
from typing import Final

HEAD: Final = 12
MOST: Final = 16 * 1024 * 1024
STRING: Final = 7


class BrokenStream(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class Event:
    type: str
    payload: bytes


class Decoder:
    """Feed it bytes, take events."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Event]:
        self._rest += data
        found = []
        while len(self._rest) >= HEAD:
            total, headers, check = struct.unpack(">III", self._rest[:HEAD])
            if zlib.crc32(self._rest[:8]) != check or total > MOST or headers > total - HEAD - 4:
                raise BrokenStream("a frame that is not one")
            if len(self._rest) < total:
                break
            frame = bytes(self._rest[:total])
            del self._rest[:total]
            if zlib.crc32(frame[:-4]) != struct.unpack(">I", frame[-4:])[0]:
                raise BrokenStream("a frame with a wrong checksum")
            found.append(Event(_type(frame[HEAD : HEAD + headers]), frame[HEAD + headers : -4]))
        return found


def _type(headers: bytes) -> str:
    """The event's type, or the exception's."""
    at, found = 0, {}
    while at < len(headers):
        length = headers[at]
        name = headers[at + 1 : at + 1 + length].decode("utf-8", "replace")
        at += 1 + length
        if headers[at] != STRING:
            raise BrokenStream("a header that is no text")
        (size,) = struct.unpack(">H", headers[at + 1 : at + 3])
        found[name] = headers[at + 3 : at + 3 + size].decode("utf-8", "replace")
        at += 3 + size
    return found.get(":event-type") or found.get(":exception-type") or ""
