"""Backends and clients that mean harm: what they send costs them their own answers, and nobody else's."""

import base64
import json

import pytest

from tests.support import config, echo_server, eventually, fetch, gateway

OBJECT = {"type": "object"}
FINE = {"name": "fine", "inputSchema": OBJECT}


@pytest.fixture(scope="module")
def evil():
    with echo_server("evil") as server:
        yield server


@pytest.fixture(scope="module")
def portico(echo, evil):
    declared = config(
        ("evil", evil.url, {}), ("s1", echo.url, {}), discovery={"interval_s": 0.2, "timeout_s": 2}
    )
    with gateway(declared) as process:
        yield process


@pytest.fixture(scope="module")
def personal(echo, evil):
    declared = config(("evil", evil.url, {"user_specific_list": True}), ("s1", echo.url, {}))
    with gateway(declared) as process:
        yield process


@pytest.fixture
def restored(evil):
    yield evil
    evil.control("say")
    evil.control("close_streams")


def strict(raw):
    """As a client reads it that takes only what JSON has."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(raw, parse_constant=refuse)


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"a": value}
    return value


LISTINGS = {
    "null": ("tools/list", {"tools": None}),
    "text": ("tools/list", {"tools": "echo"}),
    "not an object": ("tools/list", []),
    "empty": ("tools/list", {}),
    "names of other types": (
        "tools/list",
        {"tools": [{"name": 5}, {"name": None}, 7, None, [], {}, "x", FINE]},
    ),
    "schemas of other types": (
        "tools/list",
        {
            "tools": [
                {"name": "a", "inputSchema": []},
                {"name": "b", "inputSchema": {"type": "object", "properties": []}},
                {"name": "c", "inputSchema": {"type": "object", "properties": {"x": {"type": 5}}}},
                {"name": "d", "inputSchema": {"type": "object", "properties": {"x": {"type": {"a": 1}}}}},
                {"name": "e", "inputSchema": {"type": "object", "properties": {"x": {"type": [{}, 1]}}}},
                {"name": "f", "inputSchema": {"type": ["object"]}},
                FINE,
            ]
        },
    ),
    "annotations of another type": ("tools/list", {"tools": [{**FINE, "annotations": "yes"}]}),
    "the same name twice": ("tools/list", {"tools": [FINE, {**FINE, "description": "again"}]}),
    "half a character": ("tools/list", {"tools": [{**FINE, "name": "\ud800"}, {**FINE, "title": "\udfff"}]}),
    "not a number": ("tools/list", {"tools": [{**FINE, "_meta": {"x": float("nan"), "y": float("inf")}}]}),
    **{
        f"nested {depth} deep": ("tools/list", {"tools": [{**FINE, "_meta": nested(depth)}]})
        for depth in (300, 900, 930)
    },
    "a circle of pages": ("tools/list", {"tools": [FINE], "nextCursor": "again"}),
    "a cursor of another type": ("tools/list", {"tools": [FINE], "nextCursor": {"a": []}}),
    "prompts with numbers for names": ("prompts/list", {"prompts": [{"name": 5}, {"name": ""}, 5]}),
    "null prompts": ("prompts/list", {"prompts": None}),
    "resources with lists for addresses": ("resources/list", {"resources": [{"uri": ["a"]}, {"uri": {}}, 1]}),
    "the same address twice": ("resources/list", {"resources": [{"uri": "x://1"}, {"uri": "x://1"}]}),
    "templates that are none": (
        "resources/templates/list",
        {"resourceTemplates": [{"uriTemplate": 5}, {"uriTemplate": "x://{"}, {"uriTemplate": "x://}{}(*["}]},
    ),
    "no capabilities but a list": ("initialize", {"capabilities": []}),
    "no capabilities but a text": ("initialize", {"capabilities": "tools"}),
    "null capabilities": ("initialize", {"capabilities": None}),
    "capabilities of other types": (
        "initialize",
        {"capabilities": {"tools": True, "resources": 5, "prompts": [], "logging": "yes"}},
    ),
    "a version of another type": ("initialize", {"protocolVersion": ["2025-11-25"]}),
    "instructions of another type": ("initialize", {"instructions": {"a": 1}}),
}


@pytest.mark.parametrize("case", LISTINGS)
def test_whatever_a_backend_lists_the_others_are_listed_and_called(portico, restored, case):
    """G1.48"""
    method, said = LISTINGS[case]
    restored.control("say", method=method, result=said)
    restored.control("forget_sessions")
    restored.control("reset_log")
    eventually(lambda: len(restored.seen("initialize")) >= 1 and len(restored.seen()) >= 2)
    client = portico.client()
    assert client.init().status == 200
    for listed in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        answer = client.rpc(listed)
        assert answer.status == 200
        strict(answer.raw)
    assert client.call("s1_echo", {"text": "still here"}).text == "still here"
    assert client.call("evil_fine").status in (200, 502)
    strict(fetch(f"{portico.base}/status").raw)
    restored.control("say")
    restored.control("forget_sessions")
    eventually(lambda: client.call("evil_echo", {"text": "back"}).text == "back")


@pytest.mark.parametrize("case", [case for case in LISTINGS if LISTINGS[case][0] != "initialize"])
def test_whatever_a_backend_lists_for_one_user_the_others_are_listed(personal, restored, case):
    """G1.59"""
    method, said = LISTINGS[case]
    client = personal.client()
    client.init()
    restored.control("say", method=method, result=said)
    for listed in ("tools/list", "prompts/list"):
        answer = client.rpc(listed)
        assert answer.status == 200
        shown = strict(answer.raw)["result"][listed.partition("/")[0]]
        assert any(item["name"].startswith("s1_") for item in shown)
    assert client.call("evil_fine").status in (200, 502)


def test_of_two_definitions_of_one_name_the_first_is_kept(portico, restored):
    restored.control("say", method="tools/list", result=LISTINGS["the same name twice"][1])
    restored.control("forget_sessions")
    client = portico.client()
    client.init()

    def listed():
        return [tool for tool in client.rpc("tools/list").result["tools"] if tool["name"].startswith("evil_")]

    eventually(lambda: listed() == [{**FINE, "name": "evil_fine"}])


def test_a_template_made_to_be_slow_is_not(portico, restored):
    """C16"""
    slow = "x://" + "{+a}y" * 40 + "z"
    restored.control(
        "say", method="resources/templates/list", result={"resourceTemplates": [{"uriTemplate": slow}]}
    )
    restored.control("forget_sessions")
    client = portico.client()
    client.init()
    eventually(lambda: slow in client.rpc("resources/templates/list").raw.decode())
    assert client.rpc("resources/read", {"uri": "x://" + "y" * 50_000}).error["code"] == -32002


def seen_by(evil, method):
    entry = evil.seen(method)[-1]
    assert all(name.isascii() and not name.startswith("x-forged") for name in entry["headers"])
    return entry["headers"]


def test_a_name_or_address_is_one_header_line_whatever_is_in_it(portico, restored):
    """G1.20, G1.31"""
    forged = "a\r\nx-forged: 1\r\n\r\nGET / HTTP/1.1"
    restored.control("add_tool", name=forged)
    restored.control("add_prompt", name=forged)
    restored.control("add_resource", uri=f"x://{forged}")
    restored.control("notify")
    client = portico.client()
    client.init()
    told = json.dumps(forged)[1:-1]
    for listing in ("tools/list", "prompts/list", "resources/list"):
        eventually(lambda listing=listing: told in client.rpc(listing).raw.decode())
    assert client.call(f"evil_{forged}").status == 200
    assert seen_by(restored, "tools/call")["x-mcp-tool"] == "a??x-forged: 1????GET / HTTP/1.1"
    assert client.rpc("prompts/get", {"name": f"evil_{forged}"}).status == 200
    assert seen_by(restored, "prompts/get")["x-mcp-promptname"] == "a??x-forged: 1????GET / HTTP/1.1"
    assert client.rpc("resources/read", {"uri": f"x://{forged}"}).status == 200
    assert seen_by(restored, "resources/read")["x-mcp-resourceuri"] == "x://a??x-forged: 1????GET / HTTP/1.1"


@pytest.mark.parametrize("event", ["x\r\nx-forged: 1", "x\nx-forged: 1", "\ud800", "a\0b", 5, None, ["a"]])
@pytest.mark.parametrize("listening", [False, True])
def test_a_forged_event_id_smuggles_nothing_to_a_backend(portico, evil, event, listening):
    """G1.94"""
    client = portico.client()
    client.init()
    assert client.call("evil_echo", {"text": "a"}).status == 200
    evil.control("reset_log")
    fields = ["", "", {"evil": event}, {}] if listening else ["evil", event, {}, {}]
    forged = base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()
    with client.stream(forged) as stream:
        assert stream.status in (200, 400)
        if stream.status == 200:
            eventually(lambda: evil.seen(http="GET"))
    assert all("x-forged" not in entry["headers"] for entry in evil.seen())
    assert not [entry for entry in evil.seen() if entry["path"] != "/mcp"]


def test_a_stream_of_nonsense_does_not_end_discovery(portico, restored):
    """G1.46"""
    for method in (5, None, [], "x" * 100_000):
        restored.control("notify", method=method, params={"a": [None]})
    restored.control("add_tool", name="after_the_nonsense")
    restored.control("notify")
    client = portico.client()
    client.init()
    eventually(lambda: "evil_after" in client.rpc("tools/list").raw.decode())
    assert client.call("evil_after_the_nonsense").result


CALLS = {
    "arguments of another type": {"name": "s1_echo", "arguments": []},
    "half a character": {"name": "s1_\ud800", "arguments": {}},
    "a very long name": {"name": "x" * 1_000_000},
    "a name with a line break": {"name": "s1_echo\r\nx-forged: 1"},
    "a name of spaces": {"name": "   "},
    "a deep argument": {"name": "s1_echo", "arguments": nested(900)},
    "meta of another type": {"name": "s1_echo", "arguments": {"text": "a"}, "_meta": 5},
}


@pytest.mark.parametrize("case", CALLS)
def test_whatever_a_client_asks_for_it_is_answered(portico, case):
    """G0.64"""
    client = portico.client()
    client.init()
    answer = client.post(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALLS[case]}).encode()
    )
    assert answer.status in (200, 400)
    strict(answer.raw)
    assert client.call("s1_echo", {"text": "a"}).text == "a"


BODIES = [
    b"",
    b"\0",
    b"null",
    b"5",
    b'"x"',
    b"[]",
    b"[[]]",
    b"[1,2]",
    b"{}",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"{" * 100_000,
    b"[" * 100_000,
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}',
    b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":[]}}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":{},"error":{}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":5}}',
    b'{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":[]}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"name":"a","name":"b"}}}',
    b'{"jsonrpc":"2.0","id":"WyJzMSIsMSw5OTk5OTk5OTk5XQ.\\ud800","result":{}}',
    b'{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":{}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":{}}}',
]


@pytest.mark.parametrize("number", range(len(BODIES)))
@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25"])
def test_whatever_a_body_is_it_is_refused_or_answered(portico, number, version):
    """G0.64, G1.9, C30"""
    client = portico.client()
    client.init(version)
    answer = client.post(BODIES[number])
    assert answer.status in (200, 202, 400, 403)
    if answer.raw:
        strict(answer.raw)
    assert client.rpc("ping").result == {}
