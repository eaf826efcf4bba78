"""Between the eras: requests, results and errors of one as the other knows them. Pure, and lossless where both can say it.

A message is cut open only where it must change: what a backend wrote stays as it wrote it.
"""

from typing import Any, Final

from portico.protocol import jsonrpc, versions
from portico.protocol.jsonrpc import (
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    URL_ELICITATION_REQUIRED,
    Id,
    Member,
    Message,
)
from portico.protocol.modern import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    ENVELOPE_KEYS,
    LEVEL_KEY,
    SERVER_KEY,
    VERSION_KEY,
)

CACHED: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
"""Modern results of these methods say how long they may be kept."""

ASKABLE: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""What a server may ask of a client, and the capability that the client needs for it."""

ROUND_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Only these may be answered with `input_required`."""

_WRAPPED: Final = "result"


def envelope(client: Any, capabilities: dict[str, Any], level: str | None) -> dict[str, Any]:
    """What a modern request's `_meta` must have."""
    meta: dict[str, Any] = {
        VERSION_KEY: versions.NEWEST_MODERN,
        CAPABILITIES_KEY: modern_capabilities(capabilities),
    }
    if client is not None:
        meta[CLIENT_KEY] = client
    return meta | ({LEVEL_KEY: level} if level else {})


def modern_capabilities(capabilities: dict[str, Any]) -> dict[str, Any]:
    """A legacy client's: tasks were something else then, and nobody is told of new roots any more."""
    found = {name: value for name, value in capabilities.items() if name != "tasks"}
    if "roots" in found:
        found["roots"] = {}
    return found


def legacy_capabilities(capabilities: dict[str, Any]) -> dict[str, Any]:
    """A modern client's, as `initialize` says them."""
    return {name: value for name, value in capabilities.items() if name != "extensions"}


# Requests


def to_modern(text: str, id_: Id, meta: dict[str, Any], **params: Any) -> bytes:
    """A legacy request with the envelope in it, and with further parameters."""
    return _with_params(text, id_, lambda old: {**old, **meta}, params).encode()


def to_legacy(text: str, id_: Id, progress_token: Id) -> bytes:
    """A modern request without its envelope and without what answers an earlier round."""

    def bare(old: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in old.items() if key not in ENVELOPE_KEYS}
        return kept | ({"progressToken": progress_token} if "progressToken" in kept else {})

    gone = dict.fromkeys(("inputResponses", "requestState"))
    return _with_params(text, id_, bare, gone).encode()


def _with_params(text: str, id_: Id, change: Any, params: dict[str, Any]) -> str:
    """The request with another id, its `_meta` changed and these parameters set; one set to None is taken away."""
    message = jsonrpc.read(text)
    assert isinstance(message, Message)  # noqa: S101 - it was read before
    meta = message.param("_meta")
    wanted = {**params, "_meta": change(meta if isinstance(meta, dict) else {}) or None}
    inner = _object(message, message.params, wanted)
    edits = {"id": jsonrpc.dumps(id_), "params": inner}
    return _rewritten(message.text, message.top, edits)


def _object(message: Message, members: dict[str, Member], wanted: dict[str, Any]) -> str:
    kept = [
        f"{jsonrpc.dumps(name)}:{message.text[member.start : member.end]}"
        for name, member in members.items()
        if name not in wanted
    ]
    new = [
        f"{jsonrpc.dumps(name)}:{jsonrpc.dumps(value)}" for name, value in wanted.items() if value is not None
    ]
    return "{" + ",".join(kept + new) + "}"


def _rewritten(text: str, members: dict[str, Member], edits: dict[str, str]) -> str:
    parts = {name: text[member.start : member.end] for name, member in members.items()} | edits
    return "{" + ",".join(f"{jsonrpc.dumps(name)}:{value}" for name, value in parts.items()) + "}"


# Results


def result_to_modern(answer: Message, method: str, id_: Id, server: dict[str, Any]) -> bytes:
    """A legacy backend's answer for a modern client."""
    if "error" in answer.top:
        return _error(answer, id_, {RESOURCE_NOT_FOUND: INVALID_PARAMS})
    result = answer.top["result"]
    value = result.value if isinstance(result.value, dict) else {}
    added: dict[str, Any] = {"resultType": "complete"}
    if method in CACHED:
        added |= {"ttlMs": 0, "cacheScope": "private"}
    meta = value.get("_meta")
    added["_meta"] = {**(meta if isinstance(meta, dict) else {}), SERVER_KEY: server}
    members = jsonrpc.members(answer.text, result.start)[0] if value else {}
    return _answer(
        id_, _object(answer, members, {k: v for k, v in added.items() if k == "_meta" or k not in value})
    )


def result_to_legacy(answer: Message, method: str, id_: Id) -> bytes:
    """A modern backend's complete answer for a legacy client."""
    if "error" in answer.top:
        renamed = {INVALID_PARAMS: RESOURCE_NOT_FOUND} if method == "resources/read" else {}
        return _error(answer, id_, renamed)
    result = answer.top["result"]
    value = result.value if isinstance(result.value, dict) else {}
    gone: dict[str, Any] = dict.fromkeys(("resultType", "ttlMs", "cacheScope"))
    if method == "tools/call" and not isinstance(value.get("structuredContent", {}), dict):
        gone["structuredContent"] = {_WRAPPED: value["structuredContent"]}
    members = jsonrpc.members(answer.text, result.start)[0] if value else {}
    return _answer(id_, _object(answer, members, gone))


def _error(answer: Message, id_: Id, renamed: dict[int, int]) -> bytes:
    error = answer.top["error"]
    text = answer.text[error.start : error.end]
    if isinstance(error.value, dict) and error.value.get("code") in renamed:
        text = jsonrpc.dumps({**error.value, "code": renamed[error.value["code"]]})
    return f'{{"jsonrpc":"2.0","id":{jsonrpc.dumps(id_)},"error":{text}}}'.encode()


def _answer(id_: Id, result: str) -> bytes:
    return f'{{"jsonrpc":"2.0","id":{jsonrpc.dumps(id_)},"result":{result}}}'.encode()


def tool_to_legacy(tool: dict[str, Any]) -> dict[str, Any]:
    """A legacy client takes structured content for an object: another value is put into one."""
    schema = tool.get("outputSchema")
    if not isinstance(schema, dict) or schema.get("type") == "object":
        return tool
    inner = {key: value for key, value in schema.items() if key not in ("$schema", "$defs")}
    outer = {key: value for key, value in schema.items() if key in ("$schema", "$defs")}
    wrapped = {"type": "object", "properties": {_WRAPPED: inner}, "required": [_WRAPPED], **outer}
    return {**tool, "outputSchema": wrapped}


# What a server asks of its client


def question_to_legacy(method: str, params: Any, elicitation_id: str) -> dict[str, Any]:
    """The parameters of an input request, as a legacy request has them."""
    found = dict(params) if isinstance(params, dict) else {}
    if method == "elicitation/create" and found.get("mode") == "url":
        found.setdefault("elicitationId", elicitation_id)
    return found


def question_to_modern(method: str, params: Any) -> dict[str, Any]:
    """A legacy server's request as an input request."""
    found = dict(params) if isinstance(params, dict) else {}
    for name in ("_meta", "task", "elicitationId"):
        found.pop(name, None)
    if method == "elicitation/create":
        found.setdefault("mode", "form")
    return {"method": method, "params": found} if found or method != "roots/list" else {"method": method}


def url_questions(answer: Message) -> dict[str, dict[str, Any]] | None:
    """The input requests in a legacy error that says: let the user go to these addresses first, then try again."""
    error = answer.top["error"].value if "error" in answer.top else None
    if not isinstance(error, dict) or error.get("code") != URL_ELICITATION_REQUIRED:
        return None
    data = error.get("data")
    wanted = data.get("elicitations") if isinstance(data, dict) else None
    if not isinstance(wanted, list) or not all(isinstance(item, dict) for item in wanted) or not wanted:
        return None
    return {
        f"url-{n}": question_to_modern("elicitation/create", {**item, "mode": "url"})
        for n, item in enumerate(wanted)
    }


def input_required(id_: Id, questions: dict[str, Any], state: str, server: dict[str, Any]) -> bytes:
    value = {
        "resultType": "input_required",
        "inputRequests": questions,
        "requestState": state,
        "_meta": {SERVER_KEY: server},
    }
    return jsonrpc.result(id_, value)
