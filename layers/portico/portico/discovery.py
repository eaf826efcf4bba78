"""Lists backends, watches them for changes, publishes what they offer.

One watcher per backend. Of several gateway processes on one store, the one that holds a backend's lease watches it;
all of them follow the listings in the store.
"""

import asyncio
import contextlib
import json
import logging
import time
import uuid
from dataclasses import fields, replace
from typing import Any, Final

from portico.backends.remote import Greeting, RemoteBackend, UnsupportedVersion
from portico.catalogue import Listing, merge, tool_problem
from portico.errors import BackendBroken, BackendError, Unauthorized
from portico.hearing import hear, opened
from portico.http1 import Exchange
from portico.protocol import versions
from portico.protocol.jsonrpc import METHOD_NOT_FOUND, Id, Rejection, dumps, error, result
from portico.publication import Publication
from portico.registry import Registry
from portico.sessions import UpstreamSession
from portico.stores.base import ABSENT, Conflict, Store

LISTING: Final = "LISTING"
STATUS: Final = "STATUS"
LEASE: Final = "LEASE"
LEASE_S: Final = 6.0
OPEN_S: Final = 1.0
"""How long a first listing waits for the backend's stream; some send no headers before they have something to say."""
LONGEST_S: Final = 3600.0
MOST_HEARD: Final = 1 << 22
EVERY_CHANGE: Final = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}

log = logging.getLogger("portico.discovery")


class Discovery:
    def __init__(self, store: Store, publication: Publication) -> None:
        self._store = store
        self._publication = publication
        self._registry = Registry()
        self._holder = uuid.uuid4().hex
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._nudges: dict[str, asyncio.Event] = {}
        self._failures: dict[str, int] = {}
        self._seen: dict[str, str] | None = None
        self._follower: asyncio.Task[None] | None = None

    async def apply(self, registry: Registry, backends: dict[str, RemoteBackend], changed: set[str]) -> None:
        """Watch what the registry declares: only backends that are new, changed or gone are touched."""
        self._registry = registry
        ended = [name for name in self._watchers if name not in backends or name in changed]
        for name in ended:
            self._dismiss(self._watchers.pop(name))
        noted = {*await self._store.versions(LISTING), *await self._store.versions(STATUS)}
        for name in noted - set(backends):
            lease = await self._store.get(LEASE, name)
            # Another process may already know of a backend that this one has yet to hear of.
            if lease is None or lease.value == self._holder.encode():
                await self._forget(name)
        for name, backend in backends.items():
            if name not in self._watchers:
                self._nudges[name] = asyncio.Event()
                self._watchers[name] = asyncio.create_task(self._watch(backend), name=f"watch {name}")
        if self._follower is None:
            self._follower = asyncio.create_task(self._follow(), name="follow listings")
        self._seen = None
        await self.refresh()

    async def follow(self, registry: Registry) -> None:
        """Publish what others have found, for where nobody watches backends."""
        if registry is not self._registry:
            self._registry, self._seen = registry, None
        await self.refresh()

    async def look(
        self, registry: Registry, backends: dict[str, RemoteBackend], only: set[str] | None = None
    ) -> None:
        """One look at every backend, or only at some, likewise."""
        self._registry, self._seen = registry, None
        for name in set(await self._store.versions(LISTING)) - set(backends):
            await self._forget(name)
        await asyncio.gather(*(self._look(backends[name]) for name in (backends if only is None else only)))
        await self.refresh()

    async def _look(self, backend: RemoteBackend) -> None:
        seconds = self._registry.discovery.timeout_s
        greeting: Greeting | None = None
        try:
            headers = await backend.for_discovery()
            greeting = await backend.greet(headers, seconds)
            if "tools" not in greeting.capabilities:
                raise MissingCapabilities(["tools"])
            await self._publish(backend, await backend.offers(greeting, headers, seconds))
        except BackendError as error:
            note = await self._store.get(STATUS, backend.name)
            failures = json.loads(note.value).get("failures", 0) if note else 0
            await self._failed(backend, failures + 1, error)
        finally:
            if greeting is not None:
                with contextlib.suppress(BackendError):
                    await backend.end(greeting.upstream, await backend.for_discovery())

    def _dismiss(self, watcher: asyncio.Task[None]) -> None:
        """Not waited for: a backend that is slow to take leave of holds up no change of the others."""
        watcher.cancel()
        self._leaving.add(watcher)
        watcher.add_done_callback(self._leaving.discard)

    async def settled(self, seconds: float) -> None:
        """Wait until every backend has been asked once."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if set(self._watchers) <= set(await self._store.versions(STATUS)):
                break
            await asyncio.sleep(0.05)
        await self.refresh()

    def nudge(self, name: str) -> None:
        """Somebody heard that this backend's listing has changed."""
        if name in self._nudges:
            self._nudges[name].set()

    async def stop(self) -> None:
        await _stop(*self._watchers.values(), *([self._follower] if self._follower else []))
        if self._leaving:
            await asyncio.wait(self._leaving)
        for name in self._watchers:
            lease = await self._store.get(LEASE, name)
            if lease and lease.value == self._holder.encode():
                with contextlib.suppress(Conflict):
                    await self._store.delete(LEASE, name, expect=lease.version)

    # Following what is in the store

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._store.poll_s)
            try:
                await self.refresh()
            except Exception:  # the boundary: a store that fails for once is asked again
                log.exception("following the listings failed")

    async def refresh(self) -> None:
        """Publish a new catalogue if a listing has changed."""
        versions_now = await self._store.versions(LISTING)
        if versions_now == self._seen:
            return
        self._seen = versions_now
        records = {record.sort: record for record in await self._store.query(LISTING)}
        listings = []
        for backend in self._registry.backends:
            record = records.get(backend.name)
            if record and backend.enabled:
                listing = _read(record.value)
                if listing.prefix == backend.prefix:
                    listings.append(listing)
        catalogue = merge(listings)
        self._publication.publish(catalogue)

    # Watching one backend

    async def _watch(self, backend: RemoteBackend) -> None:
        """The boundary: whatever goes wrong here, the next turn comes."""
        self._failures[backend.name] = 0
        while True:
            try:
                await self._turn(backend)
            except Exception:
                log.exception("watching %s failed", backend.name)
                await asyncio.sleep(1)

    async def _turn(self, backend: RemoteBackend) -> None:
        """Attend to it for as long as the lease is ours, or wait for it to become free."""
        if not await self._hold_lease(backend.name):
            await asyncio.sleep(min(LEASE_S / 3, self._registry.discovery.interval_s))
            return
        attempt = asyncio.create_task(self._attempt(backend))
        try:
            while not attempt.done() and await self._hold_lease(backend.name):
                await asyncio.wait([attempt], timeout=LEASE_S / 3)
        finally:
            await _stop(attempt)
        if not attempt.cancelled():
            attempt.result()

    async def _attempt(self, backend: RemoteBackend) -> None:
        """Attend to it for as long as that goes well; after a failure wait, the longer the more there were in a row."""
        name, interval_s = backend.name, self._registry.discovery.interval_s
        try:
            await self._attend(backend)
        except BackendError as error:
            self._failures[name] += 1
            await self._failed(backend, self._failures[name], error)
            await self._rest(name, min(2.0 ** min(self._failures[name] - 1, 16), interval_s))

    async def _attend(self, backend: RemoteBackend) -> None:
        """Open a session, listen, then list and list again until something breaks."""
        rules = self._registry.discovery
        headers = await backend.for_discovery()
        greeting = await backend.greet(headers, rules.timeout_s)
        session = greeting.upstream
        listener: asyncio.Task[None] | None = None
        try:
            if "tools" not in greeting.capabilities:
                raise MissingCapabilities(["tools"])
            heard = asyncio.Event()
            listener = asyncio.create_task(self._listen(backend, session, heard))
            await opened(OPEN_S, heard)
            heard.set()
            while True:
                headers = await backend.for_discovery()
                listing = await backend.offers(greeting, headers, rules.timeout_s)
                await self._publish(backend, listing)
                self._failures[backend.name] = 0
                await self._rest(backend.name, self._patience(listing))
        finally:
            if listener is not None:
                await _stop(listener)
            with contextlib.suppress(BackendError):
                await asyncio.shield(backend.end(session, headers))

    def _patience(self, listing: Listing) -> float:
        """How long the listing may be taken for fresh: what the backend says counts, within reason."""
        said = [time / 1000 for time, _ in listing.hints.values() if time > 0]
        interval_s = self._registry.discovery.interval_s
        return min(max(min(said), 1.0), LONGEST_S) if said else interval_s

    async def _rest(self, name: str, seconds: float) -> None:
        """Until the next look; a nudge ends it early."""
        nudge = self._nudges[name]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await nudge.wait()
        nudge.clear()

    async def _listen(self, backend: RemoteBackend, session: UpstreamSession, heard: asyncio.Event) -> None:
        """The backend's own stream: a change of its listings ends a rest, a request is answered.

        Whatever was said while there was no stream is lost, so the listings are looked at whenever there is one again.
        `heard` is set once it is known whether there is one: what is listed after that needs no second look.
        """

        def answered() -> None:
            if heard.is_set():
                self.nudge(backend.name)
            heard.set()

        frames = hear(lambda last: self._stream(backend, session, last), limit=MOST_HEARD, answered=answered)
        async for frame in frames:
            try:
                await self._heard(backend, session, frame.data)
            except BackendError as error:
                log.debug("%s could not be answered: %s", backend.name, error)

    async def _stream(self, backend: RemoteBackend, session: UpstreamSession, last_event_id: str) -> Exchange:
        headers = await backend.for_discovery()
        if session.version in versions.MODERN:
            return await backend.subscribe(EVERY_CHANGE, headers)
        return await backend.listen(session, headers, last_event_id)

    async def _heard(self, backend: RemoteBackend, session: UpstreamSession, data: bytes) -> None:
        try:
            message = json.loads(data) if data else {}
        except (ValueError, RecursionError):
            return
        method = message.get("method") if isinstance(message, dict) else None
        if not isinstance(method, str):
            return
        if method.endswith("/list_changed"):
            self.nudge(backend.name)
        elif method and "id" in message:
            await backend.tell(session, _reply(method, message["id"]), await backend.for_discovery(), 10)

    # Writing down what was found

    async def _hold_lease(self, name: str) -> bool:
        lease = await self._store.get(LEASE, name)
        if lease and lease.value != self._holder.encode():
            return False
        try:
            await self._store.put(
                LEASE,
                name,
                self._holder.encode(),
                expect=lease.version if lease else ABSENT,
                expires_at=time.time() + LEASE_S,
            )
        except Conflict:
            return False
        return True

    async def _publish(self, backend: RemoteBackend, listing: Listing) -> None:
        modern = "modern" in listing.eras
        invalid = [
            {"name": str(tool.get("name", "")), "reason": problem}
            for tool in listing.tools
            if (problem := tool_problem(tool, modern=modern))
        ]
        if invalid and self._registry.discovery.invalid_tools == "reject":
            raise InvalidTools(invalid)
        good = [tool for tool in listing.tools if not tool_problem(tool, modern=modern)]
        value = _written(replace(listing, tools=good))
        before = await self._store.get(LISTING, backend.name)
        if before is None or before.value != value:
            await self._store.put(LISTING, backend.name, value)
            await self.refresh()
        status = {
            "ready": True,
            "message": "",
            "totalTools": len(good),
            "totalPrompts": len(listing.prompts),
            "invalidTools": len(invalid),
            "invalidToolList": invalid,
            "version": listing.version,
        }
        await self._note(backend.name, status)

    async def _failed(self, backend: RemoteBackend, failures: int, error: BackendError) -> None:
        log.warning("backend %s: %s", backend.name, error)
        if isinstance(error, Unauthorized):
            backend.discovery_refused()
        unfit = isinstance(error, UnsupportedVersion | MissingCapabilities | InvalidTools)
        if unfit or failures >= self._registry.discovery.drop_after_failures:
            await self._store.delete(LISTING, backend.name)
            await self.refresh()
        status: dict[str, Any] = {"ready": False, "message": str(error), "failures": failures}
        if isinstance(error, MissingCapabilities):
            status["missingCapabilities"] = error.missing
        if isinstance(error, InvalidTools):
            status |= {"invalidTools": len(error.invalid), "invalidToolList": error.invalid}
        await self._note(backend.name, status)

    async def _note(self, name: str, status: dict[str, Any]) -> None:
        await self._store.put(STATUS, name, dumps({**status, "lastValidated": time.time()}).encode())

    async def _forget(self, name: str) -> None:
        await self._store.delete(LISTING, name)
        await self._store.delete(STATUS, name)


def _written(listing: Listing) -> bytes:
    """As it is kept. What cannot be merged is refused here, before it can do harm to the other backends."""
    try:
        merge([listing]).answers  # noqa: B018 - made to see whether it can be
        return dumps({field.name: getattr(listing, field.name) for field in fields(listing)}).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BackendBroken(f"its listing cannot be used ({type(error).__name__})") from None


def _read(value: bytes) -> Listing:
    """What another release of Portico has added is passed over: several may share a store."""
    known = {field.name for field in fields(Listing)}
    return Listing(**{name: item for name, item in json.loads(value).items() if name in known})


class MissingCapabilities(BackendBroken):
    def __init__(self, missing: list[str]) -> None:
        super().__init__(f"the backend lacks capabilities: {', '.join(missing)}")
        self.missing = missing


class InvalidTools(BackendBroken):
    def __init__(self, invalid: list[dict[str, str]]) -> None:
        names = ", ".join(item["name"] or "(no name)" for item in invalid)
        super().__init__(f"invalid tool definitions: {names}")
        self.invalid = invalid


def _reply(method: str, id_: Id) -> bytes:
    """Discovery has nobody to ask: it knows no roots, and refuses the rest at once rather than leave it waiting."""
    own: dict[str, Any] = {"ping": {}, "roots/list": {"roots": []}}
    if method in own:
        return result(id_, own[method])
    return error(
        Rejection(200, METHOD_NOT_FOUND, "Nobody is here to answer: this session only lists", id=id_)
    )


async def _stop(*tasks: asyncio.Task[None]) -> None:
    """All at once: a backend that is slow to take leave of holds up none of the others."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
