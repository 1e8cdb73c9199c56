"""Tables as Arrow batches, with the columns and types of the schema: for those who read whole tables."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from nsysconv.errors import InputError
from nsysconv.report import Column, build_table
from nsysconv.units import Unit

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
