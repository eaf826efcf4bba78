"""How far inside a network an address is. Pure.

What a backend names may be no further inside than the backend itself: else a public server could have the gateway ask
a private one.
"""

from collections.abc import Iterable
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

_NAT64: Final = IPv6Network("64:ff9b::/96")


class Zone(IntEnum):
    PUBLIC = 0
    PRIVATE = 1
    LOOPBACK = 2
    NEVER = 3
    """Link-local (where clouds keep their keys), multicast, reserved."""


def zone_of(address: str) -> Zone:
    """What is no address is never to be reached."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return Zone.NEVER
    return _zone(_meant(found))


def innermost(addresses: Iterable[str]) -> Zone:
    """Of all that a name stands for; nothing at all cannot be reached."""
    return max(map(zone_of, addresses), default=Zone.NEVER)


def _zone(address: IPv4Address | IPv6Address) -> Zone:
    if address.is_loopback:
        return Zone.LOOPBACK
    if address.is_link_local or address.is_multicast or address.is_unspecified or address.is_reserved:
        return Zone.NEVER
    return Zone.PUBLIC if address.is_global else Zone.PRIVATE


def _meant(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """An IPv4 address that is wrapped in one of IPv6 is what counts."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour or address
    teredo = address.teredo
    if teredo:
        return teredo[1]
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address
