"""A recording read in place: a store in memory whose event tables are views over the source's file.

Small tables are filled as in an import; rows of events never move. Queries cannot tell the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.notes import merged
from nsysconv.report import MISSING
from nsysconv.store.connection import Connection, from_rows
from nsysconv.store.read import Columns, Extent, Store, pieces_of
from nsysconv.store.recording import SOURCE, Batch, Batches, Recording, SourceRows, filter_batches
from nsysconv.store.sqlite import page_reader
from nsysconv.store.sqlite.connection import (
    DamagedError,
    SqliteConnection,
    create_schema,
    schema_version,
    shared_descriptor,
    view_statements,
)
from nsysconv.store.sqlite.writer import SqliteWriter
from nsysconv.store.write import Origin, note_row
from nsysconv.units import Unit

_ONLY_PROFILE = 1


_TIMES = ("start_ns", "dur_ns")
_NO_INTEGERS = (Unit.TEXT, Unit.REAL)


class NotInPlace(Exception):  # noqa: N818 - says to take the other way
    """The source is no SQLite file, or its rows are not numbered as reading in place asks: import it."""


@contextmanager
def in_place(recording: Recording, origin: Origin) -> Iterator[Store]:
    """A store of one profile over a recording of a SQLite source. Nothing is written anywhere.

    Raises NotInPlace where the rows have to be copied to be read.
    """
    with _AttachedStore(recording, origin) as store:
        yield store


class _AttachedStore(Store):
    """Every connection has a memory database of its own, in which temporary views lie over the source.

    The views bear the names of the event tables and hide the empty tables behind them. Only the first
    connection's small tables are filled; the others read nothing but events.
    """

    def __init__(self, recording: Recording, origin: Origin) -> None:
        if recording.sqlite_source is None:
            raise NotInPlace
        self._source = recording.sqlite_source
        self._named = Path(origin.path)  # what is read may be a copy of it
        self._rows: dict[str, list[SourceRows]] = {}
        self._careful: set[str] = set()
        self._count: dict[str, int] = {}
        self._settled: set[str] = set()
        self._connection: ViewsConnection
        super().__init__(lambda: ViewsConnection(self._named))
        create_schema(self._connection)
        small = replace(recording, batches=self._small_batches(recording), sqlite_source=None)
        SqliteWriter(self._connection).add([small], lambda: origin, lambda table, rows: None)
        if any(batch.sparse for batches in self._rows.values() for batch in batches):
            self.close()
            raise NotInPlace
        self._write_extents()
        self._connect = self._connect_to_views
        self._lay_views(self._connection)
        for name, statement in view_statements().items():
            self._connection.execute(f"CREATE TEMP VIEW {name} AS {statement}")
        for table in self._rows:
            if table in self._summary.suspects:
                self._be_careful(table)

    def _small_batches(self, recording: Recording) -> Batches:
        self._summary = yield from filter_batches(recording.batches, self._is_small)
        return self._summary

    def _is_small(self, batch: Batch) -> bool:
        if isinstance(batch, SourceRows):
            self._rows.setdefault(batch.table, []).append(batch)
        return not isinstance(batch, SourceRows)

    def _write_extents(self) -> None:
        for table, batches in self._rows.items():
            last = sum(batch.last - batch.first + 1 for batch in batches)
            self._connection.execute(
                sa.insert(schema.extent).values(
                    profile_id=_ONLY_PROFILE,
                    table_name=table,
                    first_id=1,
                    last_id=last,
                    row_count=last,
                    **self._summary.constants.get(table, {}),
                )
            )

    def constants(self, profile_id: int, table: str) -> Mapping[str, int]:
        """As for any store; null is known of what the source has no column for."""
        return {**self._never_recorded(table), **super().constants(profile_id, table)}

    def _never_recorded(self, table: str) -> Mapping[str, int]:
        batches = self._rows.get(table, [])
        held = {column.name for batch in batches for column in batch.select.selected_columns}
        names = schema.event_columns(schema.metadata.tables[table]) if batches else ()
        columns = (schema.metadata.tables[table].c[name] for name in names if name not in held)
        return {
            column.name: MISSING for column in columns if column.info["unit"] not in _NO_INTEGERS
        }

    def _connect_to_views(self) -> ViewsConnection:
        connection = ViewsConnection(self._named)
        self._lay_views(connection)
        return connection

    def _lay_views(self, connection: ViewsConnection) -> None:
        connection.attach(self._source)
        for table, batches in self._rows.items():
            connection.lay(table, batches, _ONLY_PROFILE)

    def row_count(self, profile_id: int, table: str) -> int:
        """Rows of the profile: as many as were read, because a view may filter its source.

        Those with impossible times are none of them, and late_notes tells: reports leave them out, too.
        """
        if table not in self._rows:
            return 0
        if table not in self._count:
            self.read_columns(profile_id, table, _TIMES)
        return self._count[table]

    def read_columns(self, profile_id: int, table: str, names: Sequence[str]) -> Columns:
        """As for any store. Rows that the schema does not admit are left out, with notes."""
        # Times are read with whatever is read first: they decide which rows there are.
        names = list(dict.fromkeys((*names, *_TIMES))) if table not in self._count else names
        names = [name for name in names if name in schema.metadata.tables[table].c]
        try:
            columns = self._columns(profile_id, table, names)
            if _admitted(columns):
                return columns
        except InputError:
            if table in self._careful:
                raise
        if table in self._careful:
            return columns
        self._be_careful(table)
        return self._columns(profile_id, table, names)

    def _columns(self, profile_id: int, table: str, names: Sequence[str]) -> Columns:
        """Columns of the rows that there are. Raises DamagedError where there are others each time."""
        columns = super().read_columns(profile_id, table, names)
        for values in columns.values():
            if len(values) != self._count.setdefault(table, len(values)):
                raise self._damaged()
        return columns

    def _damaged(self) -> DamagedError:
        return DamagedError(
            "the file is damaged: which rows a table has depends on the way they are read",
            where=str(self._named),
            hint="Export or copy it again.",
        )

    def batches(
        self, profile_id: int, table: str, rows: int, names: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """As for any store: what was left out is in the table of notes once events were read."""
        self._settle(table)
        yield from super().batches(profile_id, table, rows, names)
        if table == schema.note.name and self.late_notes:
            yield from_rows(schema.note, list(self._late_rows()))

    def distinct(self, profile_id: int, table: str, names: Sequence[str]) -> dict[str, set[int]]:
        """As for any store."""
        self._settle(table)
        return super().distinct(profile_id, table, names)

    def _settle(self, table: str) -> None:
        """Finds out which rows there are: once some have been handed on it would be too late."""
        if table in self._rows and table not in self._settled:
            self._settled.add(table)
            if table not in self._careful and not self._is_sound(table):
                self._be_careful(table)

    def _is_sound(self, table: str) -> bool:
        """Whether the schema admits all rows of a table."""
        pieces = pieces_of(self.extents(_ONLY_PROFILE)[table])
        sound = [False] * len(pieces)

        def look(part: int, connection: Connection) -> None:
            sound[part] = is_sound(connection, table, pieces[part])

        self._in_threads(look, len(pieces))
        return all(sound)

    def _late_rows(self) -> Iterator[dict[str, object]]:
        count = len(self.rows(sa.select(schema.note.c.id)))
        for number, note in enumerate(self.late_notes, count + 1):
            yield {"id": number, "profile_id": _ONLY_PROFILE, **note_row(note)}

    def _be_careful(self, table: str) -> None:
        guarded = [batch.guarded() for batch in self._rows[table]]
        notes = [note for _, found in guarded for note in found]
        with self._lock:
            self._careful.add(table)
            self._count.pop(table, None)
            self._rows[table] = [rows for rows, _ in guarded]
            self.late_notes = merged([*self.late_notes, *notes])
            self._connection.lay(table, self._rows[table], _ONLY_PROFILE)


def _admitted(columns: Columns) -> bool:
    """Whether the times obey the checks that the schema makes on every stored row."""
    limit = schema.TIME_LIMIT_NS
    if {"start_ns", "dur_ns"} <= columns.keys() and (
        ((columns["start_ns"] == 0) & (columns["dur_ns"] == 0)).any()
    ):
        return False
    for name, low in (("start_ns", -limit), ("dur_ns", 0)):
        values = columns.get(name)
        if values is not None and len(values):
            known = values[values != MISSING] if values.min() == MISSING else values
            if len(known) and (int(known.min()) < low or int(known.max()) > limit):
                return False
    return True


class ViewsConnection(SqliteConnection):
    """A database in memory, and views over a source that is attached to it."""

    def __init__(self, place: Path) -> None:
        """Errors name `place`."""
        self._own: int | None = None
        super().__init__(":memory:", str(place))
        self._views: dict[str, list[SourceRows]] = {}

    def attach(self, path: Path) -> None:
        """Attaches the source."""
        if schema_version(path) is None:
            # Of a file that is no store nobody holds locks, which closing it would drop.
            with suppress(OSError):
                self._own = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        descriptor = shared_descriptor(path) if self._own is None else self._own
        self.attach_source(path, SOURCE)
        self.read_pages(descriptor, path)

    def close(self) -> None:
        """As for any connection."""
        super().close()
        if self._own is not None:
            os.close(self._own)
            self._own = None

    def lay(self, table: str, batches: Sequence[SourceRows], profile_id: int) -> None:
        """Makes a temporary view that bears an event table's name and hides the table, if there is one.

        Its rows are those of the batches, one after the other, with ids from 1.
        """
        self.execute(f'DROP VIEW IF EXISTS temp."{table}"')
        parts = []
        for batch, shift in _shifted(batches):
            row_id = batch.row_id + sa.literal_column(str(shift))
            mapped = {column.name: column for column in batch.select.selected_columns}
            parts.append(
                batch.select.with_only_columns(
                    (batch.row_id if shift == 0 else row_id).label("id"),
                    sa.literal_column(str(profile_id)).label("profile_id"),
                    *(
                        mapped.get(name, sa.null().label(name))
                        for name in schema.event_columns(schema.metadata.tables[table])
                    ),
                )
            )
        statement = parts[0] if len(parts) == 1 else sa.union_all(*parts)
        self.execute(f'CREATE TEMP VIEW "{table}" AS {self.compiled(statement)}')
        self._views[table] = list(batches)

    def paged(
        self, columns: Sequence[sa.Column[Any]], first_id: int, last_id: int
    ) -> Iterator[tuple[int, list[np.ndarray]]]:
        """As for any SQLite file."""
        for batch, shift in _shifted(self._views[columns[0].table.name]):
            first = max(first_id - shift, batch.first)
            last = min(last_id - shift, batch.last)
            if first > last:
                continue
            for next_row, values in self._mapped(batch, shift, columns, first, last):
                first = next_row
                yield next_row + shift, values
            if first <= last:
                return  # SQLite has to go on here

    def _mapped(
        self,
        batch: SourceRows,
        shift: int,
        columns: Sequence[sa.Column[Any]],
        first: int,
        last: int,
    ) -> Iterator[tuple[int, list[np.ndarray]]]:
        """Yield columns of the source's rows numbered `first` to `last`, worked out as the batch selects
        them, with the number of the row that follows. `shift` is added to ids. Ends early where SQLite
        has to go on.
        """
        mapped = {column.name: column for column in batch.select.selected_columns}
        wanted = [None if c.primary_key else mapped.get(c.name, sa.null()) for c in columns]
        where = batch.select.whereclause
        names = page_reader.columns_read(part for part in (*wanted, where) if part is not None)
        sources = batch.select.get_final_froms()
        evaluate = page_reader.evaluator(wanted, where)
        if evaluate is None or len(sources) != 1 or not isinstance(sources[0], sa.TableClause):
            return
        stored = self._stored(SOURCE, sources[0].name, [None, *names], first, last)
        with closing(stored) as rows:
            for next_row, (ids, *others) in rows:
                values = evaluate(ids + shift, dict(zip(names, others, strict=True)))
                if values is None:
                    return
                # What is not kept by whoever takes the rows makes room for the next.
                del ids, others
                yield next_row, values
                del values


def _shifted(batches: Sequence[SourceRows]) -> Iterator[tuple[SourceRows, int]]:
    """The batches, and what has to be added to the row numbers of each: ids begin at 1."""
    before = 0
    for batch in batches:
        yield batch, before - batch.first + 1
        before += batch.last - batch.first + 1


def is_sound(connection: Connection, table: str, part: Extent) -> bool:
    """Whether the schema admits all rows of such a view that have these ids."""
    source = schema.metadata.tables[table]
    wrong: list[sa.ColumnElement[bool]] = []
    for column in source.columns:
        if column.info["unit"] is not Unit.TEXT:
            types = ("integer", "real")[: 2 if column.info["unit"] is Unit.REAL else 1]
            # Null is asked for where nothing else is left: one comparison less for most cells.
            wrong.append(sa.func.typeof(column).not_in(types) & column.is_not(None))
    checks = (c for c in source.constraints if isinstance(c, sa.CheckConstraint))
    wrong += [sa.not_(check.sqltext) for check in checks]
    here = source.c.id.between(part.first_id, part.last_id)
    return not connection.rows(sa.select(source.c.id).where(here, sa.or_(*wrong)).limit(1))
