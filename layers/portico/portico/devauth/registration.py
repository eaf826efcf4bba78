"""What a client says about itself -> Client; the same rules for those that register and those that publish it.

Registering keeps nothing (RFC 7591, appendix A.5.2): the client's id is what it said, sealed. So whoever registers a
million times fills no memory, and nobody must register again because the server was restarted.
"""

import base64
import hashlib
import hmac
import json
import secrets
import unicodedata
from collections.abc import Mapping
from typing import Any, Final, get_args

from portico.devauth.model import CLIENT, CODE, EXCHANGE, GRANTS, Client, Method, OAuthError
from portico.devauth.redirects import is_acceptable

MOST_ADDRESSES: Final = 10
MOST_NAME: Final = 100
_SEAL_BYTES: Final = 16


def read(metadata: Mapping[str, Any], id_: str = "", usual_method: str = "client_secret_basic") -> Client:
    """Raises OAuthError."""
    method: Any = metadata.get("token_endpoint_auth_method") or usual_method
    if method not in get_args(Method):
        raise OAuthError("invalid_client_metadata", f"{_shown(method)} is no way to authenticate here")
    asked = _texts(metadata, "grant_types") or [CODE]
    grants = frozenset(grant for grant in asked if grant in GRANTS)
    if not grants:
        raise OAuthError("invalid_client_metadata", f"grant_types has none of {', '.join(GRANTS)}")
    if method == "none" and grants & {CLIENT, EXCHANGE}:
        raise OAuthError("invalid_client_metadata", "without a secret a client has no such grant_types")
    types = _texts(metadata, "response_types") or ["code"]
    if CODE in grants and "code" not in types:
        raise OAuthError("invalid_client_metadata", "response_types lacks code")
    return Client(id_, _name(metadata), _addresses(metadata, needed=CODE in grants), grants, method)


def _addresses(metadata: Mapping[str, Any], *, needed: bool) -> tuple[str, ...]:
    try:
        uris = _texts(metadata, "redirect_uris")
    except OAuthError as error:
        raise OAuthError("invalid_redirect_uri", str(error)) from None
    if needed and not uris:
        raise OAuthError("invalid_redirect_uri", "redirect_uris is empty or missing")
    if len(uris) > MOST_ADDRESSES:
        raise OAuthError("invalid_redirect_uri", f"redirect_uris has more than {MOST_ADDRESSES} entries")
    for uri in uris:
        if not is_acceptable(uri):
            text = "is neither https, nor http on loopback, nor of a scheme of the client's own"
            raise OAuthError("invalid_redirect_uri", f"{_shown(uri)} {text}")
    return tuple(uris)


def _name(metadata: Mapping[str, Any]) -> str:
    """Without characters that nobody sees, and that would make one name look like another."""
    name = metadata.get("client_name") or ""
    if not isinstance(name, str):
        raise OAuthError("invalid_client_metadata", "client_name is no text")
    seen = "".join(c for c in name if unicodedata.category(c)[0] != "C")
    return " ".join(seen.split())[:MOST_NAME]


def _texts(metadata: Mapping[str, Any], name: str) -> list[str]:
    found = metadata.get(name) or []
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise OAuthError("invalid_client_metadata", f"{name} is no list of texts")
    return found


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


class Registrar:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def register(self, metadata: Mapping[str, Any], now: float) -> dict[str, Any]:
        """The answer for the client. Raises OAuthError."""
        client = read(metadata)
        said = [client.name, client.redirect_uris, sorted(client.grants), client.method, secrets.token_hex(6)]
        payload = json.dumps(said, separators=(",", ":")).encode()
        id_ = f"{_text(payload)}.{_text(self._seal(payload))}"
        answer = {
            "client_id": id_,
            "client_id_issued_at": int(now),
            "client_name": client.name,
            "redirect_uris": list(client.redirect_uris),
            "grant_types": [grant for grant in GRANTS if grant in client.grants],
            "response_types": ["code"] if CODE in client.grants else [],
            "token_endpoint_auth_method": client.method,
        }
        if client.method == "none":
            return answer
        return answer | {"client_secret": self.secret(id_), "client_secret_expires_at": 0}

    def find(self, id_: str) -> Client | None:
        payload, _, seal = id_.partition(".")
        try:
            raw, given = _bytes(payload), _bytes(seal)
        except ValueError:
            return None
        if not hmac.compare_digest(self._seal(raw), given) or f"{_text(raw)}.{_text(given)}" != id_:
            return None
        name, uris, grants, method, _ = json.loads(raw)
        return Client(id_, name, tuple(uris), frozenset(grants), method)

    def secret(self, id_: str) -> str:
        return _text(hmac.digest(self._secret, b"secret of " + id_.encode(), hashlib.sha256))

    def _seal(self, payload: bytes) -> bytes:
        return hmac.digest(self._secret, b"client " + payload, hashlib.sha256)[:_SEAL_BYTES]


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
