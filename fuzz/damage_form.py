"""Damage to how a database is made: what replaces a table, its schema, header, pages, journals."""

from __future__ import annotations

import random
import sqlite3
import struct
from contextlib import closing, suppress

import damage_trees
import mutate_bytes
from database import (
    TEXT_TABLES,
    Database,
    connected,
    made_again,
    quoted,
    some_column,
    some_table,
    untyped,
)


def made_otherwise(random_: random.Random, database: Database) -> str:
    """Replace a table by something that is not a plain table; return what was done."""
    table = some_table(random_, database)
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
        made_again(database, table, definition, columns, "WITHOUT ROWID")
    elif kind == "computed":
        column = random_.choice(columns or ["a"])
        others = [c for c in columns if c != column]
        what = random_.choice(
            ("1", "'a'", "NULL", "zeroblob(8)", "9223372036854775807", "-1", "0.5")
        )
        stored = random_.choice(("STORED", "VIRTUAL"))
        definition = ", ".join([*map(quoted, others), f"{quoted(column)} AS ({what}) {stored}"])
        made_again(database, table, definition, others)
    elif kind == "strict":
        made_again(
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
        made_again(database, table, definition, columns)
    elif kind == "wide":
        for number in range(300):
            sql.execute(f"ALTER TABLE {quoted(table)} ADD COLUMN wide_{number}")
    elif kind in ("rows far apart", "negative row numbers"):
        if "id" not in columns:
            untyped(database, table)
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
    """Change a row of the schema: root page, text, kind or name; return what was done."""
    table, other = some_table(random_, database), some_table(random_, database)
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
    """Change a field of the file's header: page size, format, encoding, counts, marks of a store."""
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
    """Swap, zero, double or overwrite whole pages, or damage the trees that they form."""
    kind = random_.choice(("swapped", "zeroed", "copied", "noise", "appended", *(("trees",) * 5)))
    first, second, seed = random_.random(), random_.random(), random_.random()
    database.moved = True

    if kind == "trees":
        # Small pages, so that there are pages above pages.
        with suppress(sqlite3.Error):
            database.sql.execute("PRAGMA page_size = 512")
            database.sql.execute("VACUUM")
        how = random_.choice(damage_trees.KINDS)
        database.late.append(lambda content: damage_trees.damage(how, random.Random(seed), content))
        return f"pages: {how.__name__} {seed:.3f}"

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
    """Damage bytes anywhere."""
    how, seed = random_.choice(mutate_bytes.GENERAL), random_.random()
    database.moved = True
    database.late.append(lambda content: how(random.Random(seed), content)[0])
    return f"bytes: {how.__name__} {seed}"


def laid_out(random_: random.Random, database: Database) -> str:
    """Write the database with another page size or encoding, or with free pages."""
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
    database.sql = connected(database.path)


def large(random_: random.Random, database: Database) -> str:
    """Write a cell that takes many overflow pages."""
    table = some_table(random_, database)
    column = some_column(random_, database, table)
    size = random_.choice((20_000, 300_000, 3_000_000))
    kind = random_.choice(("zeroblob({})", "printf('%.*c', {}, 'x')", "randomblob({})"))
    where = f"rowid = (SELECT min(rowid) FROM {quoted(table)})"
    database.moved |= table in TEXT_TABLES
    with suppress(sqlite3.Error):
        database.sql.execute(
            f"UPDATE {quoted(table)} SET {quoted(column)} = {kind.format(size)} WHERE {where}"
        )
    return f"{table}.{column} of {size} bytes ({kind})"


def indexed(random_: random.Random, database: Database) -> str:
    """Drop all indices, add one, or give one a page of its own that is wrong."""
    sql = database.sql
    kind = random_.choice(("dropped", "made", "partial"))
    table = some_table(random_, database)
    column = quoted(some_column(random_, database, table))
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
    """Put a journal beside the file: hot, empty, torn, or of another file."""
    database.journal = random_.choice(("wal", "wal cut", "wal noise", "journal noise", "empty"))
    return f"beside it: {database.journal}"
