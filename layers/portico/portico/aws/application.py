"""The gateway as functions: the same ASGI application everywhere, with nothing running between requests."""

import asyncio
import re
from typing import Final

from portico.assembly import Portico, assemble
from portico.aws.events import Event
from portico.client import Receive, Scope, Send
from portico.settings import Settings

PARAMETER: Final = re.compile(r"\{([^}+]+)\+?\}")


class Serverless:
    """Looks at the store before a request, and lets what is held go on after it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._portico: Portico | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        portico = await self.ready()
        following = asyncio.create_task(portico.follow())
        try:
            await portico({**scope, "path": inner_path(routed(scope))}, receive, send)
        finally:
            following.cancel()

    async def ready(self) -> Portico:
        if self._portico is None:
            self._portico = assemble(self._settings)
        await self._portico.catch_up()
        return self._portico

    async def linger(self) -> None:
        """Calls that wait for their client's next round keep this process; errands are run to their end."""
        if self._portico is not None:
            await self._portico.linger()


def routed(scope: Scope) -> str:
    """The path that the route says. A custom domain's base path stands before it in the request's own."""
    path: str = scope["path"]
    event: Event = scope["aws.event"]
    route, parameters = event.get("resource") or "", event.get("pathParameters") or {}
    fixed = route.partition("{")[0]
    if not route or (path == route if fixed == route else path.startswith(fixed)):
        return path
    return PARAMETER.sub(lambda found: str(parameters.get(found[1], "")), route)


def inner_path(path: str) -> str:
    """The functions' own addresses, /mcp/initialize and the like, are /mcp; those of virtual servers are what they are."""
    return "/mcp" if path.startswith("/mcp/") and not path.startswith("/mcp/v/") else path


class Buffered(Serverless):
    """Where a function stands still as soon as it has answered: errands are run to their end before."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().__call__(scope, receive, send)
        await self.linger()


class Operators(Serverless):
    """The operators' API. Who may use it has been decided before: by IAM, or by the authorizer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        portico = await self.ready()
        control = await portico.control()
        assert control is not None  # noqa: S101 - the layer has FastAPI
        await control({**scope, "path": routed(scope)}, receive, send)
