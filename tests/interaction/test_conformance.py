from functools import cache

import pytest

from tests.conformance import RUNS, everything, explain, lost, portico, score
from tests.support import Place


@pytest.fixture(scope="module")
def backend():
    with everything() as url:
        yield url


@cache
def direct_score(backend, suite, spec):
    return score(backend, suite=suite, spec=spec)


@pytest.mark.serve_only("without Portico it is the same wherever that runs")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("suite", "spec"), RUNS)
def test_the_server_passes_every_conformance_scenario(backend, suite, spec):
    """What the scores through Portico are measured against."""
    direct = direct_score(backend, suite, spec)
    assert direct.full, f"the server by itself reaches only {direct}\n{explain(direct.failed)}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("suite", "spec"), RUNS)
def test_gateway_loses_no_conformance_scenario_its_backend_passes(backend, suite, spec):
    """Spec-mandated, as far as the official conformance suite goes."""
    direct = direct_score(backend, suite, spec)
    with portico(backend, Place.chosen) as gateway:
        through = score(gateway, suite=suite, spec=spec)
    missing = lost(direct, through)
    assert not missing, f"direct {direct}, through portico {through}; lost:\n{explain(missing)}"
