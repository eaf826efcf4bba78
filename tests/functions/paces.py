"""Everything a deployment is for, so that its functions use each of their rights once."""

import asyncio
import json
import random
import re
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import boto3

from portico.credentials.vault import digest
from portico.discovery import LISTING
from portico.stores.dynamodb import DynamoStore
from tests.support import Client, Echo, Process, eventually, fetch
from tests.support.authorization import Authorization, Browser
from tests.support.deployed import KEYS, SIGNED

BIG = random.Random(1).randbytes(400_000).hex()
"""More than a record can have in one piece, compressed or not."""
ASKED = {"elicitation": {}}
ADDRESSES = ("initialize", "tools-list", "tools-call")
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
T = TypeVar("T")
ANSWER = {"action": "accept", "content": {"name": "Ann"}}


def through(process: Process, old: Echo, *, inline: bool) -> None:
    """With a backend of each era behind it, `old` and `new`, and one more, `own`, whose lists are each client's own."""
    client = Client(process.mcp)
    client.init()
    eventually(lambda: len(client.rpc("tools/list").result["tools"]) > 2, 20)
    _modern(process.mcp)
    _schedules(process, old)
    _operators(process.mcp.removesuffix("/mcp"), old)
    # Those that have an address of their own serve whatever is sent there.
    for url in [process.mcp] if inline else [process.mcp, *(f"{process.mcp}/{name}" for name in ADDRESSES)]:
        _session(process.mcp, url, old)
    _questions(process.mcp)
    _stream(process.mcp)


def _session(mcp: str, url: str, old: Echo) -> None:
    client = Client(url)
    client.init(capabilities={"experimental": {"large": {"text": BIG}}})
    for method in (*LISTS, "ping"):
        assert client.rpc(method).status == 200, method
    for name in ("old", "new", "own"):
        assert client.call(f"{name}_echo", {"text": name}).text == name
    uri = client.rpc("resources/list").result["resources"][0]["uri"]
    for method in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
        assert client.rpc(method, {"uri": uri}).status == 200, method
    for method, params in {"logging/setLevel": {"level": "error"}, "tools/list": {}, "ping": {}}.items():
        old.control("forget_sessions")
        assert client.rpc(method, params).status == 200, method
    assert client.call("old_echo", {"text": "again"}).text == "again"
    client.url = mcp
    assert client.delete().status == 200


def _questions(url: str) -> None:
    client = Client(url)
    client.on["elicitation/create"] = lambda _: ANSWER | {"content": {"name": BIG}}
    client.init(capabilities=ASKED)
    for name in ("old", "new"):
        assert BIG in client.call(f"{name}_elicit").text


def _stream(url: str) -> None:
    """Until it ends by itself: `limits: stream_s`."""
    client = Client(url)
    client.init()
    client.call("old_echo", {"text": "a"})
    stream = client.stream()
    assert stream.status == 200
    stream.wait_closed(10)
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
    """They find: a backend whose tools have changed, one that is not declared any more, and what has expired."""
    for name in ("one", "two"):
        old.control("add_tool", name="large", tool={"description": name + BIG})
        fired(process, "Discovery")
    _kept(process, LISTING, "removed", b"{}")
    fired(process, "Discovery")
    for value in (b"small", BIG.encode()):
        _kept(process, "P", value[:5].decode(), value, expires_at=time.time() - 1)
    fired(process, "Reaper")


def users(process: Process, server: Authorization, public_url: str) -> list[bytes]:
    """Who lets the gateway act for him at a backend, calls, and takes it back; what was kept of it meanwhile."""
    headers = {"authorization": f"Bearer {server.token(sub='ada', aud=f'{public_url}/mcp')}"}
    client = Client(process.mcp, headers=headers)
    client.init(capabilities={"elicitation": {"url": {}}})
    stream = client.stream()
    (asked,) = client.call("g_echo", {"text": "hi"}).error["data"]["elicitations"]
    page = Browser(process, public_url).consent(asked["url"])
    assert page.status == 200, page
    assert stream.wait_for("notifications/elicitation/complete")
    assert client.call("g_echo", {"text": "hi"}).text == "hi"
    assert client.delete().status == 200
    owner = json.dumps([server.issuer, "ada"])
    kept = _with_store(process, lambda store: store.query(f"USERTOKEN#{digest(owner)}"))
    known = fetch(f"{process.base}/oauth/upstream/client.json").json()
    assert known["redirect_uris"] == [f"{public_url}/oauth/upstream/callback"]
    given = f"{process.base}/oauth/upstream/tokens/g"
    said = [fetch(given, method="DELETE", headers=sent).status for sent in ({}, headers, headers)]
    assert said == [401, 204, 404]
    return [record.value for record in kept]


def _kept(process: Process, partition: str, sort: str, value: bytes, **options: Any) -> None:
    """A record, left there by some earlier deployment."""
    _with_store(process, lambda store: store.put(partition, sort, value, **options))


def _with_store(process: Process, action: Callable[[DynamoStore], Coroutine[Any, Any, T]]) -> T:
    found = re.search(r"DynamoDB is at (\S+)", process.stderr())
    assert found
    client = boto3.client("dynamodb", endpoint_url=found[1], **KEYS)
    try:
        return asyncio.run(action(DynamoStore("Table", client=client)))
    finally:
        client.close()


def fired(process: Process, function: str) -> None:
    found = re.search(r"Lambda is at (\S+)", process.stderr())
    assert found
    answer = fetch(f"{found[1]}/2015-03-31/functions/{function}Function/invocations", {})
    assert (answer.status, answer.headers["x-amz-function-error"]) == (200, None), answer.raw
