"""Paths -> what they are for, and who may come there. Pure, and the same on every edge."""

from dataclasses import dataclass
from typing import Final, Literal

METADATA: Final = "/.well-known/oauth-protected-resource"
VIRTUAL: Final = "/mcp/v/"
VIRTUAL_SERVER: Final = "x-mcp-virtualserver"
_CONSENT: Final = "/oauth/upstream/"
"""Pages on which users let the gateway act for them: they find out by themselves who has opened them."""
GIVEN: Final = "/oauth/upstream/tokens/"
"""What a user has let the gateway do: not open, but his."""
_ISSUING: Final = frozenset(
    {"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"}
    | {f"/oauth/{name}" for name in ("authorize", "token", "register", "revoke", "jwks")}
)


@dataclass(frozen=True, slots=True)
class Place:
    kind: Literal["open", "mcp", "consent", "operators"]
    server: str = ""
    """The virtual server that the path names."""
    free: bool = False
    """Nobody is asked who he is: a browser asks before it has a token to show."""


_OPEN: Final = Place("open", free=True)
_MCP: Final = Place("mcp")
_ASKED_BEFORE: Final = Place("mcp", free=True)
_OPERATORS: Final = Place("operators")
_PAGE: Final = Place("consent", free=True)
_TAKEN_BACK: Final = Place("consent")


def place(verb: str, path: str) -> Place:
    """Whatever is not known to be something else needs what operators need. `path` is decoded, and without a query."""
    if path == "/mcp":
        return _ASKED_BEFORE if verb == "OPTIONS" else _MCP
    if path.startswith(VIRTUAL) and path != VIRTUAL:
        return Place("mcp", path.removeprefix(VIRTUAL), free=verb == "OPTIONS")
    if path in ("/health", METADATA) or path.startswith(f"{METADATA}/"):
        return _OPEN
    if path.startswith(GIVEN):
        return _TAKEN_BACK
    return _PAGE if path.startswith(_CONSENT) else _OPERATORS


def issues_tokens(path: str) -> bool:
    """What belongs to a gateway that is its own authorization server, and elsewhere to nobody."""
    return path in _ISSUING
