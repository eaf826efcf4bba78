"""The registry: what operators declare is read completely."""

from dataclasses import FrozenInstanceError

import pytest

from portico.registry import (
    DEFAULT_FORWARD_HEADERS,
    Backend,
    Compat,
    DiscoveryRules,
    Gateway,
    Limits,
    Reference,
    Registry,
    VirtualServer,
    parse,
)
from tests.unit.declared import FULL, ONE, backend


def test_a_full_file_is_read_field_by_field():
    """G1.34: one parse, from which both router and broker are fed."""
    read = parse(FULL, "etc/portico.yaml")
    assert read.gateway == Gateway(
        name="demo",
        title="Demo",
        version="1.2.3",
        website_url="https://example.com",
        instructions="Be kind.\nRewind.\n",
        public_url="https://gw.example.com",
        allowed_origins=("https://app.example.com",),
        allowed_hosts=("gw.example.com", "127.0.0.1:8088", "[::1]:8088"),
        session_header_alias="g-session-id",
    )
    assert read.limits == Limits(10, 20, 1.5, 2.0, 0.0, 5, 840.0, 7.0)
    assert (read.store, read.access) == ("dynamodb:portico", None)
    assert read.compat == Compat("result", "sse")
    assert read.discovery == DiscoveryRules(1.0, 2, "reject", 3.0)
    assert read.backends[0] == Backend(
        name="zulu",
        url="https://zulu.example.com/custom/path",
        prefix="z_",
        hostname="zulu.internal",
        hostname_given="zulu.internal",
        enabled=False,
        credential=Reference("env", "ZULU"),
        credential_use=frozenset({"discovery", "call"}),
        call_auth="static",
        ca_cert=Reference("file", "etc/certs/zulu.pem"),
        forward_headers=("x-acme-*", "traceparent"),
        user_specific_list=True,
        token_url="https://vault.example.com/zulu",
        category=("one", "two", "three"),
        hint="does zulu things",
        tags=("a", "b"),
    )
    assert read.virtual_servers == {
        "dev": VirtualServer("dev", ("z_echo",), None),
        "ops": VirtualServer("ops", (), ("z_plan",)),
    }
    assert read.source == ("etc/portico.yaml",)
    assert read.warnings == ()


def test_backends_keep_the_order_of_the_file():
    assert [found.name for found in parse(FULL).backends] == ["zulu", "alpha-beta", "bare"]


def test_everything_but_the_url_has_a_default():
    read = parse(ONE, version="9")
    assert read == Registry(gateway=Gateway(version="9"), backends=(backend(),), source=("portico.yaml",))
    found = read.backends[0]
    assert found.enabled and found.kind == "remote" and found.call_auth == "none"
    assert found.credential is None and found.ca_cert is None
    assert found.credential_use == {"discovery"}
    assert found.forward_headers == DEFAULT_FORWARD_HEADERS


def test_a_file_without_backends_is_a_gateway_without_backends():
    assert parse("{}").backends == ()
    assert parse("backends:\nlimits:\ngateway: {title: }\n") == parse("{}")


def test_the_version_is_the_files_then_the_callers_then_the_packages():
    assert parse("gateway: {version: '3'}", version="2").gateway.version == "3"
    assert parse("{}", version="2").gateway.version == "2"
    assert parse("{}").gateway.version


def test_the_default_prefix_is_the_name_with_its_hyphens_lowered():
    """C9: a prefix is literal, ends in _ or is empty."""
    assert [found.prefix for found in parse(FULL).backends] == ["z_", "alpha_beta_", ""]


def test_the_default_hostname_is_prefix_dot_public_host():
    """C25, G1.33: every backend has a route host."""
    assert [found.hostname for found in parse(FULL).backends] == [
        "zulu.internal",
        "alpha_beta.gw.example.com",
        "bare.gw.example.com",
    ]
    assert parse(ONE).backends[0].hostname == "echo.127.0.0.1"
    six = parse("gateway: {public_url: 'http://[::1]:8088'}\n" + ONE)
    assert six.backends[0].hostname == "echo.localhost"


def test_the_id_is_name_prefix_and_hostname():
    """G1.42."""
    assert parse(FULL).backends[0].id == "zulu:z_:zulu.internal"


@pytest.mark.parametrize("prefix", ["1_", "no_", "0x1_", "a__", "''"])
def test_a_prefix_is_text_whatever_yaml_might_make_of_it(prefix):
    """G1.36, C9. YAML 1.1 reads `1_` as the number 1."""
    read = parse(f"backends: {{echo: {{url: http://h/mcp, prefix: {prefix}}}}}")
    assert read.backends[0].prefix == prefix.strip("'")


def test_a_registry_is_a_value():
    assert parse(FULL) == parse(FULL)
    with pytest.raises(FrozenInstanceError):
        parse(FULL).store = "memory"
    with pytest.raises(TypeError):
        parse(FULL).virtual_servers["x"] = None
    assert len({*parse(FULL).backends, *parse(FULL).backends}) == 3


def test_aliases_are_written_out():
    read = parse("backends: {a: {url: http://a/, tags: &t [x, y]}, b: {url: http://b/, tags: *t}}")
    assert read.backends[0].tags == read.backends[1].tags == ("x", "y")
