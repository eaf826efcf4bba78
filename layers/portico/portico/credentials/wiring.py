"""The parts of it that talk to authorization servers, put together when they are first needed."""

from collections.abc import Awaitable, Callable
from typing import Any

from portico.credentials.consents import Consents
from portico.credentials.fetched import Fetched
from portico.credentials.kept import Kept
from portico.credentials.outbound import Outbound
from portico.credentials.pages import Pages
from portico.credentials.user import Users
from portico.credentials.vault import Vault
from portico.http1 import HttpClient
from portico.registry import Registry
from portico.stores.base import Store


class Wiring:
    def __init__(
        self,
        http: HttpClient,
        store: Store,
        registry: Callable[[], Registry],
        told: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self.outbound = Outbound(http)
        self.fetched = Fetched(self.outbound)
        self.vault = Vault(store, registry)
        self.consents = Consents(self.outbound, self.vault, registry, told)
        self.users = Users(self.outbound, self.vault, self.consents)
        self.documents: Kept[dict[str, Any]] = Kept()
        """What backends say of their tools."""
        self.pages = Pages(self.consents)
