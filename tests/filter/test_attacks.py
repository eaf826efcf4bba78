"""What attackers try from outside, on Envoy with the filter: the same that is tried on the gateway alone."""

import pytest

from tests.attacks.requests import ATTACKS
from tests.attacks.scene import ALLOWED, BASE, DENIED, Scene, request
from tests.attacks.tokens import bad_tokens
from tests.filter.envoy import Filtered
from tests.interaction.test_attacks import BAD, declared
from tests.support import echo_server, gateway
from tests.support.issuer import published


def with_keys(config, *issuers):
    for said, issuer in zip(config["auth"]["issuers"], issuers, strict=True):
        said["jwks_url"] = f"{issuer.url}/jwks"
    return config


@pytest.fixture(scope="module")
def scene():
    with (
        echo_server() as one,
        echo_server("two") as two,
        published(f"{BASE}/mcp") as issuer,
        published(f"{BASE}/mcp") as second,
        gateway(with_keys(declared(one, two, issuer, second), issuer, second)) as portico,
        Filtered(with_keys(declared(one, two, issuer, second), issuer, second), portico.base) as envoy,
    ):
        yield Scene(envoy.base, issuer, (one, two), second)


@pytest.fixture(scope="module")
def tokens(scene):
    return bad_tokens(scene.issuer)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_token_lets_nobody_in(scene, tokens, name):
    before = scene.reached()
    reply = scene.post(request("tools/call", {"name": ALLOWED, "arguments": {}}), tokens[name])
    assert reply.status in (400, 401, 431), reply
    assert tokens[name] not in reply.raw.decode() + str(reply.headers)
    if reply.status == 401:
        assert "resource_metadata=" in reply.headers["www-authenticate"]
    assert scene.reached() == before


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_before_it_reaches_a_backend(scene, name):
    before = scene.reached()
    reply = ATTACKS[name](scene)
    assert reply.refused, reply
    assert scene.reached() == before


def test_the_same_calls_go_through_for_those_who_may(scene):
    """Else the attacks would prove nothing."""
    token = scene.issuer.token(scope="tool:add", resource_access={"s1": {"roles": ["tool:headers"]}})
    for params in (
        {"name": ALLOWED, "arguments": {"text": "hi"}},
        {"name": DENIED, "arguments": {}},
        {"name": "s1_headers", "arguments": {}},
    ):
        before = scene.reached()
        assert "result" in scene.call(token, params).message
        assert "result" in scene.call26(token, params).message
        assert scene.reached() == before + 2
