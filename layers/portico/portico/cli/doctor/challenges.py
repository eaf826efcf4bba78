"""The challenge of RFC 6750 and RFC 9728: how a client learns where to get a token."""

from typing import Final

from portico.cli.doctor.finding import Answer, Finding, failed, ok, warning
from portico.cli.doctor.reading import bearer, is_web_address
from portico.cli.doctor.refusals import front, refused

STEP: Final = "challenge"
REMAPPED: Final = "x-amzn-remapped-www-authenticate"
GATEWAY_RESPONSES: Final = (
    "set the header in GatewayResponses (UNAUTHORIZED and ACCESS_DENIED) of the REST API and let an authorizer "
    "refuse; API Gateway renames the one that a function sends, and HTTP APIs and function URLs cannot do otherwise"
)
CHALLENGE_FIX: Final = 'answer 401 with: WWW-Authenticate: Bearer resource_metadata="https://HOST/.well-known/oauth-protected-resource"'
FORGED: Final = "portico-doctor.is-no-token"


def metadata_url(answer: Answer) -> str:
    """Where the challenge points; empty where it does not say."""
    for name in ("www-authenticate", REMAPPED):
        if url := (bearer(answer.headers.get(name, "")) or {}).get("resource_metadata"):
            return url
    return ""


def asks_for_token(answer: Answer) -> bool:
    return answer.status in (401, 403) and front(STEP, answer) is None


def challenge(answer: Answer, *, loopback: bool) -> Finding:
    """What a request without a token is told."""
    if answer.result is not None:
        return _open(loopback=loopback)
    if not asks_for_token(answer):
        return front(STEP, answer) or refused(STEP, answer)
    header = answer.headers.get("www-authenticate", "")
    if not header and REMAPPED in answer.headers:
        return failed(
            STEP, f"{answer.status}, but the challenge was renamed to {REMAPPED}", GATEWAY_RESPONSES
        )
    if not header:
        return failed(
            STEP,
            f"{answer.status} without WWW-Authenticate: clients cannot find out where to log in",
            CHALLENGE_FIX,
        )
    url = (bearer(header) or {}).get("resource_metadata", "")
    if not is_web_address(url):
        return failed(STEP, "WWW-Authenticate has no readable Bearer resource_metadata", CHALLENGE_FIX)
    if answer.status == 403:
        return failed(
            STEP, "403 for a request without a token: clients begin to log in at 401", CHALLENGE_FIX
        )
    return ok(STEP, f"401, metadata at {url}")


def _open(*, loopback: bool) -> Finding:
    if loopback:
        return ok(STEP, "no token is asked for: fine on loopback")
    fix = "set auth.mode to jwt (AWS: the parameter AuthMode), or keep the address private"
    return warning(STEP, "no token is asked for: whoever reaches this address can use every tool", fix)


def forged(answer: Answer) -> Finding:
    """Of a request with a token that nobody issued."""
    if answer.status == 401:
        return ok("forged token", "it is refused")
    if answer.result is not None:
        return failed(
            "forged token",
            "a token that nobody issued is accepted",
            "verify tokens: set auth.issuers, auth.mode jwt",
        )
    if answer.status == 403 and front("forged token", answer) is None:
        return warning("forged token", "403: clients get a new token at 401 only", CHALLENGE_FIX)
    return refused("forged token", answer)
