"""Envoy with the filter, in front of `portico serve`."""

import contextlib
import json
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import certifi
import pytest
import wasmtime

from authz import identity
from authz.envoy import GATEWAY, Address, wasm_filter
from authz.keys import RETRY_S
from tests.attacks.scene import ALLOWED, BASE, DENIED, Scene
from tests.edge.envoy import Started, manager
from tests.edge.test_envoy import seen  # noqa: F401 - a fixture
from tests.filter.envoy import Filtered, said_of
from tests.interaction.test_keys import MANY, PING, at_once
from tests.support import Client, config, echo_server, eventually, gateway
from tests.support.exchange import fetch
from tests.support.issuer import published
from tests.vectors.answers import check
from tests.vectors.backends import backends, urls
from tests.vectors.cases import CONFIGS, vectors
from tests.vectors.cases import config as declared
from tests.vectors.processes import over_http, serving

OWN_MIND = ("paths", "metadata")
"""Envoy reads paths in its own way before the filter hears of them; tests/filter/test_attacks.py tries them."""
JOINED = ("two Authorization headers",)
"""Envoy makes one header of them, which is no token either."""


@pytest.fixture(scope="module")
def base():
    with backends() as found:
        yield found


@pytest.mark.parametrize("name", CONFIGS)
def test_envoy_with_the_filter_gives_the_vectors_answers(name, base):
    """G1.62"""
    chosen = [one for one in vectors() if one.config == name and one.theme not in OWN_MIND]
    with (
        serving(name, base) as portico,
        Filtered(declared(name, urls(base), base), portico.base) as envoy,
    ):
        for vector in chosen:
            found = over_http(vector, envoy.base)
            if vector.name in JOINED:
                assert found.status == 401
            else:
                check(vector, found)


@pytest.fixture(scope="module")
def echo():
    with echo_server() as server:
        yield server


def of(echo, issuer):
    return config(
        ("s1", echo.url, {}),
        gateway={"public_url": BASE},
        auth={"mode": "jwt", "issuers": [{"issuer": issuer.url, "jwks_url": f"{issuer.url}/jwks"}]},
        policies=[{"match": {"tool": DENIED}, "require": {"scopes": ["tool:add"]}}],
    )


@contextmanager
def cold(echo, prepare=lambda issuer: None, change=lambda said: said):
    """A gateway behind an Envoy that has seen no key yet."""
    with published(f"{BASE}/mcp") as issuer, gateway(of(echo, issuer)) as portico:
        prepare(issuer)
        with Started(change(said_of(of(echo, issuer), portico.base))) as envoy:
            yield Scene(envoy.base, issuer, (echo,), issuer)


@pytest.fixture(scope="module")
def scene(echo):
    with cold(echo) as found:
        yield found


def client_of(scene, **claims):
    token = scene.issuer.token(**claims)
    return Client(f"{scene.base}/mcp", headers={"Authorization": f"Bearer {token}"})


def a_life(client):
    """All that a legacy client does, from its first request to its last."""
    assert client.init().status == 200
    names = {tool["name"] for tool in client.rpc("tools/list").result["tools"]}
    assert ALLOWED in names
    assert DENIED not in names
    assert "hi" in json.dumps(client.call(ALLOWED, {"text": "hi"}).result)
    refused = client.call(DENIED)
    assert refused.status == 403
    assert f'/tool/{DENIED}"' in refused.headers["www-authenticate"]
    stream = client.stream()
    assert stream.status == 200
    assert client.delete().status == 200
    stream.wait_closed()


def test_a_client_does_all_that_it_does_without_envoy(scene):
    a_life(client_of(scene))


def over_two(said):
    """A second listener in front, from which Envoy itself asks the first one, by HTTP/2."""
    listener = said["static_resources"]["listeners"][0]
    inner = json.loads(json.dumps(listener))
    inner |= {"name": "inner", "internal_listener": {}}
    del inner["address"]
    listener = said["static_resources"]["listeners"][0] = json.loads(json.dumps(listener))
    front = manager({"static_resources": {"listeners": [listener]}})
    front["http_filters"] = front["http_filters"][-1:]
    front["route_config"]["virtual_hosts"][0]["routes"][0]["route"]["cluster"] = "inner"
    said["static_resources"]["listeners"].append(inner)
    options = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    endpoint = {"endpoint": {"address": {"envoy_internal_address": {"server_listener_name": "inner"}}}}
    said["static_resources"]["clusters"].append(
        {
            "name": "inner",
            "load_assignment": {"cluster_name": "inner", "endpoints": [{"lb_endpoints": [endpoint]}]},
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": options,
                    "explicit_http_config": {"http2_protocol_options": {}},
                }
            },
        }
    )
    kind = "type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener"
    extension = {"name": "envoy.bootstrap.internal_listener", "typed_config": {"@type": kind}}
    return said | {"bootstrap_extensions": [extension]}


def test_by_http_2_it_is_the_same(echo):
    with cold(echo, change=over_two) as scene:
        a_life(client_of(scene))
        assert scene.post(PING).status == 401
        assert scene.post(PING, scene.issuer.token(aud="x")).status == 401


@pytest.mark.parametrize("size", [100, 70_000, 1_500_000, 5_000_000])
def test_a_body_of_any_size_that_may_be_judged_goes_through(scene, size):
    client = client_of(scene)
    client.init()
    assert client.call(ALLOWED, {"text": "x" * size}).status == 200
    assert client.call(DENIED, {"text": "x" * size}).status == 403


@pytest.mark.parametrize("size", [100, 70_000])
def test_a_stranger_is_told_so_before_all_of_its_body_has_come(scene, size):
    stranger = Client(f"{scene.base}/mcp")
    assert stranger.call(ALLOWED, {"text": "x" * size}).status == 401


def test_a_body_that_is_too_large_is_413(scene):
    """Also one that does not say so before."""
    head = f"POST /mcp HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {scene.issuer.token()}\r\ntransfer-encoding: chunked\r\n\r\n"
    place = urlsplit(scene.base)
    with socket.create_connection((place.hostname, place.port), 20) as connection:

        def send():
            with contextlib.suppress(OSError):
                connection.sendall(head.encode())
                for _ in range(100):
                    connection.sendall(b"10000\r\n" + b" " * 65_536 + b"\r\n")

        sending = threading.Thread(target=send)
        sending.start()
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
        connection.close()
        sending.join()


def test_who_asks_is_said_by_the_filter_and_by_nobody_else(seen, echo):  # noqa: F811
    """G1.84"""
    forged = [(name.replace("*", "sub"), "root") for name in identity.NAMES]
    forged += [(name.replace("-", "_"), "root") for name, _ in forged]
    with published(f"{BASE}/mcp") as issuer, Filtered(of(echo, issuer), seen) as envoy:
        scene = Scene(envoy.base, issuer, (), issuer)
        reply = eventually(lambda: _if_ok(scene.post(PING, issuer.token(sub="Ädä"), more=forged)), 20)
        headers = [(name.lower(), value) for name, value in json.loads(reply.raw)]
        assert "root" not in {value for _, value in headers}
        assert sorted(one for one in headers if one[0].startswith("x-portico-")) == [
            ("x-portico-issuer", issuer.url),
            ("x-portico-principal", "%C3%84d%C3%A4"),
            ("x-portico-scopes", "mcp:use"),
        ]


def _if_ok(reply):
    return reply if reply.status == 200 else None


def test_cold_and_slow_everybody_waits(echo):
    """G1.72: for one fetch, of each of the VMs that Envoy has."""
    with cold(echo, lambda issuer: issuer.open.clear()) as scene:

        def release():
            eventually(lambda: scene.issuer.waiting, 20)
            time.sleep(1)  # so that many have come by then
            scene.issuer.open.set()

        assert at_once(scene, meanwhile=release) == {200: MANY}


def test_cold_and_unreachable_is_503_until_it_is_not(echo):
    """G1.72"""

    def down(issuer):
        issuer.down = True

    with cold(echo, down) as scene:
        assert at_once(scene) == {503: MANY}
        assert len(scene.issuer.asked) <= 6
        scene.issuer.down = False
        eventually(lambda: scene.post(PING, scene.issuer.token()).status == 200, 4 * RETRY_S)


def test_keys_change_under_load_and_nobody_is_turned_away(echo):
    """G1.72"""
    with cold(echo) as scene:
        eventually(lambda: scene.post(PING, scene.issuer.token()).status == 200, 20)
        done, found = threading.Event(), Counter()

        def go_on():
            while not done.is_set():
                found[scene.post(PING, scene.issuer.token("es256", jti=str(time.time()))).status] += 1

        with ThreadPoolExecutor(4) as pool:
            for _ in range(4):
                pool.submit(go_on)
            try:
                time.sleep(RETRY_S)  # so soon after a fetch no key is looked for
                scene.issuer.add("RS256", "new")
                assert at_once(scene, "new") == {200: MANY}
                scene.issuer.down = True
                assert at_once(scene, "new") == {200: MANY}
            finally:
                done.set()
        assert set(found) == {200}


def listened_for(said, file):
    """The listener comes from a file that Envoy watches."""
    kind = "type.googleapis.com/envoy.config.listener.v3.Listener"
    (listener,) = said["static_resources"].pop("listeners")
    replaced(file, {"resources": [{"@type": kind, **listener}]})
    source = {"path_config_source": {"path": str(file)}}
    said["static_resources"]["listeners"] = []
    return said | {"node": {"id": "x", "cluster": "x"}, "dynamic_resources": {"lds_config": source}}


def replaced(file, said):
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(said))
    draft.replace(file)


def test_another_configuration_takes_over_under_load(echo, tmp_path):
    """Nobody is let in meanwhile who may not come in, and nobody waits for ever."""
    file = tmp_path / "listeners.json"
    with cold(echo, change=lambda said: listened_for(said, file)) as scene:
        token, done, found, strangers = scene.issuer.token(), threading.Event(), Counter(), Counter()

        def called():
            return scene.call26(token, {"name": ALLOWED, "arguments": {"text": "hi"}}).status

        def go_on():
            while not done.is_set():
                found[called()] += 1
                strangers[scene.post(PING).status] += 1

        eventually(lambda: called() == 200, 20)
        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(go_on) for _ in range(4)]
            try:
                said = json.loads(file.read_text())
                plugin = filter_of(said["resources"][0])["configuration"]
                broken, plugin["value"] = plugin["value"], "{}"
                replaced(file, said)
                time.sleep(1)  # there is nothing to see of what is not taken
                own = json.loads(broken)
                own["access"]["rules"] = [{"match": {"tool": ALLOWED}, "require": {"never": True}}]
                plugin["value"] = json.dumps(own)
                replaced(file, said)
                eventually(lambda: called() == 403, 30)
            finally:
                done.set()
        assert not [one.exception() for one in running if one.exception()]
        assert set(strangers) == {401}
        assert set(found) <= {200, 403}


def filter_of(listener):
    chain = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return chain["http_filters"][0]["typed_config"]["config"]


TRAP = """(module
  (memory (export "memory") 1)
  (func (export "proxy_abi_version_0_2_1"))
  (func (export "proxy_on_memory_allocate") (param i32) (result i32) i32.const 0)
  (func (export "proxy_on_vm_start") (param i32 i32) (result i32) i32.const 1)
  (func (export "proxy_on_configure") (param i32 i32) (result i32) i32.const 1)
  (func (export "proxy_on_context_create") (param i32 i32))
  (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
    (if (i32.eqz (local.get 2)) (then unreachable)) i32.const 0))"""
"""Traps wherever a body follows."""


def test_a_trap_lets_nobody_in_and_costs_nobody_else(echo, tmp_path):
    """What Envoy does with it is a matter of the filter's declaration alone."""
    file = tmp_path / "trap.wasm"
    file.write_bytes(wasmtime.wat2wasm(TRAP))

    def trapping(said):
        manager(said)["http_filters"][0] = wasm_filter(str(file), {})
        return said

    with cold(echo, change=trapping) as scene:
        for _ in range(5):
            assert scene.post(PING).status == 503
            eventually(lambda: scene.send("GET", "/health").status == 200, 20)


def test_what_the_bootstrap_says_is_what_the_file_says(echo):
    with published(f"{BASE}/mcp") as issuer:
        said = said_of(of(echo, issuer), "http://gateway.internal:8088")
        clusters = {one["name"]: one for one in said["static_resources"]["clusters"]}
        assert list(clusters) == [GATEWAY, "keys_0"]
        assert "transport_socket" not in clusters["keys_0"]
        http = manager(said)
        assert http["normalize_path"]
        assert http["merge_slashes"]
        assert http["path_with_escaped_slashes_action"] == "REJECT_REQUEST"
        assert http["http_filters"][0]["typed_config"]["config"]["failure_policy"] == "FAIL_RELOAD"


def test_an_issuer_elsewhere_is_reached_by_tls_under_its_own_name_only():
    declared_ = {"issuer": "https://as.example.com", "jwks_url": "https://keys.example.com:8443/a/jwks"}
    said = said_of(
        config(gateway={"public_url": BASE}, auth={"mode": "jwt", "issuers": [declared_]}), "http://g:1"
    )
    keys = said["static_resources"]["clusters"][1]
    endpoint = keys["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    assert endpoint["address"] == Address("keys.example.com", 8443).as_envoy
    tls = keys["transport_socket"]["typed_config"]
    assert tls["sni"] == "keys.example.com"
    names = tls["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"]
    assert [one["matcher"]["exact"] for one in names] == ["keys.example.com"]


def test_envoy_itself_takes_a_bootstrap_with_tls():
    """It reads all of it, and refuses what it does not know."""
    declared_ = {"issuer": "https://as.example.com", "jwks_url": "https://localhost:9/jwks"}
    said = said_of(
        config(gateway={"public_url": BASE}, auth={"mode": "jwt", "issuers": [declared_]}),
        "http://127.0.0.1:9",
        trusted=certifi.where(),
    )
    with Started(said) as envoy:
        assert fetch(f"{envoy.base}/mcp", {}).status == 401
