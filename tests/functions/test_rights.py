"""IAM holds each function to what it really asks of AWS, seen on a deployment that is put through its paces."""

import pytest

from tests.functions import paces
from tests.functions.conftest import declaring, running
from tests.infrastructure import tools
from tests.infrastructure.stack import Stack
from tests.support import Client, echo26_server, echo_server
from tests.support.authorization import authorization_server, guarded_server
from tests.support.deployed import ENCRYPTION_KEY

UNSEEN = {
    ("MetadataFunction", "dynamodb:GetItem", "Table.Arn"): (
        "a record in several pieces is read again if it was replaced while it was read"
    ),
    ("StreamFunction", "dynamodb:BatchWriteItem", "Table.Arn"): (
        "it writes down the listing of a backend that says it has changed, which may be a large one"
    ),
}
"""What is granted although no run shows it, and why."""


@pytest.fixture(scope="module")
def template():
    return tools.translated()


@pytest.fixture(scope="module", params=["invoke", "inline"])
def dispatch(request):
    return request.param


@pytest.fixture(scope="module")
def asked(dispatch, tmp_path_factory):
    """Triples of a function, an action and a resource."""
    folder = tmp_path_factory.mktemp("recorded")
    with echo_server() as old, echo26_server() as new, echo_server() as own:
        declared = declaring({"old": old, "new": new, "own": own}, limits={"stream_s": 3})
        declared["backends"]["own"]["user_specific_list"] = True
        options = ("--record", str(folder / "record"))
        with running(folder / "build", declared, *options, DispatchMode=dispatch) as process:
            paces.through(process, old, inline=dispatch == "inline")
    return recorded(folder / "record")


@pytest.fixture(scope="module")
def consented(tmp_path_factory):
    """The same, where users let the gateway act for them; its address has a stage in it."""
    folder, public_url = tmp_path_factory.mktemp("consented"), "http://gw.test/prod"
    with authorization_server() as server, guarded_server(server.issuer) as backend:
        auth = {"mode": "jwt", "encryption_key": "env:PORTICO_ENCRYPTION_KEY"}
        auth["issuers"] = [{"issuer": server.issuer, "algorithms": ["ES256"]}]
        declared = declaring({"g": backend}, auth=auth, limits={"stream_s": 20})
        declared["backends"]["g"]["call_auth"] = "user"
        said = {"AuthMode": "jwt", "PublicBaseUrl": public_url, "EncryptionKey": ENCRYPTION_KEY}
        options = ("--record", str(folder / "record"))
        with running(folder / "build", declared, *options, **said) as process:
            process.kept = paces.users(process, server, public_url)
            process.tokens = [
                entry["headers"]["authorization"].removeprefix("Bearer ")
                for entry in backend.seen("tools/call")
                if "authorization" in entry["headers"]
            ]
    process.asked = recorded(folder / "record")
    return process


def recorded(file):
    """As IAM has the words; the tests ask in other names."""
    lines = (line.split(" ") for line in file.read_text().splitlines())
    return {
        (function, action, f"{resource}.Arn")
        for function, action, resource in lines
        if function.endswith("Function")
    }


def granted(template, dispatch):
    stack = Stack(template, DispatchMode=dispatch)
    return {
        (function, action, resource)
        for function in stack.of_type("AWS::Lambda::Function")
        for action, resource in stack.granted(function)
    }


def test_whatever_a_function_asks_of_aws_is_granted_to_it(template, dispatch, asked):
    assert asked - granted(template, dispatch) == set()


def test_whatever_it_asks_for_users_is_granted_to_it(template, consented):
    assert consented.asked - granted(template, "invoke") == set()


def test_what_users_give_is_stored_sealed(consented):
    """G1.82"""
    assert consented.tokens
    assert consented.kept
    for token in consented.tokens:
        assert not [value for value in consented.kept if token.encode() in value]
        assert token not in consented.stderr()


def test_whatever_is_granted_to_a_function_is_asked(template, dispatch, asked, consented):
    asked = asked | {right for right in consented.asked if right[0] == "ConsentFunction"}
    # Inline, only an edge takes what the others are for.
    idle = {"InitializeFunction", "ToolsListFunction", "ToolsCallFunction"} if dispatch == "inline" else set()
    unused = {right for right in granted(template, dispatch) - asked if right[0] not in idle}
    assert unused == UNSEEN.keys()


def test_the_authorizer_asks_nothing_of_aws(guarded, issuer):
    client = Client(guarded.mcp, headers={"authorization": f"Bearer {issuer.token()}"})
    assert client.init().status == 200
    assert not {right for right in recorded(guarded.record) if right[0] == "AuthorizerFunction"}
