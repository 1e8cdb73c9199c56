"""Cut and corrupted exports: an error of ours, or rows; never a traceback, never half a store."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from conftest import EVENTS, NSYS, event_rows, import_file, profile_in_place
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from nsysconv import schema
from nsysconv.errors import NsysconvError
from nsysconv.importers.detection import detect
from nsysconv.importers.probe import Probe
from nsysconv.store.read import Profile, reading
from nsysconv.store.sqlite.connection import SqliteConnection, sqlite_uri

BASIC = (NSYS / "basic-3.25.0.sqlite").read_bytes()
HEADERS = {
    "new": BASIC,
    # As before SQLite wrote the number of pages there: nothing tells that the file was longer.
    "old": BASIC[:28] + bytes(4) + BASIC[32:92] + bytes(4) + BASIC[96:],
}
PAGE = 1024
ROWS = {"api_call": 20, "kernel": 8, "memcpy": 7, "memset": 1, "sync": 2, "range": 6,
        "overhead": 4}  # fmt: skip

offsets = st.one_of(
    st.integers(0, len(BASIC) - 1), st.integers(0, len(BASIC) // PAGE - 1).map(lambda n: n * PAGE)
)


Rows = dict[str, list[object]]
# An example takes a tenth of a second; making a failing one simpler would take minutes.
FIND = settings(
    phases=(Phase.explicit, Phase.generate), suppress_health_check=[HealthCheck.too_slow]
)


def _rows(profile: Profile) -> Rows:
    return {table: list(event_rows(profile, table)) for table in EVENTS}


def _imported(content: bytes) -> Rows | None:
    """All rows, in the store and in place alike; None where the answer is an error of ours."""
    with tempfile.TemporaryDirectory() as folder:
        source, store = Path(folder) / "export.sqlite", Path(folder) / "store.db"
        source.write_bytes(content)
        try:
            import_file(source, store)
        except NsysconvError as error:
            assert str(source) in str(error)
            assert [path.name for path in Path(folder).iterdir()] == [source.name]
            return None
        with reading(store) as opened:
            (profile,) = opened.profiles()
            result = _rows(profile)
        _assert_sound(store)
        return result


def _assert_sound(store: Path) -> None:
    with SqliteConnection(sqlite_uri(store, "ro"), str(store)) as connection:
        assert connection.value("PRAGMA integrity_check") == "ok"
        for name in EVENTS:
            for column in schema.metadata.tables[name].columns:
                wanted = "integer" if column.type.python_type is int else "text"
                sql = (f'SELECT count(*) FROM "{name}" '
                       f"WHERE typeof({column.name}) NOT IN ('{wanted}', 'null')")  # fmt: skip
                assert connection.value(sql) == 0, f"{name}.{column.name}"


def _in_place(content: bytes) -> Rows | None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "export.sqlite"
        source.write_bytes(content)
        try:
            with profile_in_place(source) as profile:
                return _rows(profile)
        except NsysconvError:
            return None


@cache
def _whole() -> Rows:
    """The rows of the whole file."""
    rows = _imported(BASIC)
    assert rows is not None
    assert {name: len(found) for name, found in rows.items() if found} == ROWS
    return rows


def _differences(found: Rows | None) -> list[str]:
    """The tables whose rows are others than in the whole file; none where the file was refused."""
    return [] if found is None else _unequal(found, _whole())


def _unequal(one: Rows, other: Rows) -> list[str]:
    return [name for name in one if one[name] != other[name]]


def test_an_old_header_is_no_damage() -> None:
    assert _differences(_imported(HEADERS["old"])) == []


@pytest.mark.parametrize("read", [_imported, _in_place], ids=["imported", "in place"])
@pytest.mark.parametrize("header", HEADERS)
@settings(FIND, max_examples=15)
@given(offset=offsets)
@example(offset=0)
@example(offset=1)
@example(offset=16)
@example(offset=100)
@example(offset=PAGE)
@example(offset=len(BASIC) - PAGE)
@example(offset=len(BASIC) - 1)
def test_a_cut_file_is_refused_or_whole(
    read: Callable[[bytes], Rows | None], header: str, offset: int
) -> None:
    """Never some of the rows without a word."""
    assert _differences(read(HEADERS[header][:offset])) == []


@settings(FIND, max_examples=15)
@given(offset=offsets)
def test_a_cut_file_whose_header_was_put_right(offset: int) -> None:
    """As a repair tool leaves it: pages are missing, and the header agrees with what is there."""
    pages = offset // PAGE
    cut = BASIC[: pages * PAGE]
    found = _imported(cut[:28] + pages.to_bytes(4, "big") + cut[32:])
    assert _differences(found) == []


@settings(FIND, max_examples=12)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(BASIC) - 1), st.integers(0, 255)), min_size=1, max_size=6
    )
)
def test_changed_bytes_give_rows_or_an_error(changes: list[tuple[int, int]]) -> None:
    content = bytearray(BASIC)
    for offset, value in changes:
        content[offset] = value
    _imported(bytes(content))
    _in_place(bytes(content))


def test_a_schema_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    # What SQLite says of this schema repeats the byte, which is no text either.
    place = BASIC.index(b"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL") + len("CREATE TABLE ")
    source = tmp_path / "export.sqlite"
    source.write_bytes(BASIC[:place] + b"\"\xff" + BASIC[place + 2 :])
    with pytest.raises(NsysconvError, match="SQLite cannot read it"):
        import_file(source, tmp_path / "store.db")


@settings(FIND, max_examples=8)
@given(page=st.integers(0, len(BASIC) // PAGE - 1), seed=st.binary(min_size=16, max_size=16))
def test_a_page_of_noise_gives_rows_or_an_error(page: int, seed: bytes) -> None:
    noise = (seed * (PAGE // len(seed)))[:PAGE]
    content = BASIC[: page * PAGE] + noise + BASIC[(page + 1) * PAGE :]
    _imported(content)
    _in_place(content)


@settings(max_examples=200)
@given(content=st.binary(max_size=2000), magic=st.booleans())
def test_any_bytes_are_refused_with_a_reason(content: bytes, magic: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "export.sqlite"
        source.write_bytes((b"SQLite format 3\0" if magic else b"") + content)
        with Probe(source) as probe, pytest.raises(NsysconvError) as caught:
            detect(probe)
        assert caught.value.what
        assert caught.value.hint


def _columns() -> list[tuple[str, str]]:
    connection = sqlite3.connect(f"file:{NSYS / 'basic-3.25.0.sqlite'}?mode=ro", uri=True)
    tables = [name for (name,) in connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'ENUM%'")]  # fmt: skip
    pairs = [(table, row[1]) for table in tables
             for row in connection.execute(f"PRAGMA table_info({table})")]  # fmt: skip
    connection.close()
    return pairs


cells = st.one_of(
    st.none(), st.sampled_from([0, -1, 1 << 53, (1 << 63) - 1, -(1 << 63), 1 << 32, 1 << 24]),
    st.floats(allow_nan=False), st.text(max_size=8), st.binary(max_size=8),
)  # fmt: skip


@settings(FIND, max_examples=15)
@given(
    changes=st.lists(
        st.tuples(st.sampled_from(_columns()), st.integers(1, 20), cells), min_size=1, max_size=3
    )
)
def test_any_cell_may_hold_anything(changes: list[tuple[tuple[str, str], int, object]]) -> None:
    """Whatever stands in a cell: an error of ours, or the same rows imported and in place."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "export.sqlite"
        source.write_bytes(BASIC)
        connection = sqlite3.connect(source, isolation_level=None)
        for (table, column), row, cell in changes:
            with suppress(sqlite3.IntegrityError):  # NOT NULL and keys hold in real files, too
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (cell, row))
        connection.close()
        content = source.read_bytes()
    imported, in_place = _imported(content), _in_place(content)
    if imported is None or in_place is None:
        assert imported is in_place, "refused on one way only"
        return
    assert _unequal(in_place, imported) == []
