"""Stores in PostgreSQL databases: connections, tables with the mark of a store, and rows into them.

The driver runs a query as `COPY (…) TO STDOUT` and takes in rows by `COPY … FROM STDIN`, both binary.
Passwords are the business of PostgreSQL's own library: PGPASSWORD, ~/.pgpass, or the address.

An import is one connection and one transaction. Many run at once: rows of events come in by COPY and are
numbered by the writer, and only what makes them a profile is written by one after the other.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import adbc_driver_manager as adbc
import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as postgresql_dialect
from sqlalchemy.schema import CreateTable, SetColumnComment, SetTableComment

from nsysconv import schema
from nsysconv.errors import InputError, NsysconvError, UsageError
from nsysconv.report import array_of
from nsysconv.store import user_sql
from nsysconv.store.connection import (
    Connection,
    Sql,
    arrow_type,
    check_version,
    prefetched,
    reader_of,
    rows_of_profiles,
    select_columns,
    to_schema_types,
    without_nul,
)
from nsysconv.store.location import Url
from nsysconv.store.read import Extent
from nsysconv.store.recording import SourceRows
from nsysconv.store.sqlite.virtual_store import ViewsConnection
from nsysconv.store.user_sql import views
from nsysconv.store.write import ProfileRows, Progress, Writer
from nsysconv.threads import Threads

# A row's bytes on the wire: a length of its own, and of each cell beside the cell.
_ROW_BYTES, _CELL_BYTES = 2, 12
_FEW_COLUMNS = 4

_ANSWER_BATCH_ROWS = 1 << 17
_MODULUS = 1 << 63
_CANCEL_S = 0.1

_LISTING = (
    "`select relname from pg_class where relnamespace = current_schema()::regnamespace and relkind in "
    "('r', 'v')` lists tables and views; docs/schema.md describes them."
)

_INSTALL = "pip install 'nsysconv[postgres]'"


_DIALECT = postgresql_dialect.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
# Every connection sets standard_conforming_strings: a backslash is a backslash.
_DIALECT._backslash_escapes = False


class PostgresqlConnection(Connection):
    """A connection to a PostgreSQL database; with `read_only` it cannot change anything."""

    DIALECT = _DIALECT
    NUL = "\ufffd"
    SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ"
    BATCH_OPTION = "adbc.postgresql.batch_size_hint_bytes"
    BATCH_ROW = _ROW_BYTES + _FEW_COLUMNS * _CELL_BYTES

    def __init__(self, url: Url, *, read_only: bool = False) -> None:
        """Connect to the database. Raises UsageError where the driver is not installed."""
        self._url = url
        super().__init__(_driver(), url.secret, str(url))
        settings = {
            "application_name": "nsysconv",
            "client_encoding": "UTF8",
            "standard_conforming_strings": "on",
            "default_transaction_read_only": "on" if read_only else "off",
        }
        calls = (f"set_config('{key}', '{value}', false)" for key, value in settings.items())
        self.rows(f"SELECT {', '.join(calls)}")

    def typed_batches(
        self, columns: Sequence[sa.Column[Any]], condition: sa.ColumnElement[bool], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns with the schema's types; here every column has one type."""
        key = columns[0].table.primary_key.columns
        statement = sa.select(*columns).where(condition).order_by(*key)
        fields = [pa.field(column.name, arrow_type(column)) for column in columns]
        for batch in self.batches(statement, rows):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))

    def batches(self, sql: Sql, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query; all batches but the last have `rows` rows."""
        waiting: list[pa.RecordBatch] = []
        for batch in super().batches(sql, rows):
            waiting.append(batch)
            if sum(len(part) for part in waiting) >= rows:
                whole = _concatenated(waiting)
                yield whole.slice(0, rows)
                waiting = [whole.slice(rows)]
        if any(len(part) for part in waiting):
            yield _concatenated(waiting)

    def checksums(self, table: sa.Table, ids: Collection[int]) -> dict[int, tuple[int, int]]:
        """Return by profile how many rows a table has, and a sum over them, in whatever order."""
        owner, rows = rows_of_profiles(table, ids)
        sums = self.rows(
            # Older than PostgreSQL 14: none are kept. Hashes of rows as text take twice as long.
            f"SELECT {owner} AS id, count(*) AS count, (sum(hash_record_extended(t, 0)) % {_MODULUS})"
            f"::bigint AS checksum {rows} GROUP BY 1"
        )
        return {row["id"]: (row["count"], row["checksum"]) for row in sums}

    def within(
        self, table: sa.Table, profile_id: int, first_id: int, last_id: int
    ) -> sa.ColumnElement[bool]:
        """Return the condition for a profile's rows; each profile's are numbered from 1."""
        return sa.and_(table.c.profile_id == profile_id, table.c.id.between(first_id, last_id))

    def ask(self, sql: str, before: Sequence[str] = ()) -> pa.Table:
        """Return the rows of a user's query. Raises UsageError where it is wrong or no select.

        Whatever is raised meanwhile, a signal's exception too, ends the query on the server. What it has
        changed nevertheless is undone: before PostgreSQL 16 `lo_create` runs in read-only
        transactions, too. `before` are statements of ours, which make something temporary.
        """
        self.execute("BEGIN READ WRITE" if before else "BEGIN")
        try:
            for ours in (*before, "SET TRANSACTION READ ONLY"):
                self.execute(ours)
            with (
                self._statement(
                    sql, _ANSWER_BATCH_ROWS, partial(self._misunderstood, sql)
                ) as asked,
                Threads(1) as pool,
            ):
                # In a thread: while the library waits for the server it hears no signal.
                answer = pool.submit(_query_rows, asked)
                try:
                    rows = answer.result()
                finally:
                    # Between two requests the server has nothing to cancel: once may not be enough.
                    while not answer.done():
                        asked.cancel()
                        wait([answer], _CANCEL_S)
        finally:
            self.roll_back()
        return simple_types(rows)

    def translated(self, error: BaseException) -> NsysconvError:
        """Return the error to raise for what the server or its library said."""
        text, words, where = str(error), self._words(error), self.place
        error.args = tuple(self._url.hide(str(part)) for part in error.args)
        state = _state(error)
        if state:
            known = [error for error in _ERRORS["doing"] if state.startswith(error["state"])]
        else:
            known = [error for error in _ERRORS["connecting"] if re.search(error["pattern"], text)]
        if known:
            return UsageError(f"{known[0]['what']}: {words}", where=where, hint=known[0]["hint"])
        return InputError(f"PostgreSQL says: {words}", where=where)

    def _misunderstood(self, sql: str, error: BaseException) -> NsysconvError:
        state = _state(error)
        if state == "25006":
            return UsageError(user_sql.ONLY_SELECTS)
        of_server = any(state.startswith(known["state"]) for known in _ERRORS["doing"])
        if of_server or not (state or "ERROR:" in str(error)):
            return self.translated(error)
        return user_sql.misunderstood("PostgreSQL", self._words(error), sql, _LISTING)

    def _words(self, error: BaseException) -> str:
        text = self._url.hide(str(error))
        said = re.search(r"(?:ERROR|FATAL|PANIC):\s+(.*)", text)
        if said is None:
            said = re.search(r"^\w+: (?:\[libpq\] )?(?:[^:]*: )?(.*)", text)
        return (said[1] if said else text.partition("\n")[0]).strip() or type(error).__name__


_ERRORS = tomllib.loads(Path(__file__).with_name("postgresql_errors.toml").read_text("utf-8"))


# While rows stream the driver gives no state.
_STATES = {
    "read-only transaction": "25006",
    "permission denied": "42501",
    "No space left": "53100",
    "terminating connection": "57P01",
}


def _state(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None)
    return state or next((state for words, state in _STATES.items() if words in str(error)), "")


def open_for_reading(url: Url) -> PostgresqlConnection:
    """Open a connection to a store that cannot change anything."""
    connection = PostgresqlConnection(url, read_only=True)
    connection.lacking = schema.columns_since(connection.number(sa.select(MARK.c.schema_version)))
    return connection


def run_query(url: Url, sql: str, before: Sequence[str] = ()) -> pa.Table:
    """Return the rows of a user's query on the store at an address. Raises as its `ask`."""
    with open_for_reading(url) as connection:
        return connection.ask(sql, before)


def _query_rows(statement: adbc.AdbcStatement) -> pa.Table:
    handle = statement.execute_schema()
    if not len(pa.Schema._import_from_c(handle.address)):
        raise UsageError(user_sql.ONLY_SELECTS)
    return reader_of(statement).read_all()


def _driver() -> str:
    try:
        import adbc_driver_postgresql
    except ImportError as error:
        raise UsageError(
            "PostgreSQL needs the package adbc-driver-postgresql", hint=_INSTALL
        ) from error
    return str(adbc_driver_postgresql._driver_path())


def _concatenated(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def simple_types(rows: pa.Table) -> pa.Table:
    """Return the rows with whole numbers as int64, other numbers as float64, else text."""
    columns = [_simple_type(column) for column in rows.columns]
    return pa.Table.from_arrays(columns, names=rows.column_names)


def _simple_type(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if getattr(kind, "type_name", None) == "numeric":
        return _numbers([None if text is None else text.as_py() for text in column])
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())
    if pa.types.is_string(kind):
        return column
    cells: list[Any] = column.to_pylist()
    if pa.types.is_binary(kind):
        cells = [None if cell is None else f"\\x{cell.hex()}" for cell in cells]
    return pa.chunked_array([[None if cell is None else str(cell) for cell in cells]], pa.string())


def _numbers(texts: list[str | None]) -> pa.ChunkedArray:
    try:
        cells = [None if text is None else int(text) for text in texts]
        return pa.chunked_array([cells], pa.int64())
    except (ValueError, OverflowError, pa.ArrowInvalid):
        return pa.chunked_array([[None if t is None else float(t) for t in texts]], pa.float64())


_metadata = sa.MetaData()

MARK = sa.Table(
    "nsysconv_store",
    _metadata,
    sa.Column("schema_version", schema.INTEGER, nullable=False),
    comment="One row: these tables are a store of nsysconv, of this version of its schema.",
)

LOCK = f"SELECT pg_advisory_xact_lock({schema.APPLICATION_ID}, hashtext(current_schema()))"
"""Waits until no other writer of the store holds it; it is let go with the transaction."""

_HERE = "current_schema()::regnamespace"


def schema_version(url: Url) -> int | None:
    """Return the version of the schema of the store at an address; None where there is no store."""
    with PostgresqlConnection(url, read_only=True) as connection:
        return _version(connection)


def check_store(url: Url) -> None:
    """Raise InputError unless a store is there that this program can read."""
    _check_version(schema_version(url), url, to_write=False)


def _check_version(version: int | None, url: Url, *, to_write: bool) -> None:
    make = f"`nsysconv import FILE -o {url}` makes one."
    check_version(version, url, "ANOTHER-DATABASE", make, to_write=to_write)


def _version(connection: PostgresqlConnection) -> int | None:
    if connection.value(f"SELECT to_regclass('{MARK.name}')::text") is None:
        return None
    return connection.number(sa.select(MARK.c.schema_version))


def make_or_check(connection: PostgresqlConnection, url: Url) -> None:
    """Make the tables where there are none; raise UsageError where others are in the way."""
    version = _version(connection)
    if version is None:
        with connection.transaction():
            connection.rows(LOCK)
            # Another process may have made them while this one waited.
            version = _version(connection)
            if version is None:
                _check_free(connection, url)
                connection.execute(";\n".join(statements()))
                version = schema.SCHEMA_VERSION
    _check_version(version, url, to_write=True)


def _check_free(connection: PostgresqlConnection, url: Url) -> None:
    rows = connection.rows(f"SELECT relname::text FROM pg_class WHERE relnamespace = {_HERE}")
    ours = {table.name for table in _tables().sorted_tables} | set(views())
    taken = sorted(ours & {str(row["relname"]) for row in rows})
    if taken:
        raise UsageError(
            f"the database has tables of another program with names of ours: {', '.join(taken)}",
            where=str(url),
            hint="Make a database for nsysconv alone (createdb NAME), or a schema: CREATE SCHEMA "
            "nsysconv, and ?options=-csearch_path%3Dnsysconv behind the address.",
        )


@cache
def statements() -> tuple[str, ...]:
    """Return the statements that make tables, views and mark in an empty schema."""
    compiled = PostgresqlConnection.compiled
    tables = _tables().sorted_tables
    return (
        *(compiled(CreateTable(table)) for table in tables),
        *(f"CREATE VIEW {name} AS {compiled(select)}" for name, select in views().items()),
        *(compiled(comment) for table in tables for comment in _comments(table)),
        compiled(sa.insert(MARK).values(schema_version=schema.SCHEMA_VERSION)),
    )


@cache
def _tables() -> sa.MetaData:
    for table in schema.metadata.sorted_tables:
        # Rows are numbered per profile, by who writes them: no writer waits for another's numbers.
        is_event = table.name in schema.EVENT_TABLES
        key = ["profile_id", "id"] if is_event else [c.name for c in table.primary_key.columns]
        counted = key == ["id"]
        sa.Table(
            table.name,
            _metadata,
            *(_column(column, counted=counted and column.name == "id") for column in table.columns),
            sa.PrimaryKeyConstraint(*key),
            *_other_constraints(table),
            comment=table.comment,
        )
    return _metadata


def _column(column: sa.Column[Any], *, counted: bool) -> sa.Column[Any]:
    # Texts are compared by their bytes, as in a file.
    kind = sa.Text(collation="C") if isinstance(column.type, sa.Text) else column.type
    number = (sa.Identity(),) if counted else ()
    return sa.Column(
        column.name, kind, *number, nullable=bool(column.nullable), comment=column.comment
    )


def _other_constraints(table: sa.Table) -> Iterator[sa.Constraint]:
    for constraint in table.constraints:
        if isinstance(constraint, sa.CheckConstraint):
            yield sa.CheckConstraint(str(constraint.sqltext))
        elif isinstance(constraint, sa.UniqueConstraint):
            yield sa.UniqueConstraint(*(column.name for column in constraint.columns))


def _comments(table: sa.Table) -> Iterator[sa.schema.ExecutableDDLElement]:
    yield SetTableComment(table)
    yield from (SetColumnComment(column) for column in table.columns if column.comment)


# One COPY has so many rows, few enough for little memory, frequent progress and a quick Ctrl-C.
ROWS_AT_ONCE = 1 << 16
# One batch reads so many rows, few enough to stay in the cache.
ROWS_READ = 1 << 11


class PostgresqlWriter(Writer):
    """Writes to a PostgreSQL store, as others may at the same time."""

    _connection: PostgresqlConnection

    def __init__(self, connection: PostgresqlConnection, url: Url) -> None:
        """Write to the store behind this connection."""
        super().__init__(connection, partial(open_for_reading, url))
        self._source: ViewsConnection | None = None

    @contextmanager
    def _attached(self, source: Path) -> Iterator[None]:
        with ViewsConnection(source) as self._source:
            self._source.attach(source)
            yield
        self._source = None

    def _transaction(self) -> AbstractContextManager[None]:
        return self._connection.transaction()

    def _profile_ids(self) -> Iterator[int]:
        while True:
            yield self._connection.number("SELECT nextval(pg_get_serial_sequence('profile', 'id'))")

    def _rows_of(self, profile_id: int) -> ProfileRows:
        return _PostgresqlRows(self._connection, profile_id, self._source)

    def _alone(self) -> None:
        self._connection.rows(LOCK)

    def give_back_space(self) -> int:
        """Make the space of deleted rows free for others; nobody waits, and files stay as large."""
        names = ", ".join(f'"{table.name}"' for table in _tables().sorted_tables)
        self._connection.execute(f"VACUUM {names}")
        return 0


class _PostgresqlRows(ProfileRows):
    def __init__(
        self, connection: PostgresqlConnection, profile_id: int, source: ViewsConnection | None
    ) -> None:
        super().__init__(connection, profile_id)
        self._source = source
        self._counts = dict.fromkeys(schema.EVENT_TABLES, 0)

    def spans(self) -> dict[str, Extent]:
        return {name: Extent(1, count) for name, count in self._counts.items() if count}

    def _copy(self, batch: SourceRows, progress: Progress) -> None:
        count = self._counts[batch.table]
        try:
            self._stream(batch, progress)
        except InputError:
            # The rows have a wrong type, which is noticed here, or an impossible time, which the
            # database notices.
            self._counts[batch.table] = count
            raise

    def _stream(self, batch: SourceRows, progress: Progress) -> None:
        assert self._source is not None
        table, columns = schema.metadata.tables[batch.table], schema.event_columns
        # A store's table holds the rows of other profiles, too.
        own = batch.select.where(batch.row_id.between(batch.first, batch.last))
        self._source.lay(table.name, [replace(batch, select=own)], self._profile_id)
        parts = self._source.batches(select_columns(table.columns), ROWS_READ)
        with closing(prefetched(_in_groups(parts))) as several:
            for some in several:
                rows = pa.Table.from_batches(
                    [to_schema_types(part, table.columns) for part in some]
                )
                self._ingest(table.name, rows.select(columns(table)))
                progress(table.name, rows.num_rows)

    def _ingest(self, name: str, rows: pa.Table) -> None:
        table, count = schema.metadata.tables[name], rows.num_rows
        numbers = {"profile_id": np.full(count, self._profile_id)}
        if name in self._counts:
            first = self._counts[name] + 1
            numbers["id"] = np.arange(first, first + count)
            self._counts[name] += count
        columns = [
            # COPY takes the bytes as they are: types have to be those of the table.
            without_nul(column.cast(arrow_type(table.c[key])))
            for key, column in zip(rows.column_names, rows.columns, strict=True)
        ]
        columns += [array_of(values, "int") for values in numbers.values()]
        names = [*rows.column_names, *numbers]
        self._connection.ingest(name, pa.Table.from_arrays(columns, names=names))


def _in_groups(parts: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    while several := list(islice(parts, ROWS_AT_ONCE // ROWS_READ)):
        yield several


@contextmanager
def write_database(url: Url) -> Iterator[PostgresqlWriter]:
    """Open a writer on the store at an address, whose tables are made if there are none."""
    with PostgresqlConnection(url) as connection:
        make_or_check(connection, url)
        yield PostgresqlWriter(connection, url)
