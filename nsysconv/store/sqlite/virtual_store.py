"""A virtual store: one recording of a SQLite source, read in place.

A database in memory has the small tables, filled as by an import; its event tables are temporary views
over the source's file, so that rows of events never move. Events that an importer had to work out, which
are few, are copied into each connection's memory. Queries cannot see the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql import visitors

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.notes import Note, merged
from nsysconv.report import MISSING, Unit
from nsysconv.store.connection import Connection, NumberedTexts, Row
from nsysconv.store.read import Columns, Extent, Profile, Store, split_extent
from nsysconv.store.recording import (
    SOURCE,
    Batch,
    Recording,
    SourceRows,
    Summary,
    cells_of,
    take_batches,
    with_profile_id,
)
from nsysconv.store.runs import RunAssignment, collect_rank_info
from nsysconv.store.sqlite import page_reader
from nsysconv.store.sqlite.connection import (
    DamagedError,
    SqliteConnection,
    as_text,
    create_schema,
    schema_version,
    shared_descriptor,
)
from nsysconv.store.write import Origin, add_extents, add_profile, note_row

_PROFILE_ID = 1
_TIMES = ("start_ns", "dur_ns")
_NOT_INTEGERS = (Unit.TEXT, Unit.REAL)


@contextmanager
def open_virtual_store(recording: Recording, origin: Origin) -> Iterator[Store | None]:
    """Open a store of one profile over a recording of a SQLite source. Nothing is written anywhere.

    None where the rows have to be imported to be read: the source is no SQLite file, it holds other
    recordings, too, or its row numbers have large holes.
    """
    if recording.sqlite_source is None or recording.one_of_several:
        yield None
        return
    store = _VirtualStore(recording, recording.sqlite_source, origin)
    with store:
        yield None if store.is_sparse else store


class _VirtualStore(Store):
    """Every connection has a memory database of its own, in which temporary views lie over the source.

    The views have the names of the event tables and hide the empty tables behind them. Only the first
    connection's small tables are filled; the others read nothing but events.
    """

    _connection: ViewsConnection

    def __init__(self, recording: Recording, source: Path, origin: Origin) -> None:
        self._source = source
        self._shown_path = Path(origin.path)  # what is read may be a copy of it
        self.source_rows: dict[str, list[SourceRows]] = {}
        self._made: dict[str, pa.Table] = {}  # events that are in no table of the source
        super().__init__(lambda: ViewsConnection(self._shown_path))
        # Nobody queries it in SQL: that is done on a copy, and views cost a sixth of opening a file.
        create_schema(self._connection, with_views=False)
        summary = self._fill_small_tables(recording, origin)
        self.is_sparse = any(
            rows.sparse for batches in self.source_rows.values() for rows in batches
        )
        if self.is_sparse:
            return
        extents = {
            table: Extent(1, sum(batch.last - batch.first + 1 for batch in batches))
            for table, batches in self.source_rows.items()
        }
        extents |= {table: Extent(1, rows.num_rows) for table, rows in self._made.items()}
        add_extents(self._connection, _PROFILE_ID, extents, summary.constants)
        self.connect = self._connect_to_views
        self._lay_views(self._connection)
        self._profile = _VirtualProfile(self, self.rows(sa.select(schema.profile))[0])
        for table in self.source_rows:
            if table in summary.suspects:
                self._profile.guard(table)

    def profiles(self) -> list[Profile]:
        return [self._profile]

    def profile(self, profile_id: int) -> Profile:
        return self._profile

    def _fill_small_tables(self, recording: Recording, origin: Origin) -> Summary:
        processes: list[dict[str, Any]] = []

        def take(batch: Batch) -> None:
            if isinstance(batch, SourceRows):
                self.source_rows.setdefault(batch.table, []).append(batch)
            elif batch.count:
                rows = with_profile_id(batch.rows, _PROFILE_ID)
                self._connection.ingest(batch.table, rows)
                if batch.table in schema.EVENT_TABLES:
                    made = self._made.get(batch.table)
                    self._made[batch.table] = (
                        rows if made is None else pa.concat_tables([made, rows])
                    )
                if batch.table == schema.process.name:
                    processes.extend(batch.rows.to_pylist())

        # All statements are in one transaction; otherwise each would be its own.
        with self._connection.transaction():
            summary = take_batches(recording.batches, take)
            summary = replace(summary, notes=merged(summary.notes))
            run = RunAssignment(None, collect_rank_info(origin.source, processes).job)
            add_profile(self._connection, _PROFILE_ID, recording.possible, summary, origin, run)
        return summary

    def _connect_to_views(self) -> ViewsConnection:
        connection = ViewsConnection(self._shown_path)
        for table, rows in self._made.items():
            connection.execute(connection.compiled(CreateTable(schema.metadata.tables[table])))
            connection.ingest(table, rows)
        self._lay_views(connection)
        return connection

    def _lay_views(self, connection: ViewsConnection) -> None:
        connection.attach(self._source)
        for table, batches in self.source_rows.items():
            connection.lay(table, batches, _PROFILE_ID)

    def lay(self, table: str, batches: list[SourceRows]) -> None:
        self.source_rows[table] = batches
        self._connection.lay(table, batches, _PROFILE_ID)


class _VirtualProfile(Profile):
    HAS_ALL_ROWS = False
    _store: _VirtualStore

    def __init__(self, store: _VirtualStore, attributes: Row) -> None:
        super().__init__(store, attributes)
        self._guarded: set[str] = set()  # tables whose views leave out rows
        self._late: dict[str, list[Note]] = {}  # what these leave out, by table
        self._count: dict[str, int] = {}
        self._checked: set[str] = set()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        yield  # no other process can see this store

    def constants(self, table: str) -> Mapping[str, int]:
        # Null is the constant of a column that the source does not have.
        batches = self._store.source_rows.get(table, [])
        held = {column.name for batch in batches for column in batch.select.selected_columns}
        columns = schema.metadata.tables[table].c
        names = schema.event_columns(columns[0].table) if batches else ()
        never_recorded = {
            name: MISSING
            for name in names
            if name not in held and columns[name].info["unit"] not in _NOT_INTEGERS
        }
        return {**never_recorded, **super().constants(table)}

    def row_count(self, table: str) -> int:
        # As many as were read, because a view may filter its source. Rows with impossible times do not
        # count, and are in late_notes: reports leave them out, too.
        if table not in self._store.source_rows:
            return super().row_count(table)
        if table not in self._count:
            self._read_columns(table, _TIMES)
        return self._count[table]

    def _read_columns(self, table: str, names: Sequence[str]) -> Columns:
        # Times are read with whatever is read first: they decide which rows there are.
        names = list(dict.fromkeys((*names, *_TIMES))) if table not in self._count else names
        names = [name for name in names if name in schema.metadata.tables[table].c]
        while True:
            is_guarded = table in self._guarded
            try:
                columns = super()._read_columns(table, names)
                for values in columns.values():
                    if len(values) != self._count.setdefault(table, len(values)):
                        raise self._damaged()
                if is_guarded or _are_times_valid(columns):
                    return columns
            except InputError:
                if is_guarded:
                    raise
            self.guard(table)

    def _damaged(self) -> DamagedError:
        return DamagedError(
            "the file is damaged: which rows a table has depends on the way they are read",
            where=self._store.place,
            hint="Export or copy it again.",
        )

    def batches(
        self, table: str, rows: int, names: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        self._check_all_rows(table)
        yield from super().batches(table, rows, names)
        notes = self.notes[len(self._notes) :] if table == schema.note.name else ()
        if notes:
            late = [
                {"id": number, "profile_id": _PROFILE_ID, **note_row(note)}
                for number, note in enumerate(notes, len(self._notes) + 1)
            ]
            cells = [cells_of(column, late) for column in schema.note.columns]
            yield pa.RecordBatch.from_arrays(cells, names=schema.note.columns.keys())

    def distinct(self, table: str, names: Sequence[str]) -> dict[str, set[int]]:
        self._check_all_rows(table)
        return super().distinct(table, names)

    def _check_all_rows(self, table: str) -> None:
        # Which rows there are has to be known before the first of them is handed on.
        if table in self._store.source_rows and table not in self._checked:
            self._checked.add(table)
            pieces = split_extent(self.extents[table])
            if table not in self._guarded and not all(
                self._store.map(partial(_are_rows_valid, schema.metadata.tables[table]), pieces)
            ):
                self.guard(table)

    def guard(self, table: str) -> None:
        guarded = [batch.guarded() for batch in self._store.source_rows[table]]
        notes = [note for _, batch_notes in guarded for note in batch_notes]
        with self._store.lock:
            self._guarded.add(table)
            self._count.pop(table, None)
            self._late[table] = notes
            # The notes are in an order that does not depend on threads, and appear once if two tables
            # are read from one.
            found = (self._late.get(each, ()) for each in self._store.source_rows)
            self.late_notes = merged(note for notes in found for note in notes)
            self._store.lay(table, [rows for rows, _ in guarded])
        done = self._examination
        has_places = done is not None and (table in done.rows or table in done.sizes)
        if has_places or (done is not None and table == "api_call" and len(done.lost)):
            self._examination = None  # its rows have other places now


def _are_times_valid(columns: Columns) -> bool:
    # The same checks as the schema makes on every stored row.
    limit = schema.TIME_LIMIT_NS
    if {"start_ns", "dur_ns"} <= columns.keys() and (
        ((columns["start_ns"] == 0) & (columns["dur_ns"] == 0)).any()
    ):
        return False
    for name, low in (("start_ns", -limit), ("dur_ns", 0)):
        values = columns.get(name)
        if values is not None and len(values):
            times = values[values != MISSING] if values.min() == MISSING else values
            if len(times) and (int(times.min()) < low or int(times.max()) > limit):
                return False
    return True


class ViewsConnection(SqliteConnection):
    """A database in memory, and views over a source that is attached to it."""

    def __init__(self, place: Path) -> None:
        """Make an empty database; errors name `place`."""
        self._own: int | None = None
        super().__init__(":memory:", str(place))
        self._views: dict[str, list[SourceRows]] = {}

    def attach(self, path: Path) -> None:
        """Attach the source."""
        if schema_version(path) is None:
            # A file that is not a store has no locks, which closing a descriptor of its own would drop.
            with suppress(OSError):
                self._own = page_reader.open_bytes(path)
        descriptor = shared_descriptor(path) if self._own is None else self._own
        self.attach_source(path, SOURCE)
        self.read_pages(descriptor, path)

    def close(self) -> None:
        """Close the connection and the source."""
        super().close()
        if self._own is not None:
            os.close(self._own)
            self._own = None

    def lay(self, table: str, batches: Sequence[SourceRows], profile_id: int) -> None:
        """Have a view hide an event table: rows of the batches in turn, with ids from 1."""
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
        self,
        columns: Sequence[sa.Column[Any]],
        first_id: int,
        last_id: int,
        texts: NumberedTexts | None = None,
    ) -> Iterator[tuple[int, list[np.ndarray]]]:
        """Yield columns as any SQLite connection, from the pages of the source."""
        for batch, shift in _shifted(self._views.get(columns[0].table.name, ())):
            first = max(first_id - shift, batch.first)
            last = min(last_id - shift, batch.last)
            if first > last:
                continue
            wanted = _selected(batch, columns)
            for next_row, values in self._mapped(batch, shift, wanted, (first, last), texts):
                first = next_row
                yield next_row + shift, values
            if first <= last:
                return  # SQLite has to go on here

    def _mapped(
        self,
        batch: SourceRows,
        shift: int,
        wanted: Sequence[sa.ColumnElement[Any] | None],
        rows: tuple[int, int],
        texts: NumberedTexts | None,
    ) -> Iterator[tuple[int, list[np.ndarray]]]:
        where = batch.select.whereclause
        names = page_reader.columns_read(part for part in (*wanted, where) if part is not None)
        sources = batch.select.get_final_froms()
        evaluate = page_reader.evaluator(wanted, where)
        if evaluate is None or len(sources) != 1 or not isinstance(sources[0], sa.TableClause):
            return
        with closing(self._stored(SOURCE, sources[0].name, [None, *names], *rows, texts)) as found:
            for next_row, (ids, *others) in found:
                values = evaluate(ids + shift, dict(zip(names, others, strict=True)))
                if values is None:
                    return
                # What is not kept by whoever takes the rows makes room for the next.
                del ids, others
                yield next_row, values
                del values


def _selected(
    batch: SourceRows, columns: Sequence[sa.Column[Any]]
) -> list[sa.ColumnElement[Any] | None]:
    # What the source has for each column, None for the ids. What it casts to a text is read as one from
    # columns that are declared so.
    def uncast(element: Any, **_: object) -> sa.ColumnElement[Any] | None:
        if isinstance(element, sa.Cast) and isinstance(element.clause, sa.ColumnClause):
            return sa.column(as_text(element.clause.name))
        return None

    mapped = {column.name: column for column in batch.select.selected_columns}
    wanted = [None if c.primary_key else mapped.get(c.name, sa.null()) for c in columns]
    return [
        visitors.replacement_traverse(each, {}, uncast)
        if each is not None and column.info["unit"] is Unit.TEXT
        else each
        for column, each in zip(columns, wanted, strict=True)
    ]


def _shifted(batches: Sequence[SourceRows]) -> Iterator[tuple[SourceRows, int]]:
    # Each result has the number to add to the row numbers, so that ids begin at 1.
    before = 0
    for batch in batches:
        yield batch, before - batch.first + 1
        before += batch.last - batch.first + 1


def _are_rows_valid(source: sa.Table, connection: Connection, piece: Extent) -> bool:
    violations: list[sa.ColumnElement[bool]] = []
    for column in source.columns:
        if column.info["unit"] is not Unit.TEXT:
            types = ("integer", "real")[: 2 if column.info["unit"] is Unit.REAL else 1]
            # Null is asked for where nothing else is left: one comparison less for most cells.
            violations.append(sa.func.typeof(column).not_in(types) & column.is_not(None))
    checks = (c for c in source.constraints if isinstance(c, sa.CheckConstraint))
    violations += [sa.not_(check.sqltext) for check in checks]
    in_piece = source.c.id.between(piece.first_id, piece.last_id)
    return not connection.rows(sa.select(source.c.id).where(in_piece, sa.or_(*violations)).limit(1))
