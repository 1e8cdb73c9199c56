"""A connection to a database through ADBC, the only way a store is opened, and tables as Arrow batches.

What is the same for every database is here; `sqlite/connection.py` and `postgresql.py` have what differs.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar

import adbc_driver_manager as adbc
import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.sql import visitors

from nsysconv import schema
from nsysconv.errors import InputError, NsysconvError
from nsysconv.report import (
    Unit,
    array_of,
    edges_and_data,
    number_parts,
    text_parts,
    values_of,
)
from nsysconv.threads import Threads

# An Arrow batch has so many rows. Small batches stay in the cache: 1,024 to 4,096 were the fastest of
# 2^10 … 2^16.
EVENT_BATCH_ROWS = 2048
# So many texts are numbered in Python.
FEW_TEXTS = 1 << 16
# SQLite's driver takes a column's type from the first batch; small tables fit into one.
_SMALL_BATCH_ROWS = 1 << 17

# These are replaced with `from None`, because their text may hold an address with its password.
_DRIVER_ERRORS = (adbc.Error, pa.ArrowException, OSError)

Sql = str | sa.ClauseElement
"""A statement, or its text in the words of the database at hand."""
Row = dict[str, Any]


@dataclass(frozen=True)
class TextColumn:
    """Texts of rows: `numbers` says per row of `ids` which of `texts` is its own."""

    ids: np.ndarray
    numbers: np.ndarray
    texts: list[str]

    @classmethod
    def joined(cls, parts: Sequence[TextColumn]) -> TextColumn:
        """Return the texts of all parts, one part after the other; at least one is given."""
        numbers_of_texts: dict[str, int] = {}
        numbers = []
        for part in parts:
            new_numbers = [
                numbers_of_texts.setdefault(text, len(numbers_of_texts)) for text in part.texts
            ]
            numbers.append(np.array(new_numbers, np.int32)[part.numbers])
        return cls(
            np.concatenate([p.ids for p in parts]), np.concatenate(numbers), list(numbers_of_texts)
        )


@dataclass(frozen=True)
class TextPart:
    """What is read of texts: what follows the first `after`, up to the end of the first separator.

    Nothing of a text without `after`; all that follows where there is no separator.
    """

    separators: Sequence[str] = ()
    after: str = ""

    def of(self, text: bytes) -> bytes:
        """Return the part of one text, in UTF-8."""
        rest = text.partition(self.after.encode())[2] if self.after else text
        found = _any_of(tuple(self.separators)).search(rest) if self.separators else None
        return rest[: found.end()] if found else rest


WHOLE = TextPart()


@cache
def _any_of(separators: Sequence[str]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(re.escape(separator.encode()) for separator in separators))


class NumberedTexts:
    """Parts of texts as they come; each gets the number of the first one that is equal."""

    def __init__(self, part: TextPart = WHOLE) -> None:
        """Begin without any."""
        self.part = part
        self._numbers_of_cells: dict[Any, int] = {}
        self._ids, self._numbers = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        self._seen = 0

    def numbers(self, column: pa.Array, part: TextPart) -> np.ndarray:
        """Return the numbers of parts of a batch of texts without nulls."""
        self._seen += len(column)
        numbered = _few_texts if self._seen <= FEW_TEXTS else _many_texts
        cells, places = numbered(column, part)
        known = self._numbers_of_cells
        new_numbers = [known.setdefault(cell, len(known)) for cell in cells]
        return np.array(new_numbers, np.int32)[places]

    def numbers_of_bytes(self, edges: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Return the numbers of parts that begin there in bytes, the end of the last after them."""
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
        texts = pa.Array.from_buffers(pa.string(), len(edges) - 1, buffers)
        return self.numbers(texts, WHOLE)

    def add(self, ids: np.ndarray, numbers: np.ndarray) -> None:
        """Append rows."""
        fits = not len(ids) or ids[-1] < 1 << 31
        self._ids.append(ids.astype(np.int32) if fits else ids)
        self._numbers.append(numbers)

    def column(self) -> TextColumn:
        """Return all rows."""
        cells = self._numbers_of_cells
        texts = [_text(cell) if isinstance(cell, bytes) else cell for cell in cells]
        return TextColumn(np.concatenate(self._ids), np.concatenate(self._numbers), texts)


class Connection(ABC):
    """A connection for one thread. `place` names it in errors, all of which are NsysconvErrors."""

    DIALECT: ClassVar[sa.Dialect]
    NUL: ClassVar[str]
    """The text written for the character 0, which the database does not take in a statement."""
    BATCH_OPTION: ClassVar[str]
    """The driver's option for the size of a batch."""
    SNAPSHOT: ClassVar[str]
    """The statement that begins a transaction whose selects all see one state of the database."""
    BATCH_ROW: ClassVar[int]
    """The size of a row, in what that option counts."""

    def __init__(self, driver: str, uri: str, place: str) -> None:
        """Open the database at `uri`; `place` names it in error messages."""
        self.place = place
        self.lacking: frozenset[sa.Column[Any]] = frozenset()
        """Columns that a store of an older version does not have: selects have null in their place."""
        with translating(self.translated):
            self._database = adbc.AdbcDatabase(driver=driver, uri=uri)
            try:
                self._connection = adbc.AdbcConnection(self._database)
            except BaseException:
                _closed(self._database)
                raise

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        _closed(self._connection)
        _closed(self._database)

    def __enter__(self) -> Self:
        """Return the open connection."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the connection."""
        self.close()

    # -- what differs

    @abstractmethod
    def typed_batches(
        self, columns: Sequence[sa.Column[Any]], condition: sa.ColumnElement[bool], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of one table with the schema's types, at most `rows` rows at a time.

        Only the rows for which `condition` holds, in the order of the primary key.
        """

    @abstractmethod
    def within(
        self, table: sa.Table, profile_id: int, first_id: int, last_id: int
    ) -> sa.ColumnElement[bool]:
        """Return the condition for a profile's rows with ids from `first_id` to `last_id`."""

    @abstractmethod
    def checksums(self, table: sa.Table, ids: Collection[int]) -> dict[int, tuple[int, int]]:
        """Return, by profile, the number of a table's rows and their checksum; omit empty ones.

        `ids` are the ids of the profiles, at least one. Raises InputError where rows cannot be read, and
        UsageError where the database's checksums cannot be computed at all.
        """

    @abstractmethod
    def translated(self, error: BaseException) -> NsysconvError:
        """Return the error to raise for what the driver raised, with a place and a hint."""

    # -- what is the same

    def integrity(self) -> str:
        """Return what is damaged in the database's own structures, where it looks for that; else `ok`."""
        return "ok"

    @classmethod
    def compiled(cls, statement: Sql) -> str:
        """Return the SQL text of a statement, values written in."""
        if not isinstance(statement, str):
            literal = {"literal_binds": True}
            statement = str(statement.compile(dialect=cls.DIALECT, compile_kwargs=literal))
        return statement.replace("\0", cls.NUL)

    def execute(self, sql: Sql) -> None:
        """Run a statement and drop its rows."""
        with self._statement(sql) as statement:
            statement.execute_update()

    def rows(self, sql: Sql) -> list[Row]:
        """Return the rows of a small query as dictionaries."""
        with self._statement(sql, _SMALL_BATCH_ROWS) as statement:
            return _pylist(reader_of(statement).read_all())

    def table(self, sql: Sql) -> pa.Table:
        """Return the rows of a query as an Arrow table."""
        with self._statement(sql, _SMALL_BATCH_ROWS) as statement:
            return reader_of(statement).read_all()

    def value(self, sql: Sql) -> Any:
        """Return the first cell of a query, None where there is no row."""
        rows = self.rows(sql)
        return next(iter(rows[0].values())) if rows else None

    def number(self, sql: Sql) -> int:
        """Return the first cell of a query that gives a whole number."""
        return int(self.value(sql))

    def batches(self, sql: Sql, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, at most `rows` at a time; SQLite's with the first one's types."""
        with self._statement(sql, rows) as statement:
            for batch in reader_of(statement):
                yield from (batch.slice(low, rows) for low in range(0, batch.num_rows, rows))

    def columns(
        self, columns: Sequence[sa.Column[Any]], profile_id: int, first_id: int, last_id: int
    ) -> Generator[list[np.ndarray]]:
        """Yield integer columns of an event table, in batches of one array per column.

        The rows are a profile's with ids from `first_id` to `last_id`, in that order. Arrays are int64,
        or int32 where all values of a batch fit; null is MISSING.
        """
        table = columns[0].table
        condition = self.within(table, profile_id, first_id, last_id)
        select = sa.select(*columns).where(condition).order_by(table.c.id)
        with self._statement(select) as statement:
            for batch in reader_of(statement):
                yield [_int64(column) for column in batch.columns]

    def texts(self, sql: Sql, found: NumberedTexts | None = None) -> TextColumn:
        """Return the rows of a query of an id and a text that is not null, behind those found before."""
        found = found or NumberedTexts()
        with self._statement(sql) as statement:
            for batch in reader_of(statement):
                if batch.num_rows:
                    # A copy: the driver's own batch is larger.
                    ids = _int64(batch.column(0)).astype(np.int64)
                    found.add(ids, found.numbers(batch.column(1), found.part))
        return found.column()

    def texts_without_query(
        self, found: NumberedTexts, text: sa.Column[Any], first_id: int, last_id: int
    ) -> int:
        """Add texts of an event table as far as it goes without a query, and return the next row's id."""
        return first_id

    def ingest(self, table: str, rows: pa.Table) -> None:
        """Append Arrow rows to a table, columns by name."""
        if not rows.num_rows:
            return
        with (
            translating(self.translated),
            closing(adbc.AdbcStatement(self._connection)) as statement,
        ):
            append = {adbc.INGEST_OPTION_MODE: adbc.INGEST_OPTION_MODE_APPEND}
            statement.set_options(**{adbc.INGEST_OPTION_TARGET_TABLE: table}, **append)
            run_with(statement, rows)

    def insert(self, table: sa.Table, **values: object) -> None:
        """Insert one row."""
        self.execute(sa.insert(table).values(**values))

    @contextmanager
    def transaction(self, begin: str = "BEGIN") -> Iterator[None]:
        """Do all that the block does, or nothing where it raises."""
        self.execute(begin)
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            self.roll_back()
            raise

    def roll_back(self) -> None:
        """End a transaction that failed, unless it ended with the connection or before a signal."""
        with suppress(NsysconvError):
            self.execute("ROLLBACK")

    @contextmanager
    def _statement(
        self,
        sql: Sql,
        batch_rows: int = 0,
        translated: Callable[[BaseException], NsysconvError] | None = None,
    ) -> Iterator[adbc.AdbcStatement]:
        try:
            # ADBC's own context manager hides the first error.
            with closing(adbc.AdbcStatement(self._connection)) as statement:
                size = (batch_rows or EVENT_BATCH_ROWS) * self.BATCH_ROW
                statement.set_options(**{self.BATCH_OPTION: str(size)})
                statement.set_sql_query(self.compiled(_as_stored(sql, self.lacking)))
                yield statement
        except _DRIVER_ERRORS as error:
            raise (translated or self.translated)(error) from None


@contextmanager
def translating(translated: Callable[[BaseException], NsysconvError]) -> Iterator[None]:
    """Translate the driver's errors: raise what `translated` makes of them."""
    try:
        yield
    except _DRIVER_ERRORS as error:
        raise translated(error) from None


def _as_stored(sql: Sql, lacking: frozenset[sa.Column[Any]]) -> Sql:
    # The result is the select with null in the place of these columns.
    if not lacking or not isinstance(sql, sa.Select):
        return sql

    def null(element: Any, **_: object) -> sa.ColumnElement[Any] | None:
        if isinstance(element, sa.Column) and element in lacking:
            return sa.cast(sa.null(), element.type).label(element.name)
        return None

    spelled = sql.with_only_columns(*sql.selected_columns, maintain_column_froms=True)
    select: sa.Select[Any] = visitors.replacement_traverse(spelled, {}, null)  # type: ignore[assignment]
    return select


def rows_of_profiles(table: sa.Table, ids: Collection[int]) -> tuple[str, str]:
    """Return SQL: the number of a row's profile, and FROM … WHERE for profiles' rows `t` of a table."""
    rows, owner = f'"{table.name}" AS t', "t.profile_id"
    if table is schema.profile:
        owner = "t.id"
    elif table is schema.run:
        rows, owner = f"{rows} JOIN profile AS p ON p.run_id = t.id", "p.id"
    return owner, f"FROM {rows} WHERE {owner} IN ({', '.join(map(str, ids))})"


def check_version(
    version: int | None, location: object, other: str, how_to_make: str, *, to_write: bool
) -> None:
    """Raise InputError unless a store is there that can be read, or written to.

    `version` is its own, None where there is no store; `other` is where else one may be.
    """
    if version is None:
        raise InputError("not an nsysconv store", where=str(location), hint=how_to_make)
    ours, oldest = schema.SCHEMA_VERSION, schema.OLDEST_READ
    if version == ours or (oldest <= version < ours and not to_write):
        return
    if version > ours:
        hint = "Upgrade it: pip install --upgrade nsysconv"
    elif version < oldest:
        hint = f"Import the original files again into a new store: nsysconv import FILE… -o {other}"
    else:
        hint = (
            f"It can be read. A new store of what it holds: nsysconv import {location} -o {other}"
        )
    verb, which = ("writes", f"{ours}") if to_write else ("reads", f"{oldest} to {ours}")
    raise InputError(
        f"the store has schema version {version}, this nsysconv {verb} {which}",
        where=str(location),
        hint=hint,
    )


def _closed(handle: adbc.AdbcConnection | adbc.AdbcDatabase) -> None:
    try:
        handle.close()
    except RuntimeError as error:
        # Where a signal came while one was made nobody holds it, and yet it counts as open. What is to be
        # raised then is the signal; the driver closes all when nobody holds this any more.
        if error.__context__ is None:
            raise


def _pylist(table: pa.Table) -> list[Row]:
    try:
        return list(table.to_pylist())
    except UnicodeDecodeError:
        columns = [_decoded(column) for column in table.columns]
        rows = zip(*columns, strict=True)
        return [dict(zip(table.column_names, row, strict=True)) for row in rows]


def _decoded(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_string(column.type):
        return list(column.to_pylist())
    # The chunks are viewed as binary, because a cast would load Arrow's compute module.
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    raw = (value for chunk in chunks for value in chunk.view(pa.binary()).to_pylist())
    return [None if value is None else _text(value) for value in raw]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


# Each of these returns cells, texts as bytes, and where among them that of each row is.


def _few_texts(column: pa.Array, part: TextPart) -> tuple[Sequence[Any], np.ndarray | slice]:
    if not pa.types.is_string(column.type):
        return column.to_pylist(), slice(None)
    edges, data = edges_and_data(column)
    raw = data.to_pybytes()
    cells = [raw[low:high] for low, high in pairwise(edges.tolist())]
    return (cells if part == WHOLE else list(map(part.of, cells))), slice(None)


def _many_texts(column: pa.Array, part: TextPart) -> tuple[Sequence[Any], np.ndarray | slice]:
    # Arrow takes a tenth of the time, but to load what it needs as long as Python for 100,000 texts.
    if not pa.types.is_string(column.type):
        return _few_texts(column, part)
    edges, _ = edges_and_data(column)
    begin, end = edges[:-1], edges[1:]
    if part.after:
        begin = _ends(column, begin, end, [part.after])
    end = _ends(column, begin, end, part.separators)
    numbers, differing = number_parts(column, begin, end)
    return _few_texts(differing, WHOLE)[0], numbers


def _ends(column: pa.Array, begin: np.ndarray, end: np.ndarray, signs: Sequence[str]) -> np.ndarray:
    # Where the first of these signs ends in each part of the column's data, else where the part does.
    import pyarrow.compute as pc

    ends, first = end, end - begin
    raw = text_parts(column, begin, end).view(pa.binary())
    for sign in map(str.encode, signs):
        at = values_of(pc.find_substring(raw, sign), -1)[::2]
        earlier = (at >= 0) & (at < first)
        first = np.where(earlier, at, first)
        ends = np.where(earlier, begin + at + len(sign), ends)
    return ends


def run_with(statement: adbc.AdbcStatement, rows: pa.Table) -> None:
    """Run a statement once per row; the row's cells are the values of its parameters, in order."""
    handle = adbc.ArrowArrayStreamHandle()
    rows.to_reader()._export_to_c(handle.address)
    statement.bind_stream(handle)
    statement.execute_update()


def reader_of(statement: adbc.AdbcStatement) -> pa.RecordBatchReader:
    """Run a query and return a reader of its rows."""
    handle, _ = statement.execute_query()
    return pa.RecordBatchReader._import_from_c(handle.address)


def _int64(column: pa.Array) -> np.ndarray:
    if column.type != pa.int64():
        raise pa.ArrowTypeError(f"a column holds {column.type} where integers are expected")
    return values_of(column)


T = TypeVar("T")

# The driver takes a column's type from its first batch, where all may be null: numbers that are not
# whole, and texts, are read as values without nulls, each with a column that says which were null.
_INSTEAD_OF_NULL: dict[Unit, sa.ColumnElement[Any]] = {
    Unit.REAL: sa.literal_column("0.0"),
    Unit.TEXT: sa.literal_column("''"),
}
_NO_QUANTITY = (Unit.ID, Unit.TEXT, Unit.REAL)
_ARROW = {Unit.REAL: pa.float64(), Unit.TEXT: pa.string()}


def arrow_type(column: sa.Column[Any]) -> pa.DataType:
    """Return the Arrow type of a column's values: int64, or that of reals or texts."""
    return _ARROW.get(column.info["unit"], pa.int64())


def arrow_field(column: sa.Column[Any]) -> pa.Field:
    """Return a column as an Arrow field with its comment, its unit and the words of its codes."""
    metadata = {"comment": column.comment or ""}
    if column.info["unit"] not in _NO_QUANTITY:
        metadata["unit"] = column.info["unit"].value
    if column.info.get("codes"):
        metadata["codes"] = json.dumps(column.info["codes"])
    return pa.field(column.name, arrow_type(column), column.nullable is not False, metadata)


def select_columns(columns: Iterable[sa.Column[Any]]) -> sa.Select[Any]:
    """Return a select of these columns of all rows of a table, to be read by `to_schema_types`."""
    chosen: list[sa.ColumnElement[Any]] = []
    for column in columns:
        instead = _INSTEAD_OF_NULL.get(column.info["unit"])
        if instead is None:
            chosen.append(column)
        else:
            value = sa.func.coalesce(sa.cast(column, column.type), instead)
            chosen += [value.label(column.name), column.is_(None).label(f"{column.name} is null")]
    return sa.select(*chosen)


def to_schema_types(batch: pa.RecordBatch, columns: Iterable[sa.Column[Any]]) -> pa.RecordBatch:
    """Return a batch of `select_columns` with the schema's types. Raises InputError for others."""
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


def prefetched(batches: Iterator[T]) -> Generator[T]:
    """Yield the same batches; the next one is read in a thread while this one is used."""
    with Threads(1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def without_nul(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the texts with U+FFFD for the character 0, which PostgreSQL does not store."""
    data = [texts.buffers()[2] for texts in values.chunks if texts.type == pa.string()]
    if all(not part or np.frombuffer(part, np.uint8).all() for part in data):
        return values
    texts = [None if t is None else t.replace("\0", "\ufffd") for t in values.to_pylist()]
    return pa.chunked_array([array_of(texts, "text")])


def _readable(values: pa.Array) -> pa.Array:
    if values.type != pa.string():
        return values
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return array_of(_decoded(values), "text")
    return values


def _with_nulls(values: pa.Array, is_null: pa.Array) -> pa.Array:
    flags = np.frombuffer(is_null.buffers()[1], np.int64, len(is_null) + is_null.offset)
    valid = np.ones(values.offset + len(values), bool)
    valid[values.offset :] = flags[is_null.offset :] == 0
    if valid.all():
        return values
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, *values.buffers()[1:]]
    return pa.Array.from_buffers(values.type, len(values), buffers, offset=values.offset)
