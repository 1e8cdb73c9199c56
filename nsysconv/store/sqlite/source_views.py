"""Views over a source's SQLite file that look like our event tables."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.store.connection import Connection
from nsysconv.store.read import Extent
from nsysconv.store.recording import SourceRows
from nsysconv.store.sqlite.connection import SqliteConnection
from nsysconv.units import Unit


def lay(
    connection: SqliteConnection, table: str, batches: Sequence[SourceRows], profile_id: int
) -> None:
    """Makes a temporary view that bears an event table's name and hides the table, if there is one.

    Its rows are those of the batches, one after the other, with ids from 1.
    """
    connection.execute(f'DROP VIEW IF EXISTS temp."{table}"')
    parts, before = [], 0
    for batch in batches:
        # Ids begin at 1, whatever the source's row numbers are.
        shift = before - batch.first + 1
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
        before += batch.last - batch.first + 1
    statement = parts[0] if len(parts) == 1 else sa.union_all(*parts)
    connection.execute(f'CREATE TEMP VIEW "{table}" AS {connection.compiled(statement)}')


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
    wrong += [sa.literal_column(f"NOT ({check.sqltext})", sa.Boolean) for check in checks]
    here = source.c.id.between(part.first_id, part.last_id)
    return not connection.rows(sa.select(source.c.id).where(here, sa.or_(*wrong)).limit(1))
