"""What a legacy backend may ask of a modern client."""

import json

from tests.support import config, echo26_server, echo_server, gateway


def test_a_client_is_asked_only_what_it_said_it_can_answer():
    """G1.100"""
    with echo_server() as echo, gateway(config(("s1", echo.url, {}))) as process:
        client = process.client()
        refused = client.call26("s1_elicit", {"force": True}).result
        assert refused["resultType"] == "complete"
        assert "-32601" in json.dumps(refused)
        asked = client.call26("s1_elicit", capabilities={"elicitation": {}}).result
        assert asked["resultType"] == "input_required"


def test_a_legacy_client_without_a_stream_is_told_that_it_cannot_be_asked():
    with echo26_server() as echo, gateway(config(("new", echo.url, {}))) as process:
        client = process.client()
        client.init(capabilities={"elicitation": {}})
        answer = client.call("new_elicit", headers={"accept": "application/json"})
        assert answer.error["code"] == -32600
        assert client.call("new_echo", {"text": "a"}, headers={"accept": "application/json"}).text == "a"


def test_a_backend_that_is_not_ready_is_asked_again_with_its_state():
    with echo26_server() as echo, gateway(config(("new", echo.url, {}))) as process:
        client = process.client()
        client.init()
        assert client.call("new_later").text == "ready at last"
        assert len(echo.seen("tools/call")) == 4
