"""The two sequences of a gateway with authentication, arrow by arrow, with Envoy and the filter as the first to hear of them."""

import pytest

from tests.filter.envoy import Filtered
from tests.interaction.test_auth_sequences import (
    authorization,  # noqa: F401 - a fixture
    declared,
    server,  # noqa: F401 - a fixture
    test_a_tool_call,  # noqa: F401 - it runs here, too
    test_initialize,  # noqa: F401 - it runs here, too
)
from tests.support import gateway


@pytest.fixture(scope="module")
def portico(authorization, server):  # noqa: F811
    said = declared(authorization, server)
    said["auth"]["issuers"][0]["jwks_url"] = f"{authorization.base}/oauth/jwks"
    with gateway(said) as process, Filtered(said, process.base) as envoy:
        yield envoy
