"""What users have granted: codes, refresh tokens, and which access tokens came of it. All in memory, all with an end.

Everything that came from one consent is one grant, and ends together: a code or a refresh token that is shown twice has
been stolen from somebody, so nobody may use what came of it.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from portico.devauth.model import OAuthError, Terms

MOST: Final = 10_000
REMEMBERED_S: Final = 600.0
"""For so long a code that has been used is known to have been used."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(eq=False, slots=True)
class Grant:
    client_id: str
    subject: str
    resource: str
    scopes: tuple[str, ...]
    until: float
    ended: bool = False
    refresh: bytes = b""
    """The digest of the one refresh token that may be used."""


@dataclass(eq=False, slots=True)
class Code:
    grant: Grant
    redirect_uri: str
    challenge: str
    until: float
    used: bool = False


@dataclass(eq=False, slots=True)
class Issued:
    """An access token."""

    client_id: str
    until: float
    grant: Grant | None
    revoked: bool = False


class Grants:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._codes: dict[bytes, Code] = {}
        self._refresh: dict[bytes, Grant] = {}
        self._issued: dict[bytes, Issued] = {}
        self._by_client: dict[tuple[str, str], Grant] = {}

    def code(self, grant: Grant, redirect_uri: str, challenge: str, terms: Terms) -> str:
        code = secrets.token_urlsafe(32)
        made = Code(grant, redirect_uri, challenge, self._clock() + terms.code_s)
        _keep(self._codes, _digest(code), made)
        return code

    def redeem(self, code: str, client_id: str, redirect_uri: str | None, verifier: str) -> Grant:
        """Once, whoever tries and however it ends. Raises OAuthError."""
        found = self._codes.get(_digest(code))
        if found is None or found.until + REMEMBERED_S < self._clock():
            raise OAuthError("invalid_grant", "the code is unknown or has expired")
        if found.used:
            self.end(found.grant)
            raise OAuthError("invalid_grant", "the code has been used: what it gave is revoked")
        found.used = True
        if found.until < self._clock():
            raise OAuthError("invalid_grant", "the code has expired")
        if found.grant.client_id != client_id:
            raise OAuthError("invalid_grant", "the code is another client's")
        if redirect_uri is not None and redirect_uri != found.redirect_uri:
            raise OAuthError("invalid_grant", "redirect_uri is not that of the authorization request")
        if not hmac.compare_digest(_challenge(verifier), found.challenge.encode()):
            raise OAuthError("invalid_grant", "code_verifier does not fit the code_challenge")
        _keep(self._by_client, (client_id, found.grant.resource), found.grant)
        return found.grant

    def refresh_token(self, grant: Grant) -> str:
        """The one that counts from now on."""
        token = secrets.token_urlsafe(32)
        grant.refresh = _digest(token)
        _keep(self._refresh, grant.refresh, grant)
        return token

    def refreshed(self, token: str, client_id: str) -> Grant:
        """Raises OAuthError."""
        digest = _digest(token)
        grant = self._refresh.get(digest)
        if grant is None or grant.ended or grant.until < self._clock():
            raise OAuthError("invalid_grant", "the refresh token is unknown, revoked or has expired")
        if grant.client_id != client_id:
            raise OAuthError("invalid_grant", "the refresh token is another client's")
        if grant.refresh != digest:
            self.end(grant)
            raise OAuthError("invalid_grant", "the refresh token has been used: its successors are revoked")
        return grant

    def record(self, token: str, issued: Issued) -> None:
        _keep(self._issued, _digest(token), issued)

    def spent(self, token: str) -> str | None:
        """Why an access token is not good any more, although its signature is."""
        issued = self._issued.get(_digest(token))
        if issued is None:
            return None
        if issued.until <= self._clock():
            return "the token has expired"
        ended = issued.revoked or (issued.grant is not None and issued.grant.ended)
        return "the token has been revoked" if ended else None

    def revoke(self, token: str, client_id: str) -> None:
        """Whatever kind of token it is; one that is unknown, or another client's, is left alone (RFC 7009)."""
        digest = _digest(token)
        grant = self._refresh.get(digest)
        if grant is not None and grant.client_id == client_id:
            self.end(grant)
        issued = self._issued.get(digest)
        if issued is not None and issued.client_id == client_id:
            issued.revoked = True

    def end(self, grant: Grant) -> None:
        grant.ended = True

    def granted(self, client_id: str, resource: str) -> tuple[str, ...]:
        """What this client has been granted last, for as long as it lasts."""
        grant = self._by_client.get((client_id, resource))
        fine = grant is not None and not grant.ended and grant.until > self._clock()
        return grant.scopes if grant is not None and fine else ()


def _keep(table: dict[K, V], key: K, value: V) -> None:
    """The oldest go where there are too many."""
    table[key] = value
    while len(table) > MOST:
        table.pop(next(iter(table)))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _challenge(verifier: str) -> bytes:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
