"""What attackers try, from outside, on a gateway that asks for tokens. None gets in, none finds a fault."""

import pytest

from tests.attacks.requests import ATTACKS
from tests.attacks.scene import ALLOWED, BASE, DENIED, SCOPE, Scene, request
from tests.attacks.tokens import bad_tokens
from tests.support import config, echo_server, gateway
from tests.support.issuer import Issuer, published

BAD = tuple(bad_tokens(Issuer()))


@pytest.fixture(scope="module")
def scene():
    with (
        echo_server() as one,
        echo_server("two") as two,
        published(f"{BASE}/mcp") as issuer,
        published(f"{BASE}/mcp") as second,
        gateway(declared(one, two, issuer, second)) as portico,
    ):
        yield Scene(portico.base, issuer, (one, two), second)


def declared(one, two, issuer, second):
    return config(
        ("s1", one.url, {}),
        ("s2", two.url, {}),
        gateway={"public_url": BASE},
        auth={
            "mode": "jwt",
            "issuers": [
                {"issuer": each.url, "algorithms": ["RS256", "ES256", "EdDSA"]} for each in (issuer, second)
            ],
            "roles_claim": "resource_access.{backend}.roles",
        },
        policies=[
            {"match": {"tool": DENIED}, "require": {"scopes": [SCOPE]}},
            {"match": {"tool": "s1_headers"}, "require": {"roles": ["tool:{tool}"]}},
        ],
    )


@pytest.fixture(scope="module")
def tokens(scene):
    return bad_tokens(scene.issuer)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_token_lets_nobody_in(scene, tokens, name):
    """G1.67, G1.82: refused on the way in, with nothing of it repeated, and no backend hears of it."""
    before = scene.reached()
    reply = scene.post(request("tools/call", {"name": ALLOWED, "arguments": {}}), tokens[name])
    assert reply.status in (400, 401, 431), reply
    assert tokens[name] not in reply.raw.decode() + str(reply.headers)
    if reply.status == 401:
        assert "resource_metadata=" in reply.headers["www-authenticate"]
    assert scene.reached() == before


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_before_it_reaches_a_backend(scene, name):
    """G1.68, G1.69, G1.70, G1.74, G1.79"""
    before = scene.reached()
    reply = ATTACKS[name](scene)
    assert reply.refused, reply
    assert scene.reached() == before


def test_there_are_enough_of_them():
    assert len(ATTACKS) + len(BAD) >= 60


def test_the_same_calls_go_through_for_those_who_may(scene):
    """Else the attacks would prove nothing."""
    token = scene.issuer.token(scope=SCOPE, resource_access={"s1": {"roles": ["tool:headers"]}})
    for params in (
        {"name": ALLOWED, "arguments": {"text": "hi"}},
        {"name": DENIED, "arguments": {}},
        {"name": "s1_headers", "arguments": {}},
    ):
        before = scene.reached()
        assert "result" in scene.call(token, params).message
        assert "result" in scene.call26(token, params).message
        assert scene.reached() == before + 2


def test_what_is_said_of_the_gateway_does_not_depend_on_who_asks(scene):
    """G1.64: no Host and no forwarded header finds its way into the metadata or a challenge."""
    spoofed = {
        "x-forwarded-host": "evil.example",
        "x-forwarded-proto": "http",
        "forwarded": "host=evil.example",
        "x-original-host": "evil.example",
    }
    reply = scene.send("GET", "/.well-known/oauth-protected-resource/mcp", spoofed)
    assert reply.message["resource"] == f"{BASE}/mcp"
    refused = scene.post(request("ping"), more=spoofed)
    assert refused.status == 401
    assert "evil.example" not in refused.headers["www-authenticate"] + refused.raw.decode()
