"""Histograms and paces: by hand, by slow versions, and in real files by plain SQL."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from conftest import REAL, examples, real
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Kernel, Range, answers, hand_computed, picked, write

import nsysconv


def kernels(name: str, *times: tuple[int, int], **where: Any) -> list[Kernel]:
    return [Kernel(start, end, name=name, **where) for start, end in times]


ENDS = (0, *(digit * 10**power for power in range(9) for digit in (1, 2, 5)))


# docs/definitions/events.md, Distributions.
LENGTHS = kernels("f", (0, 3), (10, 14), (20, 26), (30, 37), (40, 60))


def test_percentiles_are_durations_that_occur() -> None:
    """Of 1 to 100, 90 do not exceed 90; of 1 to 101, 90 would be 89.1 %."""
    for most, p90, p99 in ((100, 90, 99), (101, 91, 100), (10, 9, 10)):
        lasting = kernels("f", *((1000 * dur, 1001 * dur) for dur in range(1, most + 1)))
        assert picked(answers("cuda_gpu_kern_hist", *lasting)[0], "p90_ns", "p99_ns") == (p90, p99)


def test_kernels_without_a_time_or_an_end_are_in_no_bucket_and_said(tmp_path: Path) -> None:
    """As many are said whatever was asked before: a histogram alone puts no operations in order."""
    write(tmp_path / "s.db", *LENGTHS, Kernel(None, None, name="f"), Kernel(50, None, name="f"))
    for before in ((), ("kernels",)):
        with nsysconv.open(tmp_path / "s.db") as profile:
            *_, report = [profile.report(name) for name in (*before, "cuda_gpu_kern_hist")]
        assert [row["kernel_count"] for row in report.rows()] == [2, 2, 1]
        assert [(note.count, note.of) for note in report.notes if note.slug == "no-time"] == [(2, 7)]


def test_a_histogram_of_chosen_names_of_a_slice_and_by_device() -> None:
    events = (*LENGTHS, *kernels("gemm", (70, 75)), *kernels("f", (80, 82), device=1),
              Kernel(None, None, name="f"))  # fmt: skip
    assert [row["name"] for row in answers("cuda_gpu_kern_hist:name=^ge", *events)] == ["gemm"]
    assert answers("cuda_gpu_kern_hist:name=nothing", *events) == []
    # A kernel that the slice cuts counts whole, and statistics are of the slice.
    (row,) = answers("cuda_gpu_kern_hist:name=f", *events, time=(50, 60))
    assert picked(row, "bucket_min_ns", "kernel_count", "med_ns") == (20, 1, 20.0)
    rows = answers("cuda_gpu_kern_hist:name=f", *events, split="device")
    assert [picked(row, "device_id", "bucket_min_ns", "bucket_pct", "p99_ns") for row in rows] == [
        (0, 2, 40.0, 20), (0, 5, 40.0, 20), (0, 20, 20.0, 20), (1, 2, 100.0, 2)]  # fmt: skip
    over = answers("cuda_gpu_kern_hist:name=f", *events)[0]
    assert picked(over, "bucket_min_ns", "kernel_count", "device_count", "device_max_sum_ns") == (
        2, 3, 2, 7)  # fmt: skip


# docs/definitions/events.md, Pace: of two ranks.
ZERO = kernels("f", (0, 10), (100, 112), (210, 221))
ONE = kernels("f", (50, 60), (160, 190), (250, 259), pid=2)
RANKS = {1: 0, 2: 1}
PACE = ("rank", "instance", "start_ns", "dur_ns", "delta_ns", "elapsed_ns")
OVER = ("instance", "instance_count", "dur_min_ns", "dur_med_ns", "dur_max_ns", "longest_rank",
        "delta_min_ns", "delta_max_ns", "elapsed_min_ns", "elapsed_max_ns")  # fmt: skip
BY_INSTANCE = [
    (1, 2, 10, 10.0, 10, 0, None, None, 0, 0),
    (2, 2, 12, 21.0, 30, 1, 100, 110, 100, 110),
    (3, 2, 9, 10.0, 11, 0, 90, 110, 200, 210),
]


def test_the_pace_of_the_documentation() -> None:
    rows = answers("cuda_gpu_kern_pace", *ZERO, *ONE, ranks=RANKS)
    assert [picked(row, *PACE) for row in rows] == [
        (0, 1, 0, 10, None, 0), (1, 1, 50, 10, None, 0),
        (0, 2, 100, 12, 100, 100), (1, 2, 160, 30, 110, 110),
        (0, 3, 210, 11, 110, 210), (1, 3, 250, 9, 90, 200)]  # fmt: skip
    rows = answers("cuda_gpu_kern_pace:by=instance", *ZERO, *ONE, ranks=RANKS)
    assert [picked(row, *OVER) for row in rows] == BY_INSTANCE


def test_the_pace_of_ranks_in_profiles_of_their_own(tmp_path: Path) -> None:
    for rank, events in ((0, ZERO), (1, [each._replace(pid=1) for each in ONE])):
        write(tmp_path / f"{rank}.db", *events, ranks={1: rank}, label=f"rank{rank}")
    (report,) = nsysconv.report_on(tmp_path, "cuda_gpu_kern_pace:by=instance")
    assert [picked(row, *OVER) for row in report.rows()] == BY_INSTANCE
    (report,) = nsysconv.report_on(tmp_path, "cuda_gpu_kern_pace")
    assert [picked(row, "profile", "rank", "instance") for row in report.rows()] == [
        (f"rank{rank}", rank, number) for number in (1, 2, 3) for rank in (0, 1)]  # fmt: skip


def test_instances_of_a_slice_keep_their_numbers() -> None:
    (row,) = answers("cuda_gpu_kern_pace", *ZERO, time=(105, 205))
    assert picked(row, *PACE[1:]) == (2, 100, 12, 100, 100)


def test_without_a_name_it_is_the_longest_of_those_that_ran_several_times() -> None:
    events = (*kernels("once", (0, 900)), *kernels("short", (900, 905), (910, 915), (920, 925)),
              *kernels("long", (930, 950), (960, 980)), Kernel(None, None, name="long"),
              Kernel(985, None, name="long"))  # fmt: skip
    assert [row["name"] for row in answers("cuda_gpu_kern_pace", *events)] == ["long", "long"]
    assert [row["name"] for row in answers("cuda_gpu_kern_pace", *events[:1])] == ["once"]
    named = answers("cuda_gpu_kern_pace:name=o", *events)
    assert [picked(row, "name", "instance") for row in named] == [
        ("long", 1), ("long", 2), ("once", 1), ("short", 1), ("short", 2), ("short", 3)]  # fmt: skip


test_examples_by_hand = hand_computed(
    ("the histogram of the documentation",
     "cuda_gpu_kern_hist name bucket_min_ns kernel_count kernel_sum_ns bucket_pct med_ns p90_ns p99_ns",
     (*LENGTHS, *kernels("g", (70, 71), (72, 72))),
     [("f", 2, 2, 7, 40.0, 6.0, 20, 20), ("f", 5, 2, 13, 40.0, 6.0, 20, 20),
      ("f", 20, 1, 20, 20.0, 6.0, 20, 20), ("g", 0, 1, 0, 50.0, 0.5, 1, 1),
      ("g", 1, 1, 1, 50.0, 0.5, 1, 1)]),
    ("devices of one process have their own instances",
     "cuda_gpu_kern_pace device_id instance delta_ns",
     (*kernels("f", (0, 5), (20, 25)), *kernels("f", (10, 15), device=1)),
     [(0, 1, None), (1, 1, None), (0, 2, 20)]),
)  # fmt: skip


def test_paces_of_ranges_and_of_their_projections() -> None:
    events = (Range(0, 10, "step"), Range(20, 40, "step"), Range(50, 55, "step"),
              Call(2, 4, 1), Kernel(100, 130, 1), Call(51, 52, 2), Kernel(160, 170, 2),
              Kernel(165, 190, 2))  # fmt: skip
    columns = ("name", "instance", "start_ns", "dur_ns", "delta_ns", "elapsed_ns")
    assert [picked(row, *columns) for row in answers("nvtx_pace", *events)] == [
        ("step", 1, 0, 10, None, 0), ("step", 2, 20, 20, 20, 20), ("step", 3, 50, 5, 30, 50)]  # fmt: skip
    # The second launched nothing.
    assert [picked(row, *columns) for row in answers("nvtx_gpu_proj_pace", *events)] == [
        ("step", 1, 100, 30, None, 0), ("step", 2, 160, 30, 60, 60)]  # fmt: skip
    assert answers("nvtx_pace:name=epoch", *events) == []


LANES = (st.sampled_from("fg"), st.integers(1, 2), st.integers(0, 1))
TIMES = st.lists(
    st.tuples(*LANES, st.integers(1, 61), st.integers(0, 40)),  # 0 and 0 would be no time
    min_size=1, max_size=14, unique_by=lambda each: each[:4],
)  # fmt: skip


@examples(150)
@given(TIMES)
def test_slow_versions_agree(planted: list[tuple[str, int, int, int, int]]) -> None:
    """Kernels by name, process, device, start and duration."""
    events = [Kernel(start, start + dur, name=name, pid=pid, device=device)
              for name, pid, device, start, dur in planted]  # fmt: skip
    buckets: dict[tuple[str, int], list[int]] = defaultdict(list)
    of_name: dict[str, list[int]] = defaultdict(list)
    lanes: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for name, pid, device, start, dur in planted:
        buckets[name, max(end for end in ENDS if end <= dur)].append(dur)
        of_name[name].append(dur)
        lanes[name, pid, device].append((start, dur))
    expected = []
    for (name, least), durs in buckets.items():
        every = sorted(of_name[name])
        ranked = [next(d for d in every if sum(e <= d for e in every) * 100 >= share * len(every))
                  for share in (90, 99)]  # fmt: skip
        expected.append((name, least, len(durs), sum(durs), median(every), *ranked))
    columns = ("name", "bucket_min_ns", "kernel_count", "kernel_sum_ns", "med_ns", "p90_ns", "p99_ns")
    found = answers("cuda_gpu_kern_hist", *events)
    assert sorted(picked(row, *columns) for row in found) == sorted(expected)
    paces = []
    for (name, pid, device), times in lanes.items():
        before: int | None = None
        for number, (start, dur) in enumerate(sorted(times), 1):
            delta = None if before is None else start - before
            paces.append((name, pid, device, number, start, dur, delta, start - min(times)[0]))
            before = start
    columns = ("name", "pid", "device_id", "instance", "start_ns", "dur_ns", "delta_ns", "elapsed_ns")
    found = answers("cuda_gpu_kern_pace:name=.", *events)
    assert sorted((picked(row, *columns) for row in found), key=repr) == sorted(paces, key=repr)
    over = answers("cuda_gpu_kern_pace:name=.:by=instance", *events)
    assert len(over) == len({(name, number) for name, _, _, number, *_ in paces})
    for row in over:
        mine = [p for p in paces if (p[0], p[3]) == (row["name"], row["instance"])]
        durs = [p[5] for p in mine]
        assert picked(row, "instance_count", "dur_max_ns", "dur_med_ns", "elapsed_min_ns") == (
            len(mine), max(durs), median(durs), min(p[7] for p in mine))  # fmt: skip


FILE = REAL / "nsys_sqlite/GindaChen+nsys-ai__mfu_2gpu_before.sqlite"
KERNEL = """SELECT k.start, k.end - k.start, k.deviceId FROM CUPTI_ACTIVITY_KIND_KERNEL k
            JOIN StringIds s ON s.id = k.demangledName WHERE s.value LIKE 'ncclDevKernel_SendRecv%'
            ORDER BY k.deviceId, k.start"""


@real
def test_what_a_real_file_has() -> None:
    connection = sqlite3.connect(f"file:{FILE}?mode=ro&immutable=1", uri=True)
    rows = connection.execute(KERNEL).fetchall()
    connection.close()
    assert len(rows) == 66
    (report,) = nsysconv.report_on(FILE, "cuda_gpu_kern_pace:name=^ncclDevKernel_SendRecv")
    found = sorted(picked(row, "device_id", "start_ns", "dur_ns") for row in report.rows())
    assert found == [(device, start, dur) for start, dur, device in rows]
    (report,) = nsysconv.report_on(FILE, "cuda_gpu_kern_hist:name=^ncclDevKernel_SendRecv")
    durs = sorted(dur for _, dur, _ in rows)
    # 90 % of 66 are 59.4, 99 % are 65.34: the 60th and the last.
    assert {picked(row, "med_ns", "p90_ns", "p99_ns") for row in report.rows()} == {
        (median(durs), durs[59], durs[65])}  # fmt: skip
    assert sum(row["kernel_count"] for row in report.rows()) == 66
