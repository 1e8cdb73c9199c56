"""Shared parts of the summaries of `nsys stats`: rows by name with their statistics, and their columns.

Formulas: docs/nsys-stats.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv.notes import Note
from nsysconv.queries.columns import statistics_columns, statistics_docs, sum_column
from nsysconv.queries.contract import Array, Option, Query, Request, Result
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import grouped_statistics, percent
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import Total, combine_by

Labels = tuple[str | None, ...]


@dataclass(frozen=True)
class Row:
    """The statistics of one name, in ns or bytes; None: not recorded. `labels` are its texts."""

    labels: Labels
    count: int
    total: int | None
    mean: float | None
    median: float | None
    minimum: int | None
    maximum: int | None
    deviation: float | None


TIMES = ("sum_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "stddev_ns")
SIZES = ("bytes_sum", "bytes_avg", "bytes_med", "bytes_min", "bytes_max", "bytes_stddev")
"""Figures of totals."""

_STATISTICS = ("mean", "median", "minimum", "maximum", "deviation")


def event_rows(groups: Array, values: Array, labels: Sequence[Labels]) -> list[Row]:
    """Return one row per group number, with its labels; MISSING values are counted only."""
    statistics = grouped_statistics(groups, values, len(labels))
    columns = (_recorded(getattr(statistics, name)) for name in ("total", *_STATISTICS))
    return [Row(*row) for row in zip(labels, statistics.count.tolist(), *columns, strict=True)]


def _recorded(values: Array) -> list[Any]:
    return [None if value == MISSING or value != value else value for value in values.tolist()]


def total_rows(
    totals: Iterable[Total], labels: Callable[[Total], Labels], figures: Sequence[str] = TIMES
) -> list[Row]:
    """Return one row of TIMES or SIZES per labels. Several totals have no median and no deviation."""
    return [
        Row(key, total.count, *(getattr(total, name) for name in figures))
        for key, total in combine_by(totals, labels).items()
    ]


def largest_first(rows: Iterable[Row]) -> list[Row]:
    """Return the rows by total, the largest first; equal ones by count, then by their texts."""
    return sorted(
        rows, key=lambda row: (-(row.total or 0), row.count, [text or "" for text in row.labels])
    )


def time_columns(subject: str, count: Column, *labels: Column) -> tuple[Column, ...]:
    """Return the columns of a summary of times, whose sum and share are named after `subject`.

    Pass the column that counts and those of the labels.
    """
    share_doc = "Share of the time of all rows in this table."
    sum_doc = "Total duration; overlapping time counts for each event."
    return (
        Column(f"{subject}_pct", Unit.PCT, share_doc, adds=True),
        sum_column(f"{subject}_sum_ns", sum_doc, count.name),
        count,
        *statistics_columns(statistics_docs()),
        *labels,
    )


def size_columns(count: Column, *labels: Column) -> tuple[Column, ...]:
    """Return the columns of a summary of sizes, as `time_columns` does."""

    def column(name: str, doc: str, *, real: bool = False) -> Column:
        return Column(name, Unit.BYTES, doc, real=real, brief=False)

    total = sum_column("bytes_sum", "Total bytes of the operations.", count.name, unit=Unit.BYTES)
    deviation_doc = "Sample standard deviation; 0 for one."
    return (
        total,
        count,
        column("bytes_avg", "Mean size per operation.", real=True),
        column("bytes_med", "Median size (mean of the middle two if even).", real=True),
        column("bytes_min", "Smallest size."),
        column("bytes_max", "Largest size."),
        column("bytes_stddev", deviation_doc, real=True),
        *labels,
    )


def table(
    columns: tuple[Column, ...],
    rows: Callable[[Timeline, Request], list[Row]],
    *,
    notes: Callable[[Timeline], tuple[Note, ...]] = lambda timeline: (),
    order: Callable[[Iterable[Row]], list[Row]] = largest_first,
    options: tuple[Option, ...] = (),
) -> Query:
    """Return the table of `time_columns` or `size_columns` with these rows, in this order."""

    def compute(timeline: Timeline, request: Request) -> Result:
        ordered = order(rows(timeline, request))
        sums = [row.total or 0 for row in ordered]
        shares = [percent(np.array(sums), sum(sums))] if columns[0].unit is Unit.PCT else []
        texts = sum(column.unit is Unit.TEXT for column in columns)
        values: list[Any] = [
            *shares,
            *([getattr(row, name) for row in ordered] for name in ("total", "count", *_STATISTICS)),
            *([row.labels[i] for row in ordered] for i in range(texts)),
        ]
        by_column = zip(columns, values, strict=True)
        return Result({column.name: each for column, each in by_column}, notes=notes(timeline))

    return Query(columns=columns, compute=compute, options=options)
