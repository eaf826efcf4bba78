"""JSON-RPC messages, read once, remembering where each member stands in the text.

A gateway changes one member (a tool's name, a request's id) and passes the rest on to the byte: numbers, escapes and
spaces stay as the sender wrote them. So messages are cut and spliced, never decoded and encoded again.
"""

import json
import re
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]  # in C, not in the stubs
from typing import Any, Final, Literal, NamedTuple, NoReturn

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
BACKEND_FAILED: Final = -32000
BACKEND_TIMED_OUT: Final = -32001
RESOURCE_NOT_FOUND: Final = -32002
URL_ELICITATION_REQUIRED: Final = -32042
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

Id = str | int | None
Kind = Literal["request", "notification", "response"]


@dataclass(frozen=True, slots=True)
class Rejection:
    """What a refused message is answered with. A value, since refusing is expected."""

    status: int
    code: int
    message: str
    data: Any = None
    id: Id = None


class Member(NamedTuple):
    start: int
    end: int
    value: Any


@dataclass(frozen=True, slots=True)
class Message:
    text: str
    kind: Kind
    method: str
    """Empty for a response."""
    id: Id
    top: dict[str, Member]
    params: dict[str, Member]
    """Empty when there are none."""

    def param(self, name: str) -> Any:
        member = self.params.get(name)
        return member.value if member else None

    def splice(self, member: Member, value: Any) -> str:
        """The message with one member's value replaced, and every other character as it was."""
        return self.text[: member.start] + dumps(value) + self.text[member.end :]


class Malformed(ValueError):
    """Not JSON, or not JSON that everyone would read alike (duplicate members, NaN, too deep)."""


_SPACE: Final = " \t\n\r"
_skip = re.compile(rf"[{_SPACE}]*").match
_begin = re.compile(rf"[{_SPACE}]*\{{[{_SPACE}]*(\}}?)").match
_PLAIN: Final = r'[^"\\\x00-\x1f]*'
_name = re.compile(rf'[{_SPACE}]*"({_PLAIN}(?:\\.{_PLAIN})*)"[{_SPACE}]*:[{_SPACE}]*').match
_next = re.compile(rf"[{_SPACE}]*([,}}])").match


def _refuse_constant(name: str) -> NoReturn:
    raise Malformed(f"{name} is not JSON")


_scan = json.JSONDecoder(parse_constant=_refuse_constant).scan_once  # type: ignore[attr-defined]  # likewise


def _after_space(text: str, at: int) -> int:
    found = _skip(text, at)
    return found.end() if found else at


def members(text: str, at: int = 0) -> tuple[dict[str, Member], int]:
    """The members of the object that begins at `at`, and where it ends."""
    found: dict[str, Member] = {}
    return found, _collect(text, at, found)


def _collect(
    text: str, at: int, found: dict[str, Member], opened: dict[str, dict[str, Member]] | None = None
) -> int:
    try:
        return _members(text, at, found, opened or {})
    except StopIteration as stop:
        raise Malformed(f"expected a value at character {stop.value}") from None
    except IndexError:
        raise Malformed("the text ends too early") from None
    except RecursionError:
        raise Malformed("nested too deep") from None
    except Malformed:
        raise
    except ValueError as error:
        raise Malformed(str(error)) from None


def _members(text: str, at: int, found: dict[str, Member], opened: dict[str, dict[str, Member]]) -> int:
    """Fills `found`. An object that is the value of a name in `opened` is read in the same way, into what is there."""
    begin = _begin(text, at)
    if begin is None:
        raise Malformed(f"expected an object at character {at}")
    if begin[1]:
        return begin.end()
    at = begin.end()
    while True:
        named = _name(text, at)
        if named is None:
            raise Malformed(f"expected a member's name and a value at character {at}")
        name, start = named[1], named.end()
        if "\\" in name:
            name, _ = scanstring(text, named.start(1), True)
        if name in found:
            raise Malformed(f"the member {name!r} stands there twice")
        if name in opened and text.startswith("{", start):
            at = _members(text, start, opened[name], {})
            found[name] = Member(start, at, {key: member.value for key, member in opened[name].items()})
        else:
            value, at = _scan(text, start)
            found[name] = Member(start, at, value)
        follows = _next(text, at)
        if follows is None:
            raise Malformed(f"expected ',' or '}}' at character {at}")
        at = follows.end()
        if follows[1] == "}":
            return at


def elements(text: str) -> list[str]:
    """The texts of the elements of an array."""
    found: list[str] = []
    at = _after_space(text, 0)
    try:
        at = _after_space(text, at + 1)
        while found or text[at] != "]":
            _, end = _scan(text, at)
            found.append(text[at:end])
            at = _after_space(text, end)
            if text[at] == "]":
                break
            if text[at] != ",":
                raise Malformed(f"expected ',' or ']' at character {at}")
            at = _after_space(text, at + 1)
    except (StopIteration, IndexError, RecursionError, ValueError) as error:
        raise Malformed(f"not a JSON array: {error}") from None
    if text[at + 1 :].strip():
        raise Malformed("there is something after the end of the array")
    return found


def read(text: str) -> Message | Rejection:
    """First failure wins: JSON, an object, nothing behind it, version, id, method, params."""
    top: dict[str, Member] = {}
    inner: dict[str, Member] = {}
    try:
        end = _collect(text, 0, top, {"params": inner})
        if text[end:].strip(_SPACE):
            raise Malformed(f"there is something after the end, at character {end}")
    except Malformed as error:
        return Rejection(400, PARSE_ERROR, "Parse error", str(error))
    version, id_, method = top.get("jsonrpc"), top.get("id"), top.get("method")
    identity = id_.value if id_ and type(id_.value) in (str, int) else None
    if version is None or version.value != "2.0":
        return Rejection(400, INVALID_REQUEST, "json rpc version invalid", id=identity)
    if id_ is not None and identity is None:
        return Rejection(400, INVALID_REQUEST, "the id must be a string or an integer")
    if method is None:
        return _read_response(text, top, identity)
    if not isinstance(method.value, str) or not method.value:
        return Rejection(400, INVALID_REQUEST, "no method set in json rpc payload", id=identity)
    params = top.get("params")
    if params is not None and not isinstance(params.value, dict):
        return Rejection(400, INVALID_PARAMS, "params must be an object", id=identity)
    kind: Kind = "notification" if id_ is None else "request"
    return Message(text, kind, method.value, identity, top, inner)


def read_bytes(data: bytes) -> Message | Rejection:
    """As `read`, of what a backend sent: bytes that are not UTF-8 cost their character, not the message."""
    return read(data.decode("utf-8", "replace"))


def _read_response(text: str, top: dict[str, Member], identity: Id) -> Message | Rejection:
    if ("result" in top) == ("error" in top) or identity is None:
        return Rejection(400, INVALID_REQUEST, "no method set in json rpc payload", id=identity)
    return Message(text, "response", "", identity, top, {})


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dumps(value: Any) -> str:
    """Compact JSON; falls back to escapes for what UTF-8 cannot carry (half a surrogate pair)."""
    text = _encode(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def result(id_: Id, value: Any) -> bytes:
    return result_bytes(id_, dumps(value).encode())


def result_bytes(id_: Id, *value: bytes | memoryview) -> bytes:
    """`value` in pieces, since a long listing is worth copying once only."""
    return b"".join((b'{"jsonrpc":"2.0","id":', json.dumps(id_).encode(), b',"result":', *value, b"}"))


def error(rejection: Rejection) -> bytes:
    inner: dict[str, Any] = {"code": rejection.code, "message": rejection.message}
    if rejection.data is not None:
        inner["data"] = rejection.data
    return dumps({"jsonrpc": "2.0", "id": rejection.id, "error": inner}).encode()


def request(id_: Id, method: str, params: dict[str, Any] | None = None) -> bytes:
    return dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params or {}}).encode()


def notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return dumps(message).encode()
