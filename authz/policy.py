"""Principal + target + rules -> Verdict. Pure and deterministic: the first rule that fits decides.

Where nobody knows a tool's annotations, a rule about them counts if it refuses, and not if it allows.
What every request needs, whatever it asks for, `check` looks at before.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from authz.model import Access, Match, Principal, Require, Rule, Target, Verdict
from authz.resources import meant

ALLOWED: Final = Verdict(allowed=True, reason="no rule fits")


def decide(access: Access, principal: Principal, target: Target) -> Verdict:
    """A resource may be asked for in many ways of writing: as it is written, and as it may be meant, it must be allowed."""
    verdict, other = _decided(access, principal, target), meant(target)
    return _decided(access, principal, other) if verdict.allowed and other else verdict


def _decided(access: Access, principal: Principal, target: Target) -> Verdict:
    for number, rule in enumerate(access.rules):
        if fits(rule.match, target):
            verdict = _judged(access, principal, target, rule, f"policies[{number}]")
            if not (verdict.allowed and rule.match.annotations and target.annotations is None):
                return replace(verdict, challenge=rule.challenge)
    if access.default == "allow" or not target.kind:
        return ALLOWED
    return Verdict(allowed=False, reason="no rule fits, and the default is to deny")


def lacking(access: Access, principal: Principal, scopes: Iterable[str]) -> tuple[str, ...]:
    """Those of the scopes that the principal has neither itself nor through another one."""
    held = _held(principal.scopes, access.implied_scopes)
    return tuple(scope for scope in scopes if scope not in held)


@lru_cache(maxsize=4096)
def _held(own: frozenset[str], implied: tuple[tuple[str, tuple[str, ...]], ...]) -> frozenset[str]:
    table = dict(implied)
    held: set[str] = set()
    open_ = list(own)
    while open_:
        scope = open_.pop()
        if scope not in held:
            held.add(scope)
            open_.extend(table.get(scope, ()))
    return frozenset(held)


def fits(match: Match, target: Target) -> bool:
    names = {"tool": match.tool, "prompt": match.prompt, "resource": match.resource}
    for kind, pattern in names.items():
        if pattern is not None and not (target.kind == kind and glob(pattern).fullmatch(target.name)):
            return False
    if match.backend is not None and not glob(match.backend).fullmatch(target.backend):
        return False
    if match.method is not None and not glob(match.method).fullmatch(target.method):
        return False
    known = target.annotations
    return known is None or all(known.get(name) is wanted for name, wanted in match.annotations)


def depends_on_annotations(access: Access, target: Target) -> bool:
    """Whether who does not know the target's annotations can not tell which rule decides."""
    fitting = (rule for rule in access.rules if fits(rule.match, replace(target, annotations=None)))
    return bool(next(fitting, Rule()).match.annotations)


@lru_cache(maxsize=1024)
def glob(pattern: str) -> re.Pattern[str]:
    """`*` is any text, `?` any one character, all else itself.

    What stands between two `*` is found where it first is and never looked for again (an atomic group): clients choose
    the names, and none may be slow to judge.
    """
    first, *others = ("".join("." if c == "?" else re.escape(c) for c in part) for part in pattern.split("*"))
    between = "".join(f"(?>.*?{part})" for part in others[:-1])
    return re.compile(first + between + "".join(f".*{part}" for part in others[-1:]), re.DOTALL)


def _judged(access: Access, principal: Principal, target: Target, rule: Rule, where: str) -> Verdict:
    require = rule.require
    if require.never:
        return Verdict(allowed=False, reason=f"{where}: nobody may")
    for unmet in (_claims, _roles):
        if reason := unmet(access, principal, target, require):
            return Verdict(allowed=False, reason=f"{where}: {reason}")
    missing = lacking(access, principal, require.scopes)
    one_of = require.any_scope
    if one_of and len(lacking(access, principal, one_of)) == len(one_of):
        missing += tuple(scope for scope in one_of[:1] if scope not in missing)
    if missing:
        return Verdict(allowed=False, reason=f"{where}: scopes are missing", missing=missing)
    return Verdict(allowed=True, reason=where)


def _claims(_: Access, principal: Principal, __: Target, require: Require) -> str:
    for name, wanted in require.claims:
        if not set(wanted) & set(_texts(principal.claims.get(name))):
            return f"the claim {name} has none of the values it needs"
    return ""


def _roles(access: Access, principal: Principal, target: Target, require: Require) -> str:
    if not require.roles:
        return ""
    found: Any = principal.claims
    for step in access.roles_claim:
        name = target.backend if step == "{backend}" else step
        found = found.get(name) if isinstance(found, Mapping) else None
    wanted = {_filled(role, target) for role in require.roles}
    return "" if wanted & set(_texts(found)) else "none of the roles that it needs"


def _filled(role: str, target: Target) -> str:
    """In one go: what a name contains is not filled in again."""
    own = target.upstream_name
    values = {"{tool}": own, "{prompt}": own, "{backend}": target.backend}
    return re.sub(r"\{(?:tool|prompt|backend)\}", lambda found: values[found[0]], role)


def _texts(value: Any) -> list[str]:
    """A claim's values: itself if it is text, its entries if it is a list, nothing otherwise."""
    several = value if isinstance(value, list) else [value]
    plain = (str(item).lower() if isinstance(item, bool) else item for item in several)
    return [str(item) for item in plain if isinstance(item, str | int)]
