"""What a call is when it reaches the backend, and what of the answer reaches the client."""

import base64
import json

import pytest

from tests.support import Client, config, echo_server, eventually, gateway


@pytest.fixture(scope="module")
def other():
    with echo_server("other") as server:
        yield server


@pytest.fixture(scope="module")
def portico(echo, other):
    declared = config(
        ("s1", echo.url, {"forward_headers": ["x-custom", "x-acme-*"], "hostname": "s1.internal"}),
        ("custom", other.custom_url, {}),
        ("bare", other.url, {"prefix": ""}),
    )
    with gateway(declared) as process:
        yield process


@pytest.fixture
def direct(echo):
    client = Client(echo.url)
    client.init()
    return client


NOT_PASSED_ON = {
    "mcp-init-host": "evil.example",
    "router-key": "k",
    "x-mcp-authorized": "forged",
    "x-mcp-verified-sub": "root",
    "x-mcp-servername": "forged",
    "x-mcp-tool": "forged",
    "authorization": "Bearer client",
    "cookie": "a=b",
    "g-session-id": "g",
    "gateway-session-id": "g",
    "te": "trailers",
    "proxy-authorization": "Basic eA==",
    "upgrade": "h2c",
    "keep-alive": "timeout=5",
    "x-other": "not asked for",
}


def test_only_the_headers_asked_for_are_passed_on(echo, client):
    """G1.11, G1.13, C27"""
    echo.control("reset_log")
    sent = NOT_PASSED_ON | {"x-custom": "1", "x-acme-team": "red", "user-agent": "agent/1"}
    answer = client.call("s1_headers", headers=sent)
    seen = [
        echo.seen(method)[0]["headers"]
        for method in ("initialize", "notifications/initialized", "tools/call")
    ]
    for headers in seen:
        assert (headers["x-custom"], headers["x-acme-team"]) == ("1", "red")
        assert headers["user-agent"].startswith("portico/")
        kept = {name for name in NOT_PASSED_ON if headers.get(name) == NOT_PASSED_ON[name]}
        assert not kept
        assert client.session not in headers.values()
    assert json.loads(answer.text) == seen[-1]


def test_the_host_is_the_one_declared_and_else_the_urls_own(echo, other, client):
    """G1.18, G1.33, C25"""
    assert json.loads(client.call("s1_headers").text)["host"] == "s1.internal"
    assert json.loads(client.call("custom_headers").text)["host"] == f"127.0.0.1:{other.port}"


def test_the_path_is_the_one_declared(other, client):
    """G1.21"""
    other.control("reset_log")
    assert client.call("custom_echo", {"text": "a"}).text == "a"
    assert {entry["path"] for entry in other.seen()} == {"/custom/path"}


def test_the_prefix_goes_and_every_other_byte_stays(echo, client):
    """G1.19, C9"""
    text = (
        '{ "id" : "é\\u00e9",  "params":{"_meta":{"progressToken":12345678901234567890},'
        '"arguments":{"n":1.50e0,"big":123456789012345678901234567890,"s":"日本\\ud83d\\ude00 s1_body","name":"s1_body"},'
        '"name":"%sbody" } ,"method":"tools/call","jsonrpc":"2.0"}\n'
    )
    answer = client.post((text % "s1_").encode(), rpc_id="éé")
    assert base64.b64decode(answer.text).decode() == text % ""
    received = echo.seen("tools/call")[-1]
    assert received["headers"]["content-length"] == str(len((text % "").encode()))


@pytest.mark.parametrize(
    ("tool", "hints"),
    [
        ("echo", "readOnly=unspecified,destructive=unspecified,idempotent=unspecified,openWorld=unspecified"),
        ("fancy", "readOnly=true,destructive=false,idempotent=true,openWorld=false"),
        ("read_only", "readOnly=true,destructive=unspecified,idempotent=unspecified,openWorld=unspecified"),
        ("destructive", "readOnly=false,destructive=true,idempotent=unspecified,openWorld=unspecified"),
    ],
)
def test_headers_say_which_tool_of_which_backend_it_is(echo, client, tool, hints):
    """G1.20"""
    client.call(f"s1_{tool}", {"text": "a", "naïve": "b"})
    seen = echo.seen("tools/call")[-1]["headers"]
    expected = {
        "x-mcp-tool": tool,
        "x-mcp-toolname": tool,
        "x-mcp-servername": "s1",
        "x-mcp-method": "tools/call",
        "x-mcp-annotation-hints": hints,
    }
    assert {name: seen.get(name) for name in expected} == expected


def test_headers_say_which_prompt_or_resource_it_is(echo, client):
    """G1.31"""
    client.rpc("prompts/get", {"name": "s1_greet", "arguments": {"name": "Ann"}})
    seen = echo.seen("prompts/get")[-1]
    assert seen["headers"]["x-mcp-promptname"] == json.loads(seen["body"])["params"]["name"] == "greet"
    client.rpc("resources/read", {"uri": "echo://static/one"})
    assert echo.seen("resources/read")[-1]["headers"]["x-mcp-resourceuri"] == "echo://static/one"


CALLS = [
    ("echo", {"text": "ä\u2028\u0000 \U0001f6aa"}),
    ("structured", {}),
    ("fail", {}),
    ("link", {}),
    ("rpc_error", {}),
    ("big", {"bytes": 3_000_000}),
    ("log", {"text": "first"}),
]


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize(("tool", "args"), CALLS, ids=[tool for tool, _ in CALLS])
def test_an_answer_is_the_backends_own(client, direct, portico, version, tool, args):
    """G1.22"""
    client, direct = portico.client(), Client(direct.url)
    for one in (client, direct):
        one.init(version)
    through = client.call(f"s1_{tool}", args, id=7)
    plain = direct.call(tool, args, id=7)
    assert [m.message for m in through.messages] == [m.message for m in plain.messages]
    if through.headers.get_content_type() == "application/json":
        assert through.raw == plain.raw


def test_a_2024_client_gets_exactly_one_event_of_exactly_this_form(portico):
    """G0.29, G0.65, G0.69, C3"""
    client = portico.client()
    begun = client.init("2024-11-05")
    assert begun.headers["content-type"] == "text/event-stream"
    assert (
        begun.raw
        == b"data: " + json.dumps(begun.message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"
    )
    answer = client.call("s1_echo", {"text": "hi"}, id=3)
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.raw == (
        b'data: {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"hi"}]}}\n\n'
    )
    assert client.rpc("ping", id="p").raw == b'data: {"jsonrpc":"2.0","id":"p","result":{}}\n\n'


def test_the_form_of_an_answer_follows_what_the_client_takes(portico, client):
    """C3"""
    slow = {"seconds": 0.02, "steps": 2}
    assert client.rpc("ping").headers["content-type"] == "application/json"
    assert client.call("s1_echo", {"text": "a"}).headers["content-type"] == "application/json"
    assert client.call("s1_slow", slow).headers["content-type"] == "text/event-stream"
    only_json = client.call(
        "s1_slow", slow, meta={"progressToken": 1}, headers={"accept": "application/json"}
    )
    assert only_json.headers["content-type"] == "application/json"
    assert only_json.text == "slept 0.02 s in 2 steps"
    old = portico.client(headers={"accept": "application/json"})
    assert old.init("2024-11-05").headers["content-type"] == "application/json"


def test_progress_is_seen_while_the_call_still_runs(echo, client):
    """G1.23"""
    call = client.begin_call("s1_slow", {"seconds": 60, "steps": 600}, meta={"progressToken": "p"})
    call.wait_for("notifications/progress")
    assert not call.closed
    assert echo.counters()["calls_running"] == 1
    call.close()


@pytest.mark.parametrize("id_", [0, 7, -1, 2**60, "", "7", "ü", "a" * 1000])
def test_ids_come_back_as_they_were(client, id_):
    """G0.64"""
    for answer in (client.rpc("ping", id=id_), client.call("s1_echo", {"text": "a"}, id=id_)):
        assert answer.message["id"] == id_
        assert type(answer.message["id"]) is type(id_)


def test_each_method_of_the_protocol_is_answered(client):
    """G0.64, G1.2"""
    assert client.rpc("ping").result == {}
    assert client.rpc("tools/list").result["tools"]
    assert client.rpc("prompts/list").result["prompts"]
    assert client.rpc("resources/list").result["resources"]
    assert client.rpc("resources/templates/list").result["resourceTemplates"]
    assert client.rpc("resources/read", {"uri": "echo://static/one"}).result["contents"]
    assert client.rpc("logging/setLevel", {"level": "error"}).result == {}
    assert client.rpc("server/discover").error["code"] == -32601


def test_a_name_with_spaces_is_the_listed_one(other, portico, client):
    """C8"""
    for name in ("component_list", "--version"):
        other.control("add_tool", name=name)
    other.control("notify")
    portico.look()

    def listed():
        return {tool["name"] for tool in client.rpc("tools/list").result["tools"]}

    eventually(lambda: {"component_list", "--version"} <= listed())
    eventually(lambda: "result" in client.call("--version").message)  # another function may follow later
    same = [
        json.loads(client.call(name).text)
        for name in ("component_list", "component list", " component  list ")
    ]
    assert same == [{"tool": "component_list", "arguments": {}}] * 3
    assert json.loads(client.call("--version").text)["tool"] == "--version"


def test_a_bearer_token_changes_nothing_while_nobody_asks_for_one(client):
    """G1.54"""
    plain = client.rpc("tools/list", id=1)
    assert client.rpc("tools/list", id=1, headers={"authorization": "Bearer x"}).raw == plain.raw


def test_the_clients_own_token_goes_to_a_backend_that_is_declared_so(echo):
    """G1.13, C27"""
    declared = config(("s1", echo.url, {"call_auth": "passthrough"}))
    with gateway(declared) as process:
        client = process.client(headers={"authorization": "Bearer mine"})
        client.init()
        assert json.loads(client.call("s1_headers").text)["authorization"] == "Bearer mine"


def test_a_credential_goes_with_calls_when_declared_so(echo):
    """G1.39, C28"""
    declared = config(("s1", echo.url, {"credential": "env:TOKEN", "credential_use": ["discovery", "call"]}))
    with gateway(declared, env={"TOKEN": "Bearer ours"}) as process:
        client = process.client(headers={"authorization": "Bearer mine"})
        client.init()
        assert json.loads(client.call("s1_headers").text)["authorization"] == "Bearer ours"


def test_an_unknown_resource_is_not_found(client):
    """C17, C16"""
    answer = client.rpc("resources/read", {"uri": "nobody://x"})
    assert answer.error == {"code": -32002, "message": "Resource not found", "data": {"uri": "nobody://x"}}


def test_an_answer_to_nothing_is_refused(portico, client):
    """G1.95"""
    assert client.respond(0).status == 400
    assert client.respond("no ticket").status == 400
    asking, stranger = portico.client(), portico.client()
    asking.init(capabilities={"elicitation": {}})
    stranger.init()
    call = asking.begin_call("s1_elicit")
    question = call.wait_for("elicitation/create")
    refused = stranger.respond(question["id"], {"action": "accept", "content": {"name": "Mallory"}})
    assert (refused.status, refused.error["message"]) == (403, "session mismatch")
    assert asking.respond(question["id"], {"action": "decline"}).status == 202
    assert json.loads(call.answer().text) == {"action": "decline"}


def test_a_backends_question_keeps_the_type_of_its_id(echo, portico):
    """G1.95"""
    client = portico.client()
    client.on["elicitation/create"] = lambda _: {"action": "cancel"}
    client.init(capabilities={"elicitation": {}})
    echo.control("reset_log")
    assert client.call("s1_two_questions").status == 200
    answered = [entry["answered_request"] for entry in echo.seen() if entry["answered_request"]]
    assert answered == [{"id": n, "method": "elicitation/create"} for n in (0, 1)]


def test_progress_comes_before_the_result(client):
    """G1.23"""
    answer = client.call("s1_slow", {"seconds": 0.3, "steps": 3}, meta={"progressToken": "p"})
    progress, result = answer.messages[:-1], answer.messages[-1]
    assert len(progress) == 3
    assert {note.message["params"]["progressToken"] for note in progress} == {"p"}
    assert progress[0].at < result.at


def test_a_question_of_the_backend_reaches_the_client_and_its_answer_the_backend(portico):
    """G1.95"""
    client = portico.client()
    client.on["elicitation/create"] = lambda _: {"action": "accept", "content": {"n": 1}}
    client.init(capabilities={"elicitation": {}})
    assert json.loads(client.call("s1_two_questions").text)


def test_unknown_tools_are_refused_in_the_clients_own_form(portico):
    """G1.26, C1"""
    new, old = portico.client(), portico.client()
    new.init()
    old.init("2024-11-05")
    assert new.call("nope").error == {"code": -32602, "message": "Unknown tool: nope"}
    assert old.call("nope").result == {
        "content": [{"type": "text", "text": "Error: Tool 'nope' not found"}],
        "isError": True,
    }


def test_prompts_resources_templates_and_completion_are_routed(client):
    """G1.31"""
    assert client.rpc("prompts/get", {"name": "s1_greet", "arguments": {"name": "Ann"}}).result["messages"]
    assert client.rpc("resources/read", {"uri": "echo://static/one"}).result["contents"]
    assert client.rpc("resources/read", {"uri": "echo://item/7"}).result["contents"]
    assert client.rpc("resources/read", {"uri": "nobody://x"}).error["code"] == -32002
    reference = {"type": "ref/prompt", "name": "s1_greet"}
    answer = client.rpc("completion/complete", {"ref": reference, "argument": {"name": "name", "value": "a"}})
    assert "completion" in answer.result


def test_a_2025_03_26_session_may_send_batches(portico):
    """C30"""
    client = portico.client()
    client.init("2025-03-26")
    body = (
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]'
    )
    assert json.loads(client.post(body).raw) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


@pytest.mark.parametrize(
    ("wish", "version", "as_result"),
    [
        ("result", "2025-11-25", True),
        ("error", "2024-11-05", False),
        ("auto", "2024-11-05", True),
        ("auto", "2025-03-26", False),
    ],
)
def test_the_form_for_unknown_tools_may_be_declared(wish, version, as_result):
    """C1"""
    with gateway(config(compat={"unknown_tool": wish})) as process:
        client = process.client()
        client.init(version)
        assert ("result" in client.call("nope").message) is as_result


@pytest.mark.parametrize(("wish", "kind"), [("sse", "text/event-stream"), ("json", "application/json")])
def test_the_form_of_answers_may_be_declared(wish, kind):
    """C3"""
    with gateway(config(compat={"response": wish})) as process:
        for version in ("2024-11-05", "2025-11-25"):
            client = process.client()
            assert client.init(version).headers["content-type"] == kind
            assert client.rpc("tools/list").headers["content-type"] == kind
