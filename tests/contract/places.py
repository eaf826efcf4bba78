"""Where the stores under test keep their data."""

import json
import random
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from moto import mock_aws

from portico.signing import Credentials
from portico.stores.base import Store
from portico.stores.dynamodb import DynamoStore, create_table
from portico.stores.dynamodb_client import DynamoClient
from portico.stores.memory import MemoryStore
from portico.stores.sqlite import SqliteStore

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


def dynamodb_client(**options: Any) -> Any:
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
def _table(client: Any, used: Any = None) -> Iterator[Place]:
    """`used`: what the store talks through, if not that client."""
    table = f"portico-{secrets.token_hex(4)}"
    create_table(client, table)
    yield Place(lambda clock: DynamoStore(table, used or client, clock), lambda: len(scan(client, table)))
    client.delete_table(TableName=table)


def scan(client: Any, table: str) -> list[dict[str, Any]]:
    return [item for page in client.get_paginator("scan").paginate(TableName=table) for item in page["Items"]]


@contextmanager
def _moto(_: pytest.FixtureRequest) -> Iterator[Place]:
    with mock_aws(), closing(dynamodb_client()) as client, _table(OneAtATime(client)) as place:
        yield place


@contextmanager
def _dynamodb_local(request: pytest.FixtureRequest) -> Iterator[Place]:
    endpoint = request.getfixturevalue("dynamodb_local")
    with closing(dynamodb_client(endpoint_url=endpoint)) as client, _table(client) as place:
        yield place


@contextmanager
def _dynamodb_local_without_boto3(request: pytest.FixtureRequest) -> Iterator[Place]:
    endpoint = request.getfixturevalue("dynamodb_local")
    own = DynamoClient("eu-west-1", lambda: Credentials("test", "test"), endpoint)
    with (
        closing(own),
        closing(dynamodb_client(endpoint_url=endpoint)) as client,
        _table(client, own) as place,
    ):
        yield place


PLACES = {
    "sqlite": _sqlite,
    "memory": _memory,
    "moto": _moto,
    "dynamodb-local": _dynamodb_local,
    "dynamodb-local-without-boto3": _dynamodb_local_without_boto3,
}
