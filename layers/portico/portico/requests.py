"""One message of a client, and what is known of who sent it."""

import hashlib
from dataclasses import dataclass

from portico.caller import RequestHeaders
from portico.catalogue import Allows, Catalogue
from portico.protocol.jsonrpc import Message
from portico.protocol.modern import Envelope
from portico.sessions import Session


@dataclass(frozen=True, slots=True)
class LegacyRequest:
    message: Message
    headers: RequestHeaders
    catalogue: Catalogue
    """As this client may see it."""
    session: Session


@dataclass(frozen=True, slots=True)
class ModernRequest:
    message: Message
    headers: RequestHeaders
    catalogue: Catalogue
    """As this client may see it."""
    envelope: Envelope
    owner: str = ""
    """Who is asking, where that is known."""
    hears: Allows | None = None
    """What it may be told of, which may be less than it sees; None: all that it sees."""

    @property
    def principal(self) -> str:
        """Who is asking, as far as it is known: what one began, another cannot go on with."""
        if self.owner:
            return self.owner
        token = self.headers.get("authorization", "")
        return hashlib.sha256(token.encode()).hexdigest() if token else ""


Request = LegacyRequest | ModernRequest
