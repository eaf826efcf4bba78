"""Generated requests, answers and questions of both eras: each is read, routed and translated, or refused."""

import json

from hypothesis import given
from hypothesis import strategies as st

from portico.catalogue import Listing, merge
from portico.protocol import inbound, jsonrpc, modern, states, translate
from portico.protocol.jsonrpc import Message, Rejection
from portico.relay import readdress
from portico.router import Refuse, route, route_modern
from tests.hostile import HEADERS, JSON, MESSAGE, TEXT

TOOL = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "T"}}},
}
CATALOGUE = merge(
    [
        Listing("old", "old_", [TOOL], [{"name": "greet"}], [{"uri": "echo://static/one"}]),
        Listing("new", "new_", [TOOL], eras=["modern"]),
    ]
)


@given(MESSAGE, HEADERS)
def test_whatever_can_be_read_is_routed_or_refused(body, headers):
    """G1.98, C11"""
    message = inbound.classify(jsonrpc.dumps(body).encode())
    if isinstance(message, Rejection):
        assert message.status == 400
        return
    assert isinstance(message, Message)
    assert modern.is_modern(message, headers) in (True, False)
    envelope = modern.read_envelope(message, headers, frozenset())
    assert not isinstance(envelope, Rejection) or envelope.id == message.id
    for decision in (
        route(message, CATALOGUE, "session", 0),
        *([route_modern(message, CATALOGUE, headers, frozenset())] if message.kind == "request" else []),
    ):
        if isinstance(decision, Refuse) and message.kind == "request":
            assert decision.rejection.id == message.id


@given(st.dictionaries(TEXT, JSON), st.dictionaries(TEXT, JSON))
def test_whatever_can_be_read_is_translated_there_and_back(params, meta):
    """G1.100"""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": meta}}
    text = jsonrpc.dumps(body)
    there = translate.to_modern(text, "up", translate.envelope({"name": "c"}, {}, None)).decode()
    back = json.loads(translate.to_legacy(there, 1, 0))
    kept = {
        key: value for key, value in params.items() if key not in ("_meta", "inputResponses", "requestState")
    }
    bare = {key: value for key, value in meta.items() if key not in modern.ENVELOPE_KEYS}
    assert back["params"] == kept | ({"_meta": bare} if bare else {})
    message = jsonrpc.read(text)
    assert isinstance(message, Message)
    assert states.digest(message)


@given(JSON, st.sampled_from(["tools/call", "resources/read", "tools/list"]))
def test_whatever_a_backend_answers_is_translated_or_told_apart(value, method):
    """G1.100"""
    for member in ("result", "error"):
        answer = jsonrpc.read(jsonrpc.dumps({"jsonrpc": "2.0", "id": 1, member: value}))
        assert isinstance(answer, Message)
        there = json.loads(translate.result_to_modern(answer, method, "i", {"name": "gw"}))
        back = json.loads(translate.result_to_legacy(answer, method, "i"))
        assert there["id"] == back["id"] == "i"
        assert member in there and member in back
        translate.url_questions(answer)


@given(JSON, st.sampled_from(sorted(translate.ASKABLE)))
def test_whatever_a_backend_asks_becomes_a_question(params, method):
    """G1.100"""
    assert translate.question_to_modern(method, params)["method"] == method
    assert isinstance(translate.question_to_legacy(method, params, "e"), dict)


def test_a_question_with_its_progress_token_twice_is_refused():
    """Nobody could say which of them counts."""
    meta = '{"progressToken":1,"progressToken":2}'
    text = f'{{"jsonrpc":"2.0","id":5,"method":"roots/list","params":{{"_meta":{meta}}}}}'
    assert readdress(text.encode(), "session", "s1", 1e12)[1] is None


@given(st.dictionaries(TEXT | st.just("progressToken"), JSON).map(jsonrpc.dumps))
def test_whatever_a_backend_asks_gets_an_id_that_finds_its_way_back(meta):
    """G1.95"""
    text = f'{{"jsonrpc":"2.0","id":5,"method":"roots/list","params":{{"_meta":{meta}}}}}'
    data, asked = readdress(text.encode(), "session", "s1", 1e12)
    assert asked is not None
    found = json.loads(data)
    assert isinstance(found["id"], str)
    assert found["params"]["_meta"].keys() == json.loads(meta).keys()
