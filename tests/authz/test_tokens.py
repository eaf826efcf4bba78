"""Tokens that are good, and all the ways in which they are not."""

import asyncio
import json
import time

import pytest

from authz.challenge import Refusal
from authz.fetching import Unfetched
from authz.guard import Guard
from authz.keys import AGAIN_S, FRESH_S, KEPT_S, RETRY_S, Keys
from authz.model import Access, Principal
from authz.model import Issuer as Declared
from tests.attacks.tokens import bad_tokens
from tests.support.issuer import RESOURCE, Issuer

ISSUER = Issuer()
GOOD = ISSUER.token()
BAD = bad_tokens(ISSUER)
ACCESS = Access(
    RESOURCE, (Declared(ISSUER.url, algorithms=("RS256", "ES256", "EdDSA"), jwks_url=f"{ISSUER.url}/jwks"),)
)


class Place:
    """Where the keys are fetched from."""

    def __init__(self, issuer: Issuer = ISSUER):
        self.issuer, self.asked, self.down, self.now = issuer, [], False, 1000.0
        self.gate = asyncio.Event()
        self.gate.set()

    async def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        await self.gate.wait()
        if self.down:
            raise Unfetched("down")
        return json.dumps(self.issuer.jwks()).encode()

    def guard(self, access: Access = ACCESS, clock=time.time) -> Guard:
        return Guard(access, Keys(self.fetch, lambda: self.now), clock)


def admitted(token: str, access: Access = ACCESS):
    return asyncio.run(Place().guard(access).admit([f"Bearer {token}"]))


@pytest.mark.parametrize("kid", ["rs256", "es256", "eddsa"])
def test_a_good_token_gives_the_principal(kid):
    """G1.67"""
    found = admitted(ISSUER.token(kid, scope="a b"))
    assert isinstance(found, Principal)
    assert (found.issuer, found.subject, found.scopes) == (ISSUER.url, "ada", {"a", "b"})


@pytest.mark.parametrize(
    ("claims", "good"),
    [({"exp": 941}, True), ({"exp": 940}, False), ({"nbf": 1060}, True), ({"nbf": 1061}, False)],
)
def test_clocks_may_differ_by_a_minute_and_not_by_a_second_more(claims, good):
    """G1.67: to the second here, where the time is given; the vectors leave a slow machine some."""
    token = ISSUER.token(**{"exp": 5000, "iat": 940} | claims)
    found = asyncio.run(Place().guard(clock=lambda: 1000.0).admit([f"Bearer {token}"]))
    assert isinstance(found, Principal) is good


@pytest.mark.parametrize("audience", [f"{RESOURCE}/v/", [f"{RESOURCE}/v/", "https://other.example.com"]])
def test_a_token_for_a_virtual_server_without_a_name_is_for_nobody(audience):
    """G1.67: and not for the gateway, whose path names no virtual server either."""
    found = admitted(ISSUER.token(aud=audience))
    assert isinstance(found, Refusal)
    assert found.status == 401


@pytest.mark.parametrize("name", BAD)
def test_a_bad_token_is_refused_and_nothing_of_it_is_repeated(name):
    """G1.67"""
    found = admitted(BAD[name])
    assert isinstance(found, Refusal)
    assert found.status == 401
    assert 'error="invalid_token"' in found.challenge
    assert f'resource_metadata="{ACCESS.metadata_url}"' in found.challenge
    assert BAD[name] not in found.challenge + found.message


@pytest.mark.parametrize("sent", [["Basic YTpi"], ["Bearer"], [f"Bearer {GOOD}", f"Bearer {GOOD}"], [GOOD]])
def test_what_is_no_bearer_token_is_refused(sent):
    found = asyncio.run(Place().guard().admit(sent))
    assert isinstance(found, Refusal)
    assert found.status == 401


def test_without_a_token_the_challenge_says_where_to_get_one():
    """G1.60: nothing was wrong, so no error is named (RFC 6750, 3.1)."""
    found = asyncio.run(Place().guard().admit([]))
    assert isinstance(found, Refusal)
    assert found.challenge == f'Bearer resource_metadata="{ACCESS.metadata_url}"'
    assert ACCESS.metadata_url == "https://gw.example.com/.well-known/oauth-protected-resource/mcp"


def test_a_clock_may_be_a_minute_off():
    assert isinstance(admitted(ISSUER.token(exp=int(time.time()) - 30, nbf=int(time.time()) + 30)), Principal)


def test_scopes_may_come_as_a_list_and_nothing_strange_becomes_one():
    found = admitted(ISSUER.token(scope=None, scp=["a", "b c", 7, 'd"', ""]))
    assert isinstance(found, Principal)
    assert found.scopes == {"a"}


def test_a_token_is_not_good_for_longer_than_it_says_though_it_is_remembered():
    now = [time.time()]
    guard = Place().guard(clock=lambda: now[0])

    async def twice():
        first = await guard.admit([f"Bearer {GOOD}"])
        now[0] += 7261
        return first, await guard.admit([f"Bearer {GOOD}"])

    first, second = asyncio.run(twice())
    assert isinstance(first, Principal)
    assert isinstance(second, Refusal)


def test_200_requests_at_once_make_one_fetch():
    """G1.72"""
    place = Place()
    guard = place.guard()

    async def many():
        return await asyncio.gather(
            *(guard.admit([f"Bearer {ISSUER.token(jti=str(n))}"]) for n in range(200))
        )

    assert all(isinstance(found, Principal) for found in asyncio.run(many()))
    assert len(place.asked) == 1


def test_a_new_key_is_fetched_when_it_is_first_seen_and_an_unknown_one_seldom():
    """G1.72"""
    issuer = Issuer()
    place = Place(issuer)
    guard = place.guard()

    async def rotate():
        assert isinstance(await guard.admit([f"Bearer {issuer.token()}"]), Principal)
        issuer.add("RS256", "new")
        place.now += AGAIN_S
        assert isinstance(await guard.admit([f"Bearer {issuer.token('new')}"]), Principal)
        assert len(place.asked) == 2
        issuer.add("RS256", "newer")
        assert isinstance(await guard.admit([f"Bearer {issuer.token('newer')}"]), Refusal)
        assert len(place.asked) == 2

    asyncio.run(rotate())


def test_a_key_that_is_withdrawn_ends_the_tokens_it_made():
    issuer = Issuer()
    place = Place(issuer)
    guard = place.guard()

    async def withdraw():
        token = issuer.token()
        assert isinstance(await guard.admit([f"Bearer {token}"]), Principal)
        del issuer.keys["rs256"]
        place.now += FRESH_S + 1
        await guard.admit([f"Bearer {issuer.token('es256')}"])
        await asyncio.sleep(0.01)
        assert isinstance(await guard.admit([f"Bearer {token}"]), Refusal)

    asyncio.run(withdraw())


def test_keys_that_cannot_be_had_are_503_when_cold_and_no_matter_when_warm():
    """G1.72"""
    place = Place()
    guard = place.guard()

    async def outage():
        place.down = True
        cold = await asyncio.gather(*(guard.admit([f"Bearer {GOOD}"]) for _ in range(200)))
        assert {found.status for found in cold if isinstance(found, Refusal)} == {503}
        assert len(place.asked) == 1
        place.down, place.now = False, place.now + RETRY_S
        assert isinstance(await guard.admit([f"Bearer {GOOD}"]), Principal)
        place.down, place.now = True, place.now + FRESH_S + 1
        assert isinstance(await guard.admit([f"Bearer {ISSUER.token(jti='x')}"]), Principal)
        await asyncio.sleep(0)
        place.now += KEPT_S
        late = await guard.admit([f"Bearer {ISSUER.token(jti='y')}"])
        assert isinstance(late, Refusal)
        assert late.status == 503

    asyncio.run(outage())


def test_slow_keys_hold_up_nobody_who_can_do_without_newer_ones():
    place = Place()
    guard = place.guard()

    async def slow():
        assert isinstance(await guard.admit([f"Bearer {GOOD}"]), Principal)
        place.gate.clear()
        place.now += FRESH_S + 1
        found = await asyncio.gather(
            *(guard.admit([f"Bearer {ISSUER.token(jti=str(n))}"]) for n in range(200))
        )
        assert all(isinstance(one, Principal) for one in found)
        assert len(place.asked) == 2
        place.gate.set()

    asyncio.run(slow())
