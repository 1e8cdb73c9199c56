"""What the summaries of `nsys stats` share: rows by name with their statistics, and columns for these.

Formulas: docs/nsys-stats.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv.queries.columns import statistics_columns
from nsysconv.queries.contract import Array, ColumnValues
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import grouped_statistics, percent
from nsysconv.timeline.totals import Total, combine_by
from nsysconv.units import Unit

Labels = tuple[str | None, ...]

MEGA = 1_000_000


@dataclass(frozen=True)
class SummaryRow:
    """The statistics of one name, in ns or bytes; None: not recorded. `labels` are its texts."""

    labels: Labels
    count: int
    total: int | None
    mean: float | None
    median: float | None
    minimum: int | None
    maximum: int | None
    deviation: float | None


def summary_rows(groups: Array, values: Array, labels: Sequence[Labels]) -> list[SummaryRow]:
    """Return one row per group number, with its labels; MISSING values are counted only."""
    statistics = grouped_statistics(groups, values, len(labels))
    columns = zip(
        labels,
        statistics.count.tolist(),
        _integers(statistics.total),
        _reals(statistics.mean),
        _reals(statistics.median),
        _integers(statistics.minimum),
        _integers(statistics.maximum),
        _reals(statistics.deviation),
        strict=True,
    )
    return [SummaryRow(*row) for row in columns]


def _integers(values: Array) -> list[int | None]:
    return [None if value == MISSING else value for value in values.tolist()]


def _reals(values: Array) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


def time_rows(totals: Iterable[Total], labels: Callable[[Total], Labels]) -> list[SummaryRow]:
    """Return one row of durations per labels. Several totals have no median and no deviation."""
    return [
        SummaryRow(key, t.count, t.sum_ns, t.avg_ns, t.med_ns, t.min_ns, t.max_ns, t.stddev_ns)
        for key, t in combine_by(totals, labels).items()
    ]


def size_rows(totals: Iterable[Total], labels: Callable[[Total], Labels]) -> list[SummaryRow]:
    """Return one row of bytes per labels, as `time_rows` does of durations."""
    return [
        SummaryRow(
            key,
            t.count,
            t.bytes_sum,
            t.bytes_avg,
            t.bytes_med,
            t.bytes_min,
            t.bytes_max,
            t.bytes_stddev,
        )
        for key, t in combine_by(totals, labels).items()
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
    return (
        Column(
            f"{subject}_pct",
            Unit.PCT,
            "Share of the time of all rows of this table.",
            adds=True,
            printed=Printed("Time (%)", 1),
        ),
        Column(
            f"{subject}_sum_ns",
            Unit.NS,
            "Sum of the durations; overlaps count as often as they occur.",
            better="less",
            counted_by=count.name,
            printed=Printed("Total Time (ns)"),
        ),
        count,
        *statistics_columns(statistics_docs(), header="{} (ns)"),
        *labels,
    )


def time_table(columns: Sequence[Column], rows: Sequence[SummaryRow]) -> ColumnValues:
    """Return the values of `time_columns`."""
    totals = [row.total or 0 for row in rows]
    shares = percent(np.array(totals), sum(totals)).tolist()
    return _table(columns, rows, [shares, *_totals_and_counts(rows)])


def size_columns(count: Column, *labels: Column) -> tuple[Column, ...]:
    """Return the columns of a summary of sizes, printed in MB (10^6 bytes)."""

    def column(name: str, header: str, doc: str, *, real: bool = False) -> Column:
        printed = Printed(f"{header} (MB)", 3, MEGA)
        return Column(name, Unit.BYTES, doc, real=real, brief=False, printed=printed)

    return (
        Column(
            "bytes_sum",
            Unit.BYTES,
            "Bytes of all of them.",
            better="less",
            counted_by=count.name,
            printed=Printed("Total (MB)", 3, MEGA),
        ),
        count,
        column("bytes_avg", "Avg", "Mean size.", real=True),
        column("bytes_med", "Med", "Median size (mean of the middle two).", real=True),
        column("bytes_min", "Min", "Smallest."),
        column("bytes_max", "Max", "Largest."),
        column("bytes_stddev", "StdDev", "Sample standard deviation; 0 for one.", real=True),
        *labels,
    )


def size_table(columns: Sequence[Column], rows: Sequence[SummaryRow]) -> ColumnValues:
    """Return the values of `size_columns`."""
    return _table(columns, rows, _totals_and_counts(rows))


def _totals_and_counts(rows: Sequence[SummaryRow]) -> list[list[Any]]:
    return [[row.total for row in rows], [row.count for row in rows]]


def row_statistics(rows: Sequence[SummaryRow]) -> list[list[Any]]:
    """Return the values of the columns from mean to deviation, one list per column."""
    return [
        [row.mean for row in rows],
        [row.median for row in rows],
        [row.minimum for row in rows],
        [row.maximum for row in rows],
        [row.deviation for row in rows],
    ]


def _table(
    columns: Sequence[Column], rows: Sequence[SummaryRow], first: list[list[Any]]
) -> ColumnValues:
    texts = sum(column.unit is Unit.TEXT for column in columns)
    labels = [[row.labels[i] for row in rows] for i in range(texts)]
    values = [*first, *row_statistics(rows), *labels]
    return {column.name: each for column, each in zip(columns, values, strict=True)}
