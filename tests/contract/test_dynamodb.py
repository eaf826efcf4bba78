"""What only DynamoDB has to answer for."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
from moto import mock_aws

from portico.stores import dynamodb
from portico.stores.base import ABSENT, Record
from portico.stores.dynamodb import DynamoStore, create_table
from tests.contract.places import NOISE, PROSE, Clock, dynamodb_client, scan


@dataclass
class Interposed:
    """A client of which single operations are replaced."""

    client: Any
    replaced: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return self.replaced.get(name) or getattr(self.client, name)


@pytest.fixture
def dynamo() -> Iterator[Interposed]:
    with mock_aws(), closing(dynamodb_client()) as client:
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


async def test_large_json_is_one_compressed_dynamodb_item(dynamo: Interposed):
    await DynamoStore("portico", dynamo).put("p", "s", PROSE)
    (item,) = scan(dynamo.client, "portico")
    assert len(item["value"]["B"]) < len(PROSE) / 5


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
