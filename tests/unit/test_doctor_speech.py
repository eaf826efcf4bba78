"""What `portico doctor` says of what is answered and streamed: verdicts, and the fix for whatever is not well."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.cli.doctor import challenges, clock, metadata, reading, report, speech, streams, surroundings
from portico.cli.doctor.examination import Target
from portico.cli.doctor.finding import Answer, Finding, Heard
from tests.unit.observed import NOW, URL, answer, is_like, jwt

SSE = {"content-type": "text/event-stream"}
OPEN = b"id: 1\nretry: 1000\ndata: \n\n"
ALIVE = b": keep-alive\n\n"
ACK = b'data: {"method":"notifications/subscriptions/acknowledged"}\n\n'


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
        (
            answer(status=403, message={"message": "Forbidden"}),
            "Forbidden",
            "with the stage, as in /prod/mcp",
        ),
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
