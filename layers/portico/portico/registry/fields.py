"""Reading one mapping field by field: what is wrong is reported, and reading goes on.

A kind says what a field may hold; `Fields` asks for fields by name, and so knows which ones there are.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from portico.registry.document import Data, Value, join
from portico.registry.problems import MASK, Report, shown

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Unfit(ValueError):
    """Not what a kind accepts; with a better word for what it expected, or found, where there is one."""

    def __init__(self, expected: str | None = None, found: str | None = None) -> None:
        super().__init__(expected)
        self.expected, self.found = expected, found


class Kind(Protocol[T_co]):
    @property
    def expected(self) -> str: ...

    def read(self, value: Value, report: Report) -> T_co:
        """Reports what is wrong and raises Unfit."""


class Scalar(Generic[T]):
    def __init__(self, expected: str, accept: Callable[[Data], T], *, secret: bool = False) -> None:
        self.expected = expected
        self._accept = accept
        self._secret = secret

    def read(self, value: Value, report: Report) -> T:
        try:
            return self._accept(value.data)
        except Unfit as unfit:
            found = MASK if self._secret else unfit.found or shown(value.data)
            report.problem(value.path, value.line, unfit.expected or self.expected, found)
            raise


class Listed(Generic[T]):
    def __init__(self, item: Kind[T], *, most: int | None = None, least: int = 0) -> None:
        self.expected = "a list"
        self._item = item
        self._most = most
        self._least = least

    def read(self, value: Value, report: Report) -> tuple[T, ...]:
        if not isinstance(value.data, list):
            report.problem(value.path, value.line, self.expected, shown(value.data))
            raise Unfit
        count = len(value.data)
        if count < self._least or (self._most is not None and count > self._most):
            bound = f"at most {self._most}" if count else f"at least {self._least}"
            report.problem(value.path, value.line, f"{bound} entries", str(count))
            raise Unfit
        return tuple(found for item in value.data for found in self._read(item, report))

    def _read(self, item: Value, report: Report) -> tuple[T, ...]:
        try:
            return (self._item.read(item, report),)
        except Unfit:  # it is in the report: the other entries are still worth reading
            return ()


class Fields:
    """A mapping's fields. A field without a value is as good as not there."""

    def __init__(self, value: Value, report: Report) -> None:
        self.value = value
        self.report = report
        self._given: dict[str, Value] = {}
        self._known: list[str] = []
        if isinstance(value.data, dict):
            self._given = value.data
        elif value.data is not None:
            report.problem(
                value.path,
                value.line,
                "a mapping",
                "text" if isinstance(value.data, str) else shown(value.data),
            )

    def place(self, name: str) -> Value:
        """Where a field is, or where it would be."""
        return self._given.get(name) or Value(None, join(self.value.path, name), self.value.line)

    def raw(self, name: str) -> Value | None:
        self._known.append(name)
        value = self._given.get(name)
        return None if value is None or value.data is None else value

    def read(self, kinds: Mapping[str, Kind[Any]], *, required: tuple[str, ...] = ()) -> dict[str, Any]:
        """Those of the fields that are there and right."""
        found: dict[str, Any] = {}
        for name, kind in kinds.items():
            value = self.raw(name)
            if value is None:
                if name in required:
                    self.problem(name, kind.expected, "nothing")
                continue
            try:
                found[name] = kind.read(value, self.report)
            except Unfit:  # it is in the report
                continue
        return found

    def section(self, name: str) -> "Fields":
        self._known.append(name)
        return Fields(self.place(name), self.report)

    def entries(self, name: str) -> dict[str, Value]:
        """A section whose field names are the operator's own."""
        section = self.section(name)
        return section._given  # noqa: SLF001 - its own class

    def items(self, name: str) -> list[Value]:
        value = self.raw(name)
        if value is None:
            return []
        if isinstance(value.data, list):
            return value.data
        self.problem(name, "a list", shown(value.data))
        return []

    def problem(self, name: str, expected: str, found: str) -> None:
        place = self.place(name)
        self.report.problem(place.path, place.line, expected, found)

    def unknown(self) -> list[Value]:
        """The fields nobody has asked for."""
        return [value for name, value in self._given.items() if name not in self._known]

    def refuse_unknown(self) -> None:
        for name, value in self._given.items():
            if name not in self._known:
                self.report.problem(value.path, value.line, self._one_of(name), "an unknown field")

    def _one_of(self, name: str) -> str:
        import difflib  # noqa: PLC0415 - only a refused file needs it

        close = difflib.get_close_matches(name[:80], self._known, n=1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        return f"one of {', '.join(sorted(self._known))}{meant}"
