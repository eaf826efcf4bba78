"""Registry + client -> the part of the catalogue that it may see, and what it is refused."""

import time

from authz import capabilities
from authz.capabilities import Capabilities
from authz.challenge import Refusal
from authz.model import Target
from authz.places import VIRTUAL_SERVER
from portico.catalogue import Allows, Catalogue
from portico.client import Client
from portico.observability import Call
from portico.permissions import allowing, denied, hearing
from portico.protocol.jsonrpc import INVALID_REQUEST, Message, Rejection
from portico.publication import Publication
from portico.registry import Registry, VirtualServer


def seen_by(client: Client, registry: Registry, publication: Publication) -> Catalogue | Rejection:
    """All of it, or what is left by the three who may limit it: who stands before the gateway and signs
    (`x-mcp-authorized`), a virtual server, and the rules for who asks."""
    server = _server(client, registry)
    if isinstance(server, Rejection):
        return server
    signed, access, principal = _signed(client, registry), registry.access, client.principal
    if access is None or principal is None:
        return _part(publication, server, signed)
    return _part(publication, server, signed, principal.grants, allowing(access, principal))


def refused_to(
    client: Client, message: Message, registry: Registry, publication: Publication, call: Call | None
) -> Refusal | None:
    """What is not shown is unknown, and judged by its name as anything unknown is."""
    access, principal = registry.access, client.principal
    if access is None or principal is None or message.kind != "request":
        return None
    server = _server(client, registry)
    if isinstance(server, Rejection):
        return None
    shown = _part(publication, server, _signed(client, registry))
    refused, reason, target = denied(
        access, principal, message, shown, registry.prefixes, client.place.server
    )
    if call is not None:
        call.judged(target, refused, reason)
    return refused


def heard_by(client: Client, registry: Registry) -> Allows | None:
    """Of what it sees; a call is judged when it comes, a subscription lasts."""
    access, principal = registry.access, client.principal
    return None if access is None or principal is None else hearing(access, principal)


def _server(client: Client, registry: Registry) -> VirtualServer | Rejection | None:
    header, path = client.headers.get(VIRTUAL_SERVER), client.place.server
    name = path or header
    if name is None or name == "":
        return None if header is None else Rejection(400, INVALID_REQUEST, "there is no virtual server ''")
    if header is not None and header != name:
        text = f"the path names the virtual server {path!r}, and the header another one"
        return Rejection(400, INVALID_REQUEST, text)
    server = registry.virtual_servers.get(name)
    return server or Rejection(404 if path else 400, INVALID_REQUEST, f"there is no virtual server {name!r}")


def _signed(client: Client, registry: Registry) -> Capabilities | None:
    if registry.trusted is None:
        return None
    header = client.headers.get(capabilities.HEADER)
    if capabilities.HEADER in client.repeated:
        return capabilities.NOTHING
    return capabilities.read(registry.trusted, header, time.time())


def _part(
    publication: Publication,
    server: VirtualServer | None,
    signed: Capabilities | None,
    grants: str = "",
    allows: Allows | None = None,
) -> Catalogue:
    if signed is None:
        return publication.view(server, grants, allows)
    return publication.view(server, f"{signed.grants}\n{grants}", _both(signed.allows, allows))


def _both(one: Allows, other: Allows | None) -> Allows:
    if other is None:
        return one

    def both(target: Target) -> bool:
        return one(target) and other(target)

    return both
