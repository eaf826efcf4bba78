"""Fields that were read -> backends, and the rules between fields and between backends. Both file forms end here."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from portico.registry.fields import Fields
from portico.registry.model import Backend, Gateway, VirtualServer
from portico.registry.oauth import check_call_auth
from portico.registry.problems import quoted

BACKEND_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Declared:
    """A backend, and the fields it was read from: where to point at when it clashes with another one."""

    backend: Backend
    fields: Fields


@dataclass(frozen=True, slots=True)
class DeclaredVirtualServer:
    server: VirtualServer
    fields: Fields


def default_prefix(name: str) -> str:
    return name.replace("-", "_") + "_"


def default_hostname(name: str, prefix: str, gateway: Gateway) -> str:
    """`<prefix>.<host>` (C25). An IPv6 address can not be the end of a name: localhost stands for it."""
    host = urlsplit(gateway.public_url).hostname or "localhost"
    return f"{prefix.rstrip('_') or name}.{'localhost' if ':' in host else host}"


def backend(name: str, given: dict[str, Any], fields: Fields, gateway: Gateway) -> Declared:
    """`given` has the fields of Backend by name; what is missing gets its default."""
    prefix = given.pop("prefix", default_prefix(name))
    used = given.get("credential") and "call" in given.get("credential_use", ())
    if used and given.get("call_auth", "none") == "none":
        given["call_auth"] = "static"  # as older files say it
    named = given.pop("hostname", None)
    hostname = named or default_hostname(name, prefix, gateway)
    made = Backend(name=name, prefix=prefix, hostname=hostname, hostname_given=named, **given)
    if made.user_specific_list and not prefix:
        fields.problem("prefix", "a prefix, since the list is user specific", quoted(prefix))
    check_call_auth(made, fields)
    return Declared(made, fields)


CLAIMS: Final[dict[str, Callable[[Backend], str]]] = {
    "name": lambda backend: backend.name,
    "prefix": lambda backend: backend.prefix,
    "hostname": lambda backend: backend.hostname.lower(),
}
"""What no two backends may have in common."""


def refuse_clashes(declared: Sequence[Declared]) -> None:
    for field, key in CLAIMS.items():
        _unique(declared, field, key)


def _unique(declared: Sequence[Declared], field: str, key: Callable[[Backend], str]) -> None:
    """The first keeps it, every later one is a problem. Nobody owns the empty one."""
    owners: dict[str, Backend] = {}
    for entry in declared:
        value = key(entry.backend)
        owner = owners.setdefault(value, entry.backend) if value else entry.backend
        if owner is not entry.backend:
            expected = f"another one than backend {owner.name} has"
            entry.fields.problem(field, expected, quoted(value))


def virtual_servers(declared: Sequence[DeclaredVirtualServer]) -> dict[str, VirtualServer]:
    found: dict[str, VirtualServer] = {}
    for entry in declared:
        if entry.server.name in found:
            entry.fields.problem("name", "a name that no other virtual server has", quoted(entry.server.name))
        found.setdefault(entry.server.name, entry.server)
    return found
