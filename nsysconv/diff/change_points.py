"""Change points of a series: where it steps from one level to another. No random numbers.

E-divisive (Matteson and James, 2014) on ranks: the statistic of a split is the energy distance of both
sides, and a split counts if less than 0.1 % of all orders of the values have one as good. Of ranks this
depends on nothing but their number, so it is a table instead of a test by permutations. The steps, with
an example: docs/definitions/comparing.md, "History".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import pairwise

import numpy as np

Array = np.ndarray

FEWEST_VALUES = 14
"""Fewer values have no split that less than 0.1 % of their orders have."""
LEAST_SEGMENT = 5
"""Values between two change points, at least. Alone they hardly reach the critical value: six do."""
SMALLEST_CHANGE = 0.01
"""Medians of neighboring segments that differ by less are one level."""

# The greatest energy statistic that 0.1 % of the orders of so many ranks exceed
# (benchmarks/history_power.py); linear in the logarithm of the number in between.
_NUMBERS = (14, 16, 18, 20, 24, 30, 40, 60, 100, 200, 400)
_CRITICAL = (2.31, 2.43, 2.50, 2.59, 2.71, 2.84, 3.05, 3.22, 3.40, 3.49, 3.60)
_RANKS_AT_ONCE = 128
_CELLS_AT_ONCE = 1 << 16
_SHRINK = math.sqrt(0.5)
_MOST_CORRELATED = 0.9
_CORRELATION_SHOWS = 2.0
_ROUNDING = 1e-9
_FAR_DEVIATIONS = 5 * 1.4826
_FAR_SHARE = 0.03


def change_points(values: Sequence[float] | Array) -> list[int]:
    """Return where values, in the order of their recording, step: the first place of each new level."""
    series = np.asarray(values, float)
    points = _points(series, 1.0)
    correlation = _correlation(series, points)
    if points and correlation > _CORRELATION_SHOWS / math.sqrt(len(series)):
        # Values that depend on those before wander by themselves: so much larger a split has to be.
        points = _points(series, (1 + correlation) / (1 - correlation))
    return points


def outliers(values: Sequence[float], points: Sequence[int]) -> list[int]:
    """Return the places of values that are far from the median of their segment, by how these vary."""
    series, found = np.asarray(values, float), []
    for low, high in _segments(points, len(series)):
        far = np.abs(series[low:high] - np.median(series[low:high]))
        least = max(_FAR_DEVIATIONS * np.median(far), _FAR_SHARE * np.median(series[low:high]))
        found += (low + np.flatnonzero(far > least)).tolist()
    return found


def split_statistics(series: Array) -> Array:
    """Return the energy statistic of the ranks before and from each place of a series, from place 1.

    Of several series, a row each, the result has a row each. For n and m ranks, divided by n + m, on the
    two sides: n m / (n + m) x (twice the mean distance of a rank of one side and one of the other, less
    the mean distances within each side).
    """
    count = series.shape[-1]
    ranks = _ranks(series)
    parts = [
        (np.tril(distances, first).sum(-1), distances.sum(-1))
        for first in range(0, count, _RANKS_AT_ONCE)  # so many fit in the processor's cache
        for of_some in [ranks[..., first : first + _RANKS_AT_ONCE, None]]
        for distances in [np.abs(of_some - ranks[..., None, :])]
    ]
    to_earlier, to_all = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
    before = np.arange(1, count)
    after = count - before
    within = 2 * to_earlier.cumsum(-1)[..., :-1]
    totals = to_all.cumsum(-1)
    between = totals[..., :-1] - within
    rest = totals[..., -1:] - within - 2 * between
    distance = 2 * between / (before * after) - within / before**2 - rest / after**2
    return np.asarray(before * after / count * distance)


def _ranks(series: Array) -> Array:
    # From 1, equal values have their mean rank; divided by the number of values.
    one, others = series[..., None], series[..., None, :]
    twice = (one > others).sum(-1) + (one >= others).sum(-1) + 1
    return np.asarray(twice / (2 * max(series.shape[-1], 1)))


def _points(series: Array, strictness: float) -> list[int]:
    points, pending = [], [(0, len(series))]
    while pending:
        low, high = pending.pop()
        strength, place = max(_best_splits(series, low, high, strictness), default=(0.0, 0))
        if strength >= 1:
            points.append(place)
            pending += [(low, place), (place, high)]
    return _pruned(series, sorted(points), strictness)


def _stretches(low: int, high: int) -> Iterator[tuple[int, list[int]]]:
    # Sizes, and where stretches of each begin: the whole, and stretches that overlap by half or more,
    # shorter by a third each time: in the whole alone, a rise and the fall after it hide each other
    # (Kovács et al., 2023).
    length = float(high - low)
    while length >= FEWEST_VALUES:
        size = round(length)
        steps = math.ceil(2 * (high - low - size) / size)
        rest = high - low - size
        yield size, [low + round(step * rest / max(steps, 1)) for step in range(steps + 1)]
        length *= _SHRINK


def _best_splits(
    series: Array, low: int, high: int, strictness: float
) -> Iterator[tuple[float, int]]:
    # The strength and the place of the best split of each stretch.
    for size, starts in _stretches(low, high):
        inner = slice(LEAST_SEGMENT - 1, size - LEAST_SEGMENT)
        at_once = max(1, _CELLS_AT_ONCE // size**2)
        for some in (starts[i : i + at_once] for i in range(0, len(starts), at_once)):
            rows = np.stack([series[start : start + size] for start in some])
            statistics = split_statistics(rows)[:, inner]
            strengths = statistics.max(1) / (_critical(size) * strictness)
            places = statistics.argmax(1) + some + LEAST_SEGMENT
            yield from zip(strengths.tolist(), places.tolist(), strict=True)


def _critical(count: int) -> float:
    if count < FEWEST_VALUES:
        return math.inf
    return float(np.interp(math.log(count), np.log(_NUMBERS), _CRITICAL))


def _pruned(series: Array, points: list[int], strictness: float) -> list[int]:
    # Each point is moved to where it divides its two neighboring segments best, then the weakest goes,
    # until all hold between these. One that goes changes nothing for others than its neighbors.
    moved, strength = cache(partial(_moved, series)), cache(partial(_strength, series, strictness))
    while points:
        edges = [0, *points, len(series)]
        triples = list(zip(edges, points, edges[2:], strict=False))
        points = sorted({moved(*each) for each in triples})
        edges = [0, *points, len(series)]
        triples = list(zip(edges, points, edges[2:], strict=False))
        strengths = [strength(*each) for each in triples]
        weakest = int(np.argmin(strengths))
        if strengths[weakest] >= 1:
            break
        del points[weakest]
    return points


def _moved(series: Array, low: int, place: int, high: int) -> int:
    # Least absolute deviations from both medians; sums of squares would follow a lone outlier.
    before, after = np.median(series[low:place]), np.median(series[place:high])
    part = series[low:high]
    cost = np.concatenate([[0.0], np.cumsum(np.abs(part - before) - np.abs(part - after))])
    inner = np.arange(LEAST_SEGMENT, high - low - LEAST_SEGMENT + 1)
    return low + int(inner[np.argmin(cost[inner])]) if len(inner) else place


def _strength(series: Array, strictness: float, low: int, place: int, high: int) -> float:
    before, after = np.median(series[low:place]), np.median(series[place:high])
    if abs(after - before) < SMALLEST_CHANGE * abs(before) or before == after:
        return 0.0
    statistic = split_statistics(series[low:high])[place - low - 1]
    return float(statistic / (_critical(high - low) * strictness))


def _correlation(series: Array, points: Sequence[int]) -> float:
    # It is that of the ranks within segments, one place apart; a mean taken from them lowers it by 1/n.
    parts = [_ranks(series[low:high]) for low, high in _segments(points, len(series))]
    ranks = np.concatenate([part - part.mean() for part in parts if len(part)] or [np.zeros(1)])
    squares = float(np.sum(ranks**2))
    if squares < _ROUNDING:
        return 0.0
    found = float(np.sum(ranks[1:] * ranks[:-1])) / squares + (1 + len(points)) / len(series)
    return min(found, _MOST_CORRELATED)


def _segments(points: Sequence[int], count: int) -> list[tuple[int, int]]:
    edges = [0, *points, count]
    return list(pairwise(edges))
