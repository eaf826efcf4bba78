"""What an API Gateway proxy event says, whichever of its two forms of headers it has; and the trace it belongs to."""

import re
import secrets
from typing import Any, Final

Event = dict[str, Any]

_ROOT: Final = re.compile(r"1-([0-9a-f]{8})-([0-9a-f]{24})")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*", re.DOTALL)
_ID: Final = re.compile(r"[\w.:/+=@-]{1,128}", re.ASCII)


def headers_of(event: Event) -> dict[str, str]:
    """In lower case; the last of several is taken, as API Gateway does."""
    several = event.get("multiValueHeaders") or {}
    found = {name.lower(): str(values[-1]) for name, values in several.items() if values}
    return found | {name.lower(): str(value) for name, value in (event.get("headers") or {}).items()}


def header(event: Event, name: str) -> str:
    return headers_of(event).get(name, "")


def principal(event: Event) -> str:
    """Whom the authorizer has let in; nobody where there is none."""
    verdict = (event.get("requestContext") or {}).get("authorizer") or {}
    return str(verdict.get("principalId") or "")


def correlation_id(headers: dict[str, str]) -> str | None:
    """What the client calls its request, or the trace that it is part of. Anything odd is not taken for a name."""
    called = headers.get("x-request-id", "")
    if _ID.fullmatch(called):
        return called
    trace = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    return trace[1] if trace else None


def traceparent(amazon: str) -> str:
    """X-Ray's trace header as W3C has it; nothing where there is none."""
    parts = dict(part.partition("=")[::2] for part in amazon.split(";"))
    root = _ROOT.fullmatch(parts.get("Root", ""))
    if root is None:
        return ""
    parent = parts.get("Parent", "")
    if not re.fullmatch(r"[0-9a-f]{16}", parent):
        parent = secrets.token_hex(8)
    return f"00-{root[1]}{root[2]}-{parent}-{'01' if parts.get('Sampled') == '1' else '00'}"


def traced(event: Event, amazon: str) -> Event:
    """The event with a trace that can be found again wherever it is handed over to; a client's own stays."""
    made = "" if "traceparent" in headers_of(event) else traceparent(amazon)
    if not made:
        return event
    single, several = event.get("headers") or {}, event.get("multiValueHeaders") or {}
    return event | {
        "headers": single | {"traceparent": made},
        "multiValueHeaders": several | {"traceparent": [made]},
    }
