"""The registry: Kuadrant's files are taken as they are."""

import pytest

from portico.registry import (
    Backend,
    InvalidConfig,
    Reference,
    VirtualServer,
    load,
    parse,
)
from tests.unit.declared import KUADRANT, ONE, SAMPLE, only, problems


def server(**given) -> Backend:
    named = {"name": "a", "url": "http://h/", **given}
    return parse(f"servers: [{named}]".replace("True", "true").replace("False", "false")).backends[0]


def test_kuadrants_file_is_taken_as_it_is():
    """G1.35."""
    read = parse(KUADRANT)
    first, second = read.backends
    assert first == Backend(
        name="test-server1",
        url="http://localhost:9001",
        prefix="s1_",
        hostname="server1.example.com",
        hostname_given="server1.example.com",
        ca_cert=Reference.literal("-----BEGIN CERTIFICATE-----\nshared\n-----END CERTIFICATE-----\n"),
    )
    assert second == Backend(
        name="mcp-test-server2",
        url="https://localhost:9002/mcp",
        prefix="s2_",
        hostname="server2.example.com",
        hostname_given="server2.example.com",
        enabled=False,
        credential=Reference.literal("Bearer abc"),
        ca_cert=Reference.literal("-----BEGIN CERTIFICATE-----\nown\n-----END CERTIFICATE-----\n"),
        user_specific_list=True,
        token_url="https://vault.example.com",
        category=("dev",),
        hint="second",
        tags=("x",),
    )
    assert read.virtual_servers == {
        "mcp-test/dev": VirtualServer("mcp-test/dev", ("s1_greet",), None),
        "ops": VirtualServer("ops", ("s2_x",), ("s2_p",)),
    }
    assert read.warnings == ("portico.yaml:22: servers[1].guardrailsConfigIDs: not known here, passed over",)


def test_kuadrants_sample_loads(tmp_path):
    """G1.35: `config/samples/config.yaml`."""
    (tmp_path / "config.yaml").write_text(SAMPLE)
    read = load(tmp_path / "config.yaml")
    assert [found.id for found in read.backends] == [
        "test-server1:s1_:server1.example.com",
        "test-server2:s2_:server2.example.com",
    ]
    assert read.warnings == ()


def test_a_server_without_a_prefix_has_none():
    """G1.35: there, and unlike in a portico.yaml, no prefix means none."""
    assert (server().prefix, server().hostname) == ("", "a.127.0.0.1")


@pytest.mark.parametrize(
    ("given", "enabled"),
    [
        ({}, True),
        ({"state": ""}, True),
        ({"state": "Enabled"}, True),
        ({"state": "Disabled"}, False),
        ({"enabled": False}, False),
        ({"enabled": True, "state": "Disabled"}, False),
    ],
)
def test_a_server_is_enabled_unless_it_says_otherwise(given, enabled):
    """G1.35, G1.50."""
    assert server(**given).enabled is enabled


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"credential": "Bearer t"}, "Bearer t"),
        ({"auth": {"type": "bearer", "token": "t"}}, "Bearer t"),
        ({"auth": {"type": "basic", "username": "u", "password": "p"}}, "Basic dTpw"),
        ({"auth": {"type": "bearer", "token": "t"}, "credential": "Bearer c"}, "Bearer c"),
    ],
)
def test_a_servers_credential_is_a_header_value(given, value):
    """G1.35, G1.38."""
    assert server(**given).credential.resolve() == value


def test_a_server_may_have_no_credential():
    assert server().credential is None
    assert server(credential="", auth={"type": "none"}).credential is None
    assert server(credential="env:TOKEN").credential == Reference("env", "TOKEN")


@pytest.mark.parametrize(
    ("given", "path", "expected"),
    [
        ("url: http://h/", "servers[0].name", "text"),
        ("name: a", "servers[0].url", "an http:// or https:// URL"),
        ("name: a, url: http://h/, prefix: s1", "servers[0].prefix", "ends in _"),
        ("name: a, url: http://h/, prefix: S_", "servers[0].prefix", "a prefix of"),
        (
            "name: a, url: http://h/, userSpecificList: true",
            "servers[0].prefix",
            "since the list is user specific",
        ),
        ("name: a, url: http://h/, state: disabled", "servers[0].state", "Enabled or Disabled"),
        ("name: a, url: http://h/, auth: bearer", "servers[0].auth", "a mapping"),
        (
            "name: a, url: http://h/, auth: {type: bearer}",
            "servers[0].auth.token",
            "since the type is bearer",
        ),
        ("name: a, url: http://h/, auth: {type: oauth}", "servers[0].auth.type", "bearer, basic or none"),
        (
            "name: a, url: http://h/, auth: {type: bearer, token: env:T}",
            "servers[0].auth.token",
            "there is credential",
        ),
        ("name: a, url: http://h/, hint: 5", "servers[0].hint", "at most 256"),
    ],
)
def test_a_bad_server_is_refused_with_the_path(given, path, expected):
    """G1.35, G1.36, C9."""
    problem = only(f"\nservers:\n - {{{given}}}\n")
    assert (problem.path, problem.line) == (path, 3)
    assert expected in problem.expected


def test_names_with_a_namespace_stay_apart():
    read = parse(
        """servers: [{name: a/b, url: http://h/, prefix: x_}, {name: a-b, url: http://h/, prefix: y_},
        {name: A.b, url: http://h/, prefix: z_}, {name: %s, url: http://h/}]"""
        % ("n" * 100)
    )
    names = [found.name for found in read.backends]
    assert names[0] == "a-b"
    assert len(set(names)) == 4
    assert all(len(name) <= 63 for name in names)


def test_a_server_that_is_there_twice_is_refused():
    assert only("servers: [{name: a, url: http://h/}, {name: a, url: http://i/}]").path == "servers[1].name"
    twice = only("servers: []\nvirtualServers: [{name: a, tools: []}, {name: a, tools: []}]")
    assert twice.path == "virtualServers[1].name"


def test_a_file_that_is_half_kuadrants_is_not_taken_for_one():
    """Else our own fields would be passed over in it."""
    found = problems("servers: []\nauth: {mode: none}\n")
    assert [problem.path for problem in found] == ["servers"]


def test_servers_files_are_included_from_beside_the_file(tmp_path):
    """G1.35."""
    (tmp_path / "kuadrant").mkdir()
    (tmp_path / "kuadrant" / "servers.yaml").write_text(KUADRANT)
    config = tmp_path / "portico.yaml"
    config.write_text("include: [kuadrant/servers.yaml]\nvirtual_servers: {dev: {tools: [a]}}\n" + ONE)
    read = load(config)
    assert [found.name for found in read.backends] == ["echo", "test-server1", "mcp-test-server2"]
    assert sorted(read.virtual_servers) == ["dev", "mcp-test/dev", "ops"]
    assert read.source == (str(config), str(tmp_path / "kuadrant" / "servers.yaml"))
    assert len(read.warnings) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "more.yaml: expected a file, found nothing"),
        (ONE, "more.yaml:1: expected a Kuadrant servers file, found something else"),
        ("servers: [{name: echo, url: http://h/}]", r"more.yaml:1: servers\[0\].name: expected a name"),
        (
            "servers:\n- {name: b, url: http://h/, prefix: echo_}",
            r"more.yaml:2: servers\[0\].prefix: .* echo has",
        ),
        ("servers: [", "more.yaml:1: expected YAML"),
    ],
)
def test_an_include_that_does_not_fit_refuses_the_whole(tmp_path, content, message):
    """G1.34."""
    if content is not None:
        (tmp_path / "more.yaml").write_text(content)
    (tmp_path / "portico.yaml").write_text("include: [more.yaml]\n" + ONE)
    with pytest.raises(InvalidConfig, match=message) as refused:
        load(tmp_path / "portico.yaml")
    assert refused.value.files == (str(tmp_path / "portico.yaml"), str(tmp_path / "more.yaml"))


def test_a_file_is_not_included_in_itself_nor_twice(tmp_path):
    (tmp_path / "more.yaml").write_text(SAMPLE)
    for listed, index in (("portico.yaml", 0), ("more.yaml, more.yaml", 1)):
        (tmp_path / "portico.yaml").write_text(f"\ninclude: [{listed}]\n")
        with pytest.raises(InvalidConfig, match=rf"yaml:2: include\[{index}\]: expected every file once"):
            load(tmp_path / "portico.yaml")
