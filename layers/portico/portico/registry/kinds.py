"""What the fields of a configuration may hold."""

import math
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from authz.addresses import is_fetchable
from portico.registry.document import Data
from portico.registry.fields import Kind, Listed, Scalar, Unfit
from portico.registry.headers import forward_pattern, own_header
from portico.registry.problems import quoted
from portico.registry.reference import Reference

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_CONTROL_BUT_LINES: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_URL: Final = re.compile(r"https?://[\x21-\x7e]+", re.IGNORECASE)
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9._\[\]:-]+", re.IGNORECASE)
_HOST: Final = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.IGNORECASE
)
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
_STORE: Final = re.compile(r"memory|sqlite:.+|dynamodb:[A-Za-z0-9_.-]{3,255}")
_PEM: Final = "-----BEGIN CERTIFICATE-----"
# Longer than anybody waits, and short enough for every clock and every store.
_MOST_SECONDS: Final = 1e9
_MOST_COUNT: Final = 1 << 40


def _text(*, most: int | None = None, lines: bool = False, empty: bool = False) -> Callable[[Data], str]:
    control = _CONTROL_BUT_LINES if lines else _CONTROL

    def accept(data: Data) -> str:
        if not isinstance(data, str):
            raise Unfit
        if not data and not empty:
            raise Unfit("text that is not empty")
        if control.search(data):
            raise Unfit("text without control characters")
        if most is not None and len(data) > most:
            raise Unfit(found=f"{len(data)} characters")
        return data

    return accept


def _matching(pattern: re.Pattern[str], *, lower: bool = False) -> Callable[[Data], str]:
    def accept(data: Data) -> str:
        if not isinstance(data, str) or not pattern.fullmatch(data):
            raise Unfit
        return data.lower() if lower else data

    return accept


def _flag(data: Data) -> bool:
    if not isinstance(data, bool):
        raise Unfit
    return data


def _count(least: int) -> Callable[[Data], int]:
    def accept(data: Data) -> int:
        if not isinstance(data, int) or isinstance(data, bool) or not least <= data <= _MOST_COUNT:
            raise Unfit
        return data

    return accept


def _seconds(*, zero: bool) -> Callable[[Data], float]:
    def accept(data: Data) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise Unfit
        if not math.isfinite(data) or data > _MOST_SECONDS or data < 0 or (data == 0 and not zero):
            raise Unfit
        return float(data)

    return accept


def _url(data: Data) -> str:
    if not isinstance(data, str) or not _URL.fullmatch(data):
        raise Unfit
    try:
        parts = urlsplit(data)
        has_port = parts.port != 0  # reading it is what checks it
    except ValueError:
        raise Unfit from None
    if not parts.hostname or not has_port:
        raise Unfit
    if parts.username is not None or parts.password is not None:
        raise Unfit("a URL without user and password (use credential: env:NAME)")
    return data


def _public_url(data: Data) -> str:
    url = _url(data)
    if "?" in url or "#" in url:
        raise Unfit("a URL without query and fragment")
    return url.rstrip("/")


def _trusted_url(data: Data) -> str:
    url = _url(data)
    if "?" in url or "#" in url or not is_fetchable(url):
        raise Unfit
    return url


def _prefix(data: Data) -> str:
    if data == "":
        return ""
    if not isinstance(data, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_]{0,63}", data):
        raise Unfit
    if not data.endswith("_"):
        raise Unfit("a prefix that ends in _, or an empty one")
    return data


def _reference(data: Data) -> Reference:
    found = Reference.parse(data) if isinstance(data, str) else None
    if found is None:
        raise Unfit
    return found


def _certificate(data: Data) -> Reference:
    """PEM text, a reference, or the path of a file."""
    if not isinstance(data, str) or not data or "\0" in data:
        raise Unfit
    if _PEM in data and "PRIVATE KEY" in data:
        raise Unfit("a certificate without its private key")
    if _PEM in data:
        return Reference.literal(data)
    if "-----BEGIN" in data or data.partition(":")[0] in {"env", "file", "secret"}:
        return _reference(data)
    return Reference("file", data)


def _public_key(data: Data) -> Reference:
    if not isinstance(data, str) or "PRIVATE KEY" in data:
        raise Unfit
    return Reference.literal(data) if "-----BEGIN PUBLIC KEY-----" in data else _reference(data)


def _secret_or_reference(data: Data) -> Reference:
    if not isinstance(data, str) or not data or _CONTROL.search(data):
        raise Unfit("text without control characters")
    return Reference.parse(data) or Reference.literal(data)


def _secret(data: Data) -> str:
    found = _secret_or_reference(data)
    if found.kind != "literal":
        raise Unfit
    return found.target


def one_of(*choices: str | int) -> Scalar[Any]:
    def accept(data: Data) -> Any:
        if isinstance(data, bool) or data not in choices:
            raise Unfit(found=None if not isinstance(data, str) else quoted(data))
        return data

    *others, last = map(str, choices)
    return Scalar(f"{', '.join(others)} or {last}" if others else last, accept)


TEXT: Final = Scalar("text", _text())
LONG_TEXT: Final = Scalar("text", _text(lines=True, empty=True))
HINT: Final = Scalar("at most 256 characters of text", _text(most=256, lines=True, empty=True))
LABEL: Final = Scalar("at most 128 characters of text", _text(most=128))
FLAG: Final = Scalar("true or false", _flag)
COUNT: Final = Scalar("a whole number, 1 or more", _count(1))
COUNT_OR_NONE: Final = Scalar("a whole number, 0 or more", _count(0))
SECONDS: Final = Scalar("seconds, more than 0", _seconds(zero=False))
SECONDS_OR_NEVER: Final = Scalar("seconds, 0 or more", _seconds(zero=True))
URL: Final = Scalar("an http:// or https:// URL", _url)
PUBLIC_URL: Final = Scalar("an http:// or https:// URL", _public_url)
TRUSTED_URL: Final = Scalar("an https:// URL without query (or http:// on this machine)", _trusted_url)
SCOPE: Final = Scalar("a scope, without spaces, quotes and backslashes", _matching(_SCOPE))
ORIGIN: Final = Scalar("an origin such as https://app.example.com", _matching(_ORIGIN, lower=True))
HOST: Final = Scalar("a host, with or without a port", _matching(_HOST, lower=True))
STORE: Final = Scalar("sqlite:PATH, memory or dynamodb:TABLE", _matching(_STORE))
PREFIX: Final = Scalar("a prefix of a-z, 0-9 and _ that begins with a letter or digit and ends in _", _prefix)
CREDENTIAL: Final = Scalar("env:NAME or file:PATH", _reference, secret=True)
CERTIFICATE: Final = Scalar("PEM text, env:NAME, file:PATH or a path", _certificate, secret=True)
PUBLIC_KEY: Final = Scalar("a public key as PEM, env:NAME or file:PATH", _public_key, secret=True)
SECRET: Final = Scalar(
    "the value itself (for env:NAME or file:PATH there is credential)", _secret, secret=True
)
SECRET_OR_REFERENCE: Final = Scalar("text without control characters", _secret_or_reference, secret=True)
OWN_HEADER: Final = Scalar("the name of a header", own_header)
FORWARDED: Final = Scalar("the name of a header, or its beginning and *", forward_pattern)

TEXTS: Final = Listed(TEXT)
CATEGORY: Final = Listed(LABEL, most=3)
TAGS: Final = Listed(LABEL, most=10)
FORWARD_HEADERS: Final = Listed(FORWARDED)

Kinds = dict[str, Kind[Any]]
