"""The backends and virtual servers of a portico.yaml."""

from pathlib import Path
from typing import Final

from portico.registry import kinds
from portico.registry.declared import BACKEND_NAME, Declared, DeclaredVirtualServer, backend
from portico.registry.document import Value
from portico.registry.fields import Fields, Listed, Unfit
from portico.registry.kinds import Kinds, one_of
from portico.registry.model import Gateway, VirtualServer
from portico.registry.oauth import Section, beside
from portico.registry.problems import Report, quoted

_REMOTE: Final[Kinds] = {
    "url": kinds.URL,
    "prefix": kinds.PREFIX,
    "hostname": kinds.HOST,
    "enabled": kinds.FLAG,
    "credential": kinds.CREDENTIAL,
    "credential_use": Listed(one_of("discovery", "call"), least=1),
    "call_auth": one_of("none", "static", "passthrough", "exchange", "client_credentials", "user"),
    "oauth": Section(),
    "ca_cert": kinds.CERTIFICATE,
    "forward_headers": kinds.FORWARD_HEADERS,
    "user_specific_list": kinds.FLAG,
    "token_url": kinds.URL,
    "category": kinds.CATEGORY,
    "hint": kinds.HINT,
    "tags": kinds.TAGS,
}
_KIND: Final = one_of("remote")
FIELDS: Final[Kinds] = {"kind": _KIND, **_REMOTE}
"""All that can be said of a backend."""


def read_backends(top: Fields, gateway: Gateway) -> list[Declared]:
    directory = Path(top.report.where).parent
    found = (
        read_backend(name, value, top.report, gateway, directory)
        for name, value in top.entries("backends").items()
    )
    return [declared for declared in found if declared]


def read_backend(
    name: str, value: Value, report: Report, gateway: Gateway, directory: Path
) -> Declared | None:
    """Relative paths in it are taken from `directory`."""
    before = len(report.problems)
    if not BACKEND_NAME.fullmatch(name):
        expected = "a name of a-z, 0-9, _ and - that begins with a letter or digit, at most 63 long"
        report.problem(value.path, value.line, expected, quoted(name))
    fields = Fields(value, report)
    fields.read({"kind": _KIND})
    if len(report.problems) > before:
        return None  # nothing can be said about the fields of another kind
    given = fields.read(_REMOTE, required=("url",))
    fields.refuse_unknown()
    if len(report.problems) > before:
        return None
    for reference in given.keys() & {"credential", "ca_cert"}:
        given[reference] = given[reference].beside(directory)
    if "oauth" in given:
        given["oauth"] = beside(given["oauth"], directory)
    if "credential_use" in given:
        given["credential_use"] = frozenset(given["credential_use"])
    return backend(name, given, fields, gateway)


def read_virtual_servers(top: Fields) -> list[DeclaredVirtualServer]:
    found = []
    for name, value in top.entries("virtual_servers").items():
        try:
            kinds.TEXT.read(Value(name, value.path, value.line), top.report)
        except Unfit:
            continue
        fields = Fields(value, top.report)
        given = fields.read({"tools": kinds.TEXTS, "prompts": kinds.TEXTS})
        fields.refuse_unknown()
        server = VirtualServer(name, given.get("tools", ()), given.get("prompts"))
        found.append(DeclaredVirtualServer(server, fields))
    return found
