"""What `portico doctor` says of how a gateway is reached and who is let in: verdicts, and the fix for whatever is not well."""

import email.utils
import socket
import ssl

import pytest

from portico.cli.doctor import challenges, clock, metadata, reading, surroundings
from portico.cli.doctor.finding import Answer
from tests.unit.observed import NOW, URL, answer, is_like, jwt

# Challenges


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Bearer resource_metadata="https://a/b"', {"resource_metadata": "https://a/b"}),
        ('bearer realm=x , error="a \\"b\\", c"', {"realm": "x", "error": 'a "b", c'}),
        ('Basic realm="x", Bearer scope="a b"', {"scope": "a b"}),
        ("Bearer", {}),
        ("Bearer nonsense", {}),
        ('Basic realm="Bearer"', None),
        ("Bearertoken x=1", None),
        ("", None),
    ],
)
def test_a_bearer_challenge_is_read(header, expected):
    assert reading.bearer(header) == expected


@pytest.mark.parametrize(
    ("status", "headers", "verdict", "text", "fix"),
    [
        (401, {"www-authenticate": f'Bearer resource_metadata="{URL}"'}, "ok", URL, ""),
        (401, {"x-amzn-remapped-www-authenticate": "Bearer"}, "failed", "was renamed", "GatewayResponses"),
        (401, {}, "failed", "without WWW-Authenticate", "WWW-Authenticate: Bearer resource_metadata="),
        (401, {"www-authenticate": "Bearer"}, "failed", "no readable Bearer", "resource_metadata="),
        (401, {"www-authenticate": 'Bearer resource_metadata="http://[a"'}, "failed", "no readable", "401"),
        (403, {"www-authenticate": f'Bearer resource_metadata="{URL}"'}, "failed", "begin to log in", "401"),
        (500, {}, "failed", "HTTP 500", "log"),
    ],
)
def test_what_a_request_without_a_token_is_told(status, headers, verdict, text, fix):
    assert is_like(
        challenges.challenge(answer(status=status, headers=headers), loopback=False), verdict, text, fix
    )


def test_an_open_gateway_is_fine_on_loopback_only():
    let_in = answer({})
    assert is_like(challenges.challenge(let_in, loopback=True), "ok", "fine on loopback")
    assert is_like(
        challenges.challenge(let_in, loopback=False), "warning", "no token is asked for", "auth.mode"
    )
    near = ("http://localhost:1/mcp", "http://[::1]/mcp", "http://127.1.2.3/mcp")
    assert all(map(surroundings.is_loopback, near))
    assert not any(map(surroundings.is_loopback, ("http://127.example/mcp", "http://10.0.0.1/mcp")))


def test_a_host_that_is_not_served_is_no_matter_of_tokens():
    refused = answer(status=403, error={"code": -32600, "message": "this Host is not served here"})
    assert not challenges.asks_for_token(refused)
    assert is_like(challenges.challenge(refused, loopback=True), "failed", "this Host", "allowed_hosts")


@pytest.mark.parametrize(
    ("told", "verdict", "text"),
    [
        (answer(status=401), "ok", "refused"),
        (answer({}), "failed", "nobody issued"),
        (answer(status=403), "warning", "403"),
        (answer(status=500), "failed", "HTTP 500"),
    ],
)
def test_a_forged_token_must_be_refused(told, verdict, text):
    assert is_like(challenges.forged(told), verdict, text)


# Documents

GOOD = {"resource": URL, "authorization_servers": ["https://as.example"]}


@pytest.mark.parametrize(
    ("told", "verdict", "text", "fix"),
    [
        (answer(message=GOOD), "ok", "https://as.example", ""),
        (answer(message=GOOD | {"resource": URL + "/"}), "failed", f"about {URL}/, not", "public_url"),
        (answer(message={"resource": URL}), "failed", "no authorization_servers", "auth.issuers"),
        (answer(message=[]), "failed", "not JSON", "application/json"),
        (answer(status=404), "failed", "answers 404", "without a token"),
        (Answer(failure="it is no web address"), "failed", "no web address", "log"),
    ],
)
def test_the_resource_document_must_be_about_the_url(told, verdict, text, fix):
    assert is_like(metadata.resource(URL, "https://gw.example/x", told), verdict, text, fix)


def test_where_documents_are_looked_for():
    assert metadata.default_url(URL) == "https://gw.example/.well-known/oauth-protected-resource/mcp"
    assert metadata.server_urls("https://as.example/") == [
        "https://as.example/.well-known/oauth-authorization-server",
        "https://as.example/.well-known/openid-configuration",
    ]
    assert metadata.server_urls("https://as.example/t1") == [
        "https://as.example/.well-known/oauth-authorization-server/t1",
        "https://as.example/.well-known/openid-configuration/t1",
        "https://as.example/t1/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize(
    ("change", "verdict", "text"),
    [
        ({}, "ok", "reachable"),
        ({"issuer": "https://as.example/"}, "failed", "not about https://as.example"),
        ({"token_endpoint": None}, "failed", "token_endpoint"),
        ({"code_challenge_methods_supported": ["plain"]}, "warning", "PKCE"),
        ({"code_challenge_methods_supported": 5}, "warning", "PKCE"),
    ],
)
def test_an_authorization_servers_document(change, verdict, text):
    issuer = "https://as.example"
    whole = {
        "issuer": issuer,
        "authorization_endpoint": "a",
        "token_endpoint": "t",
        "code_challenge_methods_supported": ["S256"],
    }
    found = {"https://x/1": answer(status=404), "https://x/2": answer(message=whole | change)}
    assert is_like(metadata.server(issuer, found), verdict, text)


def test_an_authorization_server_without_a_document():
    finding = metadata.server("https://as.example", {"https://x/1": Answer(failure="no route")})
    assert is_like(finding, "failed", "https://x/1: no route", "auth.issuers")


# Times


@pytest.mark.parametrize(
    ("token", "verdict", "text", "fix"),
    [
        (jwt(exp=NOW + 600, iat=NOW - 1, aud=URL), "ok", "valid for 10 min", ""),
        (jwt(aud=[URL, "other"]), "ok", "never expires", ""),
        (jwt(exp=NOW - 90), "failed", "expired 90 s ago", "get a new one"),
        (jwt(nbf=NOW + 30), "warning", "only in 30 s", "NTP"),
        (jwt(iat=NOW + 7200), "failed", "only in 2 h", "NTP"),
        (jwt(exp=NOW + 9, aud="other"), "warning", f"audience is other, not {URL}", "resource"),
        (jwt(exp=10**400), "ok", "never expires", ""),
        ("opaque", "not applicable", "no JWT", ""),
        ("a.!!.c", "not applicable", "no JWT", ""),
        ("e30.WzFd.c2ln", "not applicable", "no JWT", ""),
    ],
)
def test_what_a_token_says_of_itself(token, verdict, text, fix):
    assert is_like(clock.token(clock.claims(token), URL, NOW), verdict, text, fix)


@pytest.mark.parametrize(
    ("ahead", "verdict", "text"),
    [
        (0, "ok", "agree"),
        (-3, "ok", "agree"),
        (20, "warning", "20 s ahead of this one: tokens may be refused"),
        (-3600, "failed", "60 min behind this one: tokens are refused"),
    ],
)
def test_two_clocks_must_agree(ahead, verdict, text):
    date = email.utils.formatdate(NOW + ahead, usegmt=True)
    assert is_like(clock.skew(date, NOW, 0.1), verdict, text, "NTP" if verdict != "ok" else "")


def test_a_clock_that_is_not_shown_or_not_readable():
    assert is_like(clock.skew(None, NOW, 0), "not applicable", "no Date")
    assert is_like(clock.skew("yesterday", NOW, 0), "warning", "yesterday")
    slow = email.utils.formatdate(NOW - 20, usegmt=True)
    assert is_like(clock.skew(slow, NOW, 19), "ok", "agree")


# Surroundings


@pytest.mark.parametrize(
    ("cause", "text", "fix"),
    [
        (ConnectionRefusedError(), "nothing listens at gw.example", "what listens there"),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed"), "nothing listens", "what listens"),
        (TimeoutError(), "why", "security groups"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version"), "no TLS there", "http://"),
        (socket.gaierror(), "why", "network"),
    ],
)
def test_why_nothing_could_be_reached(cause, text, fix):
    finding = surroundings.connection(URL, Answer(failure="why", cause=cause))
    assert is_like(finding, "failed", text, fix)


def test_how_it_was_reached():
    assert is_like(surroundings.connection(URL, answer({})), "ok", "TLS is fine")
    assert is_like(
        surroundings.connection("http://gw.example/mcp", answer({})), "warning", "without TLS", "https"
    )
    assert is_like(surroundings.connection("http://127.0.0.1/mcp", answer({})), "ok", "10 ms")
    slow = Answer(200, seconds=4.0)
    assert is_like(surroundings.connection(URL, slow), "warning", "4000 ms", "cold start")
    assert is_like(surroundings.connection(URL, Answer(failure="cut")), "failed", "cut", "https://")
    assert is_like(surroundings.address("a.example", ["1.2.3.4"], ""), "ok", "a.example is 1.2.3.4")
    assert is_like(surroundings.address("a.example", [], "unknown"), "failed", "unknown", "DNS")


@pytest.mark.parametrize(
    ("told", "verdict", "text"),
    [
        (answer(message={"status": "ok"}), "ok", "says ok"),
        (answer(message={}), "warning", "not as Portico"),
        (answer(status=404), "warning", "404"),
        (answer(status=401), "warning", "401"),
        (answer(status=503), "failed", "503"),
        (answer(headers={"content-type": "text/html"}), "failed", "web page"),
    ],
)
def test_health(told, verdict, text):
    assert is_like(surroundings.health("https://gw.example/health", told), verdict, text)


@pytest.mark.parametrize(
    ("told", "verdict", "fix"),
    [
        (answer(status=403), "ok", ""),
        (answer(status=401), "not applicable", ""),
        (answer({}), "failed", "allowed_origins"),
        (answer(status=502), "failed", "log"),
    ],
)
def test_a_web_page_from_elsewhere_must_be_refused(told, verdict, fix):
    assert is_like(surroundings.origin(told), verdict, "", fix)


@pytest.mark.parametrize(
    ("headers", "verdict", "fix"),
    [
        ({"cache-control": "no-cache, no-transform"}, "ok", ""),
        ({"cache-control": "no-store, max-age=0"}, "ok", ""),
        ({"cache-control": "max-age=60"}, "failed", "CachingDisabled"),
        ({"x-cache": "Hit from cloudfront"}, "failed", "CachingDisabled"),
        ({"set-cookie": "a=b"}, "warning", "sticky"),
        ({"access-control-allow-origin": "*"}, "warning", "allowed_origins"),
        ({"content-encoding": "gzip"}, "warning", "compression"),
    ],
)
def test_headers_that_hurt(headers, verdict, fix):
    assert is_like(surroundings.headers([answer({}), answer({}, headers=headers)]), verdict, "", fix)


@pytest.mark.parametrize("status", [401, 403])
def test_every_page_may_read_why_it_is_refused(status):
    """API Gateway's own responses have static headers."""
    told = answer(status=status, headers={"access-control-allow-origin": "*"})
    assert is_like(surroundings.headers([told]), "ok", "", "")
