"""`requestState`: what a modern client carries from round to round of a call that a legacy backend asks in.

Whatever is not the state of this very call, from whoever began it, in time and for the first time, is refused, and the
call itself goes on as if nothing had been tried.
"""

import json
import threading

import pytest

from tests.support import Client, config, echo_server, eventually, gateway, reasons

ASKS = {"elicitation": {}, "sampling": {}, "roots": {}}
ANSWER = {"action": "accept", "content": {"name": "Anna"}}


@pytest.fixture(scope="module")
def portico(echo):
    with gateway(config(("s1", echo.url, {}), limits={"keepalive_s": 2})) as process:
        yield process


@pytest.fixture
def client(portico):
    return portico.client()


def begun(client, tool="s1_elicit", arguments=None, **options):
    """The parameters of the round that comes after the first one."""
    need = client.call26(tool, arguments, capabilities=ASKS, **options).result
    assert need["resultType"] == "input_required"
    return following(need, tool, arguments)


def following(need, tool, arguments=None):
    return {
        "name": tool,
        "arguments": arguments or {},
        "inputResponses": dict.fromkeys(need["inputRequests"], ANSWER),
        "requestState": need["requestState"],
    }


def go_on(client, params, **options):
    return client.rpc26("tools/call", params, capabilities=ASKS, **options)


def assert_refused(answer, rpc_id):
    assert (answer.status, answer.error["code"], answer.message["id"]) == (400, -32602, rpc_id)
    assert "requestState" in answer.error["message"]


def changed(text, at):
    return text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]


def places(state):
    """One character of every part."""
    mark, body, tag = (part for part in state.split("."))
    starts = {"mark": 0, "body": len(mark) + 1, "tag": len(mark) + len(body) + 2}
    ends = {"mark": len(mark), "body": len(mark) + 1 + len(body), "tag": len(state)}
    found = {f"{name}, first": start for name, start in starts.items()}
    found |= {f"{name}, last": ends[name] - 1 for name in ends}
    found |= {f"{name}, middle": (starts[name] + ends[name]) // 2 for name in starts}
    assert len(tag) >= 32
    return found | {"first dot": len(mark), "second dot": len(mark) + 1 + len(body)}


def test_a_changed_state_is_refused_and_the_call_goes_on(client, echo):
    """G1.100"""
    params = begun(client)
    state = params["requestState"]
    for name, at in places(state).items():
        answer = go_on(client, params | {"requestState": changed(state, at)}, id=name)
        assert_refused(answer, name)
    body = state.split(".")
    for odd in (
        state[:-1],
        state + "0",
        state.upper(),
        state + "\n",
        ".".join([body[0], body[1]]),
        ".".join([body[0], "", body[2]]),
        ".".join([*body, body[2]]),
        "portico.",
        "portico..",
        "portico.e30." + "0" * 64,
    ):
        assert_refused(go_on(client, params | {"requestState": odd}, id="odd"), "odd")
    assert json.loads(go_on(client, params).text) == ANSWER


FOREIGN = {
    "empty": "",
    "somebody else's": "eyJhbGciOiJIUzI1NiJ9.e30.xyz",
    "not ASCII": "portico.ü.ü",
    "half a surrogate pair": "portico.\ud800.\udfff",
    "half a surrogate pair, foreign": "\ud800",
    "huge": "portico." + "A" * 2_000_000,
    "huge and dotted": "portico." + "." * 500_000,
    "a number": 5,
    "an object": {"portico.": 1},
    "a list": ["portico."],
    "true": True,
}


@pytest.mark.parametrize("state", FOREIGN.values(), ids=FOREIGN)
def test_a_state_of_nobody_is_refused(client, state):
    """G1.100"""
    params = {"name": "s1_elicit", "arguments": {}, "inputResponses": {}, "requestState": state}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": ASKS,
    }
    body = {"jsonrpc": "2.0", "id": "f", "method": "tools/call", "params": params | {"_meta": meta}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "s1_elicit"}
    assert_refused(client.post(json.dumps(body).encode(), headers, rpc_id="f"), "f")


def test_a_state_is_worth_nothing_to_others_and_for_other_calls(client):
    """G1.100"""
    mine = {"Authorization": "Bearer mine"}
    params = begun(client, arguments={"message": "Who?"}, headers=mine)
    for name, answer in {
        "another": go_on(client, params, headers={"Authorization": "Bearer other"}, id="another"),
        "nobody": go_on(client, params, id="nobody"),
        "tool": go_on(client, params | {"name": "s1_two_questions"}, headers=mine, id="tool"),
        "arguments": go_on(client, params | {"arguments": {"message": "?"}}, headers=mine, id="arguments"),
        "no arguments": go_on(client, params | {"arguments": {}}, headers=mine, id="no arguments"),
        "more": go_on(client, params | {"more": 1}, headers=mine, id="more"),
    }.items():
        assert_refused(answer, name)
    prompt = client.rpc26(
        "prompts/get",
        {"name": "s1_greet", "arguments": {}, "requestState": params["requestState"], "inputResponses": {}},
        headers=mine,
        id="prompt",
    )
    assert_refused(prompt, "prompt")
    assert json.loads(go_on(client, params, headers=mine).text) == ANSWER


def test_a_round_is_gone_through_once(client):
    """G1.100: a state is of no use when the call has gone on, or has ended."""
    first = begun(client, "s1_two_questions")
    second = following(go_on(client, first).result, "s1_two_questions")
    again = go_on(client, first, id="again")
    assert_refused(again, "again")
    assert "gone on" in again.error["message"]
    assert json.loads(go_on(client, second).text) == [ANSWER, ANSWER]
    for params in (first, second):
        over = go_on(client, params, id="over")
        assert_refused(over, "over")
        assert "ended" in over.error["message"]


def test_of_many_at_once_with_one_state_one_goes_on(client, echo):
    """G1.100: and none of the others takes its answer away, or hangs."""
    params = begun(client, "s1_two_questions")
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(go_on(client, params))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [answer for answer in answers if answer.status == 200]
    assert [answer.status for answer in answers if answer not in won] == [400] * 7
    last = go_on(client, following(won[0].result, "s1_two_questions"))
    assert json.loads(last.text) == [ANSWER, ANSWER]


ODD_RESPONSES = {
    "a list": [],
    "nothing": None,
    "text": "yes",
    "a response that is text": {"elicitation-0": "yes"},
    "a response that is null": {"elicitation-0": None},
}


@pytest.mark.parametrize("responses", ODD_RESPONSES.values(), ids=ODD_RESPONSES)
def test_responses_of_odd_shapes_are_refused_and_the_call_goes_on(client, responses):
    """G1.100"""
    params = begun(client)
    refused = go_on(client, params | {"inputResponses": responses}, id="odd")
    assert (refused.status, refused.error["code"], refused.message["id"]) == (400, -32602, "odd")
    assert json.loads(go_on(client, params).text) == ANSWER


def test_what_is_not_answered_is_asked_again(client):
    """G1.100"""
    params = begun(client)
    asked = go_on(client, params | {"inputResponses": {"unknown": ANSWER}}).result
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"].keys() == params["inputResponses"].keys()
    assert json.loads(go_on(client, following(asked, "s1_elicit")).text) == ANSWER


def test_an_address_to_visit_first_is_a_question_and_the_next_round_a_new_call(client, echo):
    """G1.100: a legacy backend says it with an error, and keeps nothing of the call."""
    before = echo.counters()["calls"]
    need = client.call26("s1_visit", capabilities=ASKS).result
    (asked,) = need["inputRequests"].values()
    assert asked == {
        "method": "elicitation/create",
        "params": {"mode": "url", "url": "https://example.com/", "message": "Go there"},
    }
    assert echo.counters()["calls_running"] == 0
    params = following(need, "s1_visit")
    assert_refused(go_on(client, params, headers={"Authorization": "Bearer other"}, id="o"), "o")
    assert go_on(client, params).text == "visited"
    assert echo.counters()["calls"] == before + 2


def test_a_call_that_its_client_has_abandoned_ends_after_a_while_however_talkative_the_backend_is():
    """G1.100"""
    with (
        echo_server() as echo,
        gateway(config(("s1", echo.url, {}), limits={"hold_s": 1})) as portico,
    ):
        client = portico.client()
        params = begun(client)
        assert echo.counters()["calls_running"] == 1

        def ended():
            echo.control("log_on_get")
            return not echo.counters()["calls_running"]

        eventually(ended)
        eventually(lambda: len(echo.seen("notifications/cancelled")) == 1)
        eventually(lambda: echo.counters()["deleted_sessions"])
        assert_refused(go_on(client, params, id="late"), "late")
        assert client.call26("s1_echo", {"text": "hi"}).text == "hi"


@pytest.mark.serve_only(reasons.HANGS_UP)
def test_a_client_that_hangs_up_in_a_later_round_cancels_that_call_and_no_other(echo, client):
    """G1.100"""
    other = begun(client)
    params = begun(client, arguments={"seconds": 60})
    echo.control("reset_log")
    running = client.begin26("tools/call", params, capabilities=ASKS)
    eventually(lambda: any(entry["answered_request"] for entry in echo.seen()))
    running.close()
    eventually(lambda: len(echo.seen("notifications/cancelled")) == 1)
    eventually(lambda: echo.counters()["calls_running"] == 1)
    assert_refused(go_on(client, params, id="over"), "over")
    assert json.loads(go_on(client, other).text) == ANSWER


@pytest.mark.serve_only(reasons.SEVERAL)
def test_a_call_goes_on_at_another_process_and_is_given_up_when_its_holder_is_killed(tmp_path):
    """G1.100, G1.92"""
    with echo_server() as echo:
        declared = config(
            ("s1", echo.url, {}), store=f"sqlite:{tmp_path}/shared.db", limits={"keepalive_s": 1}
        )
        with gateway(declared) as holder, gateway(declared) as other:
            client = holder.client()
            first, lost = begun(client, "s1_two_questions"), begun(client)
            second = go_on(Client(other.url), first).result
            done = go_on(Client(other.url), following(second, "s1_two_questions"))
            assert json.loads(done.text) == [ANSWER, ANSWER]
            holder.kill()
            gone = go_on(Client(other.url), lost, id="lost")
            assert gone.error["code"] == -32602
            assert "ended" in gone.error["message"]
            assert Client(other.url).call26("s1_echo", {"text": "hi"}).text == "hi"
