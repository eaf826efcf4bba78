"""Secrets as the store may have them: AES-256-GCM, bound to where they are kept, with the key's id before them.

The first key seals; the others open what was sealed before the keys were changed.
"""

import base64
import contextlib
import hashlib
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from portico.errors import NoCredential
from portico.registry import Registry, UnresolvedReference

_ID: Final = 8
_NONCE: Final = 12
_VERSION: Final = b"1"


@dataclass(frozen=True, slots=True)
class Keys:
    keys: tuple[bytes, ...] = field(repr=False)

    def seal(self, value: bytes, place: str) -> bytes:
        key, nonce = self.keys[0], secrets.token_bytes(_NONCE)
        return _VERSION + _id(key) + nonce + AESGCM(key).encrypt(nonce, value, place.encode())

    def open(self, sealed: bytes, place: str) -> bytes | None:
        """None for what none of the keys has sealed, or was sealed for another place."""
        version, id_, rest = sealed[:1], sealed[1 : 1 + _ID], sealed[1 + _ID :]
        key = next((key for key in self.keys if _id(key) == id_), None)
        if version != _VERSION or key is None:
            return None
        try:
            return AESGCM(key).decrypt(rest[:_NONCE], rest[_NONCE:], place.encode())
        except (InvalidTag, ValueError):
            return None


def _id(key: bytes) -> bytes:
    return hashlib.sha256(b"portico key id" + key).digest()[:_ID]


def keys_for(registry: Registry) -> Keys | None:
    """None where the operator has to declare one. Raises NoCredential."""
    if registry.encryption_key is None:
        return _beside(registry.store)
    try:
        return Keys(tuple(_key(text) for text in registry.encryption_key.resolve().split()))
    except (UnresolvedReference, ValueError) as error:
        why = str(error) if isinstance(error, UnresolvedReference) else "each must be 32 bytes in base64"
        raise NoCredential(502, f"auth.encryption_key cannot be used: {why}") from None


def _key(text: str) -> bytes:
    key = base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
    if len(key) != 32:
        raise ValueError
    return key


def _beside(store: str) -> Keys | None:
    """Made when it is first needed: for the owner of the store's file only."""
    kind, _, place = store.partition(":")
    if kind == "memory":
        return Keys((secrets.token_bytes(32),))
    if kind != "sqlite":
        return None
    path = Path(place).expanduser()
    file = path.with_name(path.name + ".key")
    if not file.exists():
        draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
            made.write(base64.b64encode(secrets.token_bytes(32)))
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(draft, file)
        draft.unlink()
    return Keys((_key(file.read_text(encoding="ascii").strip()),))
