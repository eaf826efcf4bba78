"""Times: a token is worth something only where two clocks agree."""

import base64
import json
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

from portico.cli.doctor.finding import Finding, failed, ok, skipped, warning

NOTICED_S: Final = 5.0
REFUSED_S: Final = 60.0
"""What verifiers of tokens forgive at the most."""
FIX: Final = "set the clock that is wrong by NTP (compare both with a third)"


def claims(token: str) -> dict[str, Any] | None:
    """What a JWT says, unverified; None for any other token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def token(said: dict[str, Any] | None, url: str, now: float) -> Finding:
    if said is None:
        return skipped("token", "it is no JWT, so only the gateway can tell")
    times = {name: said[name] for name in ("exp", "nbf", "iat") if _is_time(said.get(name))}
    if now > times.get("exp", now):
        return failed("token", f"it expired {_span(now - times['exp'])} ago", f"get a new one; or {FIX}")
    ahead = max(times.get("nbf", now), times.get("iat", now)) - now
    if ahead > NOTICED_S:
        say = failed if ahead > REFUSED_S else warning
        return say(
            "token", f"it is valid only in {_span(ahead)}: this clock is slow, or the issuer's fast", FIX
        )
    audience = said.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if audience is not None and url not in named:
        text = f"its audience is {', '.join(map(str, named))}, not {url}"
        fix = "ask for a token with `resource` set to this URL, unless auth.issuers names that audience"
        return warning("token", text, fix)
    return ok("token", f"valid for {_span(times['exp'] - now)}" if "exp" in times else "it never expires")


def skew(date: str | None, now: float, tolerance: float) -> Finding:
    """`tolerance`: how long the answer took, within which nothing can be said."""
    if not date:
        return skipped("clock", "the answers have no Date header")
    try:
        ahead = parsedate_to_datetime(date).replace(tzinfo=UTC).timestamp() - now
    except ValueError:
        return warning("clock", f"its Date header cannot be read: {date}", "correct what writes it")
    off = max(0.0, abs(ahead) - tolerance - 1)  # a Date has whole seconds
    if off <= NOTICED_S:
        return ok("clock", "both clocks agree")
    which = "ahead of" if ahead > 0 else "behind"
    say, are = (failed, "are") if off > REFUSED_S else (warning, "may be")
    text = f"the server's clock is {_span(abs(ahead))} {which} this one: tokens {are} refused"
    return say("clock", text, FIX)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value < 1e12


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
