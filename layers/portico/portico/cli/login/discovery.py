"""Where to log in: from a gateway's challenge to its authorization server's endpoints (RFC 9728, RFC 8414)."""

import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from portico.cli.doctor.metadata import default_url, issuers, server_urls
from portico.cli.doctor.reading import bearer
from portico.cli.login.asking import LoginFailed, ask, checked, document
from portico.protocol import versions

_INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": versions.NEWEST_LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "portico login", "version": "1"},
    },
}


@dataclass(frozen=True, slots=True)
class Place:
    resource: str
    scopes: tuple[str, ...]
    """What the gateway asks for."""
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None
    names_itself: bool
    """Its answers say who it is (RFC 9207)."""
    offline: bool
    """It gives refresh tokens to who asks for offline_access."""


async def find(url: str) -> Place:
    """Raises LoginFailed."""
    checked(url, url, "the gateway's address")
    headers = [(b"content-type", b"application/json")]
    exchange, _ = await ask(b"POST", url, headers, json.dumps(_INITIALIZE).encode())
    if exchange.status != 401:
        raise LoginFailed(
            f"{url} asks for no token (HTTP status {exchange.status}): there is nothing to log in to"
        )
    said = bearer(exchange.headers.get(b"www-authenticate", b"").decode("latin-1")) or {}
    where = checked(
        said.get("resource_metadata") or default_url(url), url, "what the gateway's challenge points at"
    )
    about = await document(where)
    resource = about.get("resource")
    if not isinstance(resource, str) or not _covers(resource, url):
        raise LoginFailed(f"{where} is not about {url}, but about {ascii(resource)[:200]}")
    named = issuers(about)
    if not named:
        raise LoginFailed(f"{where} names no authorization server")
    issuer = checked(named[0], url, "the authorization server")
    scopes = said["scope"].split() if said.get("scope") else _texts(about.get("scopes_supported"))
    return _place(resource, tuple(scopes), issuer, await _server(issuer))


async def _server(issuer: str) -> dict[str, Any]:
    for url in server_urls(issuer):
        found = await document(url)
        if found.get("issuer") == issuer:
            return found
    raise LoginFailed(f"{issuer} publishes nothing about itself")


def _place(resource: str, scopes: tuple[str, ...], issuer: str, server: dict[str, Any]) -> Place:
    if "S256" not in _texts(server.get("code_challenge_methods_supported")):
        raise LoginFailed(f"{issuer} does not say that it supports PKCE with S256")
    registration = server.get("registration_endpoint")
    return Place(
        resource,
        scopes,
        issuer,
        checked(server.get("authorization_endpoint"), issuer, "the authorization endpoint"),
        checked(server.get("token_endpoint"), issuer, "the token endpoint"),
        checked(registration, issuer, "the registration endpoint") if registration else None,
        server.get("authorization_response_iss_parameter_supported") is True,
        "offline_access" in _texts(server.get("scopes_supported")),
    )


def _covers(resource: str, url: str) -> bool:
    """The same origin, and a path that the gateway's lies in."""
    try:
        one, other = urlsplit(resource), urlsplit(url)
    except ValueError:
        return False
    same = (one.scheme, one.netloc.lower()) == (other.scheme, other.netloc.lower())
    return same and f"{other.path}/".startswith(f"{one.path.rstrip('/')}/")


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
