"""What operators declared, validated. Reads files, and nothing else; resolves no secret until asked."""

from portico.registry.access import at, listening_at
from portico.registry.headers import NEVER_FORWARDED
from portico.registry.load import load, parse
from portico.registry.model import (
    DEFAULT_FORWARD_HEADERS,
    Backend,
    Compat,
    DevAuth,
    DiscoveryRules,
    Gateway,
    Limits,
    OAuth,
    Registry,
    VirtualServer,
)
from portico.registry.problems import InvalidConfig, Problem
from portico.registry.records import Merged, as_declared, merge
from portico.registry.reference import Reference, UnresolvedReference
from portico.registry.watch import Changes, Watch, changes

__all__ = [
    "DEFAULT_FORWARD_HEADERS",
    "NEVER_FORWARDED",
    "Backend",
    "Changes",
    "Compat",
    "DevAuth",
    "DiscoveryRules",
    "Gateway",
    "InvalidConfig",
    "Limits",
    "Merged",
    "OAuth",
    "Problem",
    "Reference",
    "Registry",
    "UnresolvedReference",
    "VirtualServer",
    "Watch",
    "as_declared",
    "at",
    "changes",
    "listening_at",
    "load",
    "merge",
    "parse",
]
