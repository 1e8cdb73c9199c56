"""A SQLite database that is being damaged, and how steps of damage choose what they damage."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TEXT_TABLES = {"StringIds": "id", "StringTable": "_id_"}
"""Tables of texts, and their columns of numbers."""


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
        """Return the names of plain tables."""
        found = self.sql.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' "
            "AND name NOT LIKE 'sqlite%' AND sql NOT LIKE '%VIRTUAL%'"
        )
        return [name for (name,) in found if isinstance(name, str)]

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        return [row[1] for row in self.sql.execute(f"PRAGMA table_info({quoted(table)})")]


def quoted(name: str) -> str:
    """Return a name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def some_table(random_: random.Random, database: Database) -> str:
    """Return a table, most often one with rows."""
    names = database.tables()
    if not names:
        database.sql.execute("CREATE TABLE nothing (a)")
        return "nothing"
    full = [
        name for name in names
        if database.sql.execute(f"SELECT EXISTS (SELECT 1 FROM {quoted(name)})").fetchone()[0]
    ]  # fmt: skip
    return random_.choice(full if full and random_.random() < 0.9 else names)


def some_column(random_: random.Random, database: Database, table: str) -> str:
    """Return a column of a table."""
    return random_.choice(database.columns(table) or ["a"])


def some_rows(random_: random.Random, database: Database, table: str) -> str:
    """Return some of the rows: one, a few, or all."""
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


def is_key(database: Database, table: str, column: str) -> bool:
    """Return whether a column is the key of its table, or a part of it."""
    return any(
        row[1] == column and row[5] for row in database.sql.execute(f"PRAGMA table_info({quoted(table)})")
    )  # fmt: skip


def untyped(database: Database, table: str) -> None:
    """Make the table again without types and keys, so that cells hold what is put into them."""
    columns = database.columns(table)
    made_again(database, table, ", ".join(map(quoted, columns)), columns)


def made_again(
    database: Database, table: str, definition: str, columns: list[str], after: str = ""
) -> None:
    """Make a table anew with these columns and its rows."""
    names = ", ".join(map(quoted, columns)) or "a"
    database.sql.execute(f"ALTER TABLE {quoted(table)} RENAME TO was_before")
    database.sql.execute(f"CREATE TABLE {quoted(table)} ({definition}) {after}")
    if columns:
        database.sql.execute(
            f"INSERT OR IGNORE INTO {quoted(table)} ({names}) SELECT {names} FROM was_before"
        )
    database.sql.execute("DROP TABLE was_before")


def connected(path: Path) -> sqlite3.Connection:
    """Return a connection for a step of damage. Raise sqlite3.Error if the file is no database."""
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
