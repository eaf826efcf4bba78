"""One echo server and one gateway in front of it per module; a module that needs others makes its own."""

import pytest

from tests.support import config, echo_server, gateway
from tests.support.authorization import authorization_server, guarded_server


@pytest.fixture(scope="module")
def echo():
    with echo_server() as server:
        yield server


@pytest.fixture(scope="module")
def portico(echo):
    with gateway(config(("s1", echo.url, {}))) as process:
        yield process


@pytest.fixture
def client(portico):
    client = portico.client()
    client.init()
    return client


@pytest.fixture(scope="module")
def trusted():
    """An authorization server."""
    with authorization_server() as made:
        yield made


@pytest.fixture(scope="module")
def guarded(trusted):
    """A backend that takes its tokens."""
    with guarded_server(trusted.issuer) as made:
        yield made


@pytest.fixture
def server(trusted):
    """As it was at first."""
    trusted.control("reset")
    return trusted


@pytest.fixture
def backend(guarded):
    guarded.wants()
    return guarded
