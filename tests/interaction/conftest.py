"""One echo server and one gateway in front of it per module; a module that needs others makes its own."""

import pytest

from tests.support import config, echo_server, gateway


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
