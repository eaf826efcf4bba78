"""Tool parameters that headers repeat: what `x-mcp-header` in a tool's input schema asks for."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from portico.protocol.jsonrpc import Message, Rejection
from portico.protocol.modern import PARAM_HEADER, decode_value, encode_value, mismatch

Mirrors = tuple[tuple[tuple[str, ...], str], ...]
"""Paths into a tool's arguments, and the name of the header that repeats what is there."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Where JSON Schema 2020-12 has further schemas: one, or several in a list or by name.
_SCHEMA: Final = frozenset(
    [
        "items",
        "contains",
        "unevaluatedItems",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    ]
)
_SCHEMAS: Final = frozenset(
    [
        "allOf",
        "anyOf",
        "oneOf",
        "prefixItems",
        "patternProperties",
        "dependentSchemas",
        "$defs",
        "definitions",
    ]
)
_WHOLE: Final = re.compile(r"(-?[0-9]+)(?:\.0+)?")
_DIGITS: Final = 400
"""More than any number has that JSON's readers agree on, and few enough to be read."""
_MIRRORED_TYPES: Final = ("string", "integer", "boolean")


def read(schema: Any) -> Mirrors:
    """What `x-mcp-header` in a tool's input schema asks for. Raises ValueError where it may not stand."""
    found: dict[tuple[str, ...], str] = {}
    for path, inner in _positions(schema):
        if "x-mcp-header" not in inner:
            continue
        name = inner["x-mcp-header"]
        if not path:
            raise ValueError("x-mcp-header stands where no chain of properties leads")
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ValueError("x-mcp-header is not the name of a header")
        if inner.get("type") not in _MIRRORED_TYPES:
            raise ValueError("x-mcp-header belongs to strings, integers and booleans only")
        if name.lower() in {other.lower() for other in found.values()}:
            raise ValueError(f"x-mcp-header {name!r} is there twice")
        found[path] = name
    return tuple(found.items())


def _positions(schema: Any) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Every schema in a schema, with the chain of `properties` that leads to it, or None where there is no such chain.

    What only looks like a schema (defaults, examples, enums) is not entered, and no reference is followed.
    """
    stack: list[tuple[tuple[str, ...] | None, Any]] = [((), schema)]
    while stack:
        path, node = stack.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for keyword, value in node.items():
            if keyword == "properties" and isinstance(value, dict):
                stack += [((*path, name) if path is not None else None, item) for name, item in value.items()]
            elif keyword in _SCHEMA:
                stack.append((None, value))
            elif keyword in _SCHEMAS:
                stack += [
                    (None, item) for item in (value.values() if isinstance(value, dict) else _list(value))
                ]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def param_headers(wanted: Mirrors, arguments: Any) -> dict[str, str]:
    """The headers that repeat a call's arguments."""
    rendered = {f"{PARAM_HEADER}{name}": _rendered(_at(arguments, path)) for path, name in wanted}
    return {name: encode_value(text) for name, text in rendered.items() if text is not None}


def check_params(
    wanted: Mirrors, message: Message, headers: Mapping[str, str], repeated: frozenset[str]
) -> Rejection | None:
    """Whether the headers that a tool asks for say what the body says."""
    arguments = message.param("arguments")
    for path, name in wanted:
        header, value = f"{PARAM_HEADER}{name.lower()}", _at(arguments, path)
        given, expected = headers.get(header), _rendered(value)
        if header in repeated:
            return mismatch(message, f"the header {header} stands there more than once")
        if given is None and expected is None:
            continue
        if given is None or expected is None or not _same(decode_value(given), expected, value):
            return mismatch(message, f"the header {header} does not match the body")
    return None


def _same(given: str | None, expected: str, value: Any) -> bool:
    """Whole numbers are compared as such, however large: 42.0 is 42."""
    if given is None or given == expected:
        return given is not None
    whole = _WHOLE.fullmatch(given)
    if whole is None or isinstance(value, bool):
        return False
    if isinstance(value, float) and not value.is_integer():
        return False
    return isinstance(value, int | float) and len(whole[1]) <= _DIGITS and int(whole[1]) == int(value)


def _at(arguments: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def _rendered(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None
