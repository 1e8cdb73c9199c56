"""Views over a source's SQLite file that look like our event tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from nsysconv import schema
from nsysconv.store.connection import Connection
from nsysconv.store.read import Extent
from nsysconv.store.recording import SOURCE, SourceRows
from nsysconv.store.sqlite import descriptors
from nsysconv.store.sqlite.connection import SqliteConnection, schema_version
from nsysconv.store.sqlite.expressions import Test, Value, Work, names_in, truth, value
from nsysconv.store.sqlite.records import NotPlainError, alike
from nsysconv.units import Unit


class ViewsConnection(SqliteConnection):
    """A database in memory, and views over a source that is attached to it."""

    def __init__(self, place: Path, batch_bytes: int | None = None) -> None:
        """Errors name `place`; `batch_bytes` as for `Pages`."""
        self._own: int | None = None
        super().__init__(":memory:", str(place))
        self._batch_bytes = batch_bytes
        self._views: dict[str, list[SourceRows]] = {}

    def attach(self, path: Path) -> None:
        """Attaches the source."""
        if schema_version(path) is None:
            # Of a file that is no store nobody holds locks, which closing it would drop.
            with suppress(OSError):
                self._own = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        descriptor = descriptors.descriptor(path) if self._own is None else self._own
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
            if first <= last:
                yield from self.mapped(batch, shift, columns, first, last)

    def mapped(
        self,
        batch: SourceRows,
        shift: int,
        columns: Sequence[sa.Column[Any]],
        first: int,
        last: int,
    ) -> Iterator[tuple[int, list[np.ndarray]]]:
        """The source's rows with these numbers as the batch maps them, from pages alone: their columns,
        some rows at a time, each time with the number of the last one that was read. `shift` is added to
        numbers. Raises NotPlainError: SQLite has to read on.
        """
        mapped = {column.name: column for column in batch.select.selected_columns}
        wanted = [None if c.primary_key else mapped.get(c.name, sa.null()) for c in columns]
        where = batch.select.whereclause
        read = names_in(part for part in (*wanted, where) if part is not None)
        sources = batch.select.get_final_froms()
        if len(sources) != 1 or not isinstance(sources[0], sa.TableClause):
            raise NotPlainError
        table = sources[0].name
        work = [None if part is None else value(part) for part in wanted]
        kept = None if where is None else truth(where)
        for row, (ids, *others) in self._stored(SOURCE, table, [None, *read], first, last):
            found = dict(zip(read, others, strict=True))
            ours = _worked_out(work, kept, ids + shift, found)
            # What is not kept by whoever takes the rows makes room for the next.
            del ids, others, found
            yield row + shift, ours
            del ours


def _worked_out(
    work: Sequence[Work | None], kept: Test | None, ids: np.ndarray, found: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """What comes of columns in the rows that are kept; no work stands for the ids."""
    every = [ids if each is None else _of_length(each(found), len(ids)) for each in work]
    rows = True if kept is None else kept(found)
    if not np.all(rows):
        every = [values[np.broadcast_to(rows, ids.shape)] for values in every]
    return every


def _of_length(found: Value, count: int) -> np.ndarray:
    return found if isinstance(found, np.ndarray) else alike(int(found), count)


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
