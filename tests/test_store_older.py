"""Stores of older versions are read as they are: what came later is null, all else is as it is today."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from conftest import FIXTURES, NSYS, Shelf, by_turns, few, import_file, name_of

from nsysconv import api, schema
from nsysconv.errors import InputError
from nsysconv.report import MISSING
from nsysconv.store.location import reading

FILES = [NSYS / "basic-3.25.0.sqlite", FIXTURES / "kineto" / "training-2.13.json"]
VERSIONS = range(schema.OLDEST_READ, schema.SCHEMA_VERSION)


def older(store: Path, path: Path, version: int) -> Path:
    """A copy of a store without the columns that came after a version, as that version wrote it."""
    path.write_bytes(store.read_bytes())
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        views = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall()
        for (name,) in views:
            connection.execute(f"DROP VIEW {name}")
        later = schema.columns_since(version)
        tables = {column.table for column in later if column.primary_key}
        for table in tables | {schema.checksum}:
            connection.execute(f"DROP TABLE {table.name}")
        for column in later:
            if column.table in tables | {schema.checksum}:
                continue
            connection.execute(f'ALTER TABLE "{column.table.name}" DROP COLUMN {column.name}')
        connection.execute(f"PRAGMA user_version={version}")
    return path


def test_each_version_but_the_first_says_what_it_added() -> None:
    assert {column.info["since"] for table in schema.metadata.tables.values() for column in table.c} == {
        1, 3, 4, 5, 6, 7, 8, 9}  # fmt: skip
    assert not schema.columns_since(schema.SCHEMA_VERSION)


def test_columns_of_released_stores_are_no_others() -> None:
    """A column that a released version lacks, and that does not say so, makes its stores unreadable."""
    later = {column.table for column in schema.columns_since(8) if column.primary_key}
    found = Counter(
        column.info["since"]
        for table in schema.metadata.tables.values() if table not in later
        for column in table.c if column.info["since"] <= 8
    )  # fmt: skip
    assert found == {1: 345, 3: 2, 4: 1, 5: 9, 6: 2, 7: 3, 8: 5}


@pytest.mark.parametrize(("source", "version"), by_turns(FILES, VERSIONS, 4), ids=name_of)
def test_rows_are_those_of_today_but_for_later_columns(
    tmp_path: Path, shelf: Shelf, source: Path, version: int
) -> None:
    now = shelf.store(source)
    before = older(now, tmp_path / "old.db", version)
    later = {(column.table.name, column.name) for column in schema.columns_since(version)}
    with reading(now) as store, reading(before) as older_store:
        (today,), (old,) = store.profiles(), older_store.profiles()
        derived = {schema.checksum, schema.implausible, schema.kept_report}
        for table in set(schema.metadata.tables.values()) - derived:
            wanted = [row for batch in today.batches(table.name, 1000) for row in batch.to_pylist()]
            for row in wanted:
                row |= {name: None for name in row if (table.name, name) in later}
            found = [row for batch in old.batches(table.name, 1000) for row in batch.to_pylist()]
            assert found == wanted, table.name
        assert old.attributes.keys() == today.attributes.keys()
        columns = old.columns("operator", ("name_id", "stack_id"))
        assert (columns["stack_id"] == MISSING).all()
        assert len(columns["stack_id"]) == old.row_count("operator")


@pytest.mark.parametrize("version", few(VERSIONS, 3))
def test_reports_are_those_of_today(tmp_path: Path, shelf: Shelf, version: int) -> None:
    now = shelf.store(FILES[1])
    before = older(now, tmp_path / "old.db", version)
    names = ["summary", "kernels", "operators", "steps"]
    for found, wanted in zip(
        api.report_on(before, names, limit=0), api.report_on(now, names, limit=0), strict=True
    ):
        assert without_backward(found) == without_backward(wanted)


def without_backward(report: api.ShownReport) -> list[dict[str, object]]:
    """The rows, but for what was not recorded: which operators are of the backward pass."""
    return [
        {name: value for name, value in row.items() if not name.startswith("backward_")}
        for row in report.rows()
    ]


def test_nothing_is_added_to_an_older_store_and_it_can_be_made_anew(
    tmp_path: Path, shelf: Shelf
) -> None:
    before = older(shelf.store(FILES[0]), tmp_path / "old.db", 4)
    content = before.read_bytes()
    with pytest.raises(InputError, match=f"writes {schema.SCHEMA_VERSION}") as caught:
        import_file(FILES[1], before)
    assert f"nsysconv import {before} -o NEW.db" in caught.value.hint
    assert before.read_bytes() == content
    api.import_files([before], tmp_path / "NEW.db")
    with reading(tmp_path / "NEW.db") as store:
        (made,), wanted = store.profiles(), shelf.profile(FILES[0])
        assert made.row_count("kernel") == wanted.row_count("kernel")
        assert made.attributes["label"] == wanted.attributes["label"]


def test_a_version_that_is_too_old_is_refused(tmp_path: Path, shelf: Shelf) -> None:
    before = older(shelf.store(FILES[0]), tmp_path / "old.db", schema.OLDEST_READ)
    with contextlib.closing(sqlite3.connect(before)) as connection:
        connection.execute("PRAGMA user_version=1")
    with pytest.raises(InputError, match="version 1, this nsysconv reads 2 to"), reading(before):
        pass
