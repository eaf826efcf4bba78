"""`portico authz`: the check alone, as an HTTP service for Envoy (`authz.service`), by the gateway's own file.

It is started here and not in `authz`, which knows no files: the same portico.yaml then says the same on every edge.
"""

import asyncio
import contextlib
import logging
import sys
from typing import Final

import uvicorn

from authz.guard import Guard
from authz.service import Service
from portico.cli.serving import configured, listen, origin, started
from portico.client import Receive, Scope, Send
from portico.loglines import Format, set_up
from portico.registry import InvalidConfig, Registry, Watch

RELOAD_S: Final = 0.5

log = logging.getLogger("portico")


class Checking:
    """Follows the file; a broken one is refused whole, and the old one stays."""

    def __init__(self, watch: Watch, below: str) -> None:
        """Raises InvalidConfig, ValueError."""
        self._watch = watch
        self._below = below
        found = watch.poll()
        if isinstance(found, InvalidConfig):
            raise found
        if found is None or found.access is None:
            raise ValueError("auth.mode is none: there is nothing to check")
        self._registry = found
        self._service = self._made(found, None)

    def _made(self, registry: Registry, guard: Guard | None) -> Service:
        assert registry.access is not None  # noqa: S101 - whoever calls has looked
        self._guard = guard if guard and guard.access == registry.access else Guard(registry.access)
        return Service(self._guard, registry.prefixes, self._below)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._service(scope, receive, send)

    async def follow(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_S)
            found = await asyncio.to_thread(self._watch.poll)
            if isinstance(found, InvalidConfig):
                log.error("the configuration is not used, the old one stays:\n%s", found)
            elif found is not None and found.access is None:
                log.error("the configuration is not used, the old one stays: auth.mode is none")
            elif found is not None:
                self._service, self._registry = self._made(found, self._guard), found


def check_requests(config: str, host: str, port: int, below: str, lines: Format) -> int:
    set_up(sys.stderr, lines, log_calls=False)
    asyncio.run(_run(Checking(Watch(config), below.rstrip("/")), host, port))
    return 0


async def _run(checking: Checking, host: str, port: int) -> None:
    listener = listen(host, port)
    following = asyncio.create_task(checking.follow())
    server = uvicorn.Server(configured(checking))
    serving = asyncio.create_task(server.serve([listener]))
    await started(server, serving)
    print(f"portico authz ready on {origin(host, listener)}", file=sys.stderr, flush=True)
    try:
        await serving
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
