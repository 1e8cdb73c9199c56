"""Rows into a PostgreSQL store.

An import is one connection and one transaction. Many run at once: rows of events come in by COPY and are
numbered by who writes them, and only what makes them a profile is written by one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.notes import Note
from nsysconv.report import Column, build_table
from nsysconv.store.batches import ahead, arrow_type, converted, selected, without_nul
from nsysconv.store.database import Appeared
from nsysconv.store.places import Url
from nsysconv.store.postgresql.connection import PostgresqlConnection
from nsysconv.store.postgresql.tables import LOCK, make_or_check
from nsysconv.store.recording import Batch, SourceRows
from nsysconv.store.sqlite.source_views import ViewsConnection
from nsysconv.store.write import ProfileRows, Progress, Span, Writer
from nsysconv.units import Unit

# Rows taken in by one COPY: few enough for little memory, progress and Ctrl-C.
_ROWS_AT_ONCE = 1 << 16
# Rows read by one batch: small ones stay in the cache.
_ROWS_READ = 1 << 11


class PostgresqlWriter(Writer):
    """Writes to a PostgreSQL store, as others may at the same time."""

    _connection: PostgresqlConnection

    def __init__(self, connection: PostgresqlConnection) -> None:
        super().__init__(connection)
        self._source: ViewsConnection | None = None

    @contextmanager
    def _attached(self, source: Path) -> Iterator[None]:
        with ViewsConnection(source) as self._source:
            self._source.attach(source)
            yield
        self._source = None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._connection.roll_back()
            raise
        self._connection.execute("COMMIT")

    def _profile_ids(self) -> Iterator[int]:
        while True:
            yield self._connection.number("SELECT nextval(pg_get_serial_sequence('profile', 'id'))")

    def _rows_of(self, profile_id: int) -> ProfileRows:
        return _PostgresqlRows(self._connection, profile_id, self._source)

    def _alone(self) -> None:
        self._connection.rows(LOCK)


class _PostgresqlRows(ProfileRows):
    def __init__(
        self, connection: PostgresqlConnection, profile_id: int, source: ViewsConnection | None
    ) -> None:
        self._connection = connection
        self._profile_id = profile_id
        self._source = source
        self._counts = dict.fromkeys(schema.EVENT_TABLES, 0)

    def add(self, batch: Batch, progress: Progress) -> list[Note]:
        """As for any database."""
        if isinstance(batch, SourceRows):
            return self._copy(batch, progress)
        if batch.count:
            self._ingest(batch.table, batch.rows)
        if batch.done:
            progress(batch.done, batch.count)
        return []

    def spans(self) -> dict[str, Span]:
        """As for any database."""
        return {name: Span(1, count) for name, count in self._counts.items() if count}

    def _copy(self, batch: SourceRows, progress: Progress) -> list[Note]:
        """Rows of a SQLite source. Only where one is refused are all of them looked at."""
        count = self._counts[batch.table]
        self._connection.execute("SAVEPOINT batch")
        try:
            self._stream(batch, progress)
            notes = list[Note]()
        except InputError:
            # A wrong type, which is noticed here, or an impossible time, which the database notices.
            self._connection.execute("ROLLBACK TO batch")
            self._counts[batch.table] = count
            careful, notes = batch.guarded()
            self._stream(careful, lambda table, rows: None)
        self._connection.execute("RELEASE batch")
        return notes

    def _stream(self, batch: SourceRows, progress: Progress) -> None:
        """The rows, read through a view that looks like the table."""
        assert self._source is not None
        table, columns = schema.metadata.tables[batch.table], schema.event_columns
        self._source.lay(table.name, [batch], self._profile_id)
        parts = self._source.batches(selected(table.columns), _ROWS_READ)
        with closing(ahead(_gathered(parts))) as several:
            for some in several:
                rows = pa.Table.from_batches([converted(part, table.columns) for part in some])
                self._ingest(table.name, rows.select(columns(table)))
                progress(table.name, rows.num_rows)

    def _ingest(self, name: str, rows: pa.Table) -> None:
        table, count = schema.metadata.tables[name], rows.num_rows
        numbers = {"profile_id": np.full(count, self._profile_id)}
        if name in self._counts:
            first = self._counts[name] + 1
            numbers["id"] = np.arange(first, first + count)
            self._counts[name] += count
        assigned = build_table([Column(key, Unit.ID, "") for key in numbers], numbers)
        columns = [
            # COPY takes the bytes as they are: types have to be those of the table.
            without_nul(column.cast(arrow_type(table.c[key])))
            for key, column in zip(rows.column_names, rows.columns, strict=True)
        ]
        self._connection.ingest(
            name,
            pa.Table.from_arrays(
                [*columns, *assigned.columns], names=[*rows.column_names, *assigned.column_names]
            ),
        )


def _gathered(parts: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """As many batches as are taken in at once."""
    while several := list(islice(parts, _ROWS_AT_ONCE // _ROWS_READ)):
        yield several


@contextmanager
def writing(url: Url, appeared: Appeared | None) -> Iterator[PostgresqlWriter]:
    """A writer on the store at an address, as `write.writing`. What appears there is written to."""
    with PostgresqlConnection(url) as connection:
        make_or_check(connection, url)
        yield PostgresqlWriter(connection)
