"""What the gateway says for itself: who it is, what there is. Pure."""

from functools import lru_cache
from typing import Any

from portico.catalogue import Catalogue, Definition
from portico.protocol import jsonrpc, modern, versions
from portico.protocol.jsonrpc import INVALID_PARAMS, Id, Rejection
from portico.protocol.modern import TASKS_EXTENSION
from portico.protocol.versions import Era
from portico.registry import Gateway
from portico.replies import Reply, refusal
from portico.tasks import union


def about(catalogue: Catalogue, gateway: Gateway, version: str) -> dict[str, Any]:
    """The result of `initialize`."""
    found: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": capabilities(catalogue, "legacy"),
        "serverInfo": server_info(gateway),
    }
    instructions = gateway.instructions or catalogue.instructions
    return found | ({"instructions": instructions} if instructions else {})


def capabilities(catalogue: Catalogue, era: Era) -> dict[str, Any]:
    """Exactly what works: the gateway notices changes of every listing, the rest is what backends can do."""
    found: dict[str, Any] = {name: {"listChanged": True} for name in ("tools", "prompts", "resources")}
    if any((own.get("resources") or {}).get("subscribe") for own in catalogue.capabilities.values()):
        found["resources"]["subscribe"] = True
    found |= {name: {} for name in ("logging", "completions") if catalogue.offers(name)}
    speaking = [own for name, own in catalogue.capabilities.items() if era in catalogue.eras.get(name, [])]
    if era == "legacy":
        tasks = union([own.get("tasks") for own in speaking])
        return found | ({"tasks": tasks} if tasks else {})
    can = any(TASKS_EXTENSION in (own.get("extensions") or {}) for own in speaking)
    return found | ({"extensions": {TASKS_EXTENSION: {}}} if can else {})


def server_info(gateway: Gateway) -> dict[str, Any]:
    optional = {"title": gateway.title, "websiteUrl": gateway.website_url}
    given = {name: value for name, value in optional.items() if value}
    return {"name": gateway.name, "version": gateway.version, **given}


def discovered(catalogue: Catalogue, gateway: Gateway, ttl_ms: int) -> dict[str, Any]:
    """The result of `server/discover`."""
    found: dict[str, Any] = {
        "supportedVersions": list(versions.ALL),
        "capabilities": capabilities(catalogue, "modern"),
        **modern_fields(gateway),
        "ttlMs": ttl_ms,
        "cacheScope": "private" if catalogue.limits or catalogue.allows else "public",
    }
    instructions = gateway.instructions or catalogue.instructions
    return found | ({"instructions": instructions} if instructions else {})


def modern_fields(gateway: Gateway) -> dict[str, Any]:
    """What every modern result has."""
    return {"resultType": "complete", "_meta": {modern.SERVER_KEY: server_info(gateway)}}


def modern_listing(listing: bytes, hint: tuple[int, str], gateway: Gateway) -> tuple[memoryview, bytes]:
    """A listing's bytes, and what a modern result has besides: two pieces that make one object."""
    return memoryview(listing)[:-1], _listing_fields(hint, gateway)


@lru_cache(maxsize=64)
def _listing_fields(hint: tuple[int, str], gateway: Gateway) -> bytes:
    """They are the same for every client until a backend or the configuration changes."""
    ttl_ms, scope = hint
    fields = {**modern_fields(gateway), "ttlMs": ttl_ms, "cacheScope": scope}
    return b"," + jsonrpc.dumps(fields)[1:].encode()


def page(name: str, items: list[Definition], size: int, cursor: Any) -> bytes | None:
    """One page of a listing; the cursor is where it begins, and None is said of one that was never given."""
    start = int(cursor) if isinstance(cursor, str) and cursor.isdecimal() and len(cursor) < 9 else None
    if cursor is not None and start is None:
        return None
    begin = start or 0
    value: dict[str, Any] = {name: items[begin : begin + size] if size else items[begin:]}
    if size and begin + size < len(items):
        value["nextCursor"] = str(begin + size)
    return jsonrpc.dumps(value).encode()


def unknown_tool(name: str, id_: Id, *, as_result: bool) -> Reply:
    if as_result:
        content = [{"type": "text", "text": f"Error: Tool '{name}' not found"}]
        return Reply(200, jsonrpc.result(id_, {"content": content, "isError": True}))
    return refusal(Rejection(200, INVALID_PARAMS, f"Unknown tool: {name}", id=id_))


def unknown_tool_is_result(wish: str, version: str) -> bool:
    return wish == "result" or (wish == "auto" and version in versions.UNKNOWN_TOOL_IS_RESULT)


def is_streamed(wish: str, version: str) -> bool:
    """Whether a client of this version is answered by SSE even where JSON would do."""
    return wish == "sse" or (wish == "auto" and version in versions.STREAMED_ANSWERS)
