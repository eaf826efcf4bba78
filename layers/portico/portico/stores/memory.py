"""A store that ends with its process: for tests, and for trying Portico out."""

import secrets
import time
from collections.abc import Callable

from portico.stores.base import ABSENT, Conflict, Record


class MemoryStore:
    """Every method runs to its end without awaiting, which is what makes conditional writes atomic here."""

    poll_s = 0.05

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._partitions: dict[str, dict[str, Record]] = {}
        self._writes = 0

    def stamp(self) -> object:
        return self._writes

    async def get(self, partition: str, sort: str) -> Record | None:
        return self._live(partition, sort)

    async def query(self, partition: str) -> list[Record]:
        records = self._partitions.get(partition, {})
        return [records[sort] for sort in sorted(records) if self._live(partition, sort)]

    async def versions(self, partition: str) -> dict[str, str]:
        return {record.sort: record.version for record in await self.query(partition)}

    async def put(
        self,
        partition: str,
        sort: str,
        value: bytes,
        *,
        expect: str | None = None,
        expires_at: float | None = None,
    ) -> Record:
        self._check(partition, sort, expect)
        self._writes += 1
        record = Record(partition, sort, value, secrets.token_hex(8), expires_at)
        self._partitions.setdefault(partition, {})[sort] = record
        return record

    async def delete(self, partition: str, sort: str, *, expect: str | None = None) -> bool:
        self._check(partition, sort, expect)
        was_live = self._live(partition, sort) is not None
        self._forget(partition, sort)
        return was_live

    async def drop(self, partition: str) -> None:
        self._writes += 1
        self._partitions.pop(partition, None)

    async def sweep(self) -> int:
        expired = [
            (partition, sort)
            for partition, records in self._partitions.items()
            for sort in records
            if self._live(partition, sort) is None
        ]
        for partition, sort in expired:
            self._forget(partition, sort)
        return len(expired)

    async def close(self) -> None:
        self._partitions.clear()

    def _live(self, partition: str, sort: str) -> Record | None:
        record = self._partitions.get(partition, {}).get(sort)
        if record is None or (record.expires_at is not None and record.expires_at <= self._clock()):
            return None
        return record

    def _check(self, partition: str, sort: str, expect: str | None) -> None:
        record = self._live(partition, sort)
        if expect is not None and expect != (record.version if record else ABSENT):
            raise Conflict(f"{partition} {sort}")

    def _forget(self, partition: str, sort: str) -> None:
        self._writes += 1
        records = self._partitions.get(partition, {})
        records.pop(sort, None)
        if not records:
            self._partitions.pop(partition, None)
