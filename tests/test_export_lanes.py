"""Lanes of overlapping slices, beside slow and obvious ways to find them."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import crossings

from nsysconv.export import lanes

Array = np.ndarray
Intervals = list[tuple[int, int]]

INTERVALS = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from((0, 0, 1, 2, 3, 5, 12))), max_size=14
).map(lambda pairs: [(start, start + dur) for start, dur in pairs])


def columns(intervals: Intervals) -> tuple[Array, Array]:
    start, end = (np.array([each[side] for each in intervals], np.int64) for side in (0, 1))
    return start, end


def by_lane(intervals: Intervals, lane: Array) -> dict[int, Intervals]:
    found: dict[int, Intervals] = {}
    for interval, number in zip(intervals, lane.tolist(), strict=True):
        found.setdefault(number, []).append(interval)
    return found


def most_at_once(intervals: Intervals) -> int:
    """How many lanes it takes, by taking the one that is free first."""
    ends: list[int] = []
    most = 0
    for start, end in sorted(intervals):
        while ends and ends[0] <= start:
            heapq.heappop(ends)
        heapq.heappush(ends, end)
        most = max(most, len(ends))
    return most


@given(INTERVALS)
def test_apart(intervals: Intervals) -> None:
    """No two of a lane overlap, and there are as many lanes as intervals overlap at most."""
    lane = lanes.apart(*columns(intervals))
    for mine in by_lane(intervals, lane).values():
        mine.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(mine))
    assert len(set(lane.tolist())) == most_at_once(intervals)


@given(INTERVALS)
def test_nested(intervals: Intervals) -> None:
    """No two of a lane cross, and one lane is enough where none do."""
    lane = lanes.nested(*columns(intervals))
    for mine in by_lane(intervals, lane).values():
        assert crossings(mine) == []
    assert (lane.max(initial=0) > 0) == bool(crossings(intervals))


@given(INTERVALS, st.sampled_from((lanes.apart, lanes.nested)))
def test_lanes_found_piecewise_are_the_same(intervals: Intervals, find: lanes.Find) -> None:
    """Found piece by piece, lanes are those that are found at once."""
    start, end = columns(intervals)
    order = lanes.time_order(start, end - start)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "PIECE", 2)
        found = lanes.spread(find, start, end - start, order)
    assert found.tolist() == find(start, end)[order].tolist()


def test_some_of_the_intervals() -> None:
    """Of [0,4), [1,5), [2,6) the first and the last overlap."""
    start, end = columns([(0, 4), (1, 5), (2, 6)])
    chosen = np.array([0, 2], np.int32)
    assert lanes.spread(lanes.apart, start, end - start, chosen).tolist() == [0, 1]


@pytest.mark.parametrize(("find", "intervals"), [
    # [0,4) and [2,6) overlap; [6,7) begins where the second ends.
    (lanes.apart, [(0, 4), (2, 6), (6, 7)]),
    # Each begins in the one before.
    (lanes.apart, [(0, 3), (2, 5), (4, 7)]),
    # [5,15) crosses [0,10); [6,7) fits into either.
    (lanes.nested, [(0, 10), (5, 15), (6, 7)]),
])  # fmt: skip
def test_the_second_of_three_takes_the_next_lane(find: lanes.Find, intervals: Intervals) -> None:
    assert find(*columns(intervals)).tolist() == [0, 1, 0]


def in_time(intervals: Intervals) -> list[int]:
    return sorted(range(len(intervals)), key=lambda i: (intervals[i][0], -intervals[i][1], i))


@given(INTERVALS, st.integers(1, 4))
def test_time_order(intervals: Intervals, piece: int) -> None:
    """Sorted a few at a time, it is the order that sorting all gives."""
    start, end = columns(intervals)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "PIECE", piece)
        assert lanes.time_order(start, end - start).tolist() == in_time(intervals)


@given(st.lists(INTERVALS, min_size=1, max_size=4), st.integers(1, 4))
def test_time_order_of_several_tables(tables: list[Intervals], piece: int) -> None:
    intervals = [interval for table in tables for interval in table]
    start, end = columns(intervals)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "PIECE", piece)
        found = lanes.time_order(start, end - start, [len(table) for table in tables])
    assert found.tolist() == in_time(intervals)


def test_late_rows_keep_the_order_of_time() -> None:
    """Pieces of two: 9 waits for all others, 3 for the 1 and 2 behind it."""
    start = np.array([9, 0, 3, 1, 2, 4], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "PIECE", 2)
        assert lanes.time_order(start, np.zeros(6, np.int64)).tolist() == [1, 3, 4, 2, 5, 0]
