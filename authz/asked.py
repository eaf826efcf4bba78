"""A POST's headers and body -> what it asks for, where body and headers agree. Pure.

As strict as the gateway behind: what two readers might read differently is refused, not judged by one of the readings.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from authz.challenge import Refusal

PARSE_ERROR: Final = -32700
HEADER_MISMATCH: Final = -32020
NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
}
"""Method to the parameter that Mcp-Name repeats."""
_SENTINEL: Final = re.compile(r"=\?base64\?(.*)\?=")


@dataclass(frozen=True, slots=True)
class Asked:
    method: str = ""
    """Empty where nothing is asked: a notification, an answer, a batch (whose parts the gateway judges one by one)."""
    name: str = ""
    id: str | int | None = None


class _Object(dict[str, Any]):
    twice = False


def by_headers(headers: Mapping[str, str]) -> Asked:
    """All there is where nobody shows us the body."""
    method, name = headers.get("mcp-method", ""), headers.get("mcp-name", "")
    return Asked(method, _decoded(name) or "") if method else Asked()


def by_body(headers: Mapping[str, str], body: bytes) -> Asked | Refusal:
    try:
        message = json.loads(body.decode(), object_pairs_hook=_object, parse_constant=_refused)
    except (ValueError, RecursionError):
        return _unreadable()
    if isinstance(message, list):
        return Asked()
    if not isinstance(message, _Object) or message.twice:
        return _unreadable()
    method, id_, params = message.get("method"), message.get("id"), message.get("params")
    if not isinstance(method, str) or type(id_) not in (str, int):
        return Asked()
    if isinstance(params, _Object) and params.twice:
        return _unreadable()
    said = params.get(NAMED.get(method, "")) if isinstance(params, _Object) else None
    name = said if isinstance(said, str) else None
    return _mismatch(headers, method, name) or Asked(method, name or "", id_)


def _mismatch(headers: Mapping[str, str], method: str, name: str | None) -> Refusal | None:
    if headers.get("mcp-method", method) != method:
        return _lying("mcp-method")
    if name is not None and "mcp-name" in headers and _decoded(headers["mcp-name"]) != name:
        return _lying("mcp-name")
    return None


def _decoded(value: str) -> str | None:
    marked = _SENTINEL.fullmatch(value)
    if marked is None:
        return value
    try:
        return base64.b64decode(marked[1], validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError):
        return None


def _lying(name: str) -> Refusal:
    text = f"Header mismatch: the header {name} does not match the body"
    return Refusal(400, text, HEADER_MISMATCH, reason=text)


def _unreadable() -> Refusal:
    return Refusal(400, "Parse error", PARSE_ERROR, reason="the body cannot be read")


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    found = _Object(pairs)
    found.twice = len(found) < len(pairs)
    return found


def _refused(_: str) -> NoReturn:
    raise ValueError
