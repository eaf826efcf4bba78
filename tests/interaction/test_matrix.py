"""Clients of either era with servers of either era, through one gateway: the checks of `make matrix`."""

import pytest

from tests.matrix import DIRECT_PAIRS, PAIRS, cells, check, servers_of
from tests.matrix.processes import setting


@pytest.fixture(scope="module")
def portico():
    with setting(servers_of(PAIRS), gateways=1, store="sqlite") as place:
        yield place


@pytest.mark.parametrize(("feature", "client", "server"), cells(PAIRS))
async def test_every_feature_works(portico, feature, client, server):
    """G1.97, G1.100, C17, C29, C34"""
    await check(portico, feature, client, server)


DIRECTLY = pytest.mark.serve_only("without Portico it is the same wherever that runs")


@pytest.fixture(scope="module")
def direct():
    with setting(servers_of(DIRECT_PAIRS), gateways=0) as place:
        yield place


@DIRECTLY
@pytest.mark.parametrize(("feature", "client", "server"), cells(DIRECT_PAIRS))
async def test_every_feature_works_without_portico(direct, feature, client, server):
    """What the tests through Portico rest on: server and checks are right."""
    await check(direct, feature, client, server)
