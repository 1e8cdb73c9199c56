"""A connection to a database through ADBC: the only way a store is opened.

What is the same for every database is here; `sqlite.py` and `postgresql.py` say what differs.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

import adbc_driver_manager as adbc
import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from nsysconv import schema
from nsysconv.errors import InputError, NsysconvError
from nsysconv.report import Column, build_table, values_of
from nsysconv.units import Unit

# Rows per Arrow batch. Small batches stay in the cache: 1,024 to 4,096 were the fastest of 2^10 … 2^16.
_EVENT_BATCH_ROWS = 2048
# SQLite's driver tells a column's type from the first batch; small tables fit into one.
_SMALL_BATCH_ROWS = 1 << 17

Sql = str | sa.ClauseElement
"""A statement, or its text in the words of the database at hand."""


@dataclass(frozen=True)
class Texts:
    """Texts of rows: `numbers` says per row of `ids` which of `texts` is its own."""

    ids: np.ndarray
    numbers: np.ndarray
    texts: list[str]

    @classmethod
    def joined(cls, parts: Sequence[Texts]) -> Texts:
        """Those of all parts, one after the other; one at least."""
        known: dict[str, int] = {}
        numbers = []
        for part in parts:
            ours = [known.setdefault(text, len(known)) for text in part.texts]
            numbers.append(np.array(ours, np.int32)[part.numbers])
        return cls(np.concatenate([p.ids for p in parts]), np.concatenate(numbers), list(known))


class Connection(ABC):
    """One database connection. Not shared between threads; open one per thread.

    `place` names the database in error messages. Every failure is an NsysconvError.
    """

    DIALECT: ClassVar[sa.Dialect]

    def __init__(self, driver: str, uri: str, place: str) -> None:
        self.place = place
        with self._errors():
            self._database = adbc.AdbcDatabase(driver=driver, uri=uri)
            try:
                self._connection = adbc.AdbcConnection(self._database)
            except BaseException:
                _closed(self._database)
                raise

    def close(self) -> None:
        """Closes the connection; an open transaction is rolled back."""
        _closed(self._connection)
        _closed(self._database)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- what differs

    @abstractmethod
    def typed_batches(
        self, columns: Sequence[sa.Column[Any]], of: sa.ColumnElement[bool], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Columns of one table with the schema's types: the rows for which `of` holds, at most `rows` at
        a time, in the order of the primary key.
        """

    @abstractmethod
    def within(
        self, table: sa.Table, profile_id: int, first_id: int, last_id: int
    ) -> sa.ColumnElement[bool]:
        """Which rows of an event table are a profile's and have an id from `first_id` to `last_id`."""

    @abstractmethod
    def translated(self, error: BaseException) -> NsysconvError:
        """What the driver raised, with a place and a hint."""

    @abstractmethod
    def batch_options(self, rows: int) -> Mapping[str, str]:
        """Options of a statement whose rows are to come `rows` at a time."""

    # -- what is the same

    @classmethod
    def compiled(cls, statement: Sql) -> str:
        """The SQL text of a statement, values written in."""
        if isinstance(statement, str):
            return statement
        literal = {"literal_binds": True}
        return str(statement.compile(dialect=cls.DIALECT, compile_kwargs=literal))

    def execute(self, sql: Sql) -> None:
        """Runs a statement whose rows nobody wants."""
        with self._errors(), self._statement(sql, _EVENT_BATCH_ROWS) as statement:
            statement.execute_update()

    def rows(self, sql: Sql) -> list[dict[str, object]]:
        """The rows of a small query as dictionaries."""
        with self._errors(), self._statement(sql, _SMALL_BATCH_ROWS) as statement:
            return _pylist(reader_of(statement).read_all())

    def table(self, sql: Sql) -> pa.Table:
        """The rows of any query as an Arrow table."""
        with self._errors(), self._statement(sql, _SMALL_BATCH_ROWS) as statement:
            return reader_of(statement).read_all()

    def value(self, sql: Sql) -> object:
        """The first cell of a query, None where there is no row."""
        rows = self.rows(sql)
        return next(iter(rows[0].values())) if rows else None

    def number(self, sql: Sql) -> int:
        """The first cell of a query that gives a whole number."""
        return int(str(self.value(sql)))

    def batches(self, sql: Sql, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of any query, at most `rows` at a time; in SQLite a column's type is that of its first
        batch.
        """
        with self._errors(), self._statement(sql, rows) as statement:
            for batch in reader_of(statement):
                yield from (batch.slice(low, rows) for low in range(0, batch.num_rows, rows))

    def integers(self, sql: Sql) -> Generator[list[np.ndarray]]:
        """Batches of a query of integer columns: per batch one int64 array a column, null = MISSING."""
        with self._errors(), self._statement(sql, _EVENT_BATCH_ROWS) as statement:
            for batch in reader_of(statement):
                yield [_int64(column) for column in batch.columns]

    def columns(
        self, columns: Sequence[sa.Column[Any]], profile_id: int, first_id: int, last_id: int
    ) -> Generator[list[np.ndarray]]:
        """Integer columns of an event table, batch by batch: of a profile's rows with these ids, in their
        order, an array a column; int64, or int32 where all its values fit; null = MISSING.
        """
        table = columns[0].table
        of = self.within(table, profile_id, first_id, last_id)
        return self.integers(sa.select(*columns).where(of).order_by(table.c.id))

    def texts(self, sql: Sql) -> Texts:
        """A query of an id and a text that is not null."""
        known: dict[Any, int] = {}
        ids, numbers = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        with self._errors(), self._statement(sql, _EVENT_BATCH_ROWS) as statement:
            for batch in reader_of(statement):
                if not batch.num_rows:
                    continue
                ours = [known.setdefault(cell, len(known)) for cell in _cells(batch.column(1))]
                ids.append(_int64(batch.column(0)))
                numbers.append(np.array(ours, np.int32))
        texts = [_text(cell) if isinstance(cell, bytes) else cell for cell in known]
        return Texts(np.concatenate(ids), np.concatenate(numbers), texts)

    def ingest(self, table: str, rows: pa.Table) -> None:
        """Appends Arrow rows to a table, columns by name."""
        with self._errors():
            statement = adbc.AdbcStatement(self._connection)
            try:
                statement.set_options(
                    **{
                        adbc.INGEST_OPTION_TARGET_TABLE: table,
                        adbc.INGEST_OPTION_MODE: adbc.INGEST_OPTION_MODE_APPEND,
                    }
                )
                _run_with(statement, rows)
            finally:
                statement.close()

    def execute_for(self, rows: pa.Table, sql: str) -> None:
        """Runs a statement once for each row, whose values are those of its parameters, in order."""
        with self._errors(), self._statement(sql, _EVENT_BATCH_ROWS) as statement:
            _run_with(statement, rows)

    def _statement(self, sql: Sql, batch_rows: int) -> _Statement:
        return _Statement(self._connection, self.compiled(sql), self.batch_options(batch_rows))

    def _errors(self) -> Errors:
        return Errors(self.translated)


def check_version(version: int, location: object, other: str) -> None:
    """Raise InputError for a store of another version; `other` is an example of another location."""
    if version != schema.SCHEMA_VERSION:
        newer = version > schema.SCHEMA_VERSION
        raise InputError(
            f"the store has schema version {version}, this nsysconv reads {schema.SCHEMA_VERSION}",
            where=str(location),
            hint="Upgrade it: pip install --upgrade nsysconv"
            if newer
            else f"Import the original files again into a new store: nsysconv import FILE… -o {other}",
        )


def _closed(handle: adbc.AdbcConnection | adbc.AdbcDatabase) -> None:
    """Closes what a statement or connection was made of."""
    try:
        handle.close()
    except RuntimeError as error:
        # Where a signal came while one was made nobody holds it, and yet it counts as open. What is to be
        # told then is the signal; the driver closes all when nobody holds this any more.
        if error.__context__ is None:
            raise


class _Statement:
    """Closes an ADBC statement when done; ADBC's own context manager hides the first error."""

    def __init__(
        self, connection: adbc.AdbcConnection, sql: str, options: Mapping[str, str]
    ) -> None:
        self._statement = adbc.AdbcStatement(connection)
        try:
            self._statement.set_options(**options)
            self._statement.set_sql_query(sql)
        except BaseException:
            self._statement.close()
            raise

    def __enter__(self) -> adbc.AdbcStatement:
        return self._statement

    def __exit__(self, *exception: object) -> None:
        self._statement.close()


class Errors:
    """Turns what the driver raises into errors with a place and a hint."""

    def __init__(self, translated: Callable[[BaseException], NsysconvError]) -> None:
        self._translated = translated

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, (adbc.Error, pa.ArrowException, OSError)) and not isinstance(
            error, NsysconvError
        ):
            # The driver's own text may hold an address with its password.
            raise self._translated(error) from None


def _pylist(table: pa.Table) -> list[dict[str, object]]:
    """Rows as dictionaries. Text that is no UTF-8 (SQLite does not check) keeps its readable part."""
    try:
        return list(table.to_pylist())
    except UnicodeDecodeError:
        columns = [_decoded(column) for column in table.columns]
        rows = zip(*columns, strict=True)
        return [dict(zip(table.column_names, row, strict=True)) for row in rows]


def _decoded(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_string(column.type):
        return list(column.to_pylist())
    # A view, where a cast would load what Arrow computes with.
    raw = column.view(pa.binary()).to_pylist()
    return [None if value is None else _text(value) for value in raw]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _cells(column: pa.Array) -> Iterator[Any]:
    """The values of a column without nulls, texts as their bytes.

    From its buffers: `dictionary_encode` would load what Arrow computes with, which takes longer than
    100,000 texts do.
    """
    if not pa.types.is_string(column.type):
        return iter(column.to_pylist())
    _, places, data = column.buffers()
    first = 4 * column.offset
    edges = np.frombuffer(places, np.int32, len(column) + 1, first).tolist()
    raw = b"" if data is None else data.to_pybytes()
    return (raw[low:high] for low, high in pairwise(edges))


def _run_with(statement: adbc.AdbcStatement, rows: pa.Table) -> None:
    handle = adbc.ArrowArrayStreamHandle()
    rows.to_reader()._export_to_c(handle.address)
    statement.bind_stream(handle)
    statement.execute_update()


def reader_of(statement: adbc.AdbcStatement) -> pa.RecordBatchReader:
    """Runs a query; gives its rows."""
    handle, _ = statement.execute_query()
    return pa.RecordBatchReader._import_from_c(handle.address)


def _int64(column: pa.Array) -> np.ndarray:
    """An Arrow column as int64, null as MISSING."""
    if column.type != pa.int64():
        raise pa.ArrowTypeError(f"a column holds {column.type} where integers are expected")
    return values_of(column)


T = TypeVar("T")

# The driver tells a column's type from its first batch, where all may be null: numbers that are not
# whole, and texts, are read as values without nulls, each with a column that says which were null.
_INSTEAD_OF_NULL: dict[Unit, sa.ColumnElement[Any]] = {
    Unit.REAL: sa.literal_column("0.0"),
    Unit.TEXT: sa.literal_column("''"),
}
_NO_QUANTITY = (Unit.ID, Unit.TEXT, Unit.REAL)
_ARROW = {Unit.REAL: pa.float64(), Unit.TEXT: pa.string()}


def arrow_type(column: sa.Column[Any]) -> pa.DataType:
    """The type of a column's values: whole numbers, unless it holds reals or texts."""
    return _ARROW.get(column.info["unit"], pa.int64())


def arrow_field(column: sa.Column[Any]) -> pa.Field:
    """A column as Arrow knows it: its metadata are its comment, its unit where it is a quantity, and the
    words that its codes stand for, as JSON.
    """
    about = {"comment": column.comment or ""}
    if column.info["unit"] not in _NO_QUANTITY:
        about["unit"] = column.info["unit"].value
    if column.info.get("codes"):
        about["codes"] = json.dumps(column.info["codes"])
    return pa.field(column.name, arrow_type(column), column.nullable is not False, about)


def selected(columns: Iterable[sa.Column[Any]]) -> sa.Select[Any]:
    """These columns of all rows of a table, for `converted`."""
    chosen: list[sa.ColumnElement[Any]] = []
    for column in columns:
        instead = _INSTEAD_OF_NULL.get(column.info["unit"])
        if instead is None:
            chosen.append(column)
        else:
            value = sa.func.coalesce(sa.cast(column, column.type), instead)
            chosen += [value.label(column.name), column.is_(None).label(f"{column.name} is null")]
    return sa.select(*chosen)


def converted(batch: pa.RecordBatch, columns: Iterable[sa.Column[Any]]) -> pa.RecordBatch:
    """A batch of what `selected` selects, as the schema has it. Raises InputError for other types."""
    arrays, names, left = [], [], iter(batch.columns)
    for column in columns:
        values, wanted = next(left), arrow_type(column)
        if values.type != wanted:
            raise InputError(f"{column.table.name}.{column.name} holds {values.type}, not {wanted}")
        if column.info["unit"] in _INSTEAD_OF_NULL:
            values = _with_nulls(_readable(values), next(left))
        arrays.append(values)
        names.append(column.name)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def ahead(batches: Iterator[T]) -> Generator[T]:
    """The same batches; the next one is read while this one is written."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def from_rows(table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows of a table that stand in no database; what a row does not have is null."""
    # Whole numbers are whole numbers here, bytes per second too.
    columns = [
        Column(c.name, c.info["unit"] if c.info["unit"] in _ARROW else Unit.ID, "")
        for c in table.columns
    ]
    data = {column.name: [row.get(column.name) for row in rows] for column in columns}
    (batch,) = build_table(columns, data).to_batches()
    return batch


def without_nul(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The texts, with U+FFFD for the character 0, which not every database takes."""
    if values.type != pa.string() or not any(map(_has_nul, values.chunks)):
        return values
    texts = [None if t is None else t.replace("\0", "\ufffd") for t in values.to_pylist()]
    return build_table([Column("text", Unit.TEXT, "")], {"text": texts}).column(0)


def _has_nul(texts: pa.Array) -> bool:
    data = texts.buffers()[2]
    return data is not None and not np.frombuffer(data, np.uint8).all()


def _readable(values: pa.Array) -> pa.Array:
    """Texts as they are, or, where some are no UTF-8 (SQLite does not check), what of them is."""
    if values.type != pa.string():
        return values
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        texts = [raw.decode("utf-8", "replace") for raw in _bytes(values)]
        return build_table([Column("text", Unit.TEXT, "")], {"text": texts}).column(0).chunk(0)
    return values


def _bytes(values: pa.Array) -> Iterable[bytes]:
    return values.view(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def _with_nulls(values: pa.Array, is_null: pa.Array) -> pa.Array:
    """The values, null where the flag is 1. From buffers: Arrow's own ways would import pandas."""
    flags = np.frombuffer(is_null.buffers()[1], np.int64, len(is_null) + is_null.offset)
    valid = np.ones(values.offset + len(values), bool)
    valid[values.offset :] = flags[is_null.offset :] == 0
    if valid.all():
        return values
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, *values.buffers()[1:]]
    return pa.Array.from_buffers(values.type, len(values), buffers, offset=values.offset)
