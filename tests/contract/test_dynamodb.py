"""What only DynamoDB has to answer for."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Semaphore, Thread
from typing import Any

import pytest
from moto import mock_aws

from portico.signing import Credentials
from portico.stores import dynamodb, dynamodb_client
from portico.stores.base import ABSENT, Record, Unavailable
from portico.stores.dynamodb import DynamoStore, create_table
from portico.stores.dynamodb_client import DynamoClient
from tests.contract.places import NOISE, PROSE, Clock, scan
from tests.contract.places import dynamodb_client as boto3_client


@dataclass
class Interposed:
    """A client of which single operations are replaced."""

    client: Any
    replaced: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return self.replaced.get(name) or getattr(self.client, name)


@pytest.fixture
def dynamo() -> Iterator[Interposed]:
    with mock_aws(), closing(boto3_client()) as client:
        create_table(client, "portico")
        yield Interposed(client)


async def test_dynamodb_keys_are_the_partition_and_sort_key_verbatim(dynamo: Interposed):
    """G1.10: PK=SESSION#sid, SK=BACKEND#server."""
    await DynamoStore("portico", dynamo).put("SESSION#4711", "BACKEND#github", b"{}")
    (item,) = scan(dynamo.client, "portico")
    assert (item["PK"], item["SK"]) == ({"S": "SESSION#4711"}, {"S": "BACKEND#github"})
    assert item["value"] == {"B": b"{}"}


async def test_dynamodb_expires_items_and_their_chunks_itself_in_whole_seconds(dynamo: Interposed):
    await DynamoStore("portico", dynamo, Clock()).put("p", "s", NOISE, expires_at=1_800_000_060.25)
    items = scan(dynamo.client, "portico")
    assert len(items) == 7
    assert {item["expires"]["N"] for item in items} == {"1800000061"}
    ttl = dynamo.client.describe_time_to_live(TableName="portico")["TimeToLiveDescription"]
    assert ttl == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}


async def test_dynamodb_items_stay_below_their_limit(dynamo: Interposed):
    await DynamoStore("portico", dynamo).put("p", "s", NOISE)
    sizes = [len(item["value"]["B"]) for item in scan(dynamo.client, "portico") if "value" in item]
    assert max(sizes) <= 350_000
    assert sum(sizes) == len(NOISE)


async def test_large_json_is_one_head_and_one_compressed_chunk(dynamo: Interposed):
    await DynamoStore("portico", dynamo).put("p", "s", PROSE)
    head, chunk = sorted(scan(dynamo.client, "portico"), key=lambda item: "value" in item)
    assert head["chunks"] == {"N": "1"}
    assert len(chunk["value"]["B"]) < len(PROSE) / 5


async def test_writes_dynamodb_left_undone_are_sent_again(
    dynamo: Interposed, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dynamodb.time, "sleep", lambda _: None)
    sent = []

    def all_but_the_first(RequestItems: dict[str, list[Any]]) -> Any:
        sent.append(len(RequestItems["portico"]))
        first, *undone = RequestItems["portico"]
        dynamo.client.batch_write_item(RequestItems={"portico": [first]})
        return {"UnprocessedItems": {"portico": undone} if undone else {}}

    dynamo.replaced["batch_write_item"] = all_but_the_first
    store = DynamoStore("portico", dynamo)
    written = await store.put("p", "s", NOISE)
    assert sent == [6, 5, 4, 3, 2, 1]
    assert await store.get("p", "s") == written


async def test_writes_dynamodb_never_does_are_an_error(dynamo: Interposed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dynamodb.time, "sleep", lambda _: None)
    dynamo.replaced["batch_write_item"] = lambda RequestItems: {"UnprocessedItems": RequestItems}
    store = DynamoStore("portico", dynamo)
    with pytest.raises(OSError, match="undone"):
        await store.put("p", "s", NOISE)
    assert await store.get("p", "s") is None


@pytest.mark.parametrize("replacement", [NOISE[::-1], b"small", None], ids=["large", "small", "deleted"])
@pytest.mark.parametrize("read", ["get", "query"])
async def test_a_reader_overtaken_by_a_rewrite_reads_what_is_there_now(
    dynamo: Interposed, read: str, replacement: bytes | None
):
    await DynamoStore("portico", dynamo.client).put("p", "s", NOISE)
    writer = dynamodb._Table(dynamo.client, "portico", Clock())

    def rewrite_before_the_chunks_are_read(**arguments: Any) -> Any:
        if arguments["ExpressionAttributeValues"][":pk"]["S"].startswith("CHUNK#"):
            dynamo.replaced.clear()
            if replacement is None:
                writer.delete("p", "s", None)
            else:
                writer.put(Record("p", "s", replacement, secrets.token_hex(8)), None)
        return dynamo.client.query(**arguments)

    dynamo.replaced["query"] = rewrite_before_the_chunks_are_read
    reader = DynamoStore("portico", dynamo)
    found = await reader.query("p") if read == "query" else [await reader.get("p", "s")]
    assert dynamo.replaced == {}
    assert [record.value for record in found if record] == ([] if replacement is None else [replacement])


async def test_a_chunk_lost_for_good_is_an_error(dynamo: Interposed):
    store = DynamoStore("portico", dynamo)
    written = await store.put("p", "s", NOISE)
    lost = {"PK": {"S": f"CHUNK#{written.version}"}, "SK": {"S": "000003"}}
    dynamo.client.delete_item(TableName="portico", Key=lost)
    with pytest.raises(OSError, match="lost chunks of p s"):
        await store.get("p", "s")


@pytest.mark.parametrize("expect", [ABSENT, None], ids=["conditional", "unconditional"])
async def test_a_write_the_sdk_repeated_after_a_lost_answer_has_succeeded(
    dynamo: Interposed, expect: str | None
):
    """G1.16: otherwise the holder of the lock would be told that somebody else holds it."""

    def twice(**arguments: Any) -> Any:
        dynamo.client.put_item(**arguments)
        return dynamo.client.put_item(**arguments)

    dynamo.replaced["put_item"] = twice
    store = DynamoStore("portico", dynamo)
    written = await store.put("p", "s", NOISE, expect=expect)
    assert await store.get("p", "s") == written


async def test_a_sweep_is_bounded_and_goes_on_where_it_stopped(
    dynamo: Interposed, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dynamodb, "SWEEP_PAGES", 2)
    dynamo.replaced["scan"] = lambda **arguments: dynamo.client.scan(Limit=2, **arguments)
    clock = Clock()
    store = DynamoStore("portico", dynamo, clock)
    for n in range(7):
        await store.put(f"p{n}", "s", b"", expires_at=clock.now)
    assert [await store.sweep(), await store.sweep()] == [4, 3]


async def test_asking_for_versions_reads_little_however_large_the_values(dynamo: Interposed):
    """DynamoDB bills a query by what the items weigh; those of the catalogue are asked for every second."""
    store = DynamoStore("portico", dynamo)
    for name in ("a", "b", "c"):
        await store.put("LISTING", name, NOISE[:200_000])
    assert len(await store.versions("LISTING")) == 3
    heads = [item for item in scan(dynamo.client, "portico") if item["PK"] == {"S": "LISTING"}]
    assert sum(len(value) for item in heads for field in item.values() for value in field.values()) < 3 * 4096
    assert [record.value for record in await store.query("LISTING")] == [NOISE[:200_000]] * 3


class OncePerConnection(BaseHTTPRequestHandler):
    """Whoever asks a second time on one connection waits for ever, as after a network has forgotten it."""

    protocol_version = "HTTP/1.1"
    asked = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.asked += 1
        if self.asked == 1 and self.server.answers.acquire(blocking=False):
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
        else:
            self.server.over.wait(30)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def once_per_connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    monkeypatch.setattr(dynamodb_client, "SECONDS", 0.5)
    with ThreadingHTTPServer(("127.0.0.1", 0), OncePerConnection) as server:
        server.daemon_threads = True
        server.answers, server.over = Semaphore(2), Event()
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.over.set()
        server.shutdown()


def test_a_connection_that_leads_nowhere_any_more_is_given_up(once_per_connection: ThreadingHTTPServer):
    """Lambda lets a process stand still for minutes, and nothing tells it what became of its connections."""
    url = f"http://127.0.0.1:{once_per_connection.server_port}"
    client = DynamoClient("eu-west-1", lambda: Credentials("test", "test"), url)
    with closing(client):
        assert client.get_item(TableName="t") == {}
        assert client.get_item(TableName="t") == {}
        with pytest.raises(Unavailable, match="DynamoDB cannot be reached: timed out"):
            client.get_item(TableName="t")
