"""Descriptors beside SQLite's own: none is closed while a lock may be lost by it, and none is left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import NSYS, Shelf
from test_store_locks import another_process_writes

from nsysconv import schema
from nsysconv.errors import NsysconvError
from nsysconv.store.location import reading
from nsysconv.store.sqlite import connection as sqlite_connection
from nsysconv.store.sqlite import page_reader
from nsysconv.store.sqlite.connection import SqliteConnection, open_for_reading, sqlite_uri

OPEN = Path("/proc/self/fd")
pytestmark = pytest.mark.skipif(not OPEN.is_dir(), reason="a process cannot see its descriptors here")


@pytest.fixture(autouse=True)
def read_from_pages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """So are any rows; the ids up to which. And what other tests have open does not count."""
    read_up_to: list[int] = []
    before = page_reader.read
    monkeypatch.setattr(
        page_reader, "read", lambda *about: read_up_to.append(about[-1]) or before(*about)
    )
    monkeypatch.setattr(page_reader, "WORTH_ROWS", 0)
    monkeypatch.setattr(sqlite_connection, "_descriptor_holders", 0)
    monkeypatch.setattr(sqlite_connection, "_shared_descriptors", {})
    return read_up_to


@pytest.fixture
def store(shelf: Shelf, tmp_path: Path) -> Path:
    return Path(shutil.copyfile(shelf.store(NSYS / "basic-3.25.0.sqlite"), tmp_path / "store.db"))


def durations(connection: SqliteConnection) -> list[int]:
    return [int(v) for (part,) in connection.columns([schema.kernel.c.dur_ns], 1, 1, 8) for v in part]


def count_of(path: Path) -> int:
    """How many descriptors of a file this process has."""
    return sum(one.samefile(path) for one in OPEN.iterdir() if one.exists())


# -- locks


def _read_a_profile(store: Path) -> None:
    with reading(store) as opened:
        opened.profiles()[0].columns("kernel", ("dur_ns", "start_ns"))


def _read_by_two_connections(store: Path) -> None:
    with open_for_reading(store) as first:
        with open_for_reading(store) as second:
            assert len(durations(second)) == 8
        assert len(durations(first)) == 8


def _take_one_batch(store: Path) -> None:
    with open_for_reading(store) as connection:
        next(connection.columns([schema.kernel.c.dur_ns], 1, 1, 8))


@pytest.mark.parametrize("read", [_read_a_profile, _read_by_two_connections, _take_one_batch])
def test_a_write_lock_outlasts_the_reading_of_pages(
    store: Path, read_from_pages: list[int], read: Callable[[Path], None]
) -> None:
    with SqliteConnection(sqlite_uri(store, "rw"), str(store)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE run SET label = 'changed'")
        read(store)
        assert read_from_pages
        assert another_process_writes(store) == "database is locked"
    assert another_process_writes(store) == "wrote"


# -- what is open


def test_a_file_has_one_until_the_last_connection_is_closed(store: Path, tmp_path: Path) -> None:
    other = Path(shutil.copyfile(store, tmp_path / "other.db"))
    (tmp_path / "linked.db").hardlink_to(store)
    with SqliteConnection(":memory:", "memory"):
        for path in (store, other, store, tmp_path / "linked.db"):
            with open_for_reading(path), open_for_reading(path):
                pass
        assert (count_of(store), count_of(other)) == (1, 1)
    assert (count_of(store), count_of(other)) == (0, 0)


def test_a_file_that_took_the_name_has_another(store: Path, tmp_path: Path) -> None:
    other = Path(shutil.copyfile(store, tmp_path / "other.db"))
    sqlite_connection.hold_descriptors()
    old = sqlite_connection.shared_descriptor(store)
    assert old is not None
    assert sqlite_connection.is_open_on(old, store)
    other.replace(store)
    assert not sqlite_connection.is_open_on(old, store)
    assert sqlite_connection.shared_descriptor(store) not in (None, old)
    assert os.fstat(old).st_nlink == 0  # and still open
    store.unlink()
    assert sqlite_connection.shared_descriptor(store) is None
    assert not sqlite_connection.is_open_on(old, store)
    sqlite_connection.release_descriptors()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(old)


def test_a_known_file_takes_the_name_while_it_is_opened(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was opened for nothing must not be closed yet, and is in the end."""
    other = Path(shutil.copyfile(store, tmp_path / "other.db"))
    before = os.open
    sqlite_connection.hold_descriptors()
    known = sqlite_connection.shared_descriptor(other)
    monkeypatch.setattr(os, "open", lambda *about: [other.replace(store), before(*about)][1])
    assert sqlite_connection.shared_descriptor(store) == known
    assert count_of(store) == 2
    sqlite_connection.release_descriptors()
    assert count_of(store) == 0


def test_no_more_than_64_files_are_open(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(66)]
    for path in paths:
        path.touch()
    sqlite_connection.hold_descriptors()
    numbers = [sqlite_connection.shared_descriptor(path) for path in paths]
    assert [number is None for number in numbers] == [False] * 64 + [True] * 2
    assert [sqlite_connection.shared_descriptor(path) for path in paths] == numbers
    sqlite_connection.release_descriptors()


def test_what_has_no_descriptor_is_read_by_sqlite(
    store: Path, read_from_pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_connection, "MOST_SHARED_FILES", 0)
    with open_for_reading(store) as connection:
        found = durations(connection)
    assert (len(found), read_from_pages) == (8, [])


# -- balance


def test_nothing_is_left_of_connections_that_failed(store: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("no database " * 99)
    before = len(list(OPEN.iterdir()))
    for _ in range(20):
        for name in ("folder", "text", "missing", "missing/store.db"):
            with pytest.raises(NsysconvError), open_for_reading(tmp_path / name) as connection:
                connection.number("SELECT count(*) FROM run")
        with pytest.raises(NsysconvError):
            SqliteConnection("file:x?mode=nonsense", "x")
        assert len(list(OPEN.iterdir())) == before
    assert sqlite_connection._descriptor_holders == 0


def test_a_second_close_lets_go_of_nothing(store: Path) -> None:
    with open_for_reading(store):
        before = count_of(store)
        connection = open_for_reading(store)
        for _ in range(3):
            connection.close()
        assert count_of(store) == before
    assert (count_of(store), sqlite_connection._descriptor_holders) == (0, 0)


def test_threads_open_and_close(store: Path) -> None:
    def work(_: Any) -> int:
        with open_for_reading(store) as connection:
            return len(durations(connection))

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(60))) == {8}
    assert (count_of(store), sqlite_connection._descriptor_holders) == (0, 0)
