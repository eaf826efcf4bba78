"""The functions of an application. Each has as many execution environments as it was ever asked for at once."""

import asyncio
import time
from collections.abc import Mapping

from emulator.application import Function
from emulator.environments import Environment
from emulator.outcomes import Outcome, Stream
from emulator.sandboxes import Sandboxes

PATIENCE_S = 0.05  # with an environment that has just answered, before another one is started


class Functions:
    def __init__(self, declared: Mapping[str, Function], sandboxes: Sandboxes) -> None:
        self._declared = declared
        self._sandboxes = sandboxes
        self._idle: dict[str, list[Environment]] = {name: [] for name in declared}
        self._all: dict[str, list[Environment]] = {name: [] for name in declared}

    def __contains__(self, name: str) -> bool:
        return name in self._declared

    async def invoke(self, name: str, event: bytes) -> Outcome:
        environment = await self._environment(name)
        outcome = environment.invoke(event).outcome
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            outcome.add_done_callback(_abandon)
            raise

    async def close(self) -> None:
        every = [environment for environments in self._all.values() for environment in environments]
        for environment in every:
            environment.kill()
        await asyncio.gather(*(environment.closed() for environment in every))

    async def _environment(self, name: str) -> Environment:
        until = time.monotonic() + PATIENCE_S
        while (environment := self._free(name)) is None:
            if time.monotonic() > until or not any(each.finishing for each in self._all[name]):
                return await self._another(name)
            await asyncio.sleep(0.001)
        return environment

    def _free(self, name: str) -> Environment | None:
        idle = self._idle[name]
        while idle:
            environment = idle.pop()
            if not environment.dead:
                return environment
        return None

    async def _another(self, name: str) -> Environment:
        function = self._declared[name]
        environment = Environment(function, self._sandboxes.make(function), self._idle[name].append)
        self._all[name] = [each for each in self._all[name] if not each.dead] + [environment]
        await environment.start()
        return environment


def _abandon(outcome: asyncio.Future[Outcome]) -> None:
    """Nobody is left to read it."""
    if not outcome.cancelled() and isinstance(stream := outcome.result(), Stream):
        stream.abandon()
