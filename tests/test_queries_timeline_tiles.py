"""timeline_tiles: each tile equals its events, by hand and beside a slow obvious count."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_equal
from small_store import TID, Call, Kernel, Memcpy, Operator, Range, Row, answers, asked, opened

from nsysconv.api import Slice
from nsysconv.queries import event_lanes
from nsysconv.queries.timeline_tiles import FACTOR, MOST_ROWS
from nsysconv.timeline import arrays
from nsysconv.timeline.tiles import Rows, cut_into_tiles, joined


def tiles(*rows: Row, bins: int = 4, levels: int = 1, **options: Any) -> list[dict[str, Any]]:
    return answers(f"timeline_tiles:bins={bins}:levels={levels}", *rows, **options)


def test_a_tile_says_how_long_it_was_busy_and_with_what() -> None:
    # From 0 to 40 ns in four tiles of 10. `a` runs 8 of the first and 6 of the second, where `b` runs 4.
    kernels = (Kernel(2, 16, name="a"), Kernel(16, 20, name="b"), Kernel(30, 40, name="b"))
    found = [row for row in tiles(*kernels, Range(0, 40, "r")) if row["kind"] == "kernel"]
    shown = ("start_ns", "dur_ns", "busy_ns", "event_count", "name", "name_ns")
    assert [tuple(row[name] for name in shown) for row in found] == [
        (0, 10, 8, 1, "a", 8),
        (10, 10, 10, 1, "a", 6),  # `b` began in it
        (30, 10, 10, 1, "b", 10),
    ]


def test_levels_are_each_four_times_as_wide() -> None:
    rows = (Kernel(0, 1, name="a"), Kernel(15, 16, name="b"), Kernel(16, 17, name="b"))
    # 17 ns in 17 tiles of 1, then in 5 of 4, then in 2 of 16: the widest come first.
    found = tiles(*rows, bins=17, levels=3)
    assert FACTOR == 4
    assert [(row["dur_ns"], row["start_ns"], row["event_count"]) for row in found] == [
        (16, 0, 2),
        (16, 16, 1),
        (4, 0, 1),
        (4, 12, 1),
        (4, 16, 1),
        (1, 0, 1),
        (1, 15, 1),
        (1, 16, 1),
    ]
    # As long as each other: that which has more events, then the first by name.
    assert found[0]["name"] == "a"


def test_events_that_overlap_are_in_rows() -> None:
    rows = (
        Range(0, 100, "step"),
        Operator(0, 40, "aten::mm"),
        Call(10, 15, name="cudaLaunchKernel"),
        Call(50, 60, name="cudaFree"),
        Kernel(0, 1),
    )
    found = {(row["row"], row["name"]): row for row in tiles(*rows, bins=1) if row["tid"] == TID}
    assert {key: row["busy_ns"] for key, row in found.items()} == {
        (0, "step"): 100,
        (1, "aten::mm"): 50,  # and the second call, which lies in the step alone
        (2, "cudaLaunchKernel"): 5,
    }
    assert found[1, "aten::mm"]["event_count"] == 2


def test_a_slice_is_what_is_cut() -> None:
    rows = (Kernel(0, 100, name="long"), Kernel(100, 200, name="other"))
    found = tiles(*rows, bins=2, time=(40, 60))
    assert [(row["start_ns"], row["busy_ns"], row["event_count"]) for row in found] == [
        (40, 10, 1),  # what began before it counts as begun in its first tile
        (50, 10, 0),
    ]


def test_calls_that_a_slice_has_for_their_kernels_are_not_in_its_tiles() -> None:
    rows = (Call(1, 5, 1), Kernel(50, 60, 1), Range(1, 9, "step"), Kernel(70, 80))
    found = tiles(*rows, bins=2, part=Slice(range="step", projected=True))
    assert [(row["kind"], row["start_ns"], row["event_count"]) for row in found] == [
        ("kernel", 50, 1),
        ("kernel", 55, 0),
    ]


def test_a_stream_and_a_thread_that_are_not_recorded_are_two_lanes() -> None:
    found = tiles(Kernel(1, 9, device=None, stream=None), Call(1, 9, tid=None), bins=1)
    assert [(row["kind"], row["row"]) for row in found] == [("kernel", 0), ("api_call", 0)]


@pytest.mark.parametrize(("limit", "shown"), [(0, 21), (21, 21), (20, 5), (5, 5), (4, 1)])
def test_a_limit_leaves_the_widest_tiles(limit: int, shown: int) -> None:
    rows = [Kernel(i, i + 1) for i in range(16)]
    with opened(*rows) as profile:
        whole = profile.report("timeline_tiles:bins=16:levels=3", limit=0)
        part = profile.report("timeline_tiles:bins=16:levels=3", limit=limit)
    assert part.rows() == whole.rows()[:shown]
    assert part.row_count == whole.row_count == 1 + 4 + 16


def test_what_no_row_has_room_for_is_a_note() -> None:
    rows = [Kernel(0, 10, stream=1) for _ in range(MOST_ROWS + 3)]
    report = asked("timeline_tiles:bins=1", *rows)
    assert {note.slug: note.count for note in report.notes}["deep-events"] == 3
    assert sum(row["event_count"] for row in report.rows()) == MOST_ROWS


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(("kernel", "copy", "range", "operator", "call")),
        st.integers(1, 200),  # what is at 0 and has no length has no time
        st.integers(0, 60),
        st.sampled_from("abc"),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=25,
)


def rows_of(events: list[tuple[str, int, int, str, int]]) -> list[Row]:
    made: dict[str, Any] = {
        "kernel": lambda low, high, name, lane: Kernel(low, high, name=name, stream=lane),
        "copy": lambda low, high, _, lane: Memcpy(low, high, stream=lane, direction="HtoD"),
        "range": lambda low, high, name, lane: Range(low, high, name, tid=lane),
        "operator": lambda low, high, name, lane: Operator(low, high, name, tid=lane),
        "call": lambda low, high, name, lane: Call(low, high, name=name, tid=lane),
    }
    return [made[kind](at, at + dur, name, lane) for kind, at, dur, name, lane in events]


def slowly(events: list[dict[str, Any]], bins: int) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Busy time and count of each lane's tiles over all rows, event by event and ns by ns."""
    first = min(event["start_ns"] for event in events)
    last = max(event["start_ns"] + event["dur_ns"] for event in events)
    width = max(-(-(last - first) // bins), 1)
    latest = first + (max(last - first, 1) - 1) // width * width
    busy: dict[tuple[Any, ...], int] = defaultdict(int)
    count: dict[tuple[Any, ...], int] = defaultdict(int)
    for event in events:
        lane = tuple(event[name] for name in ("device_id", "stream_id", "tid"))
        begun = first + (event["start_ns"] - first) // width * width
        count[*lane, min(begun, latest)] += 1  # what begins as the time ends is in the last one
        for moment in range(event["start_ns"], event["start_ns"] + event["dur_ns"]):
            busy[*lane, first + (moment - first) // width * width] += 1
    return {key: (busy[key], count[key]) for key in {*busy, *count}}


@given(EVENTS, st.integers(1, 40), st.integers(1, 3))
def test_tiles_add_up_to_their_events(
    events: list[tuple[str, int, int, str, int]], bins: int, levels: int
) -> None:
    # At most 25 overlap: each has a row but for one, so that nothing is left out by MOST_ROWS - 1 others.
    with opened(*rows_of(events[:MOST_ROWS]), Kernel(0, 1, stream=9)) as profile:
        listed = profile.report("timeline_events").rows()
        found = profile.report(f"timeline_tiles:bins={bins}:levels={levels}").rows()
    widths = sorted({row["dur_ns"] for row in found})
    assert len(widths) == levels
    first = min(event["start_ns"] for event in listed)
    for width in widths:
        wanted: dict[tuple[Any, ...], tuple[int, int]] = {}
        for key, (busy, count) in slowly(listed, bins).items():
            *lane, at = key
            wide = (*lane, first + (at - first) // width * width)
            before = wanted.get(wide, (0, 0))
            wanted[wide] = (before[0] + busy, before[1] + count)
        summed: dict[tuple[Any, ...], tuple[int, int]] = {}
        for row in found:
            if row["dur_ns"] == width:
                assert row["name_ns"] <= row["busy_ns"] <= width
                key = (row["device_id"], row["stream_id"], row["tid"], row["start_ns"])
                before = summed.get(key, (0, 0))
                summed[key] = (before[0] + row["busy_ns"], before[1] + row["event_count"])
        assert summed == wanted


def slow_rows(events: list[tuple[int, int]]) -> list[int]:
    ends: list[int] = []
    rows = []
    for start, end in events:
        row = next((i for i, last in enumerate(ends) if last <= start), len(ends))
        ends[row : row + 1] = [end]
        rows.append(row)
    return rows


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20),
    st.integers(0, 20),
    st.sampled_from((3, 100)),
)
@example([(2 * i, 3) for i in range(12)], 0, 3)
def test_each_event_is_in_the_first_row_with_room(
    events: list[tuple[int, int]], given_first: int, at_once: int
) -> None:
    ordered = sorted(((at, at + dur) for at, dur in events), key=lambda each: (each[0], -each[1]))
    start, end = (np.array([event[i] for event in ordered], np.int64) for i in (0, 1))
    rows = Rows(MOST_ROWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "BLOCK", at_once)
        found = [
            *rows.fit(start[:given_first], end[:given_first]),
            *rows.fit(start[given_first:], end[given_first:]),
        ]
    assert found == slow_rows(ordered)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 2)), max_size=12),
    st.integers(1, 30),
    st.sets(st.integers(0, 12)),
)
def test_parts_of_a_lane_are_joined(
    events: list[tuple[int, int, int]], width: int, cuts: set[int]
) -> None:
    """Each event is so long after the one before it, and so long."""
    gap, dur, label = (np.array([event[i] for event in events], np.int64) for i in range(3))
    start = np.cumsum(gap + np.append(0, dur)[:-1])
    extent = 0, max(int((start + dur).max(initial=0)), 1)
    whole = cut_into_tiles(start, start + dur, label, extent, width)
    edges = sorted({0, *cuts, 12})
    parts = [
        cut_into_tiles(start[low:high], (start + dur)[low:high], label[low:high], extent, width)
        for low, high in pairwise(edges)
    ]
    assert_equal(vars(joined(parts)), vars(whole))


def test_a_lane_is_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        *(Kernel(i, i + 9, name=f"k{i % 3}", stream=i % 2) for i in range(1, 60, 3)),
        *(Range(i, i + 7, f"r{i % 4}") for i in range(40, 0, -2)),
        *(Call(i, i + 2) for i in range(1, 50)),
    ]
    with opened(*rows) as profile:
        whole = profile.report("timeline_tiles:bins=13:levels=2").rows()
        lengths = profile.report("event_durations").rows()
    monkeypatch.setattr(event_lanes, "AT_ONCE", 3)
    with opened(*rows) as profile:
        assert profile.report("timeline_tiles:bins=13:levels=2").rows() == whole
        assert profile.report("event_durations").rows() == lengths
