"""Parameters of a query or a form. Pure."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from portico.devauth.model import OFFLINE, OAuthError, Terms

MOST_FIELDS: Final = 50
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
_TARGETS: Final = frozenset({"resource", "audience"})
NOT_OURS: Final = frozenset({"openid", "profile", "email"})
"""What clients ask of every server: it says nothing of what they may do here."""


def read(raw: bytes, *, several: str = "") -> dict[str, str]:
    """One value for each name (RFC 6749, 3.1), empty ones left out; those called `several` joined by spaces."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=False, max_num_fields=MOST_FIELDS, errors="strict"
        )
    except (UnicodeDecodeError, ValueError):
        raise OAuthError("invalid_request", "the parameters cannot be read") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name == several and name in found:
            found[name] += f" {value}"
        elif name in found:
            code = "invalid_target" if name in _TARGETS else "invalid_request"
            raise OAuthError(code, f"{name} came more than once" if name.isidentifier() else "a repetition")
        else:
            found[name] = value
    return found


def needed(form: Mapping[str, str], name: str) -> str:
    if name not in form:
        raise OAuthError("invalid_request", f"{name} is missing")
    return form[name]


def scopes(form: Mapping[str, str], terms: Terms) -> tuple[str, ...]:
    """Those asked for, each once. Raises OAuthError."""
    asked = dict.fromkeys(form.get("scope", "").split(" "))
    found = [scope for scope in asked if scope and scope not in NOT_OURS]
    for scope in found:
        if not _SCOPE.fullmatch(scope):
            raise OAuthError("invalid_scope", "a scope has characters that scopes do not have")
        if terms.scopes and scope not in (*terms.scopes, OFFLINE):
            raise OAuthError("invalid_scope", f"there is no scope {scope}")
    if len(found) > MOST_FIELDS - 10:
        raise OAuthError("invalid_scope", "too many scopes")
    return tuple(found)


def resource(form: Mapping[str, str], terms: Terms) -> str:
    """What a user's token is to be for (RFC 8707), as it is declared. Raises OAuthError."""
    asked = form.get("resource")
    if asked is None:
        if not terms.resources:
            raise OAuthError("invalid_target", "resource is missing")
        return terms.resources[0]
    found = next((one for one in terms.resources if _canonical(one) == _canonical(asked)), None)
    if found is None and (terms.resources or not is_target(asked)):
        raise OAuthError("invalid_target", "no tokens are issued for this resource")
    return found or asked


def is_target(uri: str) -> bool:
    """An absolute URI without fragment."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[\x21\x24-\x7e]{1,1000}", uri) is not None


def _canonical(uri: str) -> str:
    """Scheme and host in small letters, no slash at the end: clients differ in both."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower()).geturl().rstrip("/")
