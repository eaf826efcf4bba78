"""What the measured servers say: an `echo` tool and as many filler tools as asked for. Pure, standard library.

`backend` serves it over HTTP, `stdio_backend` over stdio, so that every target relays the same answers.
"""

from typing import Any, Literal

Era = Literal["legacy", "modern"]

MODERN_VERSION = "2026-07-28"
LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
# What every modern result has, and what the results that may be cached have besides.
COMPLETE = {"resultType": "complete"}
CACHEABLE = {**COMPLETE, "ttlMs": 0, "cacheScope": "public"}

SUBJECTS = ("invoice", "customer", "shipment", "ticket", "deployment", "document", "calendar_event")
VERBS = ("create", "update", "search", "archive", "export", "approve", "assign")

ECHO: dict[str, Any] = {
    "name": "echo",
    "description": "Returns the text it was given.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The text to return."}},
        "required": ["text"],
    },
}


def tools(fillers: int) -> list[dict[str, Any]]:
    return [ECHO, *(filler(number) for number in range(fillers))]


def filler(number: int) -> dict[str, Any]:
    subject, verb = SUBJECTS[number % len(SUBJECTS)], VERBS[number // len(SUBJECTS) % len(VERBS)]
    return {
        "name": f"{verb}_{subject}_{number}",
        "description": f"{verb.capitalize()} a {subject} in the workspace. Use it when the user names the {subject} "
        "or gives enough to find it; ask for what is missing. Returns the record as it is afterwards.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "id": {
                    "type": "string",
                    "description": f"Identifier of the {subject}, as search returned it.",
                },
                "title": {"type": "string", "minLength": 1, "maxLength": 200},
                "state": {"type": "string", "enum": ["draft", "open", "closed"], "default": "draft"},
                "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
                "owner": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "notify": {"type": "boolean"}},
                    "required": ["name"],
                },
            },
            "required": ["id", "title"],
        },
    }


def initialized(params: dict[str, Any]) -> dict[str, Any]:
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in LEGACY_VERSIONS else LEGACY_VERSIONS[-1],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bench-echo", "version": "1"},
    }


def discovered() -> dict[str, Any]:
    return {
        "supportedVersions": [MODERN_VERSION],
        "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "bench-echo", "version": "1"}},
        **CACHEABLE,
    }


def called(params: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """The members of the answer to tools/call: `result`, or `error` for a tool that is not `echo`."""
    if params.get("name") != "echo":
        return {"error": {"code": INVALID_PARAMS, "message": "unknown tool"}}
    text = params.get("arguments", {}).get("text", "")
    return {"result": {"content": [{"type": "text", "text": text}], "isError": False, **fields}}


def answer(message: dict[str, Any], listing: dict[str, Any], era: Era = "legacy") -> dict[str, Any]:
    """The answer to a request; `listing` is the result of tools/list."""
    params = message.get("params") or {}
    match message["method"], era:
        case "tools/call", _:
            body = called(params, COMPLETE if era == "modern" else {})
        case "tools/list", _:
            body = {"result": listing}
        case "initialize", "legacy":
            body = {"result": initialized(params)}
        case "ping", "legacy":
            body = {"result": {}}
        case "server/discover", "modern":
            body = {"result": discovered()}
        case _:
            body = {"error": {"code": METHOD_NOT_FOUND, "message": "method not found"}}
    return {"jsonrpc": "2.0", "id": message["id"], **body}
