"""The check as a Lambda REQUEST authorizer.

Without a good token API Gateway answers 401, for which it wants an exception called "Unauthorized"; whoever has one and may
not is answered 403 with the challenge in the context. Of a tool call it sees only what headers say: rules about tools
are applied here to clients that send `Mcp-Name`, and by the functions to everybody.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from authz import challenge
from authz.challenge import Refusal
from authz.context import packed
from authz.guard import Guard
from authz.model import Principal, Target
from authz.policy import decide, lacking

MCP: Final = ("POST/mcp", "GET/mcp", "DELETE/mcp", "POST/mcp/*", "GET/mcp/v/*", "DELETE/mcp/v/*")
OPERATORS: Final = ("backends", "backends/*", "services", "services/*", "status", "status/*")

Event = Mapping[str, Any]
Named = Callable[[str, str], Target | None]
"""Method and exposed name to what is asked for; None if that cannot be told from the name alone."""


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
        principal = await self._guard.admit(_values(event, "authorization"))
        if isinstance(principal, Principal):
            return self._policy(event, principal)
        if principal.status == 503:
            raise Unavailable(principal.message)
        raise Exception("Unauthorized")  # noqa: TRY002 - this very text is what API Gateway takes for a 401

    def _policy(self, event: Event, principal: Principal) -> dict[str, Any]:
        """What is allowed holds for other requests, too, where API Gateway keeps it; a Deny is for this one."""
        refused = self._refused(event, principal)
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
        mcp = (
            []
            if lacking(access, principal, access.required_scopes)
            else [f"{stage}/{route}" for route in MCP]
        )
        return (
            mcp
            if lacking(access, principal, access.operator_scopes)
            else [*mcp, *(f"{stage}/*/{path}" for path in OPERATORS)]
        )

    def _refused(self, event: Event, principal: Principal) -> Refusal | None:
        access, path = self._guard.access, str(event.get("resource") or event.get("path") or "")
        if path != "/mcp" and not path.startswith("/mcp/"):
            return challenge.lacking_scopes(access, lacking(access, principal, access.operator_scopes))
        target = self._target(event) or Target("")
        verdict = decide(access, principal, target)
        missing = lacking(access, principal, access.required_scopes)
        if verdict.allowed or (not target.method and not missing):
            return None
        return challenge.forbidden(access, verdict, target)

    def _target(self, event: Event) -> Target | None:
        methods, names = _values(event, "mcp-method"), _values(event, "mcp-name")
        if self._named is None or len(methods) != 1 or len(names) > 1:
            return None
        return self._named(methods[0], names[0] if names else "")


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
