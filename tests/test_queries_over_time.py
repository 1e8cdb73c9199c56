"""Utilisation over time, by hand and against counting nanosecond by nanosecond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from small_store import Graph, Kernel, Memcpy, Migration, Row, answers, opened

from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.timeline.intervals import equal_parts

MEASURES = ("busy_ns", "kernel_graph_union_ns", "memcpy_union_ns")


def bins(count: int, *rows: Row, **options: Any) -> list[dict[str, Any]]:
    return answers(f"utilization_over_time:bins={count}", *rows, **options)


def column(name: str, rows: list[dict[str, Any]]) -> list[Any]:
    return [row[name] for row in rows]


def test_what_ran_is_cut_at_the_edges_of_bins() -> None:
    """[100, 350) in 5 bins of 50 ns: the kernels cover [100, 210), the copy [200, 225) and [325, 350)."""
    rows = bins(5, Kernel(100, 190), Kernel(150, 210), Memcpy(200, 225), Memcpy(325, 350))
    assert column("bin", rows) == [0, 1, 2, 3, 4]
    assert column("start_ns", rows) == [100, 150, 200, 250, 300]
    assert column("dur_ns", rows) == [50] * 5
    assert column("kernel_graph_union_ns", rows) == [50, 50, 10, 0, 0]
    assert column("memcpy_union_ns", rows) == [0, 0, 25, 0, 25]
    assert column("busy_ns", rows) == [50, 50, 25, 0, 25]
    assert column("busy_pct", rows) == [100, 100, 50, 0, 50]
    assert column("gpu_utilization_pct", rows) == [100, 100, 20, 0, 0]
    assert column("memcpy_pct", rows) == [0, 0, 50, 0, 50]


def test_bins_differ_by_a_nanosecond_at_most() -> None:
    """10 ns in 3 bins: 3, 3 and 4."""
    assert column("dur_ns", bins(3, Kernel(0, 10))) == [3, 3, 4]


def test_no_more_bins_than_nanoseconds() -> None:
    assert column("start_ns", bins(60, Kernel(5, 8))) == [5, 6, 7]


def test_sixty_bins_by_default() -> None:
    assert len(answers("utilization_over_time", Kernel(0, 600))) == 60


def test_a_window_without_length_is_a_bin_without_a_share() -> None:
    (row,) = bins(5, Kernel(7, 7))
    assert (row["start_ns"], row["dur_ns"], row["busy_ns"], row["busy_pct"]) == (7, 0, 0, None)


def test_each_device_has_a_window_of_its_own() -> None:
    rows = bins(2, Kernel(0, 100), Kernel(50, 60, device=1), Memcpy(80, 90, device=1))
    assert [(row["device_id"], row["start_ns"], row["busy_ns"]) for row in rows] == [
        (0, 0, 50), (0, 50, 50), (1, 50, 10), (1, 70, 10)]  # fmt: skip
    assert column("memcpy_union_ns", rows) == [0, 0, 0, 10]


def test_device_without_window_has_a_row_of_nulls() -> None:
    rows = bins(2, Kernel(0, 10), Migration(5, 8, device=1))
    assert [name for name, value in rows[2].items() if value is not None] == [
        "profile",
        "device_id",
    ]


def test_migrations_and_graphs_are_busy_time() -> None:
    """The migration does not extend the window, and is no kernel; the graph is as good as one."""
    rows = bins(1, Kernel(0, 10), Migration(20, 30), Graph(40, 50), Migration(60, 90))
    assert [column(name, rows) for name in MEASURES] == [[30], [20], [0]]
    assert column("dur_ns", rows) == [50]


def test_a_slice_is_what_is_cut_in_bins() -> None:
    rows = bins(2, Kernel(100, 200), Kernel(250, 300), time=(150, 350))
    assert column("start_ns", rows) == [150, 250]
    assert column("busy_ns", rows) == [50, 50]


def test_unrecorded_copies_are_null_not_zero() -> None:
    (row,) = bins(1, Kernel(0, 10), without=[Fact.MEMCPYS])
    assert (row["busy_ns"], row["memcpy_union_ns"], row["memcpy_pct"]) == (10, None, None)


@pytest.mark.parametrize("count", [0, -1, 100_001])
def test_number_of_bins_out_of_range_is_refused(count: int) -> None:
    with opened(Kernel(0, 10)) as profile, pytest.raises(UsageError, match="1 to 100000"):
        profile.report(f"utilization_over_time:bins={count}")


def test_the_longest_time_there_is_does_not_overflow() -> None:
    edges = equal_parts(-(2**53), 2**53, 100_000)
    assert (edges[0], edges[-1], len(edges)) == (-(2**53), 2**53, 100_001)
    assert set(np.diff(edges).tolist()) <= {2**54 // 100_000, 2**54 // 100_000 + 1}


intervals = st.tuples(st.integers(1, 60), st.integers(0, 12), st.booleans())


@given(st.lists(intervals, min_size=1, max_size=8), st.integers(1, 9))
@examples(60)
def test_as_counted_one_by_one(found: list[tuple[int, int, bool]], count: int) -> None:
    rows = [(Memcpy if copy else Kernel)(start, start + dur) for start, dur, copy in found]
    with opened(*rows) as profile:
        told = profile.report(f"utilization_over_time:bins={count}").rows()
        (device,) = profile.report("overview").rows()
    for row in told:
        inside = range(row["start_ns"], row["start_ns"] + row["dur_ns"])
        running = [[op for op in rows if op.start <= t < op.end] for t in inside]  # type: ignore[operator]
        assert row["busy_ns"] == sum(map(bool, running))
        assert row["memcpy_union_ns"] == sum(
            any(isinstance(op, Memcpy) for op in ops) for ops in running
        )
    ends = [row["start_ns"] + row["dur_ns"] for row in told]
    assert column("start_ns", told) == [device["window_start_ns"], *ends[:-1]]
    assert sum(column("dur_ns", told)) == device["window_ns"]
    assert sum(column("busy_ns", told)) == device["busy_ns"]
