"""What the gateway says for itself: who it is, what there is. Pure."""

from typing import Any, Final

from portico.catalogue import Catalogue, Definition
from portico.protocol import jsonrpc, versions
from portico.protocol.jsonrpc import INVALID_PARAMS, Id, Rejection
from portico.registry import Gateway
from portico.replies import Reply, refusal

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def about(catalogue: Catalogue, gateway: Gateway, version: str) -> dict[str, Any]:
    """The result of `initialize`."""
    found: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": capabilities(catalogue),
        "serverInfo": server_info(gateway),
    }
    instructions = gateway.instructions or catalogue.instructions
    return found | ({"instructions": instructions} if instructions else {})


def capabilities(catalogue: Catalogue) -> dict[str, Any]:
    """Exactly what works: the gateway notices changes of every listing, the rest is what backends can do."""
    found: dict[str, Any] = {name: {"listChanged": True} for name in ("tools", "prompts", "resources")}
    if any((own.get("resources") or {}).get("subscribe") for own in catalogue.capabilities.values()):
        found["resources"]["subscribe"] = True
    return found | {name: {} for name in ("logging", "completions") if catalogue.offers(name)}


def server_info(gateway: Gateway) -> dict[str, Any]:
    optional = {"title": gateway.title, "websiteUrl": gateway.website_url}
    given = {name: value for name, value in optional.items() if value}
    return {"name": gateway.name, "version": gateway.version, **given}


def page(id_: Id, name: str, items: list[Definition], size: int, cursor: Any) -> Reply:
    """One page of a listing; the cursor is where it begins."""
    start = int(cursor) if isinstance(cursor, str) and cursor.isdecimal() and len(cursor) < 9 else None
    if cursor is not None and start is None:
        return refusal(Rejection(200, INVALID_PARAMS, "unknown cursor", id=id_))
    begin = start or 0
    value: dict[str, Any] = {name: items[begin : begin + size] if size else items[begin:]}
    if size and begin + size < len(items):
        value["nextCursor"] = str(begin + size)
    return Reply(200, jsonrpc.result(id_, value))


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
