"""A bearer token -> what it says, checked. Pure: the key and the time are given.

No address is ever taken from a token: its issuer is one of those declared, or it is refused, and `jku`, `x5u` and `jwk`
are not looked at.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import jwt
from jwt.algorithms import get_default_algorithms

from authz.challenge import FOR_ANOTHER
from authz.model import MOST_BYTES, SKEW_S, Access, Issuer, Principal

_PART: Final = re.compile(r"[A-Za-z0-9_-]+")
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_ALGORITHMS: Final = get_default_algorithms()


class BadToken(Exception):
    """The message is fit to be shown: it never contains any of the token."""


@dataclass(frozen=True, slots=True)
class Token:
    """Taken apart, and nothing in it believed yet."""

    algorithm: str
    kid: str | None
    issuer: Issuer
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes


def bearer(values: list[str]) -> str | None:
    """The token of the Authorization headers; None if there is none. Raises BadToken."""
    if not values:
        return None
    if len(values) > 1:
        raise BadToken("more than one Authorization header")
    scheme, _, token = values[0].strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise BadToken("the Authorization header has no bearer token")
    return token


def read(token: str, access: Access) -> Token:
    """Raises BadToken."""
    if len(token) > MOST_BYTES:
        raise BadToken("the token is too long")
    parts = token.split(".")
    if len(parts) != 3 or not all(_PART.fullmatch(part) for part in parts):
        raise BadToken("the token is no signed JWT")
    header, claims = _object(parts[0]), _object(parts[1])
    kid, kind = header.get("kid"), header.get("typ", "JWT")
    if "crit" in header or "b64" in header:
        raise BadToken("the token has a critical extension")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise BadToken("the token is of another type")
    if kid is not None and not (isinstance(kid, str) and len(kid) <= 256):
        raise BadToken("the token's kid is no short text")
    issuer = access.by_issuer.get(claims["iss"]) if isinstance(claims.get("iss"), str) else None
    if issuer is None:
        raise BadToken("the token is from an unknown issuer")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
        raise BadToken("the token's algorithm is not allowed")
    signed = f"{parts[0]}.{parts[1]}".encode()
    return Token(algorithm, kid, issuer, claims, signed, _bytes(parts[2]))


def verify(token: Token, key: jwt.PyJWK, access: Access, now: float) -> Principal:
    """Raises BadToken."""
    if not _ALGORITHMS[token.algorithm].verify(token.signed, key.key, token.signature):
        raise BadToken("the token's signature is wrong")
    claims = token.claims
    if expires_at(token) + SKEW_S <= now:
        raise BadToken("the token has expired")
    for name in ("nbf", "iat"):
        if name in claims and _number(claims, name) - SKEW_S > now:
            raise BadToken("the token is not valid yet")
    servers = _servers(token, access)
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject.strip() or not subject.isprintable():
        raise BadToken("the token has no subject")
    used = {name: claims[name] for name in sorted(access.claims_used) if name in claims}
    return Principal(token.issuer.issuer, subject, _scopes(claims), used, servers)


def _servers(token: Token, access: Access) -> frozenset[str] | None:
    """Virtual servers have URLs of their own, for which there may be tokens; None: it is for the whole gateway."""
    said = token.claims.get("aud")
    named = {item for item in (said if isinstance(said, list) else [said]) if isinstance(item, str)}
    audience = token.issuer.audience or (access.resource,)
    if named & set(audience):
        return None
    below = f"{access.resource}/v/"
    servers = frozenset(unquote(one.removeprefix(below)) for one in named if one.startswith(below)) - {""}
    if not servers or access.resource not in audience:
        raise BadToken(FOR_ANOTHER)
    return servers


def expires_at(token: Token) -> float:
    """Raises BadToken."""
    return _number(token.claims, "exp")


def _number(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e15 < value < 1e15:
        raise BadToken(f"the token's {name} is no time")
    return float(value)


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """`scope` is text with spaces (RFC 9068); some issuers say `scp`, as text or as a list."""
    said = claims.get("scope", claims.get("scp", ""))
    several = said if isinstance(said, list) else str(said).split(" ") if isinstance(said, str) else []
    return frozenset(item for item in several if isinstance(item, str) and _SCOPE.fullmatch(item))


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(_bytes(part), object_pairs_hook=_once, parse_constant=_refused)
    except (ValueError, RecursionError):
        raise BadToken("the token is not made of JSON") from None
    if not isinstance(found, dict):
        raise BadToken("the token is not made of JSON objects")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadToken("the token says something twice")
    return found


def _refused(_: str) -> None:
    raise BadToken("the token is not made of JSON")


def _bytes(part: str) -> bytes:
    """Only one text stands for given bytes: what is left over in the last character must be zero."""
    try:
        found = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise BadToken("the token is not base64url") from None
    if base64.urlsafe_b64encode(found).rstrip(b"=").decode() != part:
        raise BadToken("the token is not base64url")
    return found
