"""The order of time, and lanes: slices of one track that overlap, spread over several lines.

Intervals are half-open, int64 ns, in any order. One of length 0 does not overlap others that begin or end
at its time, but it overlaps one that has it inside.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import numpy as np

from nsysconv.timeline.arrays import distinct

Array = np.ndarray

Find = Callable[[Array, Array], Array]
"""Finds the lanes of intervals by their starts and ends."""

PIECE = 1 << 18
_NEVER = int(np.iinfo(np.int64).max)


def time_order(start: Array, dur: Array, sizes: Sequence[int] | None = None) -> Array:
    """Return indices by start; of those that start together the longer first, then the earlier row.

    `sizes`: lengths of several tables, one after the other, each nearly in order by itself.
    """
    orders, low = [], 0
    for size in (len(start),) if sizes is None else sizes:
        high = low + size
        orders.append((low, _nearly_sorted(start[low:high], dur[low:high])))
        low = high
    filled = [(low, order) for low, order in orders if len(order)]
    if len(filled) > 1:
        return _merged(start, dur, filled)
    # A table that is the only one with rows begins at 0.
    return filled[0][1] if filled else np.empty(0, np.int32)


def _nearly_sorted(start: Array, dur: Array) -> Array:
    # The sort goes piece by piece, which takes little memory. Rows that start no earlier than a row of
    # a later piece wait for the next piece.
    pieces = np.arange(0, len(start), PIECE)
    # `following` has the least start of all later pieces.
    least = np.minimum.reduceat(start, pieces) if len(pieces) else start
    following = np.append(np.minimum.accumulate(least[::-1])[::-1], _NEVER)
    result, done = np.empty(len(start), np.int32), 0
    waiting, low = np.empty(0, np.int32), 0
    while low < len(start):
        # At least as many new rows are added as wait, so that waiting rows are not sorted too often.
        count = 1 + len(waiting) // PIECE
        rows = np.arange(low, min(low + count * PIECE, len(start)), dtype=np.int32)
        low += len(rows)
        rows = np.concatenate((waiting, rows))
        ready = start[rows] < following[-(-low // PIECE)]
        waiting, rows = rows[~ready], rows[ready]
        result[done : done + len(rows)] = rows[_sorted(start[rows], dur[rows])]
        done += len(rows)
    return result


def _sorted(start: Array, dur: Array) -> Array:
    if (start[1:] > start[:-1]).all():
        return np.arange(len(start), dtype=np.int32)
    order = np.argsort(start, kind="stable").astype(np.int32)
    same = start[order[1:]] == start[order[:-1]]
    if same.any():
        # Only the runs of equal starts are sorted again: among many they are few.
        places = np.flatnonzero(np.append(same, False) | np.append(False, same))
        tied = order[places]
        order[places] = tied[np.lexsort((tied, -dur[tied], start[tied]))]
    return order


def _merged(start: Array, dur: Array, orders: Sequence[tuple[int, Array]]) -> Array:
    # The merge goes window by window of time. Each of `orders` has the offset of its table's rows.
    base, longest = max(orders, key=lambda pair: len(pair[1]))
    times = distinct(start[base + longest[PIECE::PIECE]]).tolist()
    edges = [
        [
            0,
            *(
                bisect_left(range(len(order)), t, key=lambda i: start[low + order[i]])
                for t in times
            ),
            len(order),
        ]
        for low, order in orders
    ]
    result, done = np.empty(sum(len(order) for _, order in orders), np.int32), 0
    for window in range(len(times) + 1):
        rows = np.concatenate([
            order[edge[window] : edge[window + 1]] + np.int32(low)
            for (low, order), edge in zip(orders, edges, strict=True)
        ])  # fmt: skip
        result[done : done + len(rows)] = rows[_sorted(start[rows], dur[rows])]
        done += len(rows)
    return result


def spread(find: Find, start: Array, dur: Array, order: Array) -> Array:
    """Return the lanes of intervals in the `order` of time, found in little memory."""
    lane = np.broadcast_to(np.int32(0), len(order))
    low, size = 0, PIECE
    while low < len(order):
        rows = order[low : low + size]
        begin = start[rows]
        end = begin + dur[rows]
        if low + size < len(order):
            closed = np.flatnonzero(begin[1:] >= np.maximum.accumulate(end)[:-1])
            if not len(closed):
                size *= 2
                continue
            cut = int(closed[-1]) + 1
            begin, end = begin[:cut], end[:cut]
        lanes = find(begin, end)
        if lanes.any():
            if lane.strides == (0,):
                lane = np.zeros(len(order), np.int32)
            lane[low : low + len(begin)] = lanes
        low, size = low + len(begin), PIECE
    return lane


def apart(start: Array, end: Array) -> Array:
    """Return the lane of each interval, from 0, such that no two of a lane overlap.

    There are as many lanes as intervals overlap at most, and in each stretch of time that intervals
    cover without a gap only as many as overlap there.
    """
    lane = np.zeros(len(start), np.int32)
    if (start[1:] >= end[:-1]).all():  # as they mostly do: one after the other
        return lane
    order = np.lexsort((end, start))
    s, e = start[order], end[order]
    fresh = np.append(True, s[1:] >= np.maximum.accumulate(e)[:-1])
    stretch = np.cumsum(fresh) - 1
    crowded = np.flatnonzero(~fresh[np.searchsorted(stretch, stretch, "right") - 1])
    if len(crowded):
        lane[order[crowded]] = _apart(s[crowded], e[crowded], stretch[crowded])
    return lane


def _apart(s: Array, e: Array, stretch: Array) -> Array:
    # Lanes wait in a queue: a stretch of n lanes begins with n of them in it, each interval takes
    # the first and puts it back where it ends. So the k-th interval takes lane k, or from the n-th
    # on the lane of the one that ended as number k - n, and that one in turn another's: chains,
    # which are shortened to half their length until all have ended.
    first = np.searchsorted(stretch, stretch, "left")
    place = np.arange(len(s)) - first
    by_end = np.argsort(e, kind="stable")  # stretches stay together, for they do not overlap
    # `over` is how many earlier intervals have ended where each begins. An interval without length that
    # comes later ends there, too, and does not count.
    over = np.searchsorted(e[by_end], s, "right") - first
    empty = np.flatnonzero(s == e)
    same = s[empty]
    over[empty] -= np.searchsorted(same, same, "right") - np.arange(len(empty))
    _, begin = np.unique(stretch, return_index=True)
    count = np.maximum.reduceat(place + 1 - over, begin)
    count = np.repeat(count, np.diff(np.append(begin, len(s))))
    before = np.where(
        place < count, np.arange(len(s)), by_end[np.maximum(first + place - count, 0)]
    )
    while True:
        further = before[before]
        if (further == before).all():
            result: Array = place[before]
            return result
        before = further


def nested(start: Array, end: Array) -> Array:
    """Return the lane of each interval, from 0, such that those of a lane are apart or nested.

    An interval takes the first lane in which it crosses none that begins before it.
    """
    lane = np.zeros(len(start), np.int32)
    order = time_order(start, end - start)
    s, e = start[order], end[order]
    crossed = _pairs_up(s, e)
    if crossed is None:
        return lane
    # Only stretches of time in which something crosses are looked at one by one.
    fresh = np.append(True, s[1:] >= np.maximum.accumulate(e)[:-1])
    stretch = np.cumsum(fresh) - 1
    damaged = np.flatnonzero(np.isin(stretch, stretch[crossed]))
    lane[order[damaged]] = _one_by_one(s[damaged].tolist(), e[damaged].tolist())
    return lane


def _pairs_up(s: Array, e: Array) -> Array | None:
    # The result is a mask of the intervals, sorted by (start, longer first), that cross others; it is
    # None if all nest. Ends of nested intervals close like brackets: each is the end of the latest
    # interval that is still open.
    count = len(s)
    if (s[1:] >= e[:-1]).all():
        return None
    length = e > s
    s, e = s[length], e[length]
    ends = np.sort(e)
    # `depth` is how many intervals are open before each begins, without those that end at that moment.
    depth = np.arange(len(s)) - np.searchsorted(ends, s, "right")
    depth_at_end = np.searchsorted(s, ends, "left") - np.arange(len(s)) - 1
    opening = np.argsort(depth, kind="stable")
    closing = np.argsort(depth_at_end, kind="stable")
    wrong = np.zeros(len(s), bool)
    wrong[opening] = ends[closing] != e[opening]
    crossed = np.zeros(count, bool)
    crossed[np.flatnonzero(length)[wrong]] = True
    # One without a length crosses nothing.
    return crossed if wrong.any() else None


def _one_by_one(starts: list[int], ends: list[int]) -> list[int]:
    open_until: list[list[int]] = []
    due: list[tuple[int, int]] = []
    room = _FirstWithRoom()
    lanes = []
    for start, end in zip(starts, ends, strict=True):
        while due and due[0][0] <= start:
            _, lane = heappop(due)
            waiting = open_until[lane]
            waiting.pop()
            room.set(lane, waiting[-1] if waiting else _NEVER)
        lane = room.first(end)
        if lane == len(open_until):
            open_until.append([])
        open_until[lane].append(end)
        room.set(lane, end)
        heappush(due, (end, lane))
        lanes.append(lane)
    return lanes


class _FirstWithRoom:
    """Until when each lane has room, as a tree of maxima: finding the first takes logarithmic time."""

    def __init__(self) -> None:
        self._size = 1
        self._until = [_NEVER, _NEVER]

    def first(self, end: int) -> int:
        if self._until[1] < end:
            self._double()
        at = 1
        while at < self._size:
            at *= 2
            if self._until[at] < end:
                at += 1
        return at - self._size

    def set(self, lane: int, until: int) -> None:
        at = lane + self._size
        self._until[at] = until
        while at > 1:
            at //= 2
            self._until[at] = max(self._until[2 * at], self._until[2 * at + 1])

    def _double(self) -> None:
        leaves = [*self._until[self._size :], *[_NEVER] * self._size]
        self._size *= 2
        self._until = [_NEVER] * self._size + leaves
        for at in range(self._size - 1, 0, -1):
            self._until[at] = max(self._until[2 * at], self._until[2 * at + 1])
