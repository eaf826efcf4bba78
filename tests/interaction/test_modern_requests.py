"""Requests of 2026-07-28: what makes one, what is refused and how, what every answer has."""

import base64
import http.client
import json
from urllib.parse import urlsplit

import pytest

from tests.support import MODERN, Client, config, dump, echo26_server, echo_server, eventually, fetch, gateway

META = "io.modelcontextprotocol/"
VERSION, CAPABILITIES, LEVEL = f"{META}protocolVersion", f"{META}clientCapabilities", f"{META}logLevel"
MISMATCH, UNSUPPORTED, INVALID_PARAMS, NO_METHOD, INVALID_REQUEST = -32020, -32022, -32602, -32601, -32600
NESTED = {
    "inputSchema": {
        "type": "object",
        "properties": {
            "where": {
                "type": "object",
                "properties": {"tenant": {"type": "string", "x-mcp-header": "Tenant"}},
            },
            "flag": {"type": "boolean", "x-mcp-header": "Flag"},
        },
    }
}


@pytest.fixture(scope="module")
def echo26():
    with echo26_server() as server:
        server.control("add_tool", name="nested", tool=NESTED)
        server.control("add_tool", name="grüß")
        server.control("add_tool", name="=?base64?Zm9v?=")
        yield server


@pytest.fixture(scope="module")
def portico(echo, echo26):
    shown = {"dev": {"tools": ["new_echo"]}}
    with gateway(config(("old", echo.url, {}), ("new", echo26.url, {}), virtual_servers=shown)) as process:
        yield process


@pytest.fixture
def client(portico):
    return portico.client()


def sentinel(text, encoding="utf-8"):
    return f"=?base64?{base64.b64encode(text.encode(encoding)).decode()}?="


def modern_lines(method, name=None):
    lines = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", MODERN),
        ("Mcp-Method", method),
    ]
    return lines if name is None else [*lines, ("Mcp-Name", name)]


def post_lines(url, lines, body):
    """With these header lines, which may repeat: status and message."""
    target = urlsplit(url)
    connection = http.client.HTTPConnection(target.hostname, target.port, timeout=30)
    connection.putrequest("POST", target.path)
    for name, value in [*lines, ("Content-Length", str(len(body)))]:
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def call_body(tool, arguments=None, rpc_id=7):
    meta = {VERSION: MODERN, CAPABILITIES: {}}
    params = {"name": tool, "arguments": arguments or {}, "_meta": meta}
    return dump({"jsonrpc": "2.0", "id": rpc_id, "method": "tools/call", "params": params})


REFUSED = {
    "another method": ("tools/list", {}, {"Mcp-Method": "tools/call"}, 400, MISMATCH),
    "no method": ("tools/list", {}, {"Mcp-Method": None}, 400, MISMATCH),
    "the method in capitals": ("tools/list", {}, {"Mcp-Method": "TOOLS/LIST"}, 400, MISMATCH),
    "another name": ("tools/call", {"name": "old_echo"}, {"Mcp-Name": "new_echo"}, 400, MISMATCH),
    "no name": ("tools/call", {"name": "old_echo"}, {"Mcp-Name": None}, 400, MISMATCH),
    "another address": ("resources/read", {"uri": "echo://a"}, {"Mcp-Name": "echo://b"}, 400, MISMATCH),
    "another prompt": ("prompts/get", {"name": "a"}, {"Mcp-Name": "b"}, 400, MISMATCH),
    "no version": ("tools/list", {}, {"MCP-Protocol-Version": None}, 400, MISMATCH),
    "another version": ("tools/list", {}, {"MCP-Protocol-Version": "2025-11-25"}, 400, MISMATCH),
    "wrong padding": ("tools/call", {"name": "fo"}, {"Mcp-Name": "=?base64?Zm8?="}, 400, MISMATCH),
    "not canonical": ("tools/call", {"name": "fo"}, {"Mcp-Name": "=?base64?Zm9=?="}, 400, MISMATCH),
    "not base64": ("tools/call", {"name": "fo"}, {"Mcp-Name": "=?base64?%%%?="}, 400, MISMATCH),
    "not UTF-8": ("tools/call", {"name": "fo"}, {"Mcp-Name": "=?base64?/w==?="}, 400, MISMATCH),
    "a literal that looks encoded": (
        "tools/call",
        {"name": "=?base64?Zm9v?="},
        {"Mcp-Name": "=?base64?Zm9v?="},
        400,
        MISMATCH,
    ),
    "no envelope": ("tools/list", {"_meta": None}, {}, 400, INVALID_PARAMS),
    "an envelope that is a list": ("tools/list", {"_meta": [1]}, {}, 400, INVALID_PARAMS),
    "a level that is none": ("tools/list", {"_meta": {LEVEL: "loud"}}, {}, 400, INVALID_PARAMS),
    "a level that is an object": ("tools/list", {"_meta": {LEVEL: {}}}, {}, 400, INVALID_PARAMS),
    "capabilities that are none": ("tools/list", {"_meta": {CAPABILITIES: []}}, {}, 400, INVALID_PARAMS),
    "a token that is none": ("tools/list", {"_meta": {"progressToken": 1.5}}, {}, 400, INVALID_PARAMS),
    "an unknown method": ("tools/frobnicate", {}, {}, 404, NO_METHOD),
    "ping": ("ping", {}, {}, 404, NO_METHOD),
    "logging/setLevel": ("logging/setLevel", {"level": "info"}, {}, 404, NO_METHOD),
    "resources/subscribe": ("resources/subscribe", {"uri": "echo://static/one"}, {}, 404, NO_METHOD),
    "resources/unsubscribe": ("resources/unsubscribe", {"uri": "echo://static/one"}, {}, 404, NO_METHOD),
    "initialize": ("initialize", {"protocolVersion": "2025-11-25"}, {}, 404, NO_METHOD),
    "an unknown tool": ("tools/call", {"name": "nothing"}, {}, 400, INVALID_PARAMS),
    "an unknown prompt": ("prompts/get", {"name": "nothing"}, {}, 400, INVALID_PARAMS),
    "a tool without a name": ("tools/call", {}, {}, 400, INVALID_PARAMS),
    "a tool whose name is a number": ("tools/call", {"name": 5}, {"Mcp-Name": "5"}, 400, INVALID_PARAMS),
    "an unknown address": ("resources/read", {"uri": "nowhere://x"}, {}, 400, INVALID_PARAMS),
    "an unknown cursor": ("tools/list", {"cursor": "nowhere"}, {}, 400, INVALID_PARAMS),
    "no notifications": ("subscriptions/listen", {}, {}, 400, INVALID_PARAMS),
    "an unknown virtual server": ("tools/list", {}, {"X-Mcp-Virtualserver": "no"}, 400, INVALID_REQUEST),
}


@pytest.mark.parametrize(("method", "params", "headers", "status", "code"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("rpc_id", ["mine", 7], ids=["string id", "integer id"])
def test_what_is_wrong_is_refused_with_its_code_and_the_request_s_id(
    client, method, params, headers, status, code, rpc_id
):
    """G1.98, C17"""
    if "_meta" in params and not isinstance(params["_meta"], dict):
        body = {"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params}
        sent = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method} | headers
        answer = client.post(dump(body), sent, rpc_id=rpc_id)
    else:
        answer = client.rpc26(method, params, headers=headers, id=rpc_id)
    assert (answer.status, answer.error["code"], answer.message["id"]) == (status, code, rpc_id)
    assert answer.session is None


@pytest.mark.parametrize("missing", [VERSION, CAPABILITIES])
def test_each_field_of_the_envelope_that_must_be_there_is_named_when_it_is_not(client, missing):
    """G1.98"""
    meta = {key: value for key, value in {VERSION: MODERN, CAPABILITIES: {}}.items() if key != missing}
    body = {"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": meta}}
    answer = client.post(dump(body), {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}, rpc_id=3)
    assert (answer.status, answer.error["code"], answer.message["id"]) == (400, INVALID_PARAMS, 3)
    assert missing in answer.error["message"]


def test_who_the_client_is_need_not_be_said(client):
    """G1.97"""
    body = {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}
    body["params"] = {"_meta": {VERSION: MODERN, CAPABILITIES: {}}}
    answer = client.post(dump(body), {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}, rpc_id=3)
    assert answer.result["tools"]


@pytest.mark.parametrize("version", ["2027-01-01", "2025-11-25", "", "zzz"])
def test_an_unsupported_version_is_told_what_is_supported(client, version):
    """G1.98"""
    meta = {"_meta": {VERSION: version}}
    answer = client.rpc26("server/discover", meta, headers={"MCP-Protocol-Version": version}, id="v")
    assert (answer.status, answer.error["code"], answer.message["id"]) == (400, UNSUPPORTED, "v")
    assert answer.error["data"]["requested"] == version
    assert MODERN in answer.error["data"]["supported"]


def test_an_unsupported_version_in_the_header_alone_is_refused_with_the_id(client):
    """G1.98"""
    answer = client.rpc("tools/list", headers={"MCP-Protocol-Version": "2027-01-01"}, id="v")
    assert (answer.status, answer.error["code"], answer.message["id"]) == (400, UNSUPPORTED, "v")


@pytest.mark.parametrize("twice", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_a_header_that_stands_there_twice_is_refused(portico, twice):
    """G1.98"""
    lines = modern_lines("tools/call", "new_echo")
    again = [line for line in lines if line[0] == twice]
    status, message = post_lines(portico.url, [*lines, *again], call_body("new_echo", {"text": "hi"}))
    assert (status, message["error"]["code"], message["id"]) == (400, MISMATCH, 7)
    assert twice.lower() in message["error"]["message"]


@pytest.mark.parametrize(
    ("tool", "header"),
    [
        ("new_echo", "new_echo"),
        ("new_echo", sentinel("new_echo")),
        ("new_grüß", sentinel("new_grüß")),
        ("new_=?base64?Zm9v?=", "new_=?base64?Zm9v?="),
    ],
    ids=["plain", "encoded without need", "encoded", "marks inside"],
)
def test_a_name_may_be_encoded(client, tool, header):
    """G1.98"""
    answer = client.call26(tool, {"text": "hi"}, headers={"Mcp-Name": header})
    assert answer.status == 200, answer


def test_the_encoded_name_reaches_a_modern_backend_encoded_again(client, echo26):
    """G1.99"""
    echo26.control("reset_log")
    assert client.call26("new_=?base64?Zm9v?=").status == 200
    (seen,) = echo26.seen("tools/call")
    assert seen["headers"]["mcp-name"] == sentinel("=?base64?Zm9v?=")


PARAMS_GOOD = {
    "as they are": ("new_region", {"region": "eu", "count": 3}, {"Region": "eu", "Count": "3"}),
    "encoded": ("new_region", {"region": "grün"}, {"Region": sentinel("grün")}),
    "null is left out": ("new_region", {"region": None, "plain": "x"}, {}),
    "42.0 in the header": ("new_region", {"count": 42}, {"Count": "42.0"}),
    "42.0 in the body": ("new_region", {"count": 42.0}, {"Count": "42"}),
    "a large integer": ("new_region", {"count": 2**70}, {"Count": str(2**70)}),
    "negative": ("new_region", {"count": -1}, {"Count": "-1"}),
    "nested": ("new_nested", {"where": {"tenant": "a b"}, "flag": True}, {"Tenant": "a b", "Flag": "true"}),
    "one that nobody asks for": ("new_region", {"region": "eu"}, {"Region": "eu", "Other": "x"}),
}


@pytest.mark.parametrize(("tool", "arguments", "given"), PARAMS_GOOD.values(), ids=PARAMS_GOOD)
def test_parameters_in_headers_that_agree_are_passed_on(client, echo26, tool, arguments, given):
    """G1.98, G1.99"""
    echo26.control("reset_log")
    headers = {f"Mcp-Param-{name}": value for name, value in given.items()}
    assert client.call26(tool, arguments, headers=headers).status == 200
    (seen,) = echo26.seen("tools/call")
    arrived = {n: value for n, value in seen["headers"].items() if n.startswith("mcp-param-")}
    assert arrived == {name.lower(): value for name, value in headers.items()}


PARAMS_BAD = {
    "missing": ("new_region", {"region": "eu"}, {}),
    "another": ("new_region", {"region": "eu"}, {"Region": "us"}),
    "in capitals": ("new_region", {"region": "eu"}, {"Region": "EU"}),
    "one that the body lacks": ("new_region", {}, {"Region": "eu"}),
    "for null": ("new_region", {"region": None}, {"Region": "null"}),
    "another number": ("new_region", {"count": 42}, {"Count": "42.5"}),
    "a number that only Python reads": ("new_region", {"count": 42}, {"Count": "4_2"}),
    "in scientific notation": ("new_region", {"count": 100}, {"Count": "1e2"}),
    "a neighbour beyond 53 bits": ("new_region", {"count": 2**53 + 1}, {"Count": str(2**53)}),
    "a string that is not a number": ("new_region", {"region": "42"}, {"Region": "42.0"}),
    "nested, missing": ("new_nested", {"where": {"tenant": "a"}}, {}),
    "nested, another": ("new_nested", {"where": {"tenant": "a"}}, {"Tenant": "b"}),
    "a boolean in capitals": ("new_nested", {"flag": True}, {"Flag": "True"}),
    "bad base64": ("new_region", {"region": "fo"}, {"Region": "=?base64?Zm8?="}),
}


@pytest.mark.parametrize(("tool", "arguments", "given"), PARAMS_BAD.values(), ids=PARAMS_BAD)
def test_parameters_in_headers_that_do_not_agree_are_refused_before_a_backend_sees_them(
    client, echo26, tool, arguments, given
):
    """G1.98"""
    calls = echo26.counters()["calls"]
    headers = {f"Mcp-Param-{name}": value for name, value in given.items()}
    answer = client.call26(tool, arguments, headers=headers, id="p")
    assert (answer.status, answer.error["code"], answer.message["id"]) == (400, MISMATCH, "p")
    assert "gateway" not in answer.error["message"]
    assert "mcp-param-" in answer.error["message"]
    assert echo26.counters()["calls"] == calls


def test_a_parameter_header_that_stands_there_twice_is_refused(portico):
    """G1.98"""
    lines = [*modern_lines("tools/call", "new_region"), *[("Mcp-Param-Region", "eu")] * 2]
    status, message = post_lines(portico.url, lines, call_body("new_region", {"region": "eu"}))
    assert (status, message["error"]["code"], message["id"]) == (400, MISMATCH, 7)


def test_messages_that_are_no_requests(client):
    """G1.97, C2: a notification is taken; a batch and a response are not."""
    modern = {"MCP-Protocol-Version": MODERN, "Mcp-Session-Id": None}
    told = client.post(dump({"jsonrpc": "2.0", "method": "notifications/cancelled"}), modern)
    assert (told.status, told.raw) == (202, b"")
    response = client.post(dump({"jsonrpc": "2.0", "id": 1, "result": {}}), modern)
    assert (response.status, response.error["code"]) == (400, INVALID_REQUEST)
    batch = client.post(b"[" + call_body("new_echo") + b"]", modern)
    assert (batch.status, batch.error["code"]) == (400, INVALID_REQUEST)
    newer = client.post(
        dump({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"_meta": {VERSION: "2099"}}}),
        {"MCP-Protocol-Version": "2099"},
    )
    assert (newer.status, newer.error["code"]) == (400, UNSUPPORTED)


@pytest.mark.parametrize("verb", ["GET", "DELETE"])
def test_there_are_no_streams_and_sessions_to_get_or_delete(portico, verb):
    """G1.97, C29"""
    headers = {"MCP-Protocol-Version": MODERN, "Accept": "text/event-stream"}
    answer = fetch(portico.url, method=verb, headers=headers)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def test_no_session_is_made_asked_for_or_minded(client, echo):
    """G1.97"""
    plain = client.rpc26("tools/list")
    stray = client.rpc26("tools/list", headers={"Mcp-Session-Id": "11111111-2222-3333-4444-555555555555"})
    called = client.call26("old_echo", {"text": "hi"}, headers={"Mcp-Session-Id": "x"})
    assert [answer.session for answer in (plain, stray, called)] == [None] * 3
    assert stray.result == plain.result
    assert called.text == "hi"


@pytest.mark.parametrize(
    ("method", "params", "kept"),
    [
        ("server/discover", {}, True),
        ("tools/list", {}, True),
        ("prompts/list", {}, True),
        ("resources/list", {}, True),
        ("resources/templates/list", {}, True),
        ("resources/read", {"uri": "echo://static/one"}, True),
        ("tools/call", {"name": "old_echo", "arguments": {"text": "hi"}}, False),
        ("tools/call", {"name": "new_echo", "arguments": {"text": "hi"}}, False),
        ("prompts/get", {"name": "old_greet", "arguments": {"name": "A"}}, False),
    ],
)
def test_every_result_says_what_it_is_and_who_gives_it(client, method, params, kept):
    """G1.97, G1.57"""
    result = client.rpc26(method, params).result
    assert result["resultType"] == "complete"
    assert result["_meta"][f"{META}serverInfo"]["name"]
    assert ("ttlMs" in result, "cacheScope" in result) == (kept, kept)
    if kept:
        assert result["ttlMs"] >= 0
        assert result["cacheScope"] in ("public", "private")


def test_both_eras_are_served_at_once_with_the_same_names_in_the_same_order(portico):
    """G1.97, G1.100, C34, C40"""
    legacy, modern = portico.client(), portico.client()
    legacy.init()
    first = [tool["name"] for tool in modern.rpc26("tools/list").result["tools"]]
    assert first == [tool["name"] for tool in legacy.rpc("tools/list").result["tools"]]
    assert first == [tool["name"] for tool in portico.client().rpc26("tools/list").result["tools"]]
    for tool in ("old_echo", "new_echo"):
        assert legacy.call(tool, {"text": "grüß"}).text == "grüß"
        assert modern.call26(tool, {"text": "grüß"}).text == "grüß"
    mixed = legacy.call26("old_echo", {"text": "the same client"})
    assert mixed.text == "the same client"
    assert legacy.rpc("ping").result == {}


def test_what_is_listed_differs_by_virtual_server_and_not_by_who_asks(client):
    """C40, G1.57: what only some may see is private."""
    dev = {"X-Mcp-Virtualserver": "dev"}
    shown = client.rpc26("tools/list", headers=dev).result
    assert [tool["name"] for tool in shown["tools"]] == ["new_echo"]
    assert shown["cacheScope"] == "private"
    assert client.rpc26("server/discover", headers=dev).result["cacheScope"] == "private"
    assert client.call26("old_echo", {"text": "hi"}, headers=dev).error["code"] == INVALID_PARAMS
    plain, asked = (
        client.rpc26("tools/list"),
        client.rpc26("tools/list", headers={"Authorization": "Bearer x"}),
    )
    assert plain.result == asked.result


MIXED = {
    "one that says nothing": ([(0, "public"), (5000, "public")], (5000, "public")),
    "the shorter": ([(7000, "public"), (5000, "public")], (5000, "public")),
    "one private": ([(7000, "private"), (5000, "public")], (5000, "private")),
    "nobody says anything": ([(0, "public"), (0, "public")], (0, "public")),
}


def test_lists_may_be_kept_as_long_as_their_shortest_part_and_by_all_if_every_part_may():
    """G1.57"""
    with echo_server() as old, echo26_server("a") as a, echo26_server("b") as b:
        declared = config(
            ("old", old.url, {}), ("a", a.url, {}), ("b", b.url, {}), discovery={"interval_s": 0.3}
        )
        with gateway(declared) as portico:
            client = Client(portico.url)

            def hint():
                listed = client.rpc26("tools/list").result
                return listed["ttlMs"], listed["cacheScope"]

            for parts, expected in MIXED.values():
                for server, (ttl, scope) in zip((a, b), parts, strict=True):
                    server.control("cache", ttlMs=ttl, cacheScope=scope)
                    server.control("notify")
                eventually(lambda expected=expected: hint() == expected)
