"""The server as an ASGI application: which path is what, and what every answer of it has in common."""

import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, Final

from authz.origins import ON_LOOPBACK, host_allowed, origin_allowed
from portico.devauth import forms, page
from portico.devauth.authorization import Authorization, Clients
from portico.devauth.documents import Documents
from portico.devauth.grants import Grants
from portico.devauth.issuing import Issuing
from portico.devauth.keys import Keys
from portico.devauth.metadata import JWKS, METADATA, ROOT, document
from portico.devauth.model import OAuthError, Terms, Unredirected
from portico.devauth.registration import Registrar

MOST_BYTES: Final = 65_536
COOKIE: Final = "portico-consent"
_COOKIE: Final = re.compile(r"[A-Za-z0-9_-]{32}")
_FORM: Final = "application/x-www-form-urlencoded"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Asked:
    method: str
    path: str
    query: bytes
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes
    headers: Headers


class DevAuth:
    """`terms` may be replaced at any time; `kept`: where keys survive a restart, None: nowhere."""

    def __init__(
        self, terms: Terms, kept: Path | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.terms = terms
        self._clock = clock
        self.keys = Keys(kept, clock)
        self._registrar = Registrar(self.keys.secret)
        self._grants = Grants(clock)
        clients = Clients(self._registrar, Documents())
        self._authorization = Authorization(clients, self._grants, clock)
        self._issuing = Issuing(self.keys, self._registrar, clients, self._grants, clock)
        self._apart = {
            f"{ROOT}/token": self._token,
            f"{ROOT}/register": self._register,
            f"{ROOT}/revoke": self._revoke,
        }

    def jwks(self) -> bytes:
        return json.dumps(self.keys.jwks()).encode()

    def spent(self, token: str) -> str | None:
        """Why one of its own tokens is not good any more; None for all others."""
        return self._grants.spent(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        body = await _body(receive)
        asked = _Asked(scope["method"], scope["path"], scope.get("query_string", b""), headers, body or b"")
        too_large = OAuthError("invalid_request", f"more than {MOST_BYTES} bytes", 413)
        answer = _refusal(too_large) if body is None else await self._answer(asked)
        await _send(send, answer)

    async def _answer(self, asked: _Asked) -> _Answer:
        if not host_allowed(ON_LOOPBACK, asked.headers.get("host", "")):
            return _refusal(OAuthError("invalid_request", "this Host is not served here", 403))
        if asked.path == f"{ROOT}/authorize":
            return await self._authorize(asked)
        origin = asked.headers.get("origin")
        if origin and not (origin_allowed(ON_LOOPBACK, origin) or origin in self.terms.origins):
            return _refusal(OAuthError("invalid_request", "this Origin is not allowed", 403))
        answer = await self._machine(asked)
        shared = {"access-control-allow-origin": origin, "vary": "origin"} if origin else {}
        return _Answer(answer.status, answer.body, answer.headers | shared)

    async def _machine(self, asked: _Asked) -> _Answer:
        """What clients use, and browsers only on their behalf."""
        documents: dict[str, Callable[[], dict[str, Any]]] = {
            JWKS: self.keys.jwks,
            **dict.fromkeys(METADATA, lambda: document(self.terms)),
        }
        verb = "GET" if asked.path in documents else "POST" if asked.path in self._apart else None
        if verb is None:
            return _Answer(404, b"", {})
        if asked.method == "OPTIONS":
            allowed = {"access-control-allow-methods": verb, "access-control-max-age": "3600"}
            named = {"access-control-allow-headers": "authorization, content-type, mcp-protocol-version"}
            return _Answer(204, b"", allowed | named)
        if asked.method != verb:
            return _Answer(405, b"", {"allow": verb})
        if verb == "GET":
            return _json(documents[asked.path](), headers={"cache-control": "no-cache"})
        try:
            return await self._apart[asked.path](asked)
        except OAuthError as error:
            return _refusal(error, basic="authorization" in asked.headers)

    # For clients

    async def _token(self, asked: _Asked) -> _Answer:
        form = _form(asked)
        return _json(await self._issuing.answer(form, asked.headers.get("authorization"), self.terms))

    async def _revoke(self, asked: _Asked) -> _Answer:
        form = _form(asked)
        client = await self._issuing.authenticated(form, asked.headers.get("authorization"))
        self._grants.revoke(forms.needed(form, "token"), client.id)
        return _json({})

    async def _register(self, asked: _Asked) -> _Answer:
        if _type(asked) != "application/json":
            raise OAuthError("invalid_client_metadata", "the body must be application/json")
        try:
            said = json.loads(asked.body)
        except (ValueError, RecursionError):
            raise OAuthError("invalid_client_metadata", "the body is not JSON") from None
        if not isinstance(said, dict):
            raise OAuthError("invalid_client_metadata", "the body is no JSON object")
        return _json(self._registrar.register(said, self._clock()), 201)

    # For users

    async def _authorize(self, asked: _Asked) -> _Answer:
        handle = {"GET": self._ask, "POST": self._answered}.get(asked.method)
        if handle is None:
            return _Answer(405, b"", {"allow": "GET, POST"})
        try:
            return await handle(asked)
        except (Unredirected, OAuthError) as error:
            return _page(page.problem(str(error)), 400)

    async def _ask(self, asked: _Asked) -> _Answer:
        found = await self._authorization.asked(forms.read(asked.query), self.terms)
        if isinstance(found, str):
            return _redirect(found)
        browser = _browser(asked) or secrets.token_urlsafe(24)
        number = self._authorization.put(found, browser)
        cookie = f"{COOKIE}={browser}; Path={ROOT}/authorize; HttpOnly; SameSite=Lax"
        body = page.consent(found, number, f"{ROOT}/authorize")
        return _page(body, 200, page.policy(found.redirect_uri), {"set-cookie": cookie})

    async def _answered(self, asked: _Asked) -> _Answer:
        """Only the page itself may send this: not even another page on this machine."""
        origin, own = asked.headers.get("origin"), f"//{asked.headers.get('host', '')}"
        if origin is not None and origin.partition(":")[2] != own:
            raise Unredirected("this comes from another page")
        form = forms.read(asked.body, several="scope") if _type(asked) == _FORM else {}
        return _redirect(self._authorization.answered(form, _browser(asked), self.terms))


async def _body(receive: Receive) -> bytes | None:
    """None if there is too much of it."""
    body = b""
    while len(body) <= MOST_BYTES:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body if len(body) <= MOST_BYTES else None
    return None


def _type(asked: _Asked) -> str:
    return asked.headers.get("content-type", "").partition(";")[0].strip().lower()


def _form(asked: _Asked) -> dict[str, str]:
    if _type(asked) != _FORM:
        raise OAuthError("invalid_request", f"the body must be {_FORM}")
    return forms.read(asked.body)


def _browser(asked: _Asked) -> str:
    try:
        found = SimpleCookie(asked.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None and _COOKIE.fullmatch(found.value) else ""


def _json(content: dict[str, Any], status: int = 200, headers: Headers | None = None) -> _Answer:
    about = headers or {"cache-control": "no-store", "pragma": "no-cache"}
    return _Answer(status, json.dumps(content).encode(), {"content-type": "application/json"} | about)


def _refusal(error: OAuthError, *, basic: bool = False) -> _Answer:
    answer = _json({"error": error.code, "error_description": str(error)}, error.status)
    challenge = {"www-authenticate": 'Basic realm="portico"'} if basic and error.status == 401 else {}
    return _Answer(answer.status, answer.body, answer.headers | challenge)


def _redirect(to: str) -> _Answer:
    return _Answer(303, b"", {"location": to, "cache-control": "no-store", "referrer-policy": "no-referrer"})


def _page(body: bytes, status: int, policy: str | None = None, more: Headers | None = None) -> _Answer:
    headers = {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": policy or page.policy(),
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",  # stricter, and browsers would not say where the form comes from
        "cache-control": "no-store",
    }
    return _Answer(status, body, headers | (more or {}))


async def _send(send: Send, answer: _Answer) -> None:
    said = answer.headers | {"content-length": str(len(answer.body))}
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in said.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
