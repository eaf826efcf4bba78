"""What is listed: the union of all backends, each its own definitions, from the gateway's memory."""

import re

import pytest

from tests.support import Client, config, echo_server, eventually, gateway

LISTS = {
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
}
TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


@pytest.fixture(scope="module")
def other():
    with echo_server("other") as server:
        server.control("add_resource", uri="other://alone")
        yield server


@pytest.fixture(scope="module")
def portico(echo, other):
    declared = config(("s1", echo.url, {}), ("s2", other.url, {}))
    with gateway(declared) as process:
        yield process


def own(server, method):
    client = Client(server.url)
    client.init()
    return client.rpc(method).result[LISTS[method][0]]


def test_the_tools_of_all_backends_are_listed_each_with_its_prefix(echo, other, client):
    """G0.32, G1.53, G1.55"""
    listed = client.rpc("tools/list").result["tools"]
    expected = [
        {**tool, "name": prefix + tool["name"]}
        for prefix, server in (("s1_", echo), ("s2_", other))
        for tool in own(server, "tools/list")
    ]
    assert listed == expected
    fancy = next(tool for tool in listed if tool["name"] == "s1_fancy")
    assert {"title", "annotations", "outputSchema", "_meta", "icons"} <= set(fancy)
    for tool in listed:
        assert TOOL_NAME.fullmatch(tool["name"])
        assert tool["description"]
        assert tool["inputSchema"]["type"] == "object"


def test_prompts_are_prefixed_and_addresses_are_not(echo, other, client):
    """G1.53, G1.31"""
    prompts = client.rpc("prompts/list").result["prompts"]
    assert [prompt["name"] for prompt in prompts] == ["s1_greet", "s1_plain", "s2_greet", "s2_plain"]
    assert client.rpc("resources/templates/list").result["resourceTemplates"] == own(
        echo, "resources/templates/list"
    )


def test_an_address_has_one_owner_and_the_second_is_told(portico, echo, client):
    """C16"""
    resources = client.rpc("resources/list").result["resources"]
    assert resources[: len(own(echo, "resources/list"))] == own(echo, "resources/list")
    uris = [resource["uri"] for resource in resources]
    assert len(uris) == len(set(uris))
    assert (
        client.rpc("resources/read", {"uri": "echo://item/1"})
        .result["contents"][0]["text"]
        .startswith("echo://item/1 of echo")
    )
    assert "of other" in client.rpc("resources/read", {"uri": "other://alone"}).result["contents"][0]["text"]
    said = portico.operator("/status/s2").json()
    assert "conflicting resources discovered" in said["message"]
    assert "echo://static/one" in said["message"]
    assert said["ready"], "its tools are not concerned"


def test_an_exact_address_is_stronger_than_another_backends_template(portico, other, client):
    """C16"""
    other.control("add_resource", uri="echo://item/special")
    other.control("notify", method="notifications/resources/list_changed")
    portico.look()

    def read():
        return client.rpc("resources/read", {"uri": "echo://item/special"}).result["contents"][0]["text"]

    eventually(lambda: "of other" in read())
    assert "of echo" in client.rpc("resources/read", {"uri": "echo://item/7"}).result["contents"][0]["text"]


def test_lists_are_answered_without_asking_a_backend(echo, client):
    """G1.1, G1.2, G1.52"""
    echo.control("reset_log")
    for _ in range(25):
        for method in LISTS:
            assert client.rpc(method).status == 200
    assert client.rpc("ping").status == 200
    assert client.rpc("no/such").status == 200
    assert [entry for entry in echo.seen() if entry["http"] == "POST"] == []


def test_without_backends_every_list_is_empty():
    """G1.58"""
    with gateway(config()) as process:
        client = process.client()
        client.init()
        for method, (name, _) in LISTS.items():
            assert client.rpc(method).raw.endswith(b'"result":{"%s":[]}}' % name.encode())


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_pages_cover_everything_once_and_in_order(echo, size):
    """G0.34"""
    whole = own(echo, "tools/list")
    with gateway(config(("s1", echo.url, {"prefix": ""}), limits={"page_size": size})) as process:
        client = process.client()
        client.init()
        walked, params, pages = [], {}, 0
        while params is not None:
            page = client.rpc("tools/list", params).result
            assert len(page["tools"]) <= size
            walked += page["tools"]
            pages += 1
            params = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
        assert walked == whole
        assert pages == -(-len(whole) // size)
        assert client.rpc("tools/list", {"cursor": "not one"}).error["code"] == -32602


def test_one_page_unless_told_otherwise(client):
    """G0.34"""
    assert "nextCursor" not in client.rpc("tools/list").result
