"""The keys that tokens are signed with: one that signs, one that will, and those that did.

The next key is published before it signs anything: whoever has kept the set knows it already when it is needed.
"""

import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from portico.devauth.model import ALGORITHM

ROTATE_S: Final = 30 * 86_400.0
"""The age at which the next key takes over by itself."""
RETIRED_S: Final = 86_400.0
"""For so long after that tokens of the old one are still good."""

_OPTIONS: Final[Any] = {
    "verify_aud": False,
    "verify_exp": False,  # by the server's own clock
    "verify_iat": False,
    "require": ["exp", "sub", "iss"],
}

log = logging.getLogger("portico.devauth")


@dataclass(frozen=True, slots=True)
class Key:
    kid: str
    pem: str
    since: float
    until: float | None = None
    """None: it signs, or will."""

    @property
    def private(self) -> ec.EllipticCurvePrivateKey:
        found = serialization.load_pem_private_key(self.pem.encode(), None)
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise TypeError("no key of an elliptic curve")
        return found


def _new(now: float) -> Key:
    made = ec.generate_private_key(ec.SECP256R1())
    form = (
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Key(secrets.token_hex(8), made.private_bytes(*form).decode(), now)


class Keys:
    """`path`: where they are kept, for this user's eyes only; None: in memory."""

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self.secret, self._keys = self._kept() or (secrets.token_bytes(32), [])
        self._signing: tuple[str, ec.EllipticCurvePrivateKey] | None = None
        if len([key for key in self._keys if key.until is None]) != 2:
            self._keys += [_new(clock()), _new(clock())]
            self._keep()

    def rotate(self) -> None:
        """The next key signs from now on."""
        now = self._clock()
        current, following = self._in_use()
        old = [key for key in self._keys if key.until is not None and key.until > now]
        self._keys = [*old, replace(current, until=now + RETIRED_S), replace(following, since=now), _new(now)]
        self._signing = None
        self._keep()
        log.info("tokens are signed with another key")

    def jwks(self) -> dict[str, Any]:
        now = self._clock()
        return {"keys": [_public(key) for key in self._keys if key.until is None or key.until > now]}

    def sign(self, claims: Mapping[str, Any]) -> str:
        current = self._in_use()[0]
        if self._clock() - current.since > ROTATE_S:
            self.rotate()
            current = self._in_use()[0]
        if self._signing is None or self._signing[0] != current.kid:
            self._signing = (current.kid, current.private)
        headers = {"kid": current.kid, "typ": "at+jwt"}
        return jwt.encode(dict(claims), self._signing[1], ALGORITHM, headers=headers)

    def claims(self, token: str, issuer: str) -> dict[str, Any] | None:
        """What one of this server's own tokens says, whoever it is for; None if it is not, or no longer, good."""
        try:
            kid, now = jwt.get_unverified_header(token).get("kid"), self._clock()
            found = next(k for k in self._keys if k.kid == kid and (k.until is None or k.until > now))
            said: dict[str, Any] = jwt.decode(
                token, found.private.public_key(), [ALGORITHM], options=_OPTIONS, issuer=issuer
            )
        except (jwt.PyJWTError, StopIteration):
            return None
        return said if said["exp"] > now else None

    def _in_use(self) -> tuple[Key, Key]:
        current, following = (key for key in self._keys if key.until is None)
        return current, following

    def _kept(self) -> tuple[bytes, list[Key]] | None:
        if self._path is None or not self._path.exists():
            return None
        if self._path.stat().st_mode & 0o077:
            log.warning("others can read %s: its keys are not used any more", self._path)
            return None
        try:
            said = json.loads(self._path.read_text(encoding="utf-8"))
            keys = [Key(**key) for key in said["keys"]]
            for key in keys:
                _public(key)
            return bytes.fromhex(said["secret"]), keys
        except (OSError, ValueError, KeyError, TypeError) as problem:
            log.warning("the keys in %s cannot be used: %s", self._path, type(problem).__name__)
            return None

    def _keep(self) -> None:
        if self._path is None:
            return
        fields = ("kid", "pem", "since", "until")
        keys = [{name: getattr(key, name) for name in fields} for key in self._keys]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump({"secret": self.secret.hex(), "keys": keys}, file)
        draft.replace(self._path)


def _public(key: Key) -> dict[str, Any]:
    jwk: dict[str, Any] = ECAlgorithm.to_jwk(key.private.public_key(), as_dict=True)
    return jwk | {"kid": key.kid, "use": "sig", "alg": ALGORITHM}
