"""Which resource of the API a request is for."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Route:
    path: str
    pattern: re.Pattern[str]
    method: str  # ANY for each
    function: str | None  # None: a mock
    authorizer: str | None = None
    streaming: bool = False
    timeout_s: float = 29.0
    mock: dict[str, Any] | None = None


def path_pattern(path: str) -> re.Pattern[str]:
    def segment(text: str) -> str:
        if text.startswith("{") and text.endswith("+}"):
            return ".+"
        return "[^/]+" if text.startswith("{") else re.escape(text)

    return re.compile("/".join(f"({segment(text)})" for text in path.split("/")))


def by_precedence(routes: Iterable[Route]) -> tuple[Route, ...]:
    """A literal segment goes before a parameter, that before a greedy one; a method goes before ANY."""

    def rank(route: Route) -> tuple[list[int], bool]:
        segments = route.path.split("/")
        kinds = [0 if not s.startswith("{") else 2 if s.endswith("+}") else 1 for s in segments]
        return kinds, route.method == "ANY"

    return tuple(sorted(routes, key=rank))


def match(routes: Iterable[Route], method: str, path: str) -> tuple[Route, dict[str, str] | None] | None:
    """The route and its path parameters. The first resource that fits the path decides; others are not tried."""
    resource: str | None = None
    for route in routes:
        found = route.pattern.fullmatch(path)
        if found is None or resource not in (None, route.path):
            continue
        resource = route.path
        if route.method in (method, "ANY"):
            named = zip(route.path.split("/"), found.groups(), strict=True)
            return route, {name.strip("{+}"): value for name, value in named if name.startswith("{")} or None
    return None
