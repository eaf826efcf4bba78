"""A host that fails, forgets, repeats itself or comes too late: nobody gets in by that, and nothing is trapped."""

import itertools

import pytest

from tests.filter.edge import declared, give_keys, host_of
from tests.filter.host import GO_ON, WAIT, Host
from tests.filter.test_keys import PING, Filter
from tests.support.issuer import Issuer, part
from tests.vectors.cases import JWKS, TOKENS

GOOD = TOKENS["tokens"]["ada"]["text"]
SAID = [(":method", "POST"), (":path", "/mcp"), ("authorization", f"Bearer {GOOD}")]
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gh_plain"}}'
NEEDED = ("proxy_get_header_map_pairs", "proxy_get_buffer_bytes")


@pytest.fixture(scope="module")
def host():
    return host_of("required")


@pytest.mark.parametrize("name", NEEDED)
def test_what_the_host_does_not_show_lets_nobody_in(host, name):
    host.missing = {name}
    found = host.ask("POST", "/mcp", SAID[2:], CALL)
    host.missing = set()
    assert found.reply is not None
    assert found.reply.status in (401, 503)


@pytest.mark.parametrize(
    "name", ["proxy_log", "proxy_set_tick_period_milliseconds", "proxy_call_foreign_function"]
)
def test_what_the_filter_can_do_without_it_does_without(host, name):
    host.missing = {name}
    assert host.ask("POST", "/mcp", SAID[2:], CALL).passed
    host.missing = set()


def test_without_a_way_to_the_keys_nobody_gets_in():
    host = Filter(Issuer())
    host.missing = {"proxy_http_call"}
    assert host.status(host.token()) == 503


def test_without_a_clock_nothing_is_in_time():
    host = host_of("required")
    host.missing = {"proxy_get_current_time_nanoseconds"}
    token = TOKENS["tokens"]["ada-es"]["text"]
    found = host.ask("POST", "/mcp", [("authorization", f"Bearer {token}")], CALL)
    give_keys(host, *JWKS.values())
    assert found.reply is not None
    assert found.reply.message["error"]["message"] == "the token has expired"


def test_nothing_nests_as_deep_as_the_stack_is(host):
    """It is at the bottom of the memory: what were below it would be below zero, which is a trap and no corruption."""
    end = host.stack_bytes
    assert end == 262_144
    host._write(0, b"\xaa" * (end - 4096))
    for deep in (b"[" * 2000, b'{"a":' * 2000, b"[" * 127 + b"]" * 127):
        token = f"{part(deep)}.{part(deep)}.{part(deep)}"
        assert host.ask("POST", "/mcp", [("authorization", f"Bearer {token}")], deep).reply
        host.ask("POST", "/mcp", SAID[2:], deep)
    for name in ("ada", "ada-es"):
        fresh = TOKENS["tokens"][name]["text"]
        assert host.ask("POST", "/mcp", [("authorization", f"Bearer {fresh[:-8]}AAAAAAAA")], CALL).reply
    used = end - len(host._read(0, end)) + len(host._read(0, end).lstrip(b"\xaa"))
    assert used < end / 2


def test_without_a_configuration_nobody_gets_in():
    for wrong in (b"", b"{", b"[]", {}, {"access": 1}, {"access": {"resource": "x", "issuers": 1}}):
        host = Host(host_of("plain").path, wrong)
        assert not host.configured
        found = host.ask("GET", "/health", [])
        assert found.reply.status == 503


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("resource", None), ("issuers", [{}]), ("rules", [{"match": {"tool": 1}}])),
        *(("rules", [{"require": {"never": 1}}]), ("default", "maybe"), ("required_scopes", "a")),
        *(("roles_claim", []), ("implied_scopes", {"a": "b"})),
    ],
)
def test_a_configuration_is_used_whole_or_not_at_all(member, value):
    said = declared("required")
    said["access"][member] = value
    host = Host(host_of("required").path, said)
    assert not host.configured
    assert any("configuration cannot be used" in line for line in host.logs)


def test_another_configuration_takes_over_and_a_broken_one_does_not(host):
    host = host_of("required")
    waiting = host.begin(SAID, ends=False)
    assert not host.configure({"access": {}})
    assert host.ask("POST", "/mcp", SAID[2:], CALL).passed
    assert host.configure(declared("plain"))
    host.send(waiting, CALL, ends=True)
    assert waiting.passed, "whoever has begun under the old one ends under it"
    late = host.ask("POST", "/mcp", SAID[2:], CALL)
    assert late.action == WAIT
    assert late.reply is None, "the new one has keys of its own to fetch"


def test_who_waits_under_an_old_configuration_is_answered():
    host = Filter(Issuer())
    waiting = host.ask_with(host.token())
    configuration = host.configuration
    assert host.configure(configuration)
    host.give()
    assert waiting.passed


def test_callbacks_in_any_order_let_nobody_in_without_a_token(host):
    """Of one request: headers, a body, trailers and its end, each at any time, and twice."""
    names = (
        "proxy_on_request_headers",
        "proxy_on_request_body",
        "proxy_on_request_trailers",
        "proxy_on_delete",
    )
    arguments = {names[0]: (3, 0), names[1]: (len(PING), 1), names[2]: (0,), names[3]: ()}
    for order in itertools.product(names, repeat=4):
        request = host.begin([(":method", "POST"), (":path", "/mcp")], ends=False)
        request.body = PING
        answered = 0
        for name in order:
            action = host.call(name, request.id, *arguments[name])
            answered += request.reply is not None
            request.reply = None
            assert name == names[3] or action != GO_ON
        del host.requests[request.id]


def test_whoever_is_gone_is_not_woken():
    host = Filter(Issuer())
    gone, there = host.ask_with(host.token()), host.ask_with(host.token(jti="x"))
    host.end(gone)
    host.give()
    assert there.passed


def test_answers_that_nobody_waits_for_change_nothing(host):
    for call in (0, 7, 2**32 - 1):
        host.answer(call, 200, b'{"keys":[]}')
        host.answer(call, None)
    assert host.ask("POST", "/mcp", SAID[2:], CALL).passed


def test_trailers_end_a_body(host):
    request = host.begin(SAID, ends=False)
    host.send(request, CALL, ends=False)
    assert request.action == WAIT
    assert host.call("proxy_on_request_trailers", request.id, 1) == GO_ON
    assert request.reply is None


@pytest.mark.parametrize("token", [GOOD, "x"])
def test_a_large_body_is_not_kept(host, token):
    request = host.begin([*SAID[:2], ("authorization", f"Bearer {token}")], ends=False)
    piece = b" " * 65_536
    while request.reply is None:
        host.send(request, piece, ends=False)
        assert len(request.body) < 6_000_000
    assert request.reply.status == (413 if token == GOOD else 401)
    host.end(request)


def test_what_says_it_is_large_is_not_waited_for(host):
    assert host.begin([*SAID, ("content-length", "9999999999999")], ends=False).reply.status == 413
    assert host.begin([*SAID[:2], ("content-length", "70000")], ends=False).reply.status == 401


def test_nobody_says_who_he_is():
    """G1.84"""
    host = host_of("plain")
    forged = [
        "x-portico-principal",
        "X-Portico-Scopes",
        "x_portico_issuer",
        "x-mcp-verified-sub",
        "x-remote_user",
    ]
    kept = ["x-request-id", "x-mcp-virtualserver", "mcp-session-id"]
    for path in ("/mcp", "/health"):
        found = host.ask("GET", path, [*SAID[2:], *((name, "root") for name in (*forged, *kept))])
        assert found.passed
        assert [name for name, value in found.headers if value == b"root"] == [name.encode() for name in kept]


@pytest.mark.timeout(400)
def test_a_hundred_thousand_requests_take_no_more_room_than_a_thousand():
    host = host_of("required")
    size = 0
    for number in range(100_000):
        token = GOOD if number % 3 else f"{GOOD}{number}"
        headers = [*SAID[:2], ("authorization", f"Bearer {token}")]
        request = host.begin(headers, ends=number % 2 == 0)
        if number % 2:
            host.send(request, CALL, ends=True)
        assert (request.reply is None) == (token == GOOD)
        host.end(request)
        if number == 1000:
            size = host.memory_bytes
    assert host.memory_bytes == size
