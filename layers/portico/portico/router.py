"""Request + catalogue -> Decision. Pure: only the broker touches sessions, stores and backends."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from portico.catalogue import LISTS, Catalogue, Entry
from portico.protocol import mirrors, modern
from portico.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    Id,
    Malformed,
    Member,
    Message,
    Rejection,
)
from portico.protocol.jsonrpc import members as read_members
from portico.protocol.tickets import redeem_ticket


@dataclass(frozen=True, slots=True)
class Answer:
    """The broker answers by itself."""

    method: str


@dataclass(frozen=True, slots=True)
class Forward:
    """One backend answers."""

    backend: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    name: str = ""
    """What `Mcp-Name` says at the backend: the upstream name, or the address."""


@dataclass(frozen=True, slots=True)
class ForwardTask:
    """The backend that has this task answers."""

    task: str


@dataclass(frozen=True, slots=True)
class Deliver:
    """A letter for the call that has been waiting for it, wherever that is."""

    call: Id
    key: str


@dataclass(frozen=True, slots=True)
class Spread:
    """Every backend that this session has an upstream session with is told."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Refuse:
    rejection: Rejection


@dataclass(frozen=True, slots=True)
class UnknownTool:
    """Refused in the form that the client's version knows."""

    name: str


@dataclass(frozen=True, slots=True)
class Ignore:
    """A notification that concerns nobody behind the gateway."""


Decision = Answer | Forward | ForwardTask | Deliver | Spread | Refuse | UnknownTool | Ignore
NameKind = Literal["tool", "prompt"]

OWN: Final = frozenset({"initialize", "ping", "logging/setLevel", "tasks/list", *LISTS})
MODERN_OWN: Final = frozenset({"server/discover", "subscriptions/listen", *LISTS})
TASKS: Final = frozenset({"tasks/get", "tasks/result", "tasks/cancel"})
MODERN_TASKS: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})


def route(message: Message, catalogue: Catalogue, session_id: str, now: float) -> Decision:
    if message.kind == "response":
        return _route_answer(message, message.top["id"], session_id, now)
    if message.kind == "notification":
        return _route_notification(message, session_id, now)
    if message.method in OWN:
        return Answer(message.method)
    if message.method in ("resources/subscribe", "resources/unsubscribe"):
        return _route_address(message, catalogue, message.param("uri"))
    if message.method in TASKS:
        return _route_task(message)
    return _route_request(message, catalogue)


def route_modern(
    message: Message, catalogue: Catalogue, headers: Mapping[str, str], repeated: frozenset[str]
) -> Decision:
    """As `route`, for a request that stands for itself. Refusals have the codes and statuses of that era."""
    if message.method in MODERN_OWN:
        return Answer(message.method)
    if message.method == "tools/call":
        entry = catalogue.tool(str(message.param("name")))
        wrong = mirrors.check_params(entry.mirrors, message, headers, repeated) if entry else None
        if wrong is not None:
            return Refuse(wrong)
    tasks = message.method in MODERN_TASKS
    decision = _route_task(message) if tasks else _route_request(message, catalogue)
    if not isinstance(decision, Refuse):
        return decision
    refused = decision.rejection
    code = INVALID_PARAMS if refused.code == RESOURCE_NOT_FOUND else refused.code
    return Refuse(replace(refused, code=code, status=modern.STATUS.get(code, refused.status)))


def names_unknown(message: Message, catalogue: Catalogue) -> bool:
    """Whether the request is for a tool, a prompt or an address that is not in the catalogue."""
    match message.method:
        case "tools/call":
            return catalogue.tool(str(message.param("name"))) is None
        case "prompts/get":
            return catalogue.prompt(str(message.param("name"))) is None
        case "resources/read" | "resources/subscribe":
            return catalogue.owner(str(message.param("uri"))) is None
    return False


def _route_request(message: Message, catalogue: Catalogue) -> Decision:
    """What both eras ask of backends."""
    if message.method == "tools/call":
        return _route_name(message, catalogue, "tool")
    if message.method == "prompts/get":
        return _route_name(message, catalogue, "prompt")
    if message.method == "resources/read":
        return _route_address(message, catalogue, message.param("uri"))
    if message.method == "completion/complete":
        return _route_completion(message, catalogue)
    return Refuse(Rejection(200, METHOD_NOT_FOUND, f"Method not found: {message.method}", id=message.id))


def _route_task(message: Message) -> Decision:
    task = message.param("taskId")
    if not isinstance(task, str) or not task:
        return Refuse(Rejection(200, INVALID_PARAMS, "no taskId set", id=message.id))
    return ForwardTask(task)


def _route_name(message: Message, catalogue: Catalogue, kind: NameKind) -> Decision:
    member = message.params.get("name")
    if member is None or not isinstance(member.value, str) or not member.value:
        return Refuse(Rejection(400, INVALID_PARAMS, f"no {kind} name set", id=message.id))
    name: str = member.value
    entry = catalogue.tool(name) if kind == "tool" else catalogue.prompt(name)
    if entry is None:
        if kind == "tool":
            return UnknownTool(name)
        return Refuse(Rejection(200, INVALID_PARAMS, f"Unknown prompt: {name}", id=message.id))
    headers = _name_headers(kind, entry)
    body = _renamed(message, member, entry.upstream_name)
    return Forward(entry.backend, body, headers, entry.upstream_name)


def _renamed(message: Message, member: Member, upstream_name: str) -> bytes:
    if member.value == upstream_name:
        return message.text.encode()
    return message.splice(member, upstream_name).encode()


def _name_headers(kind: NameKind, entry: Entry) -> dict[str, str]:
    if kind == "prompt":
        return {"x-mcp-promptname": entry.upstream_name}
    return {
        "x-mcp-tool": entry.upstream_name,
        "x-mcp-toolname": entry.upstream_name,
        "x-mcp-annotation-hints": annotation_hints(entry.annotations),
    }


def annotation_hints(annotations: Mapping[str, Any] | None) -> str:
    if not annotations:
        return NO_HINTS

    def said(name: str) -> str:
        value = annotations.get(f"{name}Hint")
        return str(value).lower() if isinstance(value, bool) else "unspecified"

    return ",".join(f"{name}={said(name)}" for name in ("readOnly", "destructive", "idempotent", "openWorld"))


NO_HINTS: Final = "readOnly=unspecified,destructive=unspecified,idempotent=unspecified,openWorld=unspecified"


def _route_address(message: Message, catalogue: Catalogue, uri: object) -> Decision:
    if not isinstance(uri, str) or not uri:
        return Refuse(Rejection(400, INVALID_PARAMS, "no resource uri set", id=message.id))
    backend = catalogue.owner(uri)
    if backend is None:
        return Refuse(Rejection(200, RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri}, message.id))
    return Forward(backend, message.text.encode(), {"x-mcp-resourceuri": uri}, uri)


def _route_completion(message: Message, catalogue: Catalogue) -> Decision:
    reference = message.params.get("ref")
    if reference is None or not isinstance(reference.value, dict):
        return Refuse(Rejection(400, INVALID_PARAMS, "no ref set", id=message.id))
    if reference.value.get("type") == "ref/resource":
        return _route_address(message, catalogue, reference.value.get("uri"))
    try:
        member = read_members(message.text, reference.start)[0].get("name")
    except Malformed as error:
        return Refuse(Rejection(400, PARSE_ERROR, "Parse error", str(error), message.id))
    entry = catalogue.prompt(member.value) if member and isinstance(member.value, str) else None
    if member is None or entry is None:
        return Refuse(Rejection(200, INVALID_PARAMS, "Unknown prompt in ref", id=message.id))
    return Forward(
        entry.backend, _renamed(message, member, entry.upstream_name), _name_headers("prompt", entry)
    )


def _route_notification(message: Message, session_id: str, now: float) -> Decision:
    if message.method == "notifications/progress" and "progressToken" in message.params:
        return _route_answer(message, message.params["progressToken"], session_id, now)
    if message.method in ("notifications/cancelled", "notifications/roots/list_changed"):
        return Spread(message.text.encode())
    if not message.method.startswith("notifications/"):
        return Refuse(Rejection(400, INVALID_REQUEST, "no id set in json rpc payload"))
    return Ignore()


def _route_answer(message: Message, member: Member, session_id: str, now: float) -> Decision:
    ticket = redeem_ticket(session_id, member.value, now)
    if isinstance(ticket, Rejection):
        return Refuse(ticket)
    match ticket.upstream_id:
        case [str() | int() as call, str(key)]:
            return Deliver(call, key) if message.kind == "response" else Ignore()
    return Forward(ticket.backend, message.splice(member, ticket.upstream_id).encode())
