"""Views over a source's SQLite file that look like our event tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from nsysconv import schema
from nsysconv.store.connection import Connection
from nsysconv.store.read import Extent
from nsysconv.store.recording import SOURCE, SourceRows
from nsysconv.store.sqlite import page_reader
from nsysconv.store.sqlite.connection import SqliteConnection, schema_version
from nsysconv.units import Unit


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
        descriptor = page_reader.shared_descriptor(path) if self._own is None else self._own
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
