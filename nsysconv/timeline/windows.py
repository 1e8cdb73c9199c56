"""The time in which busy and idle time are measured: one window, or the union of several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from nsysconv.timeline.arrays import Array, sums
from nsysconv.timeline.intervals import (
    Pieces,
    Union,
    difference,
    expand_ranges,
    measures,
    union,
)


@dataclass(frozen=True)
class Window:
    """The time in which busy and idle time are measured: [start, end), and of it only `parts`.

    `parts` are two or more intervals, the first begins at `start` and the last ends at `end`; None: all
    of [start, end).
    """

    start: int
    end: int
    parts: Union | None = field(default=None, compare=False, kw_only=True)

    @property
    def length(self) -> int:
        """Return how long it is, in ns."""
        return self.end - self.start if self.parts is None else self.parts.measure

    @property
    def union(self) -> Union:
        """Return the window as a union of intervals."""
        return union(*self.edges) if self.parts is None else self.parts

    @property
    def edges(self) -> tuple[Array, Array]:
        """Return when its intervals begin, and when they end."""
        if self.parts is None:
            return np.array([self.start]), np.array([self.end])
        return self.parts.starts, self.parts.ends

    def measure(self, starts: Array, ends: Array, which: Array | None = None) -> int:
        """Return how much of the window the union of intervals covers, all or those of a mask."""
        return int(measures(starts, ends, *self.edges, which).sum())

    def cut(self, low: int, high: int) -> Window:
        """Return what of the window lies in [low, high): nothing, at the nearer end, where none does."""
        start = min(max(self.start, low), self.end)
        end = max(min(self.end, high), start)
        if self.parts is None:
            return Window(start, end)
        starts, ends = (np.clip(each, start, end) for each in self.edges)
        inside = ends > starts
        return window_of(Union(starts[inside], ends[inside])) or Window(start, start)

    def inside(self, one: Union) -> Union:
        """Return what of a union lies in the window."""
        near = one.between(self.start, self.end)
        if self.parts is not None:
            return common(near, self.parts)
        # Only the first and the last ones may lie outside.
        starts, ends = (np.clip(each, self.start, self.end) for each in (near.starts, near.ends))
        kept = ends > starts
        return Union(starts, ends) if kept.all() else Union(starts[kept], ends[kept])

    def gaps(self, running: Union) -> tuple[Array, Array]:
        """Return the maximal intervals of the window outside a union: starts and ends."""
        if self.parts is None:
            return running.gaps(self.start, self.end)
        idle = difference(self.parts, running)
        return idle.starts, idle.ends

    def pieces(self, starts: Array, ends: Array) -> Pieces:
        """Return the parts of intervals that lie in the window, by interval and then in time.

        Of an interval without length it is the interval itself, if it begins in the window.
        """
        if self.parts is None:
            met = (starts < self.end) & (np.maximum(ends, starts + 1) > self.start)
            interval = np.flatnonzero(met)
            cut = (np.clip(each[interval], self.start, self.end) for each in (starts, ends))
            return Pieces(interval, *cut)
        low, high = self.edges
        first = np.searchsorted(high, starts, side="right")
        past = np.searchsorted(low, np.maximum(ends, starts + 1), side="left")
        interval, part = expand_ranges(first, np.maximum(past - first, 0))
        return Pieces(
            interval,
            np.maximum(starts[interval], low[part]),
            np.minimum(ends[interval], high[part]),
        )

    def added(self, of: Callable[[Array, Array], Array], low: Array, high: Array) -> Array:
        """Return per interval [low, high) what `of` gives for its parts in the window, added up.

        Where the window is all of [start, end), intervals are taken as they are.
        """
        if self.parts is None:
            return of(low, high)
        pieces = self.pieces(low, high)
        return sums(pieces.interval, of(pieces.starts, pieces.ends), len(low))

    def lengths(self, low: Array, high: Array) -> Array:
        """Return per interval [low, high) how much of it lies in the window, as `added` does."""
        return self.added(lambda starts, ends: ends - starts, low, high)

    def holds(self, starts: Array, ends: Array) -> Array:
        """Return which intervals lie in one interval of the window as a whole, as a mask."""
        low, high = self.edges
        place = np.minimum(np.searchsorted(high, ends), len(high) - 1)
        result: Array = (low[place] <= starts) & (ends <= high[place])
        return result

    def ends_at(self, moments: Array) -> Array:
        """Return at which moments an interval of the window ends, as a mask."""
        return np.isin(moments, self.edges[1])

    def around(self, moment: int) -> Window | None:
        """Return the interval of the window with start < moment <= end; None: there is none."""
        starts, ends = self.edges
        place = int(np.searchsorted(ends, moment))
        if place == len(ends) or starts[place] >= moment:
            return None
        return Window(int(starts[place]), int(ends[place]))


def window_of(intervals: Union) -> Window | None:
    """Return the window that a union is; None where the union is empty."""
    if not len(intervals.starts):
        return None
    start, end = int(intervals.starts[0]), int(intervals.ends[-1])
    return Window(start, end, parts=intervals if len(intervals.starts) > 1 else None)


def common(one: Union, other: Union) -> Union:
    """Return what both unions cover."""
    if not len(one.starts) or not len(other.starts):
        return Union(one.starts[:0], one.ends[:0])
    edges = min(one.starts[0], other.starts[0]), max(one.ends[-1], other.ends[-1])
    return difference(one, Union(*other.gaps(int(edges[0]), int(edges[1]))))
