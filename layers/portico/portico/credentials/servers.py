"""What authorization servers and protected resources say of themselves (RFC 8414, 9728), and which of it is believed."""

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from authz.addresses import is_fetchable
from portico.credentials.outbound import Outbound, Unfetched

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
_PARAMETER: Final = re.compile(r'([a-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Server:
    """An authorization server."""

    issuer: str
    token_url: str
    authorize_url: str = ""
    registration_url: str = ""
    takes_documents: bool = False
    """A client's id may be the address of its metadata."""
    says_issuer: bool = False
    """Its answers to browsers name it (RFC 9207)."""
    pkce: bool = False
    in_form: bool = False
    scopes: tuple[str, ...] = ()


def is_fit_for_browsers(server: Server, near: str) -> bool:
    """PKCE, and an address that a browser may be sent to."""
    return server.pkce and is_fetchable(server.authorize_url, near)


async def server(outbound: Outbound, issuer: str, near: str) -> Server:
    """Raises Unfetched."""
    problem = Unfetched(f"{issuer} has no metadata")
    for place in _places(issuer):
        try:
            answer = await outbound.get(place, near)
        except Unfetched as error:
            problem = error
            continue
        if answer.status == 200 and answer.said:
            return _server(answer.said, issuer)
    raise problem


def _places(issuer: str) -> list[str]:
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    found = [
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
    ]
    return [*found, f"{origin}{path}/.well-known/openid-configuration"] if path else found


def _server(said: dict[str, Any], issuer: str) -> Server:
    if said.get("issuer") != issuer:
        raise Unfetched(f"the metadata of {issuer} names another issuer")
    token_url = said.get("token_endpoint")
    if not isinstance(token_url, str):
        raise Unfetched(f"the metadata of {issuer} names no token endpoint")
    methods = _texts(said.get("token_endpoint_auth_methods_supported"))
    return Server(
        issuer,
        token_url,
        _text(said.get("authorization_endpoint")),
        _text(said.get("registration_endpoint")),
        said.get("client_id_metadata_document_supported") is True,
        said.get("authorization_response_iss_parameter_supported") is True,
        "S256" in _texts(said.get("code_challenge_methods_supported")),
        "client_secret_basic" not in methods and "client_secret_post" in methods,
        _texts(said.get("scopes_supported")),
    )


@dataclass(frozen=True, slots=True)
class Resource:
    """What a backend says of itself as a protected resource."""

    name: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...]


async def resource(outbound: Outbound, url: str, challenge: str, ca_cert: str | None = None) -> Resource:
    """Of the backend at `url`, whose 401 had this challenge. Raises Unfetched."""
    named = parameters(challenge).get("resource_metadata", "")
    parts = urlsplit(url)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    known = f"{origin}/.well-known/oauth-protected-resource"
    places = [named] if named else list(dict.fromkeys((known + path, known)))
    problem = Unfetched("the backend does not say where tokens for it are to be had")
    for place in places:
        try:
            own = place.startswith(f"{origin}/")
            answer = await outbound.get(place, url, ca_cert=ca_cert if own else None)
        except Unfetched as error:
            problem = error
            continue
        if answer.status == 200 and answer.said:
            return about(answer.said, url, origin)
    raise problem


def about(said: dict[str, Any], url: str, origin: str) -> Resource:
    """It must be about this backend: its URL, or what stands before it."""
    name = _text(said.get("resource"))
    whole = url.partition("?")[0]
    below = name.rstrip("/") + "/"
    if whole != name and not ((whole + "/").startswith(below) and below.startswith(f"{origin}/")):
        raise Unfetched("the metadata that the backend names is about another resource")
    return Resource(name, _texts(said.get("authorization_servers")), _texts(said.get("scopes_supported")))


def parameters(challenge: str) -> dict[str, str]:
    """Of a Bearer challenge. What comes twice counts once."""
    at = challenge.lower().find("bearer")
    found: dict[str, str] = {}
    for name, quoted, plain in _PARAMETER.findall(challenge[at:] if at >= 0 else ""):
        found.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or plain)
    return found


def scopes_of(challenge: str) -> tuple[str, ...]:
    """Those that are what a scope may be, and no more of them than anybody needs."""
    said = parameters(challenge).get("scope", "").split()
    return tuple(dict.fromkeys(scope for scope in said if _SCOPE.fullmatch(scope)))[:50]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
