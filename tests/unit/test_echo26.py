"""The modern echo server itself, checked by the official SDK's client and by the raw one."""

import base64
import json

import anyio
import mcp
import pytest
from mcp import types
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged

from tests.support import MODERN, Client, Echo, echo26_server, eventually

ASKS = {"elicitation": {}}
LIST_CHANGED = "notifications/tools/list_changed"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


@pytest.fixture
def echo():
    with echo26_server() as server:
        yield server


@pytest.fixture
def client(echo: Echo):
    return Client(echo.url)


async def answering(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": params.message})


async def test_sdk_client_discovers_lists_calls_and_answers(echo: Echo):
    with anyio.fail_after(10):
        async with mcp.Client(echo.url, elicitation_callback=answering) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            said = await client.call_tool("echo", {"text": "grüß 你"})
            one_by_one = await client.call_tool("two_questions")
            at_once = await client.call_tool("both_questions")
            region = await client.call_tool("region", {"region": "grün", "count": 3, "plain": "p"})
            version = client.protocol_version
    assert version == MODERN
    assert {"echo", "region", "both_questions"} <= tools
    assert "resumable" not in tools
    assert said.content[0].text == "grüß 你"
    names = [answer["content"]["name"] for answer in json.loads(one_by_one.content[0].text)]
    assert names == ["First name?", "Last name?"]
    assert one_by_one.content == at_once.content
    seen = json.loads(region.content[0].text)["headers"]
    assert seen == {"mcp-param-region": "=?base64?Z3LDvG4=?=", "mcp-param-count": "3"}


async def test_sdk_client_hears_what_it_listens_for(echo: Echo):
    uri = "echo://static/one"
    with anyio.fail_after(10):
        async with (
            mcp.Client(echo.url) as client,
            client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as changes,
        ):
            assert echo.control("update_resource", uri="echo://item/1")["sent"] == 0
            assert echo.control("notify", method="notifications/prompts/list_changed")["sent"] == 0
            assert echo.control("update_resource", uri=uri)["sent"] == 1
            assert await anext(changes) == ResourceUpdated(uri=uri)
            echo.control("notify", method=LIST_CHANGED)
            assert await anext(changes) == ToolsListChanged()
            echo.control("close_streams")
            assert [change async for change in changes] == []
    eventually(lambda: echo.counters()["listen_streams_open"] == 0)


def test_a_round_ends_with_what_is_needed_and_the_next_one_brings_it(client: Client):
    need = client.call26("elicit", capabilities=ASKS).result
    assert need["resultType"] == "input_required"
    (asked,) = need["inputRequests"].values()
    assert asked["method"] == "elicitation/create"
    params = {
        "name": "elicit",
        "arguments": {},
        "inputResponses": {key: {"action": "decline"} for key in need["inputRequests"]},
        "requestState": need["requestState"],
    }
    answer = client.rpc26("tools/call", params, capabilities=ASKS)
    assert json.loads(answer.text) == {"action": "decline"}
    changed = client.rpc26("tools/call", params | {"requestState": "?"}, capabilities=ASKS)
    assert (changed.status, changed.error["code"]) == (400, -32602)
    lacking = client.call26("elicit")
    assert (lacking.status, lacking.error["code"]) == (400, -32021)


def test_what_came_in_is_kept_to_the_byte(echo: Echo, client: Client):
    body = json.loads(base64.b64decode(client.call26("body", {"ß": 2**70}).text))
    assert body["params"]["arguments"] == {"ß": 2**70}
    (seen,) = echo.seen("tools/call")
    assert json.loads(seen["body"]) == body
    assert (seen["headers"]["mcp-name"], seen["headers"]["mcp-method"]) == ("body", "tools/call")
    assert json.loads(client.call26("headers").text)["mcp-protocol-version"] == MODERN


@pytest.mark.parametrize(
    "headers",
    [{"Mcp-Method": "tools/list"}, {"Mcp-Method": None}, {"Mcp-Name": "other"}, {"Mcp-Param-Region": "x"}],
    ids=["method", "no method", "name", "parameter"],
)
def test_headers_that_do_not_say_what_the_body_says_are_refused(client: Client, headers: dict[str, str]):
    answer = client.call26("region", {"region": "eu"}, headers={"Mcp-Param-Region": "eu"} | headers)
    assert (answer.status, answer.error["code"]) == (400, -32020)


def test_methods_of_the_other_era_are_unknown(client: Client):
    for method in ("ping", "resources/subscribe", "logging/setLevel", "initialize", "nonsense"):
        answer = client.rpc26(method)
        assert (answer.status, answer.error["code"]) == (404, -32601)


def test_results_say_how_long_they_are_good(echo: Echo, client: Client):
    assert client.rpc26("tools/list").result["ttlMs"] == 0
    echo.control("cache", method="tools/list", ttlMs=5000, cacheScope="public")
    listed = client.rpc26("tools/list").result
    assert (listed["ttlMs"], listed["cacheScope"]) == (5000, "public")
    assert client.rpc26("prompts/list").result["ttlMs"] == 0


def test_a_subscription_begins_with_what_is_honoured_and_may_end_abruptly(echo: Echo, client: Client):
    stream = client.begin26("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
    first = stream.wait_for(ACKNOWLEDGED)
    assert first["params"] == {"_meta": {SUBSCRIPTION: "s"}, "notifications": {"toolsListChanged": True}}
    echo.control("add_tool", name="fresh")
    echo.control("notify", method=LIST_CHANGED)
    assert stream.wait_for(LIST_CHANGED)["params"]["_meta"] == {SUBSCRIPTION: "s"}
    assert "fresh" in [tool["name"] for tool in client.rpc26("tools/list").result["tools"]]
    echo.control("close_streams", gracefully=False)
    assert stream.answer().message is None


def test_a_call_ends_when_its_client_hangs_up(echo: Echo, client: Client):
    params = {"name": "slow", "arguments": {"seconds": 30, "steps": 60}, "_meta": {"progressToken": 1}}
    call = client.begin26("tools/call", params, id="mine")
    call.wait_for("notifications/progress")
    assert echo.counters()["calls_running"] == 1
    call.close()
    eventually(lambda: echo.counters()["stopped"] == ["mine"] and not echo.counters()["calls_running"])


def test_logs_go_only_to_those_who_ask(client: Client):
    quiet = client.call26("log", {"level": "error"})
    asked = client.call26("log", {"level": "error"}, meta={"io.modelcontextprotocol/logLevel": "warning"})
    assert [len(answer.messages) for answer in (quiet, asked)] == [1, 2]


def test_the_era_changes_at_run_time(echo: Echo, client: Client):
    """As when a server is replaced by an older one: what was known of it is wrong."""
    stream = client.begin26("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    stream.wait_for(ACKNOWLEDGED)
    assert Client(echo.url).init(initialized=False).status == 400
    echo.control("era", value="legacy")
    stream.wait_closed()
    refused = client.rpc26("tools/list")
    assert (refused.status, refused.error["code"]) == (400, -32600)
    legacy = Client(echo.url)
    legacy.init()
    assert legacy.call("echo", {"text": "hi"}).text == "hi"
    echo.control("era", value="both")
    assert client.call26("echo", {"text": "hi"}).text == "hi"
    assert Client(echo.url).init().status == 200
