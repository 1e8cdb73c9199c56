"""Reports on profiles that hold totals and no events, by hand and against the events themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from small_store import (
    EVENTS,
    TOTALS,
    Call,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Row,
    Total,
    answers,
    asked,
    hand_computed,
    opened,
)

from nsysconv import Slice
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.queries import REPORTS, query

KERNELS_ALONE, MEMORY_ALONE = (Fact.KERNEL_TOTALS,), (Fact.MEMORY_TOTALS,)
GPU = (*KERNELS_ALONE, *MEMORY_ALONE)
MIGRATIONS = (*GPU, Fact.UNIFIED_MEMORY_TOTALS)


def told(report: str, *rows: Row, **options: Any) -> list[dict[str, Any]]:
    """The rows of a report on a profile that holds totals only."""
    return answers(report, *rows, **{"holds": TOTALS, **options})


def only(report: str, *rows: Row, **options: Any) -> dict[str, Any]:
    (row,) = told(report, *rows, **options)
    return row


def picked(row: dict[str, Any], *names: str) -> list[Any]:
    return [row[name] for name in names]


# -- kernels


def test_kernels_of_totals() -> None:
    rows = (Total("kernel", 4, 40, 5, 20, "small"), Total("kernel", 2, 120, 50, 70, "large"))
    large, small = told("kernels", *rows)
    figures = ("name", "kernel_count", "kernel_sum_ns", "min_ns", "max_ns")
    assert picked(large, *figures) == ["large", 2, 120, 50, 70]
    assert picked(small, *figures) == ["small", 4, 40, 5, 20]
    assert picked(large, "avg_ns", "kernel_pct") == [120 / 2, 100 * 120 / (120 + 40)]
    assert picked(small, "avg_ns", "kernel_pct") == [40 / 4, 100 * 40 / (120 + 40)]
    assert picked(large, "device_id", "med_ns", "stddev_ns") == [None] * 3


def test_a_figure_that_a_part_lacks_is_null() -> None:
    rows = (Total("kernel", 4, 40, 5, 20, "k"), Total("kernel", 1, None, None, 9, "k", pid=2),
            Total("kernel", 1, 10, 10, 10, "other"))  # fmt: skip
    other, row = told("kernels", *rows)
    assert picked(row, "kernel_count", "max_ns") == [4 + 1, 20]
    assert picked(row, "kernel_sum_ns", "avg_ns", "min_ns") == [None] * 3
    assert (other["kernel_pct"], row["kernel_pct"]) == (100, 0)


@pytest.mark.parametrize("names", ["short", "mangled"])
def test_there_is_one_spelling_of_a_name(names: str) -> None:
    with opened(Total("kernel", 1, 10, 10, 10, "a<int>(int)"), holds=GPU) as profile:
        (row,) = profile.report("kernels", kernel_names=names).rows()
    assert row["name"] == "a<int>(int)"


test_kernels_by_hand = hand_computed(
    ("equal names add up", "kernels kernel_count kernel_sum_ns avg_ns min_ns max_ns",
     (Total("kernel", 4, 40, 5, 20, "k"), Total("kernel", 1, 60, 60, 60, "k", pid=2)),
     [(4 + 1, 40 + 60, 100 / 5, min(5, 60), max(20, 60))], {"holds": TOTALS}),
    ("kernels of totals with devices", "kernels device_id",
     (Total("kernel", 1, 10, 10, 10, "k", device=1), Total("kernel", 1, 10, 10, 10, "k"),
      Total("kernel", 1, 10, 10, 10, "k", device=0)),
     [None, 0, 1], {"holds": TOTALS, "split": "device"}),
    # 20 of the 30 ns ran in the range `step`: the sum is 30 and not 50.
    ("the share of a range is in the total already", "kernels kernel_count kernel_sum_ns",
     (Total("kernel", 3, 30, 10, 10, "k"), Total("kernel", 2, 20, 10, 10, "k", range_name="step")),
     [(3, 30)], {"holds": TOTALS}),
    ("totals with count zero have no row", "kernels", (Total("kernel", 0, 0, 0, 0, "k"),), [],
     {"holds": TOTALS}),
)  # fmt: skip


def test_a_total_alone_keeps_its_median_and_deviation() -> None:
    """Those of two totals do not follow from theirs."""
    rows = (Total("kernel", 3, 60, 10, 30, "alone", med=20.5, stddev=10.0),
            Total("kernel", 3, 30, 5, 15, "two", med=10.0, stddev=5.0),
            Total("kernel", 1, 9, 9, 9, "two", pid=2, med=9.0, stddev=0.0))  # fmt: skip
    alone, two = told("kernels", *rows)
    assert picked(alone, "med_ns", "stddev_ns") == [20.5, 10.0]
    assert picked(two, "kernel_count", "med_ns", "stddev_ns") == [4, None, None]


# -- API calls


def test_totals_of_calls_leave_gpu_columns_null() -> None:
    rows = (Total("api_call", 2, 30, 10, 20, "cudaLaunchKernel", layer="runtime"),
            Total("kernel", 2, 30, 10, 20, "k"))  # fmt: skip
    row = only("api_vs_kernel", *rows)
    of_gpu = ("gpu_op_count", "kernel_count", "kernel_sum_ns", "memcpy_sum_ns", "memset_sum_ns",
              "launch_latency_avg_ns", "queue_count", "queue_avg_ns")  # fmt: skip
    assert picked(row, *of_gpu) == [None] * len(of_gpu)


test_api_calls_by_hand = hand_computed(
    ("api calls of totals", "api_vs_kernel layer name call_count api_sum_ns",
     (Total("api_call", 2, 30, 10, 20, "cuMemAlloc", layer="driver"),
      Total("api_call", 3, 90, 20, 40, "cudaMalloc", layer="runtime")),
     [("runtime", "cudaMalloc", 3, 90), ("driver", "cuMemAlloc", 2, 30)], {"holds": TOTALS}),
    # And those of two layers are two.
    ("two symbols of one function are one row", "api_vs_kernel layer name call_count api_sum_ns",
     (Total("api_call", 2, 30, 10, 20, "cudaFree_v1", layer="runtime"),
      Total("api_call", 1, 70, 70, 70, "cudaFree_v2", layer="runtime"),
      Total("api_call", 1, 5, 5, 5, "cudaFree_v3", layer="driver")),
     [("runtime", "cudaFree", 2 + 1, 30 + 70), ("driver", "cudaFree", 1, 5)], {"holds": TOTALS}),
    ("a call of no known layer and without a sum", "api_vs_kernel layer call_count api_sum_ns",
     (Total("api_call", 2, name="cudaFree"),), [(None, 2, None)], {"holds": TOTALS}),
)  # fmt: skip


# -- overview


ALL_KINDS = (
    Total("kernel", 3, 30, 5, 15, "k"), Total("kernel", 1, 50, 50, 50, "other"),
    Total("memcpy", 2, 8, 3, 5, "[memcpy]", direction="HtoD"),
    Total("unified_memory", 4, 100, direction="HtoD", device=0, bytes=4096),
    Total("unified_memory", 1, 10, direction="DtoH", device=1, bytes=1024),
)  # fmt: skip


def test_no_totals_no_rows() -> None:
    for report in ("kernels", "api_vs_kernel", "overview", "transfers", "processes"):
        assert told(report) == []


def test_an_overview_of_kernels_alone_says_nothing_of_copies() -> None:
    row = only("overview", *ALL_KINDS[:2], holds=KERNELS_ALONE)
    assert picked(row, "kernel_count", "kernel_sum_ns") == [3 + 1, 30 + 50]
    others = ("memcpy_count", "memcpy_sum_ns", "memset_count", "memset_sum_ns", "um_count")
    assert picked(row, *others) == [None] * len(others)


test_overview_by_hand = hand_computed(
    # Migrations name devices, and count for the one row that there is.
    ("an overview of all devices",
     "overview device_id device recording_ns kernel_count kernel_sum_ns memcpy_count memcpy_sum_ns "
     "memset_count memset_sum_ns um_count um_sum_ns um_bytes_sum",
     ALL_KINDS,
     [(None, "[all devices of the process]", 1000, 3 + 1, 30 + 50, 2, 8, 0, 0, 4 + 1, 100 + 10,
       4096 + 1024)],
     {"holds": MIGRATIONS, "recording_start_ns": 0, "recording_ns": 1000}),
    ("totals leave window and unions null",
     "overview window_start_ns window_ns busy_ns idle_ns idle_pct kernel_union_ns graph_launch_count "
     "graph_launch_sum_ns", ALL_KINDS, [(None,) * 8], {"holds": MIGRATIONS}),
    ("migrations without totals are null and not zero", "overview um_count um_sum_ns um_bytes_sum",
     ALL_KINDS[:3], [(None, None, None)], {"holds": GPU}),
    ("migrations without totals are null and not zero (2)", "overview um_count um_sum_ns um_bytes_sum",
     ALL_KINDS[:3], [(0, 0, 0)], {"holds": MIGRATIONS}),
    ("totals of migrations alone", "overview device_id device kernel_count memcpy_sum_ns um_bytes_sum",
     ALL_KINDS[3:], [(0, "GPU 0", None, None, 4096), (1, "GPU 1", None, None, 1024)],
     {"holds": (Fact.UNIFIED_MEMORY_TOTALS,)}),
    ("overview of totals with devices",
     "overview device_id device kernel_sum_ns memset_sum_ns um_count",
     (Total("kernel", 3, 30, 5, 15, "k", device=0), Total("memset", 1, 2, 2, 2, device=1),
      *ALL_KINDS[3:]),
     [(0, "GPU 0", 30, 0, 4), (1, "GPU 1", 0, 2, 1)], {"holds": MIGRATIONS}),
    # What the device of the other total did beside it is not told.
    ("a total without a device makes one row of all", "overview device_id kernel_sum_ns",
     (Total("kernel", 3, 30, 5, 15, "k", device=0), Total("kernel", 1, 9, 9, 9, "k")), [(None, 39)],
     {"holds": TOTALS}),
    ("an overview of two processes is one row", "overview device kernel_sum_ns",
     (Total("kernel", 3, 30, 5, 15, "k"), Total("kernel", 1, 9, 9, 9, "k", pid=2)),
     [("[all devices of the processes]", 39)], {"holds": TOTALS}),
    ("an overview of copies alone says nothing of kernels",
     "overview memcpy_count memcpy_sum_ns memset_count memset_sum_ns kernel_count kernel_sum_ns um_count",
     (ALL_KINDS[2],), [(2, 8, 0, 0, None, None, None)], {"holds": MEMORY_ALONE}),
)  # fmt: skip


# -- transfers


def test_transfers_of_totals() -> None:
    """Most bytes first; copies do not tell theirs. 4096 bytes in 100 ns are 40.96 GB/s."""
    rows = (Total("memcpy", 2, 8, 3, 5, "[memcpy DtoH]", direction="DtoH"),
            Total("memcpy", 1, 9, 9, 9, "[memcpy HtoD]", direction="HtoD"),
            Total("unified_memory", 3, 10, direction="DtoH", bytes=999, bytes_min=9, bytes_max=800),
            Total("unified_memory", 4, 60, direction="HtoD", bytes=96, bytes_min=32, bytes_max=32),
            Total("unified_memory", 1, 40, direction="HtoD", bytes=4000, bytes_min=4000,
                  bytes_max=4000))  # fmt: skip
    found = told("transfers", *rows, holds=MIGRATIONS)
    assert [picked(row, "direction", "memcpy_count", "memcpy_sum_ns", "bytes_sum") for row in found] == [
        ["UM HtoD", 4 + 1, 60 + 40, 96 + 4000], ["UM DtoH", 3, 10, 999],
        ["HtoD", 1, 9, None], ["DtoH", 2, 8, None]]  # fmt: skip
    figures = ("bytes_avg", "bytes_min", "bytes_max", "throughput_bytes_per_s", "bytes_med")
    assert picked(found[0], *figures) == [4096 / 5, 32, 4000, pytest.approx(40.96e9), None]
    assert picked(found[3], *figures) == [None] * 5
    assert {row[name] for row in found for name in ("device_id", "src_kind", "dst_kind")} == {None}


def test_transfers_by_device_and_of_no_time() -> None:
    rows = (Total("unified_memory", 1, 0, direction="HtoD", device=1, bytes=9),
            Total("unified_memory", 1, None, direction=None, device=0, bytes=5))  # fmt: skip
    found = told("transfers", *rows, holds=MIGRATIONS, split="device")
    assert [picked(row, "device_id", "direction", "memcpy_sum_ns", "throughput_bytes_per_s")
            for row in found] == [[0, "UM Unknown", None, None], [1, "UM HtoD", 0, None]]  # fmt: skip


def test_missing_totals_of_copies_are_null_not_zero() -> None:
    with pytest.raises(NotRecorded):
        told("transfers", *ALL_KINDS[3:], holds=(Fact.UNIFIED_MEMORY_TOTALS,))


# -- processes


PROCESSES = (
    Total("api_call", 2, 30, 10, 20, "cudaMalloc", layer="runtime"),
    Total("api_call", 5, 10, 2, 2, "cuMemAlloc", layer="driver"),
    Total("api_call", 1, 10, 10, 10, "cudaFree", layer="runtime", pid=2),
    Total("kernel", 3, 30, 5, 15, "k"), Total("memcpy", 2, 8, 3, 5, direction="HtoD"),
    Total("memset", 1, 1, 1, 1), Total("unified_memory", 10, 9, direction="HtoD", bytes=1),
    Total("range", 7, 1, 1, 1, "step"),
)  # fmt: skip
COUNTS = ("pid", "api_call_count", "gpu_op_count")


def test_processes_of_totals() -> None:
    found = told("processes", *PROCESSES)
    assert [picked(row, *COUNTS) for row in found] == [[1, 2 + 5, 3 + 2 + 1 + 10], [2, 1, 0]]
    assert {row["thread_count"] for row in found} == {None}


@pytest.mark.parametrize(("holds", "expected"), [
    ((Fact.API_TOTALS,), [7, None]), (GPU, [None, 6]), (MIGRATIONS, [None, 16]),
    (KERNELS_ALONE, [None, None]), (MEMORY_ALONE, [None, None]),
    ((Fact.UNIFIED_MEMORY_TOTALS,), [None, None]), ((), [None, None]),
])  # fmt: skip
def test_processes_show_what_is_held(holds: tuple[Fact, ...], expected: list[int | None]) -> None:
    row = told("processes", *PROCESSES, holds=holds)[0]
    assert picked(row, "api_call_count", "gpu_op_count") == expected


test_processes_by_hand = hand_computed(
    ("api time of processes is null for totals", "processes api_sum_ns", PROCESSES, [None, None],
     {"holds": TOTALS}),
    ("totals without process count for no process", "processes pid api_call_count gpu_op_count",
     (*PROCESSES, Total("kernel", 9, 9, 1, 1, "k", pid=None)), [(1, 7, None), (2, 1, None)],
     {"holds": TOTALS}),
    ("slice leaves totals of processes null", "processes pid api_call_count gpu_op_count", PROCESSES,
     [(1, None, None), (2, None, None)], {"holds": TOTALS, "time": (0, 9)}),
)  # fmt: skip


# -- which of both


EVENTS_TOO: tuple[Row, ...] = (Kernel(10, 20, 1), Memcpy(30, 40, 1), Call(1, 5, 1))
# Without annotations these have no answer, and with them no totals.
OF_ANNOTATIONS = {"phases", "phase_steps"}
FAR_OFF = (
    Total("kernel", 999, 999, 1, 1, "kernel"), Total("memcpy", 999, 999, 1, 1, direction="HtoD"),
    Total("api_call", 999, 999, 1, 1, "cudaLaunchKernel", layer="runtime"),
    Total("unified_memory", 999, 999, direction="HtoD", bytes=999),
)  # fmt: skip


def test_events_win_over_totals() -> None:
    names = [name for name in REPORTS if name not in OF_ANNOTATIONS]
    with (
        opened(*EVENTS_TOO, *FAR_OFF, holds=EVENTS | TOTALS) as both,
        opened(*EVENTS_TOO, holds=EVENTS) as events,
    ):
        for one, another in zip(both.reports(names), events.reports(names), strict=True):
            assert (one.table, one.not_recorded) == (another.table, another.not_recorded), one.name


def test_totals_of_calls_stand_beside_events_of_the_gpu() -> None:
    rows = (*EVENTS_TOO[:2], FAR_OFF[2])
    options = {"without": (Fact.API_CALLS, Fact.API_LINKS, Fact.THREADS), "holds": EVENTS | TOTALS}
    row = only("api_vs_kernel", *rows, **options)
    assert picked(row, "call_count", "gpu_op_count") == [999, None]
    assert picked(only("processes", *rows, **options), "api_call_count", "gpu_op_count") == [999, 2]


@pytest.mark.parametrize(("report", "missing"), [
    ("kernels", Fact.KERNELS), ("overview", Fact.KERNELS), ("transfers", Fact.MEMCPYS),
    ("api_vs_kernel", Fact.API_CALLS)])  # fmt: skip
def test_totals_do_not_answer_for_a_slice(report: str, missing: Fact) -> None:
    with opened(*FAR_OFF, holds=TOTALS) as profile:
        assert profile.report(report).row_count > 0
        with pytest.raises(NotRecorded) as error:
            profile.report(report, slice=Slice((0, 100)))
    assert error.value.missing == (missing,)


@pytest.mark.parametrize("report", ["kernels", "overview", "transfers", "api_vs_kernel"])
def test_neither_events_nor_totals_is_not_recorded(report: str) -> None:
    with pytest.raises(NotRecorded):
        told(report, *FAR_OFF, holds=TOTALS - query(report).totals)


@pytest.mark.parametrize(("rows", "own", "other", "reports"), [
    (ALL_KINDS[:1], KERNELS_ALONE, MEMORY_ALONE, ("kernels", "kernel_categories", "cuda_gpu_kern_sum")),
    (ALL_KINDS[2:3], MEMORY_ALONE, KERNELS_ALONE,
     ("transfers", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum")),
])  # fmt: skip
def test_totals_of_its_own_kind_alone_answer_and_those_of_the_other_do_not(
    rows: Any, own: Any, other: Any, reports: tuple[str, ...]
) -> None:
    for report in reports:
        assert len(told(report, *rows, holds=own)) == 1
        assert told(report, holds=own) == []  # none of its own kind is no row
        with pytest.raises(NotRecorded):
            told(report, *ALL_KINDS[:3], holds=other)


@pytest.mark.parametrize(("report", "holds", "operations", "missing"), [
    ("cuda_gpu_sum", KERNELS_ALONE, ["k", "other"], "memory operations are"),
    ("cuda_gpu_sum", MEMORY_ALONE, ["[CUDA memcpy Host-to-Device]"], "kernels are"),
    ("cuda_gpu_sum", GPU, ["[CUDA memcpy Host-to-Device]", "k", "other"], ""),
    ("cuda_api_gpu_sum", (Fact.API_TOTALS,), ["cudaFree"], "kernels and memory operations are"),
    ("cuda_api_gpu_sum", (Fact.API_TOTALS, *KERNELS_ALONE), ["cudaFree", "k", "other"],
     "memory operations are"),
])  # fmt: skip
def test_tables_of_several_kinds_say_which_of_them_is_not_recorded(
    report: str, holds: tuple[Fact, ...], operations: list[str], missing: str
) -> None:
    calls = Total("api_call", 1, 5, 5, 5, "cudaFree", layer="runtime")
    rows = [row for fact, row in ((Fact.API_TOTALS, calls), (Fact.KERNEL_TOTALS, ALL_KINDS[0]),
            (Fact.KERNEL_TOTALS, ALL_KINDS[1]), (Fact.MEMORY_TOTALS, ALL_KINDS[2]))
            if fact in holds]  # fmt: skip
    found = asked(report, *rows, holds=holds)
    assert sorted(row["operation"] for row in found.rows()) == operations
    texts = [note.text for note in found.notes if note.slug == "activities-partial"]
    assert texts == ([f"{missing} not recorded and have no rows"] if missing else [])


def test_totals_add_no_rows_to_a_table_of_several_kinds_of_a_slice() -> None:
    """The calls are events and cut to the slice; kernels are totals of the whole profile."""
    holds = (Fact.API_CALLS, Fact.THREADS, *GPU)
    with opened(Call(10, 20), *ALL_KINDS[:3], holds=holds) as profile:
        whole = profile.report("cuda_api_gpu_sum")
        part = profile.report("cuda_api_gpu_sum", slice=Slice((10, 20)))
    assert len(whole.rows()) == 1 + 3
    assert [row["category"] for row in part.rows()] == ["CUDA_API"]
    assert [note.slug for note in part.notes] == ["activities-partial"]


def test_reports_of_events_are_not_recorded_for_totals() -> None:
    names = ("transfer_sizes", "idle_summary", "idle_host", "idle_gaps", "gpu_utilization")
    with opened(*FAR_OFF, holds=TOTALS) as profile:
        assert [report.table for report in profile.reports(names)] == [None] * 5


@pytest.mark.parametrize(("pids", "rank"), [((1,), 3), ((1, 2), None), ((1, 9), 3), ((9,), None)])
def test_the_rank_is_that_of_the_only_ranked_process_behind_a_row(
    pids: tuple[int, ...], rank: int | None
) -> None:
    rows = [total._replace(pid=pid) for pid in pids for total in FAR_OFF]
    with opened(*rows, holds=TOTALS, ranks={1: 3, 2: 5}) as profile:
        for report in profile.reports(["kernels", "overview", "transfers", "api_vs_kernel"]):
            assert {row["rank"] for row in report.rows()} == {rank}, report.name


# -- totals against the events themselves


class Done(NamedTuple):
    """One event, to be written down as such or to be added up."""

    kind: str
    name: str
    direction: str
    device: int
    pid: int
    dur: int
    bytes: int


done = st.builds(
    Done, st.sampled_from(["kernel", "memcpy", "memset", "unified_memory", "runtime", "driver"]),
    st.sampled_from(["one", "two", "two_v2"]), st.sampled_from(["HtoD", "DtoH"]),
    st.integers(0, 1), st.integers(1, 2), st.integers(0, 9), st.integers(0, 99),
)  # fmt: skip


def event(each: Done, start: int, device: int | None) -> Row:
    """One after the other, so that calls do not nest."""
    end, where = start + each.dur, {"pid": each.pid, "device": device}
    if each.kind == "kernel":
        return Kernel(start, end, name=each.name, **where)
    if each.kind == "memset":
        return Memset(start, end, **where)
    if each.kind in ("runtime", "driver"):
        return Call(start, end, layer=each.kind, name=each.name, pid=each.pid)
    kind = Memcpy if each.kind == "memcpy" else Migration
    return kind(start, end, direction=each.direction, bytes=each.bytes, **where)


def as_totals(all_of: Iterable[Done], apart: bool) -> list[Row]:
    """The slow, obvious sums."""
    groups: dict[Total, list[Done]] = {}
    for each in all_of:
        called = each.kind in ("runtime", "driver")
        moved = each.kind in ("memcpy", "unified_memory")
        total = Total(
            "api_call" if called else each.kind, 0, pid=each.pid,
            name=each.name if called or each.kind == "kernel" else None,
            layer=each.kind if called else None, direction=each.direction if moved else None,
            device=each.device if apart and not called else None,
        )  # fmt: skip
        groups.setdefault(total, []).append(each)
    rows: list[Row] = []
    for total, members in groups.items():
        durs, sizes = [each.dur for each in members], [each.bytes for each in members]
        total = total._replace(count=len(durs), sum=sum(durs), min=min(durs), max=max(durs))
        if total.kind == "unified_memory":
            total = total._replace(bytes=sum(sizes), bytes_min=min(sizes), bytes_max=max(sizes))
        rows.append(total)
    return rows


SHARED = {
    "kernels": ("rank", "device_id", "name", "kernel_count", "kernel_sum_ns", "kernel_pct",
                "avg_ns", "min_ns", "max_ns"),
    "api_vs_kernel": ("rank", "layer", "name", "call_count", "api_sum_ns"),
    "overview": ("rank", "device_id", "kernel_count", "kernel_sum_ns", "memcpy_count",
                 "memcpy_sum_ns", "memset_count", "memset_sum_ns", "um_count", "um_sum_ns",
                 "um_bytes_sum"),
    "processes": ("rank", "pid", "api_call_count", "gpu_op_count"),
}  # fmt: skip
OF_MIGRATIONS = ("bytes_sum", "bytes_avg", "bytes_min", "bytes_max", "throughput_bytes_per_s")


def shared(report: str, *rows: Row, **options: Any) -> list[list[Any]]:
    found = answers(report, *rows, ranks={1: 3, 2: 5}, **options)
    if report != "transfers":
        return [picked(row, *SHARED[report]) for row in found if row.get("layer", "") is not None]
    keys = ("rank", "device_id", "direction", "memcpy_count", "memcpy_sum_ns")
    told = [picked(row, *keys, *(OF_MIGRATIONS if row["direction"].startswith("UM") else ()))
            for row in found]  # fmt: skip
    return sorted(told, key=repr)  # without bytes of copies there is no order by bytes


@pytest.mark.parametrize("report", [*SHARED, "transfers"])
@examples(25)
@given(st.lists(done, max_size=40), st.booleans())
def test_totals_agree_with_the_events_they_sum_up(
    report: str, all_of: list[Done], apart: bool
) -> None:  # fmt: skip
    rows = [event(each, 100 * i, each.device if apart else None)
            for i, each in enumerate(all_of, 1)]  # fmt: skip
    assert shared(report, *as_totals(all_of, apart), holds=TOTALS) == shared(report, *rows)
