"""Half-open intervals [start, end) of int64 nanoseconds: unions, measures, gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, Columns, blocks, distinct, indices, sums, take

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Union:
    """Disjoint, sorted, non-empty intervals."""

    starts: Array
    ends: Array

    @property
    def measure(self) -> int:
        """Return the time covered."""
        return int((self.ends - self.starts).sum())

    def covered(self, low: Array, high: Array) -> Array:
        """Return per interval [low, high) how much of it the union covers; 0 for an empty interval."""
        result = np.zeros(len(low), np.int64)
        if not len(self.starts):
            return result
        # Some at a time, in the part of the union where they lie: of millions that are in order the
        # search is then in a small array.
        for block in blocks(len(low)):
            lows, highs = low[block], high[block]
            near = self._near(int(lows.min()), int(highs.max()))
            starts, ends = self.starts[near], self.ends[near]
            # Usually few windows meet the union. Such a window begins before the last interval that
            # starts before the window's end is over.
            last = np.searchsorted(starts, highs) - 1
            met = np.flatnonzero(
                (last >= 0) & (ends.take(last, mode="clip") > lows) & (highs > lows)
            )
            lows, highs, last = lows.take(met), highs.take(met), last.take(met)
            first = np.searchsorted(ends, lows, side="right")
            # How much of this part lies before each of its intervals, and, last, its whole length.
            before = np.zeros(len(starts) + 1, np.int64)
            np.cumsum(ends - starts, out=before[1:])
            time = before.take(last + 1) - before.take(first)
            time -= np.maximum(ends.take(last) - highs, 0)
            time -= np.maximum(lows - starts.take(first), 0)
            result[block][met] = time
        return result

    def between(self, low: int, high: int) -> Union:
        """Return the intervals of the union that may meet [low, high), whole."""
        near = self._near(low, high)
        return Union(self.starts[near], self.ends[near])

    def meets(self, start: Array, end: Array) -> Array:
        """Return which intervals share time with the union, as a mask.

        One without length has the ns that it is in.
        """
        result = np.zeros(len(start), bool)
        if not len(self.starts):
            return result
        for block in blocks(len(start)):
            low, high = start[block], np.maximum(end[block], start[block] + 1)
            near = self._near(int(low.min()), int(high.max()))
            # The first interval of the union that ends after `low` is the only one that has to be
            # checked.
            following = np.searchsorted(self.ends[near], low, side="right")
            result[block] = np.append(self.starts[near], _NEVER)[following] < high
        return result

    def _near(self, low: int, high: int) -> slice:
        # The intervals that may meet [low, high), at least one.
        first = max(int(np.searchsorted(self.starts, low, side="right")) - 1, 0)
        return slice(first, max(int(np.searchsorted(self.starts, high)), first + 1))

    def gaps(self, low: int, high: int) -> tuple[Array, Array]:
        """Return the maximal intervals of [low, high) outside the union: starts and ends.

        They are views of the union where that has the time at both edges.
        """
        first = int(np.searchsorted(self.ends, low, side="right"))
        past = max(int(np.searchsorted(self.starts, high)), first)
        # Between two intervals of the union there is time; before the first and after the last may be.
        starts, ends = self.ends[first:past], self.starts[first:past]
        if low < high and (first == past or low < ends[0]):
            starts = np.append(low, starts)
        else:
            ends = ends[1:]
        if len(starts) and starts[-1] < high:
            ends = np.append(ends, high)
        else:
            starts = starts[:-1]
        return starts, ends


def union(starts: Array, ends: Array, which: Array | None = None) -> Union:
    """Return the union of intervals in any order, all or those of a mask; empty ones add nothing.

    Intervals that are one already, as those of a single stream, are not copied.
    """
    if which is None and _is_union(starts, ends):
        return Union(starts, ends)
    most = len(starts) if which is None else int(np.count_nonzero(which))
    return united(_by_start(starts, ends, which), most)


def _is_union(starts: Array, ends: Array) -> bool:
    for block in blocks(len(starts)):
        following = starts[block.start + 1 : block.stop + 1]
        if (ends[block] <= starts[block]).any() or (
            following <= ends[block][: len(following)]
        ).any():
            return False
    return True


def measure(starts: Array, ends: Array, low: int, high: int, which: Array | None = None) -> int:
    """Return how much of [low, high) the union of intervals covers, which are given as for `union`."""
    return int(measures(starts, ends, np.array([low]), np.array([high]), which)[0])


def measures(
    starts: Array, ends: Array, low: Array, high: Array, which: Array | None = None
) -> Array:
    """Return per interval [low, high) how much the union of intervals covers, given as for `union`.

    The union is never there as a whole.
    """
    result, latest = np.zeros(len(low), np.int64), MISSING
    for s, e in _by_start(starts, ends, which):
        reach = np.maximum.accumulate(np.append(latest, e))
        s = np.maximum(s, reach[:-1])
        adds = e > s
        result += Union(s[adds], e[adds]).covered(low, high)
        latest = reach[-1]
    return result


def lasting(starts: Array, ends: Array, shortest: int) -> Array:
    """Return which intervals are that long or longer, as a mask; some at a time, as there are many."""
    result = np.empty(len(starts), bool)
    for block in blocks(len(starts)):
        np.greater_equal(ends[block] - starts[block], shortest, out=result[block])
    return result


def longest(starts: Array, ends: Array, which: Array | None = None) -> int | None:
    """Return the index of the longest interval, of all or those of a mask, the first of several.

    None where there is none.
    """
    best, length = None, -1
    for block in blocks(len(starts)):
        lengths = ends[block] - starts[block]
        if which is not None:
            lengths = np.where(which[block], lengths, -1)
        place = int(np.argmax(lengths))
        if lengths[place] > length:
            best, length = block.start + place, int(lengths[place])
    return best


def grouped_measure(start: Array, end: Array, group: Array, count: int) -> Array:
    """Return per group how much its intervals cover, which are together, and by their starts."""
    if not len(start):
        return np.zeros(count, np.int64)
    origin, span = int(start.min()), int(end.max()) - int(start.min()) + 1
    measure = np.zeros(count, np.int64)
    # Groups are laid out one behind the other in time, as many at once as 63 bits hold.
    most = max(1, (1 << 62) // span)
    for low in range(0, count, most):
        rows = slice(*np.searchsorted(group, (low, low + most)).tolist())
        shift = (group[rows] - low) * span - origin
        s, e = start[rows] + shift, end[rows] + shift
        reach = np.maximum.accumulate(np.append(MISSING, e))[:-1]
        measure += sums(group[rows], np.maximum(e - np.maximum(s, reach), 0), count)
    return measure


def difference(one: Union, other: Union) -> Union:
    """Return what the first union covers and the second does not, in arrays of its own."""
    if not len(one.starts):
        return united((), 0)
    windows = pairwise(_edges((one, other), int(one.starts[0]), int(one.ends[-1])))
    parts = (_difference(one.between(*window), other.gaps(*window)) for window in windows)
    return united(parts, len(one.starts) + len(other.starts))


def _edges(unions: Sequence[Union], low: int, high: int) -> list[int]:
    # Windows of [low, high) with few intervals each. They begin where an interval of a union does, so
    # that none of a difference is cut.
    begins = [each.starts[block.start] for each in unions for block in blocks(len(each.starts))]
    edges: list[int] = distinct(np.clip(np.array([low, *begins, high]), low, high)).tolist()
    return edges


def _difference(one: Union, gaps: tuple[Array, Array]) -> tuple[Array, Array]:
    low, high = gaps
    first = np.searchsorted(one.ends, low, side="right")
    number, place = expand_ranges(first, np.maximum(np.searchsorted(one.starts, high) - first, 0))
    starts, ends = one.starts.take(place), one.ends.take(place)
    return np.maximum(starts, low.take(number)), np.minimum(ends, high.take(number))


def measure_of_all(unions: Iterable[Union]) -> int:
    """Return how much unions cover together. Their union is never there as a whole."""
    some = [each for each in unions if len(each.starts)]
    if not some:
        return 0
    first, last = (min(each.starts[0] for each in some), max(each.ends[-1] for each in some))
    time = 0
    for low, high in pairwise(_edges(some, int(first), int(last))):
        near = [each.between(low, high) for each in some]
        starts, ends = (
            np.concatenate([getattr(each, name) for each in near]) for name in ("starts", "ends")
        )
        time += measure(starts, ends, low, high)
    return time


def union_with(one: Union, starts: Array, ends: Array, which: Array | None = None) -> Union:
    """Return the union of a union with intervals, which are given as for `union`."""
    if not len(one.starts):
        return union(starts, ends, which)
    if which is not None and not which.all():
        members = indices(which)
        starts, ends = take(starts, members), take(ends, members)
    if not len(starts):
        return one
    merged = _merged(one, *_in_order(starts, ends))
    return united(merged, len(one.starts) + len(starts))


def _in_order(starts: Array, ends: Array) -> tuple[Array, Array]:
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        return starts[order], ends[order]
    return starts, ends


def _by_start(starts: Array, ends: Array, which: Array | None) -> Iterator[tuple[Array, Array]]:
    # The intervals come in blocks, in the order of their starts. `which` is a mask, or None for all.
    if (starts[1:] < starts[:-1]).any():
        if which is not None:
            starts, ends, which = starts[which], ends[which], None
        starts, ends = _in_order(starts, ends)
    for block in blocks(len(starts)):
        if which is None or which[block].all():
            yield starts[block], ends[block]
        else:
            members = np.flatnonzero(which[block])
            if len(members):
                yield starts[block].take(members), ends[block].take(members)


def _merged(one: Union, starts: Array, ends: Array) -> Iterator[tuple[Array, Array]]:
    # The intervals of a union and others, each by their starts, together by their starts, some at a time.
    own, other = (one.starts, one.ends), (starts, ends)
    longer, shorter = (own, other) if len(one.starts) > len(starts) else (other, own)
    low = 0
    for block in blocks(len(longer[0])):
        following = longer[0][block.stop : block.stop + 1]
        high = int(np.searchsorted(shorter[0], following[0])) if len(following) else None
        both = [
            np.concatenate((a[block], b[low:high])) for a, b in zip(longer, shorter, strict=True)
        ]
        order = np.argsort(both[0], kind="stable")
        yield both[0].take(order), both[1].take(order)
        low = high or 0


def united(parts: Iterable[tuple[Array, Array]], most: int) -> Union:
    """Return the union of intervals that come by their starts, some at a time; so many at most."""
    # Each interval of the union ends where the latest end so far is before the next start. Memory that
    # is asked for and never written costs nothing.
    starts, ends = np.empty(most, np.int64), np.empty(most + 1, np.int64)
    count, latest = 0, MISSING
    for s, e in parts:
        kept = e > s
        if not kept.all():
            s, e = s[kept], e[kept]
        reach = np.maximum.accumulate(np.append(latest, e))
        fresh = np.flatnonzero(s > reach[:-1])
        place = slice(count, count + len(fresh))
        starts[place], ends[place] = s.take(fresh), reach.take(fresh)
        count, latest = place.stop, reach[-1]
    # What was there before the first is no end.
    ends[count] = latest
    return Union(starts[:count], ends[1 : count + 1])


@dataclass(frozen=True)
class Level:
    """A number that changes in time: `levels[i]` from `times[i]` on, 0 before the first."""

    times: Array
    levels: Array

    def integral(self, low: Array, high: Array) -> Array:
        """Return per interval [low, high) the integral of the level over it; 0 for an empty interval."""
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
    """Return the sum of the amounts of the intervals that hold each moment, limited to `cap`."""
    times = np.concatenate((starts, ends))
    order = np.argsort(times, kind="stable")
    times = times[order]
    levels = np.cumsum(np.concatenate((amounts, -amounts))[order])
    # If several changes happen at one moment, the last sum counts.
    last = np.concatenate((times[1:] != times[:-1], [True])) if len(times) else times == 0
    return Level(times[last], np.minimum(levels[last], cap))


def intersecting_sums(starts: Array, ends: Array, values: Array, low: Array, high: Array) -> Array:
    """Return per window [low, high) the values of the intervals that intersect it, added up.

    The intervals have a length; `values` has one row per quantity and one column per interval, and
    so has the result with windows. An empty window intersects nothing.
    """
    # The sum of a window is the sum of the intervals that begin before its end, less those that are
    # over by its start.
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
    """Return the edges that cut [low, high) in `count` parts, whose lengths differ by 1 ns at most.

    Where there are fewer nanoseconds than that, each is a part; an empty interval is one part.
    """
    count = max(1, min(count, high - low))
    whole, rest = divmod(high - low, count)
    place = np.arange(count + 1, dtype=np.int64)
    return low + whole * place + rest * place // count


MAX_LEVELS = 200
"""Intervals that nest deeper, which no program does, are looked at one by one, not level by level."""


@dataclass(frozen=True)
class Segments(Columns):
    """Disjoint, sorted intervals, each with a label; time in between belongs to nobody."""

    starts: Array
    ends: Array
    labels: Array

    def at(self, moments: Array) -> Array:
        """Return the label of each moment, -1 for nobody's."""
        place = np.searchsorted(self.starts, moments, side="right") - 1
        inside = (place >= 0) & (moments < np.append(self.ends, 0)[place])
        return np.where(inside, np.append(self.labels, -1)[place], -1)


EMPTY = Segments(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


def innermost(starts: Array, ends: Array, labels: Array) -> Segments:
    """Return per moment the label of the innermost interval that holds it; one without length holds none.

    Of intervals that cross each other the innermost is the one that began last.
    """
    keep = ends > starts
    starts, ends, labels = starts[keep], ends[keep], labels[keep]
    order = np.lexsort((-ends, starts))
    starts, ends, labels = starts[order], ends[order], labels[order]
    parent, reach = parents(starts, ends)
    # The innermost interval changes where one begins (to it) and where one and all in it are over (to
    # its parent); of events at one moment the last in this order decides: ends from the inside out, then
    # begins.
    count = len(starts)
    moments = np.concatenate((reach, starts))
    holders = np.concatenate((parent, np.arange(count)))
    inside_out = np.concatenate((-np.arange(count) - 1, np.arange(count)))
    is_start = np.repeat([0, 1], count)
    at = np.lexsort((inside_out, is_start, moments))
    moments, holders = moments[at], holders[at]
    segment_starts, segment_ends, segment_holders = moments[:-1], moments[1:], holders[:-1]
    real = (segment_ends > segment_starts) & (segment_holders >= 0)
    return Segments(segment_starts[real], segment_ends[real], labels[segment_holders[real]])


def parents(starts: Array, ends: Array) -> tuple[Array, Array]:
    """Return per interval (sorted by start, longest first) the one it lies in, and its reach.

    It lies in the last to begin of those under way when it begins, -1 for none. Its reach is when it and
    all that lies in it are over: later than its end where one of these crosses that. Up to their reach,
    those that lie directly in one are disjoint.

    Level by level: the outermost are those that begin after all before them have ended. What remains
    lies in the last of them that began before it; then the same again one level down. Where the
    levels are very many, which no program makes, one by one.
    """
    parent, reach = np.full(len(starts), -1, np.int64), ends.copy()
    rest = np.arange(len(starts))
    level = 0
    while len(rest):
        level += 1
        if level > MAX_LEVELS:
            return _parents_one_by_one(starts.tolist(), ends.tolist())
        # Intervals of different holders are disjoint and sorted, so one running maximum serves all
        # holders.
        latest = np.maximum.accumulate(ends[rest])[:-1]
        is_outer = np.concatenate(([True], starts[rest[1:]] >= latest))
        outer = np.flatnonzero(is_outer)
        holders = rest[outer]
        reach[holders] = np.maximum.reduceat(ends[rest], outer)
        rest = rest[~is_outer]
        parent[rest] = holders[np.searchsorted(holders, rest) - 1]
    return parent, reach


def _parents_one_by_one(starts: list[int], ends: list[int]) -> tuple[Array, Array]:
    # The result is that of `parents`. The time does not depend on the depth of nesting.
    parent: list[int] = []
    open_: list[int] = []
    for number, start in enumerate(starts):
        while open_ and ends[open_[-1]] <= start:
            open_.pop()
        parent.append(open_[-1] if open_ else -1)
        open_.append(number)
    reach = ends.copy()
    for number in reversed(range(len(parent))):
        above = parent[number]
        if above >= 0:
            reach[above] = max(reach[above], reach[number])
    return np.array(parent, np.int64), np.array(reach, np.int64)


@dataclass(frozen=True)
class Pieces(Columns):
    """Parts of intervals: which interval each belongs to, and where it lies."""

    interval: Array
    starts: Array
    ends: Array


def whole_pieces(starts: Array, ends: Array) -> Pieces:
    """Return every interval with a length, as the one piece of itself."""
    interval = np.flatnonzero(ends > starts)
    return Pieces(interval, starts[interval], ends[interval])


def cut_at(pieces: Pieces, segments: Segments) -> tuple[Pieces, Array, Pieces]:
    """Cut pieces at the segments: what lies inside segments, the label of each, and what remains."""
    first = np.searchsorted(segments.ends, pieces.starts, side="right")
    last = np.searchsorted(segments.starts, pieces.ends, side="left")
    count = np.maximum(last - first, 0)
    number, segment = expand_ranges(first, count)
    inside = Pieces(
        pieces.interval[number],
        np.maximum(segments.starts[segment], pieces.starts[number]),
        np.minimum(segments.ends[segment], pieces.ends[number]),
    )
    # A piece with n segments in it has n + 1 rests, before, between and behind them; some are empty.
    number, follower = expand_ranges(first, count + 1)
    is_first = np.concatenate(([True], number[1:] != number[:-1])) if len(number) else number == 0
    is_last = np.concatenate((number[1:] != number[:-1], [True])) if len(number) else number == 0
    padded_ends = np.concatenate(([0], segments.ends))
    padded_starts = np.concatenate((segments.starts, [0]))
    starts = np.where(is_first, pieces.starts[number], padded_ends[follower])
    ends = np.where(is_last, pieces.ends[number], padded_starts[follower])
    rest = Pieces(pieces.interval[number], starts, ends).take(ends > starts)
    return inside, segments.labels[segment], rest


def expand_ranges(first: Array, count: Array) -> tuple[Array, Array]:
    """Return i, and first[i] .. first[i] + count[i] - 1 beside it, for each i, as two arrays."""
    number = np.repeat(np.arange(len(first)), count)
    begins = np.cumsum(count) - count
    return number, first[number] + np.arange(len(number)) - begins[number]
