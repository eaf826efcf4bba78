"""Clients of either era with servers of either era: the checks of `make matrix`, one test each."""

import pytest

from tests.matrix import DIRECT_PAIRS, PAIRS, check
from tests.matrix.checks import CHECKS
from tests.matrix.processes import setting

SETTINGS = {
    "one": {"gateways": 1, "store": "sqlite"},
    "two": {"gateways": 2, "store": "sqlite"},
    "dynamodb": {"gateways": 2, "store": "dynamodb"},
}


def servers_of(pairs):
    return list(dict.fromkeys(server for _, server in pairs))


def cells(pairs):
    """One parameter per feature and pair."""
    return [
        pytest.param(feature, client, server, id=f"{feature}-{client}-{server}")
        for feature in CHECKS
        for client, server in pairs
    ]


@pytest.fixture(scope="module", params=SETTINGS)
def portico(request):
    with setting(servers_of(PAIRS), **SETTINGS[request.param]) as place:
        yield place


@pytest.fixture(scope="module")
def direct():
    with setting(servers_of(DIRECT_PAIRS), gateways=0) as place:
        yield place


@pytest.mark.parametrize(("feature", "client", "server"), cells(PAIRS))
async def test_every_feature_works_through_portico(portico, feature, client, server):
    """G1.92, G1.97, G1.100, C17, C29, C34"""
    await check(portico, feature, client, server)


@pytest.mark.parametrize(("feature", "client", "server"), cells(DIRECT_PAIRS))
async def test_every_feature_works_without_portico(direct, feature, client, server):
    """What the tests through Portico rest on: server and checks are right."""
    await check(direct, feature, client, server)
