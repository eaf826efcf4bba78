"""Tokens that are good, and all the ways in which they are not."""

import asyncio
import hashlib
import hmac
import json
import time

import jwt
import pytest

from authz.challenge import Refusal
from authz.fetching import Unfetched
from authz.guard import Guard
from authz.keys import AGAIN_S, FRESH_S, KEPT_S, RETRY_S, Keys
from authz.model import Access, Principal
from authz.model import Issuer as Declared
from tests.support.issuer import RESOURCE, Issuer, part

ISSUER = Issuer()
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


def hs256(secret: bytes) -> str:
    text = f"{part(json.dumps({'alg': 'HS256', 'kid': 'rs256'}))}.{part(json.dumps(ISSUER.claims()))}"
    return f"{text}.{part(hmac.digest(secret, text.encode(), hashlib.sha256))}"


def unsigned(header: dict) -> str:
    return f"{part(json.dumps(header))}.{part(json.dumps(ISSUER.claims()))}"


def jwk() -> dict:
    return next(key for key in OTHER.jwks()["keys"] if key["kid"] == "rs256")


OTHER = Issuer(ISSUER.url)
NOW = int(time.time())
GOOD = ISSUER.token()
HEAD, BODY, SIGNATURE = GOOD.split(".")
PUBLIC = json.dumps(ISSUER.jwks()["keys"][0]).encode()
CLAIMS = json.dumps(ISSUER.claims())

BAD = {
    "alg none": f"{unsigned({'alg': 'none'})}.",
    "alg none with a signature": f"{unsigned({'alg': 'none'})}.{SIGNATURE}",
    "alg NoNe": f"{unsigned({'alg': 'NoNe', 'kid': 'rs256'})}.{SIGNATURE}",
    "alg missing": f"{unsigned({'kid': 'rs256'})}.{SIGNATURE}",
    "alg no text": f"{unsigned({'alg': ['RS256'], 'kid': 'rs256'})}.{SIGNATURE}",
    "HS256 with the public key": hs256(PUBLIC),
    "HS256 with an empty secret": hs256(b""),
    "RS384, which is not listed": jwt.encode(
        ISSUER.claims(), ISSUER.keys["rs256"][1], "RS384", {"kid": "rs256"}
    ),
    "another algorithm for the same key": ISSUER.signed('{"alg":"ES256","kid":"rs256"}', CLAIMS),
    "another's key under our kid": OTHER.token(),
    "a key in the header": OTHER.token(headers={"jwk": jwk()}),
    "keys by jku": OTHER.token(headers={"jku": "https://evil.example/jwks"}),
    "keys by x5u": OTHER.token(headers={"x5u": "https://evil.example/cert"}),
    "kid unknown": ISSUER.signed('{"alg":"RS256","kid":"nobody"}', CLAIMS),
    "kid as a path": ISSUER.signed('{"alg":"RS256","kid":"../../dev/null"}', CLAIMS),
    "kid as SQL": ISSUER.signed('{"alg":"RS256","kid":"x\' OR 1=1"}', CLAIMS),
    "kid no text": ISSUER.signed('{"alg":"RS256","kid":{"a":1}}', CLAIMS),
    "kid of 10,000 characters": ISSUER.signed(json.dumps({"alg": "RS256", "kid": "k" * 10_000}), CLAIMS),
    "no kid where several keys would fit nobody": OTHER.signed('{"alg":"RS256"}', CLAIMS),
    "critical extension": ISSUER.token(headers={"crit": ["exp"]}),
    "unencoded payload": ISSUER.signed('{"alg":"RS256","kid":"rs256","b64":false}', CLAIMS),
    "an ID token of another type": ISSUER.token(headers={"typ": "secevent+jwt"}),
    "issuer unknown": ISSUER.token(iss="https://evil.example"),
    "issuer with a slash more": ISSUER.token(iss=f"{ISSUER.url}/"),
    "issuer missing": ISSUER.token(iss=None),
    "issuer no text": ISSUER.signed('{"alg":"RS256","kid":"rs256"}', CLAIMS.replace(f'"{ISSUER.url}"', "1")),
    "audience another": ISSUER.token(aud="https://other.example/mcp"),
    "audience with ours in it": ISSUER.token(aud=f"{RESOURCE}.evil.example"),
    "audience as a prefix": ISSUER.token(aud="https://gw.example.com"),
    "audience missing": ISSUER.token(aud=None),
    "audience no text": ISSUER.signed(
        '{"alg":"RS256","kid":"rs256"}', json.dumps(ISSUER.claims() | {"aud": [1, {}]})
    ),
    "expired": ISSUER.token(exp=NOW - 3600),
    "expired beyond the skew": ISSUER.token(exp=NOW - 62),
    "no expiry": ISSUER.token(exp=None),
    "expiry as text": ISSUER.signed(
        '{"alg":"RS256","kid":"rs256"}', json.dumps(ISSUER.claims() | {"exp": "9999999999"})
    ),
    "expiry true": ISSUER.signed(
        '{"alg":"RS256","kid":"rs256"}', json.dumps(ISSUER.claims() | {"exp": True})
    ),
    "expiry infinite": ISSUER.signed(
        '{"alg":"RS256","kid":"rs256"}', json.dumps(ISSUER.claims() | {"exp": float("inf")})
    ),
    "expiry 1e400": ISSUER.signed(
        '{"alg":"RS256","kid":"rs256"}', CLAIMS.replace('"exp":', '"exp": 1e400, "e":')
    ),
    "not yet": ISSUER.token(nbf=NOW + 3600),
    "issued tomorrow": ISSUER.token(iat=NOW + 86400),
    "no subject": ISSUER.token(sub=None),
    "subject empty": ISSUER.token(sub=""),
    "subject no text": ISSUER.signed(
        '{"alg":"RS256","kid":"rs256"}', json.dumps(ISSUER.claims() | {"sub": 7})
    ),
    "signature cut": GOOD[:-4],
    "signature missing": f"{HEAD}.{BODY}.",
    "signature of another": f"{HEAD}.{BODY}.{ISSUER.token(sub='eve').split('.')[2]}",
    "signature padded": f"{GOOD}==",
    "signature in the other alphabet": f"{HEAD}.{BODY}.{SIGNATURE.replace('-', '+').replace('_', '/')}+/",
    "signature with bits left over": ISSUER.token("es256")[:-1] + "B",
    "claims changed": f"{HEAD}.{part(json.dumps(ISSUER.claims(scope='admin')))}.{SIGNATURE}",
    "a claim twice": ISSUER.signed('{"alg":"RS256","kid":"rs256"}', CLAIMS[:-1] + ',"sub":"root"}'),
    "a header twice": ISSUER.signed('{"alg":"none","alg":"RS256","kid":"rs256"}', CLAIMS),
    "claims no object": ISSUER.signed('{"alg":"RS256","kid":"rs256"}', "[]"),
    "claims no JSON": ISSUER.signed('{"alg":"RS256","kid":"rs256"}', "{"),
    "claims no UTF-8": ISSUER.signed('{"alg":"RS256","kid":"rs256"}', b'{"sub":"\xff"}'),
    "claims very deep": ISSUER.signed('{"alg":"RS256","kid":"rs256"}', "[" * 5000 + "]" * 5000),
    "oversized": ISSUER.token(more="x" * 20_000),
    "four parts": f"{GOOD}.x",
    "five parts, encrypted": "a.b.c.d.e",
    "no parts": "opaque-7f3a",
    "a space inside": f"{HEAD}. {BODY}.{SIGNATURE}",
    "a newline inside": f"{HEAD}.{BODY}\n.{SIGNATURE}",
    "unicode": "ä.ö.ü",
    "NUL": "\0.\0.\0",
}


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
