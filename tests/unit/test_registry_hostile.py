"""The registry: secrets stay secret, and no file brings it down."""

import os
import random

import pytest

from portico.registry import (
    InvalidConfig,
    Problem,
    Reference,
    Registry,
    UnresolvedReference,
    load,
    parse,
)
from tests.unit.declared import FULL, KUADRANT, ONE, backend, only

SECRET = "sk-hunter2-hunter2"


@pytest.mark.parametrize(
    "text",
    [
        ONE[:-2] + f", credential: {SECRET}}}}}",
        ONE[:-2] + f", credential: [{SECRET}]}}}}",
        ONE[:-2] + f", credential: 'env:{SECRET} x'}}}}",
        ONE[:-2] + f", credential: 'secret:{SECRET}'}}}}",
        ONE[:-2] + f", credential: *{SECRET}}}}}",
        ONE[:-2] + f", credential: &{SECRET} x}}}}",
        ONE[:-2] + f", credential: !{SECRET} x}}}}",
        ONE[:-2] + f', credential: "{SECRET}\n',
        ONE[:-2] + f", token: {SECRET}}}}}",
        ONE[:-2] + f", ca_cert: '-----BEGIN PRIVATE KEY-----{SECRET}'}}}}",
        ONE[:-2] + f", forward_headers: ['Authorization: {SECRET}']}}}}",
        f"backends: {{echo: {{url: 'http://user:{SECRET}@h/'}}}}",
        f"backends: {{echo: {{url: 'ftp://h/?key={SECRET}'}}}}",
        f"store: postgres://user:{SECRET}@h/db",
        f"servers: [{{name: a, url: http://h/, auth: {{type: bearer, token: [{SECRET}]}}}}]",
        f'servers: [{{name: a, url: http://h/, credential: "{SECRET}\\r\\nx: y"}}]',
        f"servers: [{{name: a, url: ftp://h/, credential: {SECRET}}}]",
    ],
)
def test_a_refusal_never_shows_a_secret(text):
    with pytest.raises(InvalidConfig) as refused:
        parse(text)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value.problems)


@pytest.mark.parametrize("value", [SECRET, "secret:arn:aws:x", "env:", "env:A B", "file:", "5"])
def test_a_credential_is_a_reference(value):
    problem = only(ONE[:-2] + f", credential: {value!r}}}}}")
    assert (problem.path, problem.found) == ("backends.echo.credential", "***")
    assert problem.expected == "env:NAME or file:PATH"


def test_a_literal_is_never_printed():
    literal = Reference.literal(SECRET)
    assert literal.resolve() == SECRET
    for text in (
        repr(literal),
        str(literal),
        f"{literal}",
        f"{literal!r}",
        repr(backend(credential=literal)),
    ):
        assert SECRET not in text
        assert "***" in text


def test_an_environment_variable_is_read_when_it_is_needed(monkeypatch):
    reference = Reference.parse("env:PORTICO_TEST_TOKEN")
    monkeypatch.delenv("PORTICO_TEST_TOKEN", raising=False)
    with pytest.raises(UnresolvedReference, match="PORTICO_TEST_TOKEN is not set"):
        reference.resolve()
    monkeypatch.setenv("PORTICO_TEST_TOKEN", "")
    with pytest.raises(UnresolvedReference, match="env:PORTICO_TEST_TOKEN is empty"):
        reference.resolve()
    monkeypatch.setenv("PORTICO_TEST_TOKEN", SECRET)
    assert reference.resolve() == SECRET
    assert repr(reference) == "Reference(env:PORTICO_TEST_TOKEN)"


def test_a_secret_file_is_read_when_it_is_needed_and_from_beside_the_config(tmp_path):
    config = tmp_path / "portico.yaml"
    config.write_text(ONE[:-2] + ", credential: file:token, ca_cert: env:CA}}")
    reference = load(config).backends[0].credential
    with pytest.raises(UnresolvedReference, match="can not be read: No such file"):
        reference.resolve()
    (tmp_path / "token").write_bytes(b"\xef\xbb\xbf" + SECRET.encode() + b"\r\n")
    assert reference.resolve() == SECRET
    assert str(reference) == f"file:{tmp_path}/token"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\n", "is empty"), (b"sk-\xff", "not UTF-8"), (b"x" * ((1 << 20) + 1), "larger than")],
)
def test_a_secret_file_that_can_not_be_one_is_refused_without_its_content(tmp_path, content, message):
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(UnresolvedReference, match=message) as refused:
        Reference("file", str(tmp_path / "token")).resolve()
    assert refused.value.__cause__ is None
    assert "sk-" not in str(refused.value)


def test_a_certificate_may_be_text_a_reference_or_a_path():
    pem = "-----BEGIN CERTIFICATE-----\\nMII\\n-----END CERTIFICATE-----\\n"
    given = {
        "env:CA": Reference("env", "CA"),
        "file:/a.pem": Reference("file", "/a.pem"),
        "/a.pem": Reference("file", "/a.pem"),
    }
    for text, reference in given.items():
        assert parse(ONE[:-2] + f", ca_cert: {text}}}}}").backends[0].ca_cert == reference
    written = parse(ONE[:-2] + f', ca_cert: "{pem}"}}}}').backends[0].ca_cert
    assert written.resolve() == pem.replace("\\n", "\n")


def test_an_alias_bomb_is_refused_before_it_goes_off():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    assert "at most 50000 values" in only("\n".join(lines)).expected


def test_an_alias_that_holds_itself_is_refused():
    assert only("backends: &b {echo: *b}").expected == "at most 32 levels"


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 50_000, "- " * 100_000, "? " * 50_000])
def test_a_deep_file_is_refused_at_its_33rd_level(text):
    assert only("\n" + text).expected == "at most 32 levels"


def test_a_wide_file_is_refused():
    assert "at most 50000 values" in only("[" + "a," * 60_000 + "]").expected


def test_a_large_file_is_refused_unread(tmp_path):
    file = tmp_path / "portico.yaml"
    file.write_text("#" * ((1 << 20) + 1))
    for read in (lambda: load(file), lambda: parse(file.read_text())):
        with pytest.raises(InvalidConfig, match="expected at most 1048576 bytes, found more"):
            read()


def test_a_file_that_is_not_there_or_not_a_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, found in {
        "none.yaml": "a file, found nothing",
        ".": "a directory",
        "pipe": "something else",
    }.items():
        with pytest.raises(InvalidConfig, match=found) as refused:
            load(tmp_path / name)
        assert refused.value.files == (str(tmp_path / name),)


def test_a_file_that_is_not_utf_8_is_refused_with_the_line(tmp_path):
    (tmp_path / "portico.yaml").write_bytes(b"gateway:\n  name: caf\xe9\n")
    with pytest.raises(InvalidConfig, match=r"portico\.yaml:2: expected UTF-8 text, found the byte 0xe9"):
        load(tmp_path / "portico.yaml")


def test_a_byte_order_mark_is_no_problem(tmp_path):
    (tmp_path / "portico.yaml").write_bytes(b"\xef\xbb\xbf" + ONE.encode())
    assert load(tmp_path / "portico.yaml").backends == parse(ONE).backends


def test_whatever_a_file_holds_it_is_read_or_refused():
    dice = random.Random(20)
    pieces = [
        "\n",
        "  ",
        ":",
        "- ",
        "{",
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "!",
        "%",
        "'",
        '"',
        "\\",
        "\t",
        "\0",
        "é",
        "~",
        "?",
    ]
    outcomes = set()
    for _ in range(1000):
        text = list(dice.choice([FULL, KUADRANT]))
        for _ in range(dice.randint(1, 6)):
            place = dice.randrange(len(text))
            text[place : place + dice.randint(0, 3)] = dice.choice(pieces)
        try:
            outcomes.add(type(parse("".join(text), version="1")))
        except InvalidConfig as refused:
            outcomes.add(type(refused.problems[0]))
    assert outcomes == {Registry, Problem}
