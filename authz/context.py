"""A principal on its way from the authorizer to a function: API Gateway carries flat text only."""

import json
from collections.abc import Mapping
from typing import Any

from authz.model import Principal


def packed(principal: Principal) -> dict[str, str]:
    return {
        "principal": principal.key,
        "scopes": " ".join(sorted(principal.scopes)),
        "claims": json.dumps(principal.claims),
    } | ({} if principal.servers is None else {"servers": json.dumps(sorted(principal.servers))})


def unpacked(context: Mapping[str, Any] | None) -> Principal | None:
    """None where no authorizer has let this request in."""
    try:
        issuer, subject = json.loads((context or {})["principal"])
        scopes, claims = str((context or {})["scopes"]), json.loads((context or {})["claims"])
        servers = json.loads((context or {}).get("servers", "null"))
    except (KeyError, TypeError, ValueError):
        return None
    return Principal(
        str(issuer),
        str(subject),
        frozenset(scopes.split()),
        claims,
        None if servers is None else frozenset(servers),
    )
