"""What clients may know of the resource before they have a token (RFC 9728). Pure."""

from typing import Any

from authz.model import Access, Target
from authz.policy import fits


def document(access: Access, server: str = "", scopes: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Of the gateway; of a virtual server; or of one tool, which is reached at the gateway's URL with these scopes."""
    return {
        "resource_name": access.resource_name,
        "resource": access.resource_at(server),
        "authorization_servers": [issuer.issuer for issuer in access.issuers],
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(access.scopes_supported if scopes is None else scopes),
    }


def scopes_of(access: Access, target: Target) -> tuple[str, ...]:
    """What a token for this one needs, as far as that is a matter of scopes."""
    rule = next((rule for rule in access.rules if fits(rule.match, target)), None)
    own = (*rule.require.scopes, *rule.require.any_scope[:1]) if rule else ()
    return tuple(dict.fromkeys((*access.required_scopes, *own)))
