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
def test_pieces(intervals: Intervals, find: lanes.Find) -> None:
    """Found piece by piece, lanes are those that are found at once."""
    start, end = columns(intervals)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "_PIECE", 2)
        found = lanes.spread(find, start, end - start)
    assert found.tolist() == find(start, end).tolist()


def test_only_what_overlaps_leaves_the_first_lane() -> None:
    """[0,4) and [2,6) overlap; [6,7) begins where the second ends."""
    assert lanes.apart(*columns([(0, 4), (2, 6), (6, 7)])).tolist() == [0, 1, 0]


def test_three_in_turn_need_two_lanes() -> None:
    """Each begins in the one before: [0,3), [2,5), [4,7)."""
    assert lanes.apart(*columns([(0, 3), (2, 5), (4, 7)])).tolist() == [0, 1, 0]


def test_one_that_crosses_takes_the_next_lane() -> None:
    """[5,15) crosses [0,10); [6,7) fits into either."""
    assert lanes.nested(*columns([(0, 10), (5, 15), (6, 7)])).tolist() == [0, 1, 0]


@given(INTERVALS)
def test_time_order(intervals: Intervals) -> None:
    start, end = columns(intervals)
    wanted = sorted(range(len(intervals)), key=lambda i: (intervals[i][0], -intervals[i][1], i))
    assert lanes.time_order(start, end - start).tolist() == wanted
