"""Tables of a SQLite source: columns as SQL expressions, whole numbers, small tables, row numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

import sqlalchemy as sa

from nsysconv.errors import InputError
from nsysconv.importers.probe import Probe, SourceTable
from nsysconv.report import MISSING
from nsysconv.store.recording import SOURCE

Expression = sa.ColumnElement[Any]
T = TypeVar("T")

# No profile lasts 2^53 ns (104 days): larger numbers are times of day, or damage.
TIME_LIMIT = 1 << 53
# Row numbers with more holes than this are not a measure of the work.
_SPARSE_FACTOR = 8
_AT_ONCE = 50_000
_INTEGER = sa.BigInteger()
_HAS_FRACTION = re.compile(r"[.eE]")


# -- cells


def whole_number(cell: Expression) -> Expression:
    """Return a cell as a whole number, and NULL for a cell that holds none.

    Texts and reals count where SQLite itself would make whole numbers of them, as it does with those
    that come into a column of integers.
    """
    number = sa.cast(sa.cast(cell, sa.Numeric), sa.Integer)
    return sa.case((number == cell, number))


def whole_number_sql(name: str) -> str:
    """Return `whole_number` of a column as SQL text."""
    number = f"CAST(CAST({name} AS NUMERIC) AS INTEGER)"
    return f"CASE WHEN {number} = {name} THEN {number} END"


def as_whole_number(value: object) -> int | None:
    """Return a cell that was read as `whole_number` would, or None."""
    if isinstance(value, str):
        try:
            value = float(value) if _HAS_FRACTION.search(value) else int(value)
        except ValueError:
            return None
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return value if isinstance(value, int) and abs(value) < 1 << 63 else None


class SourceColumns:
    """Columns of one source table as expressions, by name; those that the table lacks are NULL.

    Cells of `damaged` columns that hold no whole number are NULL, too. `alias` names the table in
    statements that join it. `used` collects the names of the columns that were asked for.
    """

    def __init__(
        self, source: SourceTable, damaged: frozenset[str] = frozenset(), alias: str = ""
    ) -> None:
        """Name the columns of a table, under `alias` if there is one."""
        self.source = source
        self.names = frozenset(source.columns)
        self.alias = alias
        self._damaged = damaged
        self.table = _named(source.name, source.columns, alias)
        row_id = source.row_id or "rowid"
        self.row_id: Expression = sa.literal_column(
            f"{alias}.{row_id}" if alias else row_id, _INTEGER
        )
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> Expression:
        """Return a column, or NULL if the table lacks it."""
        if name not in self.names:
            return sa.null()
        self.used.add(name)
        column: Expression = self.table.c[name]
        return whole_number(column) if name in self._damaged else column

    def renamed(self, **columns: str) -> dict[str, Expression]:
        """Return columns by our names, given the table's name for each."""
        return {ours: self[theirs] for ours, theirs in columns.items()}

    def __contains__(self, name: str) -> bool:
        """Return whether the table has this column."""
        return name in self.names


@lru_cache(1024)
def _named(name: str, columns: tuple[str, ...], alias: str) -> sa.FromClause:
    # Profiles of many ranks have the same tables, and each table is asked for several times.
    table = sa.table(name, *(sa.column(each, _INTEGER) for each in columns), schema=SOURCE)
    return table.alias(alias) if alias else table


def code(words: tuple[str, ...], word: str) -> Expression:
    """Return the code of a word, which is its place among `words`."""
    return sa.literal_column(str(words.index(word)))


def known_code(number: Expression, last: int, unknown: int) -> Expression:
    """Return a code if it is one of 0..`last`, and `unknown` for any other number."""
    return sa.case((number.between(0, last), number), (number.is_not(None), unknown))


def values_table(
    name: str, fields: Sequence[str], rows: Iterable[Sequence[int | None]]
) -> sa.FromClause:
    """Return `rows`, at least one, as a table to join with, spelled out in the statement itself."""
    columns = ", ".join(f"column{place} AS {field}" for place, field in enumerate(fields, 1))
    values = ", ".join(
        f"({', '.join('NULL' if cell is None else str(cell) for cell in row)})" for row in rows
    )
    return (
        sa.text(f"SELECT {columns} FROM (VALUES {values})")
        .columns(*(sa.column(field, sa.BigInteger) for field in fields))
        .subquery(name)
    )


# -- tables


def has_columns(probe: Probe, table: str, *columns: str) -> bool:
    """Return whether the file has this table with all of these columns."""
    return table in probe.tables and set(columns) <= set(probe.tables[table].columns)


def has_rows(probe: Probe, table: str, condition: str = "1") -> bool:
    """Return whether a row of a table fulfils a condition, given as SQL."""
    return bool(probe.select(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE {condition})")[0][0])


def row_count(probe: Probe, table: str) -> int:
    """Return how many rows a table has, which is faster than to count those of a condition."""
    return int(probe.select(f"SELECT count(*) FROM {table}")[0][0])


def count_rows(probe: Probe, table: str, condition: str) -> tuple[int, str]:
    """Return how many rows fulfil a condition, given as SQL, and where the first of them is."""
    row_id = probe.tables[table].row_id or "1"
    count, first = probe.select(f"SELECT count(*), min({row_id}) FROM {table} WHERE {condition}")[0]
    return count, f"{table} row {first}"


def integer_rows(probe: Probe, table: str, columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a small table; `columns` maps our names to those of its integer columns.

    Cells of absent columns and cells that hold no integer are None. Without the table: no rows.
    """
    if table not in probe.tables:
        return []
    present = probe.tables[table].columns
    selected = ", ".join(theirs if theirs in present else "NULL" for theirs in columns.values())
    return [
        {
            ours: value if isinstance(value, int) and value != MISSING else None
            for ours, value in zip(columns, values, strict=True)
        }
        for values in probe.select(f"SELECT {selected} FROM {table}")
    ]


def first_rows(rows: Iterable[dict[str, Any]], *key: str) -> list[dict[str, Any]]:
    """Return the first row of each combination of these cells, without rows that lack one of them."""
    first: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        cells = tuple(row[name] for name in key)
        if None not in cells:
            first.setdefault(cells, row)
    return list(first.values())


def texts_by_id(
    probe: Probe, table: str, id_column: str, ids: Iterable[int], text_column: str = "value"
) -> dict[int, str]:
    """Return id -> text for those of the ids that have a text in a table of strings."""
    texts: dict[int, str] = {}
    for some in in_lists(sorted(set(ids))):
        listed = ", ".join(map(str, some))
        rows = probe.select(
            f"SELECT {id_column}, {text_column} FROM {table} WHERE {id_column} IN ({listed})"
        )
        # Ids of a damaged table may be texts, which SQLite compares as numbers.
        found = {as_whole_number(text_id): text for text_id, text in rows if isinstance(text, str)}
        texts.update({number: text for number, text in found.items() if number is not None})
    return texts


def only(values: Iterable[T]) -> T | None:
    """Return the only one of these values, which may come again and again; None if there are others."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def in_lists(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield values, such as rows of names, in lists of bounded size."""
    remaining = iter(values)
    while some := list(islice(remaining, _AT_ONCE)):
        yield some


def row_range(probe: Probe, source: SourceTable) -> tuple[int | None, int | None]:
    """Return the first and last row number of a table that has them; None and None if it is empty."""
    # One subselect each: asked for both at once, SQLite reads the whole table.
    first, last = probe.select(
        f"SELECT (SELECT min({source.row_id}) FROM {source.name}), "
        f"(SELECT max({source.row_id}) FROM {source.name})"
    )[0]
    return first, last


def row_numbers(probe: Probe, source: SourceTable) -> tuple[int | None, int | None, int]:
    """Return the first and last row number of a table (None: it is empty) and how many rows it has.

    Raises InputError if there are more rows than numbers between these: the pages of a damaged file may
    refer to each other again and again, and each way to read it then gives other rows.
    """
    first, last = row_range(probe, source)
    count = row_count(probe, source.name)
    if first is not None and last is not None and count > last - first + 1:
        raise InputError(
            f"the file is damaged: {source.name} has {count:,} rows numbered {first:,} to {last:,}",
            where=str(probe.path),
            hint="Export or copy it again.",
        )
    return first, last, count


def is_sparse(first: int | None, last: int | None, count: int) -> bool:
    """Return whether row numbers have holes so large that they are not a measure of the work."""
    return first is not None and last is not None and last - first > _SPARSE_FACTOR * count
