"""Who is innermost when: nested intervals of one thread as disjoint segments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

MOST_LEVELS = 200
"""What nests deeper, which no program does, is looked at one by one and not level by level."""


@dataclass(frozen=True)
class Segments:
    """Disjoint, sorted intervals, each with a label; time in between belongs to nobody."""

    starts: Array
    ends: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.starts)


EMPTY = Segments(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


def innermost(starts: Array, ends: Array, labels: Array) -> Segments:
    """Per moment the label of the innermost of the intervals that hold it.

    Intervals without length hold nothing. One that crosses the end of the interval it began in is cut
    there.
    """
    keep = ends > starts
    starts, ends, labels = starts[keep], ends[keep], labels[keep]
    if len(starts) == 0:
        return EMPTY
    order = np.lexsort((-ends, starts))
    starts, ends, labels = starts[order], ends[order], labels[order]
    parent, ends = parents(starts, ends)
    # The innermost interval changes where one begins (to it) and where one ends (to its parent); of
    # events at one moment the last in this order decides: ends from the inside out, then begins.
    count = len(starts)
    moments = np.concatenate((ends, starts))
    holders = np.concatenate((parent, np.arange(count)))
    inside_out = np.concatenate((-np.arange(count) - 1, np.arange(count)))
    is_start = np.repeat([0, 1], count)
    at = np.lexsort((inside_out, is_start, moments))
    moments, holders = moments[at], holders[at]
    segment_starts, segment_ends, segment_holders = moments[:-1], moments[1:], holders[:-1]
    real = (segment_ends > segment_starts) & (segment_holders >= 0)
    return Segments(segment_starts[real], segment_ends[real], labels[segment_holders[real]])


def parents(starts: Array, ends: Array) -> tuple[Array, Array]:
    """Per interval (sorted by start, longest first) the one it lies in, -1 for none; ends, cut.

    Level by level: the outermost are those that begin after all before them have ended. What remains
    lies in the last of them that began before it; then the same again one level down. Where the
    levels are very many, which no program makes, one by one.
    """
    told = ends
    ends = ends.copy()
    parent = np.full(len(starts), -1, np.int64)
    rest = np.arange(len(starts))
    level = 0
    while len(rest):
        level += 1
        if level > MOST_LEVELS:
            return _parents_one_by_one(starts.tolist(), told.tolist())
        outer = _outermost(starts[rest], ends[rest], parent[rest])
        holders = rest[outer]
        rest = rest[~outer]
        parent[rest] = holders[np.searchsorted(holders, rest) - 1]
        ends[rest] = np.minimum(ends[rest], ends[parent[rest]])
    return parent, ends


def _parents_one_by_one(starts: list[int], ends: list[int]) -> tuple[Array, Array]:
    """The same; its time does not depend on how deep they nest."""
    parent: list[int] = []
    cut: list[int] = []
    open_: list[int] = []
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        while open_ and cut[open_[-1]] <= start:
            open_.pop()
        parent.append(open_[-1] if open_ else -1)
        cut.append(min(end, cut[open_[-1]]) if open_ else end)
        open_.append(number)
    return np.array(parent, np.int64), np.array(cut, np.int64)


def _outermost(starts: Array, ends: Array, parent: Array) -> Array:
    """Which of these lie in no other of them that has the same parent."""
    # Intervals of different parents are disjoint and sorted, so one running maximum serves all,
    # unless a cut one reaches beyond its sibling: then those are looked at one by one.
    reach = np.maximum.accumulate(ends)[:-1]
    inside = starts[1:] < reach
    if not (inside & (ends[1:] > reach)).any():
        return np.concatenate(([True], ~inside))
    mask, last = [], None
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        fresh = last is None or start >= last
        mask.append(fresh)
        if fresh:
            last = end
    return np.array(mask, bool)


@dataclass(frozen=True)
class Pieces:
    """Parts of intervals: which interval each belongs to, and where it lies."""

    interval: Array
    starts: Array
    ends: Array


def whole(starts: Array, ends: Array) -> Pieces:
    """Every interval with a length, as the one piece of itself."""
    interval = np.flatnonzero(ends > starts)
    return Pieces(interval, starts[interval], ends[interval])


def split(pieces: Pieces, segments: Segments) -> tuple[Pieces, Array, Pieces]:
    """Cuts pieces at the segments: what lies inside segments, the label of each, and what remains."""
    first = np.searchsorted(segments.ends, pieces.starts, side="right")
    last = np.searchsorted(segments.starts, pieces.ends, side="left")
    count = np.maximum(last - first, 0)
    number, segment = enumerated(first, count)
    inside = Pieces(
        pieces.interval[number],
        np.maximum(segments.starts[segment], pieces.starts[number]),
        np.minimum(segments.ends[segment], pieces.ends[number]),
    )
    # A piece with n segments in it has n + 1 rests, before, between and behind them; some are empty.
    number, follower = enumerated(first, count + 1)
    is_first = np.concatenate(([True], number[1:] != number[:-1])) if len(number) else number == 0
    is_last = np.concatenate((number[1:] != number[:-1], [True])) if len(number) else number == 0
    padded_ends = np.concatenate(([0], segments.ends))
    padded_starts = np.concatenate((segments.starts, [0]))
    starts = np.where(is_first, pieces.starts[number], padded_ends[follower])
    ends = np.where(is_last, pieces.ends[number], padded_starts[follower])
    kept = ends > starts
    return (
        inside,
        segments.labels[segment],
        Pieces(pieces.interval[number[kept]], starts[kept], ends[kept]),
    )


def enumerated(first: Array, count: Array) -> tuple[Array, Array]:
    """For each i the numbers first[i] .. first[i] + count[i] - 1, and i beside each."""
    number = np.repeat(np.arange(len(first)), count)
    begins = np.cumsum(count) - count
    return number, first[number] + np.arange(len(number)) - begins[number]
