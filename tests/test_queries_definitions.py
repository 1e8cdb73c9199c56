"""Calls, latencies, statistics, transfers and the host's share of gaps, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from small_store import (
    Call,
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Operator,
    Overhead,
    Range,
    Row,
    answers,
    asked,
    cell,
    hand_computed,
    only,
    opened,
)

from nsysconv.facts import Fact

SIDE = "cuLaunchKernel"


def by_name(*rows: Row, **options: Any) -> dict[str, dict[str, Any]]:
    """The rows of api_vs_kernel by name."""
    return {row["name"]: row for row in answers("api_vs_kernel", *rows, **options)}


def latencies(*rows: Row, **options: Any) -> tuple[float | None, int, float | None]:
    """Mean latency, number of queue times and their mean of the only function."""
    (row,) = (r for r in answers("api_vs_kernel", *rows, **options) if r["layer"])
    return row["launch_latency_avg_ns"], row["queue_count"], row["queue_avg_ns"]


# -- API time


NESTED = (Call(0, 100, 1, name="cudaMemcpy"),
          Call(10, 90, 2, "driver", name="cuMemcpyHtoD"))  # fmt: skip


def test_a_sum_by_name_holds_nested_calls_too() -> None:
    found = by_name(*NESTED)
    assert {name: row["api_sum_ns"] for name, row in found.items()} == {
        "cudaMemcpy": 100, "cuMemcpyHtoD": 80}  # fmt: skip


def test_calls_that_cross_are_noted_and_count_whole_by_name() -> None:
    with opened(Call(0, 100, 1), Call(50, 150, 2, name="cudaFree"), Call(160, 170, 3)) as profile:
        report = profile.report("api_vs_kernel")
    assert [(note.slug, note.count) for note in report.notes] == [("api-call-crossing", 1)]
    assert {row["name"]: row["api_sum_ns"] for row in report.rows()} == {
        "cudaLaunchKernel": 110, "cudaFree": 100}  # fmt: skip


test_api_time_by_hand = hand_computed(
    ("the total of a process takes outermost calls only", "processes api_call_count api_sum_ns", NESTED,
     [(2, 100)]),
    ("calls of two threads do not nest", "processes api_sum_ns",
     (Call(0, 100, 1), Call(10, 90, 2, tid=12)), [180]),
    ("calls that touch are both outermost", "processes api_sum_ns",
     (Call(0, 100, 1), Call(100, 150, 2)), [150]),
    ("of calls that start together the longer is the outer one", "processes api_sum_ns",
     (Call(10, 30, 1), Call(10, 100, 2)), [90]),
    # [50, 150) becomes [50, 100), which lies in [0, 100); [120, 130) is then outermost.
    ("a call that crosses another is cut where that ends", "processes api_sum_ns",
     (Call(0, 100, 1), Call(50, 150, 2), Call(120, 130, 3)), [100 + 10]),
    ("a slice takes whole calls", "processes api_call_count api_sum_ns",
     (Call(0, 100, 1), Call(100, 200, 2)), [(1, 100)], {"time": (90, 100)}),
    ("two versions of a function are one row", "api_vs_kernel name call_count api_sum_ns",
     (Call(0, 10, 1, name="cudaFree_v1"), Call(20, 50, 2, name="cudaFree_v2")), [("cudaFree", 2, 40)]),
)  # fmt: skip


# -- latency and queue time


def test_the_example_of_the_documentation() -> None:
    rows = (
        Call(1000, 1010, 1), Kernel(1025, 1030, 1),
        Call(2000, 2500, 2), Memcpy(2100, 2200, 2),
        Call(3000, 3020, 3), *(Kernel(start, start + 5, 3) for start in (3080, 3050, 3060)),
    )  # fmt: skip
    mean, queue_count, queue_mean = latencies(*rows)
    assert mean == pytest.approx((25 + 100 + 50) / 3)
    assert (queue_count, queue_mean) == (2, (15 + 30) / 2)


def test_an_op_that_starts_before_its_call_has_no_latency_and_is_noted() -> None:
    rows = (Call(10, 20, 1), Kernel(5, 8, 1), Call(30, 40, 2), Kernel(45, 50, 2))
    report = asked("api_vs_kernel", *rows)
    (row,) = report.rows()
    assert (row["launch_latency_avg_ns"], row["queue_count"], row["queue_avg_ns"]) == (15, 1, 5)
    assert ("op-before-call", 1) in {(note.slug, note.count) for note in report.notes}


test_latencies_by_hand = hand_computed(
    ("op that starts as its call returns has no queue time", latencies,
     (Call(0, 10, 1), Kernel(10, 20, 1)), (10, 1, 0)),
    ("calls without gpu work have no latency", latencies, (Call(0, 10, 1),), (None, 0, None)),
    ("an op without time gives no latency", latencies,
     (Call(1, 10, 1), Kernel(None, None, 1), Kernel(50, 60, 9)), (None, 0, None)),
)


# -- GPU time by call


def test_ops_without_a_call_have_a_row_whose_call_figures_are_null() -> None:
    rows = (Call(0, 9, 1), Kernel(10, 20, 0), Memcpy(20, 50, None), Kernel(60, 61, 77))
    row = by_name(*rows)["[no API call]"]
    assert (row["gpu_op_count"], row["kernel_sum_ns"], row["memcpy_sum_ns"]) == (3, 11, 30)
    names = ("layer", "call_count", "api_sum_ns", "launch_latency_avg_ns", "queue_count")
    assert [row[name] for name in names] == [None] * 5


def test_ops_of_the_slice_whose_calls_lie_before_it_are_not_lost() -> None:
    rows = (Call(0, 10, 1), Kernel(100, 150, 1), Call(90, 95, 2, name="cudaFree"))
    found = answers("api_vs_kernel", *rows, time=(90, 200))
    assert sum(row["kernel_sum_ns"] for row in found) == 50


test_gpu_time_by_call_by_hand = hand_computed(
    ("each op has one owner", "api_vs_kernel name kernel_sum_ns",
     (Call(0, 100, 1), Call(10, 90, 1, "driver", name=SIDE), Kernel(50, 60, 1)),
     [("cudaLaunchKernel", 10), (SIDE, 0)]),
    ("the same id in two processes is two calls", "api_vs_kernel name kernel_count",
     (Call(0, 10, 1), Call(0, 20, 1, pid=2, name="cudaLaunchKernelExC"), Kernel(30, 40, 1, pid=2),
      Kernel(30, 40, 1), Kernel(50, 60, 1)), [("cudaLaunchKernelExC", 1), ("cudaLaunchKernel", 2)]),
    ("a call owns ops of every kind",
     "api_vs_kernel gpu_op_count kernel_count kernel_sum_ns memcpy_sum_ns memset_sum_ns gpu_op_sum_ns",
     (Call(0, 9, 1), Kernel(10, 20, 1), Memcpy(20, 50, 1), Memset(50, 57, 1), Graph(60, 99, 1)),
     [(4, 1, 10, 30, 7, 10 + 30 + 7 + 39)]),
    ("without links gpu figures are null", "api_vs_kernel call_count gpu_op_count kernel_sum_ns",
     (Call(0, 10, 1),), [(1, None, None)], {"without": (Fact.API_LINKS,)}),
)  # fmt: skip


# -- statistics and shares


def kernels_of(*durations: int) -> tuple[Kernel, ...]:
    return tuple(Kernel(1000 * i, 1000 * i + dur) for i, dur in enumerate(durations, 1))


def test_small_deviations_of_long_kernels_do_not_drown() -> None:
    base = 10**12
    rows = [Kernel(i * 2 * base, i * 2 * base + base + i) for i in (1, 2, 3)]
    assert only("kernels", *rows)["stddev_ns"] == pytest.approx(1.0)


test_statistics_and_shares_by_hand = hand_computed(
    ("statistics of the documentation",
     "kernels kernel_count kernel_sum_ns avg_ns med_ns min_ns max_ns stddev_ns",
     (*kernels_of(60, 10, 100, 20),),
     [(4, 190, 47.5, (20 + 60) / 2, 10, 100, pytest.approx((5075 / 3) ** 0.5))]),
    ("the median of an odd number is the middle one", "kernels med_ns", (*kernels_of(60, 10, 100),),
     [60]),
    ("the deviation of one row is zero", "kernels stddev_ns", (Kernel(10, 30),), [0]),
    ("statistics leave out kernels without time and count them", "kernels kernel_count avg_ns min_ns",
     (Kernel(None, None), Kernel(10, 30), Kernel(40, 50)), [(3, 15, 10)]),
    ("kernel shares are of all rows of the table", "kernels device_id name kernel_pct",
     (Kernel(0, 10, name="a"), Kernel(20, 50, name="b"), Kernel(0, 60, device=1, name="a")),
     [(1, "a", 60), (0, "b", 30), (0, "a", 10)], {"split": "device"}),
    ("kernel shares of no time at all are zero", "kernels kernel_pct", (Kernel(10, 10),), [0]),
)  # fmt: skip


# -- transfers


def test_a_peer_copy_belongs_to_the_device_that_executed_it_once() -> None:
    rows = (Memcpy(0, 10, device=1, direction="PtoP", src="Device", peer=0), Kernel(0, 1))
    assert cell("transfers device_id peer_device_id memcpy_count", *rows, split="device") == (1, 0, 1)


test_transfers_by_hand = hand_computed(
    ("transfers are grouped by direction and both kinds of memory",
     "transfers direction src_kind dst_kind bytes_sum",
     (Memcpy(0, 1, bytes=1), Memcpy(0, 1, bytes=2, src="Pinned"),
      Memcpy(0, 1, bytes=4, direction="DtoH", src="Device", dst="Pageable"),
      Memcpy(0, 1, bytes=8, direction="DtoH", src="Device", dst="Pinned"), Memcpy(0, 1, bytes=16),
      Memcpy(0, 1, bytes=32, direction=None, src=None, dst=None)),
     [("Unknown", None, None, 32), ("HtoD", "Pageable", "Device", 17), ("DtoH", "Device", "Pinned", 8),
      ("DtoH", "Device", "Pageable", 4), ("HtoD", "Pinned", "Device", 2)]),
    ("migrations are rows of their own", "transfers direction src_kind bytes_sum memcpy_sum_ns",
     (Memcpy(0, 10, bytes=5), Migration(0, 4, bytes=7), Migration(5, 6, bytes=1, direction=None)),
     [("UM HtoD", None, 7, 4), ("HtoD", "Pageable", 5, 10), ("UM Unknown", None, 1, 1)]),
    ("a slice takes whole transfers", "transfers bytes_sum memcpy_sum_ns",
     (Memcpy(0, 100, bytes=5), Memcpy(100, 200, bytes=7), Migration(150, 151)), [(5, 100)],
     {"time": (99, 100)}),
    ("copies by size fall into the bucket they reach",
     "transfer_sizes bucket_min_bytes memcpy_count bytes_sum",
     (*(Memcpy(i, i + 2, bytes=b) for i, b in enumerate((0, 999, 1_000, 9_999, 10_000, 100_000), 1)),),
     [(0, 2, 999), (1_000, 2, 10_999), (10_000, 1, 10_000), (100_000, 1, 100_000)]),
    # Its size is not recorded, and that is never a zero.
    ("a copy of unknown size is in no bucket of sizes", "transfer_sizes bucket_min_bytes memcpy_count",
     (Memcpy(0, 10, bytes=None), Memcpy(20, 30, bytes=5)), [(None, 1), (0, 1)]),
    ("throughput is sum over sum", "transfers bytes_sum memcpy_sum_ns throughput_bytes_per_s",
     (Memcpy(0, 400_000, bytes=4_000_000), Memcpy(500_000, 502_000, bytes=1_000)),
     [(4_001_000, 402_000, pytest.approx(4_001_000 / 402_000 * 1e9))]),
    ("throughput of no time is not recorded", "transfers throughput_bytes_per_s", (Memcpy(10, 10),),
     [None]),
    ("statistics of sizes", "transfers bytes_avg bytes_med bytes_min bytes_max",
     (*(Memcpy(i, i + 1, bytes=size) for i, size in enumerate((9, 1, 2, 4), 1)),), [(4, 3, 1, 9)]),
    ("bytes that were not recorded are null and no zero", "transfers bytes_sum",
     (Memcpy(0, 10, bytes=None),), [None]),
)  # fmt: skip


# -- what the host did: thread 11 in the host part [400, 490) of the gap [400, 600)


GAP = (Kernel(300, 400), Kernel(600, 700, 1), Call(490, 520, 1))
OUTSIDE = ("outside", "[nothing recorded]")
WAIT, CONSTRUCT = "acc_wait@solve.c:12", "acc_compute_construct@solve.c:85"


def host(*rows: Row, **options: Any) -> dict[tuple[str, str], int]:
    """Time by activity and name."""
    found = answers("idle_host", *GAP, *rows, **options)
    return {(row["activity"], row["name"]): row["host_sum_ns"] for row in found}


def test_a_gap_counts_once_for_an_activity_of_several_pieces() -> None:
    rows = (Range(400, 410, "r"), Range(450, 460, "r"))
    found = {r["name"]: r["gap_count"] for r in answers("idle_host", *GAP, *rows)}
    assert found == {"r": 1, OUTSIDE[1]: 1}


test_what_the_host_did_by_hand = hand_computed(
    ("host time without activity is outside", host, (), {OUTSIDE: 90}),
    ("the outermost call goes before ranges and before calls inside it", host,
     (Call(380, 420, 2, name="cudaStreamSynchronize"), Call(385, 415, 3, name="cuInner"),
      Range(420, 530, "mm"), Range(390, 410, "wait")),
     {("api_call", "cudaStreamSynchronize"): 20, ("range", "mm"): 70}),
    # Each begins at 400 and lasts 20 ns longer than the one before it.
    ("calls go before operators these before functions and these before ranges", host,
     (Range(400, 480, "step"), Operator(400, 460, "train.py: forward", "python_function"),
      Operator(400, 440, "aten::mm"), Call(400, 420, 2, name="cudaMalloc")),
     {("api_call", "cudaMalloc"): 20, ("operator", "aten::mm"): 20,
      ("python_function", "train.py: forward"): 20, ("range", "step"): 20, OUTSIDE: 10}),
    ("of operators the innermost counts", host,
     (Operator(350, 480, "aten::linear"), Operator(420, 440, "aten::mm")),
     {("operator", "aten::linear"): 80 - 20, ("operator", "aten::mm"): 20, OUTSIDE: 10}),
    ("the example of the documentation on what the host did", host,
     (Call(380, 420, 2, name="cudaStreamSynchronize"), Operator(420, 530, "aten::mm"),
      Overhead(430, 450)),
     {("api_call", "cudaStreamSynchronize"): 20, ("operator", "aten::mm"): 10 + 40}),
    ("operators of other threads do not count nor those without a time", host,
     (Operator(400, 480, "other", tid=12), Operator(400, 480, "o", pid=2), Operator(400, None, "open"),
      Operator(None, None, "never")), {OUTSIDE: 90}),
    ("of ranges the innermost counts", host, (Range(350, 480, "outer"), Range(420, 440, "inner")),
     {("range", "outer"): 80 - 20, ("range", "inner"): 20, OUTSIDE: 10}),
    ("only push pop ranges count", host,
     (Range(350, 480, "phase", "start_end"), Range(450, None, "here", "mark")), {OUTSIDE: 90}),
    ("a range that was never closed ends with the recording", host, (Range(470, None, "open"),),
     {("range", "open"): 10, OUTSIDE: 80}, {"recording_ns": 480}),
    ("only the launching thread counts", host,
     (Call(400, 480, 2, tid=12), Range(400, 480, "other", tid=12), Range(400, 480, "o", pid=2)),
     {OUTSIDE: 90}),
    # Directives go after operators and before functions and ranges: each lasts 15 ns longer.
    ("of each kind of activity the first counts", host,
     (Range(400, 475, "step"), Operator(400, 460, "solve.py: run", "python_function"),
      Operator(400, 445, WAIT, "directive"), Operator(400, 430, "aten::mm"),
      Call(400, 415, 2, name="cuStreamSynchronize", layer="driver")),
     {("api_call", "cuStreamSynchronize"): 15, ("operator", "aten::mm"): 15, ("directive", WAIT): 15,
      ("python_function", "solve.py: run"): 15, ("range", "step"): 15, OUTSIDE: 15}),
    # The construct [380, 480) holds waits [410, 440) and [450, 460), the first a call [415, 435).
    ("of directives the innermost counts", host,
     (Operator(380, 480, CONSTRUCT, "directive"), Operator(410, 440, WAIT, "directive"),
      Operator(450, 460, WAIT, "directive"), Operator(420, 420, "acc_create@solve.c:85", "directive"),
      Call(415, 435, 2, name="cuStreamSynchronize", layer="driver")),
     {("api_call", "cuStreamSynchronize"): 20, ("directive", WAIT): 10 + 10,
      ("directive", CONSTRUCT): 10 + 10 + 20, OUTSIDE: 10}),
    ("directives of other threads and without a time do not count", host,
     (Operator(400, 480, WAIT, "directive", 12), Operator(None, None, WAIT, "directive")), {OUTSIDE: 90}),
    ("the profiler's work inside a directive is nobody's", host,
     (Operator(400, 490, WAIT, "directive"), Overhead(430, 450)), {("directive", WAIT): 90 - 20}),
    ("a gap names the directive that its host part was spent in", "idle_gaps during",
     (*GAP, Operator(390, 495, CONSTRUCT, "directive")), [CONSTRUCT]),
    ("profiler work is no activity", host, (Overhead(410, 430), Range(400, 440, "r")),
     {("range", "r"): 20, OUTSIDE: 50}),
    ("a gap names what the thread did longest", "idle_gaps thread during during_ns next_op",
     (*GAP, Range(400, 410, "a"), Range(410, 460, "b"), Range(470, 475, "a")),
     [("11", "b", 50, "kernel")]),
    # cudaFree 30 + 20 is longer than the 40 outside.
    ("two symbols of one function are one activity", "idle_gaps during during_ns",
     (*GAP, Call(400, 430, 2, name="cudaFree_v1"), Call(430, 450, 3, name="cudaFree_v2")),
     [("cudaFree", 50)]),
    ("gap without host part has no activity", "idle_gaps during during_ns",
     (Kernel(300, 400), Kernel(600, 700, 1), Call(350, 360, 1)), [(None, None)]),
)  # fmt: skip


# -- ranks


RANKED = {1: 3, 2: 5}


@pytest.mark.parametrize(("pids", "rank"), [
    ((1,), 3), ((1, 2), None), ((9,), None), ((1, 9), 3), ((2, 9), 5)])  # fmt: skip
def test_the_rank_is_that_of_the_only_ranked_process_behind_a_row(
    pids: tuple[int, ...], rank: int | None
) -> None:
    rows = [row for pid in pids for row in (
        Call(20, 25, 1, pid=pid), Kernel(10, 15, pid=pid, name="k"), Kernel(30, 40, 1, pid=pid),
        Memcpy(32, 35, 1, pid=pid))]  # fmt: skip
    with opened(*rows, ranks=RANKED) as profile:
        for report in profile.reports(["overview", "kernels", "transfers", "transfer_sizes",
                                       "api_vs_kernel", "idle_gaps", "idle_summary", "idle_host"]):
            assert {row["rank"] for row in report.rows()} == {rank}, report.name


def test_every_process_shows_its_own_rank() -> None:
    rows = answers("processes", Kernel(1, 2), Kernel(1, 2, pid=2), Kernel(1, 2, pid=9), ranks=RANKED)
    assert [(row["pid"], row["rank"]) for row in rows] == [(1, 3), (2, 5), (9, None)]


# -- what is not recorded


@pytest.mark.parametrize(("fact", "prefix"), [
    (Fact.MEMCPYS, "memcpy"), (Fact.MEMSETS, "memset"), (Fact.UNIFIED_MEMORY, "um")])  # fmt: skip
def test_counts_of_missing_facts_are_null_not_zero(fact: Fact, prefix: str) -> None:
    row = only("overview", Kernel(10, 20), without=(fact,))
    assert (row[f"{prefix}_count"], row[f"{prefix}_sum_ns"]) == (None, None)


def test_a_process_without_recorded_calls_has_no_api_time() -> None:
    row = only("processes", Kernel(10, 20), without=(Fact.API_CALLS, Fact.THREADS))
    names = ("thread_count", "api_call_count", "api_sum_ns", "gpu_op_count")
    assert [row[name] for name in names] == [None, None, None, 1]


def test_ranges_of_two_domains_are_two_activities() -> None:
    rows = (
        Kernel(0, 10, 1), Call(0, 1, 1),
        Range(20, 120, "read", domain=1), Range(200, 230, "read", domain=2),
        Call(300, 301, 2), Kernel(310, 320, 2),
    )  # fmt: skip
    domains = {(1, 1): "file", (1, 2): "net"}
    with opened(*rows, domains=domains) as profile:
        host = {row["name"]: row["host_sum_ns"] for row in profile.report("idle_host").rows()}
        (gap,) = profile.report("idle_gaps").rows()
    assert (host["file:read"], host["net:read"]) == (100, 30)
    assert gap["during"] == "[nothing recorded]"
