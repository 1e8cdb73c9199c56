"""What importers of SQLite files share: columns that an age may lack, rows of small tables, counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from nsysconv.errors import InputError
from nsysconv.importers.probe import Probe, SourceTable
from nsysconv.report import MISSING
from nsysconv.store.recording import SOURCE

Expression = sa.ColumnElement[Any]

# No profile lasts 2^53 ns (104 days): larger numbers are times of day, or damage.
TIME_LIMIT = 1 << 53
_HAS_FRACTION = re.compile(r"[.eE]")


def whole(cell: Expression) -> Expression:
    """A cell as a whole number, however it is spelled, where it is one: as SQLite itself makes numbers of
    texts and reals that come into a column of integers. All else is NULL.
    """
    number = sa.cast(sa.cast(cell, sa.Numeric), sa.Integer)
    return sa.case((number == cell, number))


def whole_sql(name: str) -> str:
    """The same of a column, as text."""
    number = f"CAST(CAST({name} AS NUMERIC) AS INTEGER)"
    return f"CASE WHEN {number} = {name} THEN {number} END"


def as_whole(value: object) -> int | None:
    """The same of a cell that was read."""
    if isinstance(value, str):
        try:
            value = float(value) if _HAS_FRACTION.search(value) else int(value)
        except ValueError:
            return None
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return value if isinstance(value, int) and abs(value) < 1 << 63 else None


class Columns:
    """Columns of one source table by name; absent ones are NULL, and so are cells of `damaged` ones
    that hold no whole number. `alias` names the table in statements that join it with others.
    """

    def __init__(
        self, source: SourceTable, damaged: frozenset[str] = frozenset(), alias: str = ""
    ) -> None:
        names = source.columns
        self.source = source
        self.names = frozenset(names)
        self.alias = alias
        self._damaged = damaged
        table = sa.table(source.name, *(sa.column(n, sa.BigInteger) for n in names), schema=SOURCE)
        self.table: sa.FromClause = table.alias(alias) if alias else table
        row_id = source.row_id or "rowid"
        self.row_id: Expression = sa.literal_column(
            f"{alias}.{row_id}" if alias else row_id, sa.BigInteger
        )
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> Expression:
        if name not in self.names:
            return sa.null()
        self.used.add(name)
        column: Expression = self.table.c[name]
        return whole(column) if name in self._damaged else column

    def raw(self, name: str) -> Expression:
        """A column that is there, whatever stands in it."""
        column: Expression = self.table.c[name]
        return column

    def __contains__(self, name: str) -> bool:
        return name in self.names


def known_code(code: Expression, last: int, unknown: int) -> Expression:
    """The code itself where it is one of 0..last, `unknown` where it is another number."""
    return sa.case((code.between(0, last), code), (code.is_not(None), unknown))


def listed(name: str, fields: Sequence[str], rows: Iterable[Sequence[int | None]]) -> sa.FromClause:
    """A list that a statement holds itself, to join with: at least one row, and a name for each field."""
    columns = ", ".join(f"column{place} AS {field}" for place, field in enumerate(fields, 1))
    values = ", ".join(
        f"({', '.join('NULL' if cell is None else str(cell) for cell in row)})" for row in rows
    )
    return (
        sa.text(f"SELECT {columns} FROM (VALUES {values})")
        .columns(*(sa.column(field, sa.BigInteger) for field in fields))
        .subquery(name)
    )


def has(probe: Probe, table: str, *columns: str) -> bool:
    """Whether the file has this table with all of these columns."""
    return table in probe.tables and set(columns) <= set(probe.tables[table].columns)


def row_range(probe: Probe, source: SourceTable) -> tuple[int | None, int | None]:
    """The first and last row number of a table that has them; None: it is empty."""
    # One subselect each: asked for both at once, SQLite reads the whole table.
    first, last = probe.select(
        f"SELECT (SELECT min({source.row_id}) FROM {source.name}), "
        f"(SELECT max({source.row_id}) FROM {source.name})"
    )[0]
    return first, last


def row_numbers(probe: Probe, source: SourceTable) -> tuple[int | None, int | None, int]:
    """The first and last row number of a table (None: it is empty) and how many rows it has.

    Raises InputError where so many rows cannot have numbers between these: the pages of a damaged file
    may name each other again and again, and what is read of it then differs from one way to the next.
    """
    first, last = row_range(probe, source)
    count = probe.select(f"SELECT count(*) FROM {source.name}")[0][0]
    if first is not None and last is not None and count > last - first + 1:
        raise InputError(
            f"the file is damaged: {source.name} has {count:,} rows numbered {first:,} to {last:,}",
            where=str(probe.path),
            hint="Export or copy it again.",
        )
    return first, last, count


def counted(probe: Probe, table: str, condition: str) -> tuple[int, str]:
    """How many rows fulfil a condition, and where the first stands."""
    row_id = probe.tables[table].row_id or "1"
    count, first = probe.select(f"SELECT count(*), min({row_id}) FROM {table} WHERE {condition}")[0]
    return count, f"{table} row {first}"


def integers(probe: Probe, table: str, wanted: dict[str, str]) -> list[dict[str, Any]]:
    """A small table's integer columns under our names; absent ones and other types are None."""
    if table not in probe.tables:
        return []
    columns = probe.tables[table].columns
    texts = ", ".join(theirs if theirs in columns else "NULL" for theirs in wanted.values())
    return [
        {
            ours: value if isinstance(value, int) and value != MISSING else None
            for ours, value in zip(wanted, values, strict=True)
        }
        for values in probe.select(f"SELECT {texts} FROM {table}")
    ]
