"""Ids that find their own way home, on any instance, with nothing stored.

A request that a backend sends to the client gets a ticket as its id: it names the backend, the backend's own id, when
it expires, and a tag that only this gateway session's id can have made. An event id likewise names the backend and
the backend's own event id (a *cursor*).
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
from dataclasses import dataclass, field
from typing import Any

from portico.protocol.jsonrpc import INVALID_REQUEST, Rejection

_header_text = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*").fullmatch


@dataclass(frozen=True, slots=True)
class Ticket:
    backend: str
    upstream_id: Any
    """The backend's own id, a string or an integer, as it was."""


def issue_ticket(session_id: str, ticket: Ticket, expires_at: float) -> str:
    body = _pack([ticket.backend, ticket.upstream_id, int(expires_at)])
    return f"{body}.{_tag(session_id, body)}"


def redeem_ticket(session_id: str, text: object, now: float) -> Ticket | Rejection:
    body, _, tag = text.rpartition(".") if isinstance(text, str) else ("", "", "")
    fields = _unpack(body)
    if not isinstance(fields, list) or len(fields) != 3 or not isinstance(fields[2], int):
        return Rejection(400, INVALID_REQUEST, "no request with this id is waiting for an answer")
    if not tag.isascii() or not hmac.compare_digest(tag, _tag(session_id, body)):
        return Rejection(403, INVALID_REQUEST, "session mismatch")
    if now > fields[2]:
        return Rejection(400, INVALID_REQUEST, "the answer comes too late: its request has expired")
    return Ticket(fields[0], fields[1])


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a client stands in a stream."""

    backend: str = ""
    """The backend whose call's stream this is; empty for a listening stream."""
    event: str = ""
    """That backend's event id."""
    heard: dict[str, str] = field(default_factory=dict)
    """For a listening stream: per backend, the last event id heard from it."""
    known: dict[str, str] = field(default_factory=dict)
    """For a listening stream: per listing, the digest that the client has been told of."""

    def encode(self) -> str:
        return _pack([self.backend, self.event, self.heard, self.known])


def decode_cursor(text: str) -> Cursor | None:
    """None for what is no cursor. Its event ids go into headers, and anybody can write a cursor."""
    fields = _unpack(text)
    match fields:
        case [str(backend), str(event), dict(heard), dict(known)] if _header_text(event):
            return Cursor(backend, event, _strings(heard), _strings(known))
        case _:
            return None


def _strings(value: dict[Any, Any]) -> dict[str, str]:
    return {key: item for key, item in value.items() if isinstance(item, str) and _header_text(item)}


def _tag(session_id: str, body: str) -> str:
    return hmac.new(session_id.encode(), body.encode(), hashlib.sha256).hexdigest()[:16]


def _pack(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _unpack(text: str) -> Any:
    try:
        return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return None
