"""The catalogue in force, and who waits for the next one."""

import asyncio
import contextlib

from portico.catalogue import Catalogue, merge
from portico.registry import VirtualServer


class Publication:
    """The catalogue in force, and a way to wait for the next one.

    Told of a change too early, a client would list at a process that has yet to follow: `lag_s` is how long to wait.
    """

    def __init__(self, lag_s: float = 0.0) -> None:
        self.lag_s = lag_s
        self.current: Catalogue = merge([])
        self._views: dict[VirtualServer, Catalogue] = {}
        self._changed = asyncio.Event()

    def view(self, server: VirtualServer | None) -> Catalogue:
        """The catalogue in force, or the part of it that a virtual server shows."""
        if server is None:
            return self.current
        if server not in self._views:
            limits = {"tools": server.tools, "prompts": server.prompts}
            only = {name: frozenset(shown) for name, shown in limits.items() if shown is not None}
            self._views[server] = self.current.limited(only)
        return self._views[server]

    def view_as(self, catalogue: Catalogue) -> Catalogue:
        """The catalogue in force, limited as this one is."""
        return self.current.limited(catalogue.limits) if catalogue.limits else self.current

    def publish(self, catalogue: Catalogue) -> None:
        self.current = catalogue
        self._views = {}
        self._changed.set()
        self._changed = asyncio.Event()

    async def next(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
