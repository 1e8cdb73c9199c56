"""Databases with damage to what they hold, and to how they are made; one out of random generators."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import damage_form as form
import damage_rows as rows
import mutate_bytes
from database import Database, connected, quoted

STEPS: tuple[Callable[[random.Random, Database], str], ...] = (
    rows.drop, rows.rename, rows.empty, rows.again, rows.again, rows.drop_column, rows.drop_column,
    rows.rename_column, rows.add_column, rows.cells, rows.cells, rows.cells, rows.cells, rows.cells,
    rows.retype, rows.retype, rows.declare, rows.swap, rows.times, rows.times, rows.times, rows.ids,
    rows.ids, rows.ids, rows.texts, rows.texts, form.made_otherwise, form.made_otherwise,
    form.made_otherwise, form.schema_row, form.header, form.pages, form.raw, form.raw, form.laid_out,
    form.large, form.indexed, form.beside,
)  # fmt: skip


@dataclass(frozen=True)
class Damaged:
    """A damaged database: its bytes, those of files beside it by ending, and what was done."""

    content: bytes
    beside: dict[str, bytes]
    done: tuple[str, ...]
    moved: bool


def mutate(content: bytes, steps: list[random.Random]) -> Damaged:
    """Return a database with a step of damage for each of these generators."""
    done: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "database.sqlite"
        path.write_bytes(content)
        try:
            database = Database(path, connected(path))
        except sqlite3.Error:  # a seed that is damaged already
            for random_ in steps:
                content, what = random_.choice(mutate_bytes.GENERAL)(random_, content)
                done.append(what)
            return Damaged(content, {}, tuple(done), moved=True)
        # SQLite's own generator cannot be seeded; the rows that `random()` picks have to be the same.
        for random_ in steps:
            seeded = random.Random(random_.random())
            database.sql.create_function(
                "random", 0, lambda r=seeded: r.getrandbits(63) - (1 << 62)
            )
            database.sql.create_function("randomblob", 1, lambda size, r=seeded: r.randbytes(size))
            step = random_.choice(STEPS)
            try:
                done.append(step(random_, database))
            except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
                done.append(f"{step.__name__} failed: {error}")
        found, lying = _closed(database)
        for late in database.late:
            found = late(found)
        return Damaged(found, lying, tuple(done), database.moved)


def _closed(database: Database) -> tuple[bytes, dict[str, bytes]]:
    path, sql = database.path, database.sql
    wal = Path(f"{path}-wal")
    lying: dict[str, bytes] = {}
    if database.journal.startswith("wal"):
        with suppress(sqlite3.Error):
            sql.execute("PRAGMA journal_mode = WAL")
            sql.execute("PRAGMA wal_autocheckpoint = 0")
            sql.execute("CREATE TABLE IF NOT EXISTS in_the_journal (a)")
            for table in database.tables()[:3]:
                sql.execute(f"DELETE FROM {quoted(table)} WHERE rowid % 7 = 3")
        content = path.read_bytes()
        log = wal.read_bytes() if wal.exists() else b""
        if database.journal == "wal cut":
            log = log[: len(log) * 2 // 3]
        elif database.journal == "wal noise":
            log = log[:40] + random.Random(0).randbytes(3000)
        lying["-wal"] = log
        sql.close()
        return content, lying
    if database.journal == "journal noise":
        lying["-journal"] = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + random.Random(0).randbytes(2000)
    elif database.journal == "empty":
        lying |= {"-wal": b"", "-journal": b"", "-shm": b""}
    sql.close()
    return path.read_bytes(), lying
