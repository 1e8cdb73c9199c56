"""Cut and corrupted exports: an error of ours, or rows; never a traceback, never half a store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import mutate_bytes
import pytest
from conftest import EVENTS, NSYS, event_rows, few, import_file, profile_in_place

from nsysconv import schema
from nsysconv.errors import NsysconvError
from nsysconv.store.location import reading
from nsysconv.store.read import Profile
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

OFFSETS = [
    0, 1, 16, 100, PAGE, len(BASIC) - PAGE, len(BASIC) - 1,
    *few([len(mutate_bytes.cut(Random(seed), BASIC)[0]) for seed in range(20)], 3),
]  # fmt: skip


Rows = dict[str, list[object]]


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
@pytest.mark.parametrize("offset", OFFSETS)
def test_a_cut_file_is_refused_or_whole(
    read: Callable[[bytes], Rows | None], header: str, offset: int
) -> None:
    """Never some of the rows without a word."""
    assert _differences(read(HEADERS[header][:offset])) == []


@pytest.mark.parametrize("pages", few(range(len(BASIC) // PAGE), 5))
def test_a_cut_file_whose_header_was_put_right(pages: int) -> None:
    """As a repair tool leaves it: pages are missing, and the header agrees with what is there."""
    cut = BASIC[: pages * PAGE]
    found = _imported(cut[:28] + pages.to_bytes(4, "big") + cut[32:])
    assert _differences(found) == []


def test_a_schema_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    # What SQLite says of this schema repeats the byte, which is no text either.
    place = BASIC.index(b"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL") + len("CREATE TABLE ")
    source = tmp_path / "export.sqlite"
    source.write_bytes(BASIC[:place] + b"\"\xff" + BASIC[place + 2 :])
    with pytest.raises(NsysconvError, match="SQLite cannot read it"):
        import_file(source, tmp_path / "store.db")
