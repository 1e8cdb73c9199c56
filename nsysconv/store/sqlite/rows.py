"""The rows of one new profile on their way into a SQLite store."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.notes import Note
from nsysconv.report import Column, build_table
from nsysconv.store.recording import Batch, SourceRows
from nsysconv.store.sqlite.connection import SqliteConnection
from nsysconv.store.write import ProfileRows, Progress, Span
from nsysconv.units import Unit

# What SQLite says of a row that the table does not admit.
_REFUSED = ("constraint failed", "cannot store")

# Source rows copied by one statement: half a second, so that Ctrl-C and progress are not kept waiting.
_ROWS_AT_ONCE = 500_000


class SqliteRows(ProfileRows):
    """The database numbers the rows; those of a profile are contiguous (docs/decisions/0004)."""

    def __init__(self, connection: SqliteConnection, profile_id: int) -> None:
        self._connection = connection
        self._profile_id = profile_id
        self._before = {name: self._last_id(name) for name in schema.EVENT_TABLES}

    def add(self, batch: Batch, progress: Progress) -> list[Note]:
        """As for any database."""
        if not isinstance(batch, SourceRows):
            if batch.count:
                self._ingest(batch.table, batch.rows)
            if batch.done:
                progress(batch.done, batch.count)
            return []
        self._connection.execute("SAVEPOINT batch")
        try:
            self._copy(batch, progress)
        except InputError as error:
            if not any(words in str(error) for words in _REFUSED):
                raise
            # The database refused a row: a wrong type or an impossible time. Copy with guards.
            self._connection.execute("ROLLBACK TO batch")
            careful, notes = batch.guarded()
            self._copy(careful, lambda table, rows: None)
        else:
            notes = []
        self._connection.execute("RELEASE batch")
        return notes

    def spans(self) -> dict[str, Span]:
        """As for any database."""
        last = {name: self._last_id(name) for name in self._before}
        return {
            name: Span(before + 1, last[name])
            for name, before in self._before.items()
            if last[name] > before
        }

    def _copy(self, batch: SourceRows, progress: Progress) -> None:
        table = schema.metadata.tables[batch.table]
        names = ["profile_id", *(c.name for c in batch.select.selected_columns)]
        rows = batch.select.with_only_columns(
            sa.literal_column(str(self._profile_id)), *batch.select.selected_columns
        )
        if batch.sparse:
            self._connection.execute(sa.insert(table).from_select(names, rows))
            return
        for low in range(batch.first, batch.last + 1, _ROWS_AT_ONCE):
            high = min(low + _ROWS_AT_ONCE - 1, batch.last)
            piece = rows.where(
                batch.row_id.between(sa.literal_column(str(low)), sa.literal_column(str(high)))
            )
            self._connection.execute(sa.insert(table).from_select(names, piece))
            progress(batch.table, high - low + 1)

    def _ingest(self, table: str, rows: pa.Table) -> None:
        columns = [Column("profile_id", Unit.ID, "")]
        ids = build_table(columns, {"profile_id": np.full(rows.num_rows, self._profile_id)})
        self._connection.ingest(table, rows.append_column("profile_id", ids.column(0)))

    def _last_id(self, name: str) -> int:
        table = schema.metadata.tables[name]
        return self._connection.number(sa.select(sa.func.coalesce(sa.func.max(table.c.id), 0)))
