"""A user lets the gateway act for him at a backend: asked through his client, given in his browser.

What goes out to clients is the address of a page of the gateway and nothing that would let anybody in: whoever opens it
must be the user it was made for. With tokens on, the browser is sent to the gateway's own issuer first, and the subject
that comes back must be the one that called; without, only this machine is served. From the first page to the last it must be
the same browser: a cookie says so. See "Phishing" in the specification's page on elicitation.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal
from urllib.parse import urlencode

from authz.model import Principal
from portico.credentials import endpoint, servers
from portico.credentials.endpoint import ClientIdentity
from portico.credentials.outbound import Outbound, Unfetched
from portico.credentials.registration import callback, identity
from portico.credentials.servers import Server
from portico.credentials.vault import UserToken, Vault, digest
from portico.errors import UserNeeded
from portico.registry import OAuth, Registry

START: Final = "/oauth/upstream/start"
PENDING_S: Final = 900.0
_CONSENT: Final = "CONSENT"
_STATE: Final = "CONSENTSTATE"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{32}")
"""Whatever else is asked for, the store need not be, which may not take it as a key."""

Told = Callable[[str, str], Awaitable[None]]
"""Session and elicitation: its client may want to know that it is over."""
Leg = Literal["login", "grant"]


@dataclass(frozen=True, slots=True)
class Consent:
    """What a user is asked for."""

    owner: str
    backend: str
    url: str
    """The backend's."""
    resource: str
    """What tokens are for, as its authorization server knows it."""
    session: str
    """The legacy session that is told when it is over."""
    scopes: tuple[str, ...]
    server: Server
    near: str
    ended: Literal["", "given", "refused"] = ""


@dataclass(frozen=True, slots=True)
class _Leg:
    """One way of a browser to an authorization server and back."""

    consent: str
    leg: Leg
    browser: str
    verifier: str
    server: Server
    near: str
    identity: ClientIdentity


class Stopped(Exception):
    """The browser goes no further; the message is for whoever sits before it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Consents:
    def __init__(
        self, outbound: Outbound, vault: Vault, registry: Callable[[], Registry], told: Told
    ) -> None:
        self._outbound = outbound
        self._vault = vault
        self._registry = registry
        self._told = told

    async def needed(self, consent: Consent) -> UserNeeded:
        """The same page for as long as one is open, however often it is needed."""
        wish = json.dumps([consent.backend, consent.url, consent.session, consent.scopes])
        place = (f"CONSENTS#{digest(consent.owner)}", digest(wish))
        known = await self._vault.get(*place)
        id_ = known[0]["id"] if known and known[0]["until"] > time.time() + PENDING_S / 2 else ""
        open_ = await self.find(id_) if id_ else None
        if open_ is None or open_.ended:
            id_ = secrets.token_urlsafe(24)
            await self._keep(id_, consent)
            await self._vault.put(*place, {"id": id_, "until": time.time() + PENDING_S}, PENDING_S)
        url = f"{self._registry().gateway.public_url}{START}?{urlencode({'id': id_})}"
        return UserNeeded(id_, url, consent.backend)

    async def find(self, id_: str) -> Consent | None:
        found = await self._vault.get(_CONSENT, id_) if _ID.fullmatch(id_) else None
        if found is None:
            return None
        said = found[0]
        return Consent(**{**said, "scopes": tuple(said["scopes"]), "server": _server(said["server"])})

    async def _keep(self, id_: str, consent: Consent) -> None:
        await self._vault.put(_CONSENT, id_, asdict(consent), PENDING_S)

    # The browser

    async def begin(self, id_: str, browser: str) -> str:
        """Where the browser goes first. Raises Stopped, NoCredential."""
        consent = await self.find(id_)
        if consent is None or consent.ended:
            raise Stopped(404, "This link has been used or has expired: try again what brought you here.")
        return await self._away(id_, consent, browser, "login" if consent.owner else "grant")

    async def back(self, said: dict[str, str], browser: str) -> tuple[str, Consent]:
        """Where the browser goes next; empty when all is done. Raises Stopped, NoCredential."""
        leg = await self._leg(said.get("state", ""), browser)
        _check_issuer(leg.server, said)
        consent = await self.find(leg.consent)
        if consent is None or consent.ended:
            raise Stopped(404, "This took too long: try again what brought you here.")
        if "code" not in said:
            if leg.leg == "grant":
                await self._keep(leg.consent, replace(consent, ended="refused"))
            raise Stopped(403, f"{leg.server.issuer} did not let you in.")
        token = await self._redeemed(leg, said["code"], consent)
        if leg.leg == "login":
            await self._check_user(token, consent)
            return await self._away(leg.consent, consent, browser, "grant"), consent
        await self._given(leg, consent, token)
        return "", consent

    async def _leg(self, state: str, browser: str) -> _Leg:
        """Once, and for the browser that went away with it."""
        found = await self._vault.take(_STATE, digest(state)) if state else None
        if found is None or not browser or not hmac.compare_digest(found["browser"], digest(browser)):
            raise Stopped(403, "This answer belongs to no sign-in of this browser: begin again.")
        own = {"server": _server(found["server"]), "identity": ClientIdentity(**found["identity"])}
        return _Leg(**{**found, **own})

    async def _away(self, id_: str, consent: Consent, browser: str, way: Leg) -> str:
        registry = self._registry()
        if way == "login":
            server, near, scopes, declared = await self._issuer(consent)
            resource = registry.access.resource if registry.access else ""
        else:
            server, near, scopes, resource = consent.server, consent.near, consent.scopes, consent.resource
            declared = next((one.oauth for one in registry.backends if one.name == consent.backend), None)
        own = await identity(self._outbound, self._vault, registry.gateway, server, near, declared)
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        leg = _Leg(id_, way, digest(browser), verifier, server, near, own)
        await self._vault.put(_STATE, digest(state), asdict(leg), PENDING_S)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        asked = {
            "response_type": "code",
            "client_id": own.id,
            "redirect_uri": callback(registry.gateway),
            "state": state,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
            "resource": resource,
        } | ({"scope": " ".join(scopes)} if scopes else {})
        joint = "&" if "?" in server.authorize_url else "?"
        return f"{server.authorize_url}{joint}{urlencode(asked)}"

    async def _issuer(self, consent: Consent) -> tuple[Server, str, tuple[str, ...], OAuth | None]:
        """The gateway's own, that the user's token is from."""
        registry = self._registry()
        issuer, _ = json.loads(consent.owner)
        if registry.access is None or issuer not in registry.access.by_issuer:
            raise Stopped(403, "Who you are cannot be told any more: try again what brought you here.")
        try:
            server = await servers.server(self._outbound, issuer, issuer)
        except Unfetched:
            raise Stopped(503, f"{issuer} is unavailable at the moment: try again later.") from None
        if not servers.is_fit_for_browsers(server, issuer):
            raise Stopped(502, f"{issuer} has no sign-in for browsers that is safe enough.")
        scopes = (registry.login.scopes if registry.login else ()) or registry.access.required_scopes
        return server, issuer, scopes, registry.login

    async def _redeemed(self, leg: _Leg, code: str, consent: Consent) -> endpoint.Token:
        registry = self._registry()
        own = registry.access.resource if registry.access else ""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback(registry.gateway),
            "code_verifier": leg.verifier,
            "resource": own if leg.leg == "login" else consent.resource,
        }
        try:
            return await endpoint.ask(self._outbound, leg.server.token_url, leg.near, form, leg.identity)
        except endpoint.Refused as refused:
            raise Stopped(403, f"{leg.server.issuer} gave no token ({refused.error}).") from None
        except endpoint.Unanswered:
            raise Stopped(
                503, f"{leg.server.issuer} is unavailable at the moment: try again later."
            ) from None

    async def _check_user(self, token: endpoint.Token, consent: Consent) -> None:
        """Whoever has just signed in must be the one whose call it was."""
        from authz.guard import Guard  # noqa: PLC0415 - looking at tokens is slow to import

        access = self._registry().access
        principal = await Guard(access).admit([f"Bearer {token.access}"]) if access else None
        if not isinstance(principal, Principal):
            raise Stopped(502, "The token of the gateway's own issuer is not one for the gateway.")
        if principal.key != consent.owner:
            raise Stopped(403, "This link was made for somebody else. If you were sent it, do not use it.")

    async def _given(self, leg: _Leg, consent: Consent, token: endpoint.Token) -> None:
        scope = token.scope or " ".join(consent.scopes)
        kept = UserToken(
            consent.url,
            token.access,
            token.refresh,
            token.expires_at,
            scope,
            leg.server.issuer,
            leg.server.token_url,
            leg.near,
            consent.resource,
            leg.identity,
        )
        await self._vault.keep(consent.owner, consent.backend, kept)
        await self._keep(leg.consent, replace(consent, ended="given"))
        if consent.session:
            await self._told(consent.session, leg.consent)


def _check_issuer(server: Server, said: dict[str, str]) -> None:
    """RFC 9207, as the specification has it: no folding, and nothing of a mixed-up answer is shown."""
    named = said.get("iss")
    if named != server.issuer and (named is not None or server.says_issuer):
        raise Stopped(403, "The answer comes from another authorization server than the one that was asked.")


def _server(said: dict[str, Any]) -> Server:
    return Server(**{**said, "scopes": tuple(said["scopes"])})
