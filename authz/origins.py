"""Host and Origin checks, so that no web page can talk to a gateway behind its user's back (DNS rebinding)."""

from dataclasses import dataclass
from urllib.parse import urlsplit

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class OriginRules:
    loopback: bool
    """The gateway listens on loopback only: its Host must be a loopback name, and loopback origins may use it."""
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()


ON_LOOPBACK = OriginRules(loopback=True)
"""Nothing but this machine."""


def host_allowed(rules: OriginRules, host: str) -> bool:
    name = _name(f"//{host}")
    return not rules.loopback or name in LOOPBACK or bool({name, host.lower()} & rules.hosts)


def origin_allowed(rules: OriginRules, origin: str) -> bool:
    """A request without an Origin header does not come from a web page: the caller need not ask."""
    if origin.rstrip("/") in rules.origins:
        return True
    return rules.loopback and _name(origin) in LOOPBACK


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
