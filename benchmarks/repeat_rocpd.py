"""Write a large rocpd database: a given one, whose calls, kernels and copies are repeated.

What it promises: the fewest whole copies that hold so many kernels; from copy to copy, times are later
by the extent of the events, and ids of rows, events and links are others; all else is there once.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

EVENTS = ("kernel_dispatch", "memory_copy", "region")
_SHIFTED = {"id", "event_id", "stack_id"}


def suffix_of(connection: sqlite3.Connection) -> str:
    """Return what the names of the first recording's tables end with."""
    # There are views of the same names without an ending.
    tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
    names = f"{tables} AND name LIKE 'rocpd_event%' ORDER BY name"
    return str(connection.execute(names).fetchone()[0]).removeprefix("rocpd_event")


def generate(path: Path, source: Path, kernels: int) -> None:
    """Write the database."""
    shutil.copyfile(source, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        tables = [f"rocpd_{name}{suffix_of(connection)}" for name in (*EVENTS, "event")]
        times = " UNION ALL ".join(f'SELECT start AS first, "end" AS last FROM "{t}"' for t in tables[:3])
        extent = connection.execute(f"SELECT max(last) - min(first) + 1 FROM ({times})").fetchone()[0]
        (each,) = connection.execute(f'SELECT count(*) FROM "{tables[0]}"').fetchone()
        highest = max(
            connection.execute(f'SELECT max(id) FROM "{table}"').fetchone()[0] or 0 for table in tables
        )
        (link,) = connection.execute(f'SELECT max(stack_id) FROM "{tables[3]}"').fetchone()
        step = max(highest, link or 0)
        for table in tables:
            names = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
            cells = [
                f'"{name}" + n * {step}' if name in _SHIFTED
                else f'"{name}" + n * {extent}' if name in ("start", "end") else f'"{name}"'
                for name in names
            ]  # fmt: skip
            connection.execute(
                f'WITH RECURSIVE copies (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies '
                f'WHERE n + 1 < ?) INSERT INTO "{table}" SELECT {", ".join(cells)} '
                f'FROM copies CROSS JOIN (SELECT * FROM "{table}")',
                (max(-(-kernels // each), 2),),
            )
