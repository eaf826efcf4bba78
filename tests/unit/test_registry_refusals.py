"""The registry: what does not fit is refused with everything that is wrong in it."""

import pytest

from portico.registry import (
    InvalidConfig,
    parse,
)
from tests.unit.declared import ONE, only, problems

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
    "call_auth": (ONE[:-2] + ", call_auth: basic}}", 1, "backends.echo.call_auth", "none, static, passthrough, exchange, client_credentials or user", "'basic'"),
    "credential_use": (ONE[:-2] + ", credential_use: [always]}}", 1, "backends.echo.credential_use[0]", "discovery or call", "'always'"),
    "credential_use empty": (ONE[:-2] + ", credential_use: []}}", 1, "backends.echo.credential_use", "at least 1 entries", "0"),
    "two authorizations": (
        ONE[:-2] + ", call_auth: passthrough, credential: env:X, credential_use: [call]}}",
        1, "backends.echo.call_auth", "static, since the credential is used for calls", "'passthrough'",
    ),
    "categories": (ONE[:-2] + ", category: [a, b, c, d]}}", 1, "backends.echo.category", "at most 3 entries", "4"),
    "tags": (ONE[:-2] + f", tags: [{', '.join('abcdefghijk')}]}}}}", 1, "backends.echo.tags", "at most 10 entries", "11"),
    "tag": (ONE[:-2] + ", tags: [a, 5]}}", 1, "backends.echo.tags[1]", "at most 128 characters of text", "5"),
    "tags a text": (ONE[:-2] + ", tags: a}}", 1, "backends.echo.tags", "a list", "'a'"),
    "hint": (ONE[:-2] + f", hint: {'h' * 257}}}}}", 1, "backends.echo.hint", "at most 256 characters of text", "257 characters"),
    "token_url": (ONE[:-2] + ", token_url: vault}}", 1, "backends.echo.token_url", "an http:// or https:// URL", "'vault'"),
    "mode": ("auth:\n  mode: basic\n", 2, "auth.mode", "none, jwt or dev", "'basic'"),
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
    "dev with issuers": ("auth: {mode: dev, issuers: [{issuer: 'https://as.example.com'}]}", 1, "auth.issuers", "the gateway itself is the issuer", "issuers"),
    "dev elsewhere": ("auth: {mode: dev}\ngateway: {public_url: 'https://gw.example.com'}", 2, "gateway.public_url", "on this machine, since auth.mode is dev", "another one"),
    "dev below a path": ("auth: {mode: dev}\ngateway: {public_url: 'http://localhost:1/x'}", 2, "gateway.public_url", "an origin on this machine", "another one"),
    "dev lifetime": ("auth: {mode: dev, access_token_s: 0}", 1, "auth.access_token_s", "seconds, more than 0", "0"),
    "lifetime without dev": ("auth: {mode: none, access_token_s: 5}", 1, "auth.access_token_s", "nothing, unless mode is dev", "a lifetime"),
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
        auth: {mode: basic}
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
