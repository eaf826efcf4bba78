"""What operators declared, as values. Checked by `load`; nothing here reads, checks or resolves anything."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final, Literal

from authz.model import Access, Trusted
from portico import __version__
from portico.registry.reference import Reference

DEFAULT_FORWARD_HEADERS: Final = (
    "traceparent",
    "tracestate",
    "baggage",
    "accept-language",
    "x-request-id",
)

CredentialUse = Literal["discovery", "call"]
CallAuth = Literal["none", "static", "passthrough", "exchange", "client_credentials", "user"]
"""What a client's call carries to the backend: see `portico.credentials`."""


@dataclass(frozen=True, slots=True)
class Gateway:
    name: str = "portico"
    title: str | None = None
    version: str = __version__
    website_url: str | None = None
    instructions: str | None = None
    public_url: str = "http://127.0.0.1:8088"
    """Without a slash at the end."""
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    session_header_alias: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    body_bytes: int = 5_242_880
    response_bytes: int = 33_554_432
    call_timeout_s: float = 60.0
    keepalive_s: float = 15.0
    session_ttl_s: float = 86_400.0
    """0: a session never ends by itself."""
    page_size: int = 0
    """0: listings come in one page."""
    stream_s: float = 0.0
    """0: a GET stream is never closed by the gateway."""
    answer_ttl_s: float = 3600.0
    """For how long a client may take to answer a backend's question while it keeps its stream open."""
    hold_s: float = 600.0
    """For how long a call waits for a modern client that went away to find answers."""


@dataclass(frozen=True, slots=True)
class Compat:
    unknown_tool: Literal["auto", "result", "error"] = "auto"
    response: Literal["auto", "json", "sse"] = "auto"


@dataclass(frozen=True, slots=True)
class DiscoveryRules:
    interval_s: float = 60.0
    drop_after_failures: int = 3
    invalid_tools: Literal["filter", "reject"] = "filter"
    timeout_s: float = 15.0


@dataclass(frozen=True, slots=True)
class OAuth:
    """The gateway as the client of an authorization server."""

    issuer: str | None = None
    """Its metadata says where its endpoints are."""
    token_url: str | None = None
    client_id: str | None = None
    client_secret: Reference | None = None
    scopes: tuple[str, ...] = ()
    audience: str | None = None
    resource: str | None = None
    """None: the backend's URL."""


@dataclass(frozen=True, slots=True)
class Backend:
    """Equal backends need no restart of anything: equality is the change detection (G1.37)."""

    name: str
    url: str
    prefix: str
    hostname: str
    enabled: bool = True
    credential: Reference | None = None
    """Resolves to the whole value of an `Authorization` header."""
    credential_use: frozenset[CredentialUse] = frozenset({"discovery"})
    call_auth: CallAuth = "none"
    oauth: OAuth | None = None
    ca_cert: Reference | None = None
    """Resolves to PEM text."""
    forward_headers: tuple[str, ...] = DEFAULT_FORWARD_HEADERS
    """Lower-case names; one that ends in `*` stands for all that begin so."""
    user_specific_list: bool = False
    token_url: str | None = None
    category: tuple[str, ...] = ()
    hint: str | None = None
    tags: tuple[str, ...] = ()
    kind: Literal["remote"] = "remote"
    hostname_given: str | None = None
    """The Host header to send, where the operator named one; else the URL's own host."""

    @property
    def id(self) -> str:
        return f"{self.name}:{self.prefix}:{self.hostname}"


@dataclass(frozen=True, slots=True)
class VirtualServer:
    name: str
    tools: tuple[str, ...]
    prompts: tuple[str, ...] | None = None
    """None: prompts are not limited."""


@dataclass(frozen=True, slots=True)
class DevAuth:
    """The gateway issues tokens itself, on its own machine, for development."""

    access_token_s: float = 3600.0


def _no_virtual_servers() -> Mapping[str, VirtualServer]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Registry:
    gateway: Gateway = field(default_factory=Gateway)
    limits: Limits = Limits()
    store: str = "sqlite:.portico/portico.db"
    access: Access | None = None
    """None: nobody is asked who he is, and the gateway serves this machine only."""
    dev_auth: DevAuth | None = None
    login: OAuth | None = None
    """The gateway as a client of its own issuers, for finding out who sits before a browser."""
    encryption_key: Reference | None = None
    """What users' tokens for backends are kept under; None: a key beside the store."""
    trusted: Trusted | None = None
    """Who may limit requests by `x-mcp-authorized`; None: nobody, and the header means nothing."""
    compat: Compat = Compat()
    discovery: DiscoveryRules = DiscoveryRules()
    backends: tuple[Backend, ...] = ()
    virtual_servers: Mapping[str, VirtualServer] = field(default_factory=_no_virtual_servers)
    source: tuple[str, ...] = ()
    """The files it was read from, the main one first."""
    warnings: tuple[str, ...] = ()

    @cached_property
    def prefixes(self) -> Mapping[str, str]:
        """To the names of the backends."""
        return {
            backend.prefix: backend.name for backend in self.backends if backend.prefix and backend.enabled
        }
