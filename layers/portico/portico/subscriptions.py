"""A modern client's `subscriptions/listen`: acknowledged first, then what it opted in to, each marked with its id."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Container
from dataclasses import dataclass, field
from typing import Any, Final

from portico.backends.remote import RemoteBackend
from portico.carriers.leases import Lease, Leases
from portico.catalogue import CHANGE_NOTICES, Catalogue, address_target
from portico.errors import BackendBroken, BackendError, EraChanged
from portico.hearing import hear, opened
from portico.http1 import Exchange
from portico.protocol import jsonrpc, sse
from portico.protocol.jsonrpc import INVALID_PARAMS, MISSING_CAPABILITY, Id, Message, Rejection
from portico.protocol.modern import SERVER_KEY, SUBSCRIPTION_KEY, TASKS_EXTENSION
from portico.publication import Publication
from portico.registry import Limits
from portico.requests import ModernRequest
from portico.tasks import Tasks, knows_tasks
from portico.upstream import lines

LISTS: Final = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}
MOST_NAMES: Final = 1000
READY_S: Final = 2.0
AGAIN_S: Final = 5.0
"""How soon a backend that would not be listened to is asked again."""
UPDATED: Final = "notifications/resources/updated"
PASSED_ON: Final = frozenset({UPDATED, "notifications/tasks"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client opted in to, as far as it can be had."""

    lists: frozenset[str]
    addresses: dict[str, list[str]] = field(default_factory=dict)
    """Per backend."""
    tasks: dict[str, list[str]] = field(default_factory=dict)
    """Per backend."""

    def filter(self) -> dict[str, Any]:
        found: dict[str, Any] = {LISTS[name]: True for name in LISTS if name in self.lists}
        return found | _named(_every(self.addresses), _every(self.tasks))


def _every(parts: dict[str, list[str]]) -> list[str]:
    return [item for part in parts.values() for item in part]


def _named(addresses: list[str], tasks: list[str]) -> dict[str, Any]:
    found = {"resourceSubscriptions": addresses, "taskIds": tasks}
    return {name: items for name, items in found.items() if items}


async def wanted(request: ModernRequest, backends: Container[str], tasks: Tasks) -> Wanted | Rejection:
    message, catalogue = request.message, request.catalogue
    said = message.param("notifications")
    if not isinstance(said, dict):
        return Rejection(400, INVALID_PARAMS, "params.notifications must be an object", id=message.id)
    uris, ids = said.get("resourceSubscriptions") or [], said.get("taskIds") or []
    if not _is_names(uris) or not _is_names(ids):
        expected = f"resourceSubscriptions and taskIds must be lists of at most {MOST_NAMES} names"
        return Rejection(400, INVALID_PARAMS, expected, id=message.id)
    if ids and not knows_tasks(request):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        return Rejection(400, MISSING_CAPABILITY, "Missing required client capability", needed, message.id)
    addresses: dict[str, list[str]] = {}
    for uri in dict.fromkeys(uris):
        owner = catalogue.owner(uri) or ""
        own = catalogue.capabilities.get(owner, {}).get("resources") or {}
        if owner in backends and own.get("subscribe") and _hears(request, uri, owner):
            addresses.setdefault(owner, []).append(uri)
    owned: dict[str, list[str]] = {}
    for id_ in dict.fromkeys(ids):
        owner = await tasks.owner(request, id_) or ""
        if owner in backends and "modern" in catalogue.eras.get(owner, []):
            owned.setdefault(owner, []).append(id_)
    lists = frozenset(name for name, key in LISTS.items() if said.get(key) is True)
    return Wanted(lists, addresses, owned)


def _hears(request: ModernRequest, uri: object, backend: str) -> bool:
    return request.hears is None or request.hears(address_target(str(uri), backend))


def _is_names(items: Any) -> bool:
    return isinstance(items, list) and len(items) <= MOST_NAMES and all(isinstance(x, str) for x in items)


class Subscription:
    def __init__(
        self,
        request: ModernRequest,
        wanted: Wanted,
        backends: dict[str, RemoteBackend],
        publication: Publication,
        catalogue: Callable[[], Catalogue],
        leases: Leases,
        limits: Limits,
        server: dict[str, Any],
        closing: asyncio.Event,
    ) -> None:
        self._request = request
        self._id: Id = request.message.id
        self._wanted = wanted
        self._backends = backends
        self._publication = publication
        self._catalogue = catalogue
        self._leases = leases
        self._limits = limits
        self._server = server
        self._closing = closing
        self._known = dict(catalogue().digests)
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(maxsize=256)
        self._ready: list[asyncio.Event] = []

    async def frames(self) -> AsyncIterator[bytes]:
        work = [asyncio.create_task(self._watch_catalogue()), *self._ears()]
        ends = time.monotonic() + self._limits.stream_s if self._limits.stream_s else float("inf")
        try:
            await self._settled()
            yield self._note(
                "notifications/subscriptions/acknowledged", {"notifications": self._wanted.filter()}
            )
            while not self._closing.is_set() and time.monotonic() < ends:
                yield (
                    await self._next(min(self._limits.keepalive_s, ends - time.monotonic())) or sse.KEEP_ALIVE
                )
            meta = {SUBSCRIPTION_KEY: self._id, SERVER_KEY: self._server}
            yield sse.encode(jsonrpc.result(self._id, {"resultType": "complete", "_meta": meta}))
        finally:
            for task in work:
                task.cancel()

    async def _settled(self) -> None:
        """What happens after the acknowledgement must not be missed."""
        await opened(READY_S, *self._ready)

    async def _next(self, seconds: float) -> bytes | None:
        news = asyncio.ensure_future(self._queue.get())
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({news, closing}, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED)
            return news.result() if news.done() else None
        finally:
            news.cancel()
            closing.cancel()

    def _note(self, method: str, params: dict[str, Any]) -> bytes:
        tagged = {**params, "_meta": {SUBSCRIPTION_KEY: self._id}}
        return sse.encode(jsonrpc.notification(method, tagged))

    async def _watch_catalogue(self) -> None:
        while True:
            for kind, digest in self._catalogue().digests.items():
                if self._known.get(kind) != digest:
                    self._known[kind] = digest
                    if kind in self._wanted.lists:
                        await self._queue.put(self._note(CHANGE_NOTICES[kind], {}))
            await self._publication.next(3600)
            await asyncio.sleep(self._publication.lag_s)

    # What becomes of resources

    def _ears(self) -> list[asyncio.Task[None]]:
        ears = []
        for name in dict.fromkeys([*self._wanted.addresses, *self._wanted.tasks]):
            ready = asyncio.Event()
            self._ready.append(ready)
            ears.append(asyncio.create_task(self._hear(self._backends[name], ready)))
        return ears

    async def _hear(self, backend: RemoteBackend, ready: asyncio.Event) -> None:
        """In its own era; one that goes over to the other is heard in that as soon as it is known."""
        while True:
            modern = self._is_modern(backend)
            if modern:
                await self._hear_modern(backend, ready)
            elif backend.name in self._wanted.addresses:
                await self._hear_legacy(backend, ready)
            if self._is_modern(backend) == modern:
                await self._publication.next(AGAIN_S)

    def _is_modern(self, backend: RemoteBackend) -> bool:
        return "modern" in self._catalogue().eras.get(backend.name, [])

    async def _hear_modern(self, backend: RemoteBackend, ready: asyncio.Event) -> None:
        uris, ids = self._wanted.addresses.get(backend.name, []), self._wanted.tasks.get(backend.name, [])

        async def opening(_: str) -> Exchange:
            return await backend.subscribe(_named(uris, ids), await lines(backend, self._request.headers))

        async for frame in hear(opening, limit=self._limits.response_bytes, answered=ready.set):
            await self._heard(jsonrpc.read_bytes(frame.data), backend)

    async def _hear_legacy(self, backend: RemoteBackend, ready: asyncio.Event) -> None:
        """In a session of this subscription's own, for as long as it lasts."""
        while not self._is_modern(backend):
            lease = None
            try:
                sent = await lines(backend, self._request.headers)
                lease = await self._leases.take(backend, self._request, sent)
                await self._subscribe(lease, self._wanted.addresses[backend.name], ready)
            except EraChanged:
                return
            except BackendError:
                await asyncio.sleep(1)
            finally:
                if lease is not None:
                    self._leases.end(lease)

    async def _subscribe(self, lease: Lease, uris: list[str], ready: asyncio.Event) -> None:
        heard: asyncio.Queue[Message] = asyncio.Queue()
        lease.heard = heard.put_nowait
        if lease.ear is None:
            await self._leases.hear(lease)
        for uri in uris:
            seconds = self._limits.call_timeout_s
            # One that cannot be subscribed to costs the others nothing.
            with contextlib.suppress(BackendBroken):
                await lease.backend.ask(
                    lease.upstream, "resources/subscribe", {"uri": uri}, lease.sent, seconds
                )
        ready.set()
        ear = lease.ear
        while ear is not None and not ear.done():
            take = asyncio.ensure_future(heard.get())
            try:
                await asyncio.wait({take, ear}, return_when=asyncio.FIRST_COMPLETED)
                if take.done():
                    await self._heard(take.result(), lease.backend)
            finally:
                take.cancel()
        if not self._is_modern(lease.backend):
            await self._publication.next(self._limits.keepalive_s)

    async def _heard(self, message: Any, backend: RemoteBackend) -> None:
        """A backend may tell of more than it was asked for: of what lies below an address, say."""
        if not isinstance(message, Message) or message.method not in PASSED_ON:
            return
        if message.method != UPDATED or _hears(self._request, message.param("uri"), backend.name):
            params = {name: member.value for name, member in message.params.items() if name != "_meta"}
            await self._queue.put(self._note(message.method, params))
