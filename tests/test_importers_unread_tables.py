"""Tables with rows that no importer reads: named and counted by `info`, and by nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from conftest import FIXTURES, REAL, real
from importing import changed_copy

import nsysconv
from nsysconv.importers import unread_tables
from nsysconv.notes import Note

EXPORT = FIXTURES / "nsys" / "basic-3.28.1.sqlite"
SOURCES = [
    EXPORT, FIXTURES / "nvprof_database" / "basic-12.nvvp",
    FIXTURES / "rocpd" / "basic-3.0.2.db", FIXTURES / "rpd" / "schema-3.rpd",
    FIXTURES / "rocprof" / "trace.db",
]  # fmt: skip


def notes_of(path: Path) -> list[Note]:
    with nsysconv.open(path) as opened:
        return [note for note in opened.notes if note.slug == "tables-not-read"]


def text_of(path: Path) -> str:
    return " ".join(note.text for note in notes_of(path))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.parent.name)
def test_an_unknown_table_with_rows_is_named(source: Path, tmp_path: Path) -> None:
    path = changed_copy(source, tmp_path, """
        CREATE TABLE NEW_ENGINE_EVENTS (x INT); INSERT INTO NEW_ENGINE_EVENTS VALUES (1), (2), (3);
        CREATE TABLE EMPTY_EVENTS (x INT);
        CREATE TABLE "odd "" name" (x INT); INSERT INTO "odd "" name" VALUES (1);
        CREATE TABLE WITHOUT_IDS (x INT PRIMARY KEY) WITHOUT ROWID; INSERT INTO WITHOUT_IDS VALUES (7)
        """)  # fmt: skip
    text = text_of(path)
    assert "NEW_ENGINE_EVENTS (3 rows)" in text
    assert 'odd " name (1 row)' in text
    assert "WITHOUT_IDS (1 row)" in text
    assert "EMPTY" not in text
    infos = nsysconv.info(path)
    assert any("NEW_ENGINE_EVENTS" in note.text for report in infos for note in report.notes)


@pytest.mark.parametrize("name", [
    "ENUM_NEW_KIND", "NEW_ENVIRONMENT", "rocpd_arg", "PROCESS_STDOUT", "NewStrings", "PROCESS_ARGUMENTS",
])  # fmt: skip
def test_enumerations_texts_and_private_tables_are_not_named(name: str, tmp_path: Path) -> None:
    path = changed_copy(EXPORT, tmp_path, f"CREATE TABLE {name} (x); INSERT INTO {name} VALUES (1)")
    assert name not in text_of(path)


@pytest.mark.parametrize("name", [
    "ProcessStreams", "ANALYSIS_FILE", "TARGET_INFO_SYSTEM_ENV", "StringIds",
])  # fmt: skip
def test_private_tables_of_exports_are_not_named(name: str) -> None:
    """They have rows in this file."""
    with closing(sqlite3.connect(EXPORT)) as connection:
        assert connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
    assert name not in text_of(EXPORT)


def test_no_report_carries_the_note(tmp_path: Path) -> None:
    path = changed_copy(EXPORT, tmp_path, "CREATE TABLE NEW (x); INSERT INTO NEW VALUES (1)")
    for name in ("overview", "kernels", "findings"):
        (report,) = nsysconv.report_on(path, name)
        assert "tables-not-read" not in {note.slug for note in report.notes}
    assert notes_of(path)


def test_large_tables_are_not_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The row numbers say how many there are: 3 of them, and one is missing."""
    monkeypatch.setattr(unread_tables, "COUNTED_TABLES", 1)
    path = changed_copy(EXPORT, tmp_path, """
        CREATE TABLE NEW (x INT); INSERT INTO NEW VALUES (1), (2), (3); DELETE FROM NEW WHERE x = 2;
        CREATE TABLE NOIDS (x INT PRIMARY KEY) WITHOUT ROWID; INSERT INTO NOIDS VALUES (1), (2)
        """)  # fmt: skip
    assert "NEW (about 3 rows)" in text_of(path)
    assert "NOIDS (more than 1 rows)" in text_of(path)


@real
@pytest.mark.parametrize(("file", "table"), [
    ("nsys_sqlite/hpcgroup+pipit__perlmutter-cloverleaf-cuda.sqlite", "OSRT_CALLCHAINS"),
    ("nvprof_sqlite/UCBerkeley-Spring2022-CS267-project+blinkplus-nccl-base__output.nvvp",
     "CUPTI_ACTIVITY_KIND_NVLINK"),
])  # fmt: skip
def test_tables_of_real_files_by_plain_sql(file: str, table: str) -> None:
    path = REAL / file
    if not path.exists():
        pytest.skip(f"{file} is not there")
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    assert f"{table} ({count:,} rows)" in text_of(path)
