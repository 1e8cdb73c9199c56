"""Tables that grow by pages: SQLite finds in them what was added, and nothing else."""

from __future__ import annotations

import errno
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import MonkeyPatch
from test_store_pages import EDGES

from nsysconv.errors import UsageError
from nsysconv.report import MISSING
from nsysconv.store.sqlite import growth as growing
from nsysconv.store.sqlite.growth import Growth
from nsysconv.store.sqlite.leaves import leaves
from nsysconv.store.sqlite.records import NotPlainError

PAGE_SIZES = [2**n for n in range(9, 17)]
# An id, five columns of whole numbers and one of others: as few bytes as a cell can have.
COLUMNS = "id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, c INTEGER, d INTEGER, e INTEGER, r REAL"
HUGE = 1 << 60
Rows = list[tuple[Any, ...]]


class File:
    """A SQLite file with tables t and u that grow, and one that SQLite writes to."""

    def __init__(self, path: Path, page_size: int) -> None:
        self.path = path
        with closing(self.connected()) as connection:
            connection.execute(f"PRAGMA page_size={page_size}")
            for table in ("t", "u"):
                connection.execute(f"CREATE TABLE {table} ({COLUMNS})")
            connection.execute("CREATE TABLE other (x)")
            roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_schema"))
        del roots["other"]
        self.growth = Growth(path, "here", page_size, roots)

    def connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None)

    def rows(self, table: str) -> Rows:
        with closing(self.connected()) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    made = File(tmp_path / "grown.db", 512)
    yield made
    made.growth.close()


def columns(rows: Rows) -> list[np.ndarray]:
    """Rows as columns, with the one for ids in front."""
    *whole, real = zip(*rows, strict=True)
    numbers = [np.array([MISSING if v is None else v for v in column], np.int64) for column in whole]
    reals = np.array([math.nan if v is None else v for v in real], np.float64)
    return [np.full(len(rows), MISSING), *numbers, reals]


def numbered(rows: Rows, first: int = 1) -> Rows:
    return [(number, *row) for number, row in enumerate(rows, first)]


def some(count: int, seed: int = 0) -> Rows:
    """Rows of numbers of all sizes."""
    random = np.random.default_rng(seed)
    edges = np.array([edge for edge in EDGES if edge != MISSING])
    whole = random.choice(edges, (count, 5)).tolist()
    return [(*row, value) for row, value in zip(whole, random.random(count).tolist(), strict=True)]


# -- any rows

NUMBERS = st.sampled_from([edge for edge in EDGES if edge != MISSING])
WHOLE = st.one_of(st.just(0), st.just(1), st.none(), NUMBERS, st.integers(-300, 300))
REAL = st.one_of(st.none(), st.floats(allow_nan=False))


@st.composite
def tables(draw: st.DrawFn) -> Rows:
    """Rows of which some columns hold one value, and others a few, in any order."""
    lengths = [draw(st.sampled_from([1, 1, 2, 5])) for _ in range(5)]
    few = [draw(st.lists(WHOLE, min_size=1, max_size=length)) for length in lengths]
    reals = draw(st.lists(REAL, min_size=1, max_size=3))
    count = draw(st.integers(1, 400))
    picks = np.random.default_rng(draw(st.integers(0, 1000))).integers(0, 60, (count, 6)).tolist()
    choices = [*few, reals]
    return [tuple(choices[n][pick % len(choices[n])] for n, pick in enumerate(row)) for row in picks]


@settings(max_examples=300, deadline=None)
@given(
    page_size=st.sampled_from([512, 512, 512, *PAGE_SIZES]),  # small ones make high trees
    rounds=st.lists(
        st.tuples(st.lists(st.tuples(st.sampled_from("tu"), tables()), max_size=4), st.booleans()),
        min_size=1,
        max_size=4,
    ),
)
def test_sqlite_finds_what_was_added(
    tmp_path_factory: pytest.TempPathFactory,
    page_size: int,
    rounds: list[tuple[list[tuple[str, Rows]], bool]],
) -> None:
    """Several tables grow in turns, SQLite writes in between, and some rounds come to nothing."""
    file = File(tmp_path_factory.mktemp("grown") / "grown.db", page_size)
    expected: dict[str, Rows] = {"t": [], "u": [], "other": []}
    with closing(file.growth), closing(file.connected()) as connection:
        for adds, fails in rounds:
            kept = {table: list(rows) for table, rows in expected.items()}
            try:
                with file.growth.kept():
                    for table, rows in adds:
                        try:
                            file.growth.add(table, columns(rows))
                        except NotPlainError:
                            assert not expected[table]  # all on one page, or nulls at random
                        else:
                            expected[table] += rows
                    file.growth.graft()
                    connection.execute("BEGIN IMMEDIATE")
                    last = connection.execute("SELECT max(id) FROM t").fetchone()[0]
                    assert (last or 0) == len(expected["t"])
                    connection.execute("INSERT INTO other VALUES (zeroblob(3000))")
                    if fails:
                        connection.execute("ROLLBACK")
                        raise ZeroDivisionError
                    connection.execute("COMMIT")
                    expected["other"].append((bytes(3000),))
            except ZeroDivisionError:
                expected = kept
            for table in "tu":
                found = connection.execute(f"SELECT * FROM {table}").fetchall()
                assert found == numbered(expected[table])
    assert len(file.rows("t")) == len(expected["t"])  # and the file is sound


def test_rows_must_be_alike() -> None:
    """With nulls in every way over six columns there are as many layouts as may be."""
    ways = list(product(*[(None, 77)] * 5, (None, 0.5)))
    rows = columns(ways * 4)
    assert leaves(130, rows, 512).last_ids[-1] == 385
    with pytest.raises(NotPlainError):  # ids of one byte and of two: twice as many
        leaves(1, rows, 512)


@pytest.mark.parametrize("edge", [128, 1 << 14, 1 << 21])
def test_ids_of_every_length(file: File, edge: int) -> None:
    """The last of so many bytes and the first of one more stand in one batch, and on one page."""
    filler = np.broadcast_to(np.int64(7), edge - 60)
    with file.growth.kept():
        file.growth.add("t", [filler] * 7)
        file.growth.add("t", columns(some(120)))
        file.growth.graft()
    found = file.rows("t")
    assert [row[0] for row in found[-180:]] == list(range(edge - 119, edge + 61))
    assert [row[1:] for row in found[-120:]] == some(120)


def test_many_pages_above_pages(file: File) -> None:
    """Each round writes the pages above the leaves anew, in the places they had."""
    expected: Rows = []
    for turn in range(10):
        with file.growth.kept():
            rows = some(2000, turn)
            file.growth.add("t", columns(rows))
            expected += rows
            file.growth.graft()
    assert file.rows("t") == numbered(expected)
    with closing(file.connected()) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    assert pages > 34**2  # with 33 below each there are three levels above the leaves


def test_the_page_of_the_locks_is_left_out(file: File, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "_LOCKS", 9 * 512 + 100)
    with file.growth.kept():
        file.growth.add("t", columns(some(200)))
        file.growth.graft()
    with closing(file.connected()) as connection:
        ((found,),) = connection.execute("PRAGMA integrity_check").fetchall()
        # SQLite keeps its locks far behind, and finds this page missing.
        assert found.endswith(("Page 10: never used", "Page 10 is never used"))
        assert connection.execute("SELECT * FROM t").fetchall() == numbered(some(200))
    assert file.path.read_bytes()[9 * 512 : 10 * 512] == bytes(512)


@pytest.mark.parametrize("count", range(11, 19))
@pytest.mark.parametrize("nulls", [False, True])
def test_records_of_more_bytes_than_one_tells(tmp_path: Path, count: int, nulls: bool) -> None:
    """So many columns of eight bytes and four of one: from 14 on a record has more than 127 bytes."""
    names = ", ".join(f"c{n} INTEGER" for n in range(count + 4))
    path = tmp_path / "wide.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size=512")
        connection.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {names})")
    large = [[HUGE + n * (place + 1) for place in range(count)] for n in range(100)]
    rows: Rows = [(*row, 5, n, -n - 1, None if nulls and n % 3 else 9) for n, row in enumerate(large)]
    with closing(Growth(path, "here", 512, {"t": 2})) as growth, growth.kept():
        growth.add("t", columns([(*row, None) for row in rows])[:-1])
        growth.graft()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT * FROM t").fetchall() == numbered(rows)


@pytest.mark.parametrize("count", [61, 62, 63, 64, 65, 80])
def test_nulls_in_many_columns(tmp_path: Path, count: int) -> None:
    """In one row in all of them, and in one only in the last: right, or left to SQLite."""
    path, rows = tmp_path / "wide.db", 300
    names = ", ".join(f"c{n} INTEGER" for n in range(count))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size=4096")
        connection.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {names})")
    cells = np.arange(rows)[:, None] + np.arange(1000, 1000 + count)
    cells[5, :] = cells[6, -1] = MISSING
    with closing(Growth(path, "here", 4096, {"t": 2})) as growth, growth.kept():
        try:
            growth.add("t", [np.full(rows, MISSING), *cells.T])
        except NotPlainError:
            assert count >= 63
            return
        growth.graft()
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT * FROM t").fetchall()
    assert [row[1:] for row in found] == [
        tuple(None if cell == MISSING else cell for cell in row) for row in cells.tolist()
    ]


@pytest.mark.parametrize("count", [2, 33, 34, 66, 67, 99, 100])
def test_interior_pages_have_two_below_them(file: File, count: int) -> None:
    """At least, and 33 at most: what comes at a time begins a page."""
    with file.growth.kept():
        file.growth.add("t", columns(some(10)))
        while file.growth.mark().leaves["t"] < count:
            file.growth.add("t", columns(some(1)))
        assert file.growth.mark().leaves["t"] == count
        file.growth.graft()
    content = file.path.read_bytes()
    pages = [content[at : at + 512] for at in range(512, len(content), 512)]
    below = [int.from_bytes(page[3:5], "big") + 1 for page in pages if page[0] == 5]
    assert all(2 <= number <= 33 for number in below)
    assert sum(below) == count + len(below) - 1  # each but the root is below another
    assert len(file.rows("t")) == file.growth.rows("t")


@pytest.mark.parametrize("fails", [None, "added", "grafted"])
def test_the_header_tells_how_many_pages_there_are(file: File, fails: str | None) -> None:
    """And that this is so: SQLite believes it where the counter of changes stands there twice."""
    with file.growth.kept():
        file.growth.add("t", columns(some(100)))
        file.growth.graft()
    before = file.path.stat().st_size
    with suppress(ZeroDivisionError), file.growth.kept():
        mark = file.growth.mark()
        file.growth.add("u", columns(some(100)))
        file.growth.cut(mark)
        file.growth.add("t", columns(some(1000)))
        if fails == "added":
            raise ZeroDivisionError
        file.growth.graft()
        if fails == "grafted":
            raise ZeroDivisionError
    content = file.path.read_bytes()
    assert len(content) == 512 * int.from_bytes(content[28:32], "big")
    assert content[24:28] == content[92:96]
    assert (len(content) == before) == (fails is not None)


def test_a_cut_takes_what_was_added_from_the_file(file: File) -> None:
    before = file.path.stat().st_size
    with file.growth.kept():
        mark = file.growth.mark()
        file.growth.add("t", columns(some(100)))
        file.growth.cut(mark)
        file.growth.graft()
    assert file.path.stat().st_size == before


def test_a_block_that_grafts_twice_and_fails(file: File) -> None:
    """The roots are what they were before the first."""
    with file.growth.kept():
        file.growth.add("t", columns(some(100)))
        file.growth.graft()
    with suppress(ZeroDivisionError), file.growth.kept():
        for turn in range(1, 3):
            file.growth.add("t", columns(some(1000, turn)))
            file.growth.graft()
        raise ZeroDivisionError
    assert file.rows("t") == numbered(some(100))


def test_as_many_pages_as_a_block_had_that_failed(file: File) -> None:
    """SQLite has read those, and sees that these are others."""
    with closing(file.connected()) as connection:
        for turn in range(2):
            with suppress(ZeroDivisionError), file.growth.kept():
                file.growth.add("t", columns(some(100, turn)))
                file.growth.graft()
                found = connection.execute("SELECT * FROM t").fetchall()
                assert found == numbered(some(100, turn))
                if turn == 0:
                    raise ZeroDivisionError


@pytest.mark.parametrize("size", range(1, 9))
def test_ids_so_large_that_few_fit_above(
    file: File, monkeypatch: MonkeyPatch, size: int
) -> None:
    """As many leaves as an interior page may have below it, with ids of so many bytes."""
    first = 1 << 7 * (size - 1)
    grown = Growth.rows
    monkeypatch.setattr(Growth, "rows", lambda self, table: grown(self, table) or first - 1)
    with file.growth.kept():
        file.growth.add("t", columns(some(600)))
        file.growth.graft()
    assert file.rows("t") == numbered(some(600), first)


def test_a_growth_that_is_closed_has_nothing_open(file: File) -> None:
    growth = Growth(file.path, "here", 512, {})
    with closing(growth):
        os.fstat(growth._descriptor)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(growth._descriptor)


def test_sqlite_goes_on_where_pages_ended(file: File) -> None:
    with file.growth.kept():
        file.growth.add("t", columns(some(300)))
        file.growth.leave("t")  # grows no more, but what was added counts
        file.growth.graft()
    with closing(file.connected()) as connection:
        connection.executemany("INSERT INTO t VALUES (NULL, ?, ?, ?, ?, ?, ?)", some(300, 1))
        connection.execute("DELETE FROM t WHERE id % 2 = 0")
    expected = [row for row in numbered([*some(300), *some(300, 1)]) if row[0] % 2]
    assert file.rows("t") == expected
    assert not file.growth.takes("t")
    assert file.growth.takes("u")


def test_what_is_cut_is_not_there(file: File) -> None:
    with file.growth.kept():
        file.growth.add("t", columns(some(100)))
        mark = file.growth.mark()
        file.growth.add("u", columns(some(100)))
        file.growth.add("t", columns(some(100, 1)))
        file.growth.cut(mark)
        file.growth.add("t", columns(some(50, 2)))
        file.growth.graft()
    assert file.rows("t") == numbered([*some(100), *some(50, 2)])
    assert file.rows("u") == []


@pytest.mark.parametrize(
    ("number", "words"),
    [
        *((number, "disk is full") for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)),
        (errno.EIO, "cannot be written"),
    ],
)
def test_a_file_that_cannot_grow(
    file: File, monkeypatch: MonkeyPatch, number: int, words: str
) -> None:
    def fails(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with (
        pytest.raises(UsageError, match=words) as error,
        file.growth.kept(),
        monkeypatch.context() as patch,
    ):
        patch.setattr(os, "pwrite", fails)
        file.growth.add("t", columns(some(100)))
    assert error.value.where == "here"
    assert file.rows("t") == []


def test_a_write_that_does_not_take_all(file: File, monkeypatch: MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write(fd, bytes(data)[:100], at))
    with file.growth.kept():
        file.growth.add("t", columns(some(100)))
        file.growth.graft()
    assert file.rows("t") == numbered(some(100))


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system takes no advice")
@pytest.mark.parametrize("refuses", [False, True])
def test_what_is_written_is_on_its_way_to_the_disk_at_once(
    file: File, monkeypatch: MonkeyPatch, refuses: bool
) -> None:
    """All pages are, once, and whatever the system says to it."""
    told: list[int] = []

    def advice(descriptor: int, begin: int, size: int, what: int) -> None:
        assert what == os.POSIX_FADV_DONTNEED
        told.extend(range(begin // 512, (begin + size) // 512))
        if refuses:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "posix_fadvise", advice)
    before = file.path.stat().st_size // 512
    with file.growth.kept():
        file.growth.add("t", columns(some(100)))
        file.growth.add("u", columns(some(100)))
        after = file.path.stat().st_size // 512
        file.growth.graft()
    assert told == list(range(before, after))
    assert file.rows("t") == numbered(some(100))
