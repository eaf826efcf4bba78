"""Things to do after a client has been answered, such as telling a backend that nobody waits any more."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from portico.errors import BackendError


class Errands:
    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(_quietly(work))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def settle(self, seconds: float = 5) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=seconds)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(BackendError):
        await work
