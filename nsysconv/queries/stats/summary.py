"""What the summaries of `nsys stats` share: sums by name, their statistics and columns.

Formulas: docs/nsys-stats.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from nsysconv.queries.contract import Array, ColumnValues
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import grouped_statistics, percent
from nsysconv.timeline.totals import Total, combine_by
from nsysconv.units import Unit

K = TypeVar("K", bound=Hashable)
Labels = tuple[str | None, ...]

_MEGA = 1_000_000


@dataclass(frozen=True)
class Sum:
    """What is told of one name, in ns or bytes; None: not recorded. `labels` are its texts."""

    labels: Labels
    count: int
    total: int | None
    mean: float | None
    median: float | None
    minimum: int | None
    maximum: int | None
    deviation: float | None


def sums(groups: Array, values: Array, labels: Sequence[Labels]) -> list[Sum]:
    """One sum per group number, of what `labels` says; MISSING values are counted only."""
    told = grouped_statistics(groups, values, len(labels))
    columns = zip(
        labels,
        told.count.tolist(),
        _known(told.total),
        _numbers(told.mean),
        _numbers(told.median),
        _known(told.minimum),
        _known(told.maximum),
        _numbers(told.deviation),
        strict=True,
    )
    return [Sum(*row) for row in columns]


def _known(values: Array) -> list[int | None]:
    return [None if value == MISSING else value for value in values.tolist()]


def _numbers(values: Array) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


def times_of_totals(
    found: Iterable[Total], key: Callable[[Total], K], labels: Callable[[K], Labels]
) -> list[Sum]:
    """Sums of durations by what `key` says, from totals; of several as one nobody tells the median and
    the deviation.
    """
    return [
        Sum(labels(name), t.count, t.sum_ns, t.avg_ns, t.med_ns, t.min_ns, t.max_ns, t.stddev_ns)
        for name, t in combine_by(found, key).items()
    ]


def sizes_of_totals(
    found: Iterable[Total], key: Callable[[Total], K], labels: Callable[[K], Labels]
) -> list[Sum]:
    """As `times_of_totals`, of bytes."""
    return [
        Sum(
            labels(name),
            t.count,
            t.bytes_sum,
            t.bytes_avg,
            t.bytes_med,
            t.bytes_min,
            t.bytes_max,
            t.bytes_stddev,
        )
        for name, t in combine_by(found, key).items()
    ]


def most_first(rows: Iterable[Sum]) -> list[Sum]:
    """The rows, largest total first; then those of fewer, then by their texts."""
    return sorted(
        rows, key=lambda row: (-(row.total or 0), row.count, [text or "" for text in row.labels])
    )


def time_columns(what: str, count: Column, *labels: Column) -> tuple[Column, ...]:
    """The columns of a summary of times, whose sum and share are called after `what`."""
    return (
        Column(
            f"{what}_pct",
            Unit.PCT,
            "Share of the time of all rows of this table.",
            adds=True,
            printed=Printed("Time (%)", 1),
        ),
        Column(
            f"{what}_sum_ns",
            Unit.NS,
            "Sum of the durations; overlaps count as often as they occur.",
            better="less",
            counted_by=count.name,
            printed=Printed("Total Time (ns)"),
        ),
        count,
        *statistics_columns(),
        *labels,
    )


def statistics_columns(what: str = "", letter: str = "") -> tuple[Column, ...]:
    """Mean, median, extremes and deviation of durations; `what` of them, and nsys's letter for it."""
    name = f"{what}_" if what else ""
    of = f" of the {what} times" if what else ""
    return (
        Column(
            f"{name}avg_ns",
            Unit.NS,
            f"Mean{of}.",
            better="less",
            real=True,
            printed=Printed(f"{letter}Avg (ns)", 1),
        ),
        Column(
            f"{name}med_ns",
            Unit.NS,
            f"Median{of} (mean of the middle two).",
            better="less",
            real=True,
            brief=False,
            printed=Printed(f"{letter}Med (ns)", 1),
        ),
        Column(
            f"{name}min_ns",
            Unit.NS,
            f"Shortest{of}.",
            better="less",
            brief=False,
            printed=Printed(f"{letter}Min (ns)"),
        ),
        Column(
            f"{name}max_ns",
            Unit.NS,
            f"Longest{of}.",
            better="less",
            brief=False,
            printed=Printed(f"{letter}Max (ns)"),
        ),
        Column(
            f"{name}stddev_ns",
            Unit.NS,
            f"Sample standard deviation{of}; 0 for one.",
            better="less",
            real=True,
            brief=False,
            printed=Printed(f"{letter}StdDev (ns)", 1),
        ),
    )


def size_columns(count: Column, *labels: Column) -> tuple[Column, ...]:
    """The columns of a summary of sizes, printed in MB (10^6 bytes)."""

    def column(name: str, header: str, doc: str, *, real: bool = False) -> Column:
        printed = Printed(f"{header} (MB)", 3, _MEGA)
        return Column(name, Unit.BYTES, doc, real=real, brief=False, printed=printed)

    total = Column(
        "bytes_sum",
        Unit.BYTES,
        "Bytes of all of them.",
        better="less",
        counted_by=count.name,
        printed=Printed("Total (MB)", 3, _MEGA),
    )
    return (
        total,
        count,
        column("bytes_avg", "Avg", "Mean size.", real=True),
        column("bytes_med", "Med", "Median size (mean of the middle two).", real=True),
        column("bytes_min", "Min", "Smallest."),
        column("bytes_max", "Max", "Largest."),
        column("bytes_stddev", "StdDev", "Sample standard deviation; 0 for one.", real=True),
        *labels,
    )


def time_table(columns: Sequence[Column], rows: Sequence[Sum]) -> ColumnValues:
    """The values of `time_columns`."""
    whole = sum(row.total or 0 for row in rows)
    shares = percent(np.array([row.total or 0 for row in rows]), whole).tolist()
    totals = [row.total for row in rows]
    counts = [row.count for row in rows]
    values: list[Sequence[Any]] = [
        shares,
        totals,
        counts,
        *statistics_of(rows),
        *_labels(columns, rows),
    ]
    return {column.name: each for column, each in zip(columns, values, strict=True)}


def size_table(columns: Sequence[Column], rows: Sequence[Sum]) -> ColumnValues:
    """The values of `size_columns`."""
    totals = [row.total for row in rows]
    counts = [row.count for row in rows]
    values: list[Sequence[Any]] = [totals, counts, *statistics_of(rows), *_labels(columns, rows)]
    return {column.name: each for column, each in zip(columns, values, strict=True)}


def statistics_of(rows: Sequence[Sum]) -> list[list[int | float | None]]:
    """The values of `statistics_columns`."""
    return [
        [row.mean for row in rows],
        [row.median for row in rows],
        [row.minimum for row in rows],
        [row.maximum for row in rows],
        [row.deviation for row in rows],
    ]


def _labels(columns: Sequence[Column], rows: Sequence[Sum]) -> list[list[str | None]]:
    texts = [column for column in columns if column.unit is Unit.TEXT]
    return [[row.labels[i] for row in rows] for i in range(len(texts))]
