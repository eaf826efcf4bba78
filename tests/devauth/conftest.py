import pytest

from tests.devauth.support import Server


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def client(server):
    return server.client()
