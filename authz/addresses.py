"""Which addresses keys may be fetched from. Pure."""

from urllib.parse import urlsplit

from authz.origins import LOOPBACK


def is_fetchable(url: str, near: str = "") -> bool:
    """https; or http on this machine, where `near` is there as well."""
    try:
        parts, other = urlsplit(url), urlsplit(near)
    except ValueError:
        return False
    if parts.username is not None or not parts.hostname:
        return False
    local = parts.hostname in LOOPBACK and (not near or other.hostname in LOOPBACK)
    if parts.scheme == "http":
        return local
    return parts.scheme == "https" and (local or parts.hostname not in LOOPBACK)
