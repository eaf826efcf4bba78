"""What the server is told, whom it knows, and what it refuses."""

import re
from dataclasses import dataclass
from typing import Final, Literal

CODE: Final = "authorization_code"
REFRESH: Final = "refresh_token"
CLIENT: Final = "client_credentials"
EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
GRANTS: Final = (CODE, REFRESH, CLIENT, EXCHANGE)
OFFLINE: Final = "offline_access"
"""The scope that a refresh token is given for: clients that cannot tell a refresh from a step-up do not ask for it."""
METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
ALGORITHM: Final = "ES256"

_UNFIT: Final = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")

Method = Literal["none", "client_secret_basic", "client_secret_post"]


@dataclass(frozen=True, slots=True)
class Terms:
    issuer: str
    """An origin, without a slash at the end."""
    resources: tuple[str, ...] = ()
    """What tokens can be asked for on a user's behalf, the usual one first. Empty: whatever a client names."""
    scopes: tuple[str, ...] = ()
    """All there are. Empty: whatever a client names."""
    usual_scopes: tuple[str, ...] = ()
    """What is offered to a client that names none."""
    origins: frozenset[str] = frozenset()
    """Web pages from elsewhere that may use it, besides those on loopback."""
    access_token_s: float = 3600.0
    refresh_token_s: float = 30 * 86_400.0
    code_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Client:
    id: str
    name: str
    redirect_uris: tuple[str, ...]
    grants: frozenset[str]
    method: Method = "none"


class OAuthError(Exception):
    """`code` is one of OAuth's, the message is for whoever writes the client."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(_UNFIT.sub("?", message))
        self.code, self.status = code, status


class Unredirected(Exception):
    """A request that must not be answered at the address it names: its user is told instead."""
