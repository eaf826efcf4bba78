"""What the tests of the registry share."""

from dataclasses import replace
from textwrap import dedent

import pytest

from portico.registry import (
    Backend,
    InvalidConfig,
    Problem,
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
