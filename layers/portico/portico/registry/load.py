"""portico.yaml -> Registry. A bad file is refused whole, with everything that is wrong in it."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from portico.registry import document, kinds, kuadrant
from portico.registry.access import read_auth
from portico.registry.declared import (
    Declared,
    DeclaredVirtualServer,
    refuse_clashes,
    virtual_servers,
)
from portico.registry.document import Value
from portico.registry.entries import read_backends, read_virtual_servers
from portico.registry.fields import Fields, Listed
from portico.registry.files import read_text
from portico.registry.kinds import Kinds, one_of
from portico.registry.model import Compat, DiscoveryRules, Gateway, Limits, Registry
from portico.registry.oauth import check_subject, read_login
from portico.registry.problems import Report, quoted

_GATEWAY: Final[Kinds] = {
    "name": kinds.TEXT,
    "title": kinds.TEXT,
    "version": kinds.TEXT,
    "website_url": kinds.URL,
    "instructions": kinds.LONG_TEXT,
    "public_url": kinds.PUBLIC_URL,
    "allowed_origins": Listed(kinds.ORIGIN),
    "allowed_hosts": Listed(kinds.HOST),
    "session_header_alias": kinds.OWN_HEADER,
}
_LIMITS: Final[Kinds] = {
    "body_bytes": kinds.COUNT,
    "response_bytes": kinds.COUNT,
    "call_timeout_s": kinds.SECONDS,
    "keepalive_s": kinds.SECONDS,
    "session_ttl_s": kinds.SECONDS_OR_NEVER,
    "page_size": kinds.COUNT_OR_NONE,
    "stream_s": kinds.SECONDS_OR_NEVER,
    "answer_ttl_s": kinds.SECONDS,
    "hold_s": kinds.SECONDS,
}
_COMPAT: Final[Kinds] = {
    "unknown_tool": one_of("auto", "result", "error"),
    "response": one_of("auto", "json", "sse"),
}
_DISCOVERY: Final[Kinds] = {
    "interval_s": kinds.SECONDS,
    "drop_after_failures": kinds.COUNT,
    "invalid_tools": one_of("filter", "reject"),
    "timeout_s": kinds.SECONDS,
}
_TOP_LEVEL: Final = frozenset(
    {
        "version",
        "gateway",
        "limits",
        "store",
        "auth",
        "policies",
        "compat",
        "discovery",
        "backends",
        "virtual_servers",
        "include",
    }
)


def load(path: str | os.PathLike[str], *, version: str | None = None) -> Registry:
    """Raises InvalidConfig. `version`: what the gateway calls its version if the file does not say."""
    report = Report(os.fspath(path))
    text = read_text(Path(path), report)
    if text is None:
        raise report.refusal()
    return _registry(text, report, version)


def parse(text: str, where: str = "portico.yaml", *, version: str | None = None) -> Registry:
    """As `load`, of a file called `where`: relative paths in it are taken from there."""
    return _registry(text, Report(where), version)


def _registry(text: str, report: Report, version: str | None) -> Registry:
    root = document.read(text, report)
    if root is None:
        raise report.refusal()
    registry = _kuadrant(root, report, version) if _is_kuadrant(root) else _portico(root, report, version)
    if report.problems:
        raise report.refusal()
    return registry


def _is_kuadrant(root: Value) -> bool:
    """Files that are both are ours, so that nothing in them is passed over."""
    names = root.data.keys() if isinstance(root.data, dict) else set()
    return bool(names & kuadrant.TOP_LEVEL) and not names & _TOP_LEVEL


def _kuadrant(root: Value, report: Report, version: str | None) -> Registry:
    gateway = Gateway(version=version) if version else Gateway()
    servers = kuadrant.read(root, report, gateway)
    return _assemble({"gateway": gateway}, servers.backends, servers.virtual_servers, report)


def _portico(root: Value, report: Report, version: str | None) -> Registry:
    top = Fields(root, report)
    given = top.read({"version": one_of(1), "store": kinds.STORE, "include": kinds.TEXTS})
    given.pop("version", None)
    includes = given.pop("include", ())
    gateway = _section(top, "gateway", _GATEWAY)
    given["gateway"] = Gateway(**({"version": version} if version else {}) | gateway)
    given["limits"] = Limits(**_section(top, "limits", _LIMITS))
    given["compat"] = Compat(**_section(top, "compat", _COMPAT))
    given["discovery"] = DiscoveryRules(**_section(top, "discovery", _DISCOVERY))
    given |= read_auth(top, given["gateway"])
    given |= read_login(top)
    backends = read_backends(top, given["gateway"])
    virtual = read_virtual_servers(top)
    top.refuse_unknown()
    for index, name in enumerate(includes):
        servers = _include(name, f"include[{index}]", top, given["gateway"], backends)
        backends += servers.backends
        virtual += servers.virtual_servers
    return _assemble(given, backends, virtual, report)


def _section(top: Fields, name: str, section: Kinds) -> dict[str, Any]:
    fields = top.section(name)
    found = fields.read(section)
    fields.refuse_unknown()
    return found


def _assemble(
    given: dict[str, Any],
    backends: Sequence[Declared],
    virtual: Sequence[DeclaredVirtualServer],
    report: Report,
) -> Registry:
    refuse_clashes(backends)
    for entry in backends:
        check_subject(entry.backend, entry.fields, given.get("access"))
    return Registry(
        **given,
        backends=tuple(entry.backend for entry in backends),
        virtual_servers=MappingProxyType(virtual_servers(virtual)),
        source=tuple(report.files),
        warnings=tuple(report.warnings),
    )


def _include(
    name: str, path: str, top: Fields, gateway: Gateway, backends: Sequence[Declared]
) -> kuadrant.Servers:
    file = Path(top.report.where).parent / name
    if str(file) in top.report.files:
        top.report.problem(path, top.place("include").line, "every file once", quoted(name))
        return kuadrant.Servers()
    report = top.report.inside(str(file))
    text = read_text(file, report)
    root = document.read(text, report) if text is not None else None
    if root is None:
        return kuadrant.Servers()
    if not _is_kuadrant(root):
        report.problem("", root.line, "a Kuadrant servers file", "something else")
        return kuadrant.Servers()
    return kuadrant.read(root, report, gateway, [entry.backend.name for entry in backends])
