"""Reading an HTTP request as MCP. Pure: headers and body in, a message or a rejection out."""

from dataclasses import dataclass
from typing import Final

from portico.protocol import jsonrpc, modern, versions
from portico.protocol.jsonrpc import INVALID_REQUEST, PARSE_ERROR, Message, Rejection

Headers = dict[str, str]

SESSION_HEADER: Final = "mcp-session-id"


@dataclass(frozen=True, slots=True)
class Batch:
    """Several messages in one body, which only 2025-03-26 knows."""

    messages: tuple[Message | Rejection, ...]


def check_headers(headers: Headers) -> Rejection | None:
    """Of a legacy request."""
    version = headers.get(modern.VERSION_HEADER)
    if version is not None and version not in versions.LEGACY:
        return modern.unsupported(version)
    return None


def check_post(headers: Headers) -> Rejection | None:
    if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        return Rejection(415, INVALID_REQUEST, "Invalid content type: must be 'application/json'")
    if not (accepts(headers, "application/json") or accepts(headers, "text/event-stream")):
        return Rejection(406, INVALID_REQUEST, "Accept must list application/json and text/event-stream")
    return None


def accepts(headers: Headers, media_type: str) -> bool:
    """A client without an Accept header takes JSON."""
    accept = headers.get("accept")
    if accept is None:
        return media_type == "application/json"
    lowered = accept.lower()
    return media_type in lowered or "*/*" in lowered or media_type.split("/", maxsplit=1)[0] + "/*" in lowered


def classify(body: bytes) -> Message | Batch | Rejection:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return Rejection(400, PARSE_ERROR, "Parse error", "the body is not UTF-8")
    if text.lstrip(" \t\r\n")[:1] != "[":
        return jsonrpc.read(text)
    try:
        parts = jsonrpc.elements(text)
    except jsonrpc.Malformed as error:
        return Rejection(400, PARSE_ERROR, "Parse error", str(error))
    if not parts:
        return Rejection(400, INVALID_REQUEST, "an empty batch")
    return Batch(tuple(jsonrpc.read(part) for part in parts))
