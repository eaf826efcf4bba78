"""Reading what others wrote: challenges and addresses, well formed or not."""

import re
from typing import Final
from urllib.parse import urlsplit

_BEARER: Final = re.compile(r"(?:^|,)\s*bearer(?:\s+|$)", re.IGNORECASE)
_PARAM: Final = re.compile(r'\s*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,|$)')


def bearer(header: str) -> dict[str, str] | None:
    """The parameters of the Bearer challenge, names in lower case; None where there is no such challenge."""
    begin = _BEARER.search(header)
    if begin is None:
        return None
    found: dict[str, str] = {}
    at = begin.end()
    while param := _PARAM.match(header, at):
        found[param[1].lower()] = re.sub(r"\\(.)", r"\1", param[2]) if param[2] is not None else param[3]
        at = param.end()
    return found


def is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
