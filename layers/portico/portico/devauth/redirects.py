"""Where codes may be sent: which addresses a client may register, and which of them a request means. Pure."""

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from authz.origins import LOOPBACK

MOST_CHARACTERS: Final = 1000
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!$%&'()*+,./0-9:;=?@A-Z\[\]_a-z~-]+")
_HARMFUL: Final = frozenset(
    {"about", "blob", "chrome", "data", "file", "filesystem", "ftp", "javascript", "mailto", "tel"}
    | {"vbscript", "view-source", "ws", "wss"}
)


def is_acceptable(uri: str) -> bool:
    """https, http on loopback, or a scheme of the client's own (RFC 8252); without fragment and password."""
    if len(uri) > MOST_CHARACTERS or not _PLAIN.fullmatch(uri):
        return False
    try:
        parts = urlsplit(uri)
        if parts.username is not None or parts.port == 0:
            return False
    except ValueError:
        return False
    if parts.scheme in ("http", "https"):
        return bool(parts.hostname) and (parts.scheme == "https" or parts.hostname in LOOPBACK)
    return parts.scheme not in _HARMFUL and parts.path.startswith("/") | bool(parts.netloc)


def is_registered(asked: str, registered: tuple[str, ...]) -> bool:
    """To the letter, but for the port of an address on loopback."""
    return asked in registered or (
        is_acceptable(asked) and any(_same_but_port(asked, one) for one in registered)
    )


def _same_but_port(asked: str, registered: str) -> bool:
    one, other = urlsplit(asked), urlsplit(registered)
    local = one.scheme == "http" and one.hostname in LOOPBACK
    return local and (one._replace(netloc="") == other._replace(netloc="") and one.hostname == other.hostname)


def with_parameters(uri: str, parameters: dict[str, str]) -> str:
    parts = urlsplit(uri)
    query = [*parse_qsl(parts.query, keep_blank_values=True), *parameters.items()]
    return urlunsplit(parts._replace(query=urlencode(query)))


def place(uri: str) -> str:
    """Host and port, or the scheme where there is neither: what a user can make sense of."""
    parts = urlsplit(uri)
    return parts.netloc if parts.scheme in ("http", "https") else f"{parts.scheme}:"


def source(uri: str) -> str:
    """For a content security policy, which has no IPv6 addresses."""
    parts = urlsplit(uri)
    plain = parts.scheme in ("http", "https") and "[" not in parts.netloc
    return f"{parts.scheme}://{parts.netloc}" if plain else f"{parts.scheme}:"
