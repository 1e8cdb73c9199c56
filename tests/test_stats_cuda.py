"""The CUDA tables of `nsys stats` on a few rows: every figure by hand, as the table prints it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_store import (
    Call,
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    OsrtCall,
    Range,
    Row,
    Total,
    asked,
    hand_computed,
    printed,
)
from test_render import rendered

from nsysconv import api
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.queries import ENTRIES, NSYS_TABLES, parse_spec
from nsysconv.queries.stats.cuda_names import function_name, innermost_around

CUDA = tuple(name for name in NSYS_TABLES if name.startswith("cuda_"))
# The definitions' example: squares of -37.5, -27.5, 12.5 and 52.5 add up to 5075; √(5075/3) = 41.13.
FOUR = ((0, 10), (100, 120), (200, 260), (300, 400))


def lines(report: str, *rows: Row, **options: Any) -> list[str]:
    """The rows of a table on these rows, as its CSV prints them."""
    return printed(report, *rows, **options)[1:]


def names_of(report: str, *rows: Row) -> list[str]:
    """The last cells, which are names."""
    return [line.split(",")[-1] for line in lines(report, *rows)]


@pytest.mark.parametrize("name", CUDA)
def test_a_table_has_only_columns_that_are_printed(name: str) -> None:
    report = asked(name, Call(0, 5, 1), Kernel(10, 20, 1), Memset(30, 40))
    assert report.is_printed
    assert len(report.rows()) > 0


OLDER = {entry.formerly: name for name, entry in ENTRIES.items() if entry.formerly}


@pytest.mark.parametrize(("old", "new"), OLDER.items())
def test_older_names_mean_the_same(old: str, new: str) -> None:
    assert parse_spec(old).name == new
    assert new in NSYS_TABLES


# -- API calls


@pytest.mark.parametrize(("symbol", "shown"), [
    ("cudaMalloc_v3020", "cudaMalloc"),
    ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC_v11060"),
    ("cuMemAlloc_v2", "cuMemAlloc_v2"),
    ("cudaMemcpyAsync_ptsz_v7000", "cudaMemcpyAsync_ptsz"),
    ("_v3020", ""),
    ("cudaFree", "cudaFree"),
    ("", ""),
])  # fmt: skip
def test_a_version_of_four_characters_is_not_shown(symbol: str, shown: str) -> None:
    assert function_name(symbol) == shown


def test_calls_of_no_length_have_no_share() -> None:
    assert lines("cuda_api_sum", Call(5, 5, name="cudaFree")) == [",0,1,0.0,0.0,0,0,0.0,cudaFree"]


test_api_calls_as_printed = hand_computed(
    # 10 + 20 + 60 + 100 = 190 of 200, mean 47.5, median (20 + 60) / 2; one call has deviation 0.
    ("statistics of api calls", "cuda_api_sum",
     (*[Call(start, end, name="cudaMalloc") for start, end in FOUR], Call(500, 510, name="cudaFree")),
     ["95.0,190,4,47.5,40.0,10,100,41.1,cudaMalloc",
      "5.0,10,1,10.0,10.0,10,10,0.0,cudaFree"]),
    ("runtime and driver are one table", "cuda_api_sum",
     (Call(0, 30, name="cudaMalloc"), Call(5, 15, layer="driver", name="cuMemAlloc_v2")),
     ["75.0,30,1,30.0,30.0,30,30,0.0,cudaMalloc",
      "25.0,10,1,10.0,10.0,10,10,0.0,cuMemAlloc_v2"]),
    ("two versions of a function are two rows", "cuda_api_sum",
     (Call(0, 30, name="cudaMalloc_v3020"), Call(50, 60, name="cudaMalloc_v4000")),
     ["75.0,30,1,30.0,30.0,30,30,0.0,cudaMalloc",
      "25.0,10,1,10.0,10.0,10,10,0.0,cudaMalloc"]),
    ("api trace is by start", "cuda_api_trace",
     (Call(70, 90, 3, result=700, name="cudaFree_v3020", tid=12),
      Call(5, 7, 2, result=0, name="cudaMalloc_v3020")),
     ["5,2,cudaMalloc,0,2,1,11,20,main",
      "70,20,cudaFree,700,3,1,12,,"], {"threads": {(1, 11): {"name": "main", "priority": 20}}}),
    by=lines,
)  # fmt: skip


# -- kernels


def test_graph_intervals_are_in_no_table() -> None:
    rows = Kernel(0, 10, name="k"), Graph(100, 900)
    assert lines("cuda_gpu_kern_sum", *rows) == ["100.0,10,1,10.0,10.0,10,10,0.0,k"]
    assert len(lines("cuda_gpu_trace", *rows)) == 1


NAMED = (Kernel(0, 30, name="f<int>(int)", short="f", mangled="_Z1fIiE"),
         Kernel(40, 50, name="f<char>(char)", short="f"))  # fmt: skip


test_kernels_by_hand = hand_computed(
    ("statistics of kernels", lines,
     ("cuda_gpu_kern_sum", *[Kernel(start, end, name="f(int, int)") for start, end in FOUR],
      Kernel(500, 510, name="g")),
     ['95.0,190,4,47.5,40.0,10,100,41.1,"f(int, int)"', "5.0,10,1,10.0,10.0,10,10,0.0,g"]),
    # One name, two grids; three numbers of four places each.
    ("kernels by grid and block", lines,
     ("cuda_gpu_kern_gb_sum", Kernel(0, 30, name="k", grid=(1, 1, 1), block=(256, 1, 1)),
      Kernel(40, 50, name="k", grid=(97657, 1, 1), block=(256, 1, 1)),
      Kernel(60, 70, name="k", grid=(1, 1, 1), block=(256, 1, 1)), Kernel(80, 85, name="k")),
     ["72.7,40,2,20.0,20.0,10,30,14.1,   1    1    1, 256    1    1,k",
      "18.2,10,1,10.0,10.0,10,10,0.0,97657    1    1, 256    1    1,k", "9.1,5,1,5.0,5.0,5,5,0.0,,,k"]),
)


def test_a_range_before_the_name_is_the_innermost_around_the_launch() -> None:
    """[0, 1000) holds all launches, [90, 100) holds [95, 97) and only the start of [96, 101)."""
    rows = (Range(0, 1000, "outer"), Range(90, 100, "inner"), Range(92, 99, "elsewhere", tid=12),
            Call(95, 97, 1), Kernel(200, 210, 1, name="k"),
            Call(300, 303, 2), Kernel(400, 420, 2, name="k"),
            Call(1500, 1501, 3), Kernel(1600, 1630, 3, name="k"),
            Kernel(1700, 1740, name="k"))  # fmt: skip
    assert lines("cuda_gpu_kern_sum:nvtx-name", *rows) == [
        "70.0,70,2,35.0,35.0,30,40,7.1,k",
        "20.0,20,1,20.0,20.0,20,20,0.0,outer/k",
        "10.0,10,1,10.0,10.0,10,10,0.0,inner/k",
    ]
    assert names_of("cuda_gpu_trace:nvtx-name", *rows) == ["inner/k", "outer/k", "k", "k"]


LAUNCHED = (Call(95, 97, 1), Kernel(200, 210, 1, name="k"))

test_names_as_printed = hand_computed(
    ("equal API times come as the source numbers their names", "cuda_api_sum",
     (Call(0, 10, name="cudaZ"), Call(20, 30, name="cudaA")), ["cudaZ", "cudaA"]),
    ("equal kernel times come by count and name", "cuda_gpu_kern_sum",
     (Kernel(0, 50, name="a"), Kernel(50, 100, name="a"), Kernel(100, 200, name="c"),
      Kernel(200, 300, name="b")), ["b", "c", "a"]),
    # The second kernel has no symbol: its full name stands for it.
    *((f"spellings of {report}", report, NAMED, names) for report, names in (
        ("cuda_gpu_kern_sum", ["f<int>(int)", "f<char>(char)"]), ("cuda_gpu_kern_sum:base", ["f"]),
        ("cuda_gpu_kern_sum:mangled", ["_Z1fIiE", "f<char>(char)"]), ("cuda_gpu_sum:base", ["f"]))),
    *((f"a range that is {span.text} is not named", "cuda_gpu_kern_sum:nvtx-name", (span, *LAUNCHED),
       ["k"]) for span in (
        Range(90, 96, "too short"), Range(96, 100, "too late"), Range(90, 100, "elsewhere", tid=12),
        Range(90, 100, "of another process", pid=2),
        Range(90, 100, "closed elsewhere", kind="start_end", end_tid=12))),
    # [80, 85) is over by then, [90, 96) begins before the call and ends in it: both lie in outer.
    ("where the innermost range ends in the call the next one is named", "cuda_gpu_kern_sum:nvtx-name",
     (Range(0, 1000, "outer"), Range(80, 85, "over"), Range(90, 96, "ends", kind="start_end"),
      *LAUNCHED), ["outer/k"]),
    ("a range that fits the call exactly is named", "cuda_gpu_kern_sum:nvtx-name",
     (Range(95, 97, "r", kind="start_end"), *LAUNCHED), ["r/k"]),
    by=names_of,
)  # fmt: skip


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Intervals of which none crosses another."""
    found: list[tuple[int, int]] = []
    for start, length in draw(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)))):
        end = start + length
        if all(e <= start or end <= s or (s <= start and end <= e) or (start <= s and e <= end)
               for s, e in found):  # fmt: skip
            found.append((start, end))
    return sorted(found, key=lambda interval: (interval[0], -interval[1]))


@given(nested(), st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10)), min_size=1))
def test_the_innermost_range_around_a_call_is_the_shortest(
    intervals: list[tuple[int, int]], calls: list[tuple[int, int]]
) -> None:
    start, end = np.array(intervals, np.int64).reshape(-1, 2).T
    since, length = np.array(calls, np.int64).T
    shortest = [
        min((e - s for s, e in intervals if s <= low and low + size <= e), default=None)
        for low, size in calls
    ]
    found = innermost_around(start, end, since, since + length)
    assert [None if i < 0 else end[i] - start[i] for i in found.tolist()] == shortest


# -- memory operations

MEMORY = (
    Memcpy(0, 30, bytes=4_194_304), Memcpy(40, 50, bytes=0), Memcpy(60, 70, direction="PtoP"),
    Memset(80, 85, bytes=500), Migration(90, 92, bytes=4_500), Kernel(1000, 1043, name="k"),
)  # fmt: skip


def test_kernels_and_memory_operations() -> None:
    assert lines("cuda_gpu_sum", *MEMORY)[:2] == [
        "43.0,43,1,43.0,43.0,43,43,0.0,CUDA_KERNEL,k",
        "40.0,40,2,20.0,20.0,10,30,14.1,MEMORY_OPER,[CUDA memcpy Host-to-Device]",
    ]


test_memory_operations_as_printed = hand_computed(
    # 40, 10, 5 and 2 of 57 ns.
    ("time of memory operations", "cuda_gpu_mem_time_sum", MEMORY,
     ["70.2,40,2,20.0,20.0,10,30,14.1,[CUDA memcpy Host-to-Device]",
      "17.5,10,1,10.0,10.0,10,10,0.0,[CUDA memcpy Peer-to-Peer]",
      "8.8,5,1,5.0,5.0,5,5,0.0,[CUDA memset]",
      "3.5,2,1,2.0,2.0,2,2,0.0,[CUDA memcpy Unified Host-to-Device]"]),
    # 4194304 bytes are 4.194 MB; √((2097152² + 2097152²) / 1) = 2965820.8; halves go up: 4500, 500.
    ("size of memory operations", "cuda_gpu_mem_size_sum", MEMORY,
     ["4.194,2,2.097,2.097,0.000,4.194,2.966,[CUDA memcpy Host-to-Device]",
      "0.005,1,0.005,0.005,0.005,0.005,0.000,[CUDA memcpy Unified Host-to-Device]",
      "0.001,1,0.001,0.001,0.001,0.001,0.000,[CUDA memcpy Peer-to-Peer]",
      "0.001,1,0.001,0.001,0.001,0.001,0.000,[CUDA memset]"]),
    ("unrecorded direction is unknown", "cuda_gpu_mem_time_sum", (Memcpy(0, 10, direction=None),),
     ["100.0,10,1,10.0,10.0,10,10,0.0,[CUDA memcpy Unknown]"]),
    ("calls kernels and memory operations", "cuda_api_gpu_sum",
     (Call(0, 60, name="cudaMalloc_v3020"), Kernel(70, 100, name="k"), Memset(110, 120)),
     ["60.0,60,1,60.0,60.0,60,60,0.0,CUDA_API,cudaMalloc",
      "30.0,30,1,30.0,30.0,30,30,0.0,CUDA_KERNEL,k",
      "10.0,10,1,10.0,10.0,10,10,0.0,MEMORY_OPER,[CUDA memset]"]),
    by=lines,
)  # fmt: skip


# -- traces


@pytest.mark.parametrize(("dur", "throughput"), [
    (500_000_001, "1000.000"),  # once in a second
    (500_000_000, "2000.000"),
    (1_000_000_000, "1000.000"),
    (1_000_000_001, "0.000"),  # not once
])  # fmt: skip
def test_throughput_of_long_copies(dur: int, throughput: str) -> None:
    (line,) = lines("cuda_gpu_trace", Memcpy(0, dur, bytes=1_000_000_000))
    assert line.split(",")[12:14] == ["1000.000", throughput]


@pytest.mark.parametrize(("green", "shown"), [(0, ""), (5, "5"), (2**32 - 1, ""), (None, "")])
def test_no_green_context_is_an_empty_cell(green: int | None, shown: str) -> None:
    (line,) = lines("cuda_gpu_trace", Kernel(0, 5, name="k", green=green))
    assert line.split(",")[-3] == shown


@pytest.mark.parametrize(("gpu", "label"), [
    ({"ordinal": 3, "name": "NVIDIA H200"}, "NVIDIA H200 (3)"),
    ({"ordinal": 3, "name": None}, "(3)"),
    ({"ordinal": None, "name": "NVIDIA H200"}, "NVIDIA H200"),
    ({"ordinal": None, "name": None}, ""),
])  # fmt: skip
def test_labels_of_devices(gpu: dict[str, Any], label: str) -> None:
    (line,) = lines("cuda_gpu_trace", Kernel(0, 5, name="k", device=8), gpus={8: gpu})
    assert line.split(",")[16] == label


EXECUTED = (
    Call(0, 10, 1, name="cudaLaunchKernel_v7000"), Kernel(15, 35, 1, name="k"),  # queue 5, total 35
    Call(100, 130, 2, name="cudaLaunchKernel_v7000"), Kernel(120, 126, 2, name="k"),  # total 30
    Call(200, 201, 3, name="cudaLaunchKernel_v7000"), Kernel(201, 211, 3, name="k"),  # queue 0, total 11
    Kernel(300, 400, 4, name="loose"),
)  # fmt: skip


test_traces_as_printed = hand_computed(
    # Bytes times how often the duration fits into a second: 1000 × 33333333 = 33333.333 MB/s.
    ("gpu trace", "cuda_gpu_trace",
     (Memcpy(10, 40, 7, bytes=1000, direction="DtoH", src="Device", dst="Pinned"),
      Kernel(0, 5, 6, name="f(int, int)", grid=(1, 2, 3), block=(4, 5, 6), registers=32,
             static=1500, dynamic=48_000, context=1, green=3),
      Memset(50, 52, 8, memory="Managed", bytes=500), Migration(60, 60, bytes=4096)),
     ['0,5,6,1,2,3,4,5,6,32,0.002,0.048,,,,,GPU 0 (0),1,3,7,"f(int, int)"',
      "10,30,7,,,,,,,,,,0.001,33333.333,Device,Pinned,GPU 0 (0),,,7,[CUDA memcpy Device-to-Host]",
      "50,2,8,,,,,,,,,,0.001,250000.000,Managed,,GPU 0 (0),,,7,[CUDA memset]",
      "60,0,,,,,,,,,,,0.004,,Unknown,Unknown,GPU 0 (0),,,,[CUDA memcpy Unified Host-to-Device]"]),
    # The second kernel runs before its call returns: no queue time, and the call's end ends both.
    ("kernels with their calls", "cuda_kern_exec_trace", EXECUTED,
     ["0,10,10,5,15,20,35,1,11,0,cudaLaunchKernel,,,k",
      "100,30,,,120,6,30,1,11,0,cudaLaunchKernel,,,k",
      "200,1,201,0,201,10,11,1,11,0,cudaLaunchKernel,,,k"]),
    # Totals 35 30 11, calls 10 30 1, queue times 5 0, kernels 20 6 10.
    #
    # Their deviations: √160.3 = 12.7, √220.3 = 14.8, √12.5 = 3.5, √52 = 7.2.
    ("summary of kernels with their calls", "cuda_kern_exec_sum", EXECUTED,
     ["1,11,0,3,2,25.3,30.0,11,35,12.7,13.7,10.0,1,30,14.8,2.5,2.5,0,5,3.5,"
      "12.0,10.0,6,20,7.2,cudaLaunchKernel,k"]),
    by=lines,
)  # fmt: skip


def test_a_summary_is_by_thread_device_and_function_and_sorted_by_the_mean() -> None:
    """The longest total is of the shortest kernel: it waited."""
    rows = (Call(0, 1, 1), Kernel(1, 11, 1, name="k"),
            Call(100, 101, 2, tid=12), Kernel(199, 201, 2, name="k"),
            Call(300, 301, 3, name="cuLaunchKernel"), Kernel(301, 351, 3, name="k"),
            Call(400, 401, 4), Kernel(401, 431, 4, name="k", device=5))  # fmt: skip
    found = [line.split(",") for line in lines("cuda_kern_exec_sum", *rows)]
    assert [(row[1], row[2], row[5], row[-2]) for row in found] == [
        ("12", "0", "101.0", "cudaLaunchKernel"), ("11", "0", "51.0", "cuLaunchKernel"),
        ("11", "5", "31.0", "cudaLaunchKernel"), ("11", "0", "11.0", "cudaLaunchKernel")]  # fmt: skip


def test_without_a_queue_time_there_are_no_statistics_of_it() -> None:
    (line,) = lines("cuda_kern_exec_sum", Call(0, 10, 1), Kernel(5, 15, 1, name="k"))
    assert line.split(",")[4] == "0"
    assert line.split(",")[15:20] == [""] * 5


def test_disagreeing_clocks_leave_queue_and_total_null() -> None:
    rows = Call(0, 10, 1), Kernel(9_000_000_000, 9_000_000_020, 1, name="k")
    (line,) = lines("cuda_kern_exec_trace", *rows)
    assert line == "0,10,,,9000000000,20,,1,11,0,cudaLaunchKernel,,,k"


# -- slices and sources


def test_a_slice_finds_the_names_of_its_own_kernels() -> None:
    rows = (Range(0, 10, "first"), Call(0, 5, 1), Kernel(20, 30, 1, name="a"),
            Range(50, 60, "second"), Call(50, 55, 2), Kernel(70, 90, 2, name="b"),
            Range(61, 64, "third"), Call(61, 62, 3), Kernel(95, 99, 3, name="c"))  # fmt: skip
    part = api.Slice((65, 100))
    for report in ("cuda_gpu_kern_sum", "cuda_gpu_trace", "cuda_kern_exec_trace"):
        found = lines(f"{report}:nvtx-name", *rows, part=part)
        assert [line.split(",")[-1] for line in found] == ["second/b", "third/c"]


def test_totals_come_longest_first() -> None:
    rows = (Total("api_call", 1, 5, 5, 5, name="cudaFree"),
            Total("api_call", 1, 15, 15, 15, name="cudaMalloc"))  # fmt: skip
    found = lines("cuda_api_sum", *rows, holds=(Fact.API_TOTALS,))
    assert [line.split(",")[-1] for line in found] == ["cudaMalloc", "cudaFree"]


def test_a_slice_takes_whole_rows() -> None:
    rows = (Call(0, 10, 1), Kernel(15, 35, 1, name="k"), Call(90, 95, 2), Kernel(100, 106, 2, name="k"),
            Memcpy(30, 50))  # fmt: skip
    part = api.Slice((0, 32))
    assert lines("cuda_api_sum", *rows, part=part) == [
        "100.0,10,1,10.0,10.0,10,10,0.0,cudaLaunchKernel"]  # fmt: skip
    assert lines("cuda_gpu_kern_sum", *rows, part=part) == ["100.0,20,1,20.0,20.0,20,20,0.0,k"]
    assert lines("cuda_gpu_kern_sum:nvtx-name", *rows, part=part) == [
        "100.0,20,1,20.0,20.0,20,20,0.0,k"]  # fmt: skip
    assert [line.split(",")[0] for line in lines("cuda_gpu_trace", *rows, part=part)] == [
        "15",
        "30",
    ]
    assert len(lines("cuda_kern_exec_trace", *rows, part=api.Slice((99, 200)))) == 1
    assert len(lines("cuda_api_trace", *rows, part=api.Slice((90, 200)))) == 1


TOLD = (
    Total("kernel", 3, 60, 10, 30, name="k", device=0),
    Total("kernel", 1, 20, 20, 20, name="k", device=1),
    Total("memcpy", 2, 15, 5, 10, direction="HtoD", bytes=3_000_000, bytes_min=1, bytes_max=2_999_999),
    Total("memset", 1, 5, 5, 5),
    Total("api_call", 4, 300, 50, 100, name="cudaLaunchKernel_v7000"),
)  # fmt: skip
SUMMED = (Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS, Fact.API_TOTALS)


@pytest.mark.parametrize(("report", "expected"), [
    ("cuda_api_sum", ["100.0,300,4,75.0,,50,100,,cudaLaunchKernel"]),
    ("cuda_gpu_kern_sum", ["100.0,80,4,20.0,,10,30,,k"]),
    ("cuda_api_gpu_sum", ["75.0,300,4,75.0,,50,100,,CUDA_API,cudaLaunchKernel",
                          "20.0,80,4,20.0,,10,30,,CUDA_KERNEL,k",
                          "3.8,15,2,7.5,,5,10,,MEMORY_OPER,[CUDA memcpy Host-to-Device]",
                          "1.3,5,1,5.0,,5,5,,MEMORY_OPER,[CUDA memset]"]),
    ("cuda_gpu_mem_time_sum", ["75.0,15,2,7.5,,5,10,,[CUDA memcpy Host-to-Device]",
                               "25.0,5,1,5.0,,5,5,,[CUDA memset]"]),
    ("cuda_gpu_mem_size_sum", ["3.000,2,1.500,,0.000,3.000,,[CUDA memcpy Host-to-Device]",
                               ",1,,,,,,[CUDA memset]"]),
    ("cuda_gpu_sum", ["80.0,80,4,20.0,,10,30,,CUDA_KERNEL,k",
                      "15.0,15,2,7.5,,5,10,,MEMORY_OPER,[CUDA memcpy Host-to-Device]",
                      "5.0,5,1,5.0,,5,5,,MEMORY_OPER,[CUDA memset]"]),
])  # fmt: skip
def test_totals_answer_as_far_as_they_go(report: str, expected: list[str]) -> None:
    """Sums over devices; nobody tells medians and deviations of totals."""
    assert lines(report, *TOLD, holds=SUMMED) == expected


@pytest.mark.parametrize("report", ["cuda_api_trace", "cuda_gpu_trace", "cuda_gpu_kern_gb_sum",
                                    "cuda_kern_exec_sum", "cuda_kern_exec_trace"])  # fmt: skip
def test_totals_are_no_events(report: str) -> None:
    with pytest.raises(NotRecorded):
        lines(report, *TOLD, holds=SUMMED)


VERSIONS = ("cudaMalloc_v3020", "cudaMalloc", "cudaMallocAsync_v11020", "cuMemcpyHtoDAsync_v2",
            "cuMemcpyHtoDAsync", "cudaGetDeviceProperties_v2_v12000")  # fmt: skip
"""nsys takes `_v` and four characters off; two functions are called alike then."""


@pytest.mark.parametrize("report", ["cuda_api_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum",
                                    "cuda_gpu_mem_size_sum", "cuda_gpu_sum", "osrt_sum"])  # fmt: skip
def test_a_table_read_back_prints_the_same(report: str, tmp_path: Path) -> None:
    """What we print is what nsys prints, as far as the importer of that can tell."""
    calls = (*(Call(500 + i, 700, name=name) for i, name in enumerate(VERSIONS)),
             OsrtCall(0, 30, "poll"), OsrtCall(5, 10, "pthread_cond_wait"))  # fmt: skip
    rows = (*EXECUTED, *MEMORY, *calls)
    told = lines(report, *rows)
    shown = asked(report, *rows)
    header = ",".join(shown.printed[column.name].header for column in shown.columns)
    path = tmp_path / f"{report}.csv"
    path.write_text("\n".join((header, *told)) + "\n", encoding="utf-8")
    with api.open(path) as profile:
        assert rendered("csv", profile.report(report)) == path.read_text(encoding="utf-8")


def test_an_operation_without_a_time_counts_and_has_none() -> None:
    rows = Kernel(None, None, name="k"), Kernel(0, 10, name="k")
    assert lines("cuda_gpu_kern_sum", *rows) == ["100.0,10,2,10.0,10.0,10,10,0.0,k"]
    assert [line.split(",")[:2] for line in lines("cuda_gpu_trace", *rows)] == [
        ["", ""],
        ["0", "10"],
    ]
