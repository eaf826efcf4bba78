"""Authorization headers -> the principal, or what the refusal says. The one check behind every edge."""

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from authz import challenge
from authz.challenge import Refusal
from authz.keys import Keys, KeysUnavailable
from authz.model import SKEW_S, Access, Principal
from authz.tokens import BadToken, bearer, expires_at, read, verify

MOST_KEPT: Final = 4096
HELD_S: Final = 300.0
"""After this a token is looked at again, and so is the age of the keys."""

log = logging.getLogger("authz.guard")


@dataclass(frozen=True, slots=True)
class _Known:
    principal: Principal
    until: float
    generation: int


class Guard:
    """Remembers tokens it has found to be good, for a while, until they expire or the issuer's keys change."""

    def __init__(
        self, access: Access, keys: Keys | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.access = access
        self._keys = keys or Keys()
        self._clock = clock
        self._known: dict[bytes, _Known] = {}

    async def admit(self, authorization: list[str], server: str = "") -> Principal | Refusal:
        """`server`: the virtual server whose metadata a refusal names."""
        try:
            token = bearer(authorization)
            if token is None:
                return challenge.no_token(self.access, server)
            return await self._principal(token)
        except BadToken as error:
            log.info("a token was refused: %s", error)
            return challenge.bad_token(self.access, str(error), server)
        except KeysUnavailable:
            return challenge.unavailable()

    async def _principal(self, text: str) -> Principal:
        digest = hashlib.sha256(text.encode()).digest()
        known = self._known.get(digest)
        if known is not None and self._holds(known):
            return known.principal
        token = read(text, self.access)
        principal = verify(token, await self._keys.find(token), self.access, self._clock())
        if len(self._known) >= MOST_KEPT:
            self._known.pop(next(iter(self._known)))
        generation = self._keys.generation(principal.issuer)
        until = min(expires_at(token) + SKEW_S, self._clock() + HELD_S)
        self._known[digest] = _Known(principal, until, generation)
        return principal

    def _holds(self, known: _Known) -> bool:
        current = self._keys.generation(known.principal.issuer)
        return self._clock() < known.until and known.generation == current
