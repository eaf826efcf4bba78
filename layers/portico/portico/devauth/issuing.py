"""The token endpoint: codes, refresh tokens, clients' own secrets and others' tokens -> access tokens."""

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote_plus

from portico.devauth import forms
from portico.devauth.authorization import Clients
from portico.devauth.grants import Grant, Grants, Issued
from portico.devauth.keys import Keys
from portico.devauth.model import CLIENT, CODE, EXCHANGE, OFFLINE, REFRESH, Client, OAuthError, Terms
from portico.devauth.registration import Registrar

TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type
_JWT_TYPES: Final = (TOKEN_TYPE, "urn:ietf:params:oauth:token-type:jwt")
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")

Form = Mapping[str, str]


class Issuing:
    def __init__(
        self, keys: Keys, registrar: Registrar, clients: Clients, grants: Grants, clock: Callable[[], float]
    ) -> None:
        self._keys = keys
        self._registrar = registrar
        self._clients = clients
        self._grants = grants
        self._clock = clock

    async def answer(self, form: Form, authorization: str | None, terms: Terms) -> dict[str, Any]:
        """Raises OAuthError."""
        client = await self.authenticated(form, authorization)
        kinds = {CODE: self._code, REFRESH: self._refresh, CLIENT: self._client, EXCHANGE: self._exchange}
        kind = forms.needed(form, "grant_type")
        if kind not in kinds:
            raise OAuthError("unsupported_grant_type", f"grant_type is none of {', '.join(kinds)}")
        if kind not in client.grants:
            raise OAuthError("unauthorized_client", "the client has not registered for this grant_type")
        return kinds[kind](form, client, terms)

    async def authenticated(self, form: Form, authorization: str | None) -> Client:
        """By what it registered for, and by nothing else. Raises OAuthError."""
        id_, secret, method = form.get("client_id"), form.get("client_secret"), "none"
        if authorization is not None:
            if secret is not None:
                raise OAuthError("invalid_request", "the client authenticates in two ways")
            name, secret = _basic(authorization)
            if id_ not in (None, name):
                raise OAuthError("invalid_request", "client_id is not that of the Authorization header")
            id_, method = name, "client_secret_basic"
        elif secret is not None:
            method = "client_secret_post"
        if id_ is None:
            raise OAuthError("invalid_client", "client_id is missing", 401)
        client = await self._clients.find(id_)
        right = self._registrar.secret(client.id).encode()
        known = secret is None or hmac.compare_digest(right, secret.encode())
        if client.method != method or not known:
            text = f"the client must authenticate as it registered for: {client.method}"
            raise OAuthError("invalid_client", text if known else "the client's secret is wrong", 401)
        return client

    def _code(self, form: Form, client: Client, terms: Terms) -> dict[str, Any]:
        code, verifier = forms.needed(form, "code"), forms.needed(form, "code_verifier")
        if not _VERIFIER.fullmatch(verifier):
            raise OAuthError(
                "invalid_request", "code_verifier is not made of 43 to 128 letters, digits, -._~"
            )
        grant = self._grants.redeem(code, client.id, form.get("redirect_uri"), verifier)
        self._same_resource(form, grant, terms)
        return self._granted(client, grant, grant.scopes, terms)

    def _refresh(self, form: Form, client: Client, terms: Terms) -> dict[str, Any]:
        grant = self._grants.refreshed(forms.needed(form, "refresh_token"), client.id)
        self._same_resource(form, grant, terms)
        scopes = forms.scopes(form, terms) or grant.scopes
        if not set(scopes) <= set(grant.scopes):
            raise OAuthError("invalid_scope", "a refresh gives no more than was granted")
        return self._granted(client, grant, scopes, terms)

    def _same_resource(self, form: Form, grant: Grant, terms: Terms) -> None:
        if "resource" in form and forms.resource(form, terms) != grant.resource:
            raise OAuthError("invalid_target", "this was granted for another resource")

    def _granted(self, client: Client, grant: Grant, scopes: tuple[str, ...], terms: Terms) -> dict[str, Any]:
        answer = self._issued(client, grant.subject, grant.resource, scopes, terms, grant)
        if OFFLINE in grant.scopes and REFRESH in client.grants:
            answer["refresh_token"] = self._grants.refresh_token(grant)
        return answer

    def _client(self, form: Form, client: Client, terms: Terms) -> dict[str, Any]:
        target = _target(form, terms)
        return self._issued(client, client.id, target, _scopes(form, target, terms), terms)

    def _exchange(self, form: Form, client: Client, terms: Terms) -> dict[str, Any]:
        """RFC 8693, without an actor: the new token is the same user's, for somebody else."""
        if forms.needed(form, "subject_token_type") not in _JWT_TYPES:
            raise OAuthError("invalid_request", f"subject_token_type is none of {', '.join(_JWT_TYPES)}")
        kind = form.get("requested_token_type", TOKEN_TYPE)
        if kind not in _JWT_TYPES:
            raise OAuthError("invalid_request", f"requested_token_type is none of {', '.join(_JWT_TYPES)}")
        if "actor_token" in form or "actor_token_type" in form:
            raise OAuthError("invalid_request", "actor_token is not supported")
        token = forms.needed(form, "subject_token")
        claims = self._keys.claims(token, terms.issuer)
        if claims is None or self._grants.spent(token):
            raise OAuthError("invalid_request", "subject_token is none of ours, or not good any more")
        target, had = _target(form, terms), tuple(str(claims.get("scope", "")).split())
        scopes = _scopes(form, target, terms) or had
        if target in terms.resources and not set(scopes) <= set(had):
            raise OAuthError("invalid_scope", "an exchange gives no more than the subject_token has")
        answer = self._issued(client, str(claims["sub"]), target, scopes, terms)
        return answer | {"issued_token_type": kind}

    def _issued(
        self,
        client: Client,
        subject: str,
        audience: str,
        scopes: tuple[str, ...],
        terms: Terms,
        grant: Grant | None = None,
    ) -> dict[str, Any]:
        now = self._clock()
        until = now + terms.access_token_s
        claims = {
            "iss": terms.issuer,
            "sub": subject,
            "aud": audience,
            "client_id": client.id,
            "scope": " ".join(scopes),
            "iat": int(now),
            "exp": max(int(until), int(now) + 1),
            "jti": secrets.token_hex(8),
        }
        token = self._keys.sign(claims)
        self._grants.record(token, Issued(client.id, until, grant))
        return {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": max(int(terms.access_token_s), 1),
            "scope": claims["scope"],
        }


def _scopes(form: Form, target: str, terms: Terms) -> tuple[str, ...]:
    """Other resources have scopes of their own."""
    if target in terms.resources:
        return forms.scopes(form, terms)
    return forms.scopes(form, Terms(terms.issuer))


def _target(form: Form, terms: Terms) -> str:
    """Whoever a token is wanted for: `audience` (RFC 8693), or `resource` (RFC 8707)."""
    asked = form.get("audience") or form.get("resource")
    if asked is None:
        return forms.resource(form, terms)
    if "audience" in form and form.get("resource", asked) != asked:
        raise OAuthError("invalid_target", "audience and resource are two targets")
    if not re.fullmatch(r"[\x21-\x7e]{1,1000}", asked) or "#" in asked:
        raise OAuthError("invalid_target", "a target is an absolute URI without fragment, or a name")
    try:
        return forms.resource({"resource": asked}, terms)
    except OAuthError:
        return asked


def _basic(authorization: str) -> tuple[str, str]:
    scheme, _, text = authorization.partition(" ")
    try:
        pair = base64.b64decode(text.strip(), validate=True).decode() if scheme.lower() == "basic" else ""
    except (binascii.Error, UnicodeDecodeError, ValueError):
        pair = ""
    name, colon, secret = pair.partition(":")
    if not colon:
        raise OAuthError("invalid_client", "the Authorization header has no client id and secret", 401)
    return unquote_plus(name), unquote_plus(secret)
