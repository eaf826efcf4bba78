"""Kuadrant's servers file, taken as it is (its `internal/config/types.go` is the reference).

What differs from a portico.yaml: no prefix means none, credentials may be written out, an empty text is as good as no
field, and a field that is not known is passed over with a warning instead of refused.
"""

import re
from binascii import b2a_base64
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from portico.registry.declared import BACKEND_NAME, Declared, DeclaredVirtualServer, backend
from portico.registry.document import Value
from portico.registry.fields import Fields
from portico.registry.kinds import (
    CATEGORY,
    CERTIFICATE,
    FLAG,
    HINT,
    HOST,
    PREFIX,
    SECRET,
    SECRET_OR_REFERENCE,
    TAGS,
    TEXT,
    TEXTS,
    URL,
    Kinds,
    one_of,
)
from portico.registry.model import Gateway, VirtualServer
from portico.registry.problems import Report, quoted
from portico.registry.reference import Reference

TOP_LEVEL: Final = frozenset({"servers", "virtualServers", "gatewayCACertPEM"})

_SERVER: Final[Kinds] = {
    "name": TEXT,
    "url": URL,
    "hostname": HOST,
    "prefix": PREFIX,
    "toolPrefix": PREFIX,
    "enabled": FLAG,
    "state": one_of("Enabled", "Disabled"),
    "credential": SECRET_OR_REFERENCE,
    "caCert": CERTIFICATE,
    "userSpecificList": FLAG,
    "category": CATEGORY,
    "hint": HINT,
    "tags": TAGS,
}
_SAME: Final = {"url", "hostname", "category", "hint", "tags"}
_AUTH: Final[Kinds] = {
    "type": one_of("bearer", "basic", "none"),
    "token": SECRET,
    "username": SECRET,
    "password": SECRET,
}
_NEEDED: Final = {"bearer": ("token",), "basic": ("username", "password"), "none": ()}


@dataclass(slots=True)
class Servers:
    backends: list[Declared] = field(default_factory=list)
    virtual_servers: list[DeclaredVirtualServer] = field(default_factory=list)


def read(root: Value, report: Report, gateway: Gateway, taken: Collection[str] = ()) -> Servers:
    """`taken`: names of backends that are declared elsewhere."""
    top = _fields(root, report)
    authority = top.read({"gatewayCACertPEM": CERTIFICATE}).get("gatewayCACertPEM")
    found = Servers()
    names = dict.fromkeys(taken, "")
    for item in top.items("servers"):
        declared = _server(item, report, gateway, names, authority)
        found.backends += [declared] if declared else []
    for item in top.items("virtualServers"):
        virtual = _virtual_server(item, report)
        found.virtual_servers += [virtual] if virtual else []
    _pass_over_unknown(top)
    return found


def _server(
    item: Value, report: Report, gateway: Gateway, names: dict[str, str], authority: Reference | None
) -> Declared | None:
    before = len(report.problems)
    fields = _fields(item, report)
    given = fields.read(_SERVER, required=("name", "url"))
    credential = _credential(fields, given)
    token_url = _token_url(fields)
    _pass_over_unknown(fields)
    if len(report.problems) > before:
        return None
    if name := _name(given["name"], names):
        made = {key: value for key, value in given.items() if key in _SAME}
        directory = Path(report.where).parent
        ca_cert = given.get("caCert", authority)
        made |= {
            "prefix": given.get("prefix", given.get("toolPrefix", "")),
            "enabled": given.get("enabled", True) and given.get("state") != "Disabled",
            "user_specific_list": given.get("userSpecificList", False),
            "credential": credential and credential.beside(directory),
            "ca_cert": ca_cert and ca_cert.beside(directory),
            "token_url": token_url,
        }
        return backend(name, made, fields, gateway)
    fields.problem("name", "a name that no other server has", quoted(given["name"]))
    return None


def _name(original: str, names: dict[str, str]) -> str | None:
    """`namespace/name` -> `namespace-name`, told apart from one that is really called so. None: it is there twice."""
    if original in names.values():
        return None
    plain = re.sub(r"[^a-z0-9_-]", "-", original.lower()).lstrip("_-")
    if plain == original and names.get(plain) == "":
        return None
    if plain in names or not BACKEND_NAME.fullmatch(plain):
        from hashlib import sha256  # noqa: PLC0415 - hardly ever needed

        plain = f"{plain[:54]}-{sha256(original.encode()).hexdigest()[:8]}".lstrip("-")
    names[plain] = original
    return plain


def _credential(fields: Fields, given: dict[str, Any]) -> Reference | None:
    auth = _section(fields, "auth")
    read = auth.read(_AUTH)
    _pass_over_unknown(auth)
    kind = read.get("type", "none")
    missing = [name for name in _NEEDED[kind] if auth.raw(name) is None]
    for name in missing:
        auth.problem(name, f"a {name}, since the type is {kind}", "nothing")
    if "credential" in given:
        credential: Reference = given["credential"]
        return credential
    if missing or not all(name in read for name in _NEEDED[kind]):
        return None
    if kind == "bearer":
        return Reference.literal(f"Bearer {read['token']}")
    if kind == "basic":
        pair = f"{read['username']}:{read['password']}".encode()
        return Reference.literal(f"Basic {b2a_base64(pair, newline=False).decode()}")
    return None


def _token_url(fields: Fields) -> str | None:
    elicitation = _section(fields, "tokenURLElicitation")
    found: str | None = elicitation.read({"url": URL}).get("url")
    _pass_over_unknown(elicitation)
    return found


def _virtual_server(item: Value, report: Report) -> DeclaredVirtualServer | None:
    fields = _fields(item, report)
    given = fields.read({"name": TEXT, "tools": TEXTS, "prompts": TEXTS}, required=("name",))
    _pass_over_unknown(fields)
    if "name" not in given:
        return None
    server = VirtualServer(given["name"], given.get("tools", ()), given.get("prompts"))
    return DeclaredVirtualServer(server, fields)


def _fields(value: Value, report: Report) -> Fields:
    """Go's zero value: an empty text is no field."""
    if isinstance(value.data, dict):
        filled = {name: held for name, held in value.data.items() if held.data != ""}
        value = Value(filled, value.path, value.line)
    return Fields(value, report)


def _section(fields: Fields, name: str) -> Fields:
    return _fields(fields.raw(name) or fields.place(name), fields.report)


def _pass_over_unknown(fields: Fields) -> None:
    for value in fields.unknown():
        fields.report.warning(value.path, value.line, "not known here, passed over")
