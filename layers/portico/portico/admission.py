"""Who is asking: by its token, or by what API Gateway's authorizer found out."""

from collections.abc import Mapping
from typing import Any

from authz import challenge
from authz.challenge import Refusal
from authz.context import unpacked
from authz.guard import Guard
from authz.model import Access, Principal
from portico.client import Client


class ByToken:
    def __init__(self, access: Access) -> None:
        self.access = access
        self._guard = Guard(access)

    async def admit(self, client: Client) -> Principal | Refusal:
        sent = [
            value.decode("latin-1") for name, value in client.scope["headers"] if name == b"authorization"
        ]
        return await self._guard.admit(sent)


class ByAuthorizer:
    """The authorizer stands before every function: whom it has not let in is not let in."""

    def __init__(self, access: Access) -> None:
        self.access = access

    async def admit(self, client: Client) -> Principal | Refusal:
        event: Mapping[str, Any] = client.scope.get("aws.event") or {}
        context = (event.get("requestContext") or {}).get("authorizer")
        return unpacked(context) or challenge.no_token(self.access)
