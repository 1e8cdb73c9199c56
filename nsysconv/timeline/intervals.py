"""Half-open intervals [start, end) of int64 nanoseconds: unions, measures, gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.groups import blocks

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
        before = np.zeros(len(self.starts) + 1, np.int64)
        np.cumsum(self.ends - self.starts, out=before[1:])
        return np.where(high > low, self._until(high, before) - self._until(low, before), 0)

    def _until(self, moments: Array, before: Array) -> Array:
        """How much of the union lies before each moment; `before` is that of its intervals' starts."""
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


def union(starts: Array, ends: Array, which: Array | None = None) -> Union:
    """The union of intervals in any order, all or those of a mask; those without length (or less) add
    nothing.
    """
    if (starts[1:] < starts[:-1]).any():
        if which is not None:
            starts, ends, which = starts[which], ends[which], None
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    return _united(
        (starts[block], ends[block], None if which is None else which[block])
        for block in blocks(len(starts))
    )


def united(one: Union, other: Union) -> Union:
    """The union of both."""
    longer, shorter = (one, other) if len(one.starts) > len(other.starts) else (other, one)
    return _united(_by_start(longer, shorter)) if len(shorter.starts) else longer


def _by_start(one: Union, other: Union) -> Iterator[tuple[Array, Array, None]]:
    """The intervals of both by their starts, some at a time."""
    low = 0
    for block in blocks(len(one.starts)):
        following = one.starts[block.stop : block.stop + 1]
        high = int(np.searchsorted(other.starts, following[0])) if len(following) else None
        starts = np.concatenate((one.starts[block], other.starts[low:high]))
        ends = np.concatenate((one.ends[block], other.ends[low:high]))
        order = np.argsort(starts, kind="stable")
        yield starts[order], ends[order], None
        low = high or 0


def _united(parts: Iterable[tuple[Array, Array, Array | None]]) -> Union:
    """The union of intervals that come by their starts, some at a time with a mask of those meant."""
    # Each interval of the union ends where the latest end so far is before the next start.
    firsts, lasts = [np.empty(0, np.int64)], []
    latest = MISSING
    for s, e, which in parts:
        kept = e > s if which is None else which & (e > s)
        if not kept.all():
            s, e = s[kept], e[kept]
        reach = np.maximum.accumulate(np.append(latest, e))
        fresh = s > reach[:-1]
        firsts.append(s[fresh])
        lasts.append(reach[:-1][fresh])
        latest = reach[-1]
    # What was there before the first is no end.
    return Union(np.concatenate(firsts), np.concatenate((*lasts, [latest]))[1:])


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
