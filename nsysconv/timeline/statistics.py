"""Grouping and statistics of int64 columns: exact sums, medians, sample standard deviations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.groups import arranged, blocks, counts, squares, sums

Array = np.ndarray

_INT32 = int(np.iinfo(np.int32).max)
# As many group numbers fit in 16 bits.
_MANY_GROUPS = 1 << 16


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


def percent(part: Array | float, whole: Array | float) -> Array:
    """Shares of a whole in per cent; NaN where it is 0.

    The whole is 100 and no part is more, however the quotient is rounded.
    """
    part, whole = np.asarray(part), np.asarray(whole)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = 100.0 * part / np.where(whole == 0, np.nan, whole)
    share = np.where(part <= whole, np.minimum(share, 100.0), share)
    return np.where((part == whole) & (whole != 0), 100.0, share)


def number(*columns: Array) -> tuple[Array, list[Array]]:
    """Numbers the distinct rows of integer columns 0.., in sorted order.

    Returns each row's number and, per column, the distinct rows' values.
    """
    first, *others = columns
    values, numbers = _indexed(first)
    found = [values]
    for column in others:
        values, index = _indexed(column)
        if len(found[0]) == 1:
            found, numbers = [*(np.repeat(v, len(values)) for v in found), values], index
            continue
        if len(values) == 1:
            found.append(np.repeat(values, len(found[0])))
            continue
        if len(found[0]) * len(values) > _INT32:
            numbers = numbers.astype(np.int64)
        # In place: these may be the longest columns there are.
        numbers *= len(values)
        numbers += index
        del index
        pairs, numbers = _indexed(numbers, spent=True)
        head, tail = np.divmod(pairs, len(values))
        found = [*(v[head] for v in found), values[tail]]
    return numbers, found


def _indexed(column: Array, *, spent: bool = False) -> tuple[Array, Array]:
    """The distinct values, as int64, and each row's place among them; linear where they are dense.

    `spent`: nobody else looks at the column, and the places may be written over it.
    """
    if len(column) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    if column.strides == (0,):  # one value everywhere
        return column[:1].astype(np.int64), np.broadcast_to(np.int32(0), len(column))
    low, high = int(column.min()), int(column.max())
    if low == MISSING != high:
        return _indexed_but_for_missing(column)
    if high - low > 4 * len(column) + 1024:
        values, index = np.unique(column, return_inverse=True)
        return values.astype(np.int64), index.reshape(-1).astype(np.int32)
    seen = np.zeros(high - low + 1, bool)
    # What is made of the column in between fits in the cache.
    for block in blocks(len(column)):
        seen[(column[block] - low).astype(np.intp)] = True
    place = np.cumsum(seen, dtype=np.int32) - 1
    index = column if spent and column.dtype == np.int32 else np.empty(len(column), np.int32)
    for block in blocks(len(column)):
        index[block] = place.take(column[block] - low)
    return np.flatnonzero(seen) + low, index


def _indexed_but_for_missing(column: Array) -> tuple[Array, Array]:
    """As `_indexed` of a column in which MISSING stands beside values: these may be dense without it."""
    known = column != MISSING
    values, place = _indexed(column[known])
    index = np.zeros(len(column), np.int32)
    index[known] = place + 1
    return np.concatenate(([MISSING], values)), index


def distinct(values: Array) -> Array:
    """The distinct values, sorted; quick where few values repeat many times over a small range."""
    if values.strides == (0,) and len(values):
        return values[:1]
    if len(values) < 1000 or int(values.max()) - int(values.min()) > 4 * len(values):
        # As np.unique, which would load numpy.ma (8 ms).
        ordered = np.sort(values)
        first = np.ones(len(ordered), bool)
        first[1:] = ordered[1:] != ordered[:-1]
        return ordered[first]
    low, high = int(values.min()), int(values.max())
    seen = np.zeros(high - low + 1, bool)
    for block in blocks(len(values)):
        seen[(values[block] - low).astype(np.intp)] = True
    return np.flatnonzero(seen) + low


def grouped_statistics(groups: Array, values: Array, count: int) -> Statistics:
    """Statistics of `values` per group number 0..count-1; MISSING values are counted only."""
    all_rows = counts(groups, count)
    known = values != MISSING
    if not known.all():
        groups, values = groups[known], values[known]
    size = counts(groups, count)
    ordered = _sorted_within(groups, values, size)
    middle = (np.maximum(size - 1, 0) // 2, size // 2)
    return _statistics(all_rows, size, size, sums(groups, values, count), ordered, middle)


def weighted_statistics(groups: Array, values: Array, weights: Array, count: int) -> Statistics:
    """As `grouped_statistics`, each value counting as often as its weight says; but `count` of rows."""
    all_rows = counts(groups, count)
    known = values != MISSING
    groups, values, weights = groups[known], values[known], weights[known]
    at = np.lexsort((values, groups))
    groups, values, weights = groups[at], values[at], weights[at]
    size, times = counts(groups, count), sums(groups, weights, count)
    first = np.cumsum(size) - size
    upto = np.cumsum(weights)
    before = np.concatenate(([0], upto))[first]
    middle = tuple(
        np.searchsorted(upto, before + half, side="right") - first
        for half in (np.maximum(times - 1, 0) // 2, times // 2)
    )
    total = sums(groups, values * weights, count)
    return _statistics(all_rows, size, times, total, values, middle, weights)


def _statistics(
    all_rows: Array,
    size: Array,
    times: Array,
    total: Array,
    ordered: Array,
    middle: tuple[Array, ...],
    weights: Array | None = None,
) -> Statistics:
    """The statistics of values that are sorted by group and then by value.

    `size` is how many each group has, and `times` how often all of these count; `middle` are the places
    of the middle two within their group.
    """
    count, some = len(size), size > 0
    first = np.cumsum(size) - size

    def pick(places: Array) -> Array:
        result = np.full(count, MISSING)
        result[some] = ordered[(first + places)[some]]
        return result

    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(some, total / times, np.nan)
    # In two passes: the squares of nanoseconds themselves would drown small deviations.
    squared = squares(ordered, size, mean, weights)
    deviation = np.where(
        times > 1, np.sqrt(squared / np.maximum(times - 1, 1)), np.where(some, 0.0, np.nan)
    )
    median = np.full(count, np.nan)
    low, high = (pick(places)[some] for places in middle)
    median[some] = (low + high) / 2
    total = np.where(some | (all_rows == 0), total, MISSING)
    return Statistics(
        all_rows, total, mean, median, pick(np.zeros(count, np.int64)), pick(size - 1), deviation
    )


def _sorted_within(groups: Array, values: Array, size: Array) -> Array:
    """The values, sorted by group and then by value; `size` is how many each group has."""
    if len(size) >= _MANY_GROUPS:
        result: Array = values[np.lexsort((values, groups))]
        return result
    # Many short sorts are quicker than one long.
    result = arranged(groups, values, len(size))
    for low, high in pairwise(np.concatenate(([0], np.cumsum(size))).tolist()):
        result[low:high].sort()
    return result
