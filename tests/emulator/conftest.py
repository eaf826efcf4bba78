import pytest

from tests.emulator.support import Emulator, build


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("sam") / "build")


@pytest.fixture(scope="module")
def emulator(built):
    with Emulator(built) as running:
        yield running
