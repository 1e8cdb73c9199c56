"""Intervals as few boxes, and when one of two unions is busy alone: by hand, and instant by instant."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsysconv.timeline.boxes import ONE, OTHER, Boxes, boxes, busy_alone
from nsysconv.timeline.intervals import Union, union

Pairs = list[tuple[int, int]]
interval = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1]))
some_intervals = st.lists(interval, max_size=20)


def columns_of(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def boxes_of(pairs: Pairs, most: int) -> Boxes:
    return boxes(*columns_of(sorted(pairs)), most)


def rows(found: Boxes) -> list[tuple[int, ...]]:
    columns = (found.start, found.end, found.busy, found.count, found.longest)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def instants(pairs: Pairs) -> set[int]:
    return {t for start, end in pairs for t in range(start, end)}


def test_few_intervals_are_a_box_each() -> None:
    assert rows(boxes_of([(0, 5), (3, 4), (9, 9)], 3)) == [
        (0, 5, 5, 1, 0),
        (3, 4, 1, 1, 1),
        (9, 9, 0, 1, 2),
    ]


def test_short_ones_that_are_close_together_are_one_box() -> None:
    """In grains of 8 ns the first two begin in one, the next two in another; the long one stays alone."""
    found = boxes_of([(0, 1), (3, 5), (8, 9), (14, 15), (20, 60)], 3)
    assert rows(found) == [(0, 5, 3, 2, 1), (8, 15, 2, 2, 2), (20, 60, 40, 1, 4)]


def test_a_short_one_beside_a_long_one_is_not_one_with_it() -> None:
    """In grains of 4 ns all three begin in the first: the two short ones are a box."""
    found = boxes_of([(0, 20), (1, 2), (3, 4), (40, 41)], 3)
    assert rows(found) == [(0, 20, 20, 1, 0), (1, 4, 2, 2, 1), (40, 41, 1, 1, 3)]


def test_of_overlapping_ones_busy_is_the_union() -> None:
    assert rows(boxes_of([(0, 4), (2, 6), (3, 4)], 1)) == [(0, 6, 6, 3, 0)]


def test_of_nothing_there_are_no_boxes() -> None:
    assert rows(boxes_of([], 1)) == []


@given(some_intervals, st.integers(1, 8))
def test_boxes_hold_all_intervals_in_order_and_are_few(pairs: Pairs, most: int) -> None:
    pairs = sorted(pairs)
    left = list(enumerate(pairs))
    found = rows(boxes_of(pairs, most))
    assert len(found) <= most
    for start, end, busy, count, longest in found:
        mine, left = left[:count], left[count:]
        held = [pair for _, pair in mine]
        assert start == held[0][0]
        assert end == max(high for _, high in held)
        assert busy == len(instants(held))
        assert longest in dict(mine)
        low, high = pairs[longest]
        assert high - low == max(high - low for low, high in held)
    assert left == []


def alone(one: Union, other: Union) -> list[tuple[int, int, int]]:
    found = busy_alone(one, other)
    columns = (found.starts, found.ends, found.labels)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_times_in_which_one_of_two_is_busy_alone() -> None:
    one, other = union(*columns_of([(0, 10), (20, 30)])), union(*columns_of([(5, 22), (30, 40)]))
    assert alone(one, other) == [(0, 5, ONE), (10, 20, OTHER), (22, 30, ONE), (30, 40, OTHER)]


@given(some_intervals, some_intervals)
def test_busy_alone_is_the_difference_of_instants(first: Pairs, second: Pairs) -> None:
    found = alone(union(*columns_of(first)), union(*columns_of(second)))
    for label, mine, others in ((ONE, first, second), (OTHER, second, first)):
        of_label = [(start, end) for start, end, which in found if which == label]
        assert instants(of_label) == instants(mine) - instants(others)
    assert all(start < end for start, end, _ in found)
    # As few as can be: where one ends, the next of its kind does not begin.
    ends = {(end, label) for _, end, label in found}
    assert not ends & {(start, label) for start, _, label in found}
