"""Headers by which the gateway says to others who asks, and for what. From outside they are dropped: nobody says that of himself."""

from typing import Final

PRINCIPAL: Final = "x-portico-principal"
ISSUER: Final = "x-portico-issuer"
SCOPES: Final = "x-portico-scopes"

NAMES: Final = (
    "x-portico-*",
    "x-mcp-verified-*",
    *("x-mcp-tool", "x-mcp-toolname", "x-mcp-promptname", "x-mcp-resourceuri"),
    *("x-mcp-servername", "x-mcp-method", "x-mcp-annotation-hints"),
    *("x-amzn-oidc-*", "x-auth-request-*", "x-authenticated-*", "x-goog-iap-jwt-assertion"),
    *("x-forwarded-user", "x-forwarded-email", "x-forwarded-groups", "x-forwarded-preferred-username"),
    *("x-forwarded-access-token", "x-remote-user", "remote-user", "x-user-info", "x-userinfo"),
)
"""In lower case; one that ends in `*` stands for all that begin so."""

_EXACTLY: Final = frozenset(name for name in NAMES if not name.endswith("*"))
_BEGINNINGS: Final = tuple(name[:-1] for name in NAMES if name.endswith("*"))


def is_dropped(name: str) -> bool:
    """`name` is in lower case. Underscores are dashes to many servers."""
    return (
        name in _EXACTLY
        or name.startswith(_BEGINNINGS)
        or ("_" in name and is_dropped(name.replace("_", "-")))
    )
