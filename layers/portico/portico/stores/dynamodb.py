"""Records in one DynamoDB table, whose PK and SK are a record's partition and sort key, verbatim.

A large value is split: its head, the item under the record's own keys, holds the number of its
chunks, which lie in the partition `CHUNK#<version of the head>`. Chunks are written before their head and deleted
after it, so that a head without its chunks means that the record has been rewritten meanwhile.
"""

import asyncio
import math
import os
import secrets
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from portico.signing import credentials_from
from portico.stores.base import ABSENT, Conflict, Record
from portico.stores.dynamodb_client import DynamoClient

COMPRESS_OVER: Final = 4_096
INLINE_BYTES: Final = 4_096
"""Asking for versions is billed by what the items weigh, whatever is asked of them: heads are kept light."""

CHUNK_BYTES: Final = 350_000  # an item may have 400 KB, names and keys included
BATCH: Final = 25  # BatchWriteItem's limit
BATCH_ATTEMPTS: Final = 8
SWEEP_PAGES: Final = 20

IS_LIVE: Final = "(attribute_not_exists(expires_at) OR expires_at > :now)"
IS_FREE: Final = "(attribute_not_exists(PK) OR expires_at <= :now)"
HEAD: Final = "PK, SK, version, expires_at, chunks"

Item = dict[str, Any]


class DynamoStore:
    poll_s = 1.0

    def __init__(self, table: str, client: Any = None, clock: Callable[[], float] = time.time) -> None:
        """A client that is passed in stays the caller's to close."""
        self._owned = None if client else _new_client()
        self._table = _Table(client or self._owned, table, clock)

    def stamp(self) -> None:
        return None

    async def get(self, partition: str, sort: str) -> Record | None:
        return await asyncio.to_thread(self._table.get, partition, sort)

    async def query(self, partition: str) -> list[Record]:
        return await asyncio.to_thread(self._table.query, partition)

    async def versions(self, partition: str) -> dict[str, str]:
        return await asyncio.to_thread(self._table.versions, partition)

    async def put(
        self,
        partition: str,
        sort: str,
        value: bytes,
        *,
        expect: str | None = None,
        expires_at: float | None = None,
    ) -> Record:
        record = Record(partition, sort, value, secrets.token_hex(8), expires_at)
        await asyncio.to_thread(self._table.put, record, expect)
        return record

    async def delete(self, partition: str, sort: str, *, expect: str | None = None) -> bool:
        return await asyncio.to_thread(self._table.delete, partition, sort, expect)

    async def drop(self, partition: str) -> None:
        await asyncio.to_thread(self._table.drop, partition)

    async def sweep(self) -> int:
        return await asyncio.to_thread(self._table.sweep)

    async def close(self) -> None:
        if self._owned:
            self._owned.close()


class _Table:
    """The same operations, blocking."""

    def __init__(self, client: Any, name: str, clock: Callable[[], float]) -> None:
        self._client = client
        self._name = name
        self._clock = clock
        self._swept_to: Item = {}

    def get(self, partition: str, sort: str) -> Record | None:
        incomplete = None
        while True:
            item = self._head(partition, sort)
            if item is None or not self._is_live(item):
                return None
            record = self._record(item)
            if record:
                return record
            if item["version"] == incomplete:
                raise OSError(f"DynamoDB has lost chunks of {partition} {sort}")
            incomplete = item["version"]

    def query(self, partition: str) -> list[Record]:
        live = [item for item in self._items(partition) if self._is_live(item)]
        records = [self._record(item) or self.get(partition, item["SK"]["S"]) for item in live]
        return [record for record in records if record]

    def versions(self, partition: str) -> dict[str, str]:
        items = self._items(partition, ProjectionExpression=HEAD)
        return {item["SK"]["S"]: item["version"]["S"] for item in items if self._is_live(item)}

    def put(self, record: Record, expect: str | None) -> None:
        head, chunks = _encode(record)
        self._write([{"PutRequest": {"Item": chunk}} for chunk in chunks])
        try:
            answer = self._client.put_item(
                TableName=self._name, Item=head, ReturnValues="ALL_OLD", **self._only_if(expect)
            )
        except self._client.exceptions.ConditionalCheckFailedException:
            # The SDK repeats a write whose answer got lost, and then meets its own first attempt.
            if self._is_current(record):
                return
            self._delete_chunks(head)
            raise Conflict(f"{record.partition} {record.sort}") from None
        old = answer.get("Attributes", {})
        if old.get("version") != head["version"]:
            self._delete_chunks(old)

    def delete(self, partition: str, sort: str, expect: str | None) -> bool:
        try:
            old = self._delete_head(_key(partition, sort), **self._only_if(expect))
        except self._client.exceptions.ConditionalCheckFailedException:
            raise Conflict(f"{partition} {sort}") from None
        return bool(old) and self._is_live(old)

    def drop(self, partition: str) -> None:
        items = list(self._items(partition, ProjectionExpression=HEAD))
        self._write([_deletion(item) for item in items])
        self._delete_chunks(*items)

    def sweep(self) -> int:
        """At most SWEEP_PAGES of the table, going on from there the next time. DynamoDB's own TTL does the rest."""
        count = 0
        for _ in range(SWEEP_PAGES):
            page = self._client.scan(
                TableName=self._name,
                FilterExpression="expires_at <= :now",
                ExpressionAttributeValues=self._now(),
                ProjectionExpression=HEAD,
                **self._swept_to,
            )
            count += sum(self._delete_if_expired(item) for item in page["Items"])
            self._swept_to = _after(page)
            if not self._swept_to:
                break
        return count

    def _head(self, partition: str, sort: str) -> Item | None:
        answer = self._client.get_item(TableName=self._name, Key=_key(partition, sort), ConsistentRead=True)
        item: Item | None = answer.get("Item")
        return item

    def _items(self, partition: str, **options: Any) -> Iterator[Item]:
        start: Item = {}
        while True:
            page = self._client.query(
                TableName=self._name,
                KeyConditionExpression="PK = :pk",
                ExpressionAttributeValues={":pk": {"S": partition}},
                ConsistentRead=True,
                **options,
                **start,
            )
            yield from page["Items"]
            start = _after(page)
            if not start:
                return

    def _record(self, item: Item) -> Record | None:
        """None if a chunk is missing."""
        parts = [item]
        if "chunks" in item:
            parts = list(self._items(_chunk_partition(item)))
            if len(parts) != int(item["chunks"]["N"]):
                return None
        return _decode(item, b"".join(part["value"]["B"] for part in parts if "value" in part))

    def _is_live(self, item: Item) -> bool:
        return "expires_at" not in item or float(item["expires_at"]["N"]) > self._clock()

    def _is_current(self, record: Record) -> bool:
        item = self._head(record.partition, record.sort)
        return item is not None and item["version"]["S"] == record.version

    def _now(self) -> Item:
        return {":now": {"N": repr(self._clock())}}

    def _only_if(self, expect: str | None) -> Item:
        if expect is None:
            return {}
        if expect == ABSENT:
            return {"ConditionExpression": IS_FREE, "ExpressionAttributeValues": self._now()}
        return {
            "ConditionExpression": f"version = :expect AND {IS_LIVE}",
            "ExpressionAttributeValues": {":expect": {"S": expect}, **self._now()},
        }

    def _delete_if_expired(self, item: Item) -> bool:
        try:
            old = self._delete_head(
                {"PK": item["PK"], "SK": item["SK"]},
                ConditionExpression="expires_at <= :now",
                ExpressionAttributeValues=self._now(),
            )
        except self._client.exceptions.ConditionalCheckFailedException:
            return False  # written anew since the scan
        return bool(old)

    def _delete_head(self, key: Item, **condition: Any) -> Item:
        answer = self._client.delete_item(TableName=self._name, Key=key, ReturnValues="ALL_OLD", **condition)
        old: Item = answer.get("Attributes", {})
        self._delete_chunks(old)
        return old

    def _delete_chunks(self, *heads: Item) -> None:
        self._write([_deletion(key) for head in heads for key in _chunk_keys(head)])

    def _write(self, requests: list[Item]) -> None:
        for start in range(0, len(requests), BATCH):
            pending = {self._name: requests[start : start + BATCH]}
            for attempt in range(BATCH_ATTEMPTS):
                pending = self._client.batch_write_item(RequestItems=pending).get("UnprocessedItems")
                if not pending:
                    break
                time.sleep(0.05 * 2**attempt)
            else:
                raise OSError(f"DynamoDB left writes to {self._name} undone after {BATCH_ATTEMPTS} attempts")


def create_table(client: Any, table: str) -> None:
    """For tests and local use; in AWS the table is part of the deployment."""
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": "PK", "KeyType": "HASH"},
            {"AttributeName": "SK", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "PK", "AttributeType": "S"},
            {"AttributeName": "SK", "AttributeType": "S"},
        ],
    )
    client.get_waiter("table_exists").wait(TableName=table)
    client.update_time_to_live(
        TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"}
    )


def _new_client() -> Any:
    """One of our own where the environment has all it needs, as on Lambda: importing boto3 takes longer than the rest."""
    environment = os.environ
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    endpoint = environment.get("AWS_ENDPOINT_URL_DYNAMODB") or environment.get("AWS_ENDPOINT_URL")
    if region and credentials_from(environment) is not None:
        return DynamoClient(region, lambda: credentials_from(environment), endpoint)
    return _boto3_client()


def _boto3_client() -> Any:
    """It knows all the other places where credentials may be."""
    try:
        import boto3  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415
    except ImportError:
        raise OSError("DynamoDB needs the package extra aws: pip install 'portico[aws]'") from None

    # As many connections as asyncio.to_thread has threads at most.
    config = Config(max_pool_connections=32, retries={"mode": "standard", "max_attempts": 5})
    try:
        return boto3.session.Session().client("dynamodb", config=config)
    except BotoCoreError as error:
        raise OSError(f"DynamoDB cannot be used: {error}") from None


def _key(partition: str, sort: str) -> Item:
    return {"PK": {"S": partition}, "SK": {"S": sort}}


def _after(page: Item) -> Item:
    last = page.get("LastEvaluatedKey")
    return {"ExclusiveStartKey": last} if last else {}


def _deletion(item: Item) -> Item:
    return {"DeleteRequest": {"Key": {"PK": item["PK"], "SK": item["SK"]}}}


def _chunk_partition(head: Item) -> str:
    return f"CHUNK#{head['version']['S']}"


def _chunk_keys(head: Item) -> list[Item]:
    if "chunks" not in head:
        return []
    return [_key(_chunk_partition(head), f"{n:06}") for n in range(int(head["chunks"]["N"]))]


def _encode(record: Record) -> tuple[Item, list[Item]]:
    head: Item = {**_key(record.partition, record.sort), "version": {"S": record.version}}
    expiry: Item = {}
    if record.expires_at is not None:
        # DynamoDB's TTL wants whole seconds; ours may be finer.
        expiry = {"expires": {"N": str(math.ceil(record.expires_at))}}
        head |= {**expiry, "expires_at": {"N": repr(record.expires_at)}}
    body = record.value
    if len(body) > COMPRESS_OVER:
        packed = zlib.compress(body)
        if len(packed) < len(body):
            body = packed
            head["encoding"] = {"S": "zlib"}
    if len(body) <= INLINE_BYTES:
        # Not every DynamoDB takes an empty binary attribute.
        return (head | {"value": {"B": body}} if body else head), []
    parts = [body[start : start + CHUNK_BYTES] for start in range(0, len(body), CHUNK_BYTES)]
    head["chunks"] = {"N": str(len(parts))}
    keys = _chunk_keys(head)
    return head, [{**key, **expiry, "value": {"B": part}} for key, part in zip(keys, parts, strict=True)]


def _decode(head: Item, body: bytes) -> Record:
    return Record(
        head["PK"]["S"],
        head["SK"]["S"],
        zlib.decompress(body) if "encoding" in head else body,
        head["version"]["S"],
        float(head["expires_at"]["N"]) if "expires_at" in head else None,
    )
