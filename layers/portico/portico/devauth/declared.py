"""What the server is told where it is part of a gateway."""

from pathlib import Path

from authz.model import Access
from portico.devauth.application import DevAuth
from portico.devauth.model import Terms
from portico.registry import Registry


def beside(registry: Registry) -> DevAuth:
    """Its keys are kept beside the store, and with a store in memory nowhere."""
    kind, _, path = registry.store.partition(":")
    return DevAuth(terms(registry), Path(path).with_name("dev-auth.json") if kind == "sqlite" else None)


def terms(registry: Registry) -> Terms:
    access, dev_auth = registry.access, registry.dev_auth
    if access is None or dev_auth is None:
        raise ValueError("this gateway issues no tokens")
    return Terms(
        registry.gateway.public_url,
        (access.resource,),
        _scopes(access),
        tuple(dict.fromkeys((*access.required_scopes, *access.scopes_supported))),
        frozenset(registry.gateway.allowed_origins),
        dev_auth.access_token_s,
    )


def _scopes(access: Access) -> tuple[str, ...]:
    """All that are declared anywhere."""
    found = [*access.scopes_supported, *access.required_scopes]
    for rule in access.rules:
        found += [*rule.require.scopes, *rule.require.any_scope]
    for scope, implied in access.implied_scopes:
        found += [scope, *implied]
    return tuple(dict.fromkeys((*found, *access.operator_scopes)))
