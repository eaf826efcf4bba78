"""Who is asking: by its token, be it another's or the gateway's own, or by what API Gateway's authorizer found out."""

from collections.abc import Mapping
from typing import Any

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


class ByToken:
    def __init__(self, access: Access) -> None:
        self.access = access
        self._guard = Guard(access)

    async def admit(self, client: Client) -> Principal | Refusal:
        return await self._guard.admit(_sent(client))


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
        sent = _sent(client)
        admitted = await self._guard.admit(sent)
        if isinstance(admitted, Principal) and (why := self._issuing.spent(bearer(sent) or "")):
            return challenge.bad_token(self.access, why)
        return admitted


def _sent(client: Client) -> list[str]:
    return [value.decode("latin-1") for name, value in client.scope["headers"] if name == b"authorization"]


class ByAuthorizer:
    """The authorizer stands before every function: whom it has not let in is not let in."""

    def __init__(self, access: Access) -> None:
        self.access = access

    async def admit(self, client: Client) -> Principal | Refusal:
        event: Mapping[str, Any] = client.scope.get("aws.event") or {}
        context = (event.get("requestContext") or {}).get("authorizer")
        return unpacked(context) or challenge.no_token(self.access)
