"""Who is asking: by its token, be it another's or the gateway's own, or by what API Gateway's authorizer found out."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

from authz import challenge
from authz.challenge import Refusal
from authz.context import unpacked
from authz.fetching import Unfetched
from authz.guard import Guard
from authz.keys import Keys
from authz.model import Access, Principal
from authz.tokens import bearer
from portico.client import Client
from portico.parties import Issuing
from portico.protocol.inbound import classify
from portico.protocol.jsonrpc import Message
from portico.protocol.modern import contradicted

LOOKED_INTO: Final = 65_536
LOOK_S: Final = 2.0
"""Nobody who is not known is listened to for long."""


class ByToken:
    def __init__(self, access: Access, keys: Keys | None = None) -> None:
        self.access = access
        self._keys = keys or Keys()
        self._guard = Guard(access, self._keys)

    def under(self, access: Access) -> "ByToken":
        """By other rules. Keys of the same issuers stay known: who changes a rule may do so while none can be had."""
        return ByToken(access, self._keys if access.issuers == self.access.issuers else None)

    async def admit(self, client: Client) -> Principal | Refusal:
        found = await self._guard.admit(_sent(client), client.place.server)
        return await _told(self.access, found, client)


class ByOwnToken:
    """Keys come from within the process, and what has been revoked is known at once."""

    def __init__(self, access: Access, issuing: Issuing) -> None:
        self.access = access
        self._issuing = issuing
        self._guard = Guard(access, Keys(self._jwks))

    async def _jwks(self, url: str) -> bytes:
        if url not in {issuer.jwks_url for issuer in self.access.issuers}:
            raise Unfetched("only the gateway's own keys are used")
        return self._issuing.jwks()

    async def admit(self, client: Client) -> Principal | Refusal:
        sent, server = _sent(client), client.place.server
        found = await self._guard.admit(sent, server)
        if isinstance(found, Principal) and (why := self._issuing.spent(bearer(sent) or "")):
            found = challenge.bad_token(self.access, why, server)
        return await _told(self.access, found, client)


def _sent(client: Client) -> list[str]:
    return [value.decode("latin-1") for name, value in client.scope["headers"] if name == b"authorization"]


async def _told(access: Access, found: Principal | Refusal, client: Client) -> Principal | Refusal:
    """A refusal leads to the tool's own metadata where it is known which one is meant."""
    return found if isinstance(found, Principal) else challenge.about_tool(access, found, await _tool(client))


async def _tool(client: Client) -> str:
    """Which tool a refused request calls, as far as that is soon known; its id is taken note of, too."""
    if client.place.kind != "mcp" or client.scope["method"] != "POST":
        return ""
    body = None
    if client.headers.get("content-length", "").isdecimal():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                body = await client.body(LOOKED_INTO)
    message = classify(body) if body else None
    if not isinstance(message, Message):
        return ""
    client.read(message)
    name = message.param("name")
    honest = message.method == "tools/call" and contradicted(message, client.headers) is None
    return name if honest and isinstance(name, str) else ""


class ByAuthorizer:
    """The authorizer stands before every function: whom it has not let in is not let in."""

    def __init__(self, access: Access) -> None:
        self.access = access

    async def admit(self, client: Client) -> Principal | Refusal:
        event: Mapping[str, Any] = client.scope.get("aws.event") or {}
        context = (event.get("requestContext") or {}).get("authorizer")
        return unpacked(context) or challenge.no_token(self.access, client.place.server)
