"""What clients may know of the resource before they have a token (RFC 9728): of the gateway, a virtual server, or a tool."""

import json
from typing import Any, Final
from urllib.parse import unquote

from authz.metadata import document, scopes_of
from authz.model import Access
from authz.places import METADATA, VIRTUAL
from portico.catalogue import Catalogue, named_target
from portico.registry import Registry
from portico.replies import Reply

OPEN_TO_PAGES: Final = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-headers", b"mcp-protocol-version"),
    (b"access-control-max-age", b"3600"),
)
_TOOL: Final = "/tool/"


def described(path: str, registry: Registry, catalogue: Catalogue) -> Reply:
    """`path` is decoded. 404 for whatever is not there."""
    access = registry.access
    found = _document(access, path.removeprefix(METADATA), registry, catalogue) if access else None
    if found is None:
        return Reply(404)
    return Reply(200, json.dumps(found).encode(), headers=[*OPEN_TO_PAGES])


def _document(access: Access, of: str, registry: Registry, catalogue: Catalogue) -> dict[str, Any] | None:
    if of in ("", "/mcp"):
        return document(access)
    if of.startswith(VIRTUAL):
        server = of.removeprefix(VIRTUAL)
        return document(access, server) if server in registry.virtual_servers else None
    if not of.startswith(_TOOL):
        return None
    name = unquote(of.removeprefix(_TOOL))
    entry = catalogue.tool(name)
    if entry is None:
        return None
    return document(access, scopes=scopes_of(access, named_target("tools", name, entry)))
