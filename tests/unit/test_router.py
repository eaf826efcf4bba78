"""The router decides, and its decision is a value."""

import json

import pytest

from portico.catalogue import Listing, merge
from portico.protocol import jsonrpc
from portico.router import Answer, Forward, Ignore, Refuse, Spread, UnknownTool, route

OBJECT = {"type": "object"}
CATALOGUE = merge([Listing("s1", "s1_", tools=[{"name": "echo", "inputSchema": OBJECT}])])


def decide(method, params=None, **more):
    message = jsonrpc.read(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, **more}))
    return route(message, CATALOGUE, "session", 0)


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "tools/list", "prompts/list", "resources/templates/list"]
)
def test_what_concerns_no_backend_is_the_gateways_to_answer(method):
    """G1.1, G1.2"""
    assert decide(method, id=1) == Answer(method)


def test_a_call_goes_to_its_backend_without_the_prefix():
    """G1.19, G1.20"""
    decision = decide("tools/call", {"name": "s1_echo"}, id=1)
    assert isinstance(decision, Forward)
    assert decision.backend == "s1"
    assert json.loads(decision.body)["params"] == {"name": "echo"}
    assert decision.headers["x-mcp-tool"] == "echo"


def test_other_messages_are_refused_spread_or_nobodys_business():
    """G1.2, G1.9, G1.26"""
    assert decide("tools/call", {"name": "nope"}, id=1) == UnknownTool("nope")
    assert decide("no/such", id=1).rejection.code == jsonrpc.METHOD_NOT_FOUND
    assert isinstance(decide("tools/call", {"name": "s1_echo"}), Refuse)
    assert isinstance(decide("notifications/cancelled", {"requestId": 1}), Spread)
    assert decide("notifications/initialized") == Ignore()
