"""What every store promises, asked of all of them; at the end, what only DynamoDB has to answer for."""

import asyncio
import json
import random
import secrets
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from portico.stores import dynamodb, open_store
from portico.stores.base import ABSENT, Conflict, Record, Store
from portico.stores.dynamodb import DynamoStore, create_table
from portico.stores.memory import MemoryStore
from portico.stores.sqlite import SqliteStore
from tests.dynamodb_local import dynamodb_local  # noqa: F401 - a fixture

NOISE = random.Random(7).randbytes(2_000_000)  # incompressible
PROSE = json.dumps([{"name": f"tool_{n}", "description": "does things " * 5} for n in range(22_000)]).encode()


@dataclass
class Clock:
    now: float = 1_800_000_000.25

    def __call__(self) -> float:
        return self.now


@dataclass
class Place:
    """One kind of store with somewhere to keep its data; `rows` counts what is physically there."""

    open: Callable[[Clock], Store]
    rows: Callable[[], int]
    clock: Clock = field(default_factory=Clock)


class OneAtATime:
    """moto's tables have no lock, so that of two concurrent conditional writes both could win there."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._client, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                return attribute(*arguments, **named)

        return call


def _client(**options: Any) -> Any:
    return boto3.session.Session().client(
        "dynamodb",
        region_name="eu-west-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        **options,
    )


@contextmanager
def _sqlite(request: pytest.FixtureRequest) -> Iterator[Place]:
    path = request.getfixturevalue("tmp_path") / "state.db"

    def rows() -> int:
        with closing(sqlite3.connect(path)) as db:
            return db.execute("SELECT count(*) FROM records").fetchone()[0]

    yield Place(lambda clock: SqliteStore(path, clock), rows)


@contextmanager
def _memory(_: pytest.FixtureRequest) -> Iterator[Place]:
    opened: list[MemoryStore] = []

    def open_memory(clock: Clock) -> MemoryStore:
        opened.append(MemoryStore(clock))
        return opened[0]

    yield Place(open_memory, lambda: sum(map(len, opened[0]._partitions.values())))


@contextmanager
def _table(client: Any) -> Iterator[Place]:
    table = f"portico-{secrets.token_hex(4)}"
    create_table(client, table)
    yield Place(lambda clock: DynamoStore(table, client, clock), lambda: len(_scan(client, table)))
    client.delete_table(TableName=table)


def _scan(client: Any, table: str) -> list[dict[str, Any]]:
    return [item for page in client.get_paginator("scan").paginate(TableName=table) for item in page["Items"]]


@contextmanager
def _moto(_: pytest.FixtureRequest) -> Iterator[Place]:
    with mock_aws(), closing(_client()) as client, _table(OneAtATime(client)) as place:
        yield place


@contextmanager
def _dynamodb_local(request: pytest.FixtureRequest) -> Iterator[Place]:
    endpoint = request.getfixturevalue("dynamodb_local")
    with closing(_client(endpoint_url=endpoint)) as client, _table(client) as place:
        yield place


PLACES = {"sqlite": _sqlite, "memory": _memory, "moto": _moto, "dynamodb-local": _dynamodb_local}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with PLACES[request.param](request) as place:
        yield place


@pytest.fixture
def clock(place: Place) -> Clock:
    return place.clock


@pytest.fixture
async def store(place: Place) -> AsyncIterator[Store]:
    store = place.open(place.clock)
    yield store
    await store.close()


async def test_what_was_put_can_be_got(store: Store):
    written = await store.put("p", "s", b"value", expires_at=1_800_000_060.75)
    assert await store.get("p", "s") == written
    assert (written.partition, written.sort, written.value) == ("p", "s", b"value")
    assert written.expires_at == 1_800_000_060.75


async def test_what_was_never_put_is_not_there(store: Store):
    assert await store.get("p", "s") is None
    assert await store.query("p") == []
    assert await store.versions("p") == {}


async def test_a_second_put_replaces_value_version_and_expiry(store: Store):
    first = await store.put("p", "s", b"one", expires_at=1_800_000_060.0)
    second = await store.put("p", "s", b"two")
    assert second.version != first.version
    assert await store.get("p", "s") == second
    assert second.expires_at is None


async def test_an_empty_value_is_a_value(store: Store):
    written = await store.put("p", "s", b"")
    assert await store.get("p", "s") == written
    assert await store.query("p") == [written]


async def test_every_byte_survives(store: Store):
    value = bytes(range(256))
    await store.put("p", "s", value)
    assert (await store.get("p", "s")).value == value


async def test_a_query_is_in_order_of_sort_keys_and_stays_in_its_partition(store: Store):
    sorts = ["b", "a#2", "a#10", "B", "é", "\uffee", "😀", "a"]
    for sort in sorts:
        await store.put("p", sort, sort.encode())
    await store.put("p2", "a", b"elsewhere")
    await store.put("P", "a", b"elsewhere")
    assert [record.sort for record in await store.query("p")] == sorted(sorts)
    assert [record.value for record in await store.query("p")] == [sort.encode() for sort in sorted(sorts)]


async def test_a_query_longer_than_a_page_is_whole(store: Store):
    values = {f"{n:02}": NOISE[n : n + 300_000] for n in range(8)}
    for sort, value in values.items():
        await store.put("p", sort, value)
    assert {record.sort: record.value for record in await store.query("p")} == values
    assert list(await store.versions("p")) == sorted(values)


async def test_versions_change_with_every_write_and_go_with_the_record(store: Store):
    a = await store.put("p", "a", b"")
    b = await store.put("p", "b", b"")
    assert await store.versions("p") == {"a": a.version, "b": b.version}
    again = await store.put("p", "a", b"")
    assert await store.versions("p") == {"a": again.version, "b": b.version}
    await store.delete("p", "b")
    assert await store.versions("p") == {"a": again.version}


async def test_a_version_is_never_used_twice_even_after_deletion(store: Store):
    seen = set()
    for _ in range(20):
        seen.add((await store.put("p", "s", b"same", expect=ABSENT)).version)
        await store.delete("p", "s")
    assert len(seen) == 20
    assert ABSENT not in seen


@pytest.mark.parametrize(
    "key", ["grüße 你好 😀", "a#b##c", " with  spaces ", 'it\'s "quoted"; --', "%_*?", "a\nb"]
)
async def test_keys_are_taken_verbatim(store: Store, key: str):
    written = await store.put(key, key, b"v")
    await store.put(key + "#", key, b"other")
    assert await store.get(key, key) == written
    assert await store.query(key) == [written]
    assert await store.versions(key) == {key: written.version}
    assert await store.delete(key, key, expect=written.version)
    assert await store.query(key) == []


async def test_creating_what_exists_raises_conflict(store: Store):
    """G1.16: a conditional put is a lock; the second who asks for it does not get it."""
    held = await store.put("p", "lock", b"mine", expect=ABSENT)
    with pytest.raises(Conflict):
        await store.put("p", "lock", b"theirs", expect=ABSENT)
    assert await store.get("p", "lock") == held


async def test_compare_and_swap_succeeds_on_the_expected_version(store: Store):
    first = await store.put("p", "s", b"1")
    second = await store.put("p", "s", b"2", expect=first.version)
    assert await store.get("p", "s") == second


async def test_a_lost_race_raises_conflict(store: Store):
    first = await store.put("p", "s", b"1")
    winner = await store.put("p", "s", b"2", expect=first.version)
    with pytest.raises(Conflict):
        await store.put("p", "s", b"3", expect=first.version)
    assert await store.get("p", "s") == winner


async def test_compare_and_swap_on_what_is_gone_raises_conflict(store: Store):
    first = await store.put("p", "s", b"1")
    await store.delete("p", "s")
    with pytest.raises(Conflict):
        await store.put("p", "s", b"2", expect=first.version)
    assert await store.get("p", "s") is None


async def test_a_version_from_before_a_re_creation_no_longer_fits(store: Store):
    first = await store.put("p", "s", b"1")
    await store.delete("p", "s")
    again = await store.put("p", "s", b"1")
    with pytest.raises(Conflict):
        await store.put("p", "s", b"2", expect=first.version)
    with pytest.raises(Conflict):
        await store.delete("p", "s", expect=first.version)
    assert await store.get("p", "s") == again


async def test_of_concurrent_creators_exactly_one_wins(store: Store):
    """G1.16: the lock has one holder however many ask at once."""
    outcomes = await asyncio.gather(
        *(store.put("p", "lock", b"%d" % n, expect=ABSENT) for n in range(12)), return_exceptions=True
    )
    winners = [outcome for outcome in outcomes if not isinstance(outcome, Conflict)]
    assert winners == [await store.get("p", "lock")]


async def test_of_concurrent_writers_of_one_version_exactly_one_wins(store: Store, place: Place):
    first = await store.put("p", "s", b"")
    outcomes = await asyncio.gather(
        *(store.put("p", "s", b"%d" % n, expect=first.version) for n in range(12)), return_exceptions=True
    )
    winners = [outcome for outcome in outcomes if not isinstance(outcome, Conflict)]
    assert winners == [await store.get("p", "s")]
    assert place.rows() == 1


async def test_concurrent_increments_by_compare_and_swap_all_count(store: Store):
    await store.put("p", "n", b"0")

    async def increment() -> None:
        while True:
            seen = await store.get("p", "n")
            try:
                await store.put("p", "n", b"%d" % (int(seen.value) + 1), expect=seen.version)
            except Conflict:
                continue
            return

    await asyncio.gather(*(increment() for _ in range(10)))
    assert (await store.get("p", "n")).value == b"10"


async def test_deleting_says_whether_there_was_a_record(store: Store, place: Place):
    await store.put("p", "s", b"")
    assert await store.delete("p", "s") is True
    assert await store.delete("p", "s") is False
    assert place.rows() == 0


async def test_deleting_another_version_raises_conflict(store: Store):
    first = await store.put("p", "s", b"1")
    second = await store.put("p", "s", b"2")
    with pytest.raises(Conflict):
        await store.delete("p", "s", expect=first.version)
    assert await store.get("p", "s") == second
    assert await store.delete("p", "s", expect=second.version) is True


async def test_deleting_a_version_of_what_is_gone_raises_conflict(store: Store):
    with pytest.raises(Conflict):
        await store.delete("p", "s", expect="0123456789abcdef")


async def test_deleting_with_absent_expected_is_a_conflict_only_if_there_is_a_record(store: Store):
    assert await store.delete("p", "s", expect=ABSENT) is False
    await store.put("p", "s", b"")
    with pytest.raises(Conflict):
        await store.delete("p", "s", expect=ABSENT)
    assert await store.get("p", "s")


async def test_dropping_a_partition_leaves_the_others(store: Store, place: Place):
    for n in range(30):
        await store.put("p", f"{n}", b"")
    kept = await store.put("q", "s", b"")
    await store.drop("p")
    await store.drop("never there")
    assert await store.query("p") == []
    assert await store.query("q") == [kept]
    assert place.rows() == 1


async def test_an_expired_record_is_not_there(store: Store, clock: Clock):
    await store.put("p", "s", b"", expires_at=clock.now + 10)
    kept = await store.put("p", "t", b"", expires_at=clock.now + 10.5)
    clock.now += 9.75
    assert await store.get("p", "s")
    clock.now += 0.25
    assert await store.get("p", "s") is None
    assert await store.query("p") == [kept]
    assert await store.versions("p") == {"t": kept.version}
    assert await store.delete("p", "s") is False


async def test_an_expired_record_can_be_created_again(store: Store, clock: Clock, place: Place):
    """G1.16: a lock whose holder died is free once it has expired."""
    first = await store.put("p", "lock", b"1", expect=ABSENT, expires_at=clock.now + 10)
    with pytest.raises(Conflict):
        await store.put("p", "lock", b"2", expect=ABSENT)
    clock.now += 10
    second = await store.put("p", "lock", b"2", expect=ABSENT)
    assert second.version != first.version
    assert await store.get("p", "lock") == second
    assert place.rows() == 1


async def test_the_version_of_an_expired_record_fits_no_more(store: Store, clock: Clock):
    first = await store.put("p", "s", b"1", expires_at=clock.now + 10)
    clock.now += 10
    with pytest.raises(Conflict):
        await store.put("p", "s", b"2", expect=first.version)
    with pytest.raises(Conflict):
        await store.delete("p", "s", expect=first.version)


async def test_a_lease_can_be_prolonged(store: Store, clock: Clock):
    first = await store.put("p", "s", b"", expires_at=clock.now + 10)
    second = await store.put("p", "s", b"", expect=first.version, expires_at=clock.now + 20)
    clock.now += 15
    assert await store.get("p", "s") == second


async def test_a_sweep_deletes_what_has_expired_and_counts_it(store: Store, clock: Clock, place: Place):
    for n in range(30):
        await store.put(f"p{n}", "s", b"", expires_at=clock.now + 1)
    later = await store.put("p", "later", b"", expires_at=clock.now + 2)
    never = await store.put("p", "never", b"")
    assert await store.sweep() == 0
    clock.now += 1
    assert await store.sweep() == 30
    assert await store.sweep() == 0
    assert place.rows() == 2
    assert await store.query("p") == [later, never]


@pytest.mark.parametrize("value", [NOISE, PROSE], ids=["noise", "json"])
async def test_a_large_value_comes_back_whole(store: Store, value: bytes):
    written = await store.put("p", "large", value)
    small = await store.put("p", "small", b"s")
    assert await store.get("p", "large") == written
    assert await store.query("p") == [written, small]
    assert await store.versions("p") == {"large": written.version, "small": small.version}


@pytest.mark.parametrize("value", [NOISE, PROSE], ids=["noise", "json"])
async def test_a_large_value_rewritten_small_leaves_nothing_behind(store: Store, place: Place, value: bytes):
    first = await store.put("p", "s", value)
    rows = place.rows()
    second = await store.put("p", "s", value[::-1], expect=first.version)
    assert await store.get("p", "s") == second
    assert place.rows() == rows
    small = await store.put("p", "s", b"small")
    assert await store.get("p", "s") == small
    assert place.rows() == 1


@pytest.mark.parametrize("value", [NOISE, PROSE], ids=["noise", "json"])
async def test_a_deleted_large_value_leaves_nothing_behind(store: Store, place: Place, value: bytes):
    await store.put("p", "s", value)
    assert await store.delete("p", "s") is True
    assert place.rows() == 0


async def test_dropped_large_values_leave_nothing_behind(store: Store, place: Place):
    await store.put("p", "a", NOISE)
    await store.put("p", "b", NOISE)
    await store.drop("p")
    assert place.rows() == 0


async def test_a_swept_large_value_leaves_nothing_behind_and_counts_once(
    store: Store, clock: Clock, place: Place
):
    await store.put("p", "s", NOISE, expires_at=clock.now + 1)
    clock.now += 1
    assert await store.sweep() == 1
    assert place.rows() == 0


async def test_a_large_value_that_lost_its_race_leaves_nothing_behind(store: Store, place: Place):
    held = await store.put("p", "s", b"held")
    with pytest.raises(Conflict):
        await store.put("p", "s", NOISE, expect=ABSENT)
    assert await store.get("p", "s") == held
    assert place.rows() == 1


async def test_concurrent_large_writes_leave_one_whole_value(store: Store, place: Place):
    values = [bytes([n]) + NOISE for n in range(4)]
    await asyncio.gather(*(store.put("p", "s", value) for value in values))
    rows = place.rows()
    assert (await store.get("p", "s")).value in values
    await store.put("p", "s", NOISE)
    assert place.rows() == rows
    await store.delete("p", "s")
    assert place.rows() == 0


async def test_a_second_store_on_the_same_data_sees_it(store: Store, place: Place):
    written = await store.put("p", "s", b"v")
    other = place.open(place.clock)
    try:
        assert await other.get("p", "s") == written
    finally:
        if other is not store:
            await other.close()


def test_polling_is_bounded_for_every_store(place: Place):
    assert 0.05 <= place.open(place.clock).poll_s <= 2.0


async def test_a_spec_opens_the_store_it_names(tmp_path: Path):
    opened = open_store(f"sqlite:{tmp_path}/deep/state.db")
    assert isinstance(opened, SqliteStore)
    await opened.close()
    assert isinstance(open_store("memory"), MemoryStore)


async def test_a_dynamodb_spec_opens_that_table(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws(), closing(_client()) as client:
        create_table(client, "portico")
        opened = open_store("dynamodb:portico")
        written = await opened.put("p", "s", b"v")
        assert await opened.get("p", "s") == written
        await opened.close()
        assert len(_scan(client, "portico")) == 1


@pytest.mark.parametrize(
    "spec", ["", "sqlite", "sqlite:", "dynamodb:", "memory:x", "redis://localhost", "state.db"]
)
def test_a_bad_spec_says_what_is_expected(spec: str):
    with pytest.raises(ValueError, match="expected sqlite:PATH, memory or dynamodb:TABLE"):
        open_store(spec)


def test_opening_sqlite_does_not_import_boto3(tmp_path: Path):
    program = (
        "import sys; from portico.stores import open_store; open_store(sys.argv[1]);"
        "sys.exit(any(name in sys.modules for name in ('boto3', 'botocore')))"
    )
    subprocess.run([sys.executable, "-c", program, f"sqlite:{tmp_path}/s.db"], check=True, timeout=30)


@dataclass
class Interposed:
    """A client of which single operations are replaced."""

    client: Any
    replaced: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return self.replaced.get(name) or getattr(self.client, name)


@pytest.fixture
def dynamo() -> Iterator[Interposed]:
    with mock_aws(), closing(_client()) as client:
        create_table(client, "portico")
        yield Interposed(client)


async def test_dynamodb_keys_are_the_partition_and_sort_key_verbatim(dynamo: Interposed):
    """G1.10: PK=SESSION#sid, SK=BACKEND#server."""
    await DynamoStore("portico", dynamo).put("SESSION#4711", "BACKEND#github", b"{}")
    (item,) = _scan(dynamo.client, "portico")
    assert (item["PK"], item["SK"]) == ({"S": "SESSION#4711"}, {"S": "BACKEND#github"})
    assert item["value"] == {"B": b"{}"}


async def test_dynamodb_expires_items_and_their_chunks_itself_in_whole_seconds(dynamo: Interposed):
    await DynamoStore("portico", dynamo, Clock()).put("p", "s", NOISE, expires_at=1_800_000_060.25)
    items = _scan(dynamo.client, "portico")
    assert len(items) == 7
    assert {item["expires"]["N"] for item in items} == {"1800000061"}
    ttl = dynamo.client.describe_time_to_live(TableName="portico")["TimeToLiveDescription"]
    assert ttl == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}


async def test_dynamodb_items_stay_below_their_limit(dynamo: Interposed):
    await DynamoStore("portico", dynamo).put("p", "s", NOISE)
    sizes = [len(item["value"]["B"]) for item in _scan(dynamo.client, "portico") if "value" in item]
    assert max(sizes) <= 350_000
    assert sum(sizes) == len(NOISE)


async def test_large_json_is_one_compressed_dynamodb_item(dynamo: Interposed):
    await DynamoStore("portico", dynamo).put("p", "s", PROSE)
    (item,) = _scan(dynamo.client, "portico")
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
