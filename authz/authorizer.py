"""The check as a Lambda REQUEST authorizer.

Without a good token API Gateway answers 401, for which it wants an exception called "Unauthorized"; whoever has one and may
not is answered 403 with the challenge in the context. Of a tool call it sees only what headers say: rules about tools
are applied here to clients that send `Mcp-Name`, and by the functions to everybody.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from authz import audit
from authz.asked import by_headers
from authz.audit import Decided
from authz.challenge import UNAVAILABLE, UNKNOWN, Refusal
from authz.check import asking, entering
from authz.context import packed
from authz.guard import Guard
from authz.model import Principal, Target
from authz.naming import Named
from authz.places import GIVEN, VIRTUAL, Place
from authz.policy import lacking

MCP: Final = ("POST/mcp", "GET/mcp", "DELETE/mcp", "POST/mcp/*", "GET/mcp/v/*", "DELETE/mcp/v/*")
TAKEN_BACK: Final = "DELETE/oauth/upstream/tokens/*"
OPERATORS: Final = (
    "backends",
    "backends/*",
    "services",
    "services/*",
    "status",
    "status/*",
    "docs",
    "openapi.json",
)

Event = Mapping[str, Any]


class Unavailable(Exception):
    """API Gateway answers 503, by the gateway responses of the template."""


class Authorizer:
    """`named` is None where verdicts are cached by token: then they must hold for all tools alike."""

    def __init__(self, guard: Guard, named: Named | None = None) -> None:
        self._guard = guard
        self._named = named
        self._runner = asyncio.Runner()

    def __call__(self, event: Event, context: object) -> dict[str, Any]:  # noqa: ARG002 - Lambda's signature
        return self._runner.run(self._judged(event))

    def close(self) -> None:
        """For whoever makes more than one: Lambda never ends it."""
        self._runner.close()

    async def _judged(self, event: Event) -> dict[str, Any]:
        began, decided = time.perf_counter(), Decided()
        found = await self._guard.admit(_values(event, "authorization"), _place(event).server)
        refused: Refusal | None
        if isinstance(found, Principal):
            decided.of(found)
            refused, reason = self._refused(event, found)
            decided.allowed(reason)
        else:
            refused = found
        if refused is not None:
            decided.refused(refused)
        _note(event, decided, refused, began)
        if refused is not None and refused.status == UNAVAILABLE:
            raise Unavailable(refused.message)
        if isinstance(found, Principal) and (refused is None or refused.status != UNKNOWN):
            return self._policy(event, found, refused)
        raise Exception("Unauthorized")  # noqa: TRY002 - this very text is what API Gateway takes for a 401

    def _policy(self, event: Event, principal: Principal, refused: Refusal | None) -> dict[str, Any]:
        """What is allowed holds for other requests, too, where API Gateway keeps it; a Deny is for this one."""
        statements = [_statement("Allow", self._allowed(event, principal))]
        if refused:
            statements.append(_statement("Deny", [str(event["methodArn"])]))
        return {
            "principalId": principal.subject,
            "policyDocument": {"Version": "2012-10-17", "Statement": statements},
            "context": packed(principal) | ({"challenge": refused.challenge} if refused else {}),
        }

    def _allowed(self, event: Event, principal: Principal) -> list[str]:
        """Every route of /mcp by its verb: a `*` would fit slashes as well, and so a backend that is called mcp."""
        access, stage = self._guard.access, "/".join(str(event["methodArn"]).split("/")[:2])
        everywhere, found = principal.servers is None, []
        if not lacking(access, principal, access.required_scopes):
            found += [f"{stage}/{route}" for route in ((*MCP, TAKEN_BACK) if everywhere else MCP)]
        if everywhere and not lacking(access, principal, access.operator_scopes):
            found += [f"{stage}/*/{path}" for path in OPERATORS]
        return found

    def _refused(self, event: Event, principal: Principal) -> tuple[Refusal | None, str]:
        access, there = self._guard.access, _place(event)
        refused = entering(access, principal, there)
        target = self._target(event) if refused is None and there.kind == "mcp" else None
        return asking(access, principal, target, there.server) if target else (refused, "")

    def _target(self, event: Event) -> Target | None:
        methods, names = _values(event, "mcp-method"), _values(event, "mcp-name")
        if self._named is None or len(methods) != 1 or len(names) > 1:
            return None
        asked = by_headers({"mcp-method": methods[0], "mcp-name": names[0] if names else ""})
        return self._named(asked.method, asked.name)


def _place(event: Event) -> Place:
    """By the route: a path may have more before it. Routes for one kind of request lie below /mcp, too."""
    route = str(event.get("resource") or event.get("path") or "")
    if route.startswith(VIRTUAL):
        return Place("mcp", unquote(str((event.get("pathParameters") or {}).get("server") or "")))
    if route.startswith(GIVEN):
        return Place("consent")
    return Place("mcp") if route == "/mcp" or route.startswith("/mcp/") else Place("operators")


def _note(event: Event, decided: Decided, refused: Refusal | None, began: float) -> None:
    """Whatever is allowed here a function answers, whose line has its status."""
    asked = by_headers({name: (_values(event, name) or [""])[-1] for name in ("mcp-method", "mcp-name")})
    said: dict[str, str | int | float] = {
        "method": (asked.method or f"{event.get('httpMethod', '')} {event.get('path', '')}")[: audit.MOST],
        "tool": asked.name[: audit.MOST],
        "backend": "",
        "outcome": "refused" if refused else "ok",
        "status": refused.status if refused else 200,
        "duration_ms": round((time.perf_counter() - began) * 1000, 1),
    }
    audit.note(decided, said)


def _values(event: Event, name: str) -> list[str]:
    """However the header is written, and however often it came."""
    several = event.get("multiValueHeaders") or {}
    once = event.get("headers") or {}
    found = [value for key, values in several.items() if key.lower() == name for value in values]
    return found or [value for key, value in once.items() if key.lower() == name]


def _statement(effect: str, resources: list[str]) -> dict[str, Any]:
    return {
        "Action": "execute-api:Invoke",
        "Effect": effect,
        "Resource": resources or ["arn:aws:execute-api:none"],
    }
