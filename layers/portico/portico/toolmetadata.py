"""A tool's metadata as its backend has it, in place of what the policy says.

What clients read must be about the resource that they talk to, or they may not use it (RFC 9728, 3.3): so `resource` is the
gateway's, and of the authorization servers those are left whose tokens the gateway takes. A document that names none of
them leads nowhere, and is not used. Where the gateway asks nobody who he is, the document is none of its business
and goes on as it is.
"""

import json
import time
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from authz.model import Access
from portico.catalogue import Catalogue
from portico.credentials.calls import Credentials
from portico.metadata import OPEN_TO_PAGES
from portico.registry import Backend, Registry, UnresolvedReference
from portico.replies import Reply

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource/tool/"
KEPT_S: Final = 60.0


async def preferred(
    path: str, own: Reply, registry: Registry, catalogue: Catalogue, credentials: Credentials
) -> Reply:
    """`own` is what the gateway itself would answer."""
    if not path.startswith(WELL_KNOWN):
        return own
    entry = catalogue.tool(unquote(path.removeprefix(WELL_KNOWN)))
    backend = next((one for one in registry.backends if entry and one.name == entry.backend), None)
    if entry is None or backend is None:
        return own
    said = usable(await _asked(backend, entry.upstream_name, credentials), registry.access)
    return Reply(200, json.dumps(said).encode(), headers=[*OPEN_TO_PAGES]) if said else own


def usable(said: dict[str, Any], access: Access | None) -> dict[str, Any] | None:
    servers = said.get("authorization_servers")
    if access is None or not said:
        return said or None
    if not isinstance(servers, list):
        return None
    known = [server for server in servers if isinstance(server, str) and server in access.by_issuer]
    return {**said, "resource": access.resource, "authorization_servers": known} if known else None


async def _asked(backend: Backend, upstream_name: str, credentials: Credentials) -> dict[str, Any]:
    """Empty where it has none, or something odd. Asked for once in a while, however many want to know."""
    from portico.credentials.kept import Good  # noqa: PLC0415 - not every gateway needs it
    from portico.credentials.outbound import Unfetched  # noqa: PLC0415

    parts = urlsplit(backend.url)
    url = f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{quote(upstream_name, safe='')}"
    wired = credentials.wired

    async def fetch() -> Good[dict[str, Any]]:
        until = time.time() + KEPT_S
        try:
            ca_cert = backend.ca_cert.resolve() if backend.ca_cert else None
            authority = backend.hostname_given.encode() if backend.hostname_given else None
            answer = await wired.outbound.get(url, url, authority=authority, ca_cert=ca_cert)
        except (Unfetched, UnresolvedReference):
            return Good({}, until, until)
        return Good(answer.said if answer.status == 200 else {}, until, until)

    return await wired.documents.get((backend, upstream_name), fetch)
