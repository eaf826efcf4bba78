"""A token endpoint: what is asked of it, and what its answers mean (RFC 6749, 8693)."""

import re
import time
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus

from portico.credentials.outbound import Answer, Outbound, Unfetched
from portico.http1 import Headers
from portico.redaction import conceal

UNSAID_S: Final = 60.0
"""For how long a token is used that does not say for how long."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}")
_ERROR: Final = re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]{1,100}")
OWN_FAULT: Final = frozenset({"invalid_client", "unauthorized_client", "unsupported_grant_type"})
"""What no user can do anything about."""


@dataclass(frozen=True, slots=True)
class Token:
    access: str = field(repr=False)
    expires_at: float
    refresh: str = field(default="", repr=False)
    scope: str = ""


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The gateway, as the authorization server knows it."""

    id: str
    secret: str = field(default="", repr=False)
    in_form: bool = False
    """The secret goes into the form: some servers know no other way."""


class Refused(Exception):
    """The server has answered, and does not give a token."""

    def __init__(self, error: str, *, is_bare: bool = False) -> None:
        super().__init__(error)
        self.error = error
        self.is_bare = is_bare
        """Nothing says that it is about the token: whoever stands before the server may have answered."""


class Unanswered(Exception):
    """It cannot be reached, or is not well."""


async def ask(
    outbound: Outbound, url: str, near: str, form: dict[str, str], identity: ClientIdentity
) -> Token:
    """Raises Refused, Unanswered."""
    headers: Headers = []
    if identity.secret and not identity.in_form:
        pair = f"{quote_plus(identity.id)}:{quote_plus(identity.secret)}".encode()
        headers = [(b"authorization", b"Basic " + b64encode(pair))]
    else:
        form = form | {"client_id": identity.id}
        form |= {"client_secret": identity.secret} if identity.secret else {}
    try:
        answer = await outbound.post(url, near, form, headers)
    except Unfetched as error:
        raise Unanswered(str(error)) from None
    return _token(answer)


def _token(answer: Answer) -> Token:
    said = answer.said
    if 400 <= answer.status < 500 and answer.status != 429:
        error = said.get("error")
        if isinstance(error, str) and _ERROR.fullmatch(error):
            raise Refused(error)
        raise Refused(f"HTTP {answer.status}", is_bare=True)
    if answer.status != 200:
        raise Unanswered(f"the answer is {answer.status}")
    access, kind = said.get("access_token"), said.get("token_type")
    if not isinstance(access, str) or not _TOKEN.fullmatch(access):
        raise Unanswered("the answer has no token that a header could carry")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise Unanswered("the token is no bearer token")
    refresh, scope = said.get("refresh_token"), said.get("scope")
    for secret in (access, refresh):
        if isinstance(secret, str):
            conceal(secret)
    return Token(
        access,
        time.time() + _seconds(said.get("expires_in")),
        refresh if isinstance(refresh, str) else "",
        scope if isinstance(scope, str) else "",
    )


def _seconds(said: Any) -> float:
    if isinstance(said, str) and said.isdecimal() and len(said) < 10:
        said = int(said)
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said < 1e9:
        return UNSAID_S
    return float(said)
