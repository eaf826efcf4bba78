"""Which of a client's headers an operator may let through to a backend, and which never."""

import re
from typing import Final

from authz import identity
from portico.registry.document import Data
from portico.registry.fields import Unfit
from portico.registry.problems import quoted

TOKEN: Final = re.compile(r"[a-z0-9!#$%&'+.^_`|~-]+")

# Names, and beginnings of names (with `*`). The gateway sets these itself, or they end here.
NEVER_FORWARDED: Final = (
    *("mcp-*", "x-mcp-*", "router-key", "g-session-id", "gateway-session-id"),
    *("authorization", "cookie", "host", "user-agent"),
    *identity.NAMES,
    *("accept", "accept-encoding", "content-length", "content-type", "content-encoding", "expect"),
    *(
        "connection",
        "keep-alive",
        "proxy-*",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
    ),
)
_BETTER: Final = {"authorization": "call_auth: passthrough instead"}


def header_name(data: Data) -> str:
    if not isinstance(data, str):
        raise Unfit
    name = data.lower()
    token = TOKEN.match(name)
    if token is None or token.group() != name:
        # Only the beginning is shown: `Authorization: Bearer ...` is an easy mistake to make here.
        raise Unfit(found=quoted(token.group() + "...") if token else "something else")
    return name


def forward_pattern(data: Data) -> str:
    """A name, or the beginning of names and a `*`."""
    if isinstance(data, str) and data.endswith("*") and data != "*":
        pattern = header_name(data[:-1]) + "*"
    else:
        pattern = header_name(data)
    for never in NEVER_FORWARDED:
        if _overlap(pattern, never):
            raise Unfit(
                _BETTER.get(never, f"a header that may be forwarded ({never} never is)"), quoted(pattern)
            )
    return pattern


def own_header(data: Data) -> str:
    """A header the gateway may use for itself: no other one may already mean something."""
    name = header_name(data)
    if name not in {"g-session-id", "gateway-session-id"} and any(
        _overlap(name, never) for never in NEVER_FORWARDED
    ):
        raise Unfit("a header name that has no meaning yet", quoted(name))
    return name


def _overlap(one: str, other: str) -> bool:
    """Whether there is a name that both stand for."""
    first, second = one.removesuffix("*"), other.removesuffix("*")
    if one != first and other != second:
        return first.startswith(second) or second.startswith(first)
    if one != first:
        return second.startswith(first)
    return first.startswith(second) if other != second else first == second
