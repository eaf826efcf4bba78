"""What `portico doctor` says of what it has observed: verdicts, and the fix for whatever is not well."""

import base64
import email.utils
import json
import socket
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.cli.doctor import challenges, clock, metadata, reading, report, speech, streams, surroundings
from portico.cli.doctor.examination import Target
from portico.cli.doctor.finding import Answer, Finding, Heard

URL = "https://gw.example/mcp"
NOW = 1_800_000_000.0
SSE = {"content-type": "text/event-stream"}
OPEN = b"id: 1\nretry: 1000\ndata: \n\n"
ALIVE = b": keep-alive\n\n"
ACK = b'data: {"method":"notifications/subscriptions/acknowledged"}\n\n'


def answer(result=None, *, status=200, error=None, headers=None, message=None):
    if message is None:
        message = {"error": error} if error else {"result": result} if result is not None else None
    return Answer(status, {"content-type": "application/json"} | (headers or {}), b"", message, 0.01)


def is_like(finding, verdict, text, fix=""):
    assert (finding.verdict, text in finding.text, fix in finding.fix) == (verdict, True, True), finding
    assert bool(finding.fix) == (verdict in ("warning", "failed")), finding
    return True


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


def jwt(**claims):
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


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


# What is answered


@pytest.mark.parametrize(
    ("told", "text", "fix"),
    [
        (Answer(failure="cut off"), "cut off", "log"),
        (answer(status=302, headers={"location": "/login"}), "/login", "the address it leads to"),
        (answer(status=404), "HTTP 404", "Portico serves /mcp"),
        (answer(status=429), "HTTP 429", "throttling"),
        (answer(status=400, error={"code": -32022, "message": "no"}), "no (-32022)", "takes `initialize`"),
        (answer(status=403, message={"message": "Forbidden"}), "Forbidden", "WAF"),
        (answer(status=403, message={"message": "Missing Authentication Token"}), "no such route", "stage"),
        (answer(status=401), "the token is refused (HTTP 401)", "audience"),
        (
            answer(
                status=403, headers={"www-authenticate": 'Bearer error="insufficient_scope", scope="a b"'}
            ),
            "insufficient_scope",
            "scopes: a b",
        ),
        (answer({"protocolVersion": "1999-01-01"}), "1999-01-01", "Portico"),
        (answer({"protocolVersion": "2025-11-25"}, headers={"mcp-session-id": "a b"}), "visible ASCII", ""),
        (answer(message=["?"]), "no MCP answer", "log"),
    ],
)
def test_an_initialize_that_fails(told, text, fix):
    assert is_like(speech.initialize(told), "failed", text, fix)


def test_lists():
    assert is_like(
        speech.listing("tools/list", answer({"tools": [{}], "nextCursor": "x"})), "ok", "1 tool, and"
    )
    assert is_like(
        speech.listing("tools/list", answer({"tools": []})), "warning", "no tools", "portico status"
    )
    assert is_like(speech.listing("tools/list", answer({})), "failed", "no list of tools")
    assert is_like(speech.listing("tools/list", answer(status=404)), "failed", "not known any more", "store")


def tool(name="t", *, read_only=True, **schema):
    return {
        "name": name,
        "annotations": {"readOnlyHint": read_only},
        "inputSchema": {"type": "object"} | schema,
    }


@pytest.mark.parametrize(
    ("tools", "chosen"),
    [
        ([tool(read_only=False), tool("r")], "r"),
        ([tool(required=["a"]), tool("s", properties={"a": {}})], "s"),
        ([tool(read_only="yes")], None),
        ([{"name": "t", "inputSchema": {}}, "x", None], None),
        ("no list", None),
    ],
)
def test_only_a_harmless_tool_is_called_unasked(tools, chosen):
    assert speech.harmless(answer({"tools": tools})) == chosen


def test_calls():
    assert is_like(speech.call("t", answer({"content": []})), "ok", "t answered")
    failing = {"isError": True, "content": [{"type": "image"}, {"text": "no milk"}]}
    assert is_like(speech.call("t", answer(failing)), "failed", "t reports an error: no milk", "arguments")
    unknown = answer(error={"code": -32602, "message": "Unknown tool: t"})
    assert is_like(speech.call("t", unknown), "failed", "Unknown tool: t (-32602)", "portico tools")
    gone = answer(status=503, error={"code": -32000, "message": "gone"})
    assert is_like(speech.call("t", gone), "failed", "gone (-32000)", "portico status")


SESSION = answer({}, headers={"mcp-session-id": "s"})


def test_sessions():
    lost = answer(status=404)
    assert is_like(speech.session(SESSION, [answer({})] * 3), "ok", "3 new connections")
    assert is_like(speech.session(SESSION, [answer({}), lost]), "failed", "1 of 2", "dynamodb")
    assert is_like(speech.session(SESSION, [answer(status=502)]), "failed", "502")
    assert is_like(speech.session(answer({}), []), "not applicable", "keeps none")
    assert speech.stripped(SESSION, answer(status=400)) is None
    assert speech.stripped(answer({}), answer({})) is None
    assert is_like(
        speech.stripped(answer({}), answer(status=400)), "failed", "Mcp- headers", "let Mcp-Session-Id"
    )


@pytest.mark.parametrize(
    ("deleted", "after", "verdict", "text"),
    [
        (200, 404, "ok", "404 afterwards"),
        (204, 200, "failed", "answers 200, not 404"),
        (405, 200, "not applicable", "does not let"),
        (404, 404, "failed", "not known any more"),
        (400, 404, "failed", "incomplete"),
    ],
)
def test_how_a_session_ends(deleted, after, verdict, text):
    assert is_like(speech.ending(SESSION, answer(status=deleted), answer(status=after)), verdict, text)


def test_the_modern_era():
    spoken = {"supportedVersions": ["2026-07-28"]}
    assert is_like(speech.discover(answer(spoken)), "ok", "2026-07-28")
    assert is_like(speech.discover(answer({})), "failed", "does not name 2026-07-28", "update")
    legacy = answer(status=400, error={"code": -32600, "message": "no session"})
    assert is_like(speech.discover(legacy), "warning", "not spoken here (no session)", "update")
    headless = answer(status=400, error={"code": -32020, "message": "missing"})
    assert is_like(speech.discover(headless), "failed", "incomplete", "Mcp-Method")
    assert is_like(speech.mismatch(headless), "ok", "-32020")
    assert is_like(speech.mismatch(answer({})), "failed", "not noticed", "Mcp-Method")
    unknown = answer(status=404, error={"code": -32601, "message": "unknown"})
    assert is_like(speech.mismatch(unknown), "failed", "unknown (-32601)")
    assert is_like(speech.discover(unknown), "warning", "not spoken here (unknown)")


# Streams


def heard(*pieces, status=200, ended=False, seconds=20.0, headers=None):
    return Heard(Answer(status, SSE if headers is None else headers), pieces, ended, seconds)


@pytest.mark.parametrize(
    ("observed", "verdict", "text", "fix"),
    [
        (heard((0.1, OPEN), (15.1, ALIVE)), "ok", "open after 100 ms, then something every 15.0 s", ""),
        (heard((0.1, b": open\n\n"), (15.1, ALIVE)), "ok", "15.0 s", ""),
        (heard((0.1, OPEN)), "warning", "then nothing for 20 s", "keepalive_s"),
        (heard((4.0, OPEN), (5.0, ALIVE)), "warning", "took 4.0 s", "RESPONSE_STREAM"),
        (heard(), "failed", "head came, but nothing else in 20 s", "RESPONSE_STREAM"),
        (heard(status=0), "failed", "not even its head", "RESPONSE_STREAM"),
        (heard((2.0, OPEN + ALIVE), (3.0, ALIVE)), "failed", "together", "proxy_buffering"),
        (heard((0.1, OPEN), (9.0, ALIVE + ALIVE)), "failed", "together", "proxy_buffering"),
        (heard((29.0, OPEN + ALIVE), ended=True), "failed", "all at once", "RESPONSE_STREAM"),
        (heard(headers={"content-type": "application/json"}), "failed", "not text/event-stream", "type"),
        (heard(status=405), "not applicable", "offers none", ""),
        (heard(status=404), "failed", "not known any more", "store"),
        (Heard(Answer(failure="cut off"), ended=True), "failed", "cut off", "log"),
    ],
)
def test_whether_a_stream_streams(observed, verdict, text, fix):
    """G0.66"""
    assert is_like(streams.stream("GET stream", observed), verdict, text, fix)


def test_a_subscription_is_acknowledged_first():
    """G1.93"""
    assert is_like(streams.stream("subscription", heard((0.1, ACK), (1.1, ALIVE))), "ok", "1.0 s")
    assert is_like(streams.stream("subscription", heard((0.1, OPEN), (1.1, ALIVE))), "failed", "acknowledged")


# Whatever is answered

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = (
    "message",
    "code",
    "tools",
    "name",
    "annotations",
    "inputSchema",
    "isError",
    "content",
    "resource",
    "issuer",
)
MORE = (
    "authorization_servers",
    "token_endpoint",
    "protocolVersion",
    "serverInfo",
    "supportedVersions",
    "status",
)
THINGS = st.dictionaries(st.sampled_from(NAMES + MORE), JSON, max_size=6)
MESSAGES = (
    JSON
    | THINGS
    | st.fixed_dictionaries({"result": JSON | THINGS})
    | st.fixed_dictionaries({"error": THINGS})
)
HEADERS = st.dictionaries(
    st.sampled_from(
        ["www-authenticate", "location", "content-type", "cache-control", "mcp-session-id", "date"]
    ),
    st.text(max_size=20) | st.sampled_from(["Bearer x=", 'Bearer resource_metadata="', "text/html"]),
)
ANSWERS = st.builds(
    lambda status, headers, message: Answer(status, headers, b"", message, 0.1, "cut"),
    st.sampled_from([0, 200, 302, 400, 401, 403, 404, 405, 429, 500, 502]),
    HEADERS,
    MESSAGES,
)


@given(ANSWERS, ANSWERS, THINGS)
def test_no_answer_is_too_strange_to_be_judged(one, other, claims):
    found = [
        challenges.challenge(one, loopback=False),
        challenges.forged(one),
        metadata.resource(URL, URL, one),
        metadata.server(URL, {URL: one, "x": other}),
        clock.token(claims | {"exp": claims.get("code"), "aud": claims.get("name")}, URL, NOW),
        clock.skew(one.headers.get("date"), NOW, 0),
        surroundings.connection(URL, one),
        surroundings.health(URL, one),
        surroundings.origin(one),
        surroundings.headers([one, other]),
        speech.initialize(one),
        speech.listing("tools/list", one),
        speech.call(speech.harmless(one) or "t", one),
        speech.ping(one),
        speech.session(one, [other]),
        speech.ending(one, other, one),
        speech.discover(one),
        speech.mismatch(one),
        streams.stream("subscription", Heard(one, ((0.1, b"x"),))),
    ]
    assert all(bool(finding.fix) == (finding.verdict in ("warning", "failed")) for finding in found)
    assert all(reading.is_web_address(issuer) in (True, False) for issuer in metadata.issuers(one.message))


# The report


def test_no_secret_and_no_order_to_the_terminal_is_shown():
    token = jwt(sub="someone with a name of some length")
    target = Target(f"https://u:pass-word@gw.example/mcp?key=abc#{'x' * 3}", token)
    said = Finding(
        "x", "failed", f"{token} {token.split('.')[1]} \x1b[2J pass-word", f"key=abc\n{'y' * 5000}"
    )
    shown = report.cleaned(said, target)
    assert shown.text == "*** ***  [2J ***"
    assert shown.fix.startswith("*** y") and len(shown.fix) == report.LONGEST
    assert report.shown_url(target.url) == "https://gw.example/mcp?***#xxx"
    assert token not in repr(target)


def test_the_summary_says_how_much_was_asked():
    counts = {"ok": 3, "warning": 0, "failed": 0, "not applicable": 0}
    assert report.summary(counts) == "well: 3 ok"
    assert (
        report.summary(counts | {"not applicable": 2})
        == "well, as far as it was asked: 3 ok, 2 not applicable"
    )
    assert report.summary(counts | {"failed": 1, "warning": 2}) == "not well: 3 ok, 2 warning, 1 failed"
