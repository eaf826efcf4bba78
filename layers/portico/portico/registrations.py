"""The registry in force: the file, and the records that operators make while the gateway runs.

Every write is checked against what is in the store now, and lands only on the version that it was checked against.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from portico.registry import Backend, Merged, Problem, Registry, as_declared, merge
from portico.stores.base import ABSENT, Conflict, Record, Store

REGISTRY: Final = "REGISTRY"
MOST: Final = 1000


class Refused(Exception):
    """`status` is HTTP's."""

    def __init__(self, status: int, detail: str, problems: Iterable[Problem] = ()) -> None:
        super().__init__(detail)
        self.status, self.detail, self.problems = status, detail, tuple(problems)


@dataclass(frozen=True, slots=True)
class Condition:
    """The headers If-Match and If-None-Match, as they came."""

    if_match: str | None = None
    if_none_match: str | None = None

    def check(self, record: Record | None) -> None:
        tags = {"*", f'"{record.version}"'} if record else set()
        if self.if_match is not None and not tags & _tags(self.if_match):
            raise Refused(412, "the record is not in that version any more: read it again")
        if self.if_none_match is not None and tags & _tags(self.if_none_match):
            raise Refused(412, "the record is there already")

    def overtaken(self) -> Refused:
        """Somebody else was faster, after the check."""
        status = 409 if self == ANY else 412
        return Refused(status, "somebody else has changed the record meanwhile: read it again")


def _tags(header: str) -> set[str]:
    return {tag.strip() for tag in header.split(",")}


ANY: Final = Condition()


class Registrations:
    def __init__(self, store: Store, file: Registry) -> None:
        self._store = store
        self._file = file
        self._records: dict[str, Record] = {}
        self.merged: Merged = merge(file, {})

    def use(self, file: Registry) -> None:
        """From now on this is the file."""
        self._file = file
        self._merge()

    async def refresh(self) -> None:
        """Read the records if one has changed."""
        seen = {name: record.version for name, record in self._records.items()}
        if await self._store.versions(REGISTRY) != seen:
            self._records = {record.sort: record for record in await self._store.query(REGISTRY)}
            self._merge()

    def _merge(self) -> None:
        self.merged = merge(self._file, {name: record.value for name, record in self._records.items()})

    # What there is

    def version(self, name: str) -> str | None:
        return self._records[name].version if name in self._records else None

    async def all(self) -> list[dict[str, Any]]:
        await self.refresh()
        declared = [backend.name for backend in self.merged.registry.backends]
        unused = [name for name in self._records if name not in declared]
        return [self._shown(name) for name in (*declared, *unused)]

    async def one(self, name: str) -> dict[str, Any]:
        await self.refresh()
        return self._shown(name)

    def _shown(self, name: str) -> dict[str, Any]:
        backend = self._backend(name)
        if backend is None and name not in self._records:
            raise Refused(404, f"there is no backend {name!r}"[:200])
        return {
            "name": name,
            "source": "file" if self._in_file(name) else "record",
            "version": self.version(name),
            "backend": as_declared(backend) if backend else None,
            "problems": shown_problems(self.merged.problems.get(name, ())),
        }

    def _backend(self, name: str) -> Backend | None:
        return next((one for one in self.merged.registry.backends if one.name == name), None)

    def _in_file(self, name: str) -> bool:
        return any(backend.name == name for backend in self._file.backends)

    # Changes

    async def create(self, name: str, fields: dict[str, Any]) -> None:
        await self.refresh()
        if self._in_file(name) or name in self._records:
            raise Refused(409, f"there is a backend {name!r} already"[:200])
        await self._write(name, fields)

    async def replace(self, name: str, fields: dict[str, Any], condition: Condition = ANY) -> bool:
        """Whether it is new."""
        await self.refresh()
        condition.check(self._records.get(name))
        self._refuse_file(name, "changed")
        is_new = name not in self._records
        await self._write(name, fields, condition)
        return is_new

    async def change(self, name: str, patch: dict[str, Any], condition: Condition = ANY) -> None:
        """A JSON merge patch (RFC 7396): null takes a field away."""
        await self.refresh()
        self._shown(name)
        condition.check(self._records.get(name))
        if self._in_file(name):
            await self._overlay(name, patch, condition)
            return
        if name in self.merged.problems:
            raise Refused(409, "the record is broken: replace or remove it", self.merged.problems[name])
        await self._write(name, json.loads(self._records[name].value) | patch, condition)

    async def remove(self, name: str, condition: Condition = ANY) -> None:
        await self.refresh()
        self._shown(name)
        condition.check(self._records.get(name))
        if name not in self.merged.problems:
            self._refuse_file(name, "removed")
        await self._delete(name, condition)

    async def _overlay(self, name: str, patch: dict[str, Any], condition: Condition) -> None:
        """Of a file's backend nothing is written down but that it is disabled."""
        if patch.keys() != {"enabled"} or patch["enabled"] not in (True, None):
            await self._write(name, patch, condition)
            return
        if name in self._records:
            await self._delete(name, condition)
        backend = self._backend(name)
        if backend is not None and not backend.enabled:
            raise Refused(409, f"the file itself says that {name} is disabled: change it there")

    def _refuse_file(self, name: str, done: str) -> None:
        if self._in_file(name):
            raise Refused(409, f"{name} is declared in the file: it can be disabled here, not {done}")

    async def _write(self, name: str, fields: dict[str, Any], condition: Condition = ANY) -> None:
        others = {other: record.value for other, record in self._records.items() if other != name}
        if len(others) >= MOST:
            raise Refused(409, f"there are {MOST} records already")
        given = {key: value for key, value in fields.items() if value is not None}
        value = json.dumps(given, sort_keys=True).encode()
        alone = replace(self._file, backends=tuple(one for one in self._file.backends if one.name == name))
        for status, registry, beside in ((422, alone, {}), (409, self._file, others)):
            problems = merge(registry, {**beside, name: value}).problems.get(name)
            if problems:
                raise Refused(status, "the backend cannot be declared so", problems)
        try:
            await self._store.put(REGISTRY, name, value, expect=self.version(name) or ABSENT)
        except Conflict:
            raise condition.overtaken() from None
        await self.refresh()

    async def _delete(self, name: str, condition: Condition) -> None:
        try:
            await self._store.delete(REGISTRY, name, expect=self.version(name) or ABSENT)
        except Conflict:
            raise condition.overtaken() from None
        await self.refresh()


def shown_problems(problems: Iterable[Problem]) -> list[dict[str, str]]:
    return [{"path": one.path, "expected": one.expected, "found": one.found} for one in problems]
