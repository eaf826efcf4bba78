"""Whatever a log record contains, what is secret in it reaches no line."""

import json
import logging

import pytest

from portico.errors import refused
from portico.loglines import JsonLines, TextLines
from portico.redaction import HIDDEN, LONGEST, carry, cleaned, conceal, excerpt, redacted
from portico.registry.reference import Reference

TOKEN = "opaque-Token_0123456789.abc~"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJlLW9mLWl0"


def line(formatter, message, *args, exc_info=None, **extra):
    record = logging.LogRecord("portico.asgi", logging.ERROR, __file__, 1, message, args, exc_info, "f")
    vars(record).update(extra)
    return formatter.format(record)


@pytest.fixture(params=[TextLines, JsonLines])
def formatter(request):
    return request.param()


@pytest.mark.parametrize("secret", [TOKEN, JWT])
@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer {}",
        "authorization:Bearer {}\r\nhost: a",
        "bearer {} is not valid",
        "Bearer%20{}",
        "{{'authorization': 'Bearer {}', 'host': 'a'}}",
        "{{'Authorization': '{}'}}",
        "[(b'authorization', b'{}'), (b'host', b'a')]",
        '{{"authorization": "DPoP {}"}}',
        '"{{\\"Authorization\\":\\"{}\\"}}"',
        "Cookie: a=1; session={}; b=2",
        "Set-Cookie: s={}; HttpOnly",
        "GET /mcp?access_token={}&x=1",
        "https://as.example.com/cb?code={}&state=1",
        "https://ann:{}@example.com/mcp",
        "X-API-Key={}",
        "client_secret: {}",
        "mcp-session-id: {}",
    ],
)
def test_what_looks_like_a_secret_is_not_written(formatter, text, secret):
    said = text.format(secret)
    for found in (
        line(formatter, said),
        line(formatter, "it failed: %s", said),
        line(formatter, "it failed: %r", {"why": [said]}),
        line(formatter, "it failed", why={"deep": [(said,)]}),
    ):
        assert secret not in found
        assert JWT.split(".")[1] not in found


def test_a_bare_token_of_the_request_is_known_for_what_it_is(formatter):
    """A backend may say it back without any word that tells what it is."""
    carry({"authorization": f"Bearer {TOKEN}", "cookie": "a=1; sid=c00kie-value", "x-mine": "shown"})
    text = line(formatter, "the backend said: %s is unknown, so is c00kie-value, not shown", TOKEN)
    carry({})
    assert TOKEN not in text and "c00kie-value" not in text
    assert "not shown" in text


def test_a_resolved_secret_is_known_for_what_it_is(formatter, monkeypatch):
    monkeypatch.setenv("BACKEND_TOKEN", 'Bearer s3cr"et/value')
    Reference("env", "BACKEND_TOKEN").resolve()
    for said in ('s3cr"et/value', "s3cr%22et%2Fvalue", json.dumps('s3cr"et/value')):
        assert "et/value" not in line(formatter, "no such thing: " + said).replace("%2F", "/")


def test_an_exception_is_written_without_what_it_carries(formatter):
    def failing():
        try:
            raise ValueError({"headers": [("authorization", TOKEN)], "url": f"http://a/?token={TOKEN}"})
        except ValueError as error:
            error.add_note(f"Cookie: sid={TOKEN}")
            raise RuntimeError(f"sent Authorization: Basic {TOKEN}") from error

    with pytest.raises(RuntimeError) as caught:
        failing()
    text = line(formatter, "failed", exc_info=(caught.type, caught.value, caught.tb))
    assert "RuntimeError" in text and "ValueError" in text
    assert TOKEN not in text


def test_values_under_a_telling_name_are_hidden_whatever_they_are():
    said = {
        "Authorization": ["a", "b"],
        "nested": {"refresh_token": 5, "headers": [("Cookie", "x"), (b"Set-Cookie", b"y"), ("host", "z")]},
        "password": b"hunter2",
        "token": None,
        "status": 200,
        "ratio": float("nan"),
    }
    assert cleaned(said) == {
        "Authorization": HIDDEN,
        "nested": {
            "refresh_token": HIDDEN,
            "headers": [["Cookie", HIDDEN], ["Set-Cookie", HIDDEN], ["host", "z"]],
        },
        "password": HIDDEN,
        "token": None,
        "status": 200,
        "ratio": "nan",
    }


def test_what_is_no_secret_stays():
    for text in (
        "backend echo: the backend answered 503",
        "tools/call echo_echo at echo: ok, 200 in 3.2 ms",
        "https://gw.example.com/mcp?page=2",
        "failed to create session for mcp server (no route)",
        "Authorization is missing",
    ):
        assert redacted(text) == text


def test_a_secret_at_the_cut_goes_with_what_is_cut():
    conceal("0paque-at-the-cut")
    for length in (500, LONGEST, LONGEST + 5, 2 * LONGEST - 3):
        text = "x " * (length // 2) + "0paque-at-the-cut"
        assert "0paque" not in redacted(text)
        assert "0paque" not in excerpt(text.encode())


def test_hostile_texts_cost_little():
    """As many steps as there could be beginnings of something: would they all be followed, this would not end."""
    for piece in ("eyJ", "token", "bearer ", "://a:", "cookie ", "a.", "\\"):
        redacted(piece * 200_000)


def test_a_line_cannot_be_forged():
    forged = 'x\nERROR portico: forged\r\x1b[2J\u2028{"level":"ERROR"}'
    text = line(TextLines(), "unknown tool %s", forged)
    first, *others = text.split("\n")
    assert first.startswith("ERROR portico.asgi: ")
    assert all(other.startswith("  | ") for other in others)
    assert not {"\r", "\x1b", "\u2028"} & set(text)
    assert len(line(JsonLines(), "unknown tool %s", forged).splitlines()) == 1


def test_json_lines_are_whole_whatever_they_are_given():
    loop = {}
    loop["itself"] = loop
    found = json.loads(line(JsonLines(), "odd", what=loop, of=object(), raw=b"\xff", none=None))
    assert found["message"] == "odd" and found["raw"] == "\ufffd" and "none" not in found


def test_what_a_backend_says_about_its_refusal_is_logged_without_the_token(caplog):
    carry({"authorization": f"Bearer {TOKEN}"})
    with caplog.at_level("INFO", "portico"):
        refused(401, b"x" * 480 + b" " + TOKEN.encode())
    carry({})
    assert "answered 401" in caplog.text and "opaque" not in caplog.text
