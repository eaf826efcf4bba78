"""Whom the endpoint works with, and what it asks of them."""

from typing import Any, Protocol

from authz.challenge import Refusal
from authz.model import Access, Principal
from portico.client import Application, Client, Receive, Scope, Send


class Operator(Protocol):
    async def status(self, name: str | None) -> dict[str, Any] | None: ...
    def nudge(self, name: str) -> None: ...
    async def control(self) -> Application | None: ...


class Admission(Protocol):
    @property
    def access(self) -> Access: ...
    async def admit(self, client: Client) -> Principal | Refusal: ...


class Issuing(Protocol):
    """Gives out the tokens that let its clients in."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...
    def jwks(self) -> bytes: ...
    def spent(self, token: str) -> str | None: ...
