"""What a legacy backend may ask of a modern client."""

import json

from tests.support import config, echo_server, gateway


def test_a_client_is_asked_only_what_it_said_it_can_answer():
    """G1.100"""
    with echo_server() as echo, gateway(config(("s1", echo.url, {}))) as process:
        client = process.client()
        refused = client.call26("s1_elicit", {"force": True}).result
        assert refused["resultType"] == "complete"
        assert "-32601" in json.dumps(refused)
        asked = client.call26("s1_elicit", capabilities={"elicitation": {}}).result
        assert asked["resultType"] == "input_required"
