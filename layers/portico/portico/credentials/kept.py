"""What was fetched, kept for as long as it is good: at most one fetch under way for each key, none repeated at once after
a failure, and a newer one fetched while the old one is still used.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from portico.errors import BackendError

RETRY_S: Final = 5.0
"""So soon after a fetch that failed there is no other."""
YOUNG_S: Final = 5.0
"""What is younger and refused would be refused again."""

T = TypeVar("T")
log = logging.getLogger("portico.credentials")


@dataclass(frozen=True, slots=True)
class Good(Generic[T]):
    """What a fetch brought."""

    value: T
    until: float
    fresh_until: float
    """After this, newer is asked for while this one is used."""


@dataclass(slots=True)
class _Entry(Generic[T]):
    good: Good[T] | None = None
    fetched_at: float = float("-inf")
    error: BackendError | None = None
    failed_at: float = float("-inf")
    fetching: "asyncio.Task[None] | None" = None


Fetch = Callable[[], Awaitable[Good[T]]]
"""Raises BackendError, which is told to everybody who waits."""


class Kept(Generic[T]):
    def __init__(self, clock: Callable[[], float] = time.time, most: int = 4096) -> None:
        self._clock = clock
        self._most = most
        self._entries: dict[Hashable, _Entry[T]] = {}

    async def get(self, key: Hashable, fetch: Fetch[T]) -> T:
        """Raises BackendError."""
        entry = self._entry(key)
        now = self._clock()
        if entry.good is not None and now < entry.good.until:
            if now >= entry.good.fresh_until and now >= entry.failed_at + RETRY_S:
                self._begin(entry, fetch)
            return entry.good.value
        if entry.fetching is None and entry.error is not None and now < entry.failed_at + RETRY_S:
            raise entry.error.with_traceback(None)
        await asyncio.shield(self._begin(entry, fetch))
        if entry.good is None or self._clock() >= entry.good.until:
            raise entry.error or BackendError("what was fetched has expired already")
        return entry.good.value

    def drop(self, key: Hashable, value: T) -> bool:
        """The backend has refused this one: whether another one is worth asking for."""
        entry = self._entries.get(key)
        if entry is None or entry.good is None or entry.good.value != value:
            return True
        if self._clock() < entry.fetched_at + YOUNG_S:
            return False
        entry.good = None
        return True

    def _entry(self, key: Hashable) -> _Entry[T]:
        if key not in self._entries:
            if len(self._entries) >= self._most:
                del self._entries[next(iter(self._entries))]
            self._entries[key] = _Entry()
        return self._entries[key]

    def _begin(self, entry: _Entry[T], fetch: Fetch[T]) -> "asyncio.Task[None]":
        if entry.fetching is None:
            entry.fetching = asyncio.ensure_future(self._fetch(entry, fetch))
        return entry.fetching

    async def _fetch(self, entry: _Entry[T], fetch: Fetch[T]) -> None:
        try:
            entry.good = await fetch()
            entry.fetched_at, entry.error = self._clock(), None
        except BackendError as error:
            log.warning("fetching failed: %s", error)
            entry.error, entry.failed_at = error, self._clock()
        finally:
            entry.fetching = None
