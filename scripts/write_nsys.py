"""Write a workload as the SQLite export of some version of Nsight Systems."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from nsys_cpu_side import add_cpu_side
from nsys_enums import EnumRow, enums
from nsys_rows import Export, Row, add_events
from nsys_session import add_session
from nsys_tables import AGES, Age, Column, create_statement, tables
from workload import Workload

_ENUM_COLUMNS = [
    Column("id", "INTEGER", True, True),
    Column("name", "TEXT", False, False),
    Column("label", "TEXT", False, False),
]
# The graph tables came with later versions; before, graphs cannot be written as intervals.
_FIRST_WITH_GRAPHS = (3, 1, 0)


def write_nsys(workload: Workload, path: Path, age: str) -> None:
    """Write `workload` to `path`, which is replaced, as an export of schema `age` (see `AGES`).

    The same workload and age give the same bytes with the same SQLite. Raises ValueError where
    that age cannot hold what the workload has.
    """
    out = Export(AGES[age])
    if workload.events.graph_launches and out.age.version < _FIRST_WITH_GRAPHS:
        raise ValueError(f"{workload.name}: schema {age} has no table for whole graphs")
    add_session(out, workload)
    add_events(out, workload)
    add_cpu_side(out, workload.events)
    out.rows["StringIds"] = [{"id": n, "value": text} for text, n in out.strings.items()]
    with new_database(path, page_size=1024) as connection:
        _write_tables(connection, out)


@contextmanager
def new_database(path: Path, page_size: int) -> Iterator[sqlite3.Connection]:
    """Make a database that replaces `path`, with what is written inside as one transaction."""
    path.unlink(missing_ok=True)
    with changed_database(path) as connection:
        connection.executescript(f"PRAGMA page_size = {page_size}; PRAGMA journal_mode = OFF; BEGIN")
        yield connection
        connection.execute("COMMIT")
        connection.execute("VACUUM")


@contextmanager
def changed_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Change a database.

    The version of the SQLite library that wrote the file is replaced, so that all write the same.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection
    with path.open("r+b") as file:
        file.seek(96)
        file.write((3_026_000).to_bytes(4, "big"))


def _write_tables(connection: sqlite3.Connection, out: Export) -> None:
    written = set()
    for table, columns in tables(out.age).items():
        rows = out.rows.get(table, [])
        if not rows and out.age.lazy:
            continue
        written.add(table)
        connection.execute(create_statement(out.age, table, columns))
        _insert(connection, table, columns, _ordered(out.age, table, rows))
    for table, values in enums(out.age, written).items():
        connection.execute(create_statement(out.age, table, _ENUM_COLUMNS))
        _insert(connection, table, _ENUM_COLUMNS, [_enum_row(row) for row in values])


def _enum_row(row: EnumRow) -> Row:
    return {"id": row[0], "name": row[1], "label": row[2]}


def _ordered(age: Age, table: str, rows: list[Row]) -> list[Row]:
    if table == "NVTX_EVENTS":
        rows = [row | {"eventId": number} for number, row in enumerate(rows, 1)]
    if age.shuffled:
        numbered = sorted(enumerate(rows), key=lambda item: zlib.crc32(b"%d" % item[0]))
        return [row for _, row in numbered]
    time = "timestamp" if table == "GPU_METRICS" else "start"
    return sorted(rows, key=lambda row: int(row.get(time) or 0))


def _insert(
    connection: sqlite3.Connection, table: str, columns: list[Column], rows: list[Row]
) -> None:
    marks = ", ".join("?" * len(columns))
    connection.executemany(
        f"INSERT INTO {table} VALUES ({marks})",
        [[row.get(column.name) for column in columns] for row in rows],
    )
