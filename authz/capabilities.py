"""`x-mcp-authorized`: what whoever stands in front of the gateway lets this request see, signed (ES256). Pure: the time is given.

Kuadrant's form: the claim `allowed-capabilities` is a JSON text such as {"tools": {"<backend>": ["<upstream name>"]}}.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from authz.model import MOST_BYTES, SKEW_S, Target, Trusted

HEADER: Final = "x-mcp-authorized"
CLAIM: Final = "allowed-capabilities"
_LISTED: Final = {"tool": "tools", "prompt": "prompts", "resource": "resources"}

Names = Mapping[str, Mapping[str, frozenset[str]]]


@dataclass(frozen=True)
class Capabilities:
    names: Names
    """Per kind and backend. Of tools and prompts what is not named is not there; resources are limited if they are named."""

    def allows(self, target: Target) -> bool:
        listed = _LISTED.get(target.kind, "")
        if target.kind == "resource" and self.names and listed not in self.names:
            return True
        return target.upstream_name in self.names.get(listed, {}).get(target.backend, ())

    @property
    def grants(self) -> str:
        """What may be seen depends on this alone."""
        said = {kind: {name: sorted(own) for name, own in by.items()} for kind, by in self.names.items()}
        return json.dumps(said, sort_keys=True)


def is_p256(pem: str) -> bool:
    """Whether it can be a Trusted's key."""
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as below
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    try:
        key = load_pem_public_key(pem.encode())
    except ValueError:
        return False
    return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)


NOTHING: Final = Capabilities({})


def read(trusted: Trusted, header: str | None, now: float) -> Capabilities | None:
    """None: all may be seen. Whatever is wrong with the header, it allows nothing."""
    if header is None:
        return NOTHING if trusted.enforce else None
    claims = _claims(trusted.key, header) if len(header) <= MOST_BYTES else None
    if claims is None or not _in_time(claims, now):
        return NOTHING
    return _capabilities(claims.get(CLAIM))


@lru_cache(maxsize=256)
def _claims(key: str, token: str) -> dict[str, Any] | None:
    """None unless the signature is good. Times are looked at each time."""
    import jwt  # noqa: PLC0415 - slow to import, and few need it

    options: Any = {f"verify_{name}": False for name in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}
    try:
        return jwt.decode(token, key, algorithms=["ES256"], options=options)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None


def _in_time(claims: Mapping[str, Any], now: float) -> bool:
    ends, begins = claims.get("exp", now), claims.get("nbf", now)
    if not all(isinstance(time, int | float) and not isinstance(time, bool) for time in (ends, begins)):
        return False
    return bool(now < ends + SKEW_S and begins - SKEW_S <= now)


def _capabilities(text: object) -> Capabilities:
    try:
        said: Any = json.loads(text) if isinstance(text, str) else None
        return Capabilities({kind: _names(said[kind]) for kind in _LISTED.values() if kind in said})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return NOTHING


def _names(said: Any) -> dict[str, frozenset[str]]:
    if not all(isinstance(names, list) for names in said.values()):
        raise TypeError
    return {backend: frozenset(map(str, names)) for backend, names in said.items()}
