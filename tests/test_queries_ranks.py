"""rank_summary and gpu_time_util_map: a few ranks by hand, and the map against instants."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from slow_versions import instants
from small_store import (
    Call,
    Graph,
    Kernel,
    Memcpy,
    Migration,
    MpiCall,
    Row,
    answers,
    cells,
    hand_computed,
    picked,
    write,
)

from nsysconv import api
from nsysconv.facts import Fact

NCCL = "ncclDevKernel_AllReduce_Sum_f32(void*)"
UTC = 1_700_000_000_000_000_000
ZERO_OF_BINS = UTC >> 40 << 40
"""A moment at which bins of any length that is needed here begin."""


def run(folder: Path, *ranks: tuple[tuple[Row, ...], dict[str, Any]]) -> Path:
    """A store of one run with these ranks: their rows, and options as for `write`."""
    store = folder / "job.db"
    for rank, (rows, options) in enumerate(ranks):
        write(store, *rows, label=f"r{rank}", run="job", **{"ranks": {1: rank}, **options})
    return store


def report(store: Path, spec: str, **options: Any) -> list[dict[str, Any]]:
    (found,) = api.report_on(store, [spec], **options)
    return found.rows()


# -- rank_summary

RANK_0 = (
    Kernel(100, 300), Kernel(250, 400, stream=8, name=NCCL), Memcpy(400, 450, bytes=10),
    Memcpy(480, 500, direction="DtoH", bytes=5),
    Call(90, 120), Call(95, 110), Call(200, 230),
    MpiCall(0, 40, "MPI_Recv"), MpiCall(30, 60, "MPI_Send", tid=12),
)  # fmt: skip


def test_a_rank_s_row_by_hand() -> None:
    """Window 100 to 500; busy [100, 450) and [480, 500); computation [100, 300); nccl [250, 400), of
    which [300, 400) is exposed. The rest are copies and the gap between them.
    """
    (row,) = answers("rank_summary", *RANK_0, ranks={1: 0}, host="node1")
    assert row == {
        "profile": "small", "rank": 0, "pid": 1, "device_id": 0, "over_ranks": None,
        "rank_count": None, "cycle_count": 1, "host": "node1", "dimensions": None,
        "window_ns": 400, "busy_ns": 370, "idle_ns": 30, "idle_pct": 7.5,
        "kernel_count": 2, "kernel_sum_ns": 350, "kernel_union_ns": 300,
        "computation_union_ns": 200, "communication_union_ns": 150,
        "exposed_communication_ns": 100, "other_ns": 50 + 30 + 20,
        "htod_bytes_sum": 10, "htod_sum_ns": 50, "dtoh_bytes_sum": 5, "dtoh_sum_ns": 20,
        "api_sum_ns": 30 + 30,  # the call at 95 lies in that at 90
        "mpi_union_ns": 60,
        "busy_imbalance_pct": 0.0, "computation_imbalance_pct": 0.0,
        "communication_imbalance_pct": 0.0, "mpi_imbalance_pct": 0.0,
    }  # fmt: skip


def test_least_median_greatest_and_imbalance_over_ranks(tmp_path: Path) -> None:
    """Computation 100, 200, 300 and 600: median 250, mean 300, so the greatest is 100 % above it."""
    times = (100, 600, 200, 300)
    store = run(tmp_path, *(((Kernel(0, time),), {}) for time in times))
    rows = report(store, "rank_summary")
    assert [row["over_ranks"] for row in rows] == ["min", "median", "max", *[None] * 4]
    assert [row["computation_union_ns"] for row in rows] == [100, 250, 600, *times]
    assert [row["computation_imbalance_pct"] for row in rows[3:]] == pytest.approx(
        [100 * (100 / 300 - 1), 100.0, 100 * (200 / 300 - 1), 0.0])  # fmt: skip
    assert rows[2]["computation_imbalance_pct"] == 100.0
    assert [row["rank_count"] for row in rows[:3]] == [4, 4, 4]
    assert {row["profile"] for row in rows[:3]} == {None}


def test_a_median_of_whole_numbers_is_whole(tmp_path: Path) -> None:
    """The mean of 3 and 4 is 3.5, a half up is 4."""
    store = run(tmp_path, ((Kernel(0, 3),), {}), ((Kernel(0, 4),), {}))
    assert report(store, "rank_summary")[1]["busy_ns"] == 4


def test_one_row_for_each_device_of_a_rank() -> None:
    rows = answers("rank_summary", Kernel(0, 10), Kernel(5, 25, device=1), Call(0, 7), ranks={1: 3})
    assert [picked(r, "rank", "device_id", "window_ns", "api_sum_ns") for r in rows[3:]] == [
        (3, 0, 10, 7), (3, 1, 20, 7)]  # fmt: skip


def test_two_ranks_on_one_device_have_their_own_windows() -> None:
    rows = answers("rank_summary", Kernel(0, 10), Kernel(30, 50, pid=2), ranks={1: 0, 2: 1})
    assert [picked(row, "rank", "window_ns", "busy_ns") for row in rows[3:]] == [
        (0, 10, 10),
        (1, 20, 20),
    ]


def test_processes_without_a_rank_are_left_out_where_there_are_ranks() -> None:
    rows = (Kernel(0, 10), Call(0, 5, pid=2))
    assert [row["pid"] for row in answers("rank_summary", *rows, ranks={1: 0})] == [1]
    assert [row["pid"] for row in answers("rank_summary", *rows)[3:]] == [1, 2]


def test_ranks_of_cpus_have_their_time_in_mpi(tmp_path: Path) -> None:
    """Means 40 of 20 and 60: 50 % above it."""
    holds = {"holds": {Fact.MPI_CALLS, Fact.RANKS}}
    store = run(
        tmp_path, ((MpiCall(0, 20, "MPI_Bcast"),), holds), ((MpiCall(0, 60, "MPI_Bcast"),), holds)
    )
    rows = report(store, "rank_summary")
    assert [row["mpi_union_ns"] for row in rows] == [20, 40, 60, 20, 60]
    assert rows[2]["mpi_imbalance_pct"] == 50.0
    assert {row["busy_ns"] for row in rows} == {None}


test_rank_summary_by_hand = hand_computed(
    ("a rank that used no gpu used it for no time",
     "rank_summary busy_ns kernel_sum_ns htod_bytes_sum window_ns", (Call(0, 5),), [(0, 0, 0, None)],
     {"ranks": {1: 0}}),
    ("what was not recorded is null",
     "rank_summary htod_bytes_sum mpi_union_ns api_sum_ns mpi_imbalance_pct", (Kernel(0, 10),),
     [(None,) * 4], {"without": [Fact.MEMCPYS, Fact.MPI_CALLS, Fact.THREADS]}),
    ("a slice is cut", "rank_summary window_ns busy_ns kernel_sum_ns computation_union_ns", RANK_0,
     [(200, 200, 350, 150)], {"time": (150, 350)}),
)  # fmt: skip


# -- gpu_time_util_map


def test_two_ranks_on_one_time_axis(tmp_path: Path) -> None:
    """The zero of rank 1 is 100 ns after that of rank 0, both where a bin begins.

    Rank 0 works [0, 64) and [192, 256), rank 1 at [100, 128) of the axis. Of the widths with at most 8
    bins for [0, 256) the least is 32.
    """
    store = run(
        tmp_path,
        ((Kernel(0, 64), Kernel(192, 256)), {"utc": ZERO_OF_BINS}),
        ((Kernel(0, 28),), {"utc": ZERO_OF_BINS + 100}),
    )
    rows = report(store, "gpu_time_util_map:bins=8")
    told = [picked(row, "rank", "bin", "start_ns", "dur_ns", "busy_ns") for row in rows]
    assert told == [
        (0, 0, 0, 32, 32), (0, 1, 32, 32, 32), (0, 2, 64, 32, 0), (0, 3, 96, 32, 0), (0, 4, 128, 32, 0),
        (0, 5, 160, 32, 0), (0, 6, 192, 32, 32), (0, 7, 224, 32, 32),
        (1, 3, 100, 28, 28),
    ]  # fmt: skip
    assert rows[-1]["busy_pct"] == 100.0
    assert rows[-1]["start_utc_ns"] == ZERO_OF_BINS + 100


def test_bins_are_added_up_to_those_of_the_longest(tmp_path: Path) -> None:
    """Rank 1 alone would have bins of 2 ns; with rank 0 they are 64 ns long."""
    store = run(
        tmp_path,
        ((Kernel(0, 256),), {"utc": ZERO_OF_BINS}),
        ((Kernel(0, 1), Kernel(3, 5), Kernel(6, 7)), {"utc": ZERO_OF_BINS + 61}),
    )
    rows = report(store, "gpu_time_util_map:bins=4")
    mine = [picked(row, "bin", "start_ns", "dur_ns", "busy_ns") for row in rows if row["rank"] == 1]
    assert mine == [(0, 61, 3, 1), (1, 64, 4, 3)]


def test_kernels_and_graphs_beside_all_that_is_busy() -> None:
    (row,) = answers("gpu_time_util_map:bins=1", Kernel(0, 10), Graph(20, 30), Memcpy(30, 34),
                     Migration(36, 38), Kernel(39, 40))  # fmt: skip
    assert picked(row, "busy_ns", "kernel_graph_union_ns", "dur_ns") == (27, 21, 40)


def test_profiles_without_a_time_of_day_begin_with_the_first(tmp_path: Path) -> None:
    store = run(tmp_path, ((Kernel(5, 69),), {"utc": ZERO_OF_BINS}), ((Kernel(1_000, 1_064),), {}))
    (found,) = api.report_on(store, ["gpu_time_util_map:bins=8"])
    rows = found.rows()
    assert [picked(r, "start_ns", "busy_ns", "start_utc_ns") for r in rows if r["rank"] == 1] == [
        (start, 16, None) for start in (0, 16, 32, 48)]  # fmt: skip
    assert [(note.slug, note.count) for note in found.notes] == [("windows-aligned", 1)]


def test_without_any_time_of_day_all_windows_begin_together(tmp_path: Path) -> None:
    store = run(tmp_path, ((Kernel(70, 80),), {}), ((Kernel(5, 15),), {}))
    rows = report(store, "gpu_time_util_map:bins=1")
    assert [picked(row, "start_ns", "dur_ns", "busy_ns") for row in rows] == [
        (0, 10, 10),
        (0, 10, 10),
    ]


def test_impossible_time_of_day_is_ignored() -> None:
    assert cells("gpu_time_util_map:bins=1 start_ns start_utc_ns", Kernel(3, 4), utc=-5) == [(0, None)]


spans = st.lists(
    st.tuples(st.integers(1, 90), st.integers(1, 20)).map(lambda s: (s[0], s[0] + s[1])),
    min_size=1, max_size=5,
)  # fmt: skip
zeros = st.integers(ZERO_OF_BINS, ZERO_OF_BINS + 300)


@given(st.lists(st.tuples(spans, zeros), min_size=1, max_size=3), st.integers(1, 9))
@examples(40)
def test_the_map_as_counted_instant_by_instant(
    ranks: list[tuple[list[tuple[int, int]], int]], bins: int
) -> None:
    with TemporaryDirectory() as folder:
        store = run(Path(folder), *((tuple(Kernel(*span) for span in found), {"utc": zero})
                                    for found, zero in ranks))  # fmt: skip
        rows = report(store, f"gpu_time_util_map:bins={bins}")
    moments = [zero + t for found, zero in ranks for span in found for t in span]
    first, last = min(moments), max(moments) - 1
    width = next(w for w in (1 << k for k in range(64)) if last // w - first // w < bins)
    for rank, (found, zero) in enumerate(ranks):
        busy = {zero + t for t in instants(found)}
        mine = [row for row in rows if row["rank"] == rank]
        parts = [range(r["start_utc_ns"], r["start_utc_ns"] + r["dur_ns"]) for r in mine]
        assert [t for part in parts for t in part] == list(range(min(busy), max(busy) + 1))
        assert [row["busy_ns"] for row in mine] == [len(busy & set(part)) for part in parts]
        assert [{row["bin"]} for row in mine] == [
            {t // width - first // width for t in part} for part in parts]  # fmt: skip
