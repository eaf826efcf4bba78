"""What backends' credentials are made with: addresses that may be asked, what is kept, what is sealed."""

import asyncio
import base64
import json
import os

import pytest

from authz.model import Access, Issuer
from portico.caller import RequestHeaders
from portico.credentials.calls import Credentials
from portico.credentials.endpoint import Token
from portico.credentials.kept import RETRY_S, YOUNG_S, Good, Kept
from portico.credentials.own import audiences, passthrough
from portico.credentials.sealing import keys_for
from portico.credentials.servers import Resource, about, parameters, scopes_of
from portico.credentials.zones import Zone, innermost, zone_of
from portico.errors import BackendError, NoCredential
from portico.registry import Backend, OAuth, Reference, Registry
from portico.toolmetadata import usable

ZONES = {
    "93.184.216.34": Zone.PUBLIC,
    "2606:2800:220:1:248:1893:25c8:1946": Zone.PUBLIC,
    "10.0.0.1": Zone.PRIVATE,
    "172.16.0.1": Zone.PRIVATE,
    "192.168.1.1": Zone.PRIVATE,
    "100.64.0.1": Zone.PRIVATE,
    "fd00::1": Zone.PRIVATE,
    "127.0.0.1": Zone.LOOPBACK,
    "127.8.8.8": Zone.LOOPBACK,
    "::1": Zone.LOOPBACK,
    "::ffff:127.0.0.1": Zone.LOOPBACK,
    "::ffff:10.0.0.1": Zone.PRIVATE,
    "::ffff:169.254.169.254": Zone.NEVER,
    "2002:7f00:1::": Zone.LOOPBACK,
    "2002:a00:1::": Zone.PRIVATE,
    "64:ff9b::a9fe:a9fe": Zone.NEVER,
    "64:ff9b::a00:1": Zone.PRIVATE,
    "169.254.169.254": Zone.NEVER,
    "fe80::1%eth0": Zone.NEVER,
    "fd00:ec2::254": Zone.PRIVATE,
    "0.0.0.0": Zone.NEVER,
    "::": Zone.NEVER,
    "224.0.0.1": Zone.NEVER,
    "255.255.255.255": Zone.NEVER,
    "240.0.0.1": Zone.NEVER,
    "nonsense": Zone.NEVER,
    "": Zone.NEVER,
}


@pytest.mark.parametrize("address", ZONES)
def test_an_address_is_as_far_inside_as_what_it_stands_for(address):
    """G1.82: SSRF through metadata"""
    assert zone_of(address) is ZONES[address]


def test_of_several_addresses_the_innermost_counts_and_none_is_never_reached():
    """G1.82: a name that stands for a public and a private address"""
    assert innermost(["93.184.216.34", "10.0.0.1"]) is Zone.PRIVATE
    assert innermost([]) is Zone.NEVER


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Brings a new value each time, or fails."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.asked = 0
        self.down = False

    async def __call__(self) -> Good[str]:
        self.asked += 1
        await asyncio.sleep(0.01)
        if self.down:
            raise NoCredential(503, "down")
        return Good(f"v{self.asked}", self.clock.now + 100, self.clock.now + 80)


def test_many_who_want_the_same_make_one_fetch_and_its_failure_is_told_to_all():
    """G1.82"""
    clock = Clock()
    kept: Kept[str] = Kept(clock)
    source = Source(clock)

    async def run() -> None:
        assert set(await asyncio.gather(*(kept.get("k", source) for _ in range(200)))) == {"v1"}
        source.down = True
        found = await asyncio.gather(*(kept.get("other", source) for _ in range(200)), return_exceptions=True)
        assert all(isinstance(error, BackendError) for error in found)
        assert source.asked == 2
        with pytest.raises(NoCredential):
            await kept.get("other", source)
        assert source.asked == 2
        clock.now += RETRY_S
        source.down = False
        assert await kept.get("other", source) == "v3"

    asyncio.run(run())


def test_the_old_one_is_used_while_a_newer_one_is_asked_for_and_until_its_end():
    """G1.82"""
    clock = Clock()
    kept: Kept[str] = Kept(clock)
    source = Source(clock)

    async def run() -> None:
        await kept.get("k", source)
        clock.now += 85
        source.down = True
        for _ in range(5):
            assert await kept.get("k", source) == "v1"
            await asyncio.sleep(0.02)
        assert source.asked == 2
        clock.now += 20
        with pytest.raises(NoCredential):
            await kept.get("k", source)

    asyncio.run(run())


def test_one_that_was_refused_is_replaced_unless_it_is_a_moment_old():
    """G1.82: a backend that refuses everything does not make the authorization server be asked for every call."""
    clock = Clock()
    kept: Kept[str] = Kept(clock)
    source = Source(clock)

    async def run() -> None:
        await kept.get("k", source)
        assert not kept.drop("k", "v1")
        clock.now += YOUNG_S
        assert kept.drop("k", "v1")
        assert await kept.get("k", source) == "v2"
        assert kept.drop("k", "v1")  # somebody else has replaced it meanwhile
        assert await kept.get("k", source) == "v2"

    asyncio.run(run())


def test_whoever_goes_away_while_it_is_fetched_takes_nothing_from_the_others():
    """G1.82"""
    clock = Clock()
    kept: Kept[str] = Kept(clock)
    source = Source(clock)

    async def run() -> None:
        first = asyncio.ensure_future(kept.get("k", source))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(kept.get("k", source))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == "v1"
        assert source.asked == 1

    asyncio.run(run())


def test_what_was_sealed_opens_with_its_key_at_its_place_and_not_otherwise(tmp_path):
    """G1.82"""
    first, second = (base64.b64encode(os.urandom(32)).decode() for _ in range(2))
    file = tmp_path / "keys"

    def keys(text: str):
        file.write_text(text)
        found = keys_for(Registry(encryption_key=Reference("file", str(file))))
        assert found is not None
        return found

    sealed = keys(first).seal(b"secret", "here")
    assert b"secret" not in sealed
    assert keys(f"{second} {first}").open(sealed, "here") == b"secret"
    assert keys(first).open(sealed, "elsewhere") is None
    assert keys(second).open(sealed, "here") is None
    for at in range(len(sealed)):
        assert keys(first).open(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :], "here") is None
    for cut in (b"", b"1", sealed[:10], sealed[:-1]):
        assert keys(first).open(cut, "here") is None
    for bad in ("short", base64.b64encode(b"x" * 16).decode(), "*" * 44):
        with pytest.raises(NoCredential) as refused:
            keys(bad)
        assert bad not in str(refused.value)


def test_a_shared_store_needs_a_declared_key():
    """G1.82"""
    assert keys_for(Registry(store="dynamodb:portico")) is None


def test_nothing_that_is_printed_shows_a_token():
    """G1.82"""
    headers = RequestHeaders()
    headers["authorization"] = "Bearer hush"
    headers.admit("ada")
    assert headers.caller.token == "hush"
    assert "hush" not in repr((headers, headers.caller, Token("hush", 1.0, "hush")))


def jwt_of(claims):
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.x"


@pytest.mark.parametrize(
    ("audience", "passes"),
    [
        ("https://b.example/mcp", True),
        (["https://gw/mcp", "https://b.example/mcp"], True),
        (["https://gw/mcp"], False),
        ("https://b.example/mcp/", False),
        ("https://b.example/mcp.evil", False),
        ("https://B.example/mcp", False),
        ({"https://b.example/mcp": 1}, False),
        (None, False),
        ([["https://b.example/mcp"]], False),
    ],
)
def test_a_token_goes_on_to_whom_its_audience_names_and_to_nobody_else(audience, passes):
    """G1.82: no confused deputy"""
    backend = Backend("b", "https://b.example/mcp", "b_", "b", call_auth="passthrough")
    headers = RequestHeaders()
    headers["authorization"] = f"Bearer {jwt_of({'aud': audience})}"
    headers.admit("ada")
    if passes:
        assert passthrough(backend, headers)[0][1].startswith(b"Bearer e30.")
    else:
        with pytest.raises(NoCredential) as refused:
            passthrough(backend, headers)
        assert refused.value.http_status == 403


def test_what_is_no_jwt_is_for_nobody():
    """G1.82"""
    for token in ("", "opaque", "a.b", "a.!.c", "a.bnVsbA.c", "a.W10.c"):
        assert set(audiences(token)) <= {None}


CHALLENGES = {
    'Bearer resource_metadata="https://b/x", scope="a b"': {
        "resource_metadata": "https://b/x",
        "scope": "a b",
    },
    'Basic realm="x", Bearer error="e", scope=one': {"error": "e", "scope": "one"},
    'bearer scope="first", scope="second"': {"scope": "first"},
    r'Bearer error_description="say \"hi\""': {"error_description": 'say "hi"'},
    "": {},
    "Basic realm=x": {},
    'Bearer scope="unclosed': {},
}


@pytest.mark.parametrize("challenge", CHALLENGES)
def test_a_challenge_is_read(challenge):
    found = parameters(challenge)
    assert {name: found.get(name) for name in CHALLENGES[challenge]} == CHALLENGES[challenge]
    assert isinstance(scopes_of(challenge), tuple)


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("https://b.example/a/mcp", True),
        ("https://b.example/a", True),
        ("https://b.example/", True),
        ("https://b.example", True),
        ("https://b.example/a/m", False),
        ("https://b.exam", False),
        ("https://b.example/other", False),
        ("https://b.example.evil/a/mcp", False),
        ("https://", False),
        ("", False),
        ("http://b.example/a/mcp", False),
    ],
)
def test_metadata_must_be_about_the_backend(name, fits):
    """G1.82: RFC 9728, 3.3"""
    said = {"resource": name, "authorization_servers": ["https://as"]}
    url = "https://b.example/a/mcp"
    if fits:
        assert about(said, url, "https://b.example") == Resource(name, ("https://as",), ())
    else:
        with pytest.raises(Exception, match="another resource"):
            about(said, url, "https://b.example")


def test_of_a_tools_own_metadata_what_leads_to_an_unknown_server_is_left_out():
    """G1.77"""
    access = Access("https://gw/mcp", (Issuer("https://as"),))
    said = {"resource": "x", "authorization_servers": ["https://evil", "https://as", 7]}
    assert usable(said, access) == {"resource": "https://gw/mcp", "authorization_servers": ["https://as"]}
    assert usable({"authorization_servers": ["https://evil"]}, access) is None
    assert usable({}, access) is usable({}, None) is None
    assert usable(said, None) == said


def test_where_tokens_are_fetched_all_that_is_needed_must_be_declared():
    """G1.82"""
    from tests.unit.declared import ONE, problems

    def places(more: str) -> set[str]:
        return {problem.path for problem in problems(ONE[:-2] + more + "}}")}

    at = "backends.echo"
    assert places(", call_auth: static") == {f"{at}.credential"}
    assert places(", oauth: {client_id: x}") == {f"{at}.call_auth"}
    assert places(", call_auth: client_credentials") == {
        f"{at}.oauth.token_url",
        f"{at}.oauth.client_id",
        f"{at}.oauth.client_secret",
    }
    assert f"{at}.call_auth" in places(", call_auth: exchange, oauth: {client_id: x, issuer: https://as}")
    assert places(", call_auth: user, oauth: {client_id: x}") == {f"{at}.oauth.issuer"}
    assert places(", call_auth: user, oauth: {token_url: 'http://as.example/t'}") == {f"{at}.oauth.token_url"}
    assert places(", call_auth: user, oauth: {client_secret: hush}") == {f"{at}.oauth.client_secret"}


def test_what_is_declared_of_oauth_is_shown_without_its_secret():
    from portico.registry import as_declared

    oauth = OAuth(issuer="https://as", client_id="c", client_secret=Reference("env", "S"), scopes=("a",))
    shown = as_declared(Backend("b", "https://b", "b_", "b", call_auth="client_credentials", oauth=oauth))
    assert shown["oauth"] == {
        "issuer": "https://as",
        "client_id": "c",
        "client_secret": "env:S",
        "scopes": ["a"],
    }


def test_where_others_are_served_a_user_without_a_name_has_no_token():
    """G1.82: all of them would share one"""

    async def run() -> None:
        backend = Backend("b", "https://b", "b_", "b", call_auth="user")
        with pytest.raises(NoCredential, match=r"auth\.mode is none"):
            await Credentials(unwired, alone=False).for_call(backend, RequestHeaders())

    asyncio.run(run())


def unwired():
    raise AssertionError("nothing is to be fetched")
