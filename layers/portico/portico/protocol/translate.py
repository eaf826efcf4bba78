"""Between the eras: requests, results and errors of one as the other knows them. Pure, and lossless where both can say it.

A message is cut open only where it must change: what a backend wrote stays as it wrote it.
"""

import json
from collections.abc import Callable
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
    return _with_params(text, id_, lambda _: meta, params).encode()


def to_legacy(text: str, id_: Id, progress_token: Id) -> bytes:
    """A modern request without its envelope and without what answers an earlier round."""

    def bare(old: dict[str, str]) -> dict[str, Any]:
        token = {"progressToken": progress_token} if "progressToken" in old else {}
        return {**dict.fromkeys(ENVELOPE_KEYS), **token}

    gone = dict.fromkeys(("inputResponses", "requestState"))
    return _with_params(text, id_, bare, gone).encode()


def with_params(text: str, params: dict[str, Any]) -> str:
    """The request with these parameters; without one that is None."""
    message = jsonrpc.read(text)
    assert isinstance(message, Message)  # noqa: S101 - it was read before
    return _with_params(text, message.id, lambda _: {}, params)


Change = Callable[[dict[str, str]], dict[str, Any]]


def _with_params(text: str, id_: Id, meta: Change, params: dict[str, Any]) -> str:
    """The request with another id, its `_meta` changed and these parameters set; one set to None is taken away."""
    message = jsonrpc.read(text)
    assert isinstance(message, Message)  # noqa: S101 - it was read before
    parts = {name: text[member.start : member.end] for name, member in message.params.items()}
    old = _texts(text, message.params.get("_meta"))
    new = _changed(old, meta(old))
    parts = _changed({**parts, "_meta": _object(new)}, params)
    if not new:
        del parts["_meta"]
    top = {name: text[member.start : member.end] for name, member in message.top.items()}
    return _object({**top, "id": jsonrpc.dumps(id_), "params": _object(parts)})


def _texts(text: str, member: Member | None) -> dict[str, str]:
    """The members of an object, each as it is written. Where a name stands there twice, the last one counts."""
    if member is None or not isinstance(member.value, dict) or not member.value:
        return {}
    try:
        found = jsonrpc.members(text, member.start)[0]
    except jsonrpc.Malformed:
        return {name: jsonrpc.dumps(value) for name, value in member.value.items()}
    return {name: text[inner.start : inner.end] for name, inner in found.items()}


def _changed(parts: dict[str, str], wanted: dict[str, Any]) -> dict[str, str]:
    kept = {name: part for name, part in parts.items() if name not in wanted}
    return kept | {name: jsonrpc.dumps(value) for name, value in wanted.items() if value is not None}


def _object(parts: dict[str, str]) -> str:
    return "{" + ",".join(f"{jsonrpc.dumps(name)}:{part}" for name, part in parts.items()) + "}"


# Results


def result_to_modern(answer: Message, method: str, id_: Id, server: dict[str, Any]) -> bytes:
    """A legacy backend's answer for a modern client."""
    if "error" in answer.top:
        return _error(answer, id_, {RESOURCE_NOT_FOUND: INVALID_PARAMS})
    parts = _texts(answer.text, answer.top["result"])
    added: dict[str, Any] = {"resultType": "complete"}
    if method in CACHED:
        added |= {"ttlMs": 0, "cacheScope": "private"}
    parts = _changed(parts, {name: value for name, value in added.items() if name not in parts})
    meta = _texts(parts["_meta"], _read(parts["_meta"])) if "_meta" in parts else {}
    return _answer(id_, _object({**parts, "_meta": _object(_changed(meta, {SERVER_KEY: server}))}))


def result_to_legacy(answer: Message, method: str, id_: Id) -> bytes:
    """A modern backend's complete answer for a legacy client."""
    if "error" in answer.top:
        renamed = {INVALID_PARAMS: RESOURCE_NOT_FOUND} if method == "resources/read" else {}
        return _error(answer, id_, renamed)
    parts = _texts(answer.text, answer.top["result"])
    parts = _changed(parts, dict.fromkeys(("resultType", "ttlMs", "cacheScope")))
    structured = parts.get("structuredContent", "{")
    if method == "tools/call" and not structured.startswith("{"):
        parts["structuredContent"] = _object({_WRAPPED: structured})
    return _answer(id_, _object(parts))


def _read(text: str) -> Member:
    return Member(0, len(text), json.loads(text))


def _error(answer: Message, id_: Id, renamed: dict[int, int]) -> bytes:
    error = answer.top["error"]
    text = answer.text[error.start : error.end]
    code = error.value.get("code") if isinstance(error.value, dict) else None
    if isinstance(code, int) and code in renamed:
        text = _object({**_texts(answer.text, error), "code": jsonrpc.dumps(renamed[code])})
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
