"""Who is told of a change, of which change, and how often."""

import pytest

from tests.support import Place, config, echo_server, eventually, gateway, reasons

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
RESOURCES = "notifications/resources/list_changed"


@pytest.fixture(scope="module")
def portico(echo):
    with gateway(config(("s1", echo.url, {}))) as process:
        eventually(lambda: Place.chosen != "serve" or echo.counters()["get_streams_open"])
        yield process


def listening(portico, version="2025-11-25"):
    client = portico.client()
    client.init(version)
    return client.stream()


def names(client, listing="tools"):
    return [item["name"] for item in client.rpc(f"{listing}/list").result[listing]]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"mcp-session-id": None}, 400),
        ({"mcp-session-id": "nobody's"}, 404),
        ({"accept": None}, 406),
        ({"accept": "application/json"}, 406),
        ({"accept": "text/*"}, 200),
        ({"mcp-protocol-version": "1999-01-01"}, 400),
    ],
)
def test_a_stream_is_for_those_with_a_session_who_take_one(client, headers, status):
    """G1.87, C33"""
    with client.stream(headers=headers) as stream:
        assert stream.status == status
        kind = "text/event-stream" if status == 200 else "application/json"
        assert stream.headers.get_content_type() == kind


def test_every_client_is_told_once_of_each_change(echo, portico, client):
    """G1.88"""
    streams = [listening(portico, version) for version in ("2025-11-25", "2025-03-26", "2024-11-05")]
    for number in (1, 2):
        echo.control("add_tool", name=f"told_{number}")
        echo.control("notify")
        portico.look()
        for stream in streams:
            eventually(lambda stream=stream, number=number: len(stream.all()) >= number)
        assert f"s1_told_{number}" in names(client)
        assert [stream.all() for stream in streams] == [[{"jsonrpc": "2.0", "method": TOOLS}] * number] * 3
    for stream in streams:
        stream.close()


def test_nobody_is_told_of_a_change_that_is_none(echo, portico):
    """G1.91"""
    with listening(portico) as stream:
        echo.control("reset_log")
        for notice in (TOOLS, PROMPTS, RESOURCES):
            echo.control("notify", method=notice)
        portico.look()
        eventually(lambda: echo.seen("tools/list"))
        echo.control("add_tool", name="a_real_change")
        echo.control("notify")
        portico.look()
        stream.wait_for(TOOLS)
        assert stream.all() == [{"jsonrpc": "2.0", "method": TOOLS}]


def test_prompts_and_resources_have_notices_of_their_own(echo, portico, client):
    """G1.89, C31"""
    said = client.init().result["capabilities"]
    assert all(said[kind]["listChanged"] for kind in ("tools", "prompts", "resources"))
    with listening(portico) as stream:
        echo.control("add_prompt", name="told")
        echo.control("notify", method=PROMPTS)
        portico.look()
        stream.wait_for(PROMPTS)
        assert "s1_told" in names(client, "prompts")
        echo.control("add_resource", uri="echo://told")
        echo.control("notify", method=RESOURCES)
        portico.look()
        stream.wait_for(RESOURCES)
        assert "told" in names(client, "resources")
        assert [message["method"] for message in stream.all()] == [PROMPTS, RESOURCES]


def test_what_no_backend_can_do_is_not_claimed():
    """C31, G1.89"""
    with echo_server() as echo:
        for name in ("logging", "completions", "resources.subscribe"):
            echo.control("drop_capability", name=name)
        with gateway(config(("s1", echo.url, {}))) as process:
            said = process.client().init().result["capabilities"]
            assert set(said) == {"tools", "prompts", "resources"}
            assert "subscribe" not in said["resources"]
    with echo_server() as echo, gateway(config(("s1", echo.url, {}))) as process:
        said = process.client().init().result["capabilities"]
        assert set(said) == {"tools", "prompts", "resources", "logging", "completions"}
        assert said["resources"]["subscribe"] is True


@pytest.mark.serve_only(reasons.ITS_FILE)
def test_a_backend_that_comes_or_goes_is_a_change(echo):
    """G1.90, G1.32"""
    with gateway(config()) as process:
        client = process.client()
        client.init()
        with client.stream() as stream:
            process.write(config(("late", echo.url, {})))
            stream.wait_for(TOOLS)
            assert names(client)
            told = len(stream.all(TOOLS))
            process.write(config())
            eventually(lambda: len(stream.all(TOOLS)) == told + 1)
            assert names(client) == []


def test_a_stream_ends_with_its_session(portico):
    """G1.28, G1.87"""
    client = portico.client()
    client.init()
    stream = client.stream()
    assert client.delete().status == 200
    stream.wait_closed()


@pytest.mark.serve_only(reasons.ITS_FILE)
def test_a_narrower_virtual_server_is_a_change_for_those_who_use_it(echo):
    """G0.33, G1.56"""

    def declared(*tools):
        return config(("s1", echo.url, {}), virtual_servers={"dev": {"tools": list(tools)}})

    with gateway(declared("s1_echo", "s1_fail")) as process:
        client = process.client(headers={"x-mcp-virtualserver": "dev"})
        client.init()
        assert names(client) == ["s1_echo", "s1_fail"]
        with client.stream() as stream:
            process.write(declared("s1_echo"))
            stream.wait_for(TOOLS)
            assert names(client) == ["s1_echo"]
            assert client.call("s1_fail").error["message"] == "Unknown tool: s1_fail"


def test_a_stream_says_where_it_can_be_taken_up_and_when():
    """G1.94"""
    with gateway(config(limits={"stream_s": 1})) as process:
        client = process.client()
        client.init()
        with client.stream() as stream:
            stream.wait_closed()
            first, last = stream.messages[0], stream.messages[-1]
            assert first.event_id and first.message is None
            assert last.event_id and last.retry
        assert client.stream(last.event_id).status == 200
