"""Records of backends, kept in every kind of store."""

import asyncio

import pytest

from portico.registrations import REGISTRY, Condition, Refused, Registrations
from portico.registry import parse

FILE = parse("backends: {one: {url: 'http://127.0.0.1:9001/mcp'}}")
URL = "http://127.0.0.1:9002/mcp"


@pytest.fixture
def own(store):
    return Registrations(store, FILE)


def names(own):
    return [backend.name for backend in own.merged.registry.backends]


async def refused(action):
    with pytest.raises(Refused) as caught:
        await action
    return caught.value.status


async def test_a_record_is_made_changed_and_removed(own, store):
    """G1.32"""
    await own.create("late", {"url": URL})
    await own.change("late", {"prefix": "l_", "hint": "x"})
    await own.change("late", {"hint": None})
    assert own.merged.registry.backends[1].prefix == "l_"
    (record,) = await store.query(REGISTRY)
    assert (record.sort, record.value) == ("late", b'{"prefix": "l_", "url": "%s"}' % URL.encode())
    await own.remove("late")
    assert names(own) == ["one"]
    assert await store.query(REGISTRY) == []


async def test_another_process_sees_what_was_written(own, store):
    """G1.92"""
    other = Registrations(store, FILE)
    await own.create("late", {"url": URL})
    await own.change("one", {"enabled": False})
    await other.refresh()
    assert other.merged == own.merged
    await other.change("one", {"enabled": True})
    await own.refresh()
    assert own.merged.registry.backends[0].enabled


async def test_nothing_is_written_that_is_refused(own, store):
    assert await refused(own.create("one", {"url": URL})) == 409
    assert await refused(own.create("late", {"url": URL, "prefix": "one_"})) == 409
    assert await refused(own.create("late", {"url": "nowhere"})) == 422
    assert await refused(own.change("late", {"url": URL})) == 404
    assert await refused(own.remove("late")) == 404
    assert await refused(own.replace("one", {"url": URL})) == 409
    assert await refused(own.remove("one")) == 409
    assert await refused(own.change("one", {"url": URL})) == 422
    assert await refused(own.replace("late", {"url": URL}, Condition('"v"'))) == 412
    assert await store.query(REGISTRY) == []


async def test_of_writers_at_once_one_wins_and_the_others_are_told(own, store):
    others = [Registrations(store, FILE) for _ in range(5)]
    made = await asyncio.gather(*(one.create("late", {"url": URL}) for one in others), return_exceptions=True)
    assert sorted(outcome.status if outcome else 0 for outcome in made) == [0, 409, 409, 409, 409]
    await own.refresh()
    version = Condition(f'"{own.version("late")}"')
    changed = await asyncio.gather(
        *(one.change("late", {"hint": str(n)}, version) for n, one in enumerate(others)),
        return_exceptions=True,
    )
    assert sorted(outcome.status if outcome else 0 for outcome in changed) == [0, 412, 412, 412, 412]


async def test_what_the_file_itself_disables_cannot_be_enabled(store):
    own = Registrations(store, parse("backends: {one: {url: 'http://127.0.0.1:9001/mcp', enabled: false}}"))
    assert await refused(own.change("one", {"enabled": True})) == 409


async def test_a_new_file_is_merged_with_the_records_known(own):
    """G1.34"""
    await own.create("late", {"url": URL})
    own.use(parse(f"backends: {{late: {{url: '{URL}'}}}}"))
    assert names(own) == ["late"]
    assert list(own.merged.problems) == ["late"]
    assert (await own.one("late"))["source"] == "file"
    await own.remove("late")
    assert not own.merged.problems
