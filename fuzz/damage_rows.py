"""Damage to what a database holds: tables, columns, cells, ids, times, texts."""

from __future__ import annotations

import random
import sqlite3
from contextlib import suppress
from typing import Any

from database import (
    TEXT_TABLES,
    Database,
    is_key,
    made_again,
    quoted,
    some_column,
    some_rows,
    some_table,
    untyped,
)

_BIG = 1 << 63
CELLS: tuple[Any, ...] = (
    None, 0, -1, 1, 2, 1 << 24, (1 << 31) - 1, 1 << 31, 0xFFFFFFFF, 1 << 32, (1 << 53) - 1, 1 << 53,
    (1 << 53) + 1, 1 << 62, _BIG - 1, -_BIG, -_BIG + 1, 0.5, -0.0, 1e300, float("inf"), 1e-300,
    9007199254740993.0, "", "0", "12", " 12", "1e3", "abc", "NaN", "\x1b[31mred", "a\nb", "a\0b",
    "=1+1", "x" * 5000, b"", b"\0" * 8, b"\xff\xfe", b"12", b"x" * 5000,
)  # fmt: skip
"""Values that any cell may hold."""
_TIMES = frozenset({"start", "end", "timestamp", "rawTimestamp", "duration"})


def drop(random_: random.Random, database: Database) -> str:
    """Drop a table; return what was done."""
    table = some_table(random_, database)
    database.sql.execute(f"DROP TABLE {quoted(table)}")
    return f"{table} dropped"


def rename(random_: random.Random, database: Database) -> str:
    """Rename a table, or swap the names of two."""
    table, other = some_table(random_, database), some_table(random_, database)
    database.moved = True
    if random_.random() < 0.5 or table == other:
        new = random_.choice((table.lower() + "_x", "a b", 'a"b', "sel;ect", "ä", "x" * 300, "[x]"))
        database.sql.execute(f"ALTER TABLE {quoted(table)} RENAME TO {quoted(new)}")
        return f"{table} renamed to {new[:20]!r}"
    for old, new in ((table, "between"), (other, table), ("between", other)):
        database.sql.execute(f"ALTER TABLE {quoted(old)} RENAME TO {quoted(new)}")
    return f"{table} and {other} have each other's names"


def empty(random_: random.Random, database: Database) -> str:
    """Delete rows of a table."""
    table = some_table(random_, database)
    where = some_rows(random_, database, table)
    database.sql.execute(f"DELETE FROM {quoted(table)} WHERE {where}")
    return f"{table} without rows where {where}"


def again(random_: random.Random, database: Database) -> str:
    """Insert rows of a table a second time."""
    table = some_table(random_, database)
    columns = [c for c in database.columns(table) if not is_key(database, table, c)]
    names = ", ".join(map(quoted, columns))
    where = some_rows(random_, database, table)
    database.sql.execute(
        f"INSERT INTO {quoted(table)} ({names}) SELECT {names} FROM {quoted(table)} WHERE {where}"
    )
    return f"{table} rows twice where {where}"


def drop_column(random_: random.Random, database: Database) -> str:
    """Drop a column."""
    table = some_table(random_, database)
    column = some_column(random_, database, table)
    rest = [c for c in database.columns(table) if c != column]
    database.moved |= table in TEXT_TABLES
    made_again(database, table, ", ".join(map(quoted, rest)) or "a", rest)
    return f"{table} without {column}"


def rename_column(random_: random.Random, database: Database) -> str:
    """Rename a column, at times to a name of the row number."""
    table = some_table(random_, database)
    column = some_column(random_, database, table)
    new = random_.choice(
        ("rowid", "oid", "_rowid_", column.upper(), "a b", 'a"b', "end", "ä", "id", "value", "text")
    )
    database.moved = True
    database.sql.execute(
        f"ALTER TABLE {quoted(table)} RENAME COLUMN {quoted(column)} TO {quoted(new)}"
    )
    return f"{table}.{column} renamed to {new}"


def add_column(random_: random.Random, database: Database) -> str:
    """Add a column, at times one that hides the row number, or is computed."""
    table = some_table(random_, database)
    new = random_.choice(("rowid", "oid", "_rowid_", "globalPid", "deviceId", "eventClass", "x"))
    kind = random_.choice(
        ("INTEGER", "TEXT DEFAULT 'a'", "INTEGER DEFAULT 7", "AS (1) VIRTUAL", "AS (1/0)",
         "AS (zeroblob(100000)) VIRTUAL", "INTEGER DEFAULT 9223372036854775807")
    )  # fmt: skip
    database.sql.execute(f"ALTER TABLE {quoted(table)} ADD COLUMN {new} {kind}")
    return f"{table} with {new} {kind}"


def _update(database: Database, table: str, change: str, *values: object) -> None:
    with suppress(sqlite3.IntegrityError):
        database.sql.execute(f"UPDATE {quoted(table)} SET {change}", values)


def cells(random_: random.Random, database: Database) -> str:
    """Overwrite cells of a column with something else."""
    table = some_table(random_, database)
    column = some_column(random_, database, table)
    where = some_rows(random_, database, table)
    value = random_.choice(CELLS)
    database.moved |= column.lower().endswith(("name", "id", "value", "text"))
    _update(database, table, f"{quoted(column)} = ? WHERE {where}", value)
    return f"{table}.{column} is {str(value)[:30]!r} ({type(value).__name__}) where {where}"


def retype(random_: random.Random, database: Database) -> str:
    """Store cells of a column as another type."""
    table = some_table(random_, database)
    column = some_column(random_, database, table)
    where = some_rows(random_, database, table)
    kind = random_.choice(("TEXT", "BLOB", "REAL", "INTEGER", "NUMERIC"))
    untyped(database, table)
    _update(
        database, table, f"{quoted(column)} = CAST({quoted(column)} AS {kind}) WHERE {where}"
    )
    return f"{table}.{column} as {kind} where {where}"


def declare(random_: random.Random, database: Database) -> str:
    """Make a table again whose columns are all declared of one type, which makes their cells of it."""
    table = some_table(random_, database)
    kind = random_.choice(("TEXT", "TEXT", "REAL", "BLOB", "NUMERIC"))
    columns = database.columns(table)
    made_again(database, table, ", ".join(f"{quoted(name)} {kind}" for name in columns), columns)
    return f"{table} of {kind}"


def swap(random_: random.Random, database: Database) -> str:
    """Swap the cells of two columns."""
    table = some_table(random_, database)
    one, other = some_column(random_, database, table), some_column(random_, database, table)
    where = some_rows(random_, database, table)
    database.moved = True
    _update(
        database,
        table,
        f"{quoted(one)} = {quoted(other)}, {quoted(other)} = {quoted(one)} WHERE {where}",
    )
    return f"{table}.{one} and {other} swapped where {where}"


def times(random_: random.Random, database: Database) -> str:
    """Shift, reverse or scale times, or make them all equal."""
    table = some_table(random_, database)
    columns = [c for c in database.columns(table) if c in _TIMES]
    if not columns:
        return cells(random_, database)
    column = quoted(random_.choice(columns))
    where = some_rows(random_, database, table)
    what = random_.choice(
        (f"-{column}", f"{column} + 1700000000000000000", f"{column} - 9000000000000000",
         f"{column} * 1000", f"{column} / 1000", "0", "1", f"{column} + 9007199254740992",
         f"{column} + 9223372036854770000", f"{column} - 9223372036854770000", f"{column} + 0.5")
    )  # fmt: skip
    with suppress(sqlite3.Error):
        database.sql.execute(f"UPDATE {quoted(table)} SET {column} = {what} WHERE {where}")
    return f"{table}.{column} = {what} where {where}"


def ids(random_: random.Random, database: Database) -> str:
    """Change ids that link rows: doubled, swapped, missing, in circles."""
    table = some_table(random_, database)
    columns = [
        c for c in database.columns(table) if c.lower().endswith(("id", "pid", "tid", "name"))
    ]
    if not columns:
        return cells(random_, database)
    column = quoted(random_.choice(columns))
    where = some_rows(random_, database, table)
    database.moved = True
    what = random_.choice(
        ("rowid", "1", "0", f"{column} + 1", f"-{column}", f"{column} << 24", f"{column} | 16777215",
         "random()", f"(SELECT max({column}) FROM {quoted(table)})", "abs(random() % 7)")
    )  # fmt: skip
    with suppress(sqlite3.Error):
        database.sql.execute(f"UPDATE {quoted(table)} SET {column} = {what} WHERE {where}")
    return f"{table}.{column} = {what} where {where}"


def texts(random_: random.Random, database: Database) -> str:
    """Damage the texts that rows refer to: missing, doubled, no text, or of other numbers."""
    found = [name for name in TEXT_TABLES if name in database.tables()]
    if not found or not {"value", TEXT_TABLES[found[0]]} <= set(database.columns(found[0])):
        return cells(random_, database)
    table = found[0]
    key = TEXT_TABLES[table]
    where = some_rows(random_, database, table)
    database.moved = True
    kind = random_.randrange(5)
    if kind == 0:
        database.sql.execute(f"DELETE FROM {table} WHERE {where}")
        return f"{table} without texts where {where}"
    if kind == 1:
        untyped(database, table)
        database.sql.execute(
            f"INSERT INTO {table} ({key}, value) "
            f"SELECT {key}, value || '-again' FROM {table} WHERE {where}"
        )
        return f"{table} with ids twice where {where}"
    if kind == 2:
        value = random_.choice(CELLS)
        database.sql.execute(f"UPDATE {table} SET value = ? WHERE {where}", (value,))
        return f"{table}.value {str(value)[:20]!r} where {where}"
    if kind == 3:
        raw = random_.choice(("ff", "c328", "eda080", "00", "610062", "1b5b33316d", "e280ae61"))
        database.sql.execute(f"UPDATE {table} SET value = CAST(x'{raw}' AS TEXT) WHERE {where}")
        return f"{table}.value is the bytes {raw} where {where}"
    untyped(database, table)
    database.sql.execute(f"UPDATE {table} SET {key} = {key} * 3 - 40 WHERE {where}")
    return f"{table}.{key} others where {where}"
