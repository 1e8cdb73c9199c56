"""New SQLite files with tables of another program's shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from nsysconv.store.sqlite.connection import PAGE_SIZE, SqliteConnection
from nsysconv.store.sqlite.writer import ChangingConnection


class TableFile:
    """A new file; a table is made when its first rows come."""

    def __init__(
        self, connection: SqliteConnection, tables: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Write through a connection; `tables` has the types of columns by table, in their order."""
        self._connection, self._tables = connection, tables
        self._made: set[str] = set()

    def add(self, table: str, rows: pa.Table) -> None:
        """Append rows; columns that they lack are null."""
        if table not in self._made:
            self._made.add(table)
            columns = ", ".join(f'"{name}" {kind}' for name, kind in self._tables[table].items())
            self._connection.execute(f'CREATE TABLE "{table}" ({columns})')
        self._connection.ingest(table, rows)


@contextmanager
def new_table_file(path: Path, tables: Mapping[str, Mapping[str, str]]) -> Iterator[TableFile]:
    """Give a file that is being written; it is whole at the end of the block.

    Raises what a connection raises where it cannot be written. What a failure leaves is no database.
    """
    with ChangingConnection(path, "rwc&nolock=1", path) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
        with connection.transaction("BEGIN IMMEDIATE"):
            yield TableFile(connection, tables)
