"""Checksums of what tables hold of a profile: kept at imports, compared later (docs/decisions/0027)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import sqlalchemy as sa

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.report import array_of
from nsysconv.store.connection import Connection
from nsysconv.store.location import Location, reading

_ROWS_AT_ONCE = 1 << 14
_SHOWN = 3

_CHECKED = [table for table in schema.metadata.sorted_tables if table is not schema.checksum]
_EVENTS = [table for table in _CHECKED if table.name in schema.EVENT_TABLES]
_SMALL = [table for table in _CHECKED if table not in _EVENTS]

# The keys are the profile and the table; the values are the number of rows and their checksum.
_Sums = dict[tuple[int, str], tuple[int, int]]


DIFFERS, NOT_RECORDED = "differs", "not recorded"


@dataclass(frozen=True)
class Difference:
    """What is not as it was imported: a `table` of a profile, or None for all of them.

    `profile` is its label, None for the store itself; `result` is DIFFERS, NOT_RECORDED (no checksums of
    the profile were kept), or what the database found damaged.
    """

    profile: str | None
    table: str | None
    result: str
    imported_count: int | None = None
    row_count: int | None = None


def check(location: Location) -> list[Difference]:
    """Return how a store differs from what was imported, and have the database look at itself.

    What is not recorded comes last. Raises InputError where it cannot be read, and as `checksums`.
    """
    with reading(location) as store, store.connect() as connection:
        words = connection.integrity()
        damage = [] if words == "ok" else [Difference(None, None, f"damaged: {words}")]
        return damage + _differences(connection)


def require_sound(location: Location) -> None:
    """Raise InputError where tables differ from what was imported. Raises as `check`, too."""
    with reading(location) as store, store.connect() as connection:
        found = _differences(connection)
    damaged = [f"{each.table} of {each.profile}" for each in found if each.result == DIFFERS]
    if damaged:
        more = f" and {len(damaged) - _SHOWN:,} more" if len(damaged) > _SHOWN else ""
        raise InputError(
            f"the store is damaged: {', '.join(damaged[:_SHOWN])}{more}: not what was imported",
            where=str(location),
            hint="Import the original files again into a new store; "
            f"`nsysconv info {location} --check` shows all that differs.",
        )


def profiles_without(connection: Connection) -> set[int]:
    """Return the ids of the profiles that have no checksums."""
    own, kept = schema.profile.c.id, schema.checksum.c.profile_id
    return {row["id"] for row in connection.rows(sa.select(own).where(own.not_in(sa.select(kept))))}


def keep(connection: Connection, wait: Callable[[], None]) -> None:
    """Write checksums of the profiles that have none, within a transaction.

    `wait` is called when the long part is done; from its return on nobody else may write.
    """
    ids = profiles_without(connection)
    sums = _sums(connection, _EVENTS, ids)
    wait()
    ids &= profiles_without(connection)
    sums |= _sums(connection, _SMALL, ids)
    kept = [(*key, *of_rows) for key, of_rows in sums.items() if key[0] in ids]
    if kept:
        columns = zip(*kept, strict=True)
        cells = [array_of(some, "text" if isinstance(some[0], str) else "int") for some in columns]
        rows = pa.Table.from_arrays(cells, names=schema.checksum.c.keys())
        connection.ingest(schema.checksum.name, rows)


def forget(connection: Connection, of: sa.ColumnElement[bool]) -> None:
    """Drop the checksums of the profiles that satisfy `of`, because their rows change now."""
    kept, changed = schema.checksum, sa.select(schema.profile.c.id).where(of)
    connection.execute(sa.delete(kept).where(kept.c.profile_id.in_(changed)))


def _differences(connection: Connection) -> list[Difference]:
    found = _compared(connection)
    if any(each.result == DIFFERS for each in found):
        # Others may have written meanwhile; where nothing differs, nobody had to wait.
        with connection.transaction(connection.SNAPSHOT):
            found = _compared(connection)
    return found


def _compared(connection: Connection) -> list[Difference]:
    profile = schema.profile.c
    rows = connection.rows(sa.select(profile.id, profile.label))
    labels = {row["id"]: str(row["label"]) for row in rows}
    kept = {} if schema.checksum.c.table_name in connection.lacking else _kept(connection)
    ids = {number for number, _ in kept}
    found: _Sums = {}
    for table in _CHECKED:
        if not connection.lacking.isdisjoint(table.primary_key.columns):
            continue  # the store has no such table
        try:
            found |= _sums(connection, [table], ids)
        except InputError:
            for one in ids:  # the rows of others may be readable
                with suppress(InputError):
                    found |= _sums(connection, [table], {one})
    differences = []
    for key in sorted(kept.keys() | found.keys()):
        before, now = kept.get(key, (0, 0)), found.get(key, (0, 0))
        if before != now:
            label = labels.get(key[0], f"profile {key[0]}")
            differences.append(Difference(label, key[1], DIFFERS, before[0], now[0]))
    without = [label for number, label in labels.items() if number not in ids]
    return differences + [Difference(label, None, NOT_RECORDED) for label in without]


def _kept(connection: Connection) -> _Sums:
    # Cells of a wrong type raise.
    batches = connection.typed_batches(list(schema.checksum.c), sa.true(), _ROWS_AT_ONCE)
    rows = [row.values() for batch in batches for row in batch.to_pylist()]
    return {(profile, table): (count, checksum) for profile, table, count, checksum in rows}


def _sums(connection: Connection, tables: Iterable[sa.Table], ids: Collection[int]) -> _Sums:
    return {
        (profile, table.name): of_rows
        for table in tables
        for profile, of_rows in (connection.checksums(table, ids) if ids else {}).items()
    }
