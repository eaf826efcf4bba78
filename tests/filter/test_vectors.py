"""The filter gives the vectors' answers, alone and with Portico behind it."""

import asyncio

import pytest

from tests.filter.edge import asked, host_of, passed_on
from tests.vectors import edges
from tests.vectors.answers import Answer, check
from tests.vectors.backends import backends
from tests.vectors.cases import CONFIGS, request, vectors

STRICTER = ("metadata: nothing at /../mcp", "metadata: nothing at /tool/..%2F..%2Fmcp")
"""An open path that others might read as a guarded one is guarded here."""


@pytest.fixture(scope="module")
def base():
    with backends() as found:
        yield found


def of(config):
    return [vector for vector in vectors() if vector.config == config]


async def by_filter(vector, host, gateway, piece):
    said = request(vector)
    found = asked(host, said, piece)
    try:
        if found.reply:
            return Answer(found.reply.status, found.reply.headers, found.reply.body, by="filter")
        assert found.passed, str(vector)
        on = await edges.in_session(gateway, vector, passed_on(found, said))
        return await edges.ask(gateway, on)
    finally:
        host.end(found)


@pytest.mark.parametrize("piece", [1 << 20, 7])
@pytest.mark.parametrize("config", CONFIGS)
def test_the_filter_decides_all_that_it_can_and_the_gateway_the_rest(config, piece, base):
    """However the body is cut."""

    async def all_of_them():
        host = host_of(config)
        async with edges.portico(config, base) as gateway:
            for vector in of(config):
                found = await by_filter(vector, host, gateway, piece)
                if str(vector) in STRICTER:
                    assert (found.status, found.by) == (401, "filter")
                    continue
                check(vector, found)
                if vector.expect["decision"] == "refuse":
                    assert found.by == ("" if vector.needs else "filter"), str(vector)

    asyncio.run(all_of_them())
