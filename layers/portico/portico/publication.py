"""The catalogue in force, and who waits for the next one."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from portico.catalogue import Allows, Catalogue, merge
from portico.registry import VirtualServer

MOST_VIEWS: Final = 256


class Publication:
    """The catalogue in force, and a way to wait for the next one.

    Told of a change too early, a client would list at a process that has yet to follow: `lag_s` is how long to wait.
    """

    def __init__(self, lag_s: float = 0.0) -> None:
        self.lag_s = lag_s
        self.current: Catalogue = merge([])
        self._views: dict[tuple[VirtualServer | None, str], Catalogue] = {}
        self._changed = asyncio.Event()
        self._waiting = 0

    def view(self, server: VirtualServer | None, grants: str = "", allows: Allows | None = None) -> Catalogue:
        """The catalogue in force, or the part of it that a virtual server shows and a principal may see.

        All who have the same `grants` may see the same.
        """
        if server is None and allows is None:
            return self.current
        key = (server, grants)
        if key not in self._views:
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            shown = self.current.limited(_limits(server)) if server else self.current
            self._views[key] = shown.permitted(allows) if allows else shown
        return self._views[key]

    def view_as(self, catalogue: Catalogue) -> Catalogue:
        """The catalogue in force, limited as this one is."""
        shown = self.current.limited(catalogue.limits) if catalogue.limits else self.current
        return shown.permitted(catalogue.allows) if catalogue.allows else shown

    def publish(self, catalogue: Catalogue) -> None:
        self.current = catalogue
        self._views = {}
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def awaited(self) -> bool:
        """Whether anybody waits for the next catalogue."""
        return self._waiting > 0

    async def next(self, seconds: float) -> None:
        self._waiting += 1
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
        finally:
            self._waiting -= 1


def _limits(server: VirtualServer) -> Mapping[str, frozenset[str]]:
    limits = {"tools": server.tools, "prompts": server.prompts}
    return {name: frozenset(shown) for name, shown in limits.items() if shown is not None}
