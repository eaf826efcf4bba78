"""Puts the parts together. The only module that knows them all."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from authz.model import Access
from authz.origins import OriginRules
from portico import status
from portico.asgi import Endpoint
from portico.backends.remote import RemoteBackend
from portico.broker import Broker
from portico.client import Application, Receive, Scope, Send
from portico.credentials.calls import Credentials
from portico.discovery import STATUS, Discovery
from portico.http1 import HttpClient
from portico.parties import Admission
from portico.protocol import jsonrpc
from portico.publication import Publication
from portico.registrations import Registrations
from portico.registry import (
    Backend,
    InvalidConfig,
    Limits,
    Registry,
    UnresolvedReference,
    Watch,
    at,
    load,
)
from portico.settings import Settings
from portico.stores import open_store
from portico.stores.base import Store

if TYPE_CHECKING:  # the one is slow to import, the other not there where the gateway is deployed
    from portico.credentials.wiring import Wiring
    from portico.devauth.application import DevAuth

RELOAD_S = 0.5
SWEEP_S = 60.0
LAMBDA_STREAM_S = 870.0
"""Lambda ends a function after 15 minutes, and takes that for a failure: a stream says goodbye before."""

log = logging.getLogger("portico")


def assemble(settings: Settings) -> "Portico":
    """For where the environment says which file and which store. Raises InvalidConfig, ValueError."""
    registry = load(settings.config)
    if registry.dev_auth is not None:
        raise ValueError(
            f"{settings.config}: auth.mode is dev, which is for `portico serve` only: it lets in anybody"
        )
    if settings.store:
        registry = replace(registry, store=settings.store)
    if settings.public_url:
        registry = at(registry, settings.public_url)
    registry = replace(registry, limits=on_lambda(registry.limits))
    return Portico(registry, loopback=False, behind_authorizer=True)


def on_lambda(limits: Limits) -> Limits:
    return replace(limits, stream_s=min(limits.stream_s or LAMBDA_STREAM_S, LAMBDA_STREAM_S))


class Portico:
    """A whole gateway: an ASGI application with a beginning and an end."""

    def __init__(
        self,
        registry: Registry,
        *,
        loopback: bool,
        watch: Watch | None = None,
        behind_authorizer: bool = False,
    ) -> None:
        self._registry = registry
        self._watch = watch
        self._loopback = loopback
        self._behind_authorizer = behind_authorizer
        self._config_error: str | None = None
        self._looked = float("-inf")
        self._nudged: set[str] = set()
        self._looking = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._http = HttpClient()
        self._store: Store = open_store(registry.store)
        self._registrations = Registrations(self._store, registry)
        self._applying = asyncio.Lock()
        self._control: Application | None = None
        self._publication = Publication(2 * self._store.poll_s)
        self._discovery = Discovery(self._store, self._publication)
        self._credentials = Credentials(self._wire, alone=loopback)
        self._broker = Broker(self._store, self._publication, self._credentials)
        self._endpoint = Endpoint(self._broker, self, self._rules(registry))
        self.dev_auth: DevAuth | None = None
        """What issues tokens, once it has been declared."""
        self._admit(registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoint(scope, receive, send)

    async def start(self, settle_s: float = 10.0) -> None:
        await self._registrations.refresh()
        await self._apply(self._registrations.merged.registry)
        self._tasks = [
            asyncio.create_task(_repeat(self._store.poll_s, self._follow)),
            asyncio.create_task(_repeat(RELOAD_S, self._reload)),
            asyncio.create_task(_repeat(SWEEP_S, self._store.sweep)),
        ]
        await self._discovery.settled(settle_s)

    def closing(self) -> None:
        """The end is near: streams that would go on for ever say goodbye."""
        self._broker.closing.set()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._discovery.stop()
        await self._broker.settle()
        self._http.close()
        await self._store.close()

    def nudge(self, name: str) -> None:
        """Somebody heard that this backend's listing has changed."""
        if self._tasks:
            self._discovery.nudge(name)
        elif name not in self._nudged:
            self._nudged.add(name)
            self._broker.errands.run(self._look_at(name))

    async def look_again(self) -> None:
        """Somebody asks for what is unknown here: by now it may be known elsewhere."""
        if self._tasks:
            await self._discovery.refresh()
        else:
            await self._catch_up()

    def _wire(self) -> "Wiring":
        from portico.credentials.wiring import Wiring  # noqa: PLC0415 - most gateways need none of it

        return Wiring(self._http, self._store, lambda: self._broker.registry, self._consented)

    async def _consented(self, session: str, elicitation: str) -> None:
        params = {"elicitationId": elicitation}
        await self._broker.sessions.tell(
            session, jsonrpc.notification("notifications/elicitation/complete", params)
        )

    def _rules(self, registry: Registry) -> OriginRules:
        gateway = registry.gateway
        hosts = frozenset(host.lower() for host in gateway.allowed_hosts)
        own = "{0.scheme}://{0.netloc}".format(urlsplit(gateway.public_url))
        return OriginRules(self._loopback, hosts, frozenset({own, *gateway.allowed_origins}))

    def _admit(self, registry: Registry) -> None:
        """From now on those whom this registry lets in."""
        self._endpoint.issuing = self._issuing(registry)
        self._endpoint.admission = self._admission(registry.access)

    def _issuing(self, registry: Registry) -> "DevAuth | None":
        if registry.dev_auth is None:
            return None
        if not self._loopback:
            raise ValueError("auth.mode is dev: it lets in anybody, and so only on this machine")
        from portico.devauth import declared  # noqa: PLC0415 - only for development

        self.dev_auth = self.dev_auth or declared.beside(registry)
        self.dev_auth.terms = declared.terms(registry)
        return self.dev_auth

    def _admission(self, access: Access | None) -> Admission | None:
        now = self._endpoint.admission
        if access is None or (now is not None and now.access == access):
            return None if access is None else now
        from portico import admission  # noqa: PLC0415 - what looks at tokens is slow to import

        if self._behind_authorizer:
            return admission.ByAuthorizer(access)
        own = self._endpoint.issuing
        if own:
            return admission.ByOwnToken(access, own)
        return now.under(access) if isinstance(now, admission.ByToken) else admission.ByToken(access)

    # Where nothing runs between requests

    async def catch_up(self) -> None:
        """What has changed is looked for before a request, as often as the store bears it."""
        if time.monotonic() >= self._looked + self._store.poll_s:
            await self._catch_up()

    async def _catch_up(self) -> None:
        self._looked = time.monotonic()
        await self._registrations.refresh()
        self._registry = self._registrations.merged.registry
        self._declare(self._registry)
        await self._discovery.follow(self._registry)

    async def follow(self) -> None:
        """For as long as a request takes: a client that listens for changes waits for the next catalogue."""

        async def listened() -> None:
            if self._publication.awaited:
                await self.catch_up()

        await _repeat(self._store.poll_s, listened)

    async def _look_at(self, name: str) -> None:
        """However often it is said meanwhile that there is something new, one look follows."""
        async with self._looking:
            self._nudged.discard(name)
            if name in self._broker.backends:
                await self._discovery.look(self._registry, self._broker.backends, {name})

    async def look(self) -> None:
        """One look at every backend."""
        await self._registrations.refresh()
        self._registry = self._registrations.merged.registry
        self._declare(self._registry)
        await self._discovery.look(self._registry, self._broker.backends)

    async def sweep(self) -> int:
        return await self._store.sweep()

    async def linger(self) -> None:
        """Until what is held for clients has been fetched or given up, and all errands are run."""
        await self._broker.linger()

    def _declare(self, registry: Registry) -> set[str]:
        """Which backends are new or changed."""
        now = self._broker.registry
        same = (now.gateway, now.limits) == (registry.gateway, registry.limits)
        before = {backend.name: backend for backend in now.backends} if same else {}
        declared = {backend.name: backend for backend in registry.backends if backend.enabled}
        changed = {name for name, backend in declared.items() if before.get(name) != backend}
        if registry.store != self._registry.store:
            log.warning("another store is used only after a restart")
        self._broker.registry = registry
        self._broker.backends = {
            name: self._broker.backends[name]
            if name in self._broker.backends and name not in changed
            else self._backend(backend, registry)
            for name, backend in declared.items()
        }
        self._endpoint.rules = self._rules(registry)
        self._admit(registry)
        return changed

    def _backend(self, declared: Backend, registry: Registry) -> RemoteBackend:
        most = registry.limits.response_bytes
        return RemoteBackend(declared, self._http, self._credentials, registry.gateway, most)

    async def _apply(self, registry: Registry) -> None:
        changed = self._declare(registry)
        await self._discovery.apply(registry, self._broker.backends, changed)
        self._registry = registry

    async def _reload(self) -> None:
        """A change of the file is picked up; a broken file is refused whole and the old one stays."""
        found = await asyncio.to_thread(self._watch.poll) if self._watch else None
        if isinstance(found, InvalidConfig):
            self._config_error = str(found)
            log.error("the configuration is not used, the old one stays:\n%s", found)
        elif found is not None and found.dev_auth is not None and not self._loopback:
            self._config_error = "auth.mode dev is for a gateway that listens on loopback"
            log.error("the configuration is not used, the old one stays: %s", self._config_error)
        elif found is not None:
            self._config_error = None
            self._registrations.use(found)
        await self.changed()

    async def _follow(self) -> None:
        """A record that another process has written is picked up, too."""
        await self._registrations.refresh()
        await self.changed()

    async def changed(self) -> None:
        """Make what is declared the registry in force."""
        async with self._applying:
            wanted = self._registrations.merged.registry
            if wanted == self._registry:
                return
            log.info("the configuration has changed")
            if self._tasks:
                await self._apply(wanted)
                return
            self._registry = wanted
            changed = self._declare(wanted)
            await self._discovery.look(wanted, self._broker.backends, changed)

    async def control(self) -> Application | None:
        """The application for operators, made when it is first asked for; None without FastAPI."""
        if self._control is None:
            self._control = await asyncio.to_thread(_control, self._registrations, self)
        return self._control

    async def status(self, name: str | None) -> dict[str, Any] | None:
        notes = {record.sort: json.loads(record.value) for record in await self._store.query(STATUS)}
        merged, conflicts = self._registrations.merged, self._publication.current.problems
        if name is None:
            return status.overall(merged, notes, conflicts, self._config_error)
        found = (backend for backend in merged.registry.backends if backend.name == name)
        return next((status.of_backend(backend, notes, conflicts) for backend in found), None)


def _control(registrations: Registrations, operator: Portico) -> Application | None:
    try:
        from portico.control import application  # noqa: PLC0415 - FastAPI is an extra, and slow to import
    except ModuleNotFoundError as error:
        if error.name != "fastapi":
            raise
        return None
    return application(registrations, operator)


async def _repeat(seconds: float, action: Callable[[], Awaitable[object]]) -> None:
    """The boundary: whatever goes wrong, the next time comes."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await action()
        except Exception:
            log.exception("what is done every %g s failed", seconds)


def check_references(registry: Registry) -> list[str]:
    """Credentials that cannot be had now, for `portico check`."""
    wanted = {f"backends.{backend.name}.credential": backend.credential for backend in registry.backends}
    clients = {f"backends.{backend.name}.oauth": backend.oauth for backend in registry.backends}
    for place, client in {**clients, "auth.login": registry.login}.items():
        wanted[f"{place}.client_secret"] = client.client_secret if client else None
    wanted["auth.encryption_key"] = registry.encryption_key
    missing = []
    for place, reference in wanted.items():
        try:
            if reference:
                reference.resolve()
        except UnresolvedReference as error:
            missing.append(f"{place}: {error}")
    return missing
