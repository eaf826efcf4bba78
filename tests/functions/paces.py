"""Everything a deployment is for, so that its functions use each of their rights once."""

import asyncio
import contextlib
import random
import re
import time
from typing import Any

import boto3

from portico.stores.dynamodb import DynamoStore
from tests.support import Client, Echo, Process, eventually, fetch
from tests.support.deployed import KEYS, SIGNED

BIG = random.Random(1).randbytes(400_000).hex()
"""More than a record can have in one piece, compressed or not."""
ASKED = {"elicitation": {}}
ANSWER = {"action": "accept", "content": {"name": "Ann"}}


def through(process: Process, old: Echo, *, inline: bool) -> None:
    """With a backend of each era behind it, `old` and `new`, and one more, `own`, whose lists are each client's own."""
    client = Client(process.mcp)
    client.init()
    eventually(lambda: len(client.rpc("tools/list").result["tools"]) > 2, 20)
    _session(process, old)
    _modern(process.mcp)
    _operators(process.mcp.removesuffix("/mcp"), old)
    _schedules(process, old)
    if not inline:
        _straight(process.mcp)


def _session(process: Process, old: Echo) -> None:
    client = Client(process.mcp)
    client.on["elicitation/create"] = lambda _: ANSWER | {"content": {"name": BIG}}
    client.init(capabilities=ASKED, headers=None)
    for method in ("ping", "prompts/list", "resources/list", "resources/templates/list", "tools/list"):
        assert client.rpc(method).status == 200
    assert client.rpc("logging/setLevel", {"level": "error"}).status == 200
    for name in ("old", "new"):
        assert client.call(f"{name}_echo", {"text": name}).text == name
        client.call(f"{name}_elicit")
    uri = client.rpc("resources/list").result["resources"][0]["uri"]
    for method in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
        assert client.rpc(method, {"uri": uri}).status == 200, method
    stream = client.stream()
    assert stream.status == 200
    old.control("forget_sessions")
    client.call("old_echo", {"text": "again"})
    client.rpc("tools/list")
    stream.close()
    assert client.delete().status == 200


def _modern(url: str) -> None:
    client = Client(url)
    for method in ("server/discover", "tools/list", "prompts/list", "resources/list"):
        assert client.rpc26(method).status == 200
    for name in ("old", "new"):
        assert client.call26(f"{name}_echo", {"text": name}).text == name
    need = client.call26("old_elicit", capabilities=ASKED).result
    retry = {"name": "old_elicit", "arguments": {}, "requestState": need["requestState"]}
    retry["inputResponses"] = dict.fromkeys(need["inputRequests"], ANSWER)
    assert "Ann" in client.rpc26("tools/call", retry, capabilities=ASKED).text
    listening = client.begin26("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    eventually(lambda: listening.messages, 10)
    listening.close()


def _operators(base: str, old: Echo) -> None:
    def asked(verb: str, path: str, fields: Any = None) -> int:
        return fetch(f"{base}{path}", fields, method=verb, headers=SIGNED).status

    for path in ("/health", "/.well-known/oauth-protected-resource", "/openapi.json", "/docs"):
        asked("GET", path)
    assert asked("POST", "/backends", {"name": "late", "url": old.url}) == 201
    assert asked("GET", "/backends/late") == asked("GET", "/status/late") == asked("GET", "/status") == 200
    assert asked("PATCH", "/backends/late", {"enabled": False}) == 200
    assert asked("DELETE", "/backends/late") == 204


def _schedules(process: Process, old: Echo) -> None:
    """What they find: a backend whose tools have changed, and what has expired, large and small."""
    for name in ("one", "two"):
        old.control("add_tool", name="large", tool={"description": name + BIG})
        fired(process, "Discovery")
    found = re.search(r"DynamoDB is at (\S+)", process.stderr())
    assert found
    client = boto3.client("dynamodb", endpoint_url=found[1], **KEYS)
    store = DynamoStore("Table", client=client)
    try:
        for value in (b"small", BIG.encode()):
            asyncio.run(store.put("P", value[:5].decode(), value, expires_at=time.time() - 1))
    finally:
        client.close()
    fired(process, "Reaper")
    old.control("remove_tool", name="large")
    fired(process, "Discovery")


def _straight(url: str) -> None:
    """Where something in front has routed by the method's name."""
    for path, method in {"initialize": "server/discover", "tools-list": "tools/list", "tools-call": "tools/call"}.items():
        client = Client(f"{url}/{path}")
        params = {"name": "new_echo", "arguments": {"text": "a"}} if method == "tools/call" else {}
        assert client.rpc26(method, params).status == 200, method


def fired(process: Process, function: str) -> None:
    found = re.search(r"Lambda is at (\S+)", process.stderr())
    assert found
    answer = fetch(f"{found[1]}/2015-03-31/functions/{function}Function/invocations", {})
    assert (answer.status, answer.headers["x-amz-function-error"]) == (200, None), answer.raw
