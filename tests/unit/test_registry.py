"""The registry: what operators declare is read completely or refused with everything that is wrong in it."""

import os
import random
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from textwrap import dedent

import pytest

from portico.registry import (
    DEFAULT_FORWARD_HEADERS,
    Backend,
    Compat,
    DiscoveryRules,
    Gateway,
    InvalidConfig,
    Limits,
    Problem,
    Reference,
    Registry,
    UnresolvedReference,
    VirtualServer,
    Watch,
    changes,
    load,
    parse,
)

ONE = "backends: {echo: {url: http://127.0.0.1:9001/mcp}}"

FULL = """\
version: 1
gateway:
  name: demo
  title: Demo
  version: 1.2.3
  website_url: https://example.com
  instructions: |
    Be kind.
    Rewind.
  public_url: https://gw.example.com/
  allowed_origins: [https://App.example.com]
  allowed_hosts: [gw.example.com, "127.0.0.1:8088", "[::1]:8088"]
  session_header_alias: G-Session-Id
limits: {body_bytes: 10, response_bytes: 20, call_timeout_s: 1.5, keepalive_s: 2, session_ttl_s: 0, page_size: 5,
         stream_s: 840, answer_ttl_s: 7}
store: dynamodb:portico
auth: {mode: none}
compat: {unknown_tool: result, response: sse}
discovery: {interval_s: 1, drop_after_failures: 2, invalid_tools: reject, timeout_s: 3}
backends:
  zulu:
    kind: remote
    url: https://zulu.example.com/custom/path
    prefix: z_
    hostname: zulu.internal
    enabled: false
    credential: env:ZULU
    credential_use: [discovery, call]
    call_auth: none
    ca_cert: certs/zulu.pem
    forward_headers: [X-Acme-*, traceparent]
    user_specific_list: true
    token_url: https://vault.example.com/zulu
    category: [one, two, three]
    hint: does zulu things
    tags: [a, b]
  alpha-beta: {url: http://127.0.0.1:9001/mcp}
  bare: {url: http://127.0.0.1:9002/mcp, prefix: ""}
virtual_servers:
  dev: {tools: [z_echo]}
  ops: {tools: [], prompts: [z_plan]}
"""


def problems(text: str, where: str = "portico.yaml") -> tuple[Problem, ...]:
    with pytest.raises(InvalidConfig) as refused:
        parse(dedent(text), where)
    return refused.value.problems


def only(text: str) -> Problem:
    found = problems(text)
    assert len(found) == 1, found
    return found[0]


def backend(**given) -> Backend:
    return replace(parse(ONE).backends[0], **given)


# What is read


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
    assert (read.store, read.auth_mode) == ("dynamodb:portico", "none")
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


# What is refused

LONG_NAME = "a" * 64
BAD = {
    "scheme": ("backends:\n  echo:\n    url: ftp://x\n", 3, "backends.echo.url", "an http:// or https:// URL", "'ftp://x'"),
    "no host": ("backends: {echo: {url: 'http:///mcp'}}", 1, "backends.echo.url", "an http:// or https:// URL", "'http:///mcp'"),
    "url with a space": ("backends: {echo: {url: 'http://h/a b'}}", 1, "backends.echo.url", "an http:// or https:// URL", "'http://h/a b'"),
    "url with a line end": ('backends: {echo: {url: "http://h/a\\nb"}}', 1, "backends.echo.url", "an http:// or https:// URL", "'http://h/a\\nb'"),
    "port": ("backends: {echo: {url: 'http://h:99999/'}}", 1, "backends.echo.url", "an http:// or https:// URL", "'http://h:99999/'"),
    "bracket": ("backends: {echo: {url: 'http://[::1/'}}", 1, "backends.echo.url", "an http:// or https:// URL", "'http://[::1/'"),
    "url a number": ("backends: {echo: {url: 5}}", 1, "backends.echo.url", "an http:// or https:// URL", "5"),
    "url missing": ("backends:\n\n  echo: {}\n", 3, "backends.echo.url", "an http:// or https:// URL", "nothing"),
    "url empty": ("backends:\n  echo:\n    url:\n", 3, "backends.echo.url", "an http:// or https:// URL", "nothing"),
    "backend a text": ("backends: {echo: sk-secret}", 1, "backends.echo", "a mapping", "text"),
    "backends a list": ("backends: [echo]", 1, "backends", "a mapping", "a list"),
    "upper-case prefix": (ONE[:-2] + ", prefix: Echo_}}", 1, "backends.echo.prefix", "a prefix of", "'Echo_'"),
    "prefix begins with _": (ONE[:-2] + ", prefix: _e_}}", 1, "backends.echo.prefix", "a prefix of", "'_e_'"),
    "prefix without _": (ONE[:-2] + ", prefix: echo}}", 1, "backends.echo.prefix", "a prefix that ends in _, or an empty one", "'echo'"),
    "prefix with a line end": (ONE[:-2] + ', prefix: "e_\\n"}}', 1, "backends.echo.prefix", "a prefix of", "'e_\\n'"),
    "per-user without prefix": (ONE[:-2] + ', user_specific_list: true, prefix: ""}}', 1, "backends.echo.prefix", "a prefix, since", "''"),
    "name": ("backends:\n  Echo Server: {url: http://h/}\n", 2, "backends.'Echo Server'", "a name of a-z", "'Echo Server'"),
    "long name": (f"backends: {{{LONG_NAME}: {{url: http://h/}}}}", 1, f"backends.{LONG_NAME}", "a name of a-z", f"'{LONG_NAME}'"),
    "hostname": (ONE[:-2] + ", hostname: 'a b'}}", 1, "backends.echo.hostname", "a host", "'a b'"),
    "kind": ("backends:\n  time:\n    kind: launched\n    runtime: python\n", 3, "backends.time.kind", "remote", "'launched'"),
    "yes is no boolean": (ONE[:-2] + ", enabled: yes}}", 1, "backends.echo.enabled", "true or false", "'yes'"),
    "call_auth": (ONE[:-2] + ", call_auth: basic}}", 1, "backends.echo.call_auth", "none or passthrough", "'basic'"),
    "credential_use": (ONE[:-2] + ", credential_use: [always]}}", 1, "backends.echo.credential_use[0]", "discovery or call", "'always'"),
    "credential_use empty": (ONE[:-2] + ", credential_use: []}}", 1, "backends.echo.credential_use", "at least 1 entries", "0"),
    "two authorizations": (
        ONE[:-2] + ", call_auth: passthrough, credential: env:X, credential_use: [call]}}",
        1, "backends.echo.call_auth", "none, since the credential is used for calls", "'passthrough'",
    ),
    "categories": (ONE[:-2] + ", category: [a, b, c, d]}}", 1, "backends.echo.category", "at most 3 entries", "4"),
    "tags": (ONE[:-2] + f", tags: [{', '.join('abcdefghijk')}]}}}}", 1, "backends.echo.tags", "at most 10 entries", "11"),
    "tag": (ONE[:-2] + ", tags: [a, 5]}}", 1, "backends.echo.tags[1]", "at most 128 characters of text", "5"),
    "tags a text": (ONE[:-2] + ", tags: a}}", 1, "backends.echo.tags", "a list", "'a'"),
    "hint": (ONE[:-2] + f", hint: {'h' * 257}}}}}", 1, "backends.echo.hint", "at most 256 characters of text", "257 characters"),
    "token_url": (ONE[:-2] + ", token_url: vault}}", 1, "backends.echo.token_url", "an http:// or https:// URL", "'vault'"),
    "mode": ("auth:\n  mode: jwt\n", 2, "auth.mode", "none", "'jwt'"),
    "auth a text": ("auth: none", 1, "auth", "a mapping", "text"),
    "version": ("version: 2", 1, "version", "1", "2"),
    "version true": ("version: true", 1, "version", "1", "true"),
    "store": ("store: redis:x", 1, "store", "sqlite:PATH, memory or dynamodb:TABLE", "'redis:x'"),
    "negative": ("limits:\n  body_bytes: -1\n", 2, "limits.body_bytes", "a whole number, 1 or more", "-1"),
    "zero": ("limits: {call_timeout_s: 0}", 1, "limits.call_timeout_s", "seconds, more than 0", "0"),
    "fraction": ("limits: {page_size: 1.5}", 1, "limits.page_size", "a whole number, 0 or more", "1.5"),
    "infinite": ("limits: {session_ttl_s: .inf}", 1, "limits.session_ttl_s", "seconds, 0 or more", "inf"),
    "overflowing": ("limits: {session_ttl_s: 1e999}", 1, "limits.session_ttl_s", "seconds, 0 or more", "inf"),
    "not a number": ("limits: {keepalive_s: .nan}", 1, "limits.keepalive_s", "seconds, more than 0", "nan"),
    "a boolean for a number": ("limits: {page_size: true}", 1, "limits.page_size", "a whole number, 0 or more", "true"),
    "a text for a number": ("limits: {page_size: '5'}", 1, "limits.page_size", "a whole number, 0 or more", "'5'"),
    "astronomical": (f"limits: {{body_bytes: {'9' * 5000}}}", 1, "limits.body_bytes", "a whole number, 1 or more", "inf"),
    "compat": ("compat: {response: xml}", 1, "compat.response", "auto, json or sse", "'xml'"),
    "discovery": ("discovery: {invalid_tools: drop}", 1, "discovery.invalid_tools", "filter or reject", "'drop'"),
    "origin": ("gateway: {allowed_origins: ['*']}", 1, "gateway.allowed_origins[0]", "an origin such as https://app.example.com", "'*'"),
    "public_url": ("gateway: {public_url: 'http://h/?a=b'}", 1, "gateway.public_url", "a URL without query and fragment", "'http://h/?***'"),
    "name a number": ("gateway: {name: 5}", 1, "gateway.name", "text", "5"),
    "name empty": ("gateway: {name: ''}", 1, "gateway.name", "text that is not empty", "''"),
    "title with a line end": ('gateway: {title: "a\\r\\nb: c"}', 1, "gateway.title", "text without control characters", "'a\\r\\nb: c'"),
    "half a character": ('gateway: {title: "\\ud800"}', 1, "gateway.title", "text without control characters", "'\\ud800'"),
    "alias that means something": ("gateway: {session_header_alias: Cookie}", 1, "gateway.session_header_alias", "a header name that has no meaning yet", "'cookie'"),
    "virtual server": ("virtual_servers: {dev: {tools: all}}", 1, "virtual_servers.dev.tools", "a list", "'all'"),
    "virtual server without a name": ("virtual_servers: {'': {tools: []}}", 1, "virtual_servers.''", "text that is not empty", "''"),
    "unknown field": (
        "backends:\n  echo:\n    url: http://h/\n    prefx: e_\n",
        4, "backends.echo.prefx", "(did you mean prefix?)", "an unknown field",
    ),
    "unknown section": ("backend: {}", 1, "backend", "(did you mean backends?)", "an unknown field"),
    "field twice": ("backends:\n  echo:\n    url: http://h/\n    url: http://i/\n", 4, "backends.echo.url", "it once (line 3 has it)", "it again"),
    "a list as a name": ("limits: {? [a] : 1}", 1, "limits", "text as the name of a field", "something else"),
    "merge key": ("limits: {<<: {page_size: 1}}", 1, "limits.'<<'", "one of ", "an unknown field"),
    "a list": ("- a\n- b\n", 1, "", "a mapping", "a list"),
    "empty": ("", 1, "", "a mapping", "an empty file"),
    "only a comment": ("# nothing\n", 1, "", "a mapping", "an empty file"),
    "two documents": ("{}\n---\n{}\n", 2, "", "YAML", "but found another document"),
    "syntax": ("backends:\n  echo: {url: http://h/\n\n", 4, "", "YAML", "expected ',' or '}'"),
    "tab": ("backends:\n\techo: 1\n", 2, "", "YAML", "cannot start any token"),
    "python tag": ("store: !!python/object/apply:os.system [id]", 1, "store", "no tags", "one"),
    "own tag": ("store: !secret hunter2", 1, "store", "no tags", "one"),
    "tag that lies": ("limits: {page_size: !!int five}", 1, "limits.page_size", "no tags", "one"),
    "control character": ("gateway:\n  name: a\x07b\n", 2, "", "printable text", "the character U+0007"),
    "no such character": ('gateway: {name: "\\UFFFFFFFF"}', None, "", "YAML", "a number out of range"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_field_is_named_with_its_line_and_what_was_expected(case):
    """G1.34, G1.36: refused, with the path of the bad field."""
    text, line, path, expected, found = BAD[case]
    problem = only(text)
    assert (problem.line, problem.path) == (line, path)
    assert expected in problem.expected
    assert found in problem.found
    assert problem.where == "portico.yaml"


def test_a_problem_reads_as_a_line_an_editor_can_jump_to():
    with pytest.raises(InvalidConfig) as refused:
        parse("\n\nbackends:\n  echo:\n\n\n    url: ftp://x\n")
    assert str(refused.value) == (
        "portico.yaml:7: backends.echo.url: expected an http:// or https:// URL, found 'ftp://x'"
    )


def test_all_problems_are_reported_at_once_in_the_order_of_the_file():
    found = problems("""\
        limits: {page_size: -1}
        backends:
          one: {url: ftp://x, prefix: A, colour: red}
          two: {kind: cli}
        auth: {mode: jwt}
        """)
    assert [(problem.line, problem.path) for problem in found] == [
        (1, "limits.page_size"),
        (3, "backends.one.url"),
        (3, "backends.one.prefix"),
        (3, "backends.one.colour"),
        (4, "backends.two.kind"),
        (5, "auth.mode"),
    ]


def test_a_message_stays_readable_whatever_the_number_of_problems():
    text = "backends:\n" + "".join(f"  b{n}: {{}}\n" for n in range(200))
    with pytest.raises(InvalidConfig) as refused:
        parse(text)
    assert len(refused.value.problems) == 200
    assert len(str(refused.value).splitlines()) == 51
    assert str(refused.value).endswith("... and 150 more")


def test_an_unknown_field_is_answered_with_the_ones_there_are():
    assert only("compat: {x: 1}").expected == "one of response, unknown_tool"


def test_a_forged_name_does_not_forge_a_log_line():
    text = 'backends: {"a\\nportico.yaml:1: fine": {url: http://h/}}'
    with pytest.raises(InvalidConfig) as refused:
        parse(text)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("second", "field", "found"),
    [
        ("{url: http://h/, prefix: echo_, hostname: b}", "prefix", "'echo_'"),
        ("{url: http://h/, hostname: ECHO.127.0.0.1}", "hostname", "'echo.127.0.0.1'"),
    ],
)
def test_two_backends_do_not_share_a_prefix_or_a_hostname(second, field, found):
    """G1.33: unique."""
    problem = only(f"backends:\n  echo: {{url: http://h/}}\n  other: {second}\n")
    assert (problem.line, problem.path, problem.found) == (3, f"backends.other.{field}", found)
    assert "backend echo" in problem.expected


def test_names_that_differ_only_in_hyphens_clash_in_their_default_prefix():
    """C9."""
    found = problems("backends:\n  a-b: {url: http://h/}\n  a_b: {url: http://h/}\n")
    assert [problem.path for problem in found] == ["backends.a_b.prefix", "backends.a_b.hostname"]


def test_any_number_of_backends_may_have_no_prefix():
    read = parse('backends: {a: {url: http://h/, prefix: ""}, b: {url: http://h/, prefix: ""}}')
    assert [found.hostname for found in read.backends] == ["a.127.0.0.1", "b.127.0.0.1"]


@pytest.mark.parametrize(
    "name",
    [
        "Mcp-Session-Id", "mcp-protocol-version", "mcp-init-host", "router-key", "x-mcp-verified-sub", "cookie", "host",
        "content-length", "content-type", "accept", "user-agent", "connection", "keep-alive", "proxy-authorization",
        "te", "trailer", "transfer-encoding", "upgrade", "x-mcp-*", "x-*", "mcp-*", "c*", "hos*",
    ],
)  # fmt: skip
def test_headers_that_are_never_forwarded_can_not_be_asked_for(name):
    """G1.13: not even by a pattern that would match one."""
    problem = only(ONE[:-2] + f", forward_headers: [traceparent, {name}]}}}}")
    assert problem.path == "backends.echo.forward_headers[1]"
    assert "never is" in problem.expected


def test_forwarding_authorization_is_answered_with_the_way_to_do_it():
    """C27."""
    problem = only(ONE[:-2] + ", forward_headers: [Authorization]}}")
    assert problem.expected == "call_auth: passthrough instead"


@pytest.mark.parametrize("name", [":path", "*", "x-a*b", "x y", "''"])
def test_what_is_not_a_header_is_not_forwarded(name):
    problem = only(ONE[:-2] + f", forward_headers: [{name!r}]}}}}".replace('"', ""))
    assert problem.expected == "the name of a header, or its beginning and *"


# Secrets

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


# Hostile files


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


# Kuadrant's files

KUADRANT = """\
servers:
  - name: test-server1
    url: http://localhost:9001
    hostname: server1.example.com
    enabled: true
    prefix: "s1_"
  - name: mcp-test/server2
    url: https://localhost:9002/mcp
    hostname: server2.example.com
    toolPrefix: s2_
    credential: Bearer abc
    caCert: |
      -----BEGIN CERTIFICATE-----
      own
      -----END CERTIFICATE-----
    state: Disabled
    tokenURLElicitation: {url: https://vault.example.com}
    userSpecificList: true
    category: [dev]
    hint: second
    tags: [x]
    guardrailsConfigIDs: [g]
virtualServers:
  - name: mcp-test/dev
    tools: [s1_greet]
  - {name: ops, tools: [s2_x], prompts: [s2_p]}
gatewayCACertPEM: |
  -----BEGIN CERTIFICATE-----
  shared
  -----END CERTIFICATE-----
"""

SAMPLE = """\
servers:
  - {name: test-server1, url: "http://localhost:9001", hostname: server1.example.com, enabled: true, prefix: "s1_"}
  - {name: test-server2, url: "http://localhost:9002", hostname: server2.example.com, enabled: true, prefix: "s2_"}
"""


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


# Change


def settle(*files: Path) -> None:
    """Files last written long ago: a young one is read again each time."""
    for file in files:
        os.utime(file, ns=(0, file.stat().st_mtime_ns - 10_000_000_000))


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "portico.yaml"
    file.write_text(ONE)
    return file


def test_the_first_poll_reads_and_the_next_sees_no_change(config):
    """G1.37."""
    watch = Watch(config, version="7")
    assert watch.poll() == load(config, version="7")
    assert [watch.poll() for _ in range(3)] == [None, None, None]


def test_a_settled_file_is_not_read_again(config, monkeypatch):
    watch = Watch(config)
    settle(config)
    watch.poll()
    watch.poll()
    monkeypatch.setattr("portico.registry.watch.load", lambda *_, **__: pytest.fail("read"))
    assert watch.poll() is None


def test_a_change_is_seen_once(config):
    """G1.32, G1.37 (the part that is pure)."""
    watch = Watch(config)
    old = watch.poll()
    config.write_text(ONE[:-1] + ", second: {url: http://h/}}")
    new = watch.poll()
    assert [found.name for found in changes(old, new).added] == ["second"]
    assert watch.poll() is None


def test_a_change_of_the_same_size_at_the_same_time_is_seen(config):
    watch = Watch(config)
    watch.poll()
    watch.poll()
    before = config.stat()
    config.write_text(ONE.replace("9001", "9002"))
    os.utime(config, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert watch.poll().backends[0].url.endswith(":9002/mcp")


def test_a_file_put_in_the_place_of_another_is_seen(config):
    watch = Watch(config)
    settle(config)
    watch.poll()
    watch.poll()
    new = config.with_name("new.yaml")
    new.write_text(ONE.replace("9001", "9002"))
    os.utime(new, ns=(0, config.stat().st_mtime_ns))
    new.replace(config)
    assert watch.poll().backends[0].url.endswith(":9002/mcp")


def test_what_changes_nothing_is_no_change(config):
    watch = Watch(config)
    watch.poll()
    config.touch()
    assert watch.poll() is None
    config.write_text("# a comment\n" + ONE)
    assert watch.poll() is None


def test_a_broken_file_is_reported_once_and_its_repair_is_a_registry(config):
    """G1.34: the old configuration stays in force, which is the caller's to keep."""
    watch = Watch(config)
    good = watch.poll()
    config.write_text("backends: {")
    assert isinstance(watch.poll(), InvalidConfig)
    assert watch.poll() is None
    config.unlink()
    assert "found nothing" in str(watch.poll())
    assert watch.poll() is None
    config.write_text(ONE)
    assert watch.poll() == good


def test_a_file_that_goes_right_after_it_was_read_is_missed(config):
    watch = Watch(config)
    watch.poll()
    config.unlink()
    assert isinstance(watch.poll(), InvalidConfig)


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path):
    watch = Watch(tmp_path / "portico.yaml")
    assert isinstance(watch.poll(), InvalidConfig)
    (tmp_path / "portico.yaml").write_text(ONE)
    assert isinstance(watch.poll(), Registry)


def test_included_files_are_watched_too_even_the_missing_ones(config):
    """G1.32."""
    more = config.with_name("more.yaml")
    watch = Watch(config)
    watch.poll()
    config.write_text("include: [more.yaml]\n" + ONE)
    settle(config)
    assert isinstance(watch.poll(), InvalidConfig)
    more.write_text(SAMPLE)
    settle(more)
    assert len(watch.poll().backends) == 3
    assert watch.poll() is None
    more.write_text("servers: []")
    assert len(watch.poll().backends) == 1


CHANGED = {
    "hostname_given": "other.internal",
    "prefix": "other_",
    "url": "http://other/",
    "hostname": "other",
    "credential": Reference("env", "OTHER"),
    "ca_cert": Reference("env", "OTHER"),
    "enabled": False,
    "user_specific_list": True,
    "hint": "other",
    "category": ("other",),
    "tags": ("other",),
    "credential_use": frozenset({"call"}),
    "call_auth": "passthrough",
    "forward_headers": (),
    "token_url": "http://other/",
}


@pytest.mark.parametrize("field", CHANGED)
def test_a_change_of_any_field_is_a_change_of_that_backend_only(field):
    """G1.37: the others are kept."""
    old = parse(FULL)
    first, *others = old.backends
    altered = replace(first, **{field: CHANGED[field] if field != "enabled" else not first.enabled})
    if field == "user_specific_list":
        altered = replace(first, user_specific_list=not first.user_specific_list)
    found = changes(old, replace(old, backends=(altered, *others)))
    assert found.changed == (altered,)
    assert found.kept == tuple(others)
    assert found.added == found.removed == ()
    assert found


def test_every_field_of_a_backend_is_among_those_a_change_of_is_seen():
    assert {field.name for field in fields(Backend)} == {*CHANGED, "name", "kind"}


def test_a_change_of_name_is_one_backend_gone_and_another_come():
    """G1.37."""
    old = parse(ONE)
    new = replace(old, backends=(backend(name="other"),))
    found = changes(old, new)
    assert (found.added, found.removed) == (new.backends, old.backends)
    assert found.changed == found.kept == ()


def test_order_and_whatever_is_not_a_backend_change_no_backend():
    """G1.37."""
    old = parse(FULL)
    found = changes(old, replace(old, backends=old.backends[::-1], store="memory"))
    assert not found
    assert len(found.kept) == 3


def test_reading_a_registry_imports_little():
    """A cold start is import time: no models, no network, no metadata unless asked."""
    code = "import sys, portico.registry as r; r.parse('{}', version='1'); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"pydantic", "importlib.metadata", "asyncio", "difflib", "socket", "ssl"}.isdisjoint(loaded)
    inside = {name for name in loaded if name.startswith("portico.")}
    assert {name for name in inside if not name.startswith("portico.registry")} == set()
