"""A user's query on a SQLite file, run by a process that can do nothing but read: docs/decisions/0021."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import repeat, takewhile
from pathlib import Path

import numpy as np
import pyarrow as pa

from nsysconv import schema
from nsysconv.errors import UsageError
from nsysconv.processes import ProcessDiedError, Processes
from nsysconv.report import Kind, array_of, numbers
from nsysconv.store import user_sql
from nsysconv.store.sqlite.connection import open_for_reading
from nsysconv.store.sqlite.query_process import (
    Cells,
    Denied,
    FileFailed,
    QueryFailed,
    Rows,
    answering,
)
from nsysconv.store.user_sql import views

_LISTING = "`select name from sqlite_master` lists tables and views; docs/schema.md describes them."


def run_query(path: Path, sql: str, before: Sequence[str] = ()) -> pa.Table:
    """Return the rows of a user's query on the store in a file: int64, float64 and texts.

    `before` are statements of ours that its process runs first, and that make something temporary.
    Bytes are written as in SQL. Raises UsageError where the query is wrong, or no select on the schema's
    tables and views. Whatever is raised meanwhile, a signal's exception too, ends the query.
    """
    # Opening it rolls back what a killed writer left, and makes a write-ahead log's index, which the
    # process of the query, which only reads, could not.
    with open_for_reading(path) as connection:
        tables = [*schema.metadata.tables, *views(), user_sql.STEPS_TABLE]
        try:
            with Processes[str, Rows | None](
                1, answering, connection.reading_uri, tables, os.getpid(), before
            ) as process:
                batches = takewhile(lambda rows: rows is not None, process.map(repeat(sql)))
                return _joined([_batch(rows) for rows in batches if rows is not None])
        except Denied as denied:
            raise _denied(*denied.args) from None
        except QueryFailed as failed:
            raise user_sql.misunderstood("SQLite", str(failed), sql, _LISTING) from None
        except FileFailed as failed:
            raise connection.translated(failed) from None
        except ProcessDiedError:
            raise UsageError(
                "the query was ended: its process was killed; the memory may have run out",
                hint="Ask for fewer rows at a time.",
            ) from None


def _denied(kind: str, name: str) -> UsageError:
    match kind:
        case "read":
            return UsageError(f"{name} is none of the schema's tables and views", hint=_LISTING)
        case "function":
            return UsageError(f"the function {name} is not run: it is not part of reading")
    return UsageError(user_sql.ONLY_SELECTS)


def _batch(rows: Rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_array(cells) for cells in rows.columns], names=rows.names)


def _array(cells: Cells) -> pa.Array:
    values = cells.values
    if isinstance(values, list):
        return array_of(_texts(values) if str in cells.kinds else values, _kind(cells))
    is_null = np.frombuffer(cells.nulls, bool)
    return numbers(np.frombuffer(values, values.typecode), ~is_null, _kind(cells))


def _kind(cells: Cells) -> Kind:
    return "text" if str in cells.kinds else "float" if float in cells.kinds else "int"


def _texts(values: Sequence[object]) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    columns = zip(*(batch.columns for batch in batches), strict=True)
    return pa.Table.from_arrays(
        [_column(arrays) for arrays in columns], names=batches[0].schema.names
    )


def _column(arrays: Sequence[pa.Array]) -> pa.ChunkedArray:
    types = {array.type for array in arrays}
    if len(types) == 1:
        return pa.chunked_array(arrays)
    if pa.string() in types:
        return pa.chunked_array([array_of(_texts(a.to_pylist()), "text") for a in arrays])
    return pa.chunked_array([array_of(a.to_pylist(), "float") for a in arrays])
