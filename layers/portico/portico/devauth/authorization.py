"""The authorization endpoint: what a request means, what its user is asked, and where the answer goes."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from portico.devauth import forms
from portico.devauth.documents import Documents, is_address
from portico.devauth.grants import Grant, Grants
from portico.devauth.model import CODE, OFFLINE, REFRESH, Client, OAuthError, Terms, Unredirected
from portico.devauth.redirects import is_registered, with_parameters
from portico.devauth.registration import Registrar

MOST_OPEN: Final = 1000
OPEN_S: Final = 600.0
MOST_SUBJECT: Final = 200
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_UNSUPPORTED: Final = {"request": "request_not_supported", "request_uri": "request_uri_not_supported"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that is fit to be put to its user."""

    client: Client
    redirect_uri: str
    state: str | None
    challenge: str
    resource: str
    scopes: tuple[str, ...]
    before: tuple[str, ...] = ()
    """What the client has been granted already, and would lose: most clients ask for what they lack only."""


@dataclass(frozen=True, slots=True)
class _Open:
    asked: Asked
    browser: bytes
    until: float


class Clients:
    def __init__(self, registrar: Registrar, documents: Documents) -> None:
        self._registrar = registrar
        self._documents = documents

    async def find(self, id_: str) -> Client:
        """Raises OAuthError."""
        if is_address(id_):
            return await self._documents.find(id_)
        client = self._registrar.find(id_)
        if client is None:
            raise OAuthError("invalid_client", "there is no such client", 401)
        return client


class Authorization:
    """Keeps what users have been asked until they answer, once, in the browser that was asked."""

    def __init__(self, clients: Clients, grants: Grants, clock: Callable[[], float]) -> None:
        self._clients = clients
        self._grants = grants
        self._clock = clock
        self._open: dict[str, _Open] = {}

    async def asked(self, form: Mapping[str, str], terms: Terms) -> Asked | str:
        """What to ask the user, or the address that he goes back to at once. Raises Unredirected."""
        client, uri = await self._addressee(form)
        try:
            return self._read(form, client, uri, terms)
        except OAuthError as error:
            return _back(terms, uri, form.get("state"), error=error.code, error_description=str(error))

    async def _addressee(self, form: Mapping[str, str]) -> tuple[Client, str]:
        """Until both are known to be good nobody is sent anywhere."""
        try:
            client = await self._clients.find(forms.needed(form, "client_id"))
        except OAuthError as error:
            raise Unredirected(str(error)) from None
        uri = form.get("redirect_uri") or (client.redirect_uris[0] if len(client.redirect_uris) == 1 else "")
        if not is_registered(uri, client.redirect_uris):
            raise Unredirected("redirect_uri is not one that the client has registered")
        return client, uri

    def _read(self, form: Mapping[str, str], client: Client, uri: str, terms: Terms) -> Asked:
        for name, code in _UNSUPPORTED.items():
            if name in form:
                raise OAuthError(code, f"{name} is not supported")
        if forms.needed(form, "response_type") != "code":
            raise OAuthError("unsupported_response_type", "only response_type code is supported")
        if CODE not in client.grants:
            raise OAuthError("unauthorized_client", "the client has not registered for authorization_code")
        if form.get("response_mode", "query") != "query":
            raise OAuthError("invalid_request", "only response_mode query is supported")
        challenge = form.get("code_challenge", "")
        if form.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(challenge):
            raise OAuthError("invalid_request", "code_challenge with code_challenge_method S256 is needed")
        if "none" in form.get("prompt", "").split(" "):
            raise OAuthError("interaction_required", "users are always asked")
        resource = forms.resource(form, terms)
        asked = forms.scopes(form, terms)
        own = {OFFLINE} if REFRESH in client.grants else set()
        scopes = tuple(scope for scope in asked or terms.usual_scopes if scope != OFFLINE or scope in own)
        granted = self._grants.granted(client.id, resource)
        before = tuple(scope for scope in granted if scope not in scopes)
        return Asked(client, uri, form.get("state"), challenge, resource, scopes, before)

    def put(self, asked: Asked, browser: str) -> str:
        """The number that the answer must bear."""
        while len(self._open) >= MOST_OPEN:
            self._open.pop(next(iter(self._open)))
        number = secrets.token_urlsafe(24)
        self._open[number] = _Open(asked, _digest(browser), self._clock() + OPEN_S)
        return number

    def answered(self, form: Mapping[str, str], browser: str, terms: Terms) -> str:
        """The address that the user goes back to. Raises Unredirected."""
        open_ = self._open.get(form.get("request", ""))
        if open_ is None or open_.until < self._clock():
            raise Unredirected("this has been answered already, or too late: begin again in your client")
        if not hmac.compare_digest(open_.browser, _digest(browser)):
            raise Unredirected("this was asked in another browser")
        asked = open_.asked
        decision, subject = form.get("decision"), form.get("subject", "").strip()
        if decision == "allow" and (not 0 < len(subject) <= MOST_SUBJECT or not subject.isprintable()):
            raise Unredirected(f"who are you? A name of at most {MOST_SUBJECT} characters is needed")
        del self._open[form["request"]]
        if decision != "allow":
            said = {"error": "access_denied", "error_description": "the user did not allow it"}
            return _back(terms, asked.redirect_uri, asked.state, **said)
        ticked = form.get("scope", "").split(" ")
        scopes = tuple(scope for scope in (*asked.before, *asked.scopes) if scope in ticked)
        until = self._clock() + terms.refresh_token_s
        grant = Grant(asked.client.id, subject, asked.resource, scopes, until)
        code = self._grants.code(grant, asked.redirect_uri, asked.challenge, terms)
        return _back(terms, asked.redirect_uri, asked.state, code=code)


def _back(terms: Terms, uri: str, state: str | None, **said: str) -> str:
    told = said | ({} if state is None else {"state": state}) | {"iss": terms.issuer}
    return with_parameters(uri, told)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
