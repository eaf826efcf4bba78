"""Backends declared while the gateway runs: records, beside those of the file. Pure.

A record is JSON with the fields that a backend has in portico.yaml. The file comes first: a record cannot take a name,
prefix or hostname that the file has given away, and all it can say of a file's backend is that it is disabled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from portico.registry import kinds
from portico.registry.declared import CLAIMS
from portico.registry.document import read_json
from portico.registry.entries import read_backend
from portico.registry.fields import Fields
from portico.registry.model import Backend, OAuth, Registry
from portico.registry.oauth import check_subject, plain
from portico.registry.problems import MASK, Problem, Report, quoted, shown, without_secrets
from portico.registry.reference import Reference

MAX_BYTES: Final = 1 << 16
ONLY_ENABLED: Final = "nothing but enabled, since the file declares this backend"
_ALWAYS_SHOWN: Final = ("kind", "url", "prefix", "enabled")
_NEVER_SHOWN: Final = ("name", "hostname", "hostname_given")


@dataclass(frozen=True, slots=True)
class Merged:
    registry: Registry
    """The file's, with the backends of the records after its own."""
    problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Per record that is not used, what is wrong with it."""


def merge(file: Registry, records: Mapping[str, bytes]) -> Merged:
    """Among the records the earlier one keeps what two of them want."""
    found = {backend.name: backend for backend in file.backends}
    owners = {claim: backend.name for backend in file.backends for claim in _claims(backend)}
    problems: dict[str, tuple[Problem, ...]] = {}
    for name, value in records.items():
        report = Report("")
        made = (
            _overlaid(found[name], value, report) if name in found else _declared(name, value, file, report)
        )
        if made is not None and name not in found:
            _refuse_clashes(made, owners, report)
        if made is None or report.problems:
            problems[name] = tuple(report.problems)
            continue
        found[name] = made
        owners |= dict.fromkeys(_claims(made), name)
    return Merged(replace(file, backends=tuple(found.values())), MappingProxyType(problems))


def _declared(name: str, value: bytes, file: Registry, report: Report) -> Backend | None:
    given = _fields(value, report)
    if given is None:
        return None
    _refuse_masks(given)
    directory = Path(file.source[0]).parent if file.source else Path()
    declared = read_backend(name, given.value, report, file.gateway, directory)
    if declared is None:
        return None
    made = declared.backend
    check_subject(made, given, file.access)
    secrets = {"credential": made.credential, "oauth": made.oauth and made.oauth.client_secret}
    for field_, secret in secrets.items():
        if secret and secret.kind == "env" and secret.target.startswith("AWS_"):
            given.problem(field_, "a variable that is not the gateway's own key to AWS", str(secret))
    return made


def _overlaid(backend: Backend, value: bytes, report: Report) -> Backend | None:
    given = _fields(value, report)
    if given is None:
        return None
    said = given.read({"enabled": kinds.FLAG})
    for other in given.unknown():
        report.problem(other.path, None, ONLY_ENABLED, "another field")
    return replace(backend, enabled=backend.enabled and said.get("enabled", True))


def _fields(value: bytes, report: Report) -> Fields | None:
    if len(value) > MAX_BYTES:
        report.problem("", None, f"at most {MAX_BYTES} bytes", "more")
        return None
    root = read_json(value, report)
    if root is None:
        return None
    if not isinstance(root.data, dict):
        report.problem("", None, "an object", shown(root.data) if root.data is None else "something else")
        return None
    return Fields(root, report)


def _refuse_masks(given: Fields) -> None:
    """What an answer does not show must not come back as if it were the value."""
    for name in ("url", "ca_cert"):
        text = given.place(name).data
        if isinstance(text, str) and MASK in text:
            given.problem(name, f"the value itself, not {MASK}", MASK)


def _refuse_clashes(backend: Backend, owners: Mapping[tuple[str, str], str], report: Report) -> None:
    for claim in _claims(backend):
        if claim in owners:
            expected = f"another one than backend {owners[claim]} has"
            report.problem(claim[0], None, expected, quoted(claim[1]))


def _claims(backend: Backend) -> list[tuple[str, str]]:
    """Nobody owns the empty one."""
    claims = [(name, key(backend)) for name, key in CLAIMS.items()]
    return [claim for claim in claims if claim[1]]


def as_declared(backend: Backend) -> dict[str, Any]:
    """As a record or the file would have it, but for defaults; a reference stays one, a secret is masked."""
    found: dict[str, Any] = {}
    for own in fields(backend):
        value = getattr(backend, own.name)
        if own.name not in _NEVER_SHOWN and (own.name in _ALWAYS_SHOWN or value != own.default):
            found[own.name] = _plain(own.name, value)
    return found | ({"hostname": backend.hostname_given} if backend.hostname_given else {})


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Reference):
        return str(value)
    if isinstance(value, OAuth):
        return dict(plain(value))
    if isinstance(value, tuple | frozenset):
        return sorted(value) if isinstance(value, frozenset) else list(value)
    return without_secrets(value) if name in ("url", "token_url") else value
