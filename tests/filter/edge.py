"""A vector's request through the filter, and on through Portico where it is let through."""

import json
from dataclasses import replace
from typing import Any

from authz.filter_config import configuration
from authz.model import Access
from portico.registry import parse
from tests.filter.built import wasm
from tests.filter.host import Host, Request
from tests.vectors.cases import JWKS, TIME, config
from tests.vectors.cases import Request as Said

KEYS_AT = "https://keys.example.com"


def declared(name: str) -> dict[str, Any]:
    """A configuration of the vectors as the filter has it."""
    registry = parse(json.dumps(config(name, keys_at=KEYS_AT)))
    assert registry.access is not None
    return configuration(registry.access, registry.prefixes)


def host_of(name: str) -> Host:
    """With the vectors' keys and time, and nobody who verifies signatures for it."""
    host = Host(wasm(), declared(name), now=TIME)
    assert host.configured, host.logs
    host.tick()
    give_keys(host, *JWKS.values())
    return host


def give_keys(host: Host, *sets: Any) -> None:
    """To whatever is being fetched."""
    for number, call in list(host.calls.items()):
        issuer = int(call.cluster.removeprefix("keys_"))
        host.answer(number, 200, json.dumps(sets[issuer]).encode())


def asked(host: Host, said: Said, piece: int = 1 << 20) -> Request:
    return host.ask(said.verb, said.path, said.headers, said.body, piece)


def passed_on(request: Request, said: Said) -> Said:
    """With the headers as the filter has left them."""
    headers = [(name.decode(), value.decode("latin-1")) for name, value in request.headers]
    return replace(said, headers=[(name, value) for name, value in headers if not name.startswith(":")])


def access_of(name: str) -> Access:
    found = parse(json.dumps(config(name, keys_at=KEYS_AT))).access
    assert found is not None
    return found
