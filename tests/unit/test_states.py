"""What a modern client carries from round to round: made, taken back, and nothing else taken for it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.protocol import jsonrpc, states
from portico.protocol.jsonrpc import Message, Rejection
from portico.protocol.states import State

KEY, WHO, NOW = b"k" * 32, "anna", 1_000.5


def call(params, rpc_id=1, method="tools/call"):
    found = jsonrpc.read(json.dumps({"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params}))
    assert isinstance(found, Message)
    return found


CALL = call({"name": "t", "arguments": {"b": 1, "a": [1.5, "ü"]}})
SEALED = states.seal(KEY, State("c1", 3), CALL, WHO, NOW + 0.25)


def test_a_state_comes_back_as_it_was():
    """G1.100"""
    assert states.is_ours(SEALED)
    assert states.unseal(KEY, SEALED, CALL, WHO, NOW) == State("c1", 3)
    again = call(
        {"arguments": {"a": [1.5, "ü"], "b": 1}, "name": "t", "_meta": {"x": 1}, "requestState": "s"}
    )
    assert states.unseal(KEY, SEALED, again, WHO, NOW) == State("c1", 3)


@pytest.mark.parametrize(
    "other",
    [
        {"key": b"j" * 32},
        {"who": "otto"},
        {"who": ""},
        {"now": NOW + 1},
        {"message": call({"name": "u", "arguments": {"b": 1, "a": [1.5, "ü"]}})},
        {"message": call({"name": "t", "arguments": {"b": 1, "a": [1.5, "u"]}})},
        {"message": call({"name": "t", "arguments": {"b": "1", "a": [1.5, "ü"]}})},
        {"message": call({"name": "t", "arguments": {"b": True, "a": [1.5, "ü"]}})},
        {"message": call({"name": "t", "arguments": {"b": 1, "a": [1.5, "ü"]}}, method="prompts/get")},
    ],
    ids=",".join,
)
def test_a_state_is_bound_to_its_call_its_client_and_its_time(other):
    """G1.100"""
    message = other.get("message", CALL)
    found = states.unseal(
        other.get("key", KEY), SEALED, message, other.get("who", WHO), other.get("now", NOW)
    )
    assert isinstance(found, Rejection)
    assert (found.status, found.code, found.id) == (400, -32602, 1)


@given(st.integers(0, len(SEALED) - 1), st.characters())
def test_every_character_counts(at, character):
    """G1.100"""
    text = SEALED[:at] + character + SEALED[at + 1 :]
    if text != SEALED:
        found = states.unseal(KEY, text, CALL, WHO, NOW)
        assert isinstance(found, Rejection) or not states.is_ours(text)


@given(st.text(st.characters(codec=None)))
def test_no_text_is_taken_for_a_state(text):
    """G1.100: half a surrogate pair is a character, too."""
    assert isinstance(states.unseal(KEY, text, CALL, WHO, NOW), Rejection)
    assert isinstance(states.unseal(KEY, f"portico.{text}", CALL, WHO, NOW), Rejection)
    assert isinstance(states.unseal(KEY, f"portico.{text}.{text}", CALL, WHO, NOW), Rejection)
