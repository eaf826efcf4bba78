"""Envoy with ext_authz in front of Portico: it asks `portico authz`, and lets through what that allows."""

import http.server
import json
import threading

import pytest

from authz import identity
from tests.edge.envoy import Envoy, example, manager
from tests.support.waiting import eventually
from tests.vectors.answers import check
from tests.vectors.backends import backends
from tests.vectors.cases import Vector, request, vectors
from tests.vectors.processes import checking, over_http, send, serving

LEFT = ("paths", "metadata", "tokens")
"""Envoy has its own mind about paths; tokens are the service's business wherever it is."""
JOINED = ("two Authorization headers",)
"""Envoy makes one header of them, which is no token either."""


@pytest.fixture(scope="module")
def base():
    with backends() as found:
        yield found


@pytest.fixture(scope="module", params=["required", "servers", "challenges", "annotations"])
def edge(request, base, tmp_path_factory):
    with (
        serving(request.param, base) as gateway,
        checking(request.param, base, tmp_path_factory.mktemp("authz")) as authz,
        Envoy(gateway.base, authz.base) as envoy,
    ):
        envoy.config, envoy.authz, envoy.gateway = request.param, authz, gateway
        yield envoy


def test_envoy_gives_the_vectors_answers(edge):
    """G1.62"""
    chosen = [one for one in vectors() if one.config == edge.config and one.theme not in LEFT]
    assert len(chosen) >= 10
    for vector in chosen:
        found = over_http(vector, edge.base)
        if vector.name in JOINED:
            assert found.status == 401
        else:
            check(vector, found)
    noted = [json.loads(line) for line in edge.authz.stderr().splitlines() if line.startswith("{")]
    lines = [line for line in noted if line["logger"] == "authz.audit"]
    refusing = any(one.expect["decision"] == "refuse" and not one.needs for one in chosen)
    verdicts = {"allowed", "refused"} if refusing else {"allowed"}
    assert {line["verdict"] for line in lines} == verdicts
    assert "eyJ" not in edge.authz.stderr()


class Seen(http.server.BaseHTTPRequestHandler):
    """Says which headers it saw."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(self.headers.items()).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def seen():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Seen) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def vector(theme, name):
    return next(one for one in vectors(theme) if one.name == name)


def with_headers(one, *more):
    return Vector(
        **{**vars(one), "request": one.request | {"headers": [*one.request["headers"], *map(list, more)]}}
    )


def test_who_asks_is_said_by_the_service_and_by_nobody_else(seen, base, tmp_path):
    """G1.84"""
    forged = [(name.replace("*", "sub"), "root") for name in identity.NAMES]
    with checking("required", base, tmp_path) as authz, Envoy(seen, authz.base) as envoy:
        found = over_http(
            with_headers(vector("headers", "a scheme is written in any case"), *forged), envoy.base
        )
        assert found.status == 200, found
        headers = [(name.lower(), value) for name, value in json.loads(found.body)]
        assert "root" not in {value for _, value in headers}
        said = [(name, value) for name, value in headers if name.startswith("x-portico-")]
        assert sorted(said) == [
            ("x-portico-issuer", "https://as.example.com"),
            ("x-portico-principal", "ada"),
            ("x-portico-scopes", "mcp:use"),
        ]


def test_what_is_larger_than_can_be_judged_is_not_let_through(seen, base, tmp_path):
    with checking("required", base, tmp_path) as authz, Envoy(seen, authz.base) as envoy:
        said = request(vector("scopes", "a rule's scope is there"), now=True)
        big = said.body[:-1] + b" " * 5_300_000 + b"}"
        assert send(said.__class__(said.verb, said.path, said.headers, big), envoy.base).status == 413


def test_without_keys_nobody_is_let_in_and_nobody_is_to_blame(seen, tmp_path):
    """G1.72"""
    with checking("required", "http://127.0.0.1:9", tmp_path) as authz, Envoy(seen, authz.base) as envoy:
        one = vector("headers", "a scheme is written in any case")
        found = over_http(one, envoy.base)
        assert (found.status, found.body) == (503, b""), "what the service says of 5xx, Envoy keeps to itself"
        assert "www-authenticate" not in found.headers
        below = Vector(**{**vars(one), "request": one.request | {"path": "/check/mcp"}})
        said = over_http(below, authz.base)
        assert said.message["error"]["message"].startswith("The keys of the authorization server")


def test_without_the_service_nobody_is_let_in(seen):
    with Envoy(seen, "http://127.0.0.1:9") as envoy:
        assert over_http(vector("headers", "a scheme is written in any case"), envoy.base).status == 503


def test_a_change_of_the_file_is_followed_and_a_broken_one_is_not(base, tmp_path):
    one = vector("scopes", "a rule's scope is missing")
    with checking("required", base, tmp_path) as authz:
        below = Vector(**{**vars(one), "request": one.request | {"path": "/check/mcp"}})
        assert over_http(below, authz.base).status == 403
        file = tmp_path / "required.yaml"
        text = file.read_text()
        file.write_text("version: 2\n")
        eventually(lambda: "the configuration is not used" in authz.stderr(), 10)
        assert over_http(below, authz.base).status == 403
        file.write_text(text.replace("repo:admin", "mcp:use"))
        eventually(lambda: over_http(below, authz.base).status == 200, 10)


def test_the_example_drops_the_headers_that_say_who_somebody_is():
    said = manager(example())["early_header_mutation_extensions"][0]["typed_config"]["mutations"]
    matchers = [one["remove_on_match"]["key_matcher"] for one in said]
    names = {one.get("exact") or f"{one['prefix']}*" for one in matchers}
    assert names == set(identity.NAMES)
    assert all(one["ignore_case"] for one in matchers)
