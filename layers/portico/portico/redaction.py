"""What a log line must not say: tokens, cookies, passwords, and every secret that was resolved. Defence in depth: nothing
is meant to log them, and what comes from elsewhere (a backend's error text, an exception, a URL) may hold them all the same.
"""

import math
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import quote

HIDDEN: Final = "***"
LONGEST: Final = 8192
"""More than this of one text is not logged, which also bounds what looking through it costs."""
DEEPEST: Final = 12
SHORTEST: Final = 4
"""Of a secret: shorter ones would be found in every line."""
MOST_KNOWN: Final = 1000

_QUOTED: Final = r"""b?\\*"[^"\r\n]*"?|b?\\*'[^'\r\n]*'?"""
_HEADERS: Final = (
    r"(?:proxy-)?authorization|(?:set-)?cookie|mcp-session-id|x-api-key|x-amz-security-token|x-amzn-oidc-\w+"
)
_NAMES: Final = r"token|secret|passw(?:or)?d|api[-_]?key|signature|credentials?"
_SECRET_NAME: Final = re.compile(rf"(?i){_HEADERS}|{_NAMES}|session[-_]?id")
_RULES: Final = [
    (re.compile(pattern), put)
    for pattern, put in (
        # a header, as a line, in JSON, or as Python shows dictionaries and pairs
        (
            rf"(?i)({_HEADERS})((?:\\*[\"']?\s*[:=]|\\*[\"']\s*,)\s*(?:\[\s*)?)(?:{_QUOTED}|[^\r\n]+)",
            rf"\1\2{HIDDEN}",
        ),
        (r"(?i)\b(bearer|dpop)((?:\s|%20|\+)+)[^\s\"'<>,;)\]}]+", rf"\1\2{HIDDEN}"),
        (r"(?i)\b(basic|negotiate)((?:\s|%20|\+)+)[a-z0-9+/_=-]{8,}", rf"\1\2{HIDDEN}"),
        (r"eyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)*", HIDDEN),
        (rf"(?i)({_NAMES})(\\*[\"']?\s*[=:]\s*)(?:{_QUOTED}|[^\s&\"'\\,;]+)", rf"\1\2{HIDDEN}"),
        (r"(?i)([?&](?:code|key|sig|auth|state)=)[^\s&\"'#]+", rf"\1{HIDDEN}"),
        (r"(://)[^/\s:@]*:[^/\s@]+@", rf"\1{HIDDEN}@"),
    )
]

_known: dict[str, None] = {}
_carried: ContextVar[Mapping[str, str]] = ContextVar("carried", default={})  # noqa: B039 - never changed


def conceal(secret: str) -> None:
    """From here on no line shows it, wherever it comes from."""
    if secret in _known:
        return
    _known.update(dict.fromkeys(_parts(secret)))
    while len(_known) > MOST_KNOWN:
        del _known[next(iter(_known))]


def carry(headers: Mapping[str, str]) -> None:
    """The request at hand has these headers, in lower case: what is secret in them is not shown by lines about it."""
    _carried.set(headers)


def redacted(text: str) -> str:
    if len(text) > LONGEST:
        # A secret that is cut in two would not be known again: what may be the first half of one goes, too.
        text = re.sub(r"\S*\Z", "(cut)", text[:LONGEST])
    for secret in sorted({*_known, *_of_request()}, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, HIDDEN)
    for pattern, put in _RULES:
        text = pattern.sub(put, text)
    return text


def excerpt(body: bytes, length: int = 500) -> str:
    """The beginning of what somebody sent, fit for a log: redacted before it is cut."""
    return redacted(body[: 2 * LONGEST].decode("utf-8", "replace"))[:length]


def cleaned(value: Any, depth: int = 0) -> Any:
    """The same as JSON can have it, without secrets: those in texts, and whatever a telling name stands before."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case dict() if depth < DEEPEST:
            return {redacted(str(name)): _named(name, item, depth) for name, item in value.items()}
        case [str() | bytes() as name, item] if _tells(name):
            return [_text(name), HIDDEN if item else item]
        case list() | tuple() | set() | frozenset() if depth < DEEPEST:
            return [cleaned(item, depth + 1) for item in value]
        case _:
            return redacted(_text(value))


def _named(name: Any, item: Any, depth: int) -> Any:
    return HIDDEN if item and not isinstance(item, bool) and _tells(name) else cleaned(item, depth + 1)


def _tells(name: Any) -> bool:
    return _SECRET_NAME.search(_text(name)) is not None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _parts(secret: str) -> Iterator[str]:
    """The whole, what comes after a scheme, and how both look in a URL and in JSON."""
    for part in (secret, secret.partition(" ")[2].strip()):
        if len(part) >= SHORTEST:
            yield from (part, quote(part, safe=""), part.replace("\\", "\\\\").replace('"', '\\"'))


def _of_request() -> Iterator[str]:
    for name, value in _carried.get().items():
        if "cookie" in name:
            for pair in value.split(";"):
                yield from _parts(pair.partition("=")[2].strip())
        elif _tells(name):
            yield from _parts(value)
