"""Records in one SQLite file, shared by any number of processes of one machine.

Statements run on the event loop's own thread: a point read costs less than handing it to another thread would.
Every write is a single statement, so that SQLite itself makes it atomic.
"""

import asyncio
import os
import secrets
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from portico.stores.base import ABSENT, Conflict, Record, Unavailable

SCHEMA_VERSION: Final = 1
BUSY_TIMEOUT_S: Final = 5.0
BUSY_PAUSE_S: Final = 0.02

# The value comes last: what is before it is read without touching a large value's overflow pages.
SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS records (
    partition TEXT NOT NULL,
    sort TEXT NOT NULL,
    version TEXT NOT NULL,
    expires_at REAL,
    value BLOB NOT NULL,
    PRIMARY KEY (partition, sort)
);
CREATE INDEX IF NOT EXISTS records_by_expiry ON records (expires_at) WHERE expires_at IS NOT NULL;
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""

LIVE: Final = "(expires_at IS NULL OR expires_at > :now)"
ONE: Final = "partition = :partition AND sort = :sort"
GET: Final = f"SELECT value, version, expires_at FROM records WHERE {ONE} AND {LIVE}"  # noqa: S608
QUERY: Final = f"""SELECT partition, sort, value, version, expires_at FROM records
    WHERE partition = :partition AND {LIVE} ORDER BY sort"""  # noqa: S608
VERSIONS: Final = f"SELECT sort, version FROM records WHERE partition = :partition AND {LIVE} ORDER BY sort"  # noqa: S608
WRITE: Final = """INSERT INTO records (partition, sort, version, expires_at, value)
    VALUES (:partition, :sort, :version, :expires_at, :value)
    ON CONFLICT (partition, sort) DO UPDATE
    SET version = excluded.version, expires_at = excluded.expires_at, value = excluded.value"""
CREATE: Final = f"{WRITE} WHERE records.expires_at <= :now"
REPLACE: Final = f"""UPDATE records SET version = :version, expires_at = :expires_at, value = :value
    WHERE {ONE} AND version = :expect AND {LIVE}"""  # noqa: S608
DELETE: Final = f"DELETE FROM records WHERE {ONE} AND {LIVE}"  # noqa: S608
DELETE_VERSION: Final = f"{DELETE} AND version = :expect"
DROP: Final = "DELETE FROM records WHERE partition = :partition"
SWEEP: Final = "DELETE FROM records WHERE expires_at <= :now"


class UnusableFile(OSError):
    """The path given cannot serve as a store; the message says why and what to do."""


class SqliteStore:
    poll_s = 0.2

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._db = _open(Path(path).expanduser())

    def stamp(self) -> object:
        (others,) = self._db.execute("PRAGMA data_version").fetchone()
        return others, self._db.total_changes

    async def get(self, partition: str, sort: str) -> Record | None:
        found = self._db.execute(GET, {"partition": partition, "sort": sort, "now": self._clock()}).fetchone()
        return Record(partition, sort, *found) if found else None

    async def query(self, partition: str) -> list[Record]:
        rows = self._db.execute(QUERY, {"partition": partition, "now": self._clock()})
        return [Record(*row) for row in rows]

    async def versions(self, partition: str) -> dict[str, str]:
        return dict(self._db.execute(VERSIONS, {"partition": partition, "now": self._clock()}).fetchall())

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
        statement = WRITE if expect is None else CREATE if expect == ABSENT else REPLACE
        parameters = {
            "partition": partition,
            "sort": sort,
            "value": value,
            "version": record.version,
            "expires_at": expires_at,
            "expect": expect,
            "now": self._clock(),
        }
        if await self._write(statement, parameters) != 1:
            raise Conflict(f"{partition} {sort}")
        return record

    async def delete(self, partition: str, sort: str, *, expect: str | None = None) -> bool:
        if expect == ABSENT:
            if await self.get(partition, sort):
                raise Conflict(f"{partition} {sort}")
            return False
        statement = DELETE if expect is None else DELETE_VERSION
        parameters = {"partition": partition, "sort": sort, "expect": expect, "now": self._clock()}
        deleted = await self._write(statement, parameters) == 1
        if expect is not None and not deleted:
            raise Conflict(f"{partition} {sort}")
        return deleted

    async def drop(self, partition: str) -> None:
        await self._write(DROP, {"partition": partition})

    async def sweep(self) -> int:
        return await self._write(SWEEP, {"now": self._clock()})

    async def close(self) -> None:
        self._db.close()

    async def _write(self, statement: str, parameters: dict[str, Any]) -> int:
        """How many rows it concerned. Waits for another process that is writing, without keeping the loop from its work."""
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                return self._db.execute(statement, parameters).rowcount
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise Unavailable(f"sqlite: {error}") from error
            await asyncio.sleep(BUSY_PAUSE_S)


def _open(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        # The server's loop may run in another thread than the one that opened the store.
        db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise UnusableFile(f"cannot keep state in {path}: {error}. Choose a writable path.") from error
    try:
        _prepare(db)
    except sqlite3.Error as error:
        db.close()
        raise UnusableFile(
            f"cannot keep state in {path}: {error}. Move it away or choose another."
        ) from error
    return db


def _prepare(db: sqlite3.Connection) -> None:
    _use_wal(db)
    db.execute("PRAGMA synchronous = NORMAL")
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if found > SCHEMA_VERSION:
        raise sqlite3.DatabaseError(f"written by a newer Portico (schema {found})")
    if found < SCHEMA_VERSION:
        db.executescript(SCHEMA)
    # From here on it is `_write` that waits.
    db.execute(f"PRAGMA busy_timeout = {int(BUSY_PAUSE_S * 1000)}")


def _use_wal(db: sqlite3.Connection) -> None:
    # The busy timeout does not cover this switch while another process is creating the same file.
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
