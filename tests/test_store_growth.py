"""Tables that grow by pages: SQLite finds in them what was added, and nothing else."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import (
    EVENTS,
    FIXTURES,
    NSYS,
    NSYS_FILES,
    ODD,
    ODD_FILES,
    add,
    dump,
    import_file,
    name_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import MonkeyPatch
from test_store_pages import EDGES

from nsysconv.errors import InputError, NsysconvError, UsageError
from nsysconv.importers.contract import Options
from nsysconv.importers.detection import detect
from nsysconv.importers.nsys_sqlite.tables import EVENT_SOURCES
from nsysconv.importers.probe import Probe
from nsysconv.report import MISSING
from nsysconv.store.profiles import Origin
from nsysconv.store.sqlite import growth as growing
from nsysconv.store.sqlite import rows as sqlite_rows
from nsysconv.store.sqlite import writer as sqlite_writer
from nsysconv.store.sqlite.growth import Growth
from nsysconv.store.sqlite.leaves import leaves
from nsysconv.store.sqlite.records import NotPlainError
from nsysconv.store.write import Progress, writing

PAGE_SIZES = [2**n for n in range(9, 17)]
FOLDERS = ("kineto", "nsys_stats", "nvidia_smi", "nvprof_database", "nvprof_log")
OTHERS = sorted(path for folder in FOLDERS for path in (FIXTURES / folder).iterdir())
# An id, five columns of whole numbers and one of others: as few bytes as a cell can have.
COLUMNS = "id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, c INTEGER, d INTEGER, e INTEGER, r REAL"
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
    ("number", "words"), [(errno.ENOSPC, "disk is full"), (errno.EIO, "cannot be written")]
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


# -- files that are imported


@pytest.fixture
def by_pages(monkeypatch: MonkeyPatch) -> Callable[[], int]:
    """Has pages hold all that they can, on pages so small that fixtures fill several; and counts."""
    monkeypatch.setattr(sqlite_rows, "_ROWS_WORTH_PAGES", 1)
    monkeypatch.setattr(sqlite_writer, "PAGE_SIZE", 512)
    added = list[int]()
    grow = Growth.add

    def counted(self: Growth, table: str, rows: Any) -> None:
        grow(self, table, rows)
        added.append(len(rows[0]))

    monkeypatch.setattr(Growth, "add", counted)
    return lambda: sum(added)


def import_all(
    source: Path, store: Path, progress: Progress = lambda table, rows: None
) -> None:
    """Imports all recordings of a file."""
    with Probe(source) as probe, writing(store) as writer:
        recordings = detect(probe).read([probe], Options())
        origin = Origin(source.name, "test", str(source), "sha", "identity")
        writer.add(recordings, lambda: origin, progress)


def through_sqlite(source: Path, store: Path, monkeypatch: MonkeyPatch) -> dict[str, Rows]:
    """What a store holds to which SQLite has written all."""
    with monkeypatch.context() as patch:
        patch.setattr(Growth, "takes", lambda self, table: False)
        import_all(source, store)
    return timeless(dump(store))


def timeless(tables: dict[str, Rows]) -> dict[str, Rows]:
    """Without what differs between two imports of a file."""
    return {name: rows for name, rows in tables.items() if name not in ("profile", "run")}


def assert_sound(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def multiplied(source: Path, folder: Path) -> Path:
    """A copy in which the rows of events stand many times: fixtures have few, which fit on one page."""
    copy = folder / source.name
    shutil.copy(source, copy)
    if source.suffix == ".csv":
        lines = source.read_bytes().splitlines(keepends=True)
        copy.write_bytes(b"".join(line * (64 if line[:1].isdigit() else 1) for line in lines))
    elif source.suffix == ".json":
        with suppress(ValueError, KeyError, TypeError):
            trace = json.loads(source.read_bytes())
            trace["traceEvents"] = [later(e, n) for n in range(64) for e in trace["traceEvents"]]
            copy.write_text(json.dumps(trace))
    elif source.read_bytes()[:6] == b"SQLite":
        with closing(sqlite3.connect(copy)) as connection, suppress(sqlite3.Error):
            tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            for (table,) in tables.fetchall():
                if table.startswith("CUPTI_") or table in EVENT_SOURCES:
                    double(connection, table)
    return copy


def later(event: Any, turn: int) -> Any:
    """An event of a trace, a second later for each turn."""
    if not isinstance(event, dict) or not isinstance(event.get("ts"), int | float):
        return event
    return {**event, "ts": event["ts"] + turn * 1_000_000}


def double(connection: sqlite3.Connection, table: str) -> None:
    """Six times."""
    about = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
    names = ", ".join(f'"{row[1]}"' for row in about if not row[5])
    with connection, suppress(sqlite3.Error):
        for _ in range(6):
            connection.execute(f'INSERT INTO "{table}" ({names}) SELECT {names} FROM "{table}"')


@pytest.mark.parametrize("source", [*NSYS_FILES, *ODD_FILES, *OTHERS], ids=name_of)
def test_pages_hold_what_sqlite_would_write(
    source: Path, by_pages: Callable[[], int], monkeypatch: MonkeyPatch, tmp_path: Path
) -> None:
    source = multiplied(source, tmp_path)
    try:
        expected = through_sqlite(source, tmp_path / "sqlite.db", monkeypatch)
    except NsysconvError as error:
        with pytest.raises(type(error)) as other:
            import_all(source, tmp_path / "pages.db")
        assert str(other.value) == str(error)
        return
    assert by_pages() == 0
    import_all(source, tmp_path / "pages.db")
    assert timeless(dump(tmp_path / "pages.db")) == expected
    assert_sound(tmp_path / "pages.db")


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("nsys/basic-3.25.0.sqlite", 0.7),
        ("kineto/basic-2.13.json", 0.7),
        ("nvprof_log/basic-gpu-trace.csv", 0.7),
        ("nvprof_database/basic-12.nvvp", 0.3),  # its API calls are joined with names by SQLite
    ],
)
def test_pages_hold_most_rows(
    name: str, share: float, by_pages: Callable[[], int], tmp_path: Path
) -> None:
    """Otherwise the test before this one would compare SQLite with itself."""
    imported = import_file(multiplied(FIXTURES / name, tmp_path), tmp_path / "store.db")
    assert by_pages() > share * sum(imported.row_counts[table] for table in EVENTS)


@pytest.mark.parametrize("damaged", [False, True])
def test_progress_adds_up(
    damaged: bool, by_pages: Callable[[], int], monkeypatch: MonkeyPatch, tmp_path: Path
) -> None:
    """Also where a table begins anew, because its last row has to be left to SQLite."""
    source = multiplied(NSYS / "basic-3.25.0.sqlite", tmp_path)
    kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
    with closing(sqlite3.connect(source)) as connection, connection:
        (last,) = connection.execute(f"SELECT max(rowid) FROM {kernels}").fetchone()
        if damaged:
            connection.execute(f"UPDATE {kernels} SET gridX = 'x' WHERE rowid = {last}")

    done = Counter[str]()
    # A page of the source at a time.
    monkeypatch.setattr(sqlite_writer, "_SOURCE_BYTES", 1)
    import_all(source, tmp_path / "store.db", lambda table, rows: done.update({table: rows}))
    assert by_pages() > 0
    # Of a table that is looked at cell by cell nothing is told.
    assert done["kernel"] == (0 if damaged else last)
    assert done["api_call"] > 1000


@pytest.mark.parametrize("old", [False, True], ids=["new store", "old store"])
def test_rows_that_come_round_again_are_refused(
    old: bool, by_pages: Callable[[], int], monkeypatch: MonkeyPatch, tmp_path: Path
) -> None:
    """More rows than numbers: told beside the copying by pages, and before SQLite reads a row."""
    source, store = multiplied(NSYS / "basic-3.25.0.sqlite", tmp_path), tmp_path / "store.db"
    if old:
        import_file(NSYS / "ranges-3.28.1.sqlite", store)
    before = store.read_bytes() if old else b""
    copied, pages_then = list[object](), by_pages()

    def refuses(*_: object) -> Any:
        raise InputError("the file is damaged", where="here")

    monkeypatch.setattr("nsysconv.importers.nsys_sqlite.survey.row_numbers", refuses)
    progress: Progress = lambda table, rows: copied.append(rows)  # noqa: E731
    with pytest.raises(InputError, match="the file is damaged"):
        import_all(source, store, progress)
    assert (by_pages() > pages_then) != old
    assert not (old and copied)
    assert (store.read_bytes() if store.exists() else b"") == before


def test_files_into_one_new_store(
    by_pages: Callable[[], int], monkeypatch: MonkeyPatch, tmp_path: Path
) -> None:
    """Tables go on growing from file to file, past one that fails and one that is replaced."""
    basic, graphs = NSYS / "basic-3.25.0.sqlite", NSYS / "graphs-3.24.0.sqlite"
    sources = [basic, graphs, FIXTURES / "kineto" / "basic-2.13.json"]

    def fill(store: Path) -> None:
        with writing(store) as writer:
            first = add(writer, sources[0], identity="first")
            for failing in (ODD / "truncated.sqlite", tmp_path):
                with pytest.raises(NsysconvError):
                    add(writer, failing)
            add(writer, sources[1], identity="second")
            add(writer, sources[0], identity="third", replacing=first.profile_id)
            add(writer, sources[2], identity="fourth")

    with monkeypatch.context() as patch:
        patch.setattr(Growth, "takes", lambda self, table: False)
        fill(tmp_path / "sqlite.db")
    assert by_pages() == 0
    fill(tmp_path / "pages.db")
    assert by_pages() > 0
    assert timeless(dump(tmp_path / "pages.db")) == timeless(dump(tmp_path / "sqlite.db"))
    assert_sound(tmp_path / "pages.db")


def test_an_import_that_fails_late_leaves_the_others(by_pages: Callable[[], int], tmp_path: Path) -> None:
    """All its rows stood in their tables when its origin could not be told."""
    source, store = NSYS / "basic-3.25.0.sqlite", tmp_path / "store.db"
    with writing(store) as writer:
        add(writer, source, identity="first")
        size = by_pages()
        add_late(writer, NSYS / "graphs-3.24.0.sqlite")
        assert by_pages() > size
        add(writer, source, identity="second")
    assert_sound(store)
    alone = tmp_path / "alone.db"
    with writing(alone) as writer:
        add(writer, source, identity="first")
        add(writer, source, identity="second")
    assert timeless(dump(store)) == timeless(dump(alone))


def add_late(writer: Any, source: Path) -> None:
    def fails(*_: object) -> Any:
        raise ZeroDivisionError

    with MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(type(writer), "_finish", fails)
        add(writer, source, identity="failing")
