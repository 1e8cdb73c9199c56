"""What the summaries of `nsys stats` share: rows by name with their statistics, and columns for these.

Formulas: docs/nsys-stats.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nsysconv.notes import Note
from nsysconv.queries.columns import printed, statistics_columns, sum_column
from nsysconv.queries.contract import Array, Query, Request, Result
from nsysconv.report import MISSING, Column
from nsysconv.timeline.arrays import grouped_statistics, percent
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import Total, combine_by
from nsysconv.units import Unit

Labels = tuple[str | None, ...]


class SummaryRow(NamedTuple):
    """The statistics of one name, in ns or bytes; None: not recorded. `labels` are its texts."""

    labels: Labels
    count: int
    total: int | None
    mean: float | None
    median: float | None
    minimum: int | None
    maximum: int | None
    deviation: float | None


_TIMES = ("sum_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "stddev_ns")
_SIZES = ("bytes_sum", "bytes_avg", "bytes_med", "bytes_min", "bytes_max", "bytes_stddev")
_STATISTICS = ("mean", "median", "minimum", "maximum", "deviation")


def summary_rows(groups: Array, values: Array, labels: Sequence[Labels]) -> list[SummaryRow]:
    """Return one row per group number, with its labels; MISSING values are counted only."""
    statistics = grouped_statistics(groups, values, len(labels))
    columns = (_recorded(getattr(statistics, name)) for name in ("total", *_STATISTICS))
    return [
        SummaryRow(*row) for row in zip(labels, statistics.count.tolist(), *columns, strict=True)
    ]


def _recorded(values: Array) -> list[Any]:
    return [None if value == MISSING or value != value else value for value in values.tolist()]


def time_rows(totals: Iterable[Total], labels: Callable[[Total], Labels]) -> list[SummaryRow]:
    """Return one row of durations per labels. Several totals have no median and no deviation."""
    return _rows_of_totals(totals, labels, _TIMES)


def size_rows(totals: Iterable[Total], labels: Callable[[Total], Labels]) -> list[SummaryRow]:
    """Return one row of bytes per labels, as `time_rows` does of durations."""
    return _rows_of_totals(totals, labels, _SIZES)


def _rows_of_totals(
    totals: Iterable[Total], labels: Callable[[Total], Labels], figures: Sequence[str]
) -> list[SummaryRow]:
    return [
        SummaryRow(key, total.count, *(getattr(total, name) for name in figures))
        for key, total in combine_by(totals, labels).items()
    ]


def largest_first(rows: Iterable[SummaryRow]) -> list[SummaryRow]:
    """Return the rows by total, the largest first; equal ones by count, then by their texts."""
    return sorted(
        rows, key=lambda row: (-(row.total or 0), row.count, [text or "" for text in row.labels])
    )


def statistics_docs(subject: str = "") -> dict[str, str]:
    """Return what the columns of statistics are described as; `subject` says of what they are."""
    return {
        "avg": f"Mean{subject}.",
        "med": f"Median{subject} (mean of the middle two).",
        "min": f"Shortest{subject}.",
        "max": f"Longest{subject}.",
        "stddev": f"Sample standard deviation{subject}; 0 for one.",
    }


def time_columns(subject: str, count: Column, *labels: Column) -> tuple[Column, ...]:
    """Return the columns of a summary of times, whose sum and share are named after `subject`."""
    share_doc = "Share of the time of all rows of this table."
    sum_doc = "Sum of the durations; overlaps count as often as they occur."
    return (
        printed("Time (%)", Column(f"{subject}_pct", Unit.PCT, share_doc, adds=True)),
        printed("Total Time (ns)", sum_column(f"{subject}_sum_ns", sum_doc, count.name)),
        count,
        *statistics_columns(statistics_docs(), header="{} (ns)"),
        *labels,
    )


def size_columns(count: Column, *labels: Column) -> tuple[Column, ...]:
    """Return the columns of a summary of sizes, printed in MB (10^6 bytes)."""

    def column(name: str, header: str, doc: str, *, real: bool = False) -> Column:
        return printed(f"{header} (MB)", Column(name, Unit.BYTES, doc, real=real, brief=False))

    total = sum_column("bytes_sum", "Bytes of all of them.", count.name, unit=Unit.BYTES)
    return (
        printed("Total (MB)", total),
        count,
        column("bytes_avg", "Avg", "Mean size.", real=True),
        column("bytes_med", "Med", "Median size (mean of the middle two).", real=True),
        column("bytes_min", "Min", "Smallest."),
        column("bytes_max", "Max", "Largest."),
        column("bytes_stddev", "StdDev", "Sample standard deviation; 0 for one.", real=True),
        *labels,
    )


def summary(
    title: str,
    columns: tuple[Column, ...],
    rows: Callable[[Timeline, Request], list[SummaryRow]],
    *,
    notes: Callable[[Timeline], tuple[Note, ...]] = lambda timeline: (),
    order: Callable[[Iterable[SummaryRow]], list[SummaryRow]] = largest_first,
    **declared: Any,
) -> Query:
    """Return the table of `time_columns` or `size_columns` with these rows, in this order.

    `declared` is what else the Query says: its facts and options.
    """

    def compute(timeline: Timeline, request: Request) -> Result:
        ordered = order(rows(timeline, request))
        sums = [row.total or 0 for row in ordered]
        shares = [percent(np.array(sums), sum(sums))] if columns[0].unit is Unit.PCT else []
        texts = sum(column.unit is Unit.TEXT for column in columns)
        values = [
            *shares,
            *([getattr(row, name) for row in ordered] for name in ("total", "count", *_STATISTICS)),
            *([row.labels[i] for row in ordered] for i in range(texts)),
        ]
        by_column = zip(columns, values, strict=True)
        return Result({column.name: each for column, each in by_column}, notes=notes(timeline))

    return Query(title=title, columns=columns, compute=compute, **declared)
