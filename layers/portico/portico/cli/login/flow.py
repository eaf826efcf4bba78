"""Logging in: registration, the user's consent in a browser, and the code for a token."""

import argparse
import asyncio
import base64
import hashlib
import json
import secrets
import sys
import webbrowser
from typing import Final
from urllib.parse import urlencode

from portico.cli.login import kept
from portico.cli.login.asking import LoginFailed, ask, post_form, refusal
from portico.cli.login.discovery import Place, find
from portico.cli.login.tokens import read
from portico.cli.login.waiting import Waiting

WAIT_S: Final = 300.0


def login(arguments: argparse.Namespace) -> int:
    asyncio.run(_login(arguments.url, arguments.scope, arguments.client_id, browser=arguments.browser))
    return 0


def logout(arguments: argparse.Namespace) -> int:
    known = kept.find(arguments.url) is not None
    kept.forget(arguments.url)
    print(f"logged out of {arguments.url}" if known else f"nobody was logged in to {arguments.url}")
    return 0


async def _login(url: str, more: list[str], client_id: str | None, *, browser: bool) -> None:
    place = await find(url)
    scope = _wanted(url, place, more)
    async with Waiting() as waiting:
        id_, secret = (client_id, None) if client_id else await _register(place, waiting.address)
        verifier = secrets.token_urlsafe(48)
        asked = {
            "response_type": "code",
            "client_id": id_,
            "redirect_uri": waiting.address,
            "scope": scope,
            "resource": place.resource,
            "state": waiting.state,
            "code_challenge": _challenge(verifier),
            "code_challenge_method": "S256",
        }
        _show(_with(place.authorization_endpoint, asked), browser=browser)
        said = await waiting.said(WAIT_S)
    form = {"grant_type": "authorization_code", "code": _code(place, said), "code_verifier": verifier}
    form |= {"redirect_uri": waiting.address, "resource": place.resource}
    answer = await post_form(place.token_endpoint, form, id_, secret)
    empty = kept.Login(url, place.resource, place.token_endpoint, id_, secret, "", None, scope, None)
    found = read(answer, empty)
    kept.keep(found)
    print(f"logged in to {url}" + (f" with {found.scope}" if found.scope else ""))


def _wanted(url: str, place: Place, more: list[str]) -> str:
    """Who asks for one scope more keeps those that he has."""
    before = kept.find(url) if more else None
    held = before.scope.split() if before and before.resource == place.resource else []
    offline = ["offline_access"] if place.offline else []
    return " ".join(dict.fromkeys([*place.scopes, *held, *more, *offline]))


async def _register(place: Place, address: str) -> tuple[str, str | None]:
    if place.registration_endpoint is None:
        raise LoginFailed(
            f"{place.issuer} registers nobody by itself: say --client-id, with one that it knows"
        )
    about = {
        "client_name": "portico login",
        "application_type": "native",
        "redirect_uris": [address],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    headers = [(b"content-type", b"application/json")]
    exchange, found = await ask(b"POST", place.registration_endpoint, headers, json.dumps(about).encode())
    id_, secret = found.get("client_id"), found.get("client_secret")
    if exchange.status not in (200, 201) or not isinstance(id_, str):
        raise LoginFailed(refusal(found, f"{place.issuer} registers nobody (HTTP status {exchange.status})"))
    public = found.get("token_endpoint_auth_method", "none") == "none" or not isinstance(secret, str)
    return id_, None if public else str(secret)


def _show(url: str, *, browser: bool) -> None:
    print(f"open this in a browser, if it does not open by itself:\n\n  {url}\n", file=sys.stderr, flush=True)
    if browser:
        webbrowser.open(url)


def _code(place: Place, said: dict[str, str]) -> str:
    """Whose answer it is comes first: of another's, nothing is believed (RFC 9207)."""
    issuer = said.get("iss")
    if issuer != place.issuer and (issuer is not None or place.names_itself):
        raise LoginFailed("the answer in the browser came from another authorization server")
    if "code" not in said:
        raise LoginFailed(refusal(dict(said), "the authorization server sent no code"))
    return said["code"]


def _with(url: str, form: dict[str, str]) -> str:
    query = urlencode({name: value for name, value in form.items() if value})
    return f"{url}{'&' if '?' in url else '?'}{query}"


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
