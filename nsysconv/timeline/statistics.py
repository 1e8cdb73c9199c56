"""Grouping and statistics of int64 columns: exact sums, medians, sample standard deviations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.intervals import counts, sums

Array = np.ndarray

# Values below 2^40 (18 minutes in ns) and group numbers below 2^23 sort as one integer.
_VALUE_BITS = 40
_GROUP_LIMIT = 1 << 23


@dataclass(frozen=True)
class Statistics:
    """One entry per group: `count` counts all rows, the rest those whose value is recorded.

    MISSING or NaN where a group has no recorded value.
    """

    count: Array
    total: Array
    mean: Array
    median: Array
    minimum: Array
    maximum: Array
    deviation: Array


def number(*columns: Array) -> tuple[Array, list[Array]]:
    """Numbers the distinct rows of integer columns 0.., in sorted order.

    Returns each row's number and, per column, the distinct rows' values.
    """
    rows = len(columns[0])
    numbers = np.zeros(rows, np.int64)
    for place, column in enumerate(columns):
        distinct, index = _indexed(column)
        if place == 0:
            numbers = index
        elif len(distinct) > 1:
            _, numbers = _indexed(numbers * len(distinct) + index)
    representative = np.empty(int(numbers.max()) + 1 if rows else 0, np.int64)
    representative[numbers[::-1]] = np.arange(rows)[::-1]
    return numbers, [column[representative] for column in columns]


def _indexed(column: Array) -> tuple[Array, Array]:
    """The distinct values and each row's place among them; linear where values are dense."""
    if len(column) == 0:
        return column[:0], np.empty(0, np.int64)
    if column.strides == (0,):  # one value everywhere
        return column[:1], np.zeros(len(column), np.int64)
    known = column[column != MISSING] if column.min() == MISSING else column
    if len(known) == 0:
        return column[:1], np.zeros(len(column), np.int64)
    low, high = int(known.min()), int(known.max())
    if len(known) < len(column) or high - low > 4 * len(column) + 1024:
        distinct, index = np.unique(column, return_inverse=True)
        return distinct, index.reshape(-1)
    seen = np.zeros(high - low + 1, bool)
    seen[column - low] = True
    place = np.cumsum(seen) - 1
    return np.flatnonzero(seen) + low, place[column - low]


def distinct(values: Array) -> Array:
    """The distinct values, sorted; quick where few values repeat many times over a small range."""
    if values.strides == (0,) and len(values):
        return values[:1]
    if len(values) < 1000:
        return np.unique(values)
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values):
        return np.unique(values)
    seen = np.zeros(high - low + 1, bool)
    seen[values - low] = True
    return np.flatnonzero(seen) + low


def grouped_statistics(groups: Array, values: Array, count: int) -> Statistics:
    """Statistics of `values` per group number 0..count-1; MISSING values are counted only."""
    all_rows = counts(groups, count)
    known = values != MISSING
    if not known.all():
        groups, values = groups[known], values[known]
    size = counts(groups, count)
    ordered = _sorted_within(groups, values, count)
    first = np.cumsum(size) - size
    some = size > 0
    last = np.maximum(first + size - 1, 0)
    middle_low, middle_high = first + np.maximum(size - 1, 0) // 2, first + size // 2
    total = sums(groups, values, count)

    def pick(places: Array) -> Array:
        result = np.full(count, MISSING)
        result[some] = ordered[places[some]]
        return result

    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(some, total / size, np.nan)
        median = np.full(count, np.nan)
        median[some] = (ordered[middle_low[some]] + ordered[middle_high[some]]) / 2
        # Two passes: the squares of nanoseconds would drown small deviations.
        squares = (
            np.bincount(groups, (values - mean[groups]) ** 2, count)
            if len(values)
            else np.zeros(count)
        )
        deviation = np.where(
            size > 1, np.sqrt(squares / np.maximum(size - 1, 1)), np.where(some, 0.0, np.nan)
        )
    total = np.where(some | (all_rows == 0), total, MISSING)
    return Statistics(all_rows, total, mean, median, pick(first), pick(last), deviation)


def _sorted_within(groups: Array, values: Array, count: int) -> Array:
    """The values, sorted by group and then by value."""
    if len(values) == 0:
        return values
    if count < _GROUP_LIMIT and int(values.min()) >= 0 and int(values.max()) < 1 << _VALUE_BITS:
        packed = (groups << _VALUE_BITS) | values
        packed.sort()
        result: Array = packed & ((1 << _VALUE_BITS) - 1)
        return result
    return values[np.lexsort((values, groups))]
