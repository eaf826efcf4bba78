"""Tokens that the gateway fetches for itself: in exchange for a client's token (RFC 8693), or by its own client credentials."""

import hashlib
import time
from collections.abc import Hashable
from typing import Final

from portico.caller import Caller
from portico.credentials import endpoint, servers
from portico.credentials.endpoint import ClientIdentity, Token
from portico.credentials.kept import Good, Kept, log
from portico.credentials.outbound import Outbound, Unfetched
from portico.credentials.servers import Server
from portico.errors import NoCredential
from portico.registry import Backend, OAuth, UnresolvedReference

EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - what tokens are called
SERVER_S: Final = 3600.0
EARLY: Final = 0.2
"""This part of a token's life before its end, a newer one is asked for; this much of that it is not used any more."""
LAST_S: Final = 10.0


class Fetched:
    def __init__(self, outbound: Outbound) -> None:
        self._outbound = outbound
        self._tokens: Kept[str] = Kept()
        self._servers: Kept[Server] = Kept()

    async def token(self, backend: Backend, caller: Caller) -> str:
        """Raises BackendError."""
        if backend.call_auth == "exchange" and not caller.token:
            raise NoCredential(403, "there is no token of the client to exchange: auth.mode is none")

        async def fetch() -> Good[str]:
            return _good(await self._fetch(backend, caller))

        return await self._tokens.get(_key(backend, caller), fetch)

    def refused(self, backend: Backend, caller: Caller, token: str) -> bool:
        """The backend does not take it: whether another one is worth asking for."""
        return self._tokens.drop(_key(backend, caller), token)

    async def _fetch(self, backend: Backend, caller: Caller) -> Token:
        oauth = backend.oauth or OAuth()
        server = await self._server(oauth)
        form = _form(backend, oauth, caller)
        near = oauth.issuer or server.token_url
        try:
            identity = identity_of(oauth, server)
            return await endpoint.ask(self._outbound, server.token_url, near, form, identity)
        except endpoint.Refused as refused:
            raise not_given(backend, server.issuer, refused) from None
        except endpoint.Unanswered as error:
            raise unavailable(server.issuer, str(error)) from None

    async def _server(self, oauth: OAuth) -> Server:
        if oauth.token_url:
            return Server(oauth.issuer or oauth.token_url, oauth.token_url)
        issuer = oauth.issuer or ""

        async def fetch() -> Good[Server]:
            try:
                found = await servers.server(self._outbound, issuer, issuer)
            except Unfetched as error:
                raise unavailable(issuer, str(error)) from None
            now = time.time()
            return Good(found, now + 24 * SERVER_S, now + SERVER_S)

        return await self._servers.get(issuer, fetch)


def identity_of(oauth: OAuth, server: Server) -> ClientIdentity:
    try:
        secret = oauth.client_secret.resolve() if oauth.client_secret else ""
    except UnresolvedReference as error:
        raise NoCredential(502, f"the gateway's client secret cannot be had ({error})") from None
    return ClientIdentity(oauth.client_id or "", secret, server.in_form)


def not_given(backend: Backend, issuer: str, refused: endpoint.Refused) -> NoCredential:
    """Who can do something about it: the operator, or whoever called."""
    said = {"authorizationServer": issuer, "error": refused.error}
    if refused.error in endpoint.OWN_FAULT:
        text = f"{issuer} does not know the gateway as a client ({refused.error}): tell its operator"
        return NoCredential(502, text, **said)
    if backend.call_auth == "exchange":
        text = f"{issuer} does not give a token for this backend in exchange for yours ({refused.error}): sign in again, or ask there for access"
        return NoCredential(403, text, **said)
    text = f"{issuer} does not give the gateway a token for this backend ({refused.error}): tell its operator"
    return NoCredential(502, text, **said)


def unavailable(issuer: str, why: str) -> NoCredential:
    log.warning("the authorization server %s is unavailable: %s", issuer, why)
    text = (
        f"the authorization server of this backend is unavailable at the moment ({issuer}): try again later"
    )
    return NoCredential(503, text, authorizationServer=issuer)


def _form(backend: Backend, oauth: OAuth, caller: Caller) -> dict[str, str]:
    form = {"grant_type": "client_credentials"}
    if backend.call_auth == "exchange":
        form = {
            "grant_type": EXCHANGE,
            "subject_token": caller.token,
            "subject_token_type": ACCESS_TOKEN,
            "requested_token_type": ACCESS_TOKEN,
        }
    if oauth.audience:
        form["audience"] = oauth.audience
    if oauth.resource or not oauth.audience:
        form["resource"] = oauth.resource or backend.url
    return form | ({"scope": " ".join(oauth.scopes)} if oauth.scopes else {})


def _good(token: Token) -> Good[str]:
    left = token.expires_at - time.time()
    last = min(LAST_S, left * EARLY / 2)
    return Good(token.access, token.expires_at - last, token.expires_at - left * EARLY)


def _key(backend: Backend, caller: Caller) -> Hashable:
    """The token itself is not kept as one."""
    digest = hashlib.sha256(caller.token.encode()).digest() if backend.call_auth == "exchange" else b""
    return backend, digest
