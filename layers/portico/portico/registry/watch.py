"""Seeing that a configuration has changed, and what that means for its backends."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from portico.registry.access import listening_at
from portico.registry.load import load
from portico.registry.model import Backend, Registry
from portico.registry.problems import InvalidConfig

# A file written twice within the granularity of its clock looks the same after the second time: as long as it is this
# young, what it looks like proves nothing.
_UNSETTLED_NS: Final = 2_000_000_000

_Stamp = tuple[int, int, int]
_UNSEEN: Final[_Stamp] = (-1, -1, -1)


class Watch:
    """Asked as often as wanted: `poll` only reads when a file looks different, and only answers when it is."""

    def __init__(self, path: str | os.PathLike[str], *, version: str | None = None) -> None:
        self._path = path
        self._version = version
        self.origin: str | None = None
        """Where the gateway listens, once it does."""
        self._stamps: dict[str, _Stamp | None] = {}
        self._last: Registry | InvalidConfig | None = None

    def poll(self) -> Registry | InvalidConfig | None:
        """None: as it was. The first time it never is. With InvalidConfig, what was in force stays in force."""
        stamps = {file: _stamp(file) for file in self._stamps}
        if stamps and stamps == self._stamps and _settled(stamps):
            return None
        found = self._load()
        files = found.source if isinstance(found, Registry) else found.files
        # Looked at before reading: a change while we read shows next time. A file that is new here is looked at then.
        self._stamps = {file: stamps.get(file, _UNSEEN) for file in files}
        if _same(found, self._last):
            return None
        self._last = found
        return found

    def _load(self) -> Registry | InvalidConfig:
        try:
            found = load(self._path, version=self._version)
            return listening_at(found, self.origin) if self.origin else found
        except InvalidConfig as invalid:
            return invalid


def _stamp(file: str) -> _Stamp | None:
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _settled(stamps: dict[str, _Stamp | None]) -> bool:
    now = time.time_ns()
    return all(stamp is None or not 0 <= now - stamp[0] < _UNSETTLED_NS for stamp in stamps.values())


def _same(one: Registry | InvalidConfig, other: Registry | InvalidConfig | None) -> bool:
    if isinstance(one, InvalidConfig) and isinstance(other, InvalidConfig):
        return one.problems == other.problems
    return one == other


@dataclass(frozen=True, slots=True)
class Changes:
    """Which backends a new registry brings, drops, alters (as they are now) and leaves alone."""

    added: tuple[Backend, ...]
    removed: tuple[Backend, ...]
    changed: tuple[Backend, ...]
    kept: tuple[Backend, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def changes(old: Registry, new: Registry) -> Changes:
    before = {backend.name: backend for backend in old.backends}
    after = {backend.name: backend for backend in new.backends}
    common = [backend for backend in new.backends if backend.name in before]
    return Changes(
        added=tuple(backend for backend in new.backends if backend.name not in before),
        removed=tuple(backend for backend in old.backends if backend.name not in after),
        changed=tuple(backend for backend in common if backend != before[backend.name]),
        kept=tuple(backend for backend in common if backend == before[backend.name]),
    )
