"""A user's own token for a backend: used, refreshed, and asked for where there is none.

A backend is first called without one. Its 401 says where tokens are to be had; who called is then sent to a page of the
gateway (`consents`), and calls again.
"""

import asyncio
import time
from dataclasses import replace
from typing import Final

from portico.caller import Caller
from portico.credentials import endpoint, servers
from portico.credentials.consents import Consent, Consents
from portico.credentials.fetched import not_given, unavailable
from portico.credentials.outbound import Outbound, Unfetched
from portico.credentials.servers import Resource, Server
from portico.credentials.vault import UserToken, Vault
from portico.errors import NoCredential, Unauthorized, UserNeeded
from portico.registry import Backend, OAuth
from portico.stores.base import Conflict

EARLY_S: Final = 20.0


class Users:
    def __init__(self, outbound: Outbound, vault: Vault, consents: Consents) -> None:
        self._outbound = outbound
        self._vault = vault
        self._consents = consents
        self._refreshing: dict[tuple[str, str], asyncio.Task[UserToken | None]] = {}

    async def token(self, backend: Backend, caller: Caller) -> str | None:
        """None where the user has given none yet, or it is dead. Raises NoCredential."""
        found = await self._vault.token(caller.owner, backend.name)
        if found is None or found[0].url != backend.url:
            return None
        kept = found[0]
        if time.time() < kept.expires_at - EARLY_S:
            return kept.access
        renewed = await self._renewed(backend, caller, kept.access)
        return renewed.access if renewed else None

    async def again(self, backend: Backend, caller: Caller, refused: str) -> bool:
        """The backend does not take this token any more: whether there is another one now."""
        if not refused:
            return False
        renewed = await self._renewed(backend, caller, refused)
        return renewed is not None and renewed.access != refused

    async def _renewed(self, backend: Backend, caller: Caller, old: str) -> UserToken | None:
        """One refresh at a time: a refresh token is good for one."""
        key = (caller.owner, backend.name)
        task = self._refreshing.get(key)
        if task is None:
            task = self._refreshing[key] = asyncio.ensure_future(self._refreshed(backend, caller, old))
            task.add_done_callback(lambda _: self._refreshing.pop(key, None))
        return await asyncio.shield(task)

    async def _refreshed(self, backend: Backend, caller: Caller, old: str) -> UserToken | None:
        found = await self._vault.token(caller.owner, backend.name)
        if found is None or found[0].url != backend.url:
            return None
        kept, version = found
        if kept.access != old:
            return kept
        if not kept.refresh:
            await self._forgotten(backend, caller, version)
            return None
        form = {"grant_type": "refresh_token", "refresh_token": kept.refresh, "resource": kept.resource}
        try:
            token = await endpoint.ask(self._outbound, kept.token_url, kept.near, form, kept.identity)
        except endpoint.Unanswered as error:
            raise unavailable(kept.issuer, str(error)) from None
        except endpoint.Refused as refused:
            if refused.error in endpoint.OWN_FAULT or refused.is_bare:
                raise not_given(backend, kept.issuer, refused) from None
            # Another process may have been first: then its token is there.
            return (
                None if await self._forgotten(backend, caller, version) else await self._now(backend, caller)
            )
        renewed = replace(
            kept,
            access=token.access,
            refresh=token.refresh or kept.refresh,
            expires_at=token.expires_at,
            scope=token.scope or kept.scope,
        )
        try:
            await self._vault.keep(caller.owner, backend.name, renewed, version)
        except Conflict:
            return await self._now(backend, caller)
        return renewed

    async def _forgotten(self, backend: Backend, caller: Caller, version: str) -> bool:
        try:
            return await self._vault.forget(caller.owner, backend.name, version)
        except Conflict:
            return False

    async def _now(self, backend: Backend, caller: Caller) -> UserToken | None:
        found = await self._vault.token(caller.owner, backend.name)
        return found[0] if found and found[0].url == backend.url else None

    async def needed(
        self, backend: Backend, caller: Caller, refused: Unauthorized, session: str
    ) -> UserNeeded:
        """What the user has to do. Raises NoCredential where nothing can be done."""
        declared = backend.oauth or OAuth()
        near = declared.issuer or backend.url
        try:
            server, resource = await self._found(backend, declared, refused.challenge)
        except Unfetched as error:
            text = f"the backend wants the user to sign in, and it cannot be told where: {error}"
            raise NoCredential(502, text) from None
        if not servers.is_fit_for_browsers(server, near):
            text = f"{server.issuer} has no sign-in that is safe enough (authorization code with PKCE, S256)"
            raise NoCredential(502, text, authorizationServer=server.issuer)
        wanted = scopes_wanted(declared, refused, resource.scopes, await self._held(backend, caller))
        name = declared.resource or resource.name
        consent = Consent(caller.owner, backend.name, backend.url, name, session, wanted, server, near)
        return await self._consents.needed(consent)

    async def _found(self, backend: Backend, declared: OAuth, challenge: str) -> tuple[Server, Resource]:
        """Raises Unfetched. Where the operator has said who, the backend is not asked."""
        if declared.issuer:
            own = Resource(backend.url, (declared.issuer,), ())
            return await servers.server(self._outbound, declared.issuer, declared.issuer), own
        ca_cert = backend.ca_cert.resolve() if backend.ca_cert else None
        resource = await servers.resource(self._outbound, backend.url, challenge, ca_cert)
        if not resource.issuers:
            raise Unfetched("the backend names no authorization server")
        return await servers.server(self._outbound, resource.issuers[0], backend.url), resource

    async def _held(self, backend: Backend, caller: Caller) -> tuple[str, ...]:
        now = await self._now(backend, caller)
        return tuple(now.scope.split()) if now else ()


def scopes_wanted(
    declared: OAuth, refused: Unauthorized, supported: tuple[str, ...], held: tuple[str, ...]
) -> tuple[str, ...]:
    """What the backend asks for now, besides what it got before; else what is declared, else what it says it knows."""
    asked = servers.scopes_of(refused.challenge)
    return tuple(dict.fromkeys((*held, *asked))) if asked else declared.scopes or supported
