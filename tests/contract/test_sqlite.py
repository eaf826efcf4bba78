"""What only the SQLite store has: a file, and other processes on it."""

import asyncio
import multiprocessing
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from portico.stores import sqlite
from portico.stores.base import Unavailable
from portico.stores.sqlite import SqliteStore, UnusableFile

INCREMENT = """
import asyncio, sys
from portico.stores.base import Conflict
from portico.stores.sqlite import SqliteStore

async def main(path, times):
    store = SqliteStore(path)
    for _ in range(times):
        while True:
            seen = await store.get("p", "n")
            try:
                if seen is None:
                    await store.put("p", "n", b"1", expect="")
                else:
                    await store.put("p", "n", b"%d" % (int(seen.value) + 1), expect=seen.version)
            except Conflict:
                continue
            break
    await store.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def _run_at_once(processes: int, program: str, *arguments: str) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    failures = [process.communicate(timeout=60)[1] for process in running]
    assert [process.returncode for process in running] == [0] * processes, failures


async def test_no_increment_of_four_processes_is_lost(tmp_path: Path):
    path = tmp_path / "state.db"
    _run_at_once(4, INCREMENT, str(path), "200")
    store = SqliteStore(path)
    assert (await store.get("p", "n")).value == b"800"
    await store.close()


def _open_in_step(paths: list[Path], together: Barrier) -> None:
    try:
        for path in paths:
            together.wait(timeout=30)
            SqliteStore(path)._db.close()
    except UnusableFile:
        together.abort()  # rather than let the others wait for this one
        raise


def test_processes_may_create_the_file_at_the_same_moment(tmp_path: Path):
    """The race itself, whose outcome is luck; the next test makes it certain."""
    context = multiprocessing.get_context("spawn")
    paths = [tmp_path / f"{n}.db" for n in range(60)]
    together = context.Barrier(8)
    processes = [context.Process(target=_open_in_step, args=(paths, together)) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=60)
    assert [process.exitcode for process in processes] == [0] * 8


async def test_opening_waits_for_another_who_is_just_creating_the_file(tmp_path: Path):
    """SQLite refuses the switch to WAL at once, whatever the busy timeout, while another is about to write."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.2, other.rollback)
        release.start()
        store = SqliteStore(path)
        release.join()
    assert await store.get("p", "s") is None
    await store.close()


async def test_a_change_by_another_process_is_seen_by_its_version(tmp_path: Path):
    path = tmp_path / "state.db"
    store = SqliteStore(path)
    before = await store.put("p", "n", b"41")
    _run_at_once(1, INCREMENT, str(path), "1")
    assert (await store.versions("p"))["n"] != before.version
    assert (await store.get("p", "n")).value == b"42"
    await store.close()


async def test_a_restart_keeps_the_data(tmp_path: Path):
    first = SqliteStore(tmp_path / "state.db")
    written = await first.put("p", "s", b"v", expires_at=4e9)
    await first.close()
    second = SqliteStore(tmp_path / "state.db")
    assert await second.get("p", "s") == written
    await second.close()


async def test_a_killed_process_loses_nothing_it_had_written(tmp_path: Path):
    program = INCREMENT.replace("await store.close()", "import os; os.kill(os.getpid(), 9)")
    path = tmp_path / "state.db"
    ended = subprocess.run([sys.executable, "-c", program, str(path), "20"], check=False, timeout=30)
    assert ended.returncode == -signal.SIGKILL
    store = SqliteStore(path)
    assert (await store.get("p", "n")).value == b"20"
    await store.close()


async def test_the_file_and_its_directory_are_private(tmp_path: Path):
    store = SqliteStore(tmp_path / "new" / "state.db")
    await store.put("p", "s", b"secret")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    await store.close()


PRAGMAS = {"journal_mode": "wal", "synchronous": 1, "busy_timeout": 20}


async def test_it_writes_ahead_and_waits_for_others(tmp_path: Path):
    store = SqliteStore(tmp_path / "state.db")
    pragmas = {name: store._db.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS}
    assert pragmas == PRAGMAS
    await store.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but somebody's notes\n" * 100)
    before = path.read_bytes()
    with pytest.raises(UnusableFile, match=r"notes\.txt: file is not a database"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_file_of_a_newer_portico_is_refused(tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(UnusableFile, match="newer Portico"):
        SqliteStore(tmp_path / "state.db")


@pytest.mark.parametrize("path", ["file/state.db", "directory"])
def test_a_path_that_cannot_be_written_is_refused_by_name(tmp_path: Path, path: str):
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    with pytest.raises(UnusableFile, match=f"cannot keep state in .*{path}: .* Choose a writable path"):
        SqliteStore(tmp_path / path)


OPEN_WITHOUT_ROOT = """
import os, sys
from portico.stores import sqlite
from portico.stores.base import Unavailable
from portico.stores.sqlite import SqliteStore, UnusableFile
if os.getuid() == 0:
    os.setuid(65534)
try:
    SqliteStore(sys.argv[1])
except UnusableFile as error:
    print(error)
"""


def test_a_directory_without_write_permission_is_refused():
    """In a process of its own that gives up root, to whom no directory is read-only."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o555)
        command = [sys.executable, "-c", OPEN_WITHOUT_ROOT, f"{directory}/state.db"]
        said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
        Path(directory).chmod(0o755)
    assert f"cannot keep state in {directory}/state.db" in said
    assert "Permission denied" in said


async def test_a_stamp_tells_of_what_another_process_wrote(tmp_path):
    one, two = SqliteStore(tmp_path / "s.db"), SqliteStore(tmp_path / "s.db")
    before = one.stamp()
    await two.put("p", "s", b"1")
    assert one.stamp() != before
    await one.close()
    await two.close()


async def test_a_writer_that_must_wait_does_not_hold_up_the_loop(tmp_path):
    store, other = SqliteStore(tmp_path / "s.db"), sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    turns = 0
    writing = asyncio.create_task(store.put("p", "s", b"1"))
    while turns < 20:
        await asyncio.sleep(0.005)
        turns += 1
    assert not writing.done()
    other.execute("COMMIT")
    assert (await writing).value == b"1"
    other.close()
    await store.close()


async def test_a_store_that_stays_locked_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.1)
    store, other = SqliteStore(tmp_path / "s.db"), sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        await store.put("p", "s", b"1")
    other.close()
    await store.close()
