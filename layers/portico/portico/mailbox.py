"""Letters between processes: what arrives at one instance, and is waited for at another.

A box that is open in this process gets its letters at once. Any other letter goes into the store, where the process
that has the box open finds it at its next look.
"""

import asyncio
import contextlib
import itertools
import time

from portico.stores.base import Store

KEPT_S = 120.0
"""A letter that nobody has fetched by then never will be."""


class Mailbox:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, asyncio.Queue[bytes]] = {}
        self._numbers = itertools.count()

    async def post(self, box: str, letter: bytes) -> None:
        queue = self._open.get(box)
        if queue is not None:
            queue.put_nowait(letter)
            return
        place = f"{time.time_ns():020}#{next(self._numbers):06}"
        await self._store.put(_partition(box), place, letter, expires_at=time.time() + KEPT_S)

    def is_open(self, box: str) -> bool:
        """Whether somebody in this process reads it."""
        return box in self._open

    def open(self, box: str) -> "Letters":
        """Whoever opens a box closes it."""
        return Letters(self._store, box, self._open)


class Letters:
    def __init__(self, store: Store, box: str, boxes: dict[str, asyncio.Queue[bytes]]) -> None:
        self._store = store
        self._box = box
        self._boxes = boxes
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        boxes[box] = self._queue

    def close(self) -> None:
        if self._boxes.get(self._box) is self._queue:
            del self._boxes[self._box]

    async def next(self, seconds: float, *, look: bool) -> bytes | None:
        """The next letter, or None when `seconds` have passed. With `look`, also those in the store."""
        deadline = time.monotonic() + seconds
        while True:
            if look:
                await self._fetch()
            left = deadline - time.monotonic()
            wait = min(left, self._store.poll_s) if look else left
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(wait, 0)):
                    return await self._queue.get()
            if left <= 0:
                return None

    async def _fetch(self) -> None:
        if not await self._store.versions(_partition(self._box)):
            return
        for record in await self._store.query(_partition(self._box)):
            if await self._store.delete(_partition(self._box), record.sort):
                self._queue.put_nowait(record.value)


def _partition(box: str) -> str:
    return f"MAIL#{box}"
