import pytest
from hypothesis import HealthCheck, settings

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
