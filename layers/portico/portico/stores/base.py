"""The one port behind which all of Portico's state lives.

A store keeps small records under (partition, sort). It knows nothing of what they mean: sessions, listings and
leases are written by the modules of those names. Every implementation passes `tests/contract/test_store.py`.
"""

from typing import Final, NamedTuple, Protocol

ABSENT: Final = ""
"""As `expect`: the record must not exist yet (an expired one does not)."""


class Record(NamedTuple):
    partition: str
    sort: str
    value: bytes
    version: str
    """Opaque, new with every write, never used twice, so that a delete and a re-creation is seen as a change."""
    expires_at: float | None = None


class Conflict(Exception):
    """Somebody else wrote first: the record is not in the version the writer expected."""


class Unavailable(OSError):
    """The store cannot be used at the moment; the message is fit for a log."""


class Store(Protocol):
    poll_s: float
    """How often it is reasonable to ask this store whether something has changed."""

    def stamp(self) -> object | None:
        """Another one whenever anything may have changed in the store; None where that costs as much as reading."""

    async def get(self, partition: str, sort: str) -> Record | None: ...

    async def query(self, partition: str) -> list[Record]:
        """All live records of a partition, by sort key."""

    async def versions(self, partition: str) -> dict[str, str]:
        """Sort key to version, of the live records: a cheap way to see whether anything has changed."""

    async def put(
        self,
        partition: str,
        sort: str,
        value: bytes,
        *,
        expect: str | None = None,
        expires_at: float | None = None,
    ) -> Record:
        """Write one record. With `expect`, only onto that version (or ABSENT); otherwise raises Conflict."""

    async def delete(self, partition: str, sort: str, *, expect: str | None = None) -> bool:
        """Whether there was a live record. With `expect`, only in that version; otherwise raises Conflict."""

    async def drop(self, partition: str) -> None:
        """Delete every record of a partition."""

    async def sweep(self) -> int:
        """Delete what has expired; how many records that were. Reading never shows an expired record anyway."""

    async def close(self) -> None: ...
