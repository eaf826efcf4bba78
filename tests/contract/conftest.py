from collections.abc import AsyncIterator, Iterator

import pytest

from portico.stores.base import Store
from tests.contract.places import PLACES, Clock, Place
from tests.dynamodb_local import dynamodb_local  # noqa: F401 - a fixture


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with PLACES[request.param](request) as place:
        yield place


@pytest.fixture
def clock(place: Place) -> Clock:
    return place.clock


@pytest.fixture
async def store(place: Place) -> AsyncIterator[Store]:
    store = place.open(place.clock)
    yield store
    await store.close()
