"""The check as an HTTP service, for Envoy's ext_authz filter and for whoever else asks before letting a request through.

It is asked with the request's own method, path and headers, and the body as far as it is sent along: 200 with who it is in
headers, or the refusal as it should reach the client. Raw ASGI. Whoever starts it declares the backends' prefixes: there is
no catalogue here, so what depends on annotations, addresses or virtual servers is left to the gateway behind.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from authz import audit, challenge, identity
from authz.asked import Asked, by_body, by_headers
from authz.audit import Decided
from authz.challenge import Refusal
from authz.check import asking, entering
from authz.guard import Guard
from authz.model import Principal, Target
from authz.naming import TARGETED, judgeable
from authz.places import Place, place

MOST_BYTES: Final = 5_242_880
PARTIAL: Final = "x-envoy-auth-partial-body"
REPEATED: Final = frozenset({"mcp-method", "mcp-name", "mcp-protocol-version"})
_SAFE: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "%")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(slots=True)
class Checked:
    """A request under examination."""

    verb: str
    path: str
    headers: dict[str, str]
    several: list[str]
    """The values of Authorization."""
    body: bytes | None
    """None: it is larger than may be looked at, or was cut."""
    repeated: bool = False
    backend: str = ""
    asked: Asked = field(default_factory=Asked)
    decided: Decided = field(default_factory=Decided)


class Service:
    """`prefixes` of backends, to their names. `below`: what stands before the original path."""

    def __init__(self, guard: Guard, prefixes: Mapping[str, str], below: str = "") -> None:
        self._guard = guard
        self._named = judgeable(guard.access, prefixes)
        self._below = below

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began, path = time.perf_counter(), str(scope["path"])
        if self._below and not path.startswith(f"{self._below}/"):
            await _answer(send, 200 if path == "/health" else 404, [], b"")
            return
        checked = await _read(scope, path.removeprefix(self._below), receive)
        found = await self._examined(checked)
        if isinstance(found, Refusal):
            checked.decided.refused(found)
            await _answer(send, found.status, _challenge(found), _error(found, checked.asked))
        else:
            await _answer(send, 200, _identity(found), b"")
        _note(checked, found, began)

    async def _examined(self, checked: Checked) -> Principal | Refusal | None:
        """None: nobody is asked who he is there."""
        there = place(checked.verb, checked.path)
        if there.free:
            return None
        wrong = _what(checked) if there.kind == "mcp" and checked.verb == "POST" else None
        tool = checked.asked.name if checked.asked.method == "tools/call" else ""
        principal = await self._guard.admit(checked.several, there.server)
        if isinstance(principal, Refusal):
            return challenge.about_tool(self._guard.access, principal, tool)
        checked.decided.of(principal)
        return (
            entering(self._guard.access, principal, there) or wrong or self._judged(checked, principal, there)
        )

    def _judged(self, checked: Checked, principal: Principal, there: Place) -> Principal | Refusal:
        asked = checked.asked
        if there.kind != "mcp" or not asked.method:
            return principal
        known = asked.method not in TARGETED
        target = Target(asked.method) if known else self._named(asked.method, asked.name)
        if target is None:
            return principal
        checked.backend = target.backend
        refused, reason = asking(self._guard.access, principal, target, there.server)
        checked.decided.allowed(reason)
        return refused or principal


def _what(checked: Checked) -> Refusal | None:
    """Reads what is asked for. A body that cannot be looked at is not let through."""
    if checked.repeated:
        text = "Header mismatch: a header that repeats the body stands there more than once"
        return Refusal(400, text, -32020, reason=text)
    if checked.body is None:
        return Refusal(
            413, f"the body is larger than {MOST_BYTES} bytes", -32600, reason="the body is too large"
        )
    found = by_body(checked.headers, checked.body) if checked.body else by_headers(checked.headers)
    if isinstance(found, Refusal):
        return found
    checked.asked = found
    return None


async def _read(scope: Scope, path: str, receive: Receive) -> Checked:
    lines = [(name.decode("latin-1"), value.decode("latin-1").strip()) for name, value in scope["headers"]]
    headers = dict(lines)
    repeated = any(sum(name == other for other, _ in lines) > 1 for name in REPEATED)
    several = [value for name, value in lines if name == "authorization"]
    body: bytes | None = b""
    while True:
        message = await receive()
        if body is not None:
            body += message.get("body", b"")
            body = None if len(body) > MOST_BYTES else body
        if not message.get("more_body"):
            break
    if headers.get(PARTIAL) == "true":
        body = None
    return Checked(str(scope["method"]), path, headers, several, body, repeated)


def _identity(principal: Principal | None) -> list[tuple[str, str]]:
    """Always all of them: what is not set here, somebody outside might have set."""
    said = {identity.PRINCIPAL: "", identity.ISSUER: "", identity.SCOPES: ""}
    if principal is not None:
        said[identity.PRINCIPAL] = quote(principal.subject, safe=_SAFE)
        said[identity.ISSUER] = principal.issuer
        said[identity.SCOPES] = " ".join(sorted(principal.scopes))
    return list(said.items())


def _challenge(refused: Refusal) -> list[tuple[str, str]]:
    found = [("content-type", "application/json")]
    if refused.challenge:
        found.append(("www-authenticate", refused.challenge))
    if refused.status == challenge.UNAVAILABLE:
        found.append(("retry-after", "5"))
    return found


def _error(refused: Refusal, asked: Asked) -> bytes:
    said: dict[str, Any] = {"code": refused.code, "message": refused.message}
    if refused.data:
        said["data"] = refused.data
    return json.dumps({"jsonrpc": "2.0", "id": asked.id, "error": said}, separators=(",", ":")).encode()


async def _answer(send: Send, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
    lines = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers]
    lines.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


def _note(checked: Checked, found: Principal | Refusal | None, began: float) -> None:
    """Nothing of open places: nobody was asked anything."""
    if found is None:
        return
    refused = isinstance(found, Refusal)
    said: dict[str, str | int | float] = {
        "method": (checked.asked.method or f"{checked.verb} {checked.path}")[: audit.MOST],
        "tool": checked.asked.name[: audit.MOST],
        "backend": checked.backend,
        "outcome": "refused" if refused else "ok",
        "status": found.status if isinstance(found, Refusal) else 200,
        "duration_ms": round((time.perf_counter() - began) * 1000, 1),
    }
    audit.note(checked.decided, said)
