"""Records beside the file: what they may say, who wins, and that nothing in them does harm."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.registry import Reference, as_declared, merge, parse
from portico.registry.records import MAX_BYTES

FILE = parse(
    """
gateway: {public_url: "https://gw.example.com"}
backends:
  one: {url: http://127.0.0.1:9001/mcp}
  two: {url: http://127.0.0.1:9002/mcp, prefix: second_, hostname: two.internal, enabled: false}
""",
    where="/etc/portico/portico.yaml",
)
URL = "http://127.0.0.1:9003/mcp"


def merged(**records):
    return merge(FILE, {name: json.dumps(value).encode() for name, value in records.items()})


def names(found):
    return [backend.name for backend in found.registry.backends]


def problems(found, name):
    return {problem.path: (problem.expected, problem.found) for problem in found.problems.get(name, ())}


def test_without_records_the_registry_is_the_files():
    assert merge(FILE, {}).registry == FILE


def test_records_come_after_the_file_with_the_files_defaults():
    """G1.32"""
    found = merged(
        zulu={"url": URL}, alpha={"kind": "remote", "url": URL, "prefix": "", "hostname": "a.test"}
    )
    assert names(found) == ["one", "two", "zulu", "alpha"]
    assert not found.problems
    zulu = found.registry.backends[2]
    assert (zulu.prefix, zulu.hostname) == ("zulu_", "zulu.gw.example.com")
    assert (found.registry.gateway, found.registry.source) == (FILE.gateway, FILE.source)


def test_a_record_is_read_as_the_file_is():
    """G1.36"""
    fields = {
        "url": "https://h.test/mcp",
        "prefix": "p_",
        "hostname": "h.internal",
        "enabled": False,
        "credential": "file:token",
        "credential_use": ["discovery", "call"],
        "ca_cert": "ca.pem",
        "forward_headers": ["X-Acme-*"],
        "user_specific_list": True,
        "token_url": "https://as.test/token",
        "category": ["c"],
        "hint": "h",
        "tags": ["t"],
    }
    backend = merged(late=fields).registry.backends[2]
    text = f"gateway: {{public_url: 'https://gw.example.com'}}\nbackends: {{late: {json.dumps(fields)}}}"
    assert backend == parse(text, where="/etc/portico/portico.yaml").backends[0]
    assert backend.credential == Reference("file", "/etc/portico/token")


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, {"url"}),
        ({"url": None}, {"url"}),
        ({"url": "ftp://h/"}, {"url"}),
        ({"url": "http://user:sk-1@h/"}, {"url"}),
        ({"url": "http://h/?***"}, {"url"}),
        ({"url": URL, "kind": "launched"}, {"kind"}),
        ({"url": URL, "prefix": "a b", "enabled": "yes"}, {"prefix", "enabled"}),
        ({"url": URL, "name": "late"}, {"name"}),
        ({"url": URL, "credential": "sk-1"}, {"credential"}),
        ({"url": URL, "credential": "secret:arn:aws:x"}, {"credential"}),
        ({"url": URL, "credential": {"value": "sk-1"}}, {"credential"}),
        ({"url": URL, "credential": "env:AWS_SESSION_TOKEN"}, {"credential"}),
        ({"url": URL, "credential_use": ["call", "never"]}, {"credential_use[1]"}),
        ({"url": URL, "ca_cert": "-----BEGIN CERTIFICATE----- -----BEGIN PRIVATE KEY-----sk-1"}, {"ca_cert"}),
        ({"url": URL, "ca_cert": "***"}, {"ca_cert"}),
        ({"url": URL, "forward_headers": ["authorization"]}, {"forward_headers[0]"}),
        ({"url": URL, "tags": "t"}, {"tags"}),
        ({"url": URL, "user_specific_list": True, "prefix": ""}, {"prefix"}),
        ({"url": URL, "\ud800": 1}, {r"'\ud800'"}),
    ],
)
def test_every_field_that_is_wrong_is_named(fields, wrong):
    """G1.36"""
    found = merged(late=fields, good={"url": URL})
    assert set(problems(found, "late")) == wrong
    assert names(found) == ["one", "two", "good"]
    assert "sk-1" not in str(found.problems)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"\xff\xff",
        b'{"url": NaN}',
        b'{"url": "http://a/", "url": "http://b/"}',
        b"[" * 100_000,
        b'{"url":' * 5000,
        b'{"tags": ' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"hint": ' + b"9" * 5000 + b"}",
        b'{"url": "http://h/", "hint": "' + b"x" * MAX_BYTES + b'"}',
    ],
)
def test_what_is_no_record_is_a_problem_and_no_more(value):
    """G1.34"""
    for name in ("late", "one"):
        found = merge(FILE, {name: value, "good": json.dumps({"url": URL}).encode()})
        assert list(found.problems) == [name]
        assert names(found) == ["one", "two", "good"]
        assert found.registry.backends[0] == FILE.backends[0]


@pytest.mark.parametrize("name", ["", "A", "-a", "a/b", "../a", "a" * 64, "ä", "a\n"])
def test_a_record_has_a_name_that_a_backend_may_have(name):
    assert list(merge(FILE, {name: json.dumps({"url": URL}).encode()}).problems) == [name]


@pytest.mark.parametrize(
    ("field", "value"), [("prefix", "one_"), ("prefix", "second_"), ("hostname", "TWO.internal")]
)
def test_the_file_keeps_what_it_has(field, value):
    """G1.49"""
    found = merged(late={"url": URL, field: value})
    assert problems(found, "late")[field][0].startswith("another one than backend")
    assert found.registry.backends == FILE.backends


def test_the_earlier_record_keeps_what_two_want_and_a_refused_one_keeps_nothing():
    """G1.49"""
    found = merged(
        first={"url": URL, "prefix": "x_", "hostname": "x.test"},
        refused={"url": URL, "prefix": "x_", "hostname": "y.test"},
        third={"url": URL, "hostname": "y.test"},
    )
    assert names(found) == ["one", "two", "first", "third"]
    assert list(problems(found, "refused")) == ["prefix"]


def test_a_backend_of_the_file_is_disabled_and_not_changed():
    """G1.50"""
    found = merged(one={"enabled": False})
    assert not found.problems
    assert [backend.enabled for backend in found.registry.backends] == [False, False]
    assert merged(one={"enabled": True}, two={"enabled": True}).registry == FILE
    for fields in ({"enabled": False, "prefix": "x_"}, {"url": URL}, {"enabled": 0}):
        found = merged(one=fields)
        assert found.registry == FILE
        assert list(found.problems) == ["one"]


def test_an_overlay_whose_backend_has_left_the_file_is_a_problem():
    assert "url" in problems(merged(gone={"enabled": False}), "gone")


def test_what_is_shown_can_be_declared_again():
    fields = {"url": URL, "credential": "env:TOKEN", "tags": ["t"], "hostname": "h.test", "enabled": False}
    backend = merged(late=fields).registry.backends[2]
    assert as_declared(backend) == {"kind": "remote", "prefix": "late_", **fields}
    assert merged(late=as_declared(backend)).registry.backends[2] == backend


def test_what_is_shown_has_no_secret():
    backends = parse(
        """
servers: [{name: k, url: "http://h/mcp?key=sk-1", credential: sk-2}]
"""
    ).backends
    shown = as_declared(backends[0])
    assert (shown["url"], shown["credential"]) == ("http://h/mcp?***", "***")


VALUES = st.one_of(
    st.binary(max_size=200),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=20)
        | st.sampled_from([URL, "env:A", "one_"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["url", "prefix", "hostname", "enabled", "credential", "tags", "kind"]),
                inner,
                max_size=5,
            )
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)


@given(
    st.dictionaries(
        st.sampled_from(["one", "two", "three", "four", "A"]) | st.text(max_size=5), VALUES, max_size=5
    )
)
def test_whatever_the_store_holds_the_files_backends_stand(records):
    """G1.34"""
    found = merge(FILE, records)
    backends = found.registry.backends
    assert [(one.name, one.url, one.prefix) for one in backends[:2]] == [
        (one.name, one.url, one.prefix) for one in FILE.backends
    ]
    assert {one.name for one in backends[2:]} | set(found.problems) == set(records) - (
        {"one", "two"} - set(found.problems)
    )
    prefixes = [one.prefix for one in backends if one.prefix]
    assert len(prefixes) == len(set(prefixes))
    json.dumps([as_declared(one) for one in backends])
    str(found.problems)
