"""Connections to a source are kept for the next select, watched while one runs, and closed in the end."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from conftest import NSYS

from nsysconv.errors import InputError
from nsysconv.importers import probe
from nsysconv.importers.probe import ConnectionPool, Probe, SelectTimeoutError

BASIC = NSYS / "basic-3.25.0.sqlite"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
SHORT = "SELECT count(*) FROM StringIds"


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    with closing(ConnectionPool(BASIC, 0)) as pool:
        yield pool


def test_a_connection_is_kept_for_the_next_select(pool: ConnectionPool) -> None:
    with pool.connection() as first:
        first.execute(SHORT)
    with pool.connection() as second:
        assert second is first


def test_two_selects_at_once_have_one_each(pool: ConnectionPool) -> None:
    with pool.connection() as kept:
        kept.execute(SHORT)
    with pool.connection() as first, pool.connection() as second:
        assert first is kept
        assert second is not first


@pytest.mark.parametrize("sql", ["SELECT nothing", "SELECT abs(-9223372036854775808)"])
def test_none_is_kept_after_an_error(pool: ConnectionPool, sql: str) -> None:
    with pytest.raises(sqlite3.OperationalError), pool.connection() as first:
        first.execute(sql).fetchall()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        first.execute(SHORT)
    with pool.connection() as second:
        assert second.execute(SHORT).fetchone() > (0,)


def test_each_select_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one on a connection that was kept."""
    monkeypatch.setattr(probe, "SELECT_SECONDS", 0.3)
    with closing(ConnectionPool(BASIC, 5_000_000_000)) as long:
        assert long._seconds == 5_000.3
    with closing(ConnectionPool(BASIC, 0)) as pool:
        for _ in range(2):
            with pool.connection() as kept:
                kept.execute(SHORT)
            with pytest.raises(SelectTimeoutError, match="in 0 s"), pool.connection() as again:
                assert again is kept
                again.execute(ENDLESS).fetchall()


def test_a_source_cannot_be_written_to(pool: ConnectionPool) -> None:
    with (pytest.raises(sqlite3.OperationalError, match="readonly"), pool.connection() as connection):
        connection.execute("CREATE TABLE x (y)")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no list of open files")
def test_none_stays_open_behind_a_probe(tmp_path: Path) -> None:
    source = tmp_path / "export.sqlite"
    shutil.copyfile(BASIC, source)

    def open_now() -> int:
        links = Path("/proc/self/fd").iterdir()
        return sum(os.path.realpath(link) == str(source) for link in links)

    with Probe(source) as probe:
        unfinished, finished = (probe.iterate("SELECT id FROM StringIds") for _ in range(2))
        next(unfinished), next(finished)
        assert len(list(finished)) > 1
        assert open_now() == 2
    assert open_now() == 1
    unfinished.close()  # type: ignore[attr-defined] # a generator
    assert open_now() == 0


def test_more_rows_than_bytes_are_damage() -> None:
    """Pages that refer to each other give the same rows for ever."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    with Probe(BASIC) as source, pytest.raises(InputError, match="more rows than bytes"):
        source.select(endless)


def test_rows_that_are_in_the_journal_yet_are_no_damage(tmp_path: Path) -> None:
    """The file itself is one page then."""
    made, copy = tmp_path / "made.sqlite", tmp_path / "copy.sqlite"
    rows = 3 * 4096
    with closing(sqlite3.connect(made)) as connection:
        connection.execute("PRAGMA page_size=4096")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("CREATE TABLE t (a INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?)", ((i,) for i in range(rows)))
        connection.commit()
        for ending in ("", "-wal"):
            shutil.copyfile(f"{made}{ending}", f"{copy}{ending}")
    with Probe(copy) as source:
        assert source.size < rows
        assert len(source.select("SELECT a FROM t")) == rows
