"""`auth` and `policies` of a portico.yaml."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from authz.model import ALGORITHMS, Access, Challenge, Issuer, Match, Require, Rule, Trusted
from portico.registry import kinds
from portico.registry.document import Value
from portico.registry.fields import Fields, Listed, Unfit
from portico.registry.kinds import Kinds, one_of
from portico.registry.model import Gateway, Registry
from portico.registry.problems import Report, shown
from portico.registry.reference import UnresolvedReference

_SCOPES: Final = Listed(kinds.SCOPE)
_AUTH: Final[Kinds] = {
    "mode": one_of("none", "jwt"),
    "resource_name": kinds.TEXT,
    "scopes_supported": _SCOPES,
    "required_scopes": _SCOPES,
    "operator_scopes": Listed(kinds.SCOPE, least=1),
    "roles_claim": kinds.TEXT,
    "default": one_of("allow", "deny"),
}
_ISSUER: Final[Kinds] = {
    "issuer": kinds.TRUSTED_URL,
    "audience": kinds.TEXT,
    "algorithms": Listed(one_of(*ALGORITHMS), least=1),
    "jwks_url": kinds.TRUSTED_URL,
}
_MATCH: Final[Kinds] = dict.fromkeys(("backend", "tool", "prompt", "resource", "method"), kinds.TEXT)
_REQUIRE: Final[Kinds] = {
    "scopes": _SCOPES,
    "any_scope": _SCOPES,
    "roles": kinds.TEXTS,
    "never": kinds.FLAG,
}
_CHALLENGE: Final[Kinds] = {"resource_metadata": kinds.TRUSTED_URL, "description": kinds.TEXT}
_TRUSTED: Final[Kinds] = {"key": kinds.PUBLIC_KEY, "enforce": kinds.FLAG}
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def read_access(top: Fields, gateway: Gateway) -> tuple[Access | None, Trusted | None]:
    """No Access without authentication: then nothing of it is looked at but its form."""
    fields = top.section("auth")
    trusted = _trusted(fields)
    given = fields.read(_AUTH)
    mode: Literal["none", "jwt"] = given.pop("mode", "none")
    given["issuers"] = tuple(_issuer(item, top.report) for item in fields.items("issuers"))
    given["implied_scopes"] = _implied(fields)
    fields.refuse_unknown()
    given["rules"] = tuple(_rule(item, top.report) for item in top.items("policies"))
    if "roles_claim" in given:
        given["roles_claim"] = tuple(given["roles_claim"].split("."))
    if mode == "jwt" and not given["issuers"]:
        fields.problem("issuers", "at least one issuer, since mode is jwt", "none")
    if mode == "none" and given["rules"]:
        top.problem("policies", "auth.mode jwt, without which there is nobody to apply them to", "mode none")
    return Access(resource_of(gateway), **given) if mode == "jwt" else None, trusted


def _trusted(auth: Fields) -> Trusted | None:
    """Who else may say what a request sees. A public key is no secret: it is read with the file."""
    if auth.raw("authorized") is None:
        return None
    from authz.capabilities import is_p256  # noqa: PLC0415 - what looks at keys is slow to import

    fields = auth.section("authorized")
    given = fields.read(_TRUSTED, required=("key",))
    fields.refuse_unknown()
    if "key" not in given:
        return None
    try:
        text = given["key"].beside(Path(auth.report.where).parent).resolve()
    except UnresolvedReference as error:
        fields.problem("key", "a key that can be read", str(error))
        return None
    if not is_p256(text):
        fields.problem("key", "the public key of ES256 (P-256), as PEM", "something else")
        return None
    return Trusted(text, given.get("enforce", False))


def resource_of(gateway: Gateway) -> str:
    return f"{gateway.public_url}/mcp"


def at(registry: Registry, public_url: str) -> Registry:
    """The same registry, for a gateway that clients find under another URL."""
    gateway = replace(registry.gateway, public_url=public_url)
    access = registry.access and replace(registry.access, resource=resource_of(gateway))
    return replace(registry, gateway=gateway, access=access)


def _issuer(value: Value, report: Report) -> Issuer:
    fields = Fields(value, report)
    given = fields.read(_ISSUER, required=("issuer",))
    fields.refuse_unknown()
    audience = given.pop("audience", None)
    return Issuer(given.pop("issuer", ""), audience=(audience,) if audience else (), **given)


def _implied(fields: Fields) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found = []
    for scope, value in fields.entries("implied_scopes").items():
        try:
            found.append((scope, _SCOPES.read(value, fields.report)))
        except Unfit:  # it is in the report
            continue
    return tuple(found)


def _rule(value: Value, report: Report) -> Rule:
    fields = Fields(value, report)
    match, require = fields.section("match"), fields.section("require")
    matched, required = match.read(_MATCH), require.read(_REQUIRE)
    hints = match.section("annotations")
    said = hints.read(dict.fromkeys(_HINTS, kinds.FLAG))
    claims = _claims(require)
    challenge = fields.section("challenge")
    said_instead = challenge.read(_CHALLENGE)
    for part in (hints, match, require, challenge, fields):
        part.refuse_unknown()
    if not (required or claims):
        fields.problem("require", "scopes, any_scope, roles, claims or never", shown(None))
    return Rule(
        Match(**matched, annotations=tuple(said.items())),
        Require(**required, claims=claims),
        Challenge(**said_instead),
    )


def _claims(require: Fields) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: list[tuple[str, tuple[str, ...]]] = []
    for name, value in require.entries("claims").items():
        try:
            several: Any = kinds.TEXTS if isinstance(value.data, list) else kinds.TEXT
            said = several.read(value, require.report)
        except Unfit:  # it is in the report
            continue
        found.append((name, said if isinstance(said, tuple) else (said,)))
    return tuple(found)
