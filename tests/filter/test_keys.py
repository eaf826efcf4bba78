"""The filter's keys: fetched before anybody needs them, waited for when they are unknown, and missed by nobody who has them."""

import json

import pytest

from authz.filter_config import configuration
from authz.keys import AGAIN_S, FRESH_S, KEPT_S, RETRY_S
from authz.model import Access
from authz.model import Issuer as Declared
from tests.filter.built import wasm
from tests.filter.host import WAIT, Host
from tests.support.issuer import RESOURCE, Issuer

NOW = 1_800_000_000.0
JWKS = "https://as.example.com/jwks?v=1"
DECLARED = Declared("https://as.example.com", algorithms=("RS256", "ES256"), jwks_url=JWKS)
PING = b'{"jsonrpc":"2.0","id":"a","method":"ping"}'


@pytest.fixture(scope="module")
def issuer():
    return Issuer()


class Filter(Host):
    def __init__(self, issuer: Issuer, access: Access | None = None) -> None:
        super().__init__(wasm(), configuration(access or Access(RESOURCE, (DECLARED,)), {}), now=NOW)
        self.issuer = issuer
        self.at = NOW

    def later(self, seconds: float) -> None:
        self.at += seconds
        self.now = self.at

    def token(self, kid: str = "rs256", **more):
        return self.issuer.token(kid, **{"iat": int(self.at), "exp": int(self.at) + 7200} | more)

    def ask_with(self, token: str, body: bytes = PING):
        return self.ask("POST", "/mcp", [("authorization", f"Bearer {token}")], body)

    def give(self, keys: object = None, status: int = 200) -> None:
        (call,) = self.calls
        self.answer(call, status, json.dumps(self.issuer.jwks() if keys is None else keys).encode())

    def status(self, token: str) -> int:
        found = self.ask_with(token)
        try:
            return found.reply.status if found.reply else 200 if found.passed else 0
        finally:
            self.end(found)


@pytest.fixture
def warm(issuer):
    made = Filter(issuer)
    made.tick()
    made.give()
    assert made.status(made.token()) == 200
    return made


def test_keys_are_fetched_before_anybody_asks(issuer):
    """G1.72"""
    made = Filter(issuer)
    made.tick()
    (call,) = made.calls.values()
    assert (call.cluster, call.headers[":path"], call.headers[":authority"]) == (
        "keys_0",
        "/jwks?v=1",
        "as.example.com",
    )
    assert call.headers[":method"] == "GET"
    made.tick()
    assert len(made.calls) == 1


def test_cold_many_wait_for_one_fetch_and_all_get_in(issuer):
    """G1.72"""
    made = Filter(issuer)
    waiting = [made.ask_with(made.token(jti=str(n))) for n in range(200)]
    assert {(one.action, one.reply) for one in waiting} == {(WAIT, None)}
    assert len(made.calls) == 1
    made.give()
    assert all(one.passed for one in waiting)
    assert {one.header("x-portico-principal") for one in waiting} == {"ada"}


def test_who_waits_may_still_send_its_body(issuer):
    made = Filter(issuer)
    token = made.token()
    begun = made.begin(
        [(":method", "POST"), (":path", "/mcp"), ("authorization", f"Bearer {token}")], ends=False
    )
    made.send(begun, PING[:10], ends=False)
    made.give()
    assert not begun.passed
    made.send(begun, PING[10:], ends=True)
    assert begun.passed


def test_cold_and_unreachable_is_503_and_nobody_hammers(issuer):
    """G1.72"""
    made = Filter(issuer)
    waiting = [made.ask_with(made.token(jti=str(n))) for n in range(200)]
    (call,) = made.calls
    made.answer(call, None)
    assert {one.reply.status for one in waiting} == {503}
    assert {one.reply.headers["retry-after"] for one in waiting} == {"5"}
    assert all(one.reply.message["id"] == "a" for one in waiting)
    assert made.status(made.token()) == 503
    made.tick()
    assert not made.calls
    made.later(RETRY_S)
    begun = made.ask_with(made.token())
    made.give()
    assert begun.passed


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *((500, b"{}"), (302, b"{}"), (200, b"{"), (200, b"[]"), (200, b"{}"), (200, b"\xff")),
        *((200, b'{"keys":{}}'), (200, json.dumps({"keys": [{}] * 101}).encode())),
        (200, b" " * 600_000 + b'{"keys":[]}'),
    ],
)
def test_what_is_no_set_of_keys_is_none(issuer, status, body):
    made = Filter(issuer)
    begun = made.ask_with(made.token())
    (call,) = made.calls
    made.answer(call, status, body)
    assert begun.reply is not None
    assert begun.reply.status == 503


def test_a_key_that_is_odd_takes_no_other_with_it(issuer):
    odd = [
        None,
        1,
        {"kty": "RSA", "kid": "rs256", "n": "!", "e": "AQAB", "use": "enc"},
        {"kty": "EC", "crv": "P-256"},
    ]
    odd += [{"kty": "RSA", "n": "", "e": ""}, {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": 7}]
    made = Filter(issuer)
    begun = made.ask_with(made.token())
    made.give({"keys": [*odd, *issuer.jwks()["keys"]]})
    assert begun.passed


def test_a_new_key_is_waited_for_and_an_unknown_one_asked_for_seldom(warm):
    """G1.72"""
    warm.issuer = Issuer()
    warm.issuer.url = DECLARED.issuer
    warm.later(AGAIN_S)
    warm.issuer.add("RS256", "new")
    many = [warm.ask_with(warm.token("new", jti=str(n))) for n in range(50)]
    assert len(warm.calls) == 1
    warm.give()
    assert all(one.passed for one in many)
    warm.issuer.add("RS256", "newer")
    assert warm.status(warm.token("newer")) == 401
    assert not warm.calls
    warm.later(AGAIN_S)
    begun = warm.ask_with(warm.token("newer"))
    warm.give({"keys": []})
    assert begun.reply.message["error"]["message"] == "the token's key is unknown"


def test_warm_an_outage_matters_to_nobody_whose_key_is_known(warm):
    """G1.72"""
    warm.later(FRESH_S + 1)
    assert warm.status(warm.token(jti="x")) == 200
    (call,) = warm.calls
    assert warm.status(warm.token(jti="y")) == 200
    warm.answer(call, 503)
    assert warm.status(warm.token(jti="z")) == 200
    warm.later(KEPT_S)
    late = warm.ask_with(warm.token())
    assert late.action == WAIT
    (call,) = warm.calls
    warm.answer(call, None)
    assert late.reply.status == 503


def test_a_key_that_is_withdrawn_ends_the_tokens_it_made(warm):
    token = warm.token()
    assert warm.status(token) == 200
    warm.later(FRESH_S + 1)
    warm.tick()
    warm.give({"keys": [key for key in warm.issuer.jwks()["keys"] if key["kid"] != "rs256"]})
    assert warm.status(token) == 401
    assert warm.status(warm.token("es256")) == 200


def test_a_token_is_not_good_for_longer_than_it_says_though_it_is_remembered(warm):
    token = warm.token(exp=int(warm.at) + 100)
    assert warm.status(token) == 200
    warm.later(159)
    assert warm.status(token) == 200
    warm.later(1)
    assert warm.status(token) == 401


def test_what_is_remembered_is_verified_once_and_never_without_end(warm):
    asked = []

    def verify(arguments):
        asked.append(arguments)
        return b"\x08\x01"

    warm.foreign["verify_signature"] = verify
    token = warm.token(jti="once")
    assert [warm.status(token) for _ in range(3)] == [200, 200, 200]
    assert len(asked) == 1
    size = 0
    for number in range(9000):
        head, body, _ = token.split(".")
        assert warm.status(f"{head}.{body}.{number:04d}") == 200
        if number == 5000:
            size = warm.memory_bytes
    assert warm.memory_bytes <= size + 65_536
    assert len(asked) == 9001


def test_what_the_host_calls_wrong_is_wrong(warm):
    warm.foreign["verify_signature"] = lambda _: b""
    assert warm.status(warm.token(jti="1")) == 401
    warm.foreign["verify_signature"] = lambda _: b"\x08\x00"
    assert warm.status(warm.token(jti="2")) == 401
