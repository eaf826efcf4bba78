"""Envoy with the filter, in front of `portico serve`."""

import pytest

from tests.filter.envoy import Filtered
from tests.vectors.answers import check
from tests.vectors.backends import backends, urls
from tests.vectors.cases import CONFIGS, config, vectors
from tests.vectors.processes import over_http, serving

OWN_MIND = ("paths", "metadata")
"""Envoy reads paths in its own way before the filter hears of them; tests/filter/test_attacks.py tries them."""
JOINED = ("two Authorization headers",)
"""Envoy makes one header of them, which is no token either."""


@pytest.fixture(scope="module")
def base():
    with backends() as found:
        yield found


@pytest.mark.parametrize("name", CONFIGS)
def test_envoy_with_the_filter_gives_the_vectors_answers(name, base):
    chosen = [one for one in vectors() if one.config == name and one.theme not in OWN_MIND]
    with (
        serving(name, base) as gateway,
        Filtered(config(name, urls(base), base), gateway.base) as envoy,
    ):
        for vector in chosen:
            found = over_http(vector, envoy.base)
            if vector.name in JOINED:
                assert found.status == 401
            else:
                check(vector, found)
