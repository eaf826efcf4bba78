"""The check as API Gateway asks for it: with headers, and without a body."""

import json
from contextlib import closing

import pytest

from authz.authorizer import Authorizer, Unavailable
from authz.context import unpacked
from authz.fetching import Unfetched
from authz.guard import Guard
from authz.keys import Keys
from authz.model import Access, Match, Require, Rule, Target
from authz.model import Issuer as Declared
from emulator.authorizers import Refusal, decide, read_grant
from tests.support.issuer import RESOURCE, Issuer

ISSUER = Issuer()
ACCESS = Access(
    RESOURCE,
    (Declared(ISSUER.url, jwks_url=f"{ISSUER.url}/jwks"),),
    required_scopes=("mcp:use",),
    rules=(Rule(Match(tool="gh_delete_*"), Require(scopes=("repo:admin",))),),
)
API = "arn:aws:execute-api:eu-west-1:123456789012:abc/prod"


async def keys(_: str) -> bytes:
    return json.dumps(ISSUER.jwks()).encode()


async def nothing(_: str) -> bytes:
    raise Unfetched("down")


def named(method: str, name: str) -> Target | None:
    return Target(method, "gh", "tool", name, name.removeprefix("gh_")) if name else None


def event(token: str | None = None, path: str = "/mcp", verb: str = "POST", **headers: str) -> dict:
    sent = headers | ({"Authorization": f"Bearer {token}"} if token else {})
    return {
        "type": "REQUEST",
        "methodArn": f"{API}/{verb}{path}",
        "resource": path,
        "headers": sent,
        "multiValueHeaders": {name: [value] for name, value in sent.items()},
    }


def asked(said: dict, *, per_tool: bool = True, get=keys) -> dict:
    with closing(Authorizer(Guard(ACCESS, Keys(get)), named if per_tool else None)) as authorizer:
        return authorizer(said, None)


def outcome(said: dict, **options) -> "dict | Refusal":
    grant = read_grant(json.dumps(asked(said, **options)).encode())
    assert grant is not None
    return decide(grant, said["methodArn"])


def test_who_has_a_good_token_is_let_in_and_known_to_the_functions():
    """G1.71"""
    context = outcome(event(ISSUER.token()))
    assert isinstance(context, dict)
    principal = unpacked(context)
    assert principal is not None
    assert (principal.subject, principal.scopes) == ("ada", {"mcp:use"})


@pytest.mark.parametrize("token", [None, "nonsense", Issuer(ISSUER.url).token()])
def test_who_has_none_is_unauthorized_in_the_words_that_api_gateway_knows(token):
    """G1.71"""
    with pytest.raises(Exception, match=r"^Unauthorized$"):
        asked(event(token))


def test_two_authorization_headers_are_refused():
    said = event(ISSUER.token())
    said["multiValueHeaders"]["authorization"] = [f"Bearer {ISSUER.token()}"]
    with pytest.raises(Exception, match=r"^Unauthorized$"):
        asked(said)


def test_keys_that_cannot_be_had_are_nobody_s_fault():
    with pytest.raises(Unavailable):
        asked(event(ISSUER.token()), get=nothing)


def test_a_call_is_judged_by_its_headers_where_it_has_them():
    """G1.75"""
    said = event(ISSUER.token(), **{"Mcp-Method": "tools/call", "Mcp-Name": "gh_delete_repo"})
    refused = outcome(said)
    assert isinstance(refused, Refusal)
    assert refused.kind == "ACCESS_DENIED"
    assert 'scope="repo:admin"' in refused.context["challenge"]
    assert refused.context["challenge"].endswith('/oauth-protected-resource/tool/gh_delete_repo"')
    allowed = event(
        ISSUER.token(scope="mcp:use repo:admin"), **{"Mcp-Method": "tools/call", "Mcp-Name": "gh_delete_repo"}
    )
    assert isinstance(outcome(allowed), dict)


def test_a_verdict_that_is_kept_says_nothing_of_tools():
    said = event(ISSUER.token(), **{"Mcp-Method": "tools/call", "Mcp-Name": "gh_delete_repo"})
    assert isinstance(outcome(said, per_tool=False), dict)


def test_without_what_everybody_needs_the_missing_scope_is_named():
    refused = outcome(event(ISSUER.token(scope="other")))
    assert isinstance(refused, Refusal)
    assert 'scope="mcp:use"' in refused.context["challenge"]


@pytest.mark.parametrize(
    "path", ["/backends", "/backends/{name}", "/status", "/services", "/docs", "/openapi.json"]
)
def test_operators_paths_need_the_operators_scope(path):
    refused = outcome(event(ISSUER.token(), path, "GET"))
    assert isinstance(refused, Refusal)
    assert 'scope="portico:operate"' in refused.context["challenge"]
    assert isinstance(outcome(event(ISSUER.token(scope="mcp:use portico:operate"), path, "GET")), dict)


@pytest.mark.parametrize(
    "route", ["GET/backends", "DELETE/backends/mcp", "GET/backends/mcp", "POST/services/mcp"]
)
def test_a_verdict_for_mcp_that_is_kept_opens_no_operators_path(route):
    grant = read_grant(json.dumps(asked(event(ISSUER.token()))).encode())
    assert grant is not None
    assert isinstance(decide(grant, f"{API}/{route}"), Refusal)
    assert isinstance(decide(grant, f"{API}/POST/mcp/tools-call"), dict)


@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
def test_a_virtual_server_is_reached_as_the_gateway_is(verb):
    """G1.71"""
    asked_for = event(ISSUER.token(), "/mcp/v/{server}", verb) | {"methodArn": f"{API}/{verb}/mcp/v/dev"}
    assert isinstance(outcome(asked_for), dict)
    refused = outcome(asked_for | event(ISSUER.token(scope="other"), "/mcp/v/{server}", verb))
    assert isinstance(refused, Refusal)
    assert 'scope="mcp:use"' in refused.context["challenge"]
    kept = read_grant(json.dumps(asked(event(ISSUER.token()))).encode())
    assert kept is not None
    assert isinstance(decide(kept, f"{API}/{verb}/mcp/v/dev"), dict)


def test_whoever_may_use_the_gateway_may_take_back_what_he_has_given():
    """G1.82: not only operators; and not with a token that is for one virtual server."""
    back = event(ISSUER.token(), "/oauth/upstream/tokens/{backend}", "DELETE") | {
        "methodArn": f"{API}/DELETE/oauth/upstream/tokens/gh"
    }
    assert isinstance(outcome(back), dict)
    refused = outcome(back | event(ISSUER.token(scope="other"), back["resource"], "DELETE"))
    assert isinstance(refused, Refusal)
    assert 'scope="mcp:use"' in refused.context["challenge"]
    narrow = event(ISSUER.token(aud=f"{RESOURCE}/v/dev"), "/mcp/v/{server}")
    kept = read_grant(json.dumps(asked(narrow | {"pathParameters": {"server": "dev"}})).encode())
    assert kept is not None
    assert isinstance(decide(kept, f"{API}/POST/mcp/v/dev"), dict)
    assert isinstance(decide(kept, back["methodArn"]), Refusal)
    with pytest.raises(Exception, match=r"^Unauthorized$"):
        asked(back | event(ISSUER.token(aud=f"{RESOURCE}/v/dev"), back["resource"], "DELETE"))


def test_one_process_answers_many_times():
    with closing(Authorizer(Guard(ACCESS, Keys(keys)), named)) as authorizer:
        for number in range(3):
            assert authorizer(event(ISSUER.token(jti=str(number))), None)["principalId"] == "ada"
