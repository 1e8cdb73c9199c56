"""Counts and exact sums by group number, block by block: what they need in between fits in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np

from nsysconv.report import MISSING

Array = np.ndarray

BLOCK = 1 << 17
"""So many rows are computed at a time; results do not depend on it."""
# If numbers lie no further apart than this, they are looked up in a table.
_NEAR = 1 << 16
# For so few groups, a search for each is faster than a sort of the members.
_FEW_GROUPS = 4
# A double counts integers exactly up to 2^53, and bincount is the fastest way to add.
_EXACT = (1 << 53) // BLOCK


@dataclass(frozen=True)
class Columns:
    """Columns of equal length: those fields of a dataclass that are arrays."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return next(len(value) for value in vars(self).values() if isinstance(value, np.ndarray))

    def take(self, which: Array | slice) -> Self:
        """Return the rows of a mask, of indices or of a slice."""
        columns = {name: v for name, v in vars(self).items() if isinstance(v, np.ndarray)}
        if not isinstance(which, slice) and which.dtype == bool and not which.all():
            # With several columns, indices are faster than a mask, which numpy would convert for each
            # column.
            which = indices(which)
        return replace(self, **{name: take(column, which) for name, column in columns.items()})


def blocks(length: int) -> Iterator[slice]:
    """Yield slices that cover 0..length-1 in order, each small enough for the cache."""
    for low in range(0, length, BLOCK):
        yield slice(low, min(low + BLOCK, length))


def batches(size: Array, most: int) -> Iterator[slice]:
    """Yield slices of entries whose sizes add up to `most` at most; what is larger is alone."""
    edges = np.concatenate(([0], np.cumsum(size)))
    low = 0
    while low < len(size):
        high = int(np.searchsorted(edges, edges[low] + most, side="right")) - 1
        yield slice(low, max(high, low + 1))
        low = max(high, low + 1)


def indices(mask: Array) -> Array:
    """Return where a mask of less than 2^31 places is true, as int32."""
    result = np.empty(np.count_nonzero(mask), np.int32)
    done = 0
    for block in blocks(len(mask)):
        found = np.flatnonzero(mask[block])
        result[done : done + len(found)] = found + block.start
        done += len(found)
    return result


def among(values: Array, ordered: Array) -> Array:
    """Return which values are among others, as a mask; those are in order."""
    # `np.isin` would load `numpy.ma`.
    if not len(ordered):
        return np.zeros(len(values), bool)
    low, high = int(ordered[0]), int(ordered[-1])
    if 0 < low <= high < min(low + _NEAR, 1 << 30):
        # A table is five times as fast. Its ends are for what is below and above, wrapped around or not.
        table = np.zeros(high - low + 3, bool)
        table[ordered - low + 1] = True
        if values.dtype.itemsize < np.dtype(np.int32).itemsize:
            values = values.astype(np.int32)
        result: Array = table.take(values - (low - 1), mode="clip")
        return result
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: Array = ordered[place] == values
    return found


def places_of(values: Array, ordered: Array) -> Array:
    """Return where in others these values are, in order; the others are in order and distinct."""
    if not len(ordered):
        return np.empty(0, np.int64)
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return distinct(place[ordered.take(place) == values])


def take(column: Array, which: Array | slice) -> Array:
    """Return `column[which]`; the column itself for all of it, one value everywhere where it is that."""
    if isinstance(which, slice):
        return column[which]
    if column.strides == (0,) and len(column):
        count = np.count_nonzero(which) if which.dtype == bool else len(which)
        return np.broadcast_to(column[0], int(count))
    if which.dtype == bool:
        result: Array = column if which.all() else column[which]
        return result
    result = np.empty(len(which), column.dtype)
    # The copy goes block by block, because numpy converts all indices to int64 before it uses them.
    for block in blocks(len(which)):
        result[block] = column.take(which[block])
    return result


def concatenate(columns: Sequence[Array]) -> Array:
    """Return the columns one after the other; one value everywhere stays one value."""
    filled = [column for column in columns if len(column)]
    if filled and all(column.strides == (0,) and column[0] == filled[0][0] for column in filled):
        return np.broadcast_to(filled[0][0], sum(len(column) for column in filled))
    # Columns without rows do not determine the type of the result.
    return np.concatenate(filled or columns)


def by_group(groups: Array, count: int, values: Array | None = None) -> list[Array]:
    """Return per group number 0..count-1 the values (None: int32 indices) of its members, in order."""
    if count == 0:
        return []
    if 1 < count <= _FEW_GROUPS:
        members = [indices(groups == number) for number in range(count)]
        return members if values is None else [take(values, which) for which in members]
    if values is None:
        values = np.arange(len(groups), dtype=np.int32)
    if count == 1:
        return [values]
    order = sort_by_group(groups, values, count)
    edges = np.concatenate(([0], np.cumsum(counts(groups, count)))).tolist()
    return [order[low:high] for low, high in pairwise(edges)]


def counts(groups: Array, count: int) -> Array:
    """Return how often each group number 0..count-1 occurs, as int64."""
    result = np.zeros(count, np.int64)
    for block in blocks(len(groups)):
        result += np.bincount(groups[block], minlength=count)
    return result


def sums(groups: Array, values: Array, count: int) -> Array:
    """Return exact int64 sums of integer `values` per group number 0..count-1."""
    result = np.zeros(count, np.int64)
    for block in blocks(len(values)):
        group, value = groups[block], values[block]
        least, most = int(value.min()), int(value.max())
        if least == most == 0:
            continue
        if least >= 0 and most < _EXACT:
            result += np.bincount(group, value, count).astype(np.int64)
        else:
            np.add.at(result, group, value)
    return result


def sort_by_group(groups: Array, values: Array, count: int, size: Array | None = None) -> Array:
    """Return the values by group number 0..count-1, each group's in the order in which they stand.

    `size` is how many each group has, where that is known.
    """
    if count > 1 << 16:
        result: Array = values[np.argsort(groups, kind="stable")]
        return result
    result = np.empty(len(values), values.dtype)
    size = counts(groups, count) if size is None else size
    following = np.cumsum(size) - size
    for block in blocks(len(groups)):
        # numpy sorts 16-bit keys by radix: linear, and stable.
        order = np.argsort(groups[block].astype(np.uint16), kind="stable")
        group = groups[block][order]
        here = np.bincount(group, minlength=count)
        first = following - (np.cumsum(here) - here)
        result[first[group] + np.arange(len(group))] = values[block][order]
        following += here
    return result


def squares(ordered: Array, size: Array, means: Array, weights: Array | None = None) -> Array:
    """Return per group the sum of the squared, weighted distances of its values from its mean.

    The values stand by group and then by size, `size` of each group. They are added up in that order:
    of the same values the sum is the same to the last digit, whatever other groups there are.
    """
    result = np.zeros(len(size))
    # Groups are added up in blocks of their own, as many at a time as fit in the cache.
    pieces = -(-size // BLOCK)
    group, place = np.repeat(np.arange(len(size)), pieces), np.arange(int(pieces.sum()))
    within = place - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = np.repeat(np.cumsum(size) - size, pieces) + within * BLOCK
    length = np.minimum(np.repeat(size, pieces) - within * BLOCK, BLOCK)
    until = np.cumsum(length)
    for mine in batches(length, BLOCK):
        rows = slice(int(first[mine.start]), int(until[mine.stop - 1]))
        distance = ordered[rows] - np.repeat(means[group[mine]], length[mine])
        distance *= distance
        if weights is not None:
            distance *= weights[rows]
        np.add.at(result, group[mine], np.add.reduceat(distance, first[mine] - rows.start))
    return result


_INT32 = int(np.iinfo(np.int32).max)
# So many group numbers fit in 16 bits.
_MANY_GROUPS = 1 << 16


@dataclass(frozen=True)
class Statistics:
    """One entry per group: `count` of all rows, the rest of recorded values, MISSING or NaN for none."""

    count: Array
    total: Array
    mean: Array
    median: Array
    minimum: Array
    maximum: Array
    deviation: Array


def percent(part: Array | float, whole: Array | float) -> Array:
    """Return shares of a whole in per cent, 100 at most however they are rounded; NaN where it is 0."""
    part, whole = np.asarray(part), np.asarray(whole)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = 100.0 * part / np.where(whole == 0, np.nan, whole)
    share = np.where(part <= whole, np.minimum(share, 100.0), share)
    return np.where((part == whole) & (whole != 0), 100.0, share)


def factorize(*columns: Array) -> tuple[Array, list[Array]]:
    """Return each row's number among the distinct rows, in sorted order, and their values by column."""
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
        # The product is computed in place, because these may be the longest columns of all.
        numbers *= len(values)
        numbers += index
        del index
        pairs, numbers = _indexed(numbers, spent=True)
        head, tail = np.divmod(pairs, len(values))
        found = [*(v[head] for v in found), values[tail]]
    return numbers, found


def _indexed(column: Array, *, spent: bool = False) -> tuple[Array, Array]:
    # The result is the distinct values, as int64, and each row's place among them. The time is linear
    # if the values are dense. `spent`: no other code uses the column, and the places may overwrite it.
    if len(column) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    if column.strides == (0,):  # one value everywhere
        return column[:1].astype(np.int64), np.broadcast_to(np.int32(0), len(column))
    low, high = int(column.min()), int(column.max())
    if low == MISSING != high:  # the values may be dense without it
        known = column != MISSING
        values, place = _indexed(column[known])
        places = np.zeros(len(column), np.int32)
        places[known] = place + 1
        return np.concatenate(([MISSING], values)), places
    if high - low > 4 * len(column) + 1024:
        values, index = np.unique(column, return_inverse=True)
        return values.astype(np.int64), index.reshape(-1).astype(np.int32)
    seen = _seen(column, low, high)
    place = np.cumsum(seen, dtype=np.int32) - 1
    index = column if spent and column.dtype == np.int32 else np.empty(len(column), np.int32)
    for block in blocks(len(column)):
        index[block] = place.take(column[block] - low)
    return np.flatnonzero(seen) + low, index


def _seen(values: Array, low: int, high: int) -> Array:
    seen = np.zeros(high - low + 1, bool)
    for block in blocks(len(values)):
        seen[(values[block] - low).astype(np.intp)] = True
    return seen


def equal_places(values: Array) -> Array:
    """Return the places of values that are there more than once, in order."""
    order = np.argsort(values, kind="stable")
    same = values[order[1:]] == values[order[:-1]]
    return distinct(np.concatenate((order[1:][same], order[:-1][same])))


def repeated(places: Array, columns: Sequence[Array], group: Array) -> Array:
    """Return which rows are equal to one before them, if each row of their group has an equal one.

    `places` are the rows that may have one, and `columns` what they have to agree in, of these alone;
    `group` numbers the groups of all rows from 0 on.
    """
    number, _ = factorize(group[places], *columns)
    order = np.argsort(number, kind="stable")
    same = number[order[1:]] == number[order[:-1]]
    again, before = places[order[1:][same]], places[order[:-1][same]]
    is_single = np.ones(len(group), bool)
    is_single[again] = is_single[before] = False
    has_single = np.zeros(int(group.max()) + 1, bool)
    has_single[group[is_single]] = True
    result = np.zeros(len(group), bool)
    result[again] = ~has_single[group[again]]
    return result


def distinct(values: Array) -> Array:
    """Return the distinct values, sorted; quick where few values repeat many times over a small range."""
    if values.strides == (0,) and len(values):
        return values[:1]
    if len(values) >= 1000:
        low, high = int(values.min()), int(values.max())
        if high - low <= 4 * len(values):
            return np.flatnonzero(_seen(values, low, high)) + low
    # As np.unique, which would load numpy.ma (8 ms).
    ordered = np.sort(values)
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def grouped_statistics(groups: Array, values: Array, count: int) -> Statistics:
    """Return statistics of `values` per group number 0..count-1; MISSING values are counted only."""
    size = all_rows = counts(groups, count)
    known = values != MISSING
    if not known.all():
        groups, values = groups[known], values[known]
        size = counts(groups, count)
    ordered = _sorted_within(groups, values, size)
    middle = (np.maximum(size - 1, 0) // 2, size // 2)
    return _statistics(all_rows, size, size, sums(groups, values, count), ordered, middle)


def grouped_percentiles(groups: Array, values: Array, count: int, *shares: int) -> list[Array]:
    """Return for each share, in per cent, the least value of a group that so many of its values at least
    do not exceed; MISSING values do not count, and MISSING is that of a group without others.
    """
    known = values != MISSING
    if not known.all():
        groups, values = groups[known], values[known]
    size = counts(groups, count)
    ordered = np.append(_sorted_within(groups, values, size), MISSING)
    first = np.cumsum(size) - size
    places = (first + np.maximum(-(-share * size // 100), 1) - 1 for share in shares)
    return [np.where(size > 0, ordered[np.where(size > 0, at, -1)], MISSING) for at in places]


def weighted_statistics(groups: Array, values: Array, weights: Array, count: int) -> Statistics:
    """Return `grouped_statistics` of values that count as often as their weights say, `count` of rows."""
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
    # The values are sorted by group and then by value. `size` is how many each group has, `times` how
    # often all of these count; `middle` are the places of the middle two within their group.
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
    if len(size) >= _MANY_GROUPS:
        result: Array = values[np.lexsort((values, groups))]
        return result
    # Many short sorts are quicker than one long.
    result = sort_by_group(groups, values, len(size), size)
    for low, high in pairwise(np.concatenate(([0], np.cumsum(size))).tolist()):
        result[low:high].sort()
    return result


def weighted_mean(groups: Array, values: Array, weights: Array, count: int) -> Array:
    """Return per group the mean of values by weights; NaN counts as 0, and a group of NaN alone is it."""
    known = ~np.isnan(values)
    total = np.bincount(groups, np.where(known, values * weights, 0.0), count)
    weight = np.bincount(groups, weights, count)
    some = np.bincount(groups, known, count) > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(some, total / weight, np.nan)


DECADES = np.array([0, *(10**power for power in range(3, 18))], np.int64)
"""Ends of wide buckets of lengths and sizes: 0, 1,000, 10,000, …."""
ROUND_ENDS = np.array([0, *(n * 10**power for power in range(18) for n in (1, 2, 5))], np.int64)
"""Ends of narrow buckets of lengths: 0, 1, 2, 5, 10, 20, 50, …, round in each unit."""


def bucket_of(values: Array, ends: Array) -> Array:
    """Return per value the place in `ends` of the largest that is not above it; -1: none, or MISSING.

    Places are few small numbers: `factorize` takes a fortieth of the time that it takes for the ends.
    """
    result: Array = np.searchsorted(ends, values, side="right") - 1
    return result


Number = int | float

OVER_RANKS = ("min", "median", "max")
"""Names of the three rows in place of many ranks."""


def min_median_max(
    values: Sequence[Number | None],
) -> tuple[Number | None, Number | None, Number | None]:
    """Return least, median and greatest of the values that there are; None where there is none.

    The median of integers is an integer: of the mean of the middle two, a half is rounded up.
    """
    known = sorted(value for value in values if value is not None)
    if not known:
        return None, None, None
    both = known[(len(known) - 1) // 2] + known[len(known) // 2]
    middle = (both + 1) // 2 if isinstance(both, int) else both / 2
    return known[0], middle, known[-1]
