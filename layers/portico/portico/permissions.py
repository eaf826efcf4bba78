"""What a principal may do, of what the catalogue has. Pure."""

from authz import challenge
from authz.challenge import Refusal
from authz.model import Access, Principal, Target
from authz.policy import decide, lacking
from portico.catalogue import Allows, Catalogue, address_target, named_target
from portico.protocol.jsonrpc import Message, Rejection
from portico.replies import Reply, refusal

ADDRESSED = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})


def allowing(access: Access, principal: Principal) -> Allows:
    """What is listed; a call is judged by itself."""

    def listed(target: Target) -> bool:
        verdict = decide(access, principal, target)
        return verdict.allowed or (access.lists == "obtainable" and bool(verdict.missing))

    return listed


def denied(access: Access, principal: Principal, message: Message, catalogue: Catalogue) -> Refusal | None:
    """Whether this request is refused; `catalogue` has also what the principal may not see."""
    target = target_of(message, catalogue)
    verdict = decide(access, principal, target)
    return None if verdict.allowed else challenge.forbidden(access, verdict, target)


def not_admitted(access: Access, principal: Principal) -> Refusal | None:
    """Whether it lacks what every request needs."""
    return challenge.lacking_scopes(access, lacking(access, principal, access.required_scopes))


def not_operating(access: Access, principal: Principal) -> Refusal | None:
    return challenge.lacking_scopes(access, lacking(access, principal, access.operator_scopes))


def target_of(message: Message, catalogue: Catalogue) -> Target:
    """What is asked for; without a kind where the gateway answers itself, or there is no such thing."""
    found: Target | None = None
    if message.method == "tools/call":
        found = _named(catalogue, "tools", message.param("name"))
    elif message.method == "prompts/get":
        found = _named(catalogue, "prompts", message.param("name"))
    elif message.method in ADDRESSED:
        found = _addressed(catalogue, message.param("uri"))
    elif message.method == "completion/complete":
        found = _completed(catalogue, message.param("ref"))
    return found or Target(message.method)


def _named(catalogue: Catalogue, listing: str, name: object) -> Target | None:
    if not isinstance(name, str):
        return None
    entry = catalogue.tool(name) if listing == "tools" else catalogue.prompt(name)
    return named_target(listing, name, entry) if entry else None


def _addressed(catalogue: Catalogue, uri: object) -> Target | None:
    backend = catalogue.owner(uri) if isinstance(uri, str) else None
    return address_target(str(uri), backend) if backend else None


def _completed(catalogue: Catalogue, reference: object) -> Target | None:
    said = reference if isinstance(reference, dict) else {}
    if said.get("type") == "ref/resource":
        return _addressed(catalogue, said.get("uri"))
    return _named(catalogue, "prompts", said.get("name"))


def answer(refused: Refusal, message: Message | None = None) -> Reply:
    id_ = message.id if message and message.kind == "request" else None
    rejection = Rejection(refused.status, refused.code, refused.message, refused.data or None, id_)
    reply = refusal(rejection)
    headers = (
        [(b"www-authenticate", refused.challenge.encode())] if refused.challenge else [(b"retry-after", b"5")]
    )
    return Reply(reply.status, reply.body, headers=headers)
