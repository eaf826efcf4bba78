import pytest
from hypothesis import HealthCheck, settings

from tests.support import Place

# The same examples every time, however slow the machine is, and nothing left behind.
settings.register_profile(
    "same", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", deadline=None, max_examples=1000, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


def pytest_addoption(parser):
    parser.addoption(
        "--place", choices=("serve", "lambda"), default="serve", help="where gateway() runs Portico"
    )


def pytest_configure(config):
    Place.chosen = config.getoption("place")
    config.addinivalue_line("markers", "serve_only(reason): not with --place lambda, and why")


def pytest_collection_modifyitems(config, items):
    """What is about `portico serve` itself is left to the run that is about it; each such test says why."""
    if Place.chosen == "serve":
        return
    left = [item for item in items if item.get_closest_marker("serve_only")]
    for item in left:
        (reason,) = item.get_closest_marker("serve_only").args
        assert reason
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=left)
