"""One resource, whichever way its address is written."""

import time

import pytest

from authz.model import Access, Match, Principal, Require, Rule, Target
from authz.policy import decide
from authz.resources import meant, plain


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("TEST://secret", "test://secret"),
        ("test://secret/a", "test://secret/a"),
        ("note://Shopping", "note://Shopping"),
        ("HTTPS://Example.com/A", "https://example.com/A"),
        ("file:///a/../secret/x", "file:///secret/x"),
        ("file:///a/%2e%2E/secret/./x", "file:///secret/x"),
        ("file:///../../secret/..", "file:///"),
        ("file:///secret/.", "file:///secret/"),
        ("file:\\\\\\secret\\x", "file:///secret/x"),
        ("test://x\\y", "test://x\\y"),
        ("file:///%73ecret", "file:///secret"),
        ("file:///a%2Fb%20c", "file:///a%2Fb%20c"),
        (" te\nst://secret\t", "test://secret"),
        ("test://a?x=/../b#/../c", "test://a?x=/../b#/../c"),
        ("repo:///file/{path}", "repo:///file/{path}"),
        ("no address", "no address"),
        ("1a://b/../c", "1a://b/../c"),
        ("", ""),
    ],
)
def test_an_address_is_understood_as_servers_understand_it(written, address):
    assert plain(written) == address
    assert plain(address) == address


def test_only_a_resource_has_an_address():
    assert meant(Target("tools/call", "a", "tool", "A:b/../c")) is None


def test_a_rule_that_allows_one_place_allows_no_way_out_of_it():
    rules = Access(
        "https://gw.example.com/mcp",
        rules=(Rule(Match(resource="file:///public/*"), Require(scopes=("use",))),),
        default="deny",
    )
    ada = Principal("https://as.example.com", "ada", frozenset({"use"}))
    for name, allowed in (("file:///public/a", True), ("file:///public/../etc/passwd", False)):
        target = Target("resources/read", "files", "resource", name, name)
        assert decide(rules, ada, target).allowed is allowed


def test_no_address_however_long_takes_long():
    began = time.process_time()
    for part in ("../", "./", "%41", "a/../", "\n ", " "):
        plain("file:///" + part * 100_000 + "x")
    assert time.process_time() - began < 3
