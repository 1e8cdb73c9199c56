"""Half-open intervals [start, end) of int64 nanoseconds: unions, measures, gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Union:
    """Disjoint, sorted, non-empty intervals."""

    starts: Array
    ends: Array

    @property
    def measure(self) -> int:
        """The time covered."""
        return int((self.ends - self.starts).sum())

    def covered(self, low: Array, high: Array) -> Array:
        """Per interval [low, high): how much of it the union covers. An empty interval covers 0."""
        if not len(self.starts):
            return np.zeros(len(low), np.int64)
        return np.where(high > low, self._until(high) - self._until(low), 0)

    def _until(self, moments: Array) -> Array:
        """How much of the union lies before each moment."""
        before = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        index = np.searchsorted(self.starts, moments, side="right")
        last = np.maximum(index - 1, 0)
        beyond = np.where(index > 0, np.maximum(self.ends[last] - moments, 0), 0)
        return before[index] - beyond

    def gaps(self, low: int, high: int) -> tuple[Array, Array]:
        """The maximal intervals of [low, high) outside the union: starts and ends."""
        edges_low = np.concatenate(([low], np.clip(self.ends, low, high)))
        edges_high = np.concatenate((np.clip(self.starts, low, high), [high]))
        keep = edges_high > edges_low
        return edges_low[keep], edges_high[keep]


def union(starts: Array, ends: Array) -> Union:
    """The union of intervals in any order; those without length (or less) add nothing."""
    keep = ends > starts
    if not keep.all():
        starts, ends = starts[keep], ends[keep]
    if len(starts) == 0:
        return Union(np.empty(0, np.int64), np.empty(0, np.int64))
    if len(starts) > 1 and (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    fresh = np.concatenate(([True], starts[1:] > reach[:-1]))
    last = np.concatenate((np.flatnonzero(fresh)[1:] - 1, [len(starts) - 1]))
    return Union(starts[fresh], reach[last])


@dataclass(frozen=True)
class Level:
    """A number that changes in time: `levels[i]` from `times[i]` on, 0 before the first."""

    times: Array
    levels: Array

    def integral(self, low: Array, high: Array) -> Array:
        """Per interval [low, high) the level times the time it lasts. An empty interval gives 0."""
        if not len(self.times):
            return np.zeros(len(low), np.int64)
        return np.where(high > low, self._until(high) - self._until(low), 0)

    def _until(self, moments: Array) -> Array:
        steps = self.levels[:-1] * np.diff(self.times)
        before = np.concatenate(([0], np.cumsum(steps)))
        place = np.searchsorted(self.times, moments, side="right") - 1
        last = np.maximum(place, 0)
        return np.where(
            place < 0, 0, before[last] + self.levels[last] * (moments - self.times[last])
        )


def capped_sum(starts: Array, ends: Array, amounts: Array, cap: int) -> Level:
    """At each moment the amounts of the intervals that hold it, added up, and `cap` at most."""
    times = np.concatenate((starts, ends))
    order = np.argsort(times, kind="stable")
    times = times[order]
    levels = np.cumsum(np.concatenate((amounts, -amounts))[order])
    # Of what happens at one moment the last sum counts.
    last = np.concatenate((times[1:] != times[:-1], [True])) if len(times) else times == 0
    return Level(times[last], np.minimum(levels[last], cap))


def intersecting_sums(starts: Array, ends: Array, values: Array, low: Array, high: Array) -> Array:
    """Per window [low, high) the values of the intervals that intersect it, added up.

    The intervals have a length; `values` has one row per quantity and one column per interval, and
    so has the result with windows. An empty window intersects nothing.
    """
    # What begins before a window's end, less what is over by its start.
    begun, over = np.argsort(starts, kind="stable"), np.argsort(ends, kind="stable")
    nothing = np.zeros((len(values), 1), values.dtype)
    until_begun = np.hstack((nothing, np.cumsum(values[:, begun], axis=1)))
    until_over = np.hstack((nothing, np.cumsum(values[:, over], axis=1)))
    result = (
        until_begun[:, np.searchsorted(starts[begun], high, side="left")]
        - until_over[:, np.searchsorted(ends[over], low, side="right")]
    )
    return np.where(high > low, result, 0)


def equal_parts(low: int, high: int, count: int) -> Array:
    """The edges that cut [low, high) in `count` parts, one more than there are parts.

    Lengths differ by 1 ns at most. Where there are fewer nanoseconds than that, each is a part; an
    empty interval is one part.
    """
    count = max(1, min(count, high - low))
    whole, rest = divmod(high - low, count)
    place = np.arange(count + 1, dtype=np.int64)
    return low + whole * place + rest * place // count
