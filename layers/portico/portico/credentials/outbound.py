"""Asking authorization servers and backends for JSON: small, timed out, without redirects, and never further inside a
network than whoever named the address.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from authz.addresses import is_fetchable
from portico.credentials.zones import Zone, innermost
from portico.errors import BackendError, BackendUnreachable
from portico.http1 import Exchange, Headers, HttpClient

SECONDS: Final = 5.0
MOST_BYTES: Final = 262_144
_FORM: Final = (b"content-type", b"application/x-www-form-urlencoded")
_JSON: Final = (b"content-type", b"application/json")


class Unfetched(Exception):
    """The message says why, and is fit for a log."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    said: dict[str, Any]
    """Empty where the body is no JSON object."""


class Outbound:
    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def get(
        self, url: str, near: str, *, authority: bytes | None = None, ca_cert: str | None = None
    ) -> Answer:
        """`near`: who named the address; itself, where an operator did, who may name what he likes."""
        return await self._ask(b"GET", url, near, [], b"", authority, ca_cert)

    async def post(self, url: str, near: str, form: dict[str, str], headers: Headers) -> Answer:
        return await self._ask(b"POST", url, near, [_FORM, *headers], urlencode(form).encode())

    async def post_json(self, url: str, near: str, value: dict[str, Any]) -> Answer:
        return await self._ask(b"POST", url, near, [_JSON], json.dumps(value).encode())

    async def _ask(
        self,
        verb: bytes,
        url: str,
        near: str,
        headers: Headers,
        body: bytes,
        authority: bytes | None = None,
        ca_cert: str | None = None,
    ) -> Answer:
        if url != near and not is_fetchable(url, near):
            raise Unfetched(
                f"{_shown(url)} is no address to be asked: it must be https, with a host and no user"
            )
        try:
            async with asyncio.timeout(SECONDS):
                addresses = await self._addresses(url, near)
                sent = [(b"accept", b"application/json"), *headers]
                exchange = await self._open(verb, url, sent, body, addresses, authority, ca_cert)
                return await _read(exchange)
        except TimeoutError:
            raise Unfetched(f"{_shown(url)} did not answer in time") from None
        except (BackendError, ValueError) as error:
            raise Unfetched(f"{_shown(url)}: {error}") from None

    async def _addresses(self, url: str, near: str) -> list[str]:
        """Looked up once, and what is connected to is what was looked at."""
        found = await _looked_up(url)
        if url == near:
            return found
        zone = innermost(found)
        if zone is Zone.NEVER or zone > innermost(await _looked_up(near)):
            raise Unfetched(f"{_shown(url)} leads further inside than {_shown(near)}, which named it")
        return found

    async def _open(
        self,
        verb: bytes,
        url: str,
        headers: Headers,
        body: bytes,
        addresses: list[str],
        authority: bytes | None,
        ca_cert: str | None,
    ) -> Exchange:
        problem = BackendUnreachable("it has no address")
        for address in addresses:
            try:
                return await self._http.open(
                    verb, url, headers, body, authority=authority, ca_cert=ca_cert, at=address
                )
            except BackendUnreachable as error:
                problem = error
        raise problem


async def _looked_up(url: str) -> list[str]:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(parts.hostname or "", port, type=1)
    except (OSError, UnicodeError):
        raise Unfetched(f"{_shown(url)}: its host has no address") from None
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


async def _read(exchange: Exchange) -> Answer:
    try:
        await exchange.head(SECONDS)
        body = await exchange.body(MOST_BYTES, SECONDS)
    finally:
        exchange.close()
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    return Answer(exchange.status, said if isinstance(said, dict) else {})


def _shown(url: str) -> str:
    """Without what a query may carry in secret."""
    return url.partition("?")[0].partition("#")[0][:200]
