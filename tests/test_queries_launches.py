"""launch_stats and queue_length: calls that launch, and how long what they launch waits."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Graph, Kernel, Memcpy, Row, answers, asked, hand_computed, picked

from nsysconv.api import Slice

COPY = "cudaMemcpyAsync"

# docs/definitions/launches.md, launches: latencies 25, 100, 50 and 10; queue times 15, none, 30, 5.
EXAMPLE = (
    Call(1000, 1010, 1), Kernel(1025, 1030, 1),
    Call(2000, 2500, 2, name=COPY), Memcpy(2100, 2200, 2),
    Call(3000, 3020, 3, name="cudaGraphLaunch"),
    *(Kernel(start, start + 5, 3) for start in (3080, 3050, 3060, 3070, 3090)),
    Call(4000, 4005, 4), Kernel(4010, 4110, 4),
)  # fmt: skip


def by_name(*rows: Row, spec: str = "launch_stats", **options: Any) -> dict[str, dict[str, Any]]:
    """The rows of launch_stats by function."""
    return {row["name"]: row for row in answers(spec, *rows, **options)}


def queue(*rows: Row, spec: str = "queue_length", **options: Any) -> dict[str, Any]:
    (row,) = answers(spec, *rows, **options)
    return row


# -- launch_stats


def test_the_example_of_the_documentation() -> None:
    found = by_name(*EXAMPLE)
    assert list(found) == [COPY, "cudaGraphLaunch", "cudaLaunchKernel"]
    row = found["cudaLaunchKernel"]
    assert row == {
        "profile": row["profile"], "rank": None, "device_id": None, "layer": "runtime",
        "name": "cudaLaunchKernel", "launch_count": 2,
        "api_sum_ns": 15, "api_med_ns": 7.5, "api_max_ns": 10,
        "gpu_op_sum_ns": 105, "gpu_op_med_ns": 52.5,
        "launch_latency_avg_ns": 17.5, "launch_latency_med_ns": 17.5,
        "queue_count": 2, "queue_sum_ns": 20, "queue_avg_ns": 10.0, "queue_med_ns": 10.0,
        "queue_max_ns": 15, "short_op_count": 1, "long_call_count": 0, "long_queue_count": 0,
        "device_count": None, "device_min_sum_ns": None, "device_max_sum_ns": None,
    }  # fmt: skip


LAUNCHED = "launch_stats name launch_count launch_latency_avg_ns queue_count queue_sum_ns"
LONG = "long_call_count long_queue_count short_op_count"
SECOND = 1_000_000_000
APART = (Call(0, 10, 1), Kernel(5 * SECOND, 5 * SECOND + 7, 1))  # on clocks that disagree

test_launches_by_hand = hand_computed(
    # Of the second call the operation starts before it returns; the third has many.
    ("a call with many operations is one launch, and one that waits has no queue time", LAUNCHED, EXAMPLE,
     [(COPY, 1, 100, 0, 0), ("cudaGraphLaunch", 1, 50, 1, 30), ("cudaLaunchKernel", 2, 17.5, 2, 20)]),
    ("an operation that starts before its call has no latency",
     "launch_stats launch_count launch_latency_avg_ns queue_count api_sum_ns",
     (Call(10, 20, 1), Kernel(5, 8, 1), Call(30, 40, 2), Kernel(35, 95, 2)), [(2, 5, 0, 20)]),
    ("calls that launched nothing are no launches", "launch_stats name launch_count",
     (Call(0, 90, 1, name="cudaDeviceSynchronize"), Call(100, 110, 2), Kernel(120, 130, 2),
      Call(200, 210, 3), Kernel(None, None, 3)), [("cudaLaunchKernel", 1)]),
    # Calls of 10, 11 and 10, waits of 20, 21 and 5; of the last two operations, which are shorter than
    # their calls, one has a long call.
    ("long calls and long waits are above their limits",
     f"launch_stats:long_call_ns=10:long_queue_ns=20 {LONG}",
     (Call(0, 10, 1), Kernel(30, 90, 1), Call(100, 111, 2), Kernel(132, 133, 2), Call(200, 210, 3),
      Kernel(215, 220, 3)), [(1, 1, 1)]),
    ("an operation as long as its call is not short", "launch_stats short_op_count",
     (Call(0, 10, 1), Kernel(10, 20, 1)), [0]),
    ("the limits are those of HTA by default", f"launch_stats {LONG}",
     (Call(0, 50_000, 1), Kernel(150_000, 160_000, 1), Call(200_000, 250_001, 2),
      Kernel(350_002, 400_000, 2)), [(1, 1, 1)]),
    ("clocks that disagree leave durations but no waits",
     "launch_stats launch_count api_sum_ns gpu_op_sum_ns short_op_count launch_latency_avg_ns "
     "launch_latency_med_ns queue_count queue_sum_ns queue_avg_ns queue_max_ns long_queue_count",
     APART, [(1, 10, 7, 1, *[None] * 7)]),
    ("split rows are by device, layer and plain name",
     "launch_stats device_id layer name launch_count api_sum_ns",
     (Call(0, 30, 1, name="cudaLaunchKernel_v7000"), Kernel(40, 50, 1), Call(100, 120, 2),
      Kernel(130, 140, 2), Call(200, 210, 3), Kernel(220, 230, 3, device=1),
      Call(300, 305, 4, layer="driver", name="cuLaunchKernel"), Kernel(310, 320, 4)),
     [(0, "runtime", "cudaLaunchKernel", 2, 50), (1, "runtime", "cudaLaunchKernel", 1, 10),
      (0, "driver", "cuLaunchKernel", 1, 5)], {"split": "device"}),
    # The graph's first node runs during [3050, 3055): a slice of later nodes does not hold it.
    *(("a launch is in a slice if its first operation is",
       "launch_stats name gpu_op_sum_ns api_sum_ns queue_sum_ns", EXAMPLE, expected, {"time": time})
      for time, expected in (
        ((1026, 2101), [(COPY, 100, 500, 0), ("cudaLaunchKernel", 5, 10, 15)]), ((3061, 4000), []),
        ((3052, 3053), [("cudaGraphLaunch", 25, 20, 30)]))),
    ("a slice of a device holds its launches", "launch_stats device_id api_sum_ns",
     (Call(0, 30, 1), Kernel(40, 50, 1), Call(60, 70, 2), Kernel(80, 90, 2, device=1)), [(1, 10)],
     {"part": Slice(devices=(1,)), "split": "device"}),
)  # fmt: skip


# -- queue_length

# Three launches: waiting during [100, 150), [110, 300) and [120, 400). The length is
# 1, 2, 3 from 100, 110, 120, then 2 from 150, 1 from 300, 0 from 400.
WAITING = (
    Call(100, 105, 1), Kernel(150, 300, 1), Call(110, 115, 2), Kernel(300, 400, 2),
    Call(120, 125, 3), Kernel(400, 410, 3),
)  # fmt: skip


def test_the_queue_of_the_documentation() -> None:
    row = queue(*WAITING)
    assert row == {
        "profile": row["profile"], "rank": None, "device_id": 0, "stream": "7", "launch_count": 3,
        "span_ns": 300, "waiting_avg": (50 + 190 + 280) / 300,
        "queue_length_avg": (1 + 2 + 3 + 2 + 1 + 0) / 6,
        "queue_length_stddev": pytest.approx(float(np.std([1, 2, 3, 2, 1, 0], ddof=1))),
        "queue_length_min": 0, "queue_length_p25": 1.0, "queue_length_med": 1.5,
        "queue_length_p75": 2.0, "queue_length_max": 3, "full_ns": 0, "full_pct": 0.0,
    }  # fmt: skip


test_queue_length_by_hand = hand_computed(
    # Two or more wait during [110, 300): 190 of 300.
    ("queue is full from the limit on", "queue_length:full=2 full_ns full_pct", WAITING,
     [(190, pytest.approx(100 * 190 / 300))]),
    ("a launch at the moment of another start comes first",
     "queue_length queue_length_max queue_length_min",
     (Call(0, 5, 1), Kernel(10, 20, 1), Call(10, 15, 2), Kernel(30, 40, 2)), [(2, 0)]),
    ("a launch that does not wait is two changes",
     "queue_length launch_count span_ns waiting_avg queue_length_avg full_pct",
     (Call(10, 15, 1), Kernel(10, 20, 1)), [(1, 0, 0.0, 0.5, 0.0)]),
    ("nodes of a graph wait as one launch", "queue_length launch_count queue_length_max span_ns",
     (Call(0, 10, 1), *(Kernel(20 + i, 21 + i, 1) for i in range(5))), [(1, 1, 20)]),
    ("a graph recorded as one interval waits too", "queue_length waiting_avg",
     (Call(0, 10, 1), Graph(20, 90, 1)), [1.0]),
    ("each stream has a queue of its own",
     "queue_length:full=1 stream queue_length_max span_ns full_ns",
     (Call(0, 5, 1), Kernel(10, 20, 1, stream=7), Call(1, 5, 2), Kernel(30, 40, 2, stream=8)),
     [("7", 1, 10, 10), ("8", 1, 29, 29)]),
    ("streams of several processes are labeled with the process", "queue_length rank stream span_ns",
     (Call(0, 5, 1), Kernel(10, 20, 1), Call(0, 5, 1, pid=2), Kernel(30, 40, 1, pid=2)),
     [(0, "7@1", 10), (1, "7@2", 30)], {"ranks": {1: 0, 2: 1}}),
    ("a stream without waiting launches has no lengths",
     "queue_length launch_count span_ns waiting_avg queue_length_avg queue_length_p25 queue_length_max "
     "full_ns full_pct", (Call(10, 20, 1), Kernel(5, 8, 1)), [(0, *[None] * 7)]),
    ("clocks that disagree leave queues null",
     "queue_length stream launch_count span_ns waiting_avg queue_length_max full_ns", APART,
     [("7", *[None] * 5)]),
    ("a launch whose op starts before its call never waited",
     "queue_length launch_count span_ns queue_length_min",
     (Call(10, 20, 1), Kernel(5, 8, 1), Call(30, 40, 2), Kernel(45, 50, 2)), [(1, 15, 0)]),
)  # fmt: skip


waits = st.lists(
    st.tuples(st.integers(1, 30), st.integers(0, 12), st.integers(7, 8)), min_size=1, max_size=10
)


@given(waits, st.integers(1, 4))
def test_against_moments(launched: list[tuple[int, int, int]], full: int) -> None:
    """(call, wait, stream): at a moment, what has been called and has not started is counted."""
    rows: list[Row] = []
    for number, (called, wait, stream) in enumerate(launched, 1):
        rows += [Call(called, called + 1, number),
                 Kernel(called + wait, called + wait + 3, number, stream=stream)]  # fmt: skip
    found = {row["stream"]: row for row in answers(f"queue_length:full={full}", *rows)}
    assert found.keys() == {str(stream) for _, _, stream in launched}
    for name, row in found.items():
        mine = [(c, c + w) for c, w, stream in launched if str(stream) == name]
        lengths = _lengths(mine)
        first, last = min(c for c, _ in mine), max(s for _, s in mine)
        waiting = Counter(t for c, s in mine for t in range(c, s))
        assert row["launch_count"] == len(mine)
        assert row["span_ns"] == last - first
        assert row["waiting_avg"] == pytest.approx(
            float(Fraction(sum(waiting.values()), max(last - first, 1)))
        )
        assert row["full_ns"] == sum(1 for count in waiting.values() if count >= full)
        assert picked(row, "queue_length_min", "queue_length_max") == (min(lengths), max(lengths))
        assert row["queue_length_avg"] == pytest.approx(float(np.mean(lengths)))
        assert row["queue_length_stddev"] == pytest.approx(float(np.std(lengths, ddof=1)))
        for share, column in ((25, "p25"), (50, "med"), (75, "p75")):
            assert row[f"queue_length_{column}"] == pytest.approx(float(np.percentile(lengths, share)))


def _lengths(waiting: list[tuple[int, int]]) -> list[int]:
    """The length after each change: at one moment all that are called come before any that starts."""
    length, found = 0, []
    for moment in sorted({t for pair in waiting for t in pair}):
        for called, _ in waiting:
            if called == moment:
                length += 1
                found.append(length)
        for _, started in waiting:
            if started == moment:
                length -= 1
                found.append(length)
    return found


# -- several calls of one correlation id, and two kernels of one launch (docs/definitions/launches.md)

HIP, EXT, HIP_GRAPH = "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipGraphLaunch"


@pytest.mark.parametrize(("calls", "kernels", "expected"), [
    # The second call began after the first kernel; both calls began before it.
    ([(0, 1, HIP), (50, 1, EXT)], [20, 75], {HIP: [20], EXT: [75]}),
    ([(0, 1, HIP), (5, 1, EXT)], [20, 75], {HIP: [20], EXT: [75]}),
    # One kernel only: the latest call's that began before it.
    ([(0, 1, HIP), (50, 1, EXT)], [75], {EXT: [75]}),
    ([(0, 1, HIP), (50, 1, EXT)], [20], {HIP: [20]}),
    ([(0, 1, HIP), (50, 1, EXT), (60, 1, HIP)], [70, 75], {EXT: [70], HIP: [75]}),
    # A graph has many, the other launch has one.
    ([(0, 1, HIP_GRAPH), (50, 1, HIP)], [20, 30, 40, 75, 80], {HIP_GRAPH: [20, 30, 40, 80], HIP: [75]}),
    ([(0, 1, HIP_GRAPH), (50, 1, HIP_GRAPH)], [20, 30, 75, 80], {HIP_GRAPH: [20, 30, 75, 80]}),
    # What launches nothing by its name owns nothing.
    ([(0, 1, "hipMalloc"), (50, 1, HIP_GRAPH)], [75, 80], {HIP_GRAPH: [75, 80]}),
    # One id has two kernels, and the other call's id (or none) has no kernel.
    ([(0, 1, HIP), (10, 2, EXT)], [20, 75], {HIP: [20], EXT: [75]}),
    ([(0, 1, HIP), (10, 0, EXT)], [20, 75], {HIP: [20], EXT: [75]}),
    ([(0, 2, EXT), (10, 1, HIP)], [20, 75], {EXT: [20], HIP: [75]}),
    ([(0, 3, HIP_GRAPH), (5, 2, EXT), (10, 1, HIP)], [20, 30, 75], {EXT: [20], HIP: [30, 75]}),
    # The nearest call that began before the last kernel.
    ([(0, 3, "hipModuleLaunchKernel"), (40, 2, EXT), (50, 1, HIP), (90, 4, "hipLaunchKernelExC")],
     [60, 75], {EXT: [60], HIP: [75]}),
])  # fmt: skip
def test_every_call_that_could_have_an_operation_has_one(
    calls: list[tuple[int, int, str]], kernels: list[int], expected: dict[str, list[int]]
) -> None:
    """Each kernel takes as long as its start says, on a stream of its own."""
    rows = [*(Call(start, start + 5, number, name=name) for start, number, name in calls),
            *(Kernel(start, 2 * start, 1, start) for start in kernels)]  # fmt: skip
    found = {row["name"]: row["gpu_op_sum_ns"] for row in answers("launch_stats", *rows)}
    assert found == {name: sum(starts) for name, starts in expected.items()}
    assert sum(row["launch_count"] for row in answers("queue_length", *rows)) == sum(
        row["launch_count"] for row in answers("launch_stats", *rows))  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), [
    ((Call(0, 5, 1), Call(50, 55, 1), Kernel(20, 30, 1), Kernel(75, 85, 1)), [2]),
    ((Call(0, 5, 1), Call(10, 15, 2), Kernel(20, 30, 1), Kernel(75, 85, 1)), [2]),
    # A call that another of its id holds, or of the driver; a launch of one kernel without another call.
    ((Call(0, 20, 1), Call(5, 10, 1, "driver"), Kernel(30, 40, 1)), []),
    ((Call(0, 20, 1), Call(25, 30, 1, "driver"), Kernel(30, 40, 1)), []),
    ((Call(0, 20, 1), Kernel(30, 40, 1), Kernel(50, 60, 1)), []),
    ((Call(0, 20, 1), Call(25, 30, 2), Kernel(40, 45, 1), Memcpy(50, 60, 1)), []),
    ((Call(0, 5, 1), Call(90, 95, 2), Kernel(20, 30, 1), Kernel(75, 85, 1)), []),  # too late
    ((Call(0, 5, 1), Call(1, 2, 2, pid=2), Kernel(20, 30, 1), Kernel(75, 85, 1)), []),
])  # fmt: skip
def test_what_is_matched_by_its_start_is_noted(rows: tuple[Row, ...], expected: list[int]) -> None:
    notes = asked("launch_stats", *rows).notes
    assert [note.count for note in notes if note.slug == "launch-assumed"] == expected
