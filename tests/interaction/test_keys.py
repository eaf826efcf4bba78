"""Keys that change, come late or cannot be had, while 200 clients ask at the same time."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from authz.keys import RETRY_S
from tests.attacks.scene import BASE, Scene, request
from tests.support import config, echo_server, eventually, gateway, reasons
from tests.support.issuer import published

MANY = 200
PING = request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}})


@pytest.fixture(scope="module")
def echo():
    with echo_server() as server:
        yield server


@contextmanager
def cold(echo):
    """A gateway that has seen no key yet."""
    with published(f"{BASE}/mcp") as issuer:
        declared = config(
            ("s1", echo.url, {}),
            gateway={"public_url": BASE},
            auth={"mode": "jwt", "issuers": [{"issuer": issuer.url}]},
        )
        with gateway(declared) as portico:
            yield Scene(portico.base, issuer, (echo,), issuer)


def at_once(scene, kid="rs256", meanwhile=lambda: None):
    """What so many are answered, each with a token of its own; counted."""
    with ThreadPoolExecutor(MANY) as pool:
        answers = pool.map(
            lambda number: scene.post(PING, scene.issuer.token(kid, jti=f"{kid}-{number}")).status,
            range(MANY),
        )
        meanwhile()
        return Counter(answers)


@pytest.mark.serve_only(reasons.ITS_FILE)
def test_a_change_of_the_rules_forgets_no_key_of_the_same_issuers(echo):
    """G1.72: else a change during an outage would lock everybody out."""
    with published(f"{BASE}/mcp") as issuer:

        def declared(*policies):
            return config(
                ("s1", echo.url, {}),
                gateway={"public_url": BASE},
                auth={"mode": "jwt", "issuers": [{"issuer": issuer.url}]},
                policies=list(policies),
            )

        with gateway(declared()) as portico:
            scene = Scene(portico.base, issuer, (echo,), issuer)
            token = issuer.token()
            call = {"name": "s1_destructive", "arguments": {}}
            assert scene.call(token, call).status == 200
            issuer.down = True
            portico.write(declared({"match": {"tool": "s1_destructive"}, "require": {"scopes": ["destroy"]}}))
            eventually(lambda: scene.call(token, call).status == 403)
            assert scene.post(PING, token).status == 200


def fetches(scene):
    return scene.issuer.asked.count("/jwks")


@pytest.mark.serve_only("each of a deployment's authorizers has keys of its own")
def test_cold_and_slow_everybody_waits_for_one_fetch(echo):
    """G1.72"""
    with cold(echo) as scene:
        scene.issuer.open.clear()

        def release():
            eventually(lambda: scene.issuer.waiting == 1)
            scene.issuer.open.set()

        assert at_once(scene, meanwhile=release) == {200: MANY}
        assert (fetches(scene), scene.issuer.at_once) == (1, 1)


@pytest.mark.serve_only("each of a deployment's authorizers has keys of its own")
def test_cold_and_unreachable_is_503_and_nobody_hammers(echo):
    """G1.72"""
    with cold(echo) as scene:
        scene.issuer.down = True
        assert at_once(scene) == {503: MANY}
        # The two places where an issuer may say where its keys are.
        assert len(scene.issuer.asked) == 2
        scene.issuer.down = False
        eventually(lambda: scene.post(PING, scene.issuer.token()).status == 200, 2 * RETRY_S)


@pytest.mark.serve_only("each of a deployment's authorizers has keys of its own")
def test_a_new_key_is_fetched_once_for_all_and_an_outage_matters_to_no_known_one(echo):
    """G1.72"""
    with cold(echo) as scene:
        assert scene.post(PING, scene.issuer.token()).status == 200
        time.sleep(RETRY_S)  # so soon after a fetch no key is looked for
        scene.issuer.add("RS256", "new")
        assert at_once(scene, "new") == {200: MANY}
        assert (fetches(scene), scene.issuer.at_once) == (2, 1)
        scene.issuer.down = True
        for kid in ("rs256", "new"):
            assert at_once(scene, kid) == {200: MANY}
        scene.issuer.add("RS256", "newer")
        assert at_once(scene, "newer") == {401: MANY}
        assert fetches(scene) == 2


def test_an_outage_is_told_of_and_over_when_it_is_over_and_new_keys_are_found(echo):
    """G1.72: one after the other, as it is on every edge"""
    with cold(echo) as scene:
        scene.issuer.down = True
        assert scene.post(PING, scene.issuer.token()).status == 503
        scene.issuer.down = False
        assert eventually(lambda: scene.post(PING, scene.issuer.token()).status == 200, 2 * RETRY_S)
        scene.issuer.add("ES256", "new")
        assert eventually(lambda: scene.post(PING, scene.issuer.token("new")).status == 200, 2 * RETRY_S)
        scene.issuer.down = True
        assert [scene.post(PING, scene.issuer.token(kid)).status for kid in ("rs256", "new")] == [200, 200]
        scene.issuer.add("ES256", "newer")
        assert scene.post(PING, scene.issuer.token("newer")).status == 401
