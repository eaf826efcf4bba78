"""Sealed records: users' tokens for backends, the gateway's registrations, and consents under way."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from portico.credentials.endpoint import ClientIdentity
from portico.errors import NoCredential
from portico.registry import Registry
from portico.stores.base import Conflict, Record, Store

if TYPE_CHECKING:
    from portico.credentials.sealing import Keys

KEPT_S: Final = 180 * 86_400.0
"""A token that nobody has used for so long is forgotten."""


@dataclass(frozen=True, slots=True)
class UserToken:
    """A user's token for a backend, and all that is needed to have it refreshed."""

    url: str
    """The backend's: to another place it never goes."""
    access: str = field(repr=False)
    refresh: str = field(repr=False)
    expires_at: float
    scope: str
    issuer: str
    token_url: str
    near: str
    resource: str
    identity: ClientIdentity


class Vault:
    def __init__(self, store: Store, registry: Callable[[], Registry]) -> None:
        self._store = store
        self._registry = registry
        self._keys: Keys | None = None
        self._made_from: object = None

    @property
    def keys(self) -> "Keys":
        """Raises NoCredential."""
        registry = self._registry()
        made_from = (registry.encryption_key, registry.store)
        if self._keys is None or self._made_from != made_from:
            from portico.credentials.sealing import keys_for  # noqa: PLC0415 - ciphers are slow to import

            self._keys, self._made_from = keys_for(registry), made_from
        if self._keys is None:
            raise NoCredential(
                502, "the gateway has no key to keep users' tokens under: declare auth.encryption_key"
            )
        return self._keys

    async def put(
        self, partition: str, sort: str, value: dict[str, Any], seconds: float, expect: str | None = None
    ) -> None:
        """Raises Conflict."""
        sealed = self.keys.seal(json.dumps(value).encode(), f"{partition} {sort}")
        await self._store.put(partition, sort, sealed, expect=expect, expires_at=time.time() + seconds)

    async def get(self, partition: str, sort: str) -> tuple[dict[str, Any], str] | None:
        """With its version."""
        record = await self._store.get(partition, sort)
        return self._opened(record) if record else None

    async def take(self, partition: str, sort: str) -> dict[str, Any] | None:
        """For one taker only."""
        found = await self.get(partition, sort)
        if found is None:
            return None
        try:
            await self._store.delete(partition, sort, expect=found[1])
        except Conflict:
            return None
        return found[0]

    def _opened(self, record: Record) -> tuple[dict[str, Any], str] | None:
        plain = self.keys.open(record.value, f"{record.partition} {record.sort}")
        return None if plain is None else (json.loads(plain), record.version)

    # Users' tokens

    async def token(self, owner: str, backend: str) -> tuple[UserToken, str] | None:
        found = await self.get(_tokens(owner), backend)
        if found is None:
            return None
        said = found[0]
        return UserToken(**{**said, "identity": ClientIdentity(**said["identity"])}), found[1]

    async def keep(self, owner: str, backend: str, token: UserToken, expect: str | None = None) -> None:
        """Raises Conflict."""
        await self.put(_tokens(owner), backend, asdict(token), KEPT_S, expect)

    async def forget(self, owner: str, backend: str, expect: str | None = None) -> bool:
        return await self._store.delete(_tokens(owner), backend, expect=expect)


def _tokens(owner: str) -> str:
    return f"USERTOKEN#{digest(owner)}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
