"""`oauth` of a backend, and `login` and `encryption_key` of `auth`: where the gateway itself is somebody's OAuth client."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from authz.model import Access
from portico.registry import kinds
from portico.registry.document import Value
from portico.registry.fields import Fields, Listed
from portico.registry.kinds import Kinds
from portico.registry.model import Backend, OAuth
from portico.registry.problems import Report, quoted, shown

_OAUTH: Final[Kinds] = {
    "issuer": kinds.TRUSTED_URL,
    "token_url": kinds.TRUSTED_URL,
    "client_id": kinds.TEXT,
    "client_secret": kinds.CREDENTIAL,
    "scopes": Listed(kinds.SCOPE),
    "audience": kinds.TEXT,
    "resource": kinds.URL,
}
_LOGIN: Final = {name: _OAUTH[name] for name in ("client_id", "client_secret", "scopes")}
_FETCHED: Final = ("exchange", "client_credentials")


class Section:
    """`oauth` as a kind, so that it is read and described like every other field."""

    expected = "a mapping of issuer or token_url, client_id, client_secret, scopes, audience and resource"

    def read(self, value: Value, report: Report) -> OAuth:
        fields = Fields(value, report)
        given = fields.read(_OAUTH)
        fields.refuse_unknown()
        return OAuth(**given)


def read_login(top: Fields) -> dict[str, Any]:
    """What `auth` says of users' tokens for backends; the rest of it is read elsewhere."""
    if not isinstance(top.place("auth").data, dict):
        return {}
    auth = top.section("auth")
    directory = Path(top.report.where).parent
    given = auth.read({"encryption_key": kinds.CREDENTIAL})
    login = auth.section("login")
    declared = login.read(_LOGIN)
    login.refuse_unknown()
    if "encryption_key" in given:
        given["encryption_key"] = given["encryption_key"].beside(directory)
    if declared:
        given["login"] = beside(OAuth(**declared), directory)
    return given


def beside(oauth: OAuth, directory: Path) -> OAuth:
    """A relative path in it is taken from `directory`."""
    secret = oauth.client_secret
    return replace(oauth, client_secret=secret.beside(directory)) if secret else oauth


def check_call_auth(backend: Backend, fields: Fields) -> None:
    """Whether there is all that this way needs, and nothing that it does not look at."""
    way, oauth = backend.call_auth, backend.oauth
    if way == "static" and backend.credential is None:
        fields.problem("credential", "env:NAME or file:PATH, since call_auth is static", shown(None))
    if "call" in backend.credential_use and backend.credential and way != "static":
        fields.problem("call_auth", "static, since the credential is used for calls", quoted(way))
    if way in ("none", "static") and oauth:
        known = "exchange, client_credentials, user or passthrough, since there is oauth"
        fields.problem("call_auth", known, quoted(way))
    if way == "user" and oauth and oauth.client_id and not oauth.issuer:
        known = "whose client that is: another server must not be shown its secret"
        fields.section("oauth").problem("issuer", known, shown(None))
    if way in _FETCHED:
        _check_client(backend, fields)


def _check_client(backend: Backend, fields: Fields) -> None:
    oauth, section = backend.oauth or OAuth(), fields.section("oauth")
    if not (oauth.issuer or oauth.token_url):
        section.problem(
            "token_url",
            f"where tokens are to be had (or issuer), since call_auth is {backend.call_auth}",
            shown(None),
        )
    if not oauth.client_id:
        section.problem(
            "client_id", f"the gateway's own, since call_auth is {backend.call_auth}", shown(None)
        )
    if backend.call_auth == "client_credentials" and not oauth.client_secret:
        section.problem(
            "client_secret", "env:NAME or file:PATH, since call_auth is client_credentials", shown(None)
        )


def check_subject(backend: Backend, fields: Fields, access: Access | None) -> None:
    """There is nothing to exchange where nobody has a token that was looked at."""
    if backend.call_auth == "exchange" and access is None:
        fields.problem(
            "call_auth", "another one, since auth.mode is none and clients have no tokens", "'exchange'"
        )


def plain(oauth: OAuth) -> Mapping[str, Any]:
    """As the file would have it: references stay references."""
    said = {name: getattr(oauth, name) for name in _OAUTH}
    found = {name: value for name, value in said.items() if value}
    if oauth.client_secret:
        found["client_secret"] = str(oauth.client_secret)
    return found | ({"scopes": list(oauth.scopes)} if oauth.scopes else {})
