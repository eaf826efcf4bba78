"""A resource's address as whoever serves it may understand it: what is written otherwise is the same resource. Pure.

Servers read addresses in different ways. Those of RFC 3986 (6.2.2) and of browsers are taken into account here: the letters of
the scheme and of a host, needless percent-encoding, `.` and `..`, back slashes, and white space that is dropped.
"""

import re
from dataclasses import replace
from typing import Final

from authz.model import Target

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_NEEDLESS: Final = re.compile(r"%(?:2[DdEe]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])")
"""Of letters, digits and `-._~`."""
_TAIL: Final = re.compile("[?#]")
_AROUND: Final = "".join(map(chr, range(0x21)))
_DROPPED: Final = str.maketrans("", "", "\t\n\r")
_WITH_HOSTS: Final = frozenset({"http", "https", "ws", "wss", "ftp", "file"})


def meant(target: Target) -> Target | None:
    """The same resource under its plain address; None if that is how it was asked for."""
    name = plain(target.name) if target.kind == "resource" else target.name
    return None if name == target.name else replace(target, name=name, upstream_name=name)


def plain(address: str) -> str:
    scheme, colon, rest = address.strip(_AROUND).translate(_DROPPED).partition(":")
    if not colon or not _SCHEME.fullmatch(scheme):
        return address
    scheme = scheme.lower()
    rest = _NEEDLESS.sub(lambda found: chr(int(found[0][1:], 16)), rest)
    tail = _TAIL.search(rest)
    end = tail.start() if tail else len(rest)
    return f"{scheme}:{_path(scheme, rest[:end])}{rest[end:]}"


def _path(scheme: str, text: str) -> str:
    host = ""
    if scheme in _WITH_HOSTS:
        text = text.replace("\\", "/")
    if text.startswith("//"):
        host, slash, text = text[2:].partition("/")
        host = f"//{host.lower() if scheme in _WITH_HOSTS else host}{slash}"
    return host + "/".join(_without_dots(text.split("/")))


def _without_dots(steps: list[str]) -> list[str]:
    """As RFC 3986 (5.2.4) has it; who goes up from the top stays there."""
    found: list[str] = []
    for step in steps:
        if step == "..":
            del found[-1:]
        elif step != ".":
            found.append(step)
    return [*found, ""] if steps[-1] in (".", "..") else found
