"""What attackers try from outside, on Envoy with the filter: the same that is tried on the gateway alone."""

import pytest

from tests.attacks.scene import BASE, Scene
from tests.filter.envoy import Filtered
from tests.interaction.test_attacks import (
    declared,
    test_a_bad_token_lets_nobody_in,  # noqa: F401 - it runs here, too, and so do those below
    test_an_attack_is_refused_before_it_reaches_a_backend,  # noqa: F401
    test_the_same_calls_go_through_for_those_who_may,  # noqa: F401
    test_what_is_said_of_the_gateway_does_not_depend_on_who_asks,  # noqa: F401
    tokens,  # noqa: F401 - a fixture
)
from tests.support import echo_server, gateway
from tests.support.issuer import published


@pytest.fixture(scope="module")
def scene():
    with (
        echo_server() as one,
        echo_server("two") as two,
        published(f"{BASE}/mcp") as issuer,
        published(f"{BASE}/mcp") as second,
    ):
        said = declared(one, two, issuer, second)
        for own, each in zip(said["auth"]["issuers"], (issuer, second), strict=True):
            own["jwks_url"] = f"{each.url}/jwks"
        with gateway(said) as portico, Filtered(said, portico.base) as envoy:
            yield Scene(envoy.base, issuer, (one, two), second)
