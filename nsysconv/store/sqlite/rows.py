"""The rows of one new profile on their way into a SQLite store: through SQLite, or as pages."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.notes import Note
from nsysconv.report import MISSING, Column, build_table, values_of
from nsysconv.store.batches import arrow_type
from nsysconv.store.recording import ArrayRows, ArrowRows, Batch, SourceRows
from nsysconv.store.sqlite.admission import admits
from nsysconv.store.sqlite.connection import SqliteConnection
from nsysconv.store.sqlite.growth import Growth
from nsysconv.store.sqlite.records import NotPlainError, alike
from nsysconv.store.sqlite.source_views import ViewsConnection
from nsysconv.store.write import ProfileRows, Progress, Span
from nsysconv.units import Unit

# What SQLite says of a row that the table does not admit.
_REFUSED = ("constraint failed", "cannot store")

# Source rows copied by one statement: half a second, so that Ctrl-C and progress are not kept waiting.
_ROWS_AT_ONCE = 500_000

# Fewer rows are not worth pages of their own.
_ROWS_WORTH_PAGES = 4096

# Columns of these hold other things than whole numbers.
_NO_WHOLE = (Unit.TEXT, Unit.REAL)

# So many rows are kept in memory until pages stand: names may be as many as events.
_MOST_KEPT = 100_000


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
        if batch.sparse():
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


class GrownRows(ProfileRows):
    """Rows of a new store. Those of large tables become pages as they come; when all of these stand, or
    too many others wait, SQLite writes the rest: small tables, what pages cannot hold, and what the
    schema does not admit.
    """

    def __init__(
        self,
        others: SqliteRows,
        profile_id: int,
        growth: Growth,
        source: ViewsConnection | None,
        begin: Callable[[], None],
    ) -> None:
        """`others` takes what is left to SQLite, after a call of `begin`; `source` holds SourceRows."""
        self._others = others
        self._profile_id = profile_id
        self._growth = growth
        self._source = source
        self._begin = begin
        self._waiting: dict[str, list[_Rows]] = {}
        self._left: list[tuple[Batch, Progress]] = []
        self._kept = 0  # rows of those left that are in memory
        self._stands = False

    def add(self, batch: Batch, progress: Progress) -> list[Note]:
        """As for any database."""
        if self._stands:
            self._growth.leave(batch.table)
            return self._others.add(batch, progress)
        if isinstance(batch, SourceRows):
            if not self._copied(batch, progress):
                self._leave(batch, progress)
            return []
        if batch.done:
            progress(batch.done, batch.count)
        self._take(replace(batch, done=""))
        return self.finish() if self._kept > _MOST_KEPT else []

    def finish(self) -> list[Note]:
        """As for any database. From now on SQLite writes all rows."""
        if self._stands:
            return []
        self._stands = True
        for table, batches in self._waiting.items():
            # Where the table has pages, a few rows more are welcome.
            if self._growth.rows(table):
                self._grow_by(batches)
            else:
                self._leave_all(_joined(batches))
        self._growth.graft()
        self._begin()
        left, self._left = self._left, []
        return [note for each in left for note in self._others.add(*each)]

    def spans(self) -> dict[str, Span]:
        """As for any database."""
        return self._others.spans()

    def _leave(self, batch: Batch, progress: Progress) -> None:
        self._growth.leave(batch.table)
        self._left.append((batch, progress))
        self._kept += 0 if isinstance(batch, SourceRows) else batch.count

    def _leave_all(self, batches: Iterable[_Rows]) -> None:
        for batch in batches:
            self._leave(batch, _silent)

    def _take(self, batch: _Rows) -> None:
        """Keeps rows until they are worth pages."""
        if not self._growth.takes(batch.table):
            self._leave(batch, _silent)
            return
        waiting = self._waiting.setdefault(batch.table, [])
        waiting.append(batch)
        if sum(one.count for one in waiting) >= _ROWS_WORTH_PAGES:
            del self._waiting[batch.table]
            self._grow_by(waiting)

    def _grow_by(self, batches: Sequence[_Rows]) -> None:
        table = schema.metadata.tables[batches[0].table]
        try:
            self._grow(table, [self._in_order(table, _columns(table, one)) for one in batches])
        except NotPlainError:
            self._leave_all(batches)

    def _copied(self, batch: SourceRows, progress: Progress) -> bool:
        """Whether the rows of a SQLite source became pages: all of them, or none."""
        table = schema.metadata.tables[batch.table]
        if self._source is None or not self._growth.takes(table.name):
            return False
        if batch.last - batch.first < _ROWS_WORTH_PAGES:
            return False
        mark, parts, done = self._growth.mark(), list[_Part](), 0
        try:
            with closing(self._read(table, batch, self._source)) as several:
                for part in several:
                    parts.append(part)
                    if sum(len(part[0]) for part in parts) >= _ROWS_WORTH_PAGES:
                        self._grow(table, parts)
                        parts = []
                    done += len(part[0])
                    progress(table.name, len(part[0]))
                    del part  # makes room for the next
            self._grow(table, parts)
        except NotPlainError:
            self._growth.cut(mark)
            # It begins anew.
            progress(table.name, -done)
            return False
        return True

    def _read(
        self, table: sa.Table, batch: SourceRows, source: ViewsConnection
    ) -> Generator[_Part]:
        """The source's rows, some at a time."""
        mapped = {column.name for column in batch.select.selected_columns}
        wanted = [column for column in table.columns if column.name in mapped]
        if any(column.info["unit"] in _NO_WHOLE for column in wanted):
            raise NotPlainError
        for _, found in source.mapped(batch, 0, wanted, batch.first, batch.last):
            part = self._in_order(table, dict(zip((c.name for c in wanted), found, strict=True)))
            yield part
            del found, part

    def _in_order(self, table: sa.Table, columns: Mapping[str, np.ndarray]) -> _Part:
        """A value for each column of the table; null where nothing is known."""
        count = len(next(iter(columns.values())))
        known = {**columns, "profile_id": alike(self._profile_id, count)}
        null = alike(MISSING, count)
        return [known.get(column.name, null) for column in table.columns]

    def _grow(self, table: sa.Table, parts: Sequence[_Part]) -> None:
        """Makes rows pages. Raises NotPlainError where that cannot be."""
        if not any(len(part[0]) for part in parts):
            return
        several = zip(*parts, strict=True)
        columns = parts[0] if len(parts) == 1 else [np.concatenate(each) for each in several]
        if not admits(table, dict(zip(table.columns.keys(), columns, strict=True))):
            raise NotPlainError
        self._growth.add(table.name, columns)


_Rows = ArrowRows | ArrayRows
_Part = list[np.ndarray]
"""Values of consecutive rows, an array for each column of their table."""


def _columns(table: sa.Table, batch: _Rows) -> Mapping[str, np.ndarray]:
    """Rows as numpy has them. Raises NotPlainError where they are not the table's own numbers."""
    if isinstance(batch, ArrayRows):
        if any(
            name not in table.c or table.c[name].info["unit"] in _NO_WHOLE for name in batch.columns
        ):
            raise NotPlainError
        return {name: np.asarray(values, np.int64) for name, values in batch.columns.items()}
    rows = batch.rows
    if not set(rows.column_names) <= set(table.c.keys()):
        raise NotPlainError
    return {name: _values(rows.column(name), table.c[name]) for name in rows.column_names}


def _values(values: pa.ChunkedArray, column: sa.Column[Any]) -> np.ndarray:
    if values.null_count == len(values):
        return alike(MISSING, len(values))
    if values.type != arrow_type(column) or values.type == pa.string():
        raise NotPlainError
    null = np.nan if values.type == pa.float64() else MISSING
    return np.concatenate([values_of(chunk, null) for chunk in values.chunks])


def _silent(table: str, rows: int) -> None:
    """Progress of what was told before."""


def _joined(batches: Iterable[_Rows]) -> Iterator[_Rows]:
    """Batches of one table with those that follow each other in one: for each, SQLite is asked anew."""
    for _, same in groupby(batches, key=_names_and_types):
        several = list(same)
        table = several[0].table
        columns = [batch.columns for batch in several if isinstance(batch, ArrayRows)]
        if columns:
            joined = {name: np.concatenate([c[name] for c in columns]) for name in columns[0]}
            yield ArrayRows(table, joined)
        else:
            rows = pa.concat_tables([batch.rows for batch in several]).combine_chunks()
            yield ArrowRows(table, rows)


def _names_and_types(batch: _Rows) -> object:
    return tuple(batch.columns) if isinstance(batch, ArrayRows) else batch.rows.schema
