"""Paths -> what they are for, and who may come there. Pure, and the same on every edge."""

from dataclasses import dataclass
from typing import Final, Literal

METADATA: Final = "/.well-known/oauth-protected-resource"
VIRTUAL: Final = "/mcp/v/"
VIRTUAL_SERVER: Final = "x-mcp-virtualserver"


@dataclass(frozen=True, slots=True)
class Place:
    kind: Literal["open", "mcp", "operators"]
    server: str = ""
    """The virtual server that the path names."""


_OPEN: Final = Place("open")
_MCP: Final = Place("mcp")
_OPERATORS: Final = Place("operators")


def place(verb: str, path: str) -> Place:
    """Whatever is not known to be something else needs what operators need. `path` is decoded, and without a query."""
    if path == "/mcp":
        return _OPEN if verb == "OPTIONS" else _MCP
    if path.startswith(VIRTUAL) and path != VIRTUAL:
        return _OPEN if verb == "OPTIONS" else Place("mcp", path.removeprefix(VIRTUAL))
    if path in ("/health", METADATA) or path.startswith(f"{METADATA}/"):
        return _OPEN
    return _OPERATORS


def disagreeing(place_: Place, header: str | None) -> bool:
    """Whether header and path name different virtual servers."""
    return bool(place_.server) and header is not None and header != place_.server
