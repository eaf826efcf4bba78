"""Clients of either era with servers of either era, through two gateways on one file, every request at the other one: the checks of `make matrix`."""

import pytest

from tests.matrix import PAIRS, cells, check, servers_of
from tests.matrix.processes import setting
from tests.support import reasons

pytestmark = pytest.mark.serve_only(reasons.SEVERAL)


@pytest.fixture(scope="module")
def portico():
    with setting(servers_of(PAIRS), gateways=2, store="sqlite") as place:
        yield place


@pytest.mark.parametrize(("feature", "client", "server"), cells(PAIRS))
async def test_every_feature_works(portico, feature, client, server):
    """G1.92"""
    await check(portico, feature, client, server)
