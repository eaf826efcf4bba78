"""portico backends | add | remove | disable | enable: what operators do to a running gateway."""

import argparse
import asyncio
import json
from typing import Any
from urllib.parse import quote

from portico.cli.client import Caller, CallFailed


def show(arguments: argparse.Namespace) -> int:
    found = _send(arguments, b"GET", "/backends").get("backends")
    if not isinstance(found, list):
        raise CallFailed(f"what answers at {arguments.url} is no Portico")
    if arguments.json:
        print(json.dumps(found, indent=2))
    for one in [] if arguments.json else found:
        backend = one["backend"] or {}
        state = "BROKEN" if one["problems"] else "enabled" if backend.get("enabled") else "disabled"
        print(f"{one['name']:20} {one['source']:6} {state:8} {backend.get('url', '')}".rstrip())
    return 0


def add(arguments: argparse.Namespace) -> int:
    optional = {"prefix": arguments.prefix, "credential": arguments.credential}
    given = {name: value for name, value in optional.items() if value is not None}
    fields = {"name": arguments.name, "url": arguments.backend_url, **given}
    return _done(arguments, _send(arguments, b"POST", "/backends", fields), "added")


def remove(arguments: argparse.Namespace) -> int:
    return _done(arguments, _send(arguments, b"DELETE", _path(arguments)), "removed")


def disable(arguments: argparse.Namespace) -> int:
    return _done(arguments, _send(arguments, b"PATCH", _path(arguments), {"enabled": False}), "disabled")


def enable(arguments: argparse.Namespace) -> int:
    return _done(arguments, _send(arguments, b"PATCH", _path(arguments), {"enabled": True}), "enabled")


def _path(arguments: argparse.Namespace) -> str:
    return f"/backends/{quote(arguments.name, safe='')}"


def _send(
    arguments: argparse.Namespace, verb: bytes, path: str, fields: dict[str, Any] | None = None
) -> dict[str, Any]:
    return asyncio.run(Caller(arguments.url).send(verb, path, fields))


def _done(arguments: argparse.Namespace, answer: dict[str, Any], what: str) -> int:
    print(json.dumps(answer, indent=2) if arguments.json else f"{arguments.name} {what}")
    return 0
