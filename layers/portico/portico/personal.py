"""Lists that differ from user to user: asked for with the client's own headers, each time."""

import asyncio
import logging
from collections.abc import Callable
from typing import ClassVar

from portico.backends.remote import RemoteBackend
from portico.carriers.leases import Leases
from portico.catalogue import Definition, tool_problem
from portico.errors import BackendError, BackendRefused
from portico.http1 import Headers
from portico.protocol import names
from portico.requests import LegacyRequest, Request
from portico.upstream import Upstream, lines

log = logging.getLogger("portico.personal")


class Personal:
    LISTINGS: ClassVar = {"tools": "tools/list", "prompts": "prompts/list"}

    def __init__(
        self, upstream: Upstream, leases: Leases, backends: Callable[[], dict[str, RemoteBackend]]
    ) -> None:
        self._upstream = upstream
        self._leases = leases
        self._backends = backends

    async def items(self, name: str, request: Request, seconds: float) -> list[Definition]:
        """What the backends with a list for each user show to this one. One that fails costs its own part only."""
        found = await asyncio.gather(
            *(self._part(name, owner, request, seconds) for owner in request.catalogue.personal.values())
        )
        known = {item["name"] for item in request.catalogue.definitions[name]}
        return [item for part in found for item in part if item["name"] not in known]

    async def _part(self, name: str, owner: str, request: Request, seconds: float) -> list[Definition]:
        backend = self._backends().get(owner)
        if backend is None:
            return []
        try:
            items = await self._ask(name, backend, request, seconds)
        except BackendError as error:
            log.warning("backend %s: %s", owner, error)
            return []
        named = [item for item in items if isinstance(item.get("name"), str)]
        good = [item for item in named if name != "tools" or not tool_problem(item)]
        exposed = [{**item, "name": names.expose(backend.declared.prefix, item["name"])} for item in good]
        shown = request.catalogue.tool if name == "tools" else request.catalogue.prompt
        return [item for item in exposed if shown(item["name"])]

    async def _ask(
        self, name: str, backend: RemoteBackend, request: Request, seconds: float
    ) -> list[Definition]:
        sent: Headers = await lines(backend, request.headers)
        method = self.LISTINGS[name]
        if "modern" in request.catalogue.eras.get(backend.name, []):
            return (await backend.pages(backend.modern, method, name, sent, seconds)).items
        if isinstance(request, LegacyRequest):
            return await self._ask_in_session(name, backend, request, seconds)
        lease = await self._leases.take(backend, request, sent)
        try:
            try:
                found = await backend.pages(lease.upstream, method, name, sent, seconds)
            except BackendRefused:
                await self._leases.renew(lease)
                found = await backend.pages(lease.upstream, method, name, sent, seconds)
        except BaseException:
            self._leases.end(lease)
            raise
        self._leases.give_back(lease)
        return found.items

    async def _ask_in_session(
        self, name: str, backend: RemoteBackend, request: LegacyRequest, seconds: float
    ) -> list[Definition]:
        session, catalogue, headers = request.session, request.catalogue, request.headers
        sent, method = await lines(backend, headers), self.LISTINGS[name]
        upstream = await self._upstream.session(backend, session, catalogue, headers)
        try:
            return (await backend.pages(upstream, method, name, sent, seconds)).items
        except BackendRefused:
            upstream = await self._upstream.renewed(backend, session, upstream, catalogue, headers)
            return (await backend.pages(upstream, method, name, sent, seconds)).items
