"""What every store promises, asked of all of them."""

import asyncio
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from moto import mock_aws

from portico.stores import open_store
from portico.stores.base import ABSENT, Conflict, Store
from portico.stores.dynamodb import DynamoStore, create_table
from portico.stores.memory import MemoryStore
from portico.stores.sqlite import SqliteStore
from tests.contract.places import NOISE, PROSE, Clock, Place, dynamodb_client, scan


async def test_what_was_put_can_be_got(store: Store):
    written = await store.put("p", "s", b"value", expires_at=1_800_000_060.75)
    assert await store.get("p", "s") == written
    assert (written.partition, written.sort, written.value) == ("p", "s", b"value")
    assert written.expires_at == 1_800_000_060.75


async def test_a_stamp_tells_of_every_change(store: Store):
    """A store that cannot tell cheaply says so, and is asked each time."""
    if store.stamp() is None:
        assert isinstance(store, DynamoStore)
        return
    stamps = [store.stamp()]
    for change in (
        store.put("p", "s", b"1"),
        store.put("p", "s", b"2"),
        store.delete("p", "s"),
        store.put("p", "t", b"3"),
        store.drop("p"),
    ):
        await change
        stamps.append(store.stamp())
    assert len(set(stamps)) == len(stamps)
    await store.get("p", "s")
    await store.query("p")
    assert store.stamp() == stamps[-1]


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


async def test_a_dynamodb_spec_opens_that_table(monkeypatch: pytest.MonkeyPatch, dynamodb_local: str):
    """With all it needs in the environment, and without boto3."""
    keys = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    for name, value in {**keys, "AWS_ENDPOINT_URL_DYNAMODB": dynamodb_local}.items():
        monkeypatch.setenv(name, value)
    with closing(dynamodb_client(endpoint_url=dynamodb_local)) as client:
        create_table(client, "portico-spec")
        opened = open_store("dynamodb:portico-spec")
        written = await opened.put("p", "s", b"v")
        assert await opened.get("p", "s") == written
        await opened.close()
        assert len(scan(client, "portico-spec")) == 1
        client.delete_table(TableName="portico-spec")


async def test_other_credentials_are_found_as_boto3_finds_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    known = tmp_path / "credentials"
    known.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    with mock_aws(), closing(dynamodb_client()) as client:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.setenv(name, "")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(known))
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        create_table(client, "portico")
        opened = open_store("dynamodb:portico")
        written = await opened.put("p", "s", b"v")
        assert await opened.get("p", "s") == written
        await opened.close()


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
