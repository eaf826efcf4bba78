"""Between the eras nothing is lost: what neither side has to change stays as it was written."""

import json

import pytest

from portico.protocol import jsonrpc, translate
from portico.protocol.jsonrpc import Message
from portico.protocol.modern import SERVER_KEY

ENVELOPE = translate.envelope({"name": "c"}, {"roots": {"listChanged": True}, "tasks": {}}, "info")
SERVER = {"name": "gw", "version": "1"}
ODD = '{"n":1.10,"e":1E5,"big":123456789012345678901234567890,"far":1e400,"u":"\\u00e4ä\\ud800","deep":[[ {} ]]}'


def message(text):
    found = jsonrpc.read(text)
    assert isinstance(found, Message)
    return found


def request(params):
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params},"extra":1.50}}'


def answer(member):
    return message(f'{{"jsonrpc":"2.0","id":"x","extra":0,{member}}}')


def inner(body, *path):
    """The text of a member, as it is written."""
    text = body.decode()
    members = jsonrpc.members(text)[0]
    for name in path[:-1]:
        members = jsonrpc.members(text, members[name].start)[0]
    member = members[path[-1]]
    return text[member.start : member.end]


def test_a_legacy_request_gets_the_envelope_and_keeps_all_it_has():
    """G1.100"""
    text = request(f'{{"arguments":{ODD},"com.x/y":{ODD},"_meta":{{"progressToken":7,"com.x/z":{ODD}}}}}')
    body = translate.to_modern(text, "p-1", ENVELOPE, inputResponses={"a": {}}, requestState=None)
    assert inner(body, "params", "arguments") == ODD
    assert inner(body, "params", "com.x/y") == ODD
    assert inner(body, "params", "_meta", "com.x/z") == ODD
    assert inner(body, "extra") == "1.50"
    found = json.loads(body)
    assert found["id"] == "p-1"
    assert found["params"]["inputResponses"] == {"a": {}}
    assert "requestState" not in found["params"]
    assert found["params"]["_meta"].keys() - {"com.x/z"} == {"progressToken", *ENVELOPE}
    capabilities = found["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert capabilities == {"roots": {}}


def test_a_modern_request_loses_the_envelope_and_nothing_else():
    """G1.100"""
    envelope = ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in ENVELOPE.items())
    meta = f'{{{envelope},"com.x/z":{ODD},"progressToken":"mine"}}'
    text = request(f'{{"arguments":{ODD},"_meta":{meta},"requestState":"s","inputResponses":{{}}}}')
    body = translate.to_legacy(text, "up", "token")
    assert inner(body, "params", "arguments") == ODD
    assert inner(body, "params", "_meta", "com.x/z") == ODD
    found = json.loads(body)
    assert found["params"].keys() == {"arguments", "_meta"}
    assert found["params"]["_meta"].keys() == {"com.x/z", "progressToken"}
    assert (found["id"], found["params"]["_meta"]["progressToken"]) == ("up", "token")
    bare = translate.to_legacy(request(f'{{"name":"a","_meta":{{{envelope}}}}}'), 1, 2)
    assert json.loads(bare)["params"] == {"name": "a"}


def test_the_round_trip_of_a_request_is_the_request():
    """G1.100"""
    text = request(f'{{"name":"a","arguments":{ODD},"_meta":{{"com.x/z":{ODD}}}}}')
    there = translate.to_modern(text, "p", ENVELOPE).decode()
    assert translate.to_legacy(there, 1, 0).decode() == text


@pytest.mark.parametrize("meta", ['{"a":1,"a":2}', "null", "[]", "{}", '"text"'])
def test_a_meta_of_an_odd_shape_is_no_obstacle(meta):
    """G1.100"""
    text = request(f'{{"name":"a","_meta":{meta}}}')
    there = json.loads(translate.to_modern(text, "p", ENVELOPE))
    assert there["params"]["_meta"].items() >= ENVELOPE.items()
    back = json.loads(translate.to_legacy(text, "p", 1))
    assert back["params"].get("_meta", {"a": 2}) == {"a": 2}


def test_a_legacy_result_becomes_a_modern_one_with_all_it_has():
    """G1.100, G1.57"""
    given = answer(f'"result":{{"contents":{ODD},"com.x/y":{ODD},"_meta":{{"com.x/z":{ODD}}}}}')
    body = translate.result_to_modern(given, "resources/read", 9, SERVER)
    assert inner(body, "result", "contents") == ODD
    assert inner(body, "result", "com.x/y") == ODD
    assert inner(body, "result", "_meta", "com.x/z") == ODD
    result = json.loads(body)["result"]
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")
    assert result["_meta"][SERVER_KEY] == SERVER
    plain = json.loads(translate.result_to_modern(answer('"result":{}'), "tools/call", 9, SERVER))
    assert plain == {
        "jsonrpc": "2.0",
        "id": 9,
        "result": {"resultType": "complete", "_meta": {SERVER_KEY: SERVER}},
    }


@pytest.mark.parametrize("result", ["null", "[1]", '"text"', '{"_meta":null}', '{"_meta":[],"_meta":{}}'])
def test_a_result_of_an_odd_shape_still_becomes_an_answer(result):
    """G1.100"""
    given = answer(f'"result":{result}')
    modern = json.loads(translate.result_to_modern(given, "tools/call", "i", SERVER))
    assert modern["result"]["_meta"][SERVER_KEY] == SERVER
    assert json.loads(translate.result_to_legacy(given, "tools/call", "i"))["id"] == "i"


def test_a_modern_result_becomes_a_legacy_one():
    """G1.100"""
    text = f'"result":{{"resultType":"complete","ttlMs":5,"cacheScope":"public","contents":{ODD},"com.x/y":{ODD}}}'
    body = translate.result_to_legacy(answer(text), "resources/read", "i")
    assert inner(body, "result", "contents") == ODD
    assert inner(body, "result", "com.x/y") == ODD
    assert json.loads(body)["result"].keys() == {"contents", "com.x/y"}


STRUCTURED = {
    "a list": "[1.10, 2]",
    "text": '"\\u00e4"',
    "a number": "1.10",
    "false": "false",
    "null": "null",
}


@pytest.mark.parametrize("value", STRUCTURED.values(), ids=STRUCTURED)
def test_structured_content_that_is_no_object_is_put_into_one_for_legacy_clients(value):
    """G1.100"""
    body = translate.result_to_legacy(answer(f'"result":{{"structuredContent":{value}}}'), "tools/call", 1)
    assert inner(body, "result", "structuredContent", "result") == value


def test_structured_content_that_is_an_object_stays():
    """G1.100"""
    body = translate.result_to_legacy(answer(f'"result":{{"structuredContent":{ODD}}}'), "tools/call", 1)
    assert inner(body, "result", "structuredContent") == ODD


def test_the_schema_of_wrapped_content_is_wrapped_alike():
    """G1.100"""
    schema = {
        "$schema": "s",
        "$defs": {"d": {"type": "string"}},
        "type": "array",
        "items": {"$ref": "#/$defs/d"},
    }
    tool = {"name": "t", "outputSchema": schema, "x": 1}
    assert translate.tool_to_legacy(tool) == {
        "name": "t",
        "x": 1,
        "outputSchema": {
            "$schema": "s",
            "$defs": {"d": {"type": "string"}},
            "type": "object",
            "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/d"}}},
            "required": ["result"],
        },
    }
    for same in ({"name": "t"}, {"name": "t", "outputSchema": {"type": "object"}}):
        assert translate.tool_to_legacy(same) == same


@pytest.mark.parametrize(
    ("code", "method", "modern", "legacy"),
    [
        (-32002, "resources/read", -32602, -32002),
        (-32602, "resources/read", -32602, -32002),
        (-32602, "tools/call", -32602, -32602),
        (-32050, "tools/call", -32050, -32050),
    ],
)
def test_errors_keep_their_data_and_get_the_code_of_the_era(code, method, modern, legacy):
    """G1.100, C17"""
    given = answer(f'"error":{{"code":{code},"message":"m","data":{ODD},"more":{ODD}}}')
    there = translate.result_to_modern(given, method, 1, SERVER)
    back = translate.result_to_legacy(given, method, 1)
    assert (inner(there, "error", "code"), inner(back, "error", "code")) == (str(modern), str(legacy))
    for body in (there, back):
        assert inner(body, "error", "data") == inner(body, "error", "more") == ODD


def test_addresses_that_must_be_visited_become_questions():
    """G1.100: -32042 is a legacy way to ask, and the answer to it is a new call."""
    asked = {"mode": "url", "url": "https://x", "message": "Go", "elicitationId": "e1"}
    error = {"code": -32042, "message": "m", "data": {"elicitations": [asked, asked]}}
    questions = translate.url_questions(answer(f'"error":{json.dumps(error)}'))
    wanted = {"mode": "url", "url": "https://x", "message": "Go"}
    assert questions == {f"url-{n}": {"method": "elicitation/create", "params": wanted} for n in range(2)}


@pytest.mark.parametrize(
    "error",
    [
        {"code": -32042},
        {"code": -32042, "data": {}},
        {"code": -32042, "data": {"elicitations": []}},
        {"code": -32042, "data": {"elicitations": ["x"]}},
        {"code": -32000, "data": {"elicitations": [{}]}},
        "text",
        None,
    ],
)
def test_an_error_that_names_no_address_stays_an_error(error):
    """G1.100"""
    assert translate.url_questions(answer(f'"error":{json.dumps(error)}')) is None
