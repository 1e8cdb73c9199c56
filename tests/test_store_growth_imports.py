"""What imports write as pages of a new store is what SQLite would have written."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

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
    oldest_and_newest,
)
from pytest import MonkeyPatch

from nsysconv.errors import InputError, NsysconvError
from nsysconv.importers.contract import Options
from nsysconv.importers.detection import detect
from nsysconv.importers.nsys_sqlite.tables import EVENT_SOURCES
from nsysconv.importers.probe import Probe
from nsysconv.store.profiles import Origin
from nsysconv.store.sqlite import connection as connecting
from nsysconv.store.sqlite import rows as sqlite_rows
from nsysconv.store.sqlite import writer as sqlite_writer
from nsysconv.store.sqlite.growth import Growth
from nsysconv.store.write import Progress, writing

FOLDERS = ("kineto", "nsys_stats", "nvidia_smi", "nvprof_database", "nvprof_log")
OTHERS = sorted(path for folder in FOLDERS for path in (FIXTURES / folder).iterdir())
Rows = list[tuple[Any, ...]]


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


@pytest.mark.parametrize("source", oldest_and_newest([*NSYS_FILES, *ODD_FILES, *OTHERS]), ids=name_of)
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


@pytest.mark.parametrize("worth", [2, 100, 400])
def test_rows_that_are_few_at_the_end_come_too(
    worth: int, by_pages: Callable[[], int], monkeypatch: MonkeyPatch, tmp_path: Path
) -> None:
    """Of a source they come a page at a time, and stand together until they are worth pages."""
    source = multiplied(NSYS / "basic-3.25.0.sqlite", tmp_path)
    expected = through_sqlite(source, tmp_path / "sqlite.db", monkeypatch)
    monkeypatch.setattr(sqlite_writer, "_SOURCE_BYTES", 1)
    monkeypatch.setattr(sqlite_rows, "_ROWS_WORTH_PAGES", worth)
    import_all(source, tmp_path / "pages.db")
    assert by_pages() > 0
    assert timeless(dump(tmp_path / "pages.db")) == expected


@pytest.mark.usefixtures("by_pages")
def test_a_table_that_begins_anew_has_its_rows_once(monkeypatch: MonkeyPatch, tmp_path: Path) -> None:
    """Pages held most of it when its last row had to be left to SQLite."""
    source = multiplied(NSYS / "basic-3.25.0.sqlite", tmp_path)
    kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
    with closing(sqlite3.connect(source)) as connection, connection:
        (last,) = connection.execute(f"SELECT max(rowid) FROM {kernels}").fetchone()
        connection.execute(f"UPDATE {kernels} SET gridX = 'x' WHERE rowid = {last}")
    expected = through_sqlite(source, tmp_path / "sqlite.db", monkeypatch)
    monkeypatch.setattr(sqlite_writer, "_SOURCE_BYTES", 1)
    import_all(source, tmp_path / "pages.db")
    assert timeless(dump(tmp_path / "pages.db")) == expected


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
    assert_as_if_nothing_failed(store, source)


def test_an_import_that_fails_when_sqlite_has_written_much(
    by_pages: Callable[[], int], monkeypatch: MonkeyPatch, tmp_path: Path
) -> None:
    """Its pages stood in the file, and not only in SQLite's cache: SQLite takes them back first."""
    monkeypatch.setattr(connecting, "_CACHE_KIB", 1)
    source, store = NSYS / "basic-3.25.0.sqlite", tmp_path / "store.db"
    with writing(store) as writer:
        add(writer, source, identity="first")
        size = by_pages()
        add_late(writer, FIXTURES / "kineto" / "basic-2.13.json")
        assert by_pages() > size
        add(writer, source, identity="second")
    alone = assert_as_if_nothing_failed(store, source)
    assert store.stat().st_size == alone.stat().st_size  # what nobody uses SQLite may not find


def assert_as_if_nothing_failed(store: Path, source: Path) -> Path:
    """The store is as one in which the source is the first and the second; the place of that one."""
    assert_sound(store)
    alone = store.with_name("alone.db")
    with writing(alone) as writer:
        add(writer, source, identity="first")
        add(writer, source, identity="second")
    assert timeless(dump(store)) == timeless(dump(alone))
    return alone


def add_late(writer: Any, source: Path) -> None:
    def fails(*_: object) -> Any:
        raise ZeroDivisionError

    with MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(type(writer), "_finish", fails)
        add(writer, source, identity="failing")
