"""`auth` and `policies` of a portico.yaml."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from authz.model import ALGORITHMS, Access, Challenge, Issuer, Match, Require, Rule, Trusted
from authz.origins import ON_LOOPBACK, origin_allowed
from portico.registry import kinds
from portico.registry.document import Value
from portico.registry.fields import Fields, Listed, Unfit
from portico.registry.kinds import Kinds, one_of
from portico.registry.model import DevAuth, Gateway, Registry
from portico.registry.problems import Report, shown
from portico.registry.reference import UnresolvedReference

_SCOPES: Final = Listed(kinds.SCOPE)
_AUTH: Final[Kinds] = {
    "mode": one_of("none", "jwt", "dev"),
    "access_token_s": kinds.SECONDS,
    "resource_name": kinds.TEXT,
    "scopes_supported": _SCOPES,
    "required_scopes": _SCOPES,
    "operator_scopes": Listed(kinds.SCOPE, least=1),
    "roles_claim": kinds.TEXT,
    "default": one_of("allow", "deny"),
    "lists": one_of("allowed", "obtainable"),
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


def read_auth(top: Fields, gateway: Gateway) -> dict[str, Any]:
    """No Access without authentication: then nothing of it is looked at but its form."""
    fields = top.section("auth")
    trusted = _trusted(fields)
    given = fields.read(_AUTH)
    mode: Literal["none", "jwt", "dev"] = given.pop("mode", "none")
    lifetime = {"access_token_s": given.pop("access_token_s")} if "access_token_s" in given else {}
    given["issuers"] = tuple(_issuer(item, top.report) for item in fields.items("issuers"))
    given["implied_scopes"] = _implied(fields)
    for elsewhere in ("encryption_key", "login"):  # registry.oauth
        fields.raw(elsewhere)
    fields.refuse_unknown()
    given["rules"] = tuple(_rule(item, top.report) for item in top.items("policies"))
    if "roles_claim" in given:
        given["roles_claim"] = tuple(given["roles_claim"].split("."))
    if mode == "jwt" and not given["issuers"]:
        fields.problem("issuers", "at least one issuer, since mode is jwt", "none")
    if mode == "none" and given["rules"]:
        expected = "auth.mode jwt or dev, without which there is nobody to apply them to"
        top.problem("policies", expected, "mode none")
    if lifetime and mode != "dev":
        fields.problem("access_token_s", "nothing, unless mode is dev", "a lifetime")
    if mode == "none":
        return {"trusted": trusted}
    if mode == "jwt":
        return {"trusted": trusted, "access": Access(resource_of(gateway), **given)}
    if given["issuers"]:
        fields.problem("issuers", "nothing, since mode is dev: the gateway itself is the issuer", "issuers")
    if not origin_allowed(ON_LOOPBACK, gateway.public_url) or gateway.public_url.count("/") > 2:
        top.section("gateway").problem(
            "public_url", "an origin on this machine, since auth.mode is dev", "another one"
        )
    given["issuers"] = (own_issuer(gateway),)
    access = Access(resource_of(gateway), **given)
    return {"trusted": trusted, "access": access, "dev_auth": DevAuth(**lifetime)}


def own_issuer(gateway: Gateway) -> Issuer:
    """The gateway itself."""
    origin = gateway.public_url
    return Issuer(origin, algorithms=("ES256",), jwks_url=f"{origin}/oauth/jwks")


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
    if access is not None and registry.dev_auth is not None:
        access = replace(access, issuers=(own_issuer(gateway),))
    return replace(registry, gateway=gateway, access=access)


def listening_at(registry: Registry, origin: str) -> Registry:
    """A gateway that issues its own tokens goes by the address it listens on, unless the file has another."""
    usual = registry.gateway.public_url == Gateway().public_url
    return at(registry, origin) if registry.dev_auth is not None and usual else registry


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
