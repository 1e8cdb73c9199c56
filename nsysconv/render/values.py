"""A report's rows as Python values, whatever the bytes of its names are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa

from nsysconv.report import Report

Value = int | float | str | None

_ROWS_AT_ONCE = 4096


def rows(report: Report) -> Iterator[tuple[Value, ...]]:
    """The rows in the order of the declared columns, null (and what is no number) as None.

    Made a few thousand at a time, so that a long listing is never in memory as objects. A name that
    is not UTF-8 loses nothing: surrogates stay, other stray bytes are spelled out.
    """
    if report.table is None:
        return
    wanted = [column.name for column in report.columns]
    for batch in report.table.select(wanted).to_batches(max_chunksize=_ROWS_AT_ONCE):
        yield from zip(*(_values(array) for array in batch.columns), strict=True)


def by_column(report: Report) -> list[list[Value]]:
    """The same values, one list per declared column."""
    found = list(rows(report))
    return [[row[i] for row in found] for i in range(len(report.columns))]


def _values(array: pa.Array[Any]) -> list[Value]:
    if pa.types.is_string(array.type):
        # Arrow's own way to text raises at the first name that is not strict UTF-8.
        return [None if raw is None else _text(raw) for raw in array.view(pa.binary()).to_pylist()]
    values = cast("list[Value]", array.to_pylist())
    if pa.types.is_floating(array.type):
        return [v if isinstance(v, float) and math.isfinite(v) else None for v in values]
    return values


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace")
