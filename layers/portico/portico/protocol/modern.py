"""What a request of 2026-07-28 carries besides its method: the envelope in `_meta`, and headers that repeat the body.

Everything a stateless server must know is in each request, so everything is checked in each request.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from portico.protocol import versions
from portico.protocol.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Message,
    Rejection,
)

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
ENVELOPE_KEYS: Final = frozenset({VERSION_KEY, CLIENT_KEY, CAPABILITIES_KEY, LEVEL_KEY})

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

VERSION_HEADER: Final = "mcp-protocol-version"
METHOD_HEADER: Final = "mcp-method"
NAME_HEADER: Final = "mcp-name"
PARAM_HEADER: Final = "mcp-param-"
NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Method to the parameter that `Mcp-Name` repeats."""

STATUS: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The HTTP status of an error, by its code; 200 for any other."""

_SENTINEL: Final = re.compile(r"=\?base64\?(.*)\?=")
_SAFE: Final = re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class Envelope:
    version: str
    client: Any
    """None when the client does not say who it is."""
    capabilities: dict[str, Any]
    level: str | None
    """The lowest level of log messages that are wanted; None: none are."""
    progress_token: str | int | None


def is_modern(message: Message, headers: Mapping[str, str]) -> bool:
    """Chosen per request, by what it says of itself. An `initialize` without an envelope begins a legacy session."""
    meta = message.param("_meta")
    if isinstance(meta, dict) and VERSION_KEY in meta:
        return True
    return message.method != "initialize" and headers.get(VERSION_HEADER) in versions.MODERN


def unsupported(version: str) -> Rejection:
    data = {"supported": list(versions.ALL), "requested": version}
    return Rejection(400, UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def read_envelope(
    message: Message, headers: Mapping[str, str], repeated: frozenset[str]
) -> Envelope | Rejection:
    """First failure wins: a header sent twice, the required fields, headers against body, the version, the rest.

    `repeated` are the names of headers that came more than once: readers of the first and of the last would disagree.
    """
    twice = repeated & {VERSION_HEADER, METHOD_HEADER, NAME_HEADER}
    if twice:
        return mismatch(message, f"the header {min(twice)} stands there more than once")
    meta = message.param("_meta")
    fields = meta if isinstance(meta, dict) else {}
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in fields]
    if missing:
        return _invalid(message, f"params._meta lacks {' and '.join(missing)}")
    return _mirrored(message, headers, fields[VERSION_KEY]) or _envelope(message, fields)


def _mirrored(message: Message, headers: Mapping[str, str], version: Any) -> Rejection | None:
    key = NAMED.get(message.method)
    wanted = {VERSION_HEADER: version, METHOD_HEADER: message.method}
    if key is not None and isinstance(message.param(key), str):
        wanted[NAME_HEADER] = message.param(key)
    for name, expected in wanted.items():
        given = headers.get(name)
        if given is None:
            return mismatch(message, f"the header {name} is missing")
        if (decode_value(given) if name == NAME_HEADER else given) != expected:
            return mismatch(message, f"the header {name} does not match the body")
    return None


def contradicted(message: Message, headers: Mapping[str, str]) -> Rejection | None:
    """Whoever stands before us may have judged, or routed, by what the headers say: of any era, they must not lie."""
    method = headers.get(METHOD_HEADER)
    if method is None or message.kind != "request":
        return None
    if method != message.method:
        return mismatch(message, f"the header {METHOD_HEADER} does not match the body")
    name = headers.get(NAME_HEADER)
    said = message.param(NAMED.get(message.method, ""))
    if name is not None and isinstance(said, str) and decode_value(name) != said:
        return mismatch(message, f"the header {NAME_HEADER} does not match the body")
    return None


def _envelope(message: Message, fields: dict[str, Any]) -> Envelope | Rejection:
    version, capabilities = fields[VERSION_KEY], fields[CAPABILITIES_KEY]
    level, token = fields.get(LEVEL_KEY), fields.get("progressToken")
    if not isinstance(version, str):
        return _invalid(message, f"{VERSION_KEY} must be a string")
    if version not in versions.MODERN:
        refused = unsupported(version)
        return Rejection(refused.status, refused.code, refused.message, refused.data, message.id)
    if not isinstance(capabilities, dict):
        return _invalid(message, f"{CAPABILITIES_KEY} must be an object")
    if level is not None and level not in LEVELS:
        return _invalid(message, f"{LEVEL_KEY} must be one of {', '.join(LEVELS)}")
    if token is not None and type(token) not in (str, int):
        return _invalid(message, "progressToken must be a string or an integer")
    return Envelope(version, fields.get(CLIENT_KEY), capabilities, level, token)


def _invalid(message: Message, text: str) -> Rejection:
    return Rejection(400, INVALID_PARAMS, text, id=message.id)


def mismatch(message: Message, text: str) -> Rejection:
    return Rejection(400, HEADER_MISMATCH, f"Header mismatch: {text}", id=message.id)


def encode_value(value: str) -> str:
    """As a header can carry it: as it is, or in base64 between marks."""
    if _SAFE.fullmatch(value) and value == value.strip() and not _SENTINEL.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'surrogatepass')).decode()}?="


def decode_value(value: str) -> str | None:
    """None for base64 that is not what `encode_value` makes: such a value matches nothing."""
    marked = _SENTINEL.fullmatch(value)
    if marked is None:
        return value
    try:
        decoded = base64.b64decode(marked[1], validate=True)
        text = decoded.decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return text if base64.b64encode(decoded).decode() == marked[1] else None
