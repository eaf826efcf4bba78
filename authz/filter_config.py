"""Access -> the configuration of the filter in authz/filter: JSON that says all it needs, and where at Envoy keys are. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from authz.model import Access, Issuer, Rule

MOST_BODY_BYTES: Final = 5_242_880


class Unfit(Exception):
    """The filter could not do what is declared. The message says where and why."""


@dataclass(frozen=True, slots=True)
class Source:
    """Keys are fetched through a cluster of Envoy's."""

    cluster: str
    authority: str
    path: str


def source_of(issuer: Issuer, number: int) -> Source:
    """Envoy calls nobody whom its configuration does not name: what an issuer's metadata says comes too late."""
    if issuer.jwks_url is None:
        raise Unfit(
            f"auth.issuers[{number}].jwks_url: the filter does not look for it in the issuer's metadata"
        )
    parts = urlsplit(issuer.jwks_url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Source(f"keys_{number}", parts.netloc, path)


def configuration(
    access: Access,
    prefixes: Mapping[str, str],
    *,
    most_body_bytes: int = MOST_BODY_BYTES,
    modern_bodies: Literal["read", "pass"] = "read",
) -> dict[str, Any]:
    """`prefixes` to the backends that have them. Raises Unfit."""
    return {
        "access": {
            "resource": access.resource,
            "issuers": [_issuer(issuer, number) for number, issuer in enumerate(access.issuers)],
            "required_scopes": list(access.required_scopes),
            "operator_scopes": list(access.operator_scopes),
            "implied_scopes": {scope: list(scopes) for scope, scopes in access.implied_scopes},
            "roles_claim": list(access.roles_claim),
            "rules": [_rule(rule) for rule in access.rules],
            "default": access.default,
        },
        "prefixes": dict(prefixes),
        "most_body_bytes": most_body_bytes,
        "modern_bodies": modern_bodies,
    }


def _issuer(issuer: Issuer, number: int) -> dict[str, Any]:
    return {
        "issuer": issuer.issuer,
        "audience": list(issuer.audience),
        "algorithms": list(issuer.algorithms),
        "keys": asdict(source_of(issuer, number)),
    }


def _rule(rule: Rule) -> dict[str, Any]:
    match, require = rule.match, rule.require
    return {
        "match": _said(
            backend=match.backend,
            tool=match.tool,
            prompt=match.prompt,
            resource=match.resource,
            method=match.method,
            annotations=dict(match.annotations),
        ),
        "require": _said(
            scopes=list(require.scopes),
            any_scope=list(require.any_scope),
            roles=list(require.roles),
            claims={name: list(values) for name, values in require.claims},
            never=require.never,
        ),
        "challenge": _said(
            resource_metadata=rule.challenge.resource_metadata, description=rule.challenge.description
        ),
    }


def _said(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, [], {}, False)}
