"""Utilization over time, by hand and against counting nanosecond by nanosecond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Graph, Kernel, Memcpy, Memset, Migration, Range, Row, answers, opened

from nsysconv.api import Slice
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
    rows = bins(2, Kernel(100, 200), Kernel(250, 300), Call(340, 350), time=(150, 350))
    assert column("start_ns", rows) == [150, 250]
    assert column("busy_ns", rows) == [50, 50]


def test_unrecorded_copies_are_null_not_zero() -> None:
    (row,) = bins(1, Kernel(0, 10), without=[Fact.MEMCPYS])
    assert (row["busy_ns"], row["memcpy_union_ns"], row["memcpy_pct"]) == (10, None, None)


NCCL = "ncclDevKernel_AllReduce_Sum_f32(void*)"
CLASSES = ("computation_union_ns", "exposed_communication_ns", "exposed_memcpy_ns", "exposed_memset_ns",
           "exposed_um_ns", "idle_ns")  # fmt: skip


def test_each_instant_of_a_bin_is_in_the_first_class_that_runs() -> None:
    """[0, 400) in 4 bins. The collective [50, 150) is hidden until 80, the copy [120, 180) until 150;
    the set [170, 220) shows from 180, the migration [210, 320) from 220 to 300, where a graph begins."""
    rows = bins(4, Kernel(0, 80), Kernel(50, 150, name=NCCL), Memcpy(120, 180), Memset(170, 220),
                Migration(210, 320), Graph(300, 340), Kernel(390, 400))  # fmt: skip
    assert [[row[name] for name in CLASSES] for row in rows] == [
        [80, 20, 0, 0, 0, 0], [0, 50, 30, 20, 0, 0], [0, 0, 0, 20, 80, 0], [50, 0, 0, 0, 0, 50],
    ]  # fmt: skip
    assert column("kernel_graph_union_ns", rows) == [100, 50, 0, 50]


def test_the_classes_of_a_device_are_those_of_its_operations() -> None:
    rows = bins(1, Kernel(0, 10), Kernel(0, 20, device=1, name=NCCL), Kernel(40, 50, device=1))
    assert [[row[name] for name in CLASSES[:2]] for row in rows] == [[10, 0], [10, 20]]


@pytest.mark.parametrize(
    ("fact", "name"),
    [
        (Fact.MEMCPYS, "exposed_memcpy_ns"),
        (Fact.MEMSETS, "exposed_memset_ns"),
        (Fact.UNIFIED_MEMORY, "exposed_um_ns"),
    ],
)
def test_unrecorded_classes_are_null_not_zero(fact: Fact, name: str) -> None:
    (row,) = bins(1, Kernel(0, 10), without=[fact])
    assert [each for each in CLASSES if row[each] is None] == [name]


def test_the_longest_time_there_is_does_not_overflow() -> None:
    edges = equal_parts(-(2**53), 2**53, 100_000)
    assert (edges[0], edges[-1], len(edges)) == (-(2**53), 2**53, 100_001)
    assert set(np.diff(edges).tolist()) <= {2**54 // 100_000, 2**54 // 100_000 + 1}


OPS = {
    "works": Kernel, "talks": lambda start, end: Kernel(start, end, name=NCCL), "copies": Memcpy,
    "sets": Memset, "migrates": Migration, "launches": Graph,
}  # fmt: skip
_RANK = {"works": 0, "launches": 0, "talks": 1, "copies": 2, "sets": 3, "migrates": 4}
some_ops = st.tuples(st.sampled_from(sorted(OPS)), st.integers(1, 60), st.integers(0, 20))


@given(st.lists(some_ops, min_size=1, max_size=10), st.integers(1, 7), st.booleans())
@examples(120)
def test_as_counted_one_by_one(found: list[tuple[str, int, int]], count: int, sliced: bool) -> None:
    rows = [OPS[kind](start, start + dur) for kind, start, dur in found]
    with opened(*rows, Range(0, 100, "all")) as profile:  # the slice is in the recording
        part = {"slice": Slice((10, 50))} if sliced else {}
        told = profile.report(f"utilization_over_time:bins={count}", **part).rows()
        summary = profile.report("summary", **part).rows()
        (device,) = profile.report("overview", **part).rows()
    for row in told:
        if row["dur_ns"] is None:
            continue
        running = [{kind for kind, start, dur in found if start <= t < start + dur}
                   for t in range(row["start_ns"], row["start_ns"] + row["dur_ns"])]  # fmt: skip
        first = [min((_RANK[kind] for kind in kinds), default=5) for kinds in running]
        assert [row[name] for name in CLASSES] == [first.count(rank) for rank in range(6)]
        assert (row["busy_ns"], row["memcpy_union_ns"]) == (
            sum(map(bool, running)), sum("copies" in kinds for kinds in running))  # fmt: skip
    if device["window_ns"] is not None:
        ends = [row["start_ns"] + row["dur_ns"] for row in told]
        assert column("start_ns", told) == [device["window_start_ns"], *ends[:-1]]
        assert sum(column("dur_ns", told)) == device["window_ns"]
    # Inside the window the classes of the account are those of all bins together.
    for name in CLASSES[:-1]:
        assert sum(row[name] or 0 for row in told) == sum(row[name] or 0 for row in summary)
