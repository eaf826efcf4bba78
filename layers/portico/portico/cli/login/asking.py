"""HTTP with gateways and authorization servers: short JSON, no redirects, and tokens over https or on this machine only."""

import base64
import json
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from authz.addresses import is_fetchable
from portico.errors import BackendError
from portico.http1 import Exchange, Headers, HttpClient

SECONDS: Final = 30.0
MOST_BYTES: Final = 524_288


class LoginFailed(Exception):
    """`str(error)` is for whoever typed the command."""


def checked(url: object, near: str, what: str) -> str:
    """An address that somebody else has named."""
    if not isinstance(url, str) or not is_fetchable(url, near=near):
        raise LoginFailed(f"{what} is no https:// address (or http:// on this machine): {ascii(url)[:200]}")
    return url


async def ask(verb: bytes, url: str, headers: Headers, body: bytes = b"") -> tuple[Exchange, dict[str, Any]]:
    """The answer, and its JSON object, empty where it has none."""
    http = HttpClient()
    try:
        exchange = await http.open(
            verb, url, [(b"accept", b"application/json, text/event-stream"), *headers], body
        )
        if not await exchange.head(SECONDS):
            raise LoginFailed(f"{url} does not answer")
        raw = b"" if exchange.is_stream else await exchange.body(MOST_BYTES, SECONDS)
    except BackendError:
        raise LoginFailed(f"{url} cannot be reached, or breaks off") from None
    finally:
        http.close()
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    return exchange, found if isinstance(found, dict) else {}


async def document(url: str) -> dict[str, Any]:
    exchange, found = await ask(b"GET", url, [(b"mcp-protocol-version", b"2025-11-25")])
    return found if exchange.status == 200 else {}


async def post_form(url: str, form: dict[str, str], client_id: str, secret: str | None) -> dict[str, Any]:
    headers: Headers = [(b"content-type", b"application/x-www-form-urlencoded")]
    if secret is None:
        form = form | {"client_id": client_id}
    else:
        pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
        headers.append((b"authorization", b"Basic " + base64.b64encode(pair)))
    exchange, found = await ask(b"POST", url, headers, urlencode(form).encode())
    if exchange.status != 200 or not isinstance(found.get("access_token"), str):
        raise LoginFailed(refusal(found, f"{url} gives no token (HTTP status {exchange.status})"))
    return found


def refusal(found: dict[str, Any], otherwise: str) -> str:
    """What an authorization server says of it. It may be anything, and ends on a terminal."""
    code, text = found.get("error"), found.get("error_description")
    said = [item for item in (code, text) if isinstance(item, str) and item]
    return "the authorization server refuses: " + ascii(": ".join(said)[:500])[1:-1] if said else otherwise
