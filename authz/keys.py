"""The issuers' keys: fetched, kept, and fetched again, with at most one fetch under way for each issuer.

Cold and unreachable: KeysUnavailable. Warm: the keys that are there go on being used while newer ones cannot be had.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import jwt

from authz.addresses import is_fetchable
from authz.fetching import Unfetched, fetch
from authz.model import Issuer
from authz.tokens import BadToken, Token

FRESH_S: Final = 600.0
"""After this, newer keys are asked for while the old ones are used."""
KEPT_S: Final = 86_400.0
"""After this, the old ones are not used any more."""
AGAIN_S: Final = 30.0
"""Unknown keys make us ask again, and no more often than this."""
RETRY_S: Final = 5.0
"""So soon after a fetch there is no other for an unknown key, nor any at all if it failed."""
MOST_KEYS: Final = 100
_KINDS: Final = {"RS256": ("RSA", None), "ES256": ("EC", "P-256"), "EdDSA": ("OKP", "Ed25519")}

Fetch = Callable[[str], Awaitable[bytes]]

log = logging.getLogger("authz.keys")


class KeysUnavailable(Exception):
    """Whether a token is good cannot be told now."""


@dataclass(slots=True)
class _Kept:
    keys: list[dict[str, Any]] = field(default_factory=list)
    fetched_at: float = float("-inf")
    tried_at: float = float("-inf")
    wondered_at: float = float("-inf")
    """When an unknown key last made us ask."""
    failed: bool = False
    fetching: "asyncio.Task[None] | None" = None
    made: dict[tuple[str | None, str], jwt.PyJWK] = field(default_factory=dict)
    generation: int = 0


class Keys:
    def __init__(self, get: Fetch = fetch, clock: Callable[[], float] = time.monotonic) -> None:
        self._get = get
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def generation(self, issuer: str) -> int:
        """Another number as soon as its keys have changed."""
        kept = self._kept.get(issuer)
        return kept.generation if kept else 0

    async def find(self, token: Token) -> jwt.PyJWK:
        """Raises BadToken, KeysUnavailable."""
        kept = self._kept.setdefault(token.issuer.issuer, _Kept())
        age = self._clock() - kept.fetched_at
        if age > KEPT_S:
            await self._renew(token.issuer, kept)
            if self._clock() - kept.fetched_at > KEPT_S:
                raise KeysUnavailable(token.issuer.issuer)
        elif age > FRESH_S and self._may_fetch(kept):
            self._begin(token.issuer, kept)
        key = _key(kept, token)
        if key is None and self._may_wonder(kept):
            kept.wondered_at = self._clock()
            await self._renew(token.issuer, kept)
            key = _key(kept, token)
        if key is None and kept.failed:
            raise KeysUnavailable(token.issuer.issuer)
        if key is None:
            raise BadToken("the token's key is unknown")
        return key

    def _may_fetch(self, kept: _Kept) -> bool:
        return kept.fetching is not None or self._clock() - kept.tried_at >= RETRY_S

    def _may_wonder(self, kept: _Kept) -> bool:
        """Whoever sends made-up keys makes us ask no more often than whoever sends one."""
        if kept.fetching is not None:
            return True
        return self._may_fetch(kept) and self._clock() - kept.wondered_at >= AGAIN_S

    async def _renew(self, issuer: Issuer, kept: _Kept) -> None:
        """Wait for newer keys, unless they could not be had a moment ago."""
        if kept.fetching is None and kept.failed and not self._may_fetch(kept):
            return
        await asyncio.shield(self._begin(issuer, kept))

    def _begin(self, issuer: Issuer, kept: _Kept) -> "asyncio.Task[None]":
        if kept.fetching is None:
            kept.fetching = asyncio.ensure_future(self._fetch(issuer, kept))
        return kept.fetching

    async def _fetch(self, issuer: Issuer, kept: _Kept) -> None:
        try:
            url = issuer.jwks_url or await self._address(issuer.issuer)
            keys = _read(await self._get(url))
            if keys != kept.keys:
                kept.keys, kept.made, kept.generation = keys, {}, kept.generation + 1
            kept.fetched_at, kept.failed = self._clock(), False
        except Unfetched as error:
            kept.failed = True
            log.warning("the keys of %s cannot be had: %s", issuer.issuer, error)
        finally:
            kept.tried_at, kept.fetching = self._clock(), None

    async def _address(self, issuer: str) -> str:
        """What the issuer's own metadata says (RFC 8414, or OpenID Connect Discovery)."""
        parts = urlsplit(issuer)
        origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
        places = (
            f"{origin}/.well-known/oauth-authorization-server{path}",
            f"{origin}{path}/.well-known/openid-configuration",
        )
        problem = Unfetched("no metadata")
        for place in places:
            try:
                return _jwks_url(await self._get(place), issuer)
            except Unfetched as error:
                problem = error
        raise problem


def _jwks_url(document: bytes, issuer: str) -> str:
    found = _json(document)
    if found.get("issuer") != issuer:
        raise Unfetched("its metadata names another issuer")
    url = found.get("jwks_uri")
    if not isinstance(url, str) or not is_fetchable(url, near=issuer):
        raise Unfetched("its metadata has no jwks_uri that may be used")
    return url


def _read(document: bytes) -> list[dict[str, Any]]:
    keys = _json(document).get("keys")
    if not isinstance(keys, list) or len(keys) > MOST_KEYS:
        raise Unfetched("there is no set of keys")
    return [key for key in keys if isinstance(key, dict)]


def _json(document: bytes) -> dict[str, Any]:
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        raise Unfetched("what came is not JSON") from None
    if not isinstance(found, dict):
        raise Unfetched("what came is no JSON object")
    return found


def _key(kept: _Kept, token: Token) -> jwt.PyJWK | None:
    place = (token.kid, token.algorithm)
    if place not in kept.made:
        fitting = [key for key in kept.keys if _fits(key, token)]
        made = _made(fitting[0], token.algorithm) if len(fitting) == 1 else None
        if made is None:
            return None
        kept.made[place] = made
    return kept.made[place]


def _fits(key: dict[str, Any], token: Token) -> bool:
    kind, curve = _KINDS[token.algorithm]
    return (
        key.get("kty") == kind
        and (curve is None or key.get("crv") == curve)
        and key.get("use", "sig") == "sig"
        and key.get("alg", token.algorithm) == token.algorithm
        and (token.kid is None or key.get("kid") == token.kid)
    )


def _made(key: dict[str, Any], algorithm: str) -> jwt.PyJWK | None:
    try:
        made = jwt.PyJWK.from_dict(key, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return made if getattr(made.key, "key_size", 2048) >= 2048 or algorithm != "RS256" else None
