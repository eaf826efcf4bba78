"""Tools (and one prompt) of the everything server that take more than one round (SEP-2322).

A result of type `input_required` names what the client has to find out; the client calls again with
the answers, and with the state of the round before. That state is sealed by the SDK's
`RequestStateBoundary`: here it is plain text.
"""

import json

from tests.servers.everything_content import text
from tests.servers.everything_tools import takes, tool


def _ask(message, **properties):
    schema = takes(*properties, **properties)
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


def _ask_name(message="What is your name?"):
    return _ask(message, name={"type": "string"})


def _confirm():
    return _ask("Please confirm", ok={"type": "boolean"})


def _sample(prompt, limit):
    messages = [{"role": "user", "content": text(prompt)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": limit}}


def _list_roots():
    return {"method": "roots/list", "params": {}}


def _need(state=None, **requests):
    result = {"resultType": "input_required", "inputRequests": requests}
    return result if state is None else {**result, "requestState": state}


def _given(answers, key, field):
    """A field of an accepted form, or None."""
    answer = answers.get(key)
    content = answer.get("content") if isinstance(answer, dict) else None
    return content.get(field) if isinstance(content, dict) else None


@tool("Greets, once it knows whom")
async def test_input_required_result_elicitation(call):
    name = _given(call.answers, "user_name", "name")
    return f"Hello, {name}!" if name else _need(user_name=_ask_name())


@tool("Asks for input without leaving the response stream")
async def test_streaming_elicitation(call):
    await call.ctx.session.report_progress(0, 1)
    name = _given(call.answers, "user_name", "name")
    return f"Hello, {name}!" if name else _need(user_name=_ask_name())


@tool("Repeats what the client's model said")
async def test_input_required_result_sampling(call):
    said = _given(call.answers, "capital_question", "text")
    return (
        f"Model said: {said}"
        if said
        else _need(capital_question=_sample("What is the capital of France?", 100))
    )


@tool("Counts the client's roots")
async def test_input_required_result_list_roots(call):
    answer = call.answers.get("client_roots")
    if not isinstance(answer, dict):
        return _need(client_roots=_list_roots())
    return f"The client has {len(answer.get('roots', ()))} root(s)."


@tool("Wants its own state back")
async def test_input_required_result_request_state(call):
    if "confirm" in call.answers and call.state == "asked":
        return "state-ok"
    return _need("asked", confirm=_confirm())


@tool("Does not let its state be changed")
async def test_input_required_result_tampered_state(call):
    return "state-ok" if call.state == "asked" else _need("asked", confirm=_confirm())


@tool("Asks three things at once")
async def test_input_required_result_multiple_inputs(call):
    needed = {
        "user_name": _ask_name(),
        "greeting": _sample("Generate a greeting", 50),
        "client_roots": _list_roots(),
    }
    return "Everything is known." if needed.keys() <= call.answers.keys() else _need("asked", **needed)


@tool("Asks two things, one after the other")
async def test_input_required_result_multi_round(call):
    known = json.loads(call.state) if call.state else {}
    for key, field, question in (
        ("step1", "name", "Step 1: What is your name?"),
        ("step2", "color", "Step 2: What is your favorite color?"),
    ):
        known.setdefault(field, _given(call.answers, key, field))
        if not known[field]:
            del known[field]
            return _need(json.dumps(known), **{key: _ask(question, **{field: {"type": "string"}})})
    return f"{known['name']} likes {known['color']}."


@tool("Asks only what the client can answer")
async def test_input_required_result_capabilities(call):
    possible = {"sampling": _sample("Say hello", 50), "elicitation": _ask_name()}
    return _need("asked", **{name: request for name, request in possible.items() if call.client_can(name)})


ROUND_PROMPT = "test_input_required_result_prompt"


def round_prompt(answers):
    context = _given(answers, "user_context", "context")
    if not context:
        return _need(user_context=_ask("What context should the prompt use?", context={"type": "string"}))
    return {"messages": [{"role": "user", "content": text(f"Mind this: {context}")}]}
