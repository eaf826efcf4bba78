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


def pytest_collection_modifyitems(items):
    """What is about `portico serve` itself is skipped elsewhere, each test with its reason."""
    if Place.chosen == "serve":
        return
    for item in items:
        if mark := item.get_closest_marker("serve_only"):
            (reason,) = mark.args
            item.add_marker(pytest.mark.skip(reason=f"of `portico serve` only: {reason}"))
