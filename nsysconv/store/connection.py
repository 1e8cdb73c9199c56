"""A connection to a database through ADBC: the only way a store is opened.

Python's own `sqlite3` is a second copy of the SQLite library. Two copies in one process do not know of
each other's POSIX locks: whichever closes the file first drops the locks of both, and another process
can write into an open transaction. So nothing in nsysconv opens a store with `sqlite3`
(docs/decisions/0003).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import adbc_driver_manager as adbc
import adbc_driver_sqlite
import numpy as np
import pyarrow as pa

from nsysconv.errors import InputError, NsysconvError, UsageError
from nsysconv.report import MISSING

# Rows per Arrow batch. Small batches stay in the cache: 1,024 to 4,096 were the fastest of 2^10 … 2^16.
_EVENT_BATCH_ROWS = 2048
# The driver tells a column's type from the first batch; small tables fit into one.
_SMALL_BATCH_ROWS = 1 << 17

_BUSY_MS = 5_000

# Rows are appended and read in order; a large page cache would only be memory.
_CACHE_KIB = 512


def sqlite_uri(path: Path, mode: str) -> str:
    """A SQLite URI for a file; `mode` is what follows `mode=`: ro, rw, rwc, ro&immutable=1."""
    return f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"


@dataclass(frozen=True)
class Texts:
    """Texts of rows: `numbers` says per row of `ids` which of `texts` is its own."""

    ids: np.ndarray
    numbers: np.ndarray
    texts: list[str]


class Connection:
    """One database connection. Not shared between threads; open one per thread.

    `place` names the database in error messages. Every failure is an NsysconvError.
    """

    def __init__(self, uri: str, place: str) -> None:
        self._place = place
        driver = adbc_driver_sqlite._driver_path()
        with self._errors():
            self._database = adbc.AdbcDatabase(driver=driver, uri=uri)
            self._connection = adbc.AdbcConnection(self._database)
        # Views and triggers of a hostile file must not call functions with side effects.
        self.execute("PRAGMA trusted_schema=OFF")
        self.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
        self.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")

    def close(self) -> None:
        """Closes the connection; an open transaction is rolled back."""
        self._connection.close()
        self._database.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def execute(self, sql: str) -> None:
        """Runs a statement whose rows nobody wants."""
        with self._errors(), self._statement(sql) as statement:
            statement.execute_update()

    def rows(self, sql: str) -> list[dict[str, object]]:
        """The rows of a small query as dictionaries."""
        with self._errors(), self._statement(sql, _SMALL_BATCH_ROWS) as statement:
            return _pylist(_reader(statement).read_all())

    def table(self, sql: str) -> pa.Table:
        """The rows of any query as an Arrow table."""
        with self._errors(), self._statement(sql, _SMALL_BATCH_ROWS) as statement:
            return _reader(statement).read_all()

    def value(self, sql: str) -> object:
        """The first cell of a query, None where there is no row."""
        rows = self.rows(sql)
        return next(iter(rows[0].values())) if rows else None

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of any query, `rows` at a time; a column's type is that of its first batch."""
        with self._errors(), self._statement(sql, rows) as statement:
            yield from (batch for batch in _reader(statement) if batch.num_rows)

    def integers(self, sql: str) -> Iterator[list[np.ndarray]]:
        """Batches of a query of integer columns: per batch one int64 array a column, null = MISSING."""
        with self._errors(), self._statement(sql, _EVENT_BATCH_ROWS) as statement:
            for batch in _reader(statement):
                yield [_int64(column) for column in batch.columns]

    def texts(self, sql: str) -> Texts:
        """A query of an id and a text that is not null."""
        known: dict[str, int] = {}
        ids, numbers = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        with self._errors(), self._statement(sql) as statement:
            for batch in _reader(statement):
                if not batch.num_rows:
                    continue
                coded = batch.column(1).dictionary_encode()
                ours = [known.setdefault(t, len(known)) for t in _decoded(coded.dictionary)]
                ids.append(_int64(batch.column(0)))
                numbers.append(np.array(ours, np.int32)[_int64(coded.indices.cast(pa.int64()))])
        return Texts(np.concatenate(ids), np.concatenate(numbers), list(known))

    def ingest(self, table: str, rows: pa.RecordBatch | pa.Table) -> None:
        """Appends Arrow rows to a table, columns by name."""
        reader = (
            rows.to_reader()
            if isinstance(rows, pa.Table)
            else pa.Table.from_batches([rows]).to_reader()
        )
        with self._errors():
            statement = adbc.AdbcStatement(self._connection)
            try:
                statement.set_options(
                    **{
                        adbc.INGEST_OPTION_TARGET_TABLE: table,
                        adbc.INGEST_OPTION_MODE: adbc.INGEST_OPTION_MODE_APPEND,
                    }
                )
                handle = adbc.ArrowArrayStreamHandle()
                reader._export_to_c(handle.address)
                statement.bind_stream(handle)
                statement.execute_update()
            finally:
                statement.close()

    def _statement(self, sql: str, batch_rows: int = _EVENT_BATCH_ROWS) -> _Statement:
        return _Statement(self._connection, sql, batch_rows)

    def _errors(self) -> _Errors:
        return _Errors(self._place)


class _Statement:
    """Closes an ADBC statement when done; ADBC's own context manager hides the first error."""

    def __init__(self, connection: adbc.AdbcConnection, sql: str, batch_rows: int) -> None:
        self._statement = adbc.AdbcStatement(connection)
        try:
            self._statement.set_options(**{"adbc.sqlite.query.batch_rows": str(batch_rows)})
            self._statement.set_sql_query(sql)
        except BaseException:
            self._statement.close()
            raise

    def __enter__(self) -> adbc.AdbcStatement:
        return self._statement

    def __exit__(self, *exception: object) -> None:
        self._statement.close()


class _Errors:
    """Turns what the driver raises into errors with a place and a hint."""

    def __init__(self, place: str) -> None:
        self._place = place

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
            raise _translated(error, self._place) from error


def _translated(error: BaseException, place: str) -> NsysconvError:
    text = str(error)
    if "locked" in text or "busy" in text:
        return UsageError(
            "the database is in use by another process",
            where=place,
            hint="Wait until that process is done, then try again.",
        )
    if "full" in text and "disk" in text:
        return UsageError(
            "the disk is full", where=place, hint="Free some space; nothing was changed."
        )
    if "malformed" in text or "not a database" in text:
        return InputError(
            "the file is damaged: SQLite cannot read it",
            where=place,
            hint="Copy or export it again; a partial download is the usual cause.",
        )
    if "readonly" in text or "unable to open" in text or "failed to open" in text:
        return UsageError(
            "the file cannot be opened for this",
            where=place,
            hint="Check that it exists and that you may read and write it and its folder.",
        )
    return InputError(
        f"SQLite says: {text.splitlines()[0] if text else type(error).__name__}", where=place
    )


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
    raw = column.cast(pa.binary()).to_pylist()
    return [None if value is None else value.decode("utf-8", "replace") for value in raw]


def _reader(statement: adbc.AdbcStatement) -> pa.RecordBatchReader:
    handle, _ = statement.execute_query()
    return pa.RecordBatchReader._import_from_c(handle.address)


def _int64(column: pa.Array) -> np.ndarray:
    """An Arrow column as int64. From its buffers: `to_numpy` would import pandas."""
    if column.type != pa.int64():
        raise pa.ArrowTypeError(f"a column holds {column.type} where integers are expected")
    length, offset = len(column), column.offset
    validity, values = column.buffers()
    result = (
        np.frombuffer(values, np.int64, length + offset)[offset:]
        if length
        else np.empty(0, np.int64)
    )
    if column.null_count:
        bits = np.frombuffer(validity, np.uint8)
        valid = np.unpackbits(bits, bitorder="little")[offset : offset + length].astype(bool)
        result = np.where(valid, result, MISSING)
    return result
