"""Lambda authorizers: identity sources, the function's policy, its context, and the cache of both."""

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from emulator.application import Authorizer
from emulator.functions import Functions
from emulator.intrinsics import ACCOUNT
from emulator.outcomes import Stream
from emulator.requests import Incoming

SIGNED = "AWS4-HMAC-SHA256"
EXPLICIT = "User is not authorized to access this resource with an explicit deny"


@dataclass(frozen=True)
class Refusal:
    kind: str  # of gateway response
    message: str | None = None
    context: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Grant:
    context: dict[str, str]
    statements: list[dict[str, Any]]


class Authorizers:
    def __init__(self, declared: Mapping[str, Authorizer], functions: Functions) -> None:
        self._declared = declared
        self._functions = functions
        self._cache: dict[tuple[str, ...], tuple[float, Grant]] = {}

    async def check(self, name: str, incoming: Incoming) -> dict[str, str] | Refusal:
        """The authorizer's context, for requestContext; or why not."""
        authorizer = self._declared[name]
        identity = [incoming.value(source) for source in authorizer.identity]
        if not all(identity):
            return Refusal("UNAUTHORIZED")
        key = (name, *(value or "" for value in identity))
        grant = self._cached(key) or await self._ask(authorizer, incoming, identity)
        if isinstance(grant, Refusal):
            return grant
        if authorizer.ttl_s > 0 and identity:
            self._cache.setdefault(key, (time.monotonic() + authorizer.ttl_s, grant))
        return decide(grant, incoming.arn)

    def _cached(self, key: tuple[str, ...]) -> Grant | None:
        until, grant = self._cache.get(key, (0.0, None))
        if time.monotonic() < until:
            return grant
        self._cache.pop(key, None)
        return None

    async def _ask(
        self, authorizer: Authorizer, incoming: Incoming, identity: list[str | None]
    ) -> Grant | Refusal:
        event: dict[str, Any] = {"type": authorizer.kind.upper(), "methodArn": incoming.arn}
        event |= {"authorizationToken": identity[0]} if authorizer.kind == "token" else incoming.event()
        outcome = await self._functions.invoke(authorizer.function, json.dumps(event).encode())
        payload = await outcome.whole() if isinstance(outcome, Stream) else outcome
        if payload.error:
            known = payload.message() == "Unauthorized"
            return Refusal("UNAUTHORIZED" if known else "AUTHORIZER_CONFIGURATION_ERROR")
        return read_grant(payload.data) or Refusal("AUTHORIZER_CONFIGURATION_ERROR")


def check_signature(incoming: Incoming) -> str | None:
    """The kind of gateway response that refuses it. Whoever signs is let in: there are no users here to know the keys of."""
    said = incoming.value("method.request.header.Authorization")
    if said is None and "X-Amz-Signature" in incoming.query:
        said = f"{SIGNED} Credential={incoming.query.get('X-Amz-Credential', [''])[-1]}"
    if said is None:
        return "MISSING_AUTHENTICATION_TOKEN"
    found = re.match(rf"{SIGNED} .*?Credential=([^/,\s]+)/", said)
    if found is None:
        return "INVALID_SIGNATURE"
    user = f"arn:aws:iam::{ACCOUNT}:user/{found[1]}"
    incoming.context["identity"] |= {"accessKey": found[1], "accountId": ACCOUNT, "userArn": user}
    return None


def read_grant(data: bytes) -> Grant | None:
    """None for what API Gateway would not take: no principal, no policy, a context of more than plain values."""
    try:
        said = json.loads(data)
        principal, statements = said["principalId"], said["policyDocument"]["Statement"]
        context = said.get("context") or {}
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(principal, str) or any(isinstance(v, dict | list) for v in context.values()):
        return None
    plain = {name: _text(value) for name, value in context.items() if value is not None}
    several = statements if isinstance(statements, list) else [statements]
    return Grant({**plain, "principalId": principal, "integrationLatency": "0"}, several)


def decide(grant: Grant, arn: str) -> dict[str, str] | Refusal:
    """A Deny that fits goes before any Allow; without an Allow that fits there is none."""
    effects = {str(s.get("Effect")) for s in grant.statements if _fits(s, arn)}
    if "Deny" in effects:
        return Refusal("ACCESS_DENIED", EXPLICIT, grant.context)
    return grant.context if "Allow" in effects else Refusal("ACCESS_DENIED", context=grant.context)


def _fits(statement: dict[str, Any], arn: str) -> bool:
    actions, resources = _several(statement.get("Action")), _several(statement.get("Resource"))
    return any(_like(a.lower(), "execute-api:invoke") for a in actions) and any(
        _like(r, arn) for r in resources
    )


def _several(value: Any) -> Iterable[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _like(pattern: str, text: str) -> bool:
    regex = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(regex, text, re.DOTALL) is not None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
