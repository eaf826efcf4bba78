"""Who may do what: rules, the first of which that fits decides."""

import time
from dataclasses import replace

import pytest

from authz import challenge
from authz.metadata import scopes_of
from authz.model import Access, Match, Principal, Require, Rule, Target
from authz.policy import decide

CALL = Target("tools/call", "gh", "tool", "gh_delete_repo", "delete_repo", {"destructiveHint": True})


def access(*rules: Rule, **more) -> Access:
    return Access("https://gw.example.com/mcp", rules=rules, **more)


def somebody(*scopes: str, **claims) -> Principal:
    return Principal("https://as.example.com", "ada", frozenset(scopes), claims)


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        (Match(), True),
        (Match(backend="gh"), True),
        (Match(backend="g"), False),
        (Match(tool="gh_delete_*"), True),
        (Match(tool="gh_delete_"), False),
        (Match(tool="GH_*"), False),
        (Match(tool="gh?delete?repo"), True),
        (Match(tool="[g]h_*"), False),
        (Match(prompt="*"), False),
        (Match(resource="*"), False),
        (Match(method="tools/*"), True),
        (Match(method="prompts/get"), False),
        (Match(annotations=(("destructiveHint", True),)), True),
        (Match(annotations=(("destructiveHint", False),)), False),
        (Match(annotations=(("readOnlyHint", False),)), False),
        (Match(backend="gh", tool="other"), False),
    ],
)
def test_a_rule_fits_when_all_that_it_says_does(match, fits):
    found = decide(access(Rule(match, Require(scopes=("admin",)))), somebody(), CALL)
    assert found.allowed is not fits
    assert found.missing == (("admin",) if fits else ())


def test_the_first_rule_that_fits_decides_and_is_named():
    """G1.74"""
    rules = access(
        Rule(Match(tool="gh_delete_*"), Require(scopes=("admin",))), Rule(Match(), Require(scopes=("use",)))
    )
    assert decide(rules, somebody("admin"), CALL).allowed
    refused = decide(rules, somebody("use"), CALL)
    assert (refused.allowed, refused.missing, refused.reason) == (
        False,
        ("admin",),
        "policies[0]: scopes are missing",
    )


@pytest.mark.parametrize("pattern", ["gh_*_x_*_all", "*a*a*b", "*_?_*_?_*z", "gh_*_x_**_x_*?!"])
def test_no_name_however_long_takes_long_to_judge(pattern):
    """Clients choose the names, and everybody waits while one is judged."""
    rules = access(Rule(Match(tool=pattern), Require(scopes=("admin",))))
    long = replace(CALL, name="gh_" + "_x_" * 100_000)
    began = time.process_time()
    assert decide(rules, somebody(), long).allowed
    assert time.process_time() - began < 1


@pytest.mark.parametrize("scopes", [["adm"], ["admin2"], ["Admin"], ["admin:x"], ["*"], ["ad min"]])
def test_a_scope_that_only_looks_alike_is_another_one(scopes):
    assert not decide(access(Rule(require=Require(scopes=("admin",)))), somebody(*scopes), CALL).allowed


def test_exactly_the_missing_scopes_are_named():
    rules = access(Rule(require=Require(scopes=("a", "b", "c"), any_scope=("x", "y"))))
    assert decide(rules, somebody("b"), CALL).missing == ("a", "c", "x")
    assert decide(rules, somebody("a", "b", "c"), CALL).missing == ("x",)
    assert decide(rules, somebody("a", "b", "c", "y"), CALL).allowed


def test_a_scope_may_imply_others_in_circles_too():
    implied = (("admin", ("write",)), ("write", ("read", "admin")))
    rules = access(Rule(require=Require(scopes=("read",))), implied_scopes=implied)
    assert decide(rules, somebody("admin"), CALL).allowed
    assert not decide(rules, somebody("reader"), CALL).allowed


@pytest.mark.parametrize(
    ("claims", "allowed"),
    [
        ({"resource_access": {"gh": {"roles": ["tool:delete_repo"]}}}, True),
        ({"resource_access": {"gh": {"roles": ["tool:gh_delete_repo"]}}}, False),
        ({"resource_access": {"other": {"roles": ["tool:delete_repo"]}}}, False),
        ({"resource_access": {"gh": {"roles": "tool:delete_repo"}}}, True),
        ({"resource_access": {"gh": ["tool:delete_repo"]}}, False),
        ({"resource_access": "tool:delete_repo"}, False),
        ({}, False),
    ],
)
def test_roles_may_be_per_server_and_tool(claims, allowed):
    """G1.81"""
    rules = access(
        Rule(Match(backend="gh"), Require(roles=("tool:{tool}",))),
        roles_claim=("resource_access", "{backend}", "roles"),
    )
    verdict = decide(rules, somebody(**claims), CALL)
    assert (verdict.allowed, verdict.missing) == (allowed, ())


def test_a_claim_must_have_one_of_the_values():
    rules = access(Rule(require=Require(claims=(("team", ("a", "b")), ("verified", ("true",))))))
    assert decide(rules, somebody(team=["b", "c"], verified=True), CALL).allowed
    assert not decide(rules, somebody(team=["c"], verified=True), CALL).allowed
    assert not decide(rules, somebody(team="a", verified={"true": 1}), CALL).allowed


def test_never_is_never_and_no_scope_would_help():
    verdict = decide(access(Rule(require=Require(never=True))), somebody("admin"), CALL)
    assert (verdict.allowed, verdict.missing) == (False, ())


def test_what_no_rule_fits_is_as_the_default_says_and_the_protocol_itself_is_free():
    assert decide(access(), somebody(), CALL).allowed
    assert not decide(access(default="deny"), somebody(), CALL).allowed
    assert decide(access(default="deny"), somebody(), Target("tools/list")).allowed


def test_the_challenge_for_a_tool_names_its_scopes_and_its_own_metadata():
    """G1.75"""
    rules = access(Rule(Match(tool="gh_*"), Require(scopes=("repo:admin",))))
    refused = challenge.forbidden(rules, decide(rules, somebody(), CALL), CALL)
    place = "https://gw.example.com/.well-known/oauth-protected-resource/tool/gh_delete_repo"
    assert refused.status == 403
    assert refused.challenge == (
        f'Bearer error="insufficient_scope", scope="repo:admin", resource_metadata="{place}"'
    )
    assert refused.data == {
        "wwwAuthenticate": refused.challenge,
        "resourceMetadata": place,
        "scopes": ["repo:admin"],
    }
    assert scopes_of(rules, CALL) == ("repo:admin",)


def test_a_strange_tool_name_cannot_break_out_of_the_header():
    strange = Target("tools/call", "gh", "tool", 'x"\r\nset-cookie: a/../b', "x")
    rules = access(Rule(require=Require(never=True)))
    header = challenge.forbidden(rules, decide(rules, somebody(), strange), strange).challenge
    assert "\r" not in header
    assert header.count('"') == 4
    assert header.endswith('/tool/x%22%0D%0Aset-cookie%3A%20a%2F..%2Fb"')
