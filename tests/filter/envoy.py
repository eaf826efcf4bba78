"""Envoy with the filter in front of a gateway, configured from the gateway's own file."""

from typing import Any
from urllib.parse import urlsplit

import yaml

from authz.envoy import Address, Front, bootstrap
from portico.registry import parse
from tests.edge.envoy import Started
from tests.filter.built import wasm
from tests.support.servers import Json

ANYWHERE = Address("127.0.0.1", 0)


def said_of(config: Json, gateway: str, **more: Any) -> Json:
    """`config` as in portico.yaml, with the address of the gateway it is for."""
    registry = parse(yaml.safe_dump(config, sort_keys=False))
    assert registry.access is not None
    at = urlsplit(gateway)
    behind = Address(at.hostname or "", at.port or 80)
    return bootstrap(registry.access, registry.prefixes, Front(str(wasm()), ANYWHERE, behind, **more))


class Filtered(Started):
    def __init__(self, config: Json, gateway: str, **more: Any) -> None:
        super().__init__(said_of(config, gateway, **more))
