"""Who may do what, as values: what operators declare, who a request comes from, and what it asks for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal
from urllib.parse import quote

from authz.places import METADATA

ALGORITHMS: Final = ("RS256", "ES256", "EdDSA")
OPERATE: Final = "portico:operate"
MOST_BYTES: Final = 16_384
"""Of a token."""
SKEW_S: Final = 60
"""By how much clocks may differ."""


@dataclass(frozen=True, slots=True)
class Issuer:
    issuer: str
    audience: tuple[str, ...] = ()
    """One of these must be in a token. Empty: the gateway's own resource."""
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    jwks_url: str | None = None
    """None: as the issuer's metadata says."""


@dataclass(frozen=True, slots=True)
class Match:
    """All that is said must fit; nothing said fits everything. Names are globs of `*` and `?`."""

    backend: str | None = None
    tool: str | None = None
    prompt: str | None = None
    resource: str | None = None
    method: str | None = None
    annotations: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Require:
    scopes: tuple[str, ...] = ()
    """All of them."""
    any_scope: tuple[str, ...] = ()
    """One of them."""
    roles: tuple[str, ...] = ()
    """One of them; `{tool}`, `{prompt}` and `{backend}` stand for what is asked for, by its upstream name."""
    claims: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Per claim, the values of which it must have one."""
    never: bool = False


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a rule's refusal says, in place of what the gateway would."""

    resource_metadata: str | None = None
    """A URL; `{tool}` stands for the exposed name."""
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    match: Match = Match()
    require: Require = Require()
    challenge: Challenge = Challenge()


@dataclass(frozen=True, slots=True)
class Trusted:
    """Who may limit what a request sees, by `x-mcp-authorized`."""

    key: str
    """The public key, as PEM."""
    enforce: bool = False
    """Without the header nothing may be seen, rather than everything."""


@dataclass(frozen=True)
class Access:
    """All that is declared of it."""

    resource: str
    """The URL that tokens are for: the gateway's /mcp."""
    issuers: tuple[Issuer, ...] = ()
    resource_name: str = "MCP Server"
    scopes_supported: tuple[str, ...] = ()
    required_scopes: tuple[str, ...] = ()
    """What every request at /mcp needs."""
    operator_scopes: tuple[str, ...] = (OPERATE,)
    """What /backends, /services and /status need."""
    implied_scopes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """A scope, and those that whoever has it has as well."""
    roles_claim: tuple[str, ...] = ("roles",)
    """The way to it from the top of the claims; `{backend}` stands for the backend's name."""
    rules: tuple[Rule, ...] = ()
    """The first that fits decides."""
    default: Literal["allow", "deny"] = "allow"
    lists: Literal["allowed", "obtainable"] = "allowed"
    """Obtainable: what one scope more would allow is listed, too, for clients that ask for scopes as they need them."""

    @property
    def base_url(self) -> str:
        return self.resource.removesuffix("/mcp")

    def resource_at(self, server: str) -> str:
        """The URL of a virtual server, or the gateway's own."""
        return f"{self.resource}/v/{quote(server)}" if server else self.resource

    @property
    def metadata_url(self) -> str:
        """Where the resource is described: as RFC 9728 has it, where the gateway has its host to itself."""
        return self.metadata_at()

    def metadata_at(self, server: str = "", tool: str = "") -> str:
        """Of a virtual server, or a tool, where one is named."""
        if tool:
            return f"{self.base_url}{METADATA}/tool/{quote(tool, safe='')}"
        return f"{self.base_url}{METADATA}{self.resource_at(server).removeprefix(self.base_url)}"

    @cached_property
    def by_issuer(self) -> Mapping[str, Issuer]:
        return {issuer.issuer: issuer for issuer in self.issuers}

    @cached_property
    def claims_used(self) -> frozenset[str]:
        """The claims that rules look at, besides the scopes."""
        named = {name for rule in self.rules for name, _ in rule.require.claims}
        return frozenset(
            named | ({self.roles_claim[0]} if any(r.require.roles for r in self.rules) else set())
        )


@dataclass(frozen=True, slots=True)
class Principal:
    issuer: str
    subject: str
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict)
    """Those that rules look at."""
    servers: frozenset[str] | None = None
    """The virtual servers that its token is for; None: the whole gateway."""

    @property
    def key(self) -> str:
        """Who it is, for whatever belongs to somebody."""
        return json.dumps([self.issuer, self.subject])

    @property
    def grants(self) -> str:
        """What it may do depends on this alone."""
        return json.dumps([sorted(self.scopes), self.claims], sort_keys=True)


@dataclass(frozen=True, slots=True)
class Target:
    """What a request asks for."""

    method: str
    backend: str = ""
    kind: Literal["tool", "prompt", "resource", ""] = ""
    name: str = ""
    """As exposed; a resource's is its address."""
    upstream_name: str = ""
    annotations: Mapping[str, Any] | None = field(default_factory=dict)
    """None: nobody knows them here."""


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    reason: str
    missing: tuple[str, ...] = ()
    """The scopes that would change it."""
    challenge: Challenge = Challenge()
    """As the rule has it that decided."""
