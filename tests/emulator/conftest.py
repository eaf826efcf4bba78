import fcntl

import pytest

from tests.emulator.support import Emulator, build


@pytest.fixture(scope="session")
def built(tmp_path_factory, worker_id):
    """Once for all workers."""
    home = tmp_path_factory.getbasetemp()
    place = (home if worker_id == "master" else home.parent) / "sam"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "done").exists():
            build(place / "build")
            (place / "done").touch()
    return place / "build"


@pytest.fixture(scope="module")
def emulator(built):
    with Emulator(built) as running:
        yield running
    own = [line for line in running.stderr().splitlines() if not line.startswith("[")]
    said = ["emulator: Lambda is at", "emulator: DynamoDB is at", f"emulator ready on {running.url}"]
    assert [line.partition(" http")[0] for line in own[:-1]] + own[-1:] == said, "\n".join(own)
