"""Principal + place + target -> a refusal, or None. What every edge asks, in this order. Pure."""

from typing import Final

from authz import challenge
from authz.challenge import Refusal
from authz.model import Access, Principal, Target
from authz.places import Place
from authz.policy import decide, lacking

EVERYBODY_NEEDS: Final = "every request needs these scopes"
OPERATORS_NEED: Final = "operators need these scopes"


def entering(access: Access, principal: Principal, place: Place) -> Refusal | None:
    """Whether it may come there at all, whatever it asks for."""
    if principal.servers is not None and not (place.kind == "mcp" and place.server in principal.servers):
        return challenge.bad_token(access, challenge.FOR_ANOTHER, place.server)
    operating = place.kind == "operators"
    missing = lacking(access, principal, access.operator_scopes if operating else access.required_scopes)
    if not missing:
        return None
    return challenge.lacking_scopes(
        access, missing, OPERATORS_NEED if operating else EVERYBODY_NEEDS, place.server
    )


def asking(
    access: Access, principal: Principal, target: Target, server: str = ""
) -> tuple[Refusal | None, str]:
    """And the reason, either way."""
    verdict = decide(access, principal, target)
    refused = None if verdict.allowed else challenge.forbidden(access, verdict, target, server)
    return refused, verdict.reason
