"""Every file in events/ through the handler it is named for, as it was built and with the environment declared for it."""

import json

import pytest
import yaml

from tests.functions.replaying import replay
from tests.infrastructure import tools
from tests.support import ROOT, Client, eventually

EVENTS = {path.stem: path for path in (ROOT / "events").glob("*.json")}
EXPECTED = yaml.safe_load((ROOT / "events" / "expected.yaml").read_text(encoding="utf-8"))
ANYTHING = "*"


def guards(name):
    """What there is with tokens only."""
    return name.startswith(("authorizer.", "consent."))


@pytest.fixture(scope="module")
def deployment_tools():
    tools.ensure()


@pytest.fixture(scope="module")
def ready(deployed):
    client = Client(deployed.mcp)
    client.init()
    eventually(lambda: {"old_echo", "new_echo"} <= names(client), 20)
    return deployed


def names(client):
    return {tool["name"] for tool in client.rpc("tools/list").result["tools"]}


def test_every_event_has_its_expectation_and_every_function_has_events():
    assert EVENTS.keys() == EXPECTED.keys()
    assert {name.partition(".")[0] for name in EVENTS} == {
        path.stem for path in (ROOT / "functions").glob("*.py")
    }


def kind(name):
    """What `sam local generate-event` calls it."""
    function = name.partition(".")[0]
    schedules = dict.fromkeys(("discovery", "reaper"), ("cloudwatch", "scheduled-event"))
    return (schedules | {"authorizer": ("apigateway", "request-authorizer")}).get(
        function, ("apigateway", "aws-proxy")
    )


def members(event):
    """Their names, and those of what API Gateway says of the request; headers are the client's own."""
    context = event.get("requestContext", {})
    identity = context.get("identity", {})
    return {
        *event,
        *(f"requestContext.{name}" for name in context),
        *(f"requestContext.identity.{name}" for name in identity),
    }


@pytest.mark.parametrize("name", sorted(name for name in EVENTS if name.endswith(".generated")))
def test_an_event_is_shaped_as_sam_generates_it(deployment_tools, name):
    generated = json.loads(tools.run("sam", "local", "generate-event", *kind(name)))
    assert members(json.loads(EVENTS[name].read_text(encoding="utf-8"))) == members(generated)


def test_an_expectation_can_fail():
    with pytest.raises(AssertionError):
        compare({"a": [{"b": 1}]}, {"a": [{"b": 2}]})
    for wanted in ({"a": {"c": ANYTHING}}, {"a": [1, 2, 3]}, "text", None):
        with pytest.raises(AssertionError):
            compare({"a": [1, 2]}, wanted)


@pytest.mark.parametrize("name", sorted(name for name in EVENTS.keys() & EXPECTED.keys() if not guards(name)))
def test_an_event_is_answered_as_expected(ready, name):
    client = Client(ready.mcp)
    client.init()
    answered_as_expected(ready, name, "{session}", client.session)


@pytest.mark.parametrize("name", sorted(filter(guards, EVENTS.keys() & EXPECTED.keys())))
def test_an_event_is_judged_as_expected(guarded, issuer, name):
    answered_as_expected(guarded, name, "{token}", issuer.token())


def answered_as_expected(process, name, place, value):
    event = json.loads(EVENTS[name].read_text(encoding="utf-8").replace(place, value))
    wanted = json.loads(json.dumps(EXPECTED[name]).replace(place, value))
    endless = wanted.get("endless", False)
    found = replay(process, name.partition(".")[0], event, endless=endless)
    assert (found.status, found.fails) == (wanted.get("status"), wanted.get("fails")), found
    compare(found.headers, wanted.get("headers", {}))
    if not endless and not found.fails:
        compare(found.body, wanted["body"])


def compare(found, wanted):
    """Whether it has at least what is wanted; a list must begin with it."""
    if wanted == ANYTHING:
        return
    assert type(found) is type(wanted), (found, wanted)
    if isinstance(wanted, dict):
        assert wanted.keys() <= found.keys(), (found, wanted)
        for key, value in wanted.items():
            compare(found[key], value)
    elif isinstance(wanted, list):
        assert len(found) >= len(wanted), (found, wanted)
        for one, other in zip(found, wanted, strict=False):
            compare(one, other)
    else:
        assert found == wanted
