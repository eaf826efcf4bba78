"""`requestState`: what a modern client carries from one round of a call to the next, and nobody else can make.

Bound to the call, to who made it, and to a time: a state that was changed, is too old, or comes with another call or
from somebody else is refused.
"""

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any, Final

from portico.protocol.jsonrpc import INVALID_PARAMS, Message, Rejection, dumps

_MARK: Final = "portico."


@dataclass(frozen=True, slots=True)
class State:
    continuation: str
    round: int


def seal(key: bytes, state: State, message: Message, principal: str, expires_at: float) -> str:
    fields = [state.continuation, state.round, expires_at]
    body = base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()
    return f"{_MARK}{body}.{_tag(key, body, message, principal)}"


def unseal(key: bytes, text: str, message: Message, principal: str, now: float) -> State | Rejection:
    body, _, tag = text.removeprefix(_MARK).rpartition(".")
    expected = _tag(key, body, message, principal)
    if not hmac.compare_digest(tag.encode("utf-8", "surrogatepass"), expected.encode()):
        return Rejection(400, INVALID_PARAMS, "requestState does not belong to this request", id=message.id)
    try:
        continuation, round_, expires_at = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (binascii.Error, ValueError, TypeError):
        return Rejection(400, INVALID_PARAMS, "requestState cannot be read", id=message.id)
    if now > expires_at:
        return Rejection(400, INVALID_PARAMS, "requestState has expired", id=message.id)
    return State(continuation, round_)


def is_ours(text: Any) -> bool:
    """A backend's own state goes back to that backend as it is."""
    return isinstance(text, str) and text.startswith(_MARK)


def _tag(key: bytes, body: str, message: Message, principal: str) -> str:
    return hmac.new(key, dumps([body, digest(message), principal]).encode(), hashlib.sha256).hexdigest()


def digest(message: Message) -> str:
    """Of what makes it this call: its method and parameters, but not who asks and what was answered meanwhile."""
    passing = ("_meta", "inputResponses", "requestState")
    params = {name: member.value for name, member in message.params.items() if name not in passing}
    text = json.dumps([message.method, params], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
