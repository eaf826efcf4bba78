"""Clients whose id is the address of what they say about themselves (Client ID Metadata Documents).

Whoever asks for a code makes this server fetch an address. So: https (or loopback), no redirects, no proxy, a short
answer, and the host must be this machine by its name, or lie outside of every private network. It is connected to by
the very address that has been looked at.
"""

import asyncio
import contextlib
import http.client
import ipaddress
import json
import re
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from authz.addresses import is_fetchable
from authz.origins import LOOPBACK
from portico.devauth.model import Client, OAuthError
from portico.devauth.registration import read

SECONDS: Final = 5.0
MOST_BYTES: Final = 16_384
MOST_CHARACTERS: Final = 1000
MOST_KEPT: Final = 256
KEPT_S: Final = (60.0, 86_400.0)
"""At least, and at the most, whatever the document's Cache-Control says."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_ADDRESS: Final = re.compile(r"https?://[\x21\x23-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e]+")


def is_address(client_id: str) -> bool:
    return client_id.startswith(("https://", "http://"))


class Documents:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, Client]] = {}

    async def find(self, url: str) -> Client:
        """Raises OAuthError."""
        until, client = self._kept.get(url, (float("-inf"), None))
        if client is not None and self._clock() < until:
            return client
        parts = _checked(url)
        connection = _Pinned(parts)
        try:
            async with asyncio.timeout(2 * SECONDS):
                document = await asyncio.to_thread(_get, connection, parts)
        except TimeoutError:
            raise _unfit("it does not answer in time") from None
        finally:
            connection.cut()
        client = _client(url, document.body)
        if len(self._kept) >= MOST_KEPT:
            self._kept.pop(next(iter(self._kept)))
        self._kept[url] = (self._clock() + document.fresh_s, client)
        return client


@dataclass(frozen=True, slots=True)
class _Document:
    body: bytes
    fresh_s: float


def _unfit(why: str) -> OAuthError:
    return OAuthError("invalid_client", f"the client's metadata document cannot be used: {why}")


def _checked(url: str) -> SplitResult:
    fine = len(url) <= MOST_CHARACTERS and _ADDRESS.fullmatch(url) and is_fetchable(url)
    if not fine:
        raise _unfit("its address must be https, or http on this machine, and without a password")
    parts = urlsplit(url)
    steps = parts.path.split("/")
    if parts.path in ("", "/") or parts.fragment or not {".", ".."}.isdisjoint(steps):
        raise _unfit("its address needs a path, without . and .. in it, and no fragment")
    try:
        has_port = parts.port != 0
    except ValueError:
        has_port = False
    if not has_port:
        raise _unfit("its address has no such port")
    return parts


def _client(url: str, body: bytes) -> Client:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise _unfit("it is not JSON") from None
    if not isinstance(said, dict) or said.get("client_id") != url:
        raise _unfit("its client_id is not its own address")
    if "client_secret" in said or said.get("token_endpoint_auth_method", "none") != "none":
        raise _unfit("only token_endpoint_auth_method none is possible, and no secret")
    try:
        client = read(said, url, usual_method="none")
    except OAuthError as error:
        raise _unfit(str(error)) from None
    if not client.name:
        raise _unfit("it has no client_name")
    return client


def _get(connection: "_Pinned", parts: SplitResult) -> _Document:
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("GET", path, headers={"accept": "application/json", "connection": "close"})
        with connection.getresponse() as answer:
            body = answer.read(MOST_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise _unfit(f"it cannot be fetched ({type(problem).__name__})") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise _unfit(f"the answer is {answer.status}")
    if len(body) > MOST_BYTES:
        raise _unfit(f"it has more than {MOST_BYTES} bytes")
    return _Document(body, _fresh_s(answer.getheader("cache-control") or ""))


class _Pinned(http.client.HTTPConnection):
    def __init__(self, parts: SplitResult) -> None:
        self._tls = parts.scheme == "https"
        super().__init__(parts.hostname or "", parts.port or (443 if self._tls else 80), timeout=SECONDS)
        self._wire: socket.socket | None = None
        self._is_cut = False

    def connect(self) -> None:
        plain = socket.create_connection((address(self.host, self.port), self.port), SECONDS)
        self._wire = plain.dup()  # TLS takes the other one over
        if self._is_cut:
            self.cut()
        context = ssl.create_default_context() if self._tls else None
        try:
            self.sock = context.wrap_socket(plain, server_hostname=self.host) if context else plain
        except BaseException:
            plain.close()
            raise

    def cut(self) -> None:
        """Ends whatever its thread still waits for: who sends a byte now and then would keep it for ever, and all there are."""
        self._is_cut = True
        if self._wire is not None:
            with contextlib.suppress(OSError):
                self._wire.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        super().close()
        if self._wire is not None:
            self._wire.close()


def address(host: str, port: int, resolve: Callable[..., Any] = socket.getaddrinfo) -> str:
    """All that the name stands for must be fit: an attacker has only to be lucky once."""
    try:
        found = [item[4][0] for item in resolve(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        raise _unfit("its host is unknown") from None
    addresses = [ipaddress.ip_address(one.partition("%")[0]) for one in found]
    local = host in LOOPBACK
    if not addresses or not all(one.is_loopback if local else _is_public(one) for one in addresses):
        raise _unfit("its host lies in a private network")
    return str(found[0])


def _is_public(one: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Also of those that carry another one inside."""
    inner = getattr(one, "ipv4_mapped", None) or getattr(one, "sixtofour", None) or one
    if one in _NAT64:
        inner = ipaddress.IPv4Address(int(one) & 0xFFFFFFFF)
    return bool(one.is_global and inner.is_global and not one.is_multicast)


def _fresh_s(cache_control: str) -> float:
    least, most = KEPT_S
    directives = [item.strip().lower() for item in cache_control.split(",")]
    if {"no-store", "no-cache"} & set(directives):
        return 0.0
    ages = [item.removeprefix("max-age=") for item in directives if item.startswith("max-age=")]
    return min(max(float(ages[0]), least), most) if ages and ages[0].isdecimal() else least
