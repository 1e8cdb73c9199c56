"""Surveys of an export from its pages: they find what SQLite finds, or SQLite is asked."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import NSYS, NSYS_FILES, ODD_FILES, changed, examples, few
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch

from nsysconv.errors import InputError
from nsysconv.importers.nsys_sqlite import survey, tables
from nsysconv.importers.nsys_sqlite.survey import Combination, Combinations, ExportSurvey
from nsysconv.importers.probe import Probe
from nsysconv.report import MISSING

BASIC = NSYS / "basic-3.25.0.sqlite"
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
LOWEST, HIGHEST = -(2**63), 2**63 - 1
MIN_ROWS = "nsysconv.importers.nsys_sqlite.survey.MIN_ROWS_FOR_PAGES"


# -- distinct rows of columns


NARROW, WIDE = (
    st.sampled_from([0, 1, -1, 7, 2**31 - 1, -(2**31)]),
    # The upper bits of some are those of others; MISSING is null.
    st.sampled_from([0, 1, -1, MISSING, MISSING + 1, HIGHEST, 5 << 40, 5 << 56, *range(90)]),
)


@st.composite
def _batches(draw: st.DrawFn) -> list[list[np.ndarray]]:
    """Columns of rows a few at a time; a column may be narrow in one batch and wide in the next."""
    width, batches = draw(st.integers(1, 4)), []
    for length in draw(st.lists(st.integers(0, 40), max_size=5)):
        narrow = draw(st.lists(st.booleans(), min_size=width, max_size=width))
        batches.append([
            np.array(draw(st.lists(NARROW if small else WIDE, min_size=length, max_size=length)),
                     np.int32 if small else np.int64) for small in narrow
        ])  # fmt: skip
    return batches


def combinations(batches: Sequence[Sequence[np.ndarray]]) -> list[Combination]:
    found = Combinations()
    for columns in batches:
        assert found.add(columns)
    return found.rows()


@examples(600)
@given(_batches(), st.sampled_from([1, 2, 5, 16]))
def test_combinations_are_those_of_all_rows(batches: list[list[np.ndarray]], bits: int) -> None:
    """With few buckets most rows push others out."""
    rows = [row for batch in batches for row in zip(*(c.tolist() for c in batch), strict=True)]
    every = [tuple(None if cell == MISSING else cell for cell in row) for row in rows]
    with MonkeyPatch.context() as patch:
        patch.setattr(survey, "BUCKET_BITS", bits)
        assert combinations(batches) == list(dict.fromkeys(every))


def test_too_many_combinations_are_left_to_sqlite(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "MAX_COMBINATIONS", 100)
    two = np.arange(200) % 2
    assert len(combinations([[np.arange(100)], [np.arange(100)]])) == 100
    assert len(combinations([[np.arange(200) // 4, two]] * 3)) == 100
    too_many = Combinations()
    assert too_many.add([np.arange(100)])
    assert not too_many.add([np.arange(1, 101)])


# -- the survey of an export


@contextmanager
def counted() -> Iterator[list[str]]:
    """The tables whose pages were read to the end, in every survey within."""
    read: list[str] = []
    columns = Probe.read_columns

    def counting(self: Probe, table: str, names: Sequence[str]) -> Iterator[Any]:
        following = LOWEST
        for following, values in columns(self, table, names):
            yield following, values
        if following > HIGHEST:
            read.append(table)

    with MonkeyPatch.context() as patch:
        patch.setattr(Probe, "read_columns", counting)
        yield read


def surveyed(path: Path, least: int) -> Any:
    """What a survey finds in a file, or the text of its error; pages are read from `least` rows on."""
    with MonkeyPatch.context() as patch, Probe(path, threads=1) as probe:
        patch.setattr(MIN_ROWS, least)
        try:
            sources = [name for name in tables.EVENT_SOURCES if name in probe.tables]
            found = ExportSurvey(probe, sources)
            return {
                "everything": asdict(found.all_tables()),
                "devices": asdict(found.devices_of(sources)),
                **{name: (asdict(found.of_table(name)), found.is_suspect(name), found.row_numbers(name)
                          if probe.tables[name].row_id else None) for name in sources},
            }  # fmt: skip
        except InputError as error:
            return str(error)


def assert_same_both_ways(path: Path) -> list[str]:
    """Surveys a file both ways, which must agree; the tables that were read from pages."""
    with counted() as read:
        by_sqlite = surveyed(path, HIGHEST)
        assert read == []
        assert surveyed(path, 0) == by_sqlite
    return read


@pytest.mark.parametrize("path", few([*NSYS_FILES, *ODD_FILES], 16), ids=lambda path: path.name)
def test_survey_from_pages_equals_that_by_sqlite(path: Path) -> None:
    read = assert_same_both_ways(path)
    if path in NSYS_FILES:
        # Tables of one row are left to SQLite, whatever they hold.
        assert {KERNEL, tables.RUNTIME} & set(read) or path.name.startswith(("no_gpu", "empty"))


def test_each_table_is_read_once(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "MIN_ROWS_FOR_PAGES", 0)
    with counted() as read, Probe(BASIC) as probe:
        found = ExportSurvey(probe, [KERNEL, tables.RUNTIME])
        assert found.row_numbers(KERNEL) == (1, 8, 8)
        assert found.all_tables().name_ids
        assert found.row_numbers(tables.RUNTIME) == found.row_numbers(tables.RUNTIME)
    assert sorted(read) == [KERNEL, tables.RUNTIME]


def test_small_tables_are_left_to_sqlite() -> None:
    with counted() as read, Probe(BASIC) as probe:
        ExportSurvey(probe, [KERNEL]).all_tables()
    assert read == []


def test_files_opened_for_pages_are_closed(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "MIN_ROWS_FOR_PAGES", 0)
    monkeypatch.setattr(survey, "MAX_COMBINATIONS", 1)  # some are given up midway
    opened, closed, open_, close = [], [], os.open, os.close
    with Probe(BASIC) as probe:
        probe.tables  # noqa: B018 - opens the file, too
        monkeypatch.setattr(os, "open", lambda *a: opened.append(open_(*a)) or opened[-1])
        monkeypatch.setattr(os, "close", lambda number: close(closed.append(number) or number))
        ExportSurvey(probe, [KERNEL, tables.RUNTIME, tables.MEMSET]).all_tables()
    assert opened
    assert sorted(opened) == sorted(closed)


# -- what is not plain


def changed_copy(path: Path, *statements: str) -> Path:
    """A fixture's copy, changed by SQL."""
    path.write_bytes(BASIC.read_bytes())
    return changed(path, *statements)


@pytest.mark.parametrize("statements", [
    [f"UPDATE {KERNEL} SET deviceId = 'two' WHERE rowid = 5"],
    [f"UPDATE {KERNEL} SET deviceId = '2' WHERE rowid = 5"],  # SQLite makes a number of it
    [f"UPDATE {KERNEL} SET globalPid = 1.5 WHERE rowid = 5"],
    [f"UPDATE {KERNEL} SET shortName = x'00' WHERE rowid = 5"],
    [f"UPDATE {KERNEL} SET demangledName = {LOWEST} WHERE rowid = 5"],
    [f"UPDATE {KERNEL} SET globalPid = NULL WHERE rowid = 5"],
    [f"UPDATE {KERNEL} SET deviceId = {HIGHEST}, globalPid = {LOWEST + 1} WHERE rowid = 5"],
    [f"UPDATE {KERNEL} SET rowid = rowid * 1000"],
    [f"UPDATE {KERNEL} SET rowid = -rowid"],
    [f"DELETE FROM {KERNEL}"],
    [f"ALTER TABLE {KERNEL} ADD COLUMN twice INTEGER AS (deviceId * 2)"],
    ["CREATE TABLE other (twice INTEGER AS (deviceId * 2), globalPid INTEGER, deviceId INTEGER, "
     "streamId INTEGER)",
     f"INSERT INTO other SELECT globalPid, deviceId, streamId FROM {KERNEL}",
     f"DROP TABLE {KERNEL}", f"ALTER TABLE other RENAME TO {KERNEL}"],
    ["CREATE TABLE other (globalPid INTEGER, deviceId INTEGER, demangledName REAL)",
     f"INSERT INTO other SELECT globalPid, deviceId, demangledName FROM {KERNEL}",
     f"DROP TABLE {KERNEL}", f"ALTER TABLE other RENAME TO {KERNEL}"],
    ["CREATE TABLE other (start INTEGER, end INTEGER)",
     f"INSERT INTO other SELECT start, end FROM {KERNEL}",
     f"DROP TABLE {KERNEL}", f"ALTER TABLE other RENAME TO {KERNEL}"],
    [f"ALTER TABLE {KERNEL} DROP COLUMN deviceId"],
    [f"ALTER TABLE {KERNEL} DROP COLUMN globalPid",
     f"ALTER TABLE {KERNEL} ADD COLUMN globalPid INTEGER DEFAULT 16777216"],
    ["CREATE TABLE other (deviceId TEXT, globalPid INTEGER, demangledName REAL)",
     f"INSERT INTO other SELECT deviceId, globalPid, demangledName FROM {KERNEL}",
     f"DROP TABLE {KERNEL}", f"ALTER TABLE other RENAME TO {KERNEL}"],
    ["CREATE TABLE other (globalPid INTEGER, deviceId INTEGER PRIMARY KEY, shortName INTEGER)",
     f"INSERT INTO other SELECT globalPid, rowid, shortName FROM {KERNEL}",
     f"DROP TABLE {KERNEL}", f"ALTER TABLE other RENAME TO {KERNEL}"],
    ["CREATE TABLE other (globalPid INTEGER, deviceId INTEGER PRIMARY KEY) WITHOUT ROWID",
     f"INSERT INTO other SELECT globalPid, rowid FROM {KERNEL}",
     f"DROP TABLE {KERNEL}", f"ALTER TABLE other RENAME TO {KERNEL}"],
], ids=str)  # fmt: skip
def test_survey_of_unusual_tables_equals_that_by_sqlite(statements: list[str], tmp_path: Path) -> None:
    path = changed_copy(tmp_path / "changed.sqlite", *statements)
    assert_same_both_ways(path)
    assert isinstance(surveyed(path, 0), dict)


def test_ids_that_are_no_numbers_are_suspects(tmp_path: Path) -> None:
    path = changed_copy(tmp_path / "changed.sqlite", f"UPDATE {KERNEL} SET deviceId = 'two'")
    assert surveyed(path, 0)["everything"]["suspects"] == {KERNEL}


def test_more_rows_than_numbers_are_left_to_sqlite(monkeypatch: MonkeyPatch) -> None:
    """Its first and last row are not those on the pages."""
    monkeypatch.setattr(survey, "row_range", lambda probe, source: (1, 7))
    monkeypatch.setattr(survey, "MIN_ROWS_FOR_PAGES", 0)
    with Probe(BASIC) as probe:
        assert ExportSurvey(probe, [KERNEL]).row_numbers(KERNEL) == (1, 8, 8)


@pytest.mark.parametrize("seed", few(range(1, 4), 1))
def test_survey_of_damaged_pages_equals_that_by_sqlite_or_is_left_to_it(
    seed: int, tmp_path: Path
) -> None:
    content, draw = BASIC.read_bytes(), random.Random(seed)
    page = int.from_bytes(content[16:18], "big")
    with Probe(BASIC) as probe:
        begin = (probe.tables[KERNEL].root - 1) * page
    answers, path = set(), tmp_path / "damaged.sqlite"
    for _ in range(30):
        damaged = bytearray(content)
        at = begin + int(draw.choice([12, 64, page]) * draw.random())
        damaged[at] = draw.choice([0, 1, 9, 127, 128, 255, draw.randrange(256)])
        path.write_bytes(damaged)
        with counted() as read:
            found = surveyed(path, 0)
        if KERNEL in read:
            assert found == surveyed(path, HIGHEST)
        answers.add((KERNEL in read, isinstance(found, str)))
    assert answers == {(True, False), (False, False), (False, True)}
