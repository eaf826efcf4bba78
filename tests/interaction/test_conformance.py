import pytest

from tests.conformance import everything, explain, lost, portico, score


@pytest.mark.timeout(300)
def test_gateway_loses_no_conformance_scenario_its_backend_passes():
    """Spec-mandated, as far as the official conformance suite goes."""
    with everything() as backend, portico(backend) as gateway:
        direct = score(backend)
        assert direct.full, f"the server by itself reaches only {direct}\n{explain(direct.failed)}"
        through = score(gateway)
    missing = lost(direct, through)
    assert not missing, f"direct {direct}, through portico {through}; lost:\n{explain(missing)}"
