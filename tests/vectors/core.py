"""The pure core alone: no server, no clock, no catalogue but the one that the vectors declare."""

import json
from functools import cache
from typing import Any
from urllib.parse import unquote

import yaml

from authz import capabilities, challenge, check, naming
from authz.asked import Asked, by_body
from authz.capabilities import Capabilities
from authz.challenge import Refusal
from authz.check import entering
from authz.guard import Guard
from authz.keys import Keys
from authz.model import Principal
from authz.places import METADATA, VIRTUAL_SERVER, Place, place
from portico.catalogue import LISTS, Catalogue, Listing, merge
from portico.metadata import described
from portico.permissions import allowing, denied
from portico.protocol.inbound import classify
from portico.protocol.jsonrpc import Message
from portico.publication import Publication
from portico.registry import Registry, parse
from tests.vectors.answers import Answer
from tests.vectors.cases import BACKENDS, JWKS, TIME, Request, Vector, config, request

SCHEMA = {"type": "object"}


@cache
def registry(name: str) -> Registry:
    return parse(yaml.safe_dump(config(name), sort_keys=False))


def keys() -> Keys:
    """Where the issuer's metadata would lead to, without asking anybody."""

    async def get(url: str) -> bytes:
        for issuer, found in JWKS.items():
            if url == f"{issuer}/.well-known/openid-configuration":
                return json.dumps({"issuer": issuer, "jwks_uri": f"{issuer}/jwks"}).encode()
            if url == f"{issuer}/jwks":
                return json.dumps(found).encode()
        return b"{}"

    return Keys(get)


def guard(name: str) -> Guard:
    access = registry(name).access
    assert access is not None
    return Guard(access, keys(), clock=lambda: TIME)


def catalogue() -> Catalogue:
    return merge(
        Listing(
            name,
            about["prefix"],
            [{**tool, "inputSchema": SCHEMA} for tool in about["tools"]],
            [{"name": prompt} for prompt in about["prompts"]],
            [{"uri": uri, "name": uri} for uri in about["resources"]],
            [{"uriTemplate": uri, "name": uri} for uri in about["templates"]],
            personal=about.get("user_specific_list", False),
        )
        for name, about in BACKENDS.items()
    )


CATALOGUE = catalogue()


async def answer(vector: Vector, guard: Guard) -> Answer:
    said = request(vector)
    there = place(said.verb, unquote(said.path.partition("?")[0]))
    if there.free:
        return _open(vector, said)
    found = await guard.admit(said.values("authorization"), there.server)
    asked = Asked()
    if there.kind == "mcp" and said.verb == "POST":
        headers = {name.lower(): value for name, value in said.headers}
        read = by_body(headers, said.body)
        if isinstance(read, Refusal) and isinstance(found, Principal):
            return entering_first(vector, found, there, read)
        asked = Asked() if isinstance(read, Refusal) else read
    if isinstance(found, Refusal):
        tool = asked.name if asked.method == "tools/call" else ""
        return refused(challenge.about_tool(guard.access, found, tool))
    return _judged(vector, said, found, there)


def entering_first(vector: Vector, principal: Principal, there: Place, other: Refusal) -> Answer:
    access = registry(vector.config).access
    assert access is not None
    return refused(entering(access, principal, there) or other, principal)


def _open(vector: Vector, said: Request) -> Answer:
    if said.verb == "OPTIONS":
        return Answer(204)
    path = unquote(said.path)
    if not path.startswith(METADATA):
        return Answer(200)
    reply = described(path, registry(vector.config), CATALOGUE)
    return Answer(reply.status, {}, reply.body)


def _judged(vector: Vector, said: Request, principal: Principal, there: Place) -> Answer:
    declared = registry(vector.config)
    access = declared.access
    assert access is not None
    if why := entering(access, principal, there):
        return refused(why, principal)
    if there.kind != "mcp":
        return _allowed(principal, "")
    named = said.values(VIRTUAL_SERVER)
    server = declared.virtual_servers.get(there.server or "".join(named))
    if (there.server or named) and (server is None or (there.server and named and named != [there.server])):
        return Answer(404 if there.server and not named else 400)
    signed = _signed(vector, said)
    publication = Publication()
    publication.publish(CATALOGUE)
    shown = publication.view(server, "", signed.allows if signed else None)
    message = classify(said.body)
    assert isinstance(message, Message)
    if message.kind != "request":
        return Answer(202, noted=_note(principal, "allowed", ""))
    if message.method in ("tools/call", "prompts/get"):
        _alone(vector, principal, message, there.server)
    why, reason, target = denied(access, principal, message, shown, declared.prefixes, there.server)
    if why is not None:
        return refused(why, principal)
    seen = shown.permitted(
        lambda one: allowing(access, principal)(one) and (not signed or signed.allows(one))
    )
    if message.method in LISTS:
        result = {"result": {LISTS[message.method]: seen.definitions[LISTS[message.method]]}}
        return Answer(200, {}, json.dumps(result).encode(), _note(principal, "allowed", reason))
    if target.kind != "resource" and message.method in ("tools/call", "prompts/get"):
        name = str(message.param("name"))
        if (seen.tool(name) if message.method == "tools/call" else seen.prompt(name)) is None:
            return Answer(400)
    return _allowed(principal, reason)


def _alone(vector: Vector, principal: Principal, message: Message, server: str) -> None:
    """Who knows names only decides as who knows all, or leaves it to him; and that only where it must."""
    access, prefixes = registry(vector.config).access, registry(vector.config).prefixes
    assert access is not None
    known = naming.judgeable(access, prefixes)(message.method, str(message.param("name")))
    if known is not None:
        why, reason, _ = denied(access, principal, message, CATALOGUE, prefixes, server)
        assert (why, reason) == check.asking(access, principal, known, server)
    elif vector.expect["decision"] == "refuse":
        assert vector.needs == "gateway"


def _signed(vector: Vector, said: Request) -> Capabilities | None:
    trusted = registry(vector.config).trusted
    if trusted is None:
        return None
    sent = said.values(capabilities.HEADER)
    if len(sent) > 1:
        return capabilities.NOTHING
    return capabilities.read(trusted, sent[0] if sent else None, TIME)


def refused(why: Refusal, principal: Principal | None = None) -> Answer:
    headers = {"www-authenticate": why.challenge} if why.challenge else {}
    return Answer(why.status, headers, b"", _note(principal, "refused", why.reason))


def _allowed(principal: Principal, reason: str) -> Answer:
    return Answer(200, noted=_note(principal, "allowed", reason))


def _note(principal: Principal | None, verdict: str, reason: str) -> dict[str, Any]:
    issuer, subject = (principal.issuer, principal.subject) if principal else ("", "")
    return {"issuer": issuer, "principal": subject, "verdict": verdict, "reason": reason}
