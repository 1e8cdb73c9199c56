"""Damage to databases by their structure: tables, columns, cells, ids, times, encodings, pages."""

from __future__ import annotations

import random
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mutate_bytes

_BIG = 1 << 63
CELLS: tuple[Any, ...] = (
    None, 0, -1, 1, 2, 1 << 24, (1 << 31) - 1, 1 << 31, 0xFFFFFFFF, 1 << 32, (1 << 53) - 1, 1 << 53,
    (1 << 53) + 1, 1 << 62, _BIG - 1, -_BIG, -_BIG + 1, 0.5, -0.0, 1e300, float("inf"), 1e-300,
    9007199254740993.0, "", "0", "12", " 12", "1e3", "abc", "NaN", "\x1b[31mred", "a\nb", "a\0b",
    "=1+1", "x" * 5000, b"", b"\0" * 8, b"\xff\xfe", b"12", b"x" * 5000,
)  # fmt: skip
"""What may stand in any cell."""
_TIMES = frozenset({"start", "end", "timestamp", "rawTimestamp", "duration"})
_TEXT_TABLES = {"StringIds": "id", "StringTable": "_id_"}


@dataclass
class Database:
    """A database that is being damaged: an open copy in a file, and what lies beside it.

    `moved`: names may mean another text than they did. `late` is done to its bytes at the end.
    """

    path: Path
    sql: sqlite3.Connection
    moved: bool = False
    journal: str = ""
    late: list[Callable[[bytes], bytes]] = field(default_factory=list)

    def tables(self) -> list[str]:
        """Names of plain tables."""
        found = self.sql.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' "
            "AND name NOT LIKE 'sqlite%' AND sql NOT LIKE '%VIRTUAL%'"
        )
        return [name for (name,) in found if isinstance(name, str)]

    def columns(self, table: str) -> list[str]:
        """Names of a table's columns."""
        return [row[1] for row in self.sql.execute(f"PRAGMA table_info({quoted(table)})")]


def quoted(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def _table(random_: random.Random, database: Database) -> str:
    """A table, most often one with rows."""
    names = database.tables()
    if not names:
        database.sql.execute("CREATE TABLE nothing (a)")
        return "nothing"
    full = [
        name for name in names
        if database.sql.execute(f"SELECT EXISTS (SELECT 1 FROM {quoted(name)})").fetchone()[0]
    ]  # fmt: skip
    return random_.choice(full if full and random_.random() < 0.9 else names)


def _column(random_: random.Random, database: Database, table: str) -> str:
    return random_.choice(database.columns(table) or ["a"])


def _where(random_: random.Random, database: Database, table: str) -> str:
    """Some of the rows: one, a few, or all."""
    kind = random_.randrange(4)
    if kind == 0:
        return "1"
    if kind == 1:
        return f"abs(random() % {random_.choice((2, 5, 20))}) = 0"
    with suppress(sqlite3.Error):
        low, high = database.sql.execute(
            f"SELECT min(rowid), max(rowid) FROM {quoted(table)}"
        ).fetchone()
        if isinstance(low, int) and isinstance(high, int):
            first = random_.randint(low, high)
            return f"rowid BETWEEN {first} AND {first + random_.choice((0, 0, 3))}"
    return "1"


def drop(random_: random.Random, database: Database) -> str:
    """A table is missing."""
    table = _table(random_, database)
    database.sql.execute(f"DROP TABLE {quoted(table)}")
    return f"{table} dropped"


def rename(random_: random.Random, database: Database) -> str:
    """A table is called otherwise, or two have each other's names."""
    table, other = _table(random_, database), _table(random_, database)
    database.moved = True
    if random_.random() < 0.5 or table == other:
        new = random_.choice((table.lower() + "_x", "a b", 'a"b', "sel;ect", "ä", "x" * 300, "[x]"))
        database.sql.execute(f"ALTER TABLE {quoted(table)} RENAME TO {quoted(new)}")
        return f"{table} renamed to {new[:20]!r}"
    for old, new in ((table, "between"), (other, table), ("between", other)):
        database.sql.execute(f"ALTER TABLE {quoted(old)} RENAME TO {quoted(new)}")
    return f"{table} and {other} have each other's names"


def empty(random_: random.Random, database: Database) -> str:
    """Rows of a table are missing."""
    table = _table(random_, database)
    where = _where(random_, database, table)
    database.sql.execute(f"DELETE FROM {quoted(table)} WHERE {where}")
    return f"{table} without rows where {where}"


def again(random_: random.Random, database: Database) -> str:
    """Rows of a table stand there twice."""
    table = _table(random_, database)
    columns = [c for c in database.columns(table) if not _is_key(database, table, c)]
    names = ", ".join(map(quoted, columns))
    where = _where(random_, database, table)
    database.sql.execute(
        f"INSERT INTO {quoted(table)} ({names}) SELECT {names} FROM {quoted(table)} WHERE {where}"
    )
    return f"{table} rows twice where {where}"


def _is_key(database: Database, table: str, column: str) -> bool:
    return any(
        row[1] == column and row[5] for row in database.sql.execute(f"PRAGMA table_info({quoted(table)})")
    )  # fmt: skip


def drop_column(random_: random.Random, database: Database) -> str:
    """A column is missing."""
    table = _table(random_, database)
    column = _column(random_, database, table)
    rest = [c for c in database.columns(table) if c != column]
    database.moved |= table in _TEXT_TABLES
    _again_as(database, table, ", ".join(map(quoted, rest)) or "a", rest)
    return f"{table} without {column}"


def rename_column(random_: random.Random, database: Database) -> str:
    """A column is called otherwise, at times as rows' numbers are."""
    table = _table(random_, database)
    column = _column(random_, database, table)
    new = random_.choice(
        ("rowid", "oid", "_rowid_", column.upper(), "a b", 'a"b', "end", "ä", "id", "value", "text")
    )
    database.moved = True
    database.sql.execute(
        f"ALTER TABLE {quoted(table)} RENAME COLUMN {quoted(column)} TO {quoted(new)}"
    )
    return f"{table}.{column} renamed to {new}"


def add_column(random_: random.Random, database: Database) -> str:
    """A column more, at times one that hides rows' numbers, or is computed."""
    table = _table(random_, database)
    new = random_.choice(("rowid", "oid", "_rowid_", "globalPid", "deviceId", "eventClass", "x"))
    kind = random_.choice(
        ("INTEGER", "TEXT DEFAULT 'a'", "INTEGER DEFAULT 7", "AS (1) VIRTUAL", "AS (1/0)",
         "AS (zeroblob(100000)) VIRTUAL", "INTEGER DEFAULT 9223372036854775807")
    )  # fmt: skip
    database.sql.execute(f"ALTER TABLE {quoted(table)} ADD COLUMN {new} {kind}")
    return f"{table} with {new} {kind}"


def cells(random_: random.Random, database: Database) -> str:
    """Cells of a column hold something else."""
    table = _table(random_, database)
    column = _column(random_, database, table)
    where = _where(random_, database, table)
    value = random_.choice(CELLS)
    database.moved |= column.lower().endswith(("name", "id", "value", "text"))
    with suppress(sqlite3.IntegrityError):
        database.sql.execute(
            f"UPDATE {quoted(table)} SET {quoted(column)} = ? WHERE {where}", (value,)
        )
    return f"{table}.{column} is {str(value)[:30]!r} ({type(value).__name__}) where {where}"


def retype(random_: random.Random, database: Database) -> str:
    """Cells of a column hold the same as another type."""
    table = _table(random_, database)
    column = _column(random_, database, table)
    where = _where(random_, database, table)
    kind = random_.choice(("TEXT", "BLOB", "REAL", "INTEGER", "NUMERIC"))
    _untyped(database, table)
    with suppress(sqlite3.IntegrityError):
        database.sql.execute(
            f"UPDATE {quoted(table)} SET {quoted(column)} = CAST({quoted(column)} AS {kind}) "
            f"WHERE {where}"
        )
    return f"{table}.{column} as {kind} where {where}"


def _untyped(database: Database, table: str) -> None:
    """The table without types and keys: cells hold what is put into them."""
    columns = database.columns(table)
    _again_as(database, table, ", ".join(map(quoted, columns)), columns)


def _again_as(
    database: Database, table: str, definition: str, columns: list[str], after: str = ""
) -> None:
    """Makes a table anew with these columns and its rows."""
    names = ", ".join(map(quoted, columns)) or "a"
    database.sql.execute(f"ALTER TABLE {quoted(table)} RENAME TO was_before")
    database.sql.execute(f"CREATE TABLE {quoted(table)} ({definition}) {after}")
    if columns:
        database.sql.execute(
            f"INSERT OR IGNORE INTO {quoted(table)} ({names}) SELECT {names} FROM was_before"
        )
    database.sql.execute("DROP TABLE was_before")


def swap(random_: random.Random, database: Database) -> str:
    """Two columns hold each other's cells."""
    table = _table(random_, database)
    one, other = _column(random_, database, table), _column(random_, database, table)
    where = _where(random_, database, table)
    database.moved = True
    with suppress(sqlite3.IntegrityError):
        database.sql.execute(
            f"UPDATE {quoted(table)} SET {quoted(one)} = {quoted(other)}, "
            f"{quoted(other)} = {quoted(one)} WHERE {where}"
        )
    return f"{table}.{one} and {other} swapped where {where}"


def times(random_: random.Random, database: Database) -> str:
    """Times are shifted, reversed, alike, or of another scale."""
    table = _table(random_, database)
    columns = [c for c in database.columns(table) if c in _TIMES]
    if not columns:
        return cells(random_, database)
    column = quoted(random_.choice(columns))
    where = _where(random_, database, table)
    what = random_.choice(
        (f"-{column}", f"{column} + 1700000000000000000", f"{column} - 9000000000000000",
         f"{column} * 1000", f"{column} / 1000", "0", "1", f"{column} + 9007199254740992",
         f"{column} + 9223372036854770000", f"{column} - 9223372036854770000", f"{column} + 0.5")
    )  # fmt: skip
    with suppress(sqlite3.Error):
        database.sql.execute(f"UPDATE {quoted(table)} SET {column} = {what} WHERE {where}")
    return f"{table}.{column} = {what} where {where}"


def ids(random_: random.Random, database: Database) -> str:
    """Ids of rows that belong together are others: doubled, swapped, missing, in circles."""
    table = _table(random_, database)
    columns = [
        c for c in database.columns(table) if c.lower().endswith(("id", "pid", "tid", "name"))
    ]
    if not columns:
        return cells(random_, database)
    column = quoted(random_.choice(columns))
    where = _where(random_, database, table)
    database.moved = True
    what = random_.choice(
        ("rowid", "1", "0", f"{column} + 1", f"-{column}", f"{column} << 24", f"{column} | 16777215",
         "random()", f"(SELECT max({column}) FROM {quoted(table)})", "abs(random() % 7)")
    )  # fmt: skip
    with suppress(sqlite3.Error):
        database.sql.execute(f"UPDATE {quoted(table)} SET {column} = {what} WHERE {where}")
    return f"{table}.{column} = {what} where {where}"


def texts(random_: random.Random, database: Database) -> str:
    """The texts that rows refer to: missing, doubled, no text, or of other numbers."""
    found = [name for name in _TEXT_TABLES if name in database.tables()]
    if not found or not {"value", _TEXT_TABLES[found[0]]} <= set(database.columns(found[0])):
        return cells(random_, database)
    table = found[0]
    key = _TEXT_TABLES[table]
    where = _where(random_, database, table)
    database.moved = True
    kind = random_.randrange(5)
    if kind == 0:
        database.sql.execute(f"DELETE FROM {table} WHERE {where}")
        return f"{table} without texts where {where}"
    if kind == 1:
        _untyped(database, table)
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
    _untyped(database, table)
    database.sql.execute(f"UPDATE {table} SET {key} = {key} * 3 - 40 WHERE {where}")
    return f"{table}.{key} others where {where}"


def made_otherwise(random_: random.Random, database: Database) -> str:
    """Something that is not a plain table stands in its place."""
    table = _table(random_, database)
    columns = database.columns(table)
    names = ", ".join(map(quoted, columns))
    hidden = "hidden_behind"
    kind = random_.choice(
        ("view", "endless view", "without rowid", "computed", "strict", "virtual", "triggers",
         "checked", "view on itself", "wide", "rows far apart", "negative row numbers", "temp names")
    )  # fmt: skip
    sql = database.sql
    if kind in ("view", "endless view", "view on itself"):
        sql.execute(f"ALTER TABLE {quoted(table)} RENAME TO {hidden}")
        body = f"SELECT {names} FROM {hidden}"
        if kind == "endless view":
            body = (
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                f"SELECT {', '.join(f'i AS {quoted(c)}' for c in columns)} FROM n"
            )
        if kind == "view on itself":
            body = f"SELECT * FROM {quoted(table)}"
        sql.execute(f"CREATE VIEW {quoted(table)} AS {body}")
    elif kind == "without rowid":
        definition = f"{names}, PRIMARY KEY ({names})"
        _again_as(database, table, definition, columns, "WITHOUT ROWID")
    elif kind == "computed":
        column = random_.choice(columns or ["a"])
        others = [c for c in columns if c != column]
        what = random_.choice(
            ("1", "'a'", "NULL", "zeroblob(8)", "9223372036854775807", "-1", "0.5")
        )
        stored = random_.choice(("STORED", "VIRTUAL"))
        definition = ", ".join([*map(quoted, others), f"{quoted(column)} AS ({what}) {stored}"])
        _again_as(database, table, definition, others)
    elif kind == "strict":
        _again_as(
            database, table, ", ".join(f"{quoted(c)} ANY" for c in columns), columns, "STRICT"
        )
    elif kind == "virtual":
        sql.execute("PRAGMA writable_schema = ON")
        module = random_.choice(("fts5(a)", "nosuch(a)", "rtree(a, b, c)", "dbstat"))
        text = f"CREATE VIRTUAL TABLE {quoted(table)} USING {module}"
        sql.execute("UPDATE sqlite_master SET sql = ?, rootpage = 0 WHERE name = ?", (text, table))
    elif kind == "triggers":
        sql.execute(
            f"CREATE TRIGGER t_{random_.randrange(99)} AFTER INSERT ON {quoted(table)} "
            f"BEGIN DELETE FROM {quoted(table)}; END"
        )
    elif kind == "checked":
        definition = ", ".join([*map(quoted, columns), "CHECK (1)", f"UNIQUE ({names})"])
        _again_as(database, table, definition, columns)
    elif kind == "wide":
        for number in range(300):
            sql.execute(f"ALTER TABLE {quoted(table)} ADD COLUMN wide_{number}")
    elif kind in ("rows far apart", "negative row numbers"):
        if "id" not in columns:
            _untyped(database, table)
        how = "rowid * 1000003 + 9000000000000" if kind == "rows far apart" else "-rowid"
        if random_.random() < 0.3:
            most = 9223372036854775807
            how = f"CASE WHEN rowid % 2 THEN {most} - rowid ELSE -{most} + rowid END"
        sql.execute(f"UPDATE {quoted(table)} SET rowid = {how}")
    else:
        sql.execute("CREATE TABLE IF NOT EXISTS kernel (id)")
        sql.execute("CREATE TABLE IF NOT EXISTS profile (id)")
    return f"{table}: {kind}"


def schema_row(random_: random.Random, database: Database) -> str:
    """A row of the schema says something else: root page, text, kind, name."""
    table, other = _table(random_, database), _table(random_, database)
    sql = database.sql
    database.moved = True
    sql.execute("PRAGMA writable_schema = ON")
    kind = random_.randrange(5)
    if kind == 0:
        page = random_.choice((0, 1, 2, -1, 1 << 31, 999_999))
        sql.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = ?", (page, table))
        return f"{table} has root page {page}"
    if kind == 1:
        sql.execute(
            "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = ?) "
            "WHERE name = ?", (other, table))  # fmt: skip
        return f"{table} has the root page of {other}"
    if kind == 2:
        text = random_.choice(("", "CREATE TABLE", "rubbish", None, 7, "CREATE TABLE x (a"))
        sql.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (text, table))
        return f"{table} is {text!r}"
    if kind == 3:
        name = random_.choice((b"\xff\xfe", None, "", 7, "sqlite_x"))
        sql.execute("UPDATE sqlite_master SET name = ? WHERE name = ?", (name, table))
        return f"{table} is called {name!r}"
    word = random_.choice(("index", "view", "trigger", "rubbish"))
    sql.execute("UPDATE sqlite_master SET type = ? WHERE name = ?", (word, table))
    return f"{table} is a {word}"


def header(random_: random.Random, database: Database) -> str:
    """A field of the file's header: page size, format, encoding, counts, marks of a store."""
    fields = {
        "page size": (16, ">H", (0, 1, 512, 1000, 65535)), "write version": (18, "B", (0, 2, 3, 255)),
        "read version": (19, "B", (0, 2, 3, 255)), "reserved": (20, "B", (1, 32, 255)),
        "pages": (28, ">I", (0, 1, 0xFFFFFFFF)), "first free page": (32, ">I", (1, 2, 99999)),
        "free pages": (36, ">I", (1, 0xFFFFFFFF)), "schema format": (44, ">I", (0, 5, 99)),
        "largest root": (52, ">I", (1, 9)), "encoding": (56, ">I", (0, 2, 3, 4)),
        "user version": (60, ">I", (1, 2, 999)), "application": (68, ">I", (0x4E535943,)),
    }  # fmt: skip
    name = random_.choice(list(fields))
    offset, kind, values = fields[name]
    value = struct.pack(kind, random_.choice(values))
    database.late.append(lambda content: content[:offset] + value + content[offset + len(value) :])
    database.moved |= name == "encoding"
    return f"header: {name} is {value.hex()}"


def pages(random_: random.Random, database: Database) -> str:
    """Whole pages: swapped, zeroed, doubled, made noise."""
    kind = random_.choice(("swapped", "zeroed", "copied", "noise", "appended"))
    first, second, seed = random_.random(), random_.random(), random_.random()
    database.moved = True

    def damage(content: bytes) -> bytes:
        size = int.from_bytes(content[16:18], "big") or 1024
        size = 65_536 if size == 1 else size
        count = max(len(content) // size, 1)
        one, two = (int(x * count) * size for x in (first, second))
        found = bytearray(content)
        page = found[one : one + size]
        if kind == "swapped":
            found[one : one + size], found[two : two + size] = found[two : two + size], page
        elif kind == "copied":
            found[two : two + size] = page
        elif kind == "appended":
            found += page
        else:
            noise = random.Random(seed).randbytes(len(page))
            found[one : one + size] = noise if kind == "noise" else bytes(len(page))
        return bytes(found)

    database.late.append(damage)
    return f"a page {kind} at {first:.3f}, {second:.3f}"


def raw(random_: random.Random, database: Database) -> str:
    """Damage to bytes."""
    how, seed = random_.choice(mutate_bytes.GENERAL), random_.random()
    database.moved = True
    database.late.append(lambda content: how(random.Random(seed), content)[0])
    return f"bytes: {how.__name__} {seed}"


def laid_out(random_: random.Random, database: Database) -> str:
    """Another page size, encoding, or a file with free pages."""
    kind = random_.choice(("UTF-16le", "UTF-16be", "page size", "auto vacuum", "free pages"))
    sql = database.sql
    if kind.startswith("UTF"):
        _in_encoding(database, kind)
    elif kind == "page size":
        sql.execute(f"PRAGMA page_size = {random_.choice((512, 1024, 4096, 65536))}")
        sql.execute("VACUUM")
    elif kind == "auto vacuum":
        sql.execute("PRAGMA auto_vacuum = FULL")
        sql.execute("VACUUM")
    else:
        sql.execute("CREATE TABLE gone AS SELECT randomblob(900) FROM sqlite_master")
        sql.execute("DROP TABLE gone")
    return f"laid out: {kind}"


def _in_encoding(database: Database, encoding: str) -> None:
    """The same database in another encoding."""
    names = [name for (name,) in database.sql.execute("SELECT name FROM sqlite_master")]
    if not all(isinstance(name, str) for name in names):
        raise sqlite3.DatabaseError("a name that is no text cannot be written down")
    other = database.path.with_suffix(".other")
    with closing(sqlite3.connect(other, isolation_level=None)) as target:
        target.execute(f"PRAGMA encoding = '{encoding}'")
        target.executescript("\n".join(database.sql.iterdump()).replace("BEGIN TRANSACTION;", "", 1)
                             .removesuffix("COMMIT;"))  # fmt: skip
    database.sql.close()
    other.replace(database.path)
    database.sql = _connected(database.path)


def large(random_: random.Random, database: Database) -> str:
    """A cell that takes many overflow pages."""
    table = _table(random_, database)
    column = _column(random_, database, table)
    size = random_.choice((20_000, 300_000, 3_000_000))
    kind = random_.choice(("zeroblob({})", "printf('%.*c', {}, 'x')", "randomblob({})"))
    where = f"rowid = (SELECT min(rowid) FROM {quoted(table)})"
    database.moved |= table in _TEXT_TABLES
    with suppress(sqlite3.Error):
        database.sql.execute(
            f"UPDATE {quoted(table)} SET {quoted(column)} = {kind.format(size)} WHERE {where}"
        )
    return f"{table}.{column} of {size} bytes ({kind})"


def indexed(random_: random.Random, database: Database) -> str:
    """Indices: all dropped, one more, or one with a page of its own that is wrong."""
    sql = database.sql
    kind = random_.choice(("dropped", "made", "partial"))
    table = _table(random_, database)
    column = quoted(_column(random_, database, table))
    if kind == "dropped":
        for (name,) in sql.execute(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        ).fetchall():
            sql.execute(f"DROP INDEX {quoted(name)}")
    else:
        where = "WHERE 1 = 0" if kind == "partial" else ""
        sql.execute(
            f"CREATE INDEX ix_{random_.randrange(999)} ON {quoted(table)} ({column}) {where}"
        )
    return f"indices: {kind}"


def beside(random_: random.Random, database: Database) -> str:
    """A journal lies beside the file: hot, empty, torn, or of another file."""
    database.journal = random_.choice(("wal", "wal cut", "wal noise", "journal noise", "empty"))
    return f"beside it: {database.journal}"


STEPS: tuple[Callable[[random.Random, Database], str], ...] = (
    drop, rename, empty, again, again, drop_column, drop_column, rename_column, add_column,
    cells, cells, cells, cells, cells, retype, retype, swap, times, times, times, ids, ids, ids,
    texts, texts, made_otherwise, made_otherwise, made_otherwise, schema_row, header, pages, raw,
    raw, laid_out, large, indexed, beside,
)  # fmt: skip


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.Error:
        connection.close()
        raise
    connection.set_progress_handler(lambda: True, 50_000_000)  # views may have no end
    return connection


@dataclass(frozen=True)
class Damaged:
    """A damaged database: its bytes, those of files beside it by ending, and what was done."""

    content: bytes
    beside: dict[str, bytes]
    done: tuple[str, ...]
    moved: bool


def mutate(content: bytes, steps: list[random.Random]) -> Damaged:
    """A database with one step of damage for each of these generators."""
    done: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "database.sqlite"
        path.write_bytes(content)
        try:
            database = Database(path, _connected(path))
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
    """The file's bytes, and those of its journal."""
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
