"""What needs nothing fetched: the gateway's secret, and the client's own token. Cheap to import."""

import base64
import json
from typing import Any

from portico.caller import RequestHeaders
from portico.errors import BackendUnreachable, NoCredential
from portico.http1 import Headers
from portico.registry import Backend, UnresolvedReference


def static(backend: Backend) -> Headers:
    if backend.credential is None:
        return []
    try:
        value = backend.credential.resolve()
    except UnresolvedReference as error:
        raise BackendUnreachable(f"the credential of this backend cannot be had ({error})") from None
    if any(ord(character) < 32 for character in value):
        raise BackendUnreachable("the credential of this backend has control characters")
    return [(b"authorization", value.encode("latin-1", "replace"))]


def passthrough(backend: Backend, headers: RequestHeaders) -> Headers:
    """A token that is for the gateway alone stays here: whoever else had it could use it in the client's name.

    Where nobody is asked who he is, the header is none of the gateway's business.
    """
    caller = headers.caller
    if not caller.owner:
        sent = headers.get("authorization")
        return [] if sent is None else [(b"authorization", sent.encode("latin-1"))]
    wanted = (backend.oauth and backend.oauth.audience) or backend.url
    if wanted not in audiences(caller.token):
        text = f"the client's token is not for this backend: its audience must have {wanted}, too"
        raise NoCredential(403, text, audience=wanted)
    return bearer(caller.token)


def bearer(token: str) -> Headers:
    return [(b"authorization", b"Bearer " + token.encode("latin-1"))]


def audiences(token: str) -> list[Any]:
    """Of a token that was found to be good."""
    part = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        said = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        return []
    found = said.get("aud") if isinstance(said, dict) else None
    return found if isinstance(found, list) else [found]
