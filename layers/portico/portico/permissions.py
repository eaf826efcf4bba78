"""What a principal may do, of what the catalogue has. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from authz.challenge import Refusal
from authz.check import asking
from authz.model import Access, Principal, Target
from authz.naming import by_prefix
from authz.policy import decide
from portico.catalogue import Allows, Catalogue, address_target, named_target
from portico.protocol import names
from portico.protocol.jsonrpc import Id, Message, Rejection
from portico.replies import Reply, refusal

ADDRESSED = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})


def allowing(access: Access, principal: Principal) -> Allows:
    """What is listed; a call is judged by itself."""

    def listed(target: Target) -> bool:
        verdict = decide(access, principal, target)
        return verdict.allowed or (access.lists == "obtainable" and bool(verdict.missing))

    return listed


def hearing(access: Access, principal: Principal) -> Allows:
    """What a modern subscription tells of: what a legacy client might subscribe to."""

    def heard(target: Target) -> bool:
        subscribing = replace(target, method="resources/subscribe")
        return all(decide(access, principal, one).allowed for one in (target, subscribing))

    return heard


def denied(
    access: Access,
    principal: Principal,
    message: Message,
    catalogue: Catalogue,
    prefixes: Mapping[str, str],
    server: str = "",
) -> tuple[Refusal | None, str, Target]:
    """Whether this request is refused, the reason, and what it asks for; `catalogue` has also what the principal may not see.

    Where a thing can be asked for by several methods, a rule for any of them, or for what it is, refuses it.
    """
    target = target_of(message, catalogue, prefixes)
    refused, reason = asking(access, principal, target, server)
    if refused is None and target.method != message.method:
        refused, reason = asking(access, principal, replace(target, method=message.method), server)
    return refused, reason, target


def target_of(message: Message, catalogue: Catalogue, prefixes: Mapping[str, str]) -> Target:
    """What is asked for; without a kind where the gateway answers itself, or nobody could have such a thing.

    A name that is unknown is judged as if it were there: a refusal does not tell what there is.
    """
    found: Target | None = None
    if message.method in ("tools/call", "prompts/get"):
        listing = "tools" if message.method == "tools/call" else "prompts"
        found = _named(catalogue, listing, message.param("name"), prefixes)
    elif message.method in ADDRESSED:
        found = _addressed(catalogue, message.param("uri"))
    elif message.method == "completion/complete":
        found = _completed(catalogue, message.param("ref"), prefixes)
    return found or Target(message.method)


def _named(catalogue: Catalogue, listing: str, name: object, prefixes: Mapping[str, str]) -> Target | None:
    if not isinstance(name, str):
        return None
    tools = listing == "tools"
    if tools and name not in catalogue.tools and names.joined(name) in catalogue.tools:
        name = names.joined(name)
    entry = catalogue.tool(name) if tools else catalogue.prompt(name)
    if entry is not None:
        return named_target(listing, name, entry)
    return by_prefix(prefixes, "tools/call" if tools else "prompts/get", name)


def _addressed(catalogue: Catalogue, uri: object) -> Target | None:
    backend = catalogue.owner(uri) if isinstance(uri, str) else None
    return address_target(str(uri), backend) if backend else None


def _completed(catalogue: Catalogue, reference: object, prefixes: Mapping[str, str]) -> Target | None:
    said = reference if isinstance(reference, dict) else {}
    if said.get("type") == "ref/resource":
        return _addressed(catalogue, said.get("uri"))
    return _named(catalogue, "prompts", said.get("name"), prefixes)


def answer(refused: Refusal, id_: Id) -> Reply:
    rejection = Rejection(refused.status, refused.code, refused.message, refused.data or None, id_)
    reply = refusal(rejection)
    headers = (
        [(b"www-authenticate", refused.challenge.encode())] if refused.challenge else [(b"retry-after", b"5")]
    )
    return Reply(reply.status, reply.body, headers=headers)
