"""What is not believed of a profile: each rule on both sides of its threshold; faults in random runs."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, few, real
from diff_workloads import SOURCES, training
from small_store import (
    Call,
    Kernel,
    Memcpy,
    Memory,
    Memset,
    Migration,
    Range,
    Row,
    answers,
    cell,
    only,
    opened,
)
from workload import Events
from write_rocpd import write_rocpd

from nsysconv import api
from nsysconv.facts import Fact
from nsysconv.store.read import Profile
from nsysconv.timeline.idle import gaps, known_part
from nsysconv.timeline.soundness import doubtful_tables
from nsysconv.timeline.timeline import Timeline

MS, S = 1_000_000, 1_000_000_000
NEW = {
    "events-outside", "ops-before-launch", "leftover-ops", "overrunning-ops", "launches-without-work",
    "launches-failed", "graph-replays-unequal", "sizes-impossible", "repeated-ops",
}  # fmt: skip

Found = dict[str, tuple[int, int, str]]


def found_in(timeline: Timeline) -> Found:
    """The notes on what is not believed: how many, of how many, and the first place."""
    notes = timeline.profile.notes
    return {note.slug: (note.count, note.of, note.where) for note in notes if note.slug in NEW}


def found(*rows: Any, **options: Any) -> Found:
    with opened(*rows, **options) as profile:
        notes = found_in(profile.timeline)
    if notes:
        seems_sound(*rows, **options)
    return notes


def seems_sound(*rows: Any, **options: Any) -> bool:
    """Whether a look at blocks of rows says that nothing is to be found."""
    session = {"recording_start_ns": 0, "recording_ns": 100 * S}
    with opened(*rows, **session | options) as profile:
        is_seen = not doubtful_tables(profile.timeline.profile)
        assert not (is_seen and found_in(profile.timeline))
        return is_seen


def launched(*kernels: tuple[int, int], **options: Any) -> list[Any]:
    """Kernels, each launched 10 ns before it starts by a call of 5 ns."""
    rows: list[Any] = []
    for number, (start, end) in enumerate(kernels, 1):
        rows += [Call(start - 10, start - 5, number), Kernel(start, end, number, **options)]
    return rows


@pytest.mark.parametrize(
    "ids", [range(1, 301), range(4 * 10**9, 4 * 10**9 + 300), range(3 * 10**6, 0, -(10**4))]
)
def test_calls_are_looked_at_by_blocks_whatever_ids_they_have(ids: range) -> None:
    """From 1 on, those of a capture that began late, and those far apart, the last call's first."""
    calls = [Call(100 * n, 100 * n + 5, number) for n, number in enumerate(ids, 1)]
    rows = [*calls, *(Kernel(call.start + 10, call.start + 20, call.correlation) for call in calls)]
    assert seems_sound(*rows)
    assert not seems_sound(*rows[:-1])  # a launch without its kernel
    for start in (5, calls[-1].end):  # two calls of an id, of which the earlier one has a kernel
        assert not seems_sound(*rows, Call(start, start + 4, ids[7], name="cudaMalloc"))


# -- one operation on a stream at a time


@pytest.mark.parametrize("count", [2, 3])
def test_an_operation_is_once_on_its_stream(count: int) -> None:
    """Kernels [100, 200) and [300, 400), a copy [500, 600); the last two are recorded again."""
    copy = Memcpy(500, 600, 3, bytes=64)
    rows = [*launched((100, 200), (300, 400)), Call(490, 495, 3, name="cudaMemcpyAsync"), copy]
    again = [Kernel(300, 400, 2), copy] * (count - 1)
    assert found(*rows, *again) == {"repeated-ops": (2 * (count - 1), count + 1 + count, "kernel:3")}
    with opened(*rows, *again) as profile:
        (row,) = profile.report("overview").rows()
        assert row["kernel_sum_ns"] == 200
        (row,) = profile.report("transfers").rows()
        assert (row["bytes_sum"], row["memcpy_sum_ns"]) == (64, 100)
        # What launched them is known.
        assert not len(profile.timeline.lost_launches)


@pytest.mark.parametrize(
    "other",
    [
        Kernel(300, 400, 2, stream=8), Kernel(300, 400, 2, device=1), Kernel(300, 400, 2, name="other"),
        Kernel(300, 401, 2), Kernel(301, 400, 2), Kernel(300, 400, 3), Kernel(400, 400, 2),
    ],
)  # fmt: skip
def test_an_operation_that_differs_is_another_one(other: Kernel) -> None:
    assert "repeated-ops" not in found(*launched((100, 200), (300, 400)), other)


def test_nodes_of_a_graph_may_look_alike() -> None:
    """Of three nodes in one stream of times in whole us, two ran at once."""
    graph = [Call(90, 95, 1, name="cudaGraphLaunch"), Kernel(100, 200, 1), Kernel(100, 200, 1)]
    assert "repeated-ops" not in found(*graph, Kernel(200, 300, 1))
    # Recorded twice, all are.
    nodes = [Kernel(100, 200, 1), Kernel(200, 300, 1)]
    assert found(graph[0], *nodes, *nodes)["repeated-ops"] == (2, 4, "kernel:3")


@pytest.mark.parametrize(
    "pair",
    [
        (Kernel(100, 200, None), Kernel(100, 200, None)),  # of no known call
        (Kernel(100, 100, 1), Kernel(100, 100, 1)),  # shorter than the times can say
        (Memcpy(100, 200, 1, bytes=8), Memcpy(100, 200, 1, bytes=16)),
    ],
)
def test_operations_that_may_be_two(pair: tuple[Row, Row]) -> None:
    assert "repeated-ops" not in found(*pair)


def test_bytes_of_a_copy_that_is_there_again_or_cannot_be_are_not_recorded() -> None:
    copies = [Memcpy(0, 10, 1, bytes=64), Memcpy(0, 10, 1, bytes=64), Memcpy(20, 30, 2, bytes=-1)]
    with opened(*copies) as profile:
        assert {"repeated-ops", "sizes-impossible"} <= found_in(profile.timeline).keys()
        (row,) = profile.report("transfers").rows()
        assert (row["memcpy_count"], row["bytes_sum"]) == (3, 64)


def test_an_operation_that_overruns_the_next_start_by_far() -> None:
    """Stream: 40 us each 50 us, the third's end is 2 ms late. The median of its name is 40 us."""
    times = [(at, at + 40_000) for at in range(100_000, 350_000, 50_000)]
    healthy = launched(*times)
    assert found(*healthy) == {}
    times[2] = (200_000, 250_000 + MS + 1)
    assert found(*launched(*times)) == {"overrunning-ops": (1, 5, "kernel:3")}
    times[2] = (200_000, 250_000 + MS)
    assert found(*launched(*times)) == {}


def test_the_median_is_that_of_the_name_and_of_the_stream_where_it_is_rare() -> None:
    """Kernels of 2 ms overrun by 15 ms: 7.5 times their median is no fault, 10.5 times is one."""
    times = [(at * MS, at * MS + 2 * MS) for at in range(1, 11, 2)]
    for over, faults in ((15 * MS, 0), (21 * MS, 1)):
        times[1] = (3 * MS, 5 * MS + over)
        assert len(found(*launched(*times))) == faults, over
    short = [(at * MS + 10, at * MS + 500_000) for at in range(20, 30)]
    rare = [Call(90, 95, 99), Kernel(100, 40 * MS, 99, name="rare")]
    # 20 ms beyond the next start: more than ten times the stream's 0.5 ms.
    assert found(*launched(*short), *rare) == {"overrunning-ops": (1, 11, "kernel:11")}
    # On a stream of its own it may.
    alone = [Call(90, 95, 99), Kernel(100, 40 * MS, 99, name="rare", stream=8)]
    assert found(*launched(*short), *alone) == {}


def test_what_overruns_is_in_no_time_and_still_counted_as_a_row() -> None:
    times = [(at, at + 40_000) for at in range(100_000, 400_000, 50_000)]
    times[1] = (150_000, 5 * S)
    with opened(*launched(*times)) as profile:
        (row,) = profile.report("overview").rows()
        assert (row["busy_ns"], row["window_ns"], row["kernel_count"]) == (200_000, 290_000, 6)
        # Nobody knows what the GPU did from the second one's launch at 149,990 on.
        gaps = profile.report("idle_gaps").rows()
        by_start = {gap["start_ns"]: gap for gap in gaps}
        assert (by_start[140_000]["unknown_ns"], by_start[140_000]["dur_ns"]) == (50_010, 60_000)
        assert sum(gap["unknown_ns"] for gap in gaps) == 50_010
        assert profile.events("kernel").num_rows == 6


# -- before the call


def test_an_operation_long_before_its_call() -> None:
    rows = [*launched((3 * S, 3 * S + 5), (3 * S + 20, 3 * S + 30)), Call(4 * S, 4 * S + 5, 9)]
    assert found(*rows, Kernel(3 * S, 3 * S + 1, 9, stream=8)) == {}
    early = Kernel(3 * S - 1, 3 * S, 9, stream=8)
    assert found(*rows, early) == {"ops-before-launch": (1, 3, "kernel:3")}


def test_most_operations_may_be_early_unless_the_clock_drifts() -> None:
    """Four of six are 4 s early; with one that is half a second early, the clocks have drifted."""
    rows = launched((5 * S, 5 * S + 5), (5 * S + 20, 5 * S + 30))
    calls = [Call(5 * S + n, 5 * S + n + 1, 10 + n) for n in (40, 50, 60, 70)]
    early = [Kernel(S + n, S + n + 5, 10 + n) for n in (40, 50, 60, 70)]
    assert found(*rows, *calls, *early) == {"ops-before-launch": (4, 6, "kernel:3")}
    assert cell("overview window_ns", *rows, *calls, *early) == 30
    drifting = [Call(5 * S, 5 * S + 1, 9), Kernel(4 * S + S // 2, 4 * S + S // 2 + 5, 9)]
    assert found(*rows, *calls, *early, *drifting) == {}


def test_a_call_that_is_not_believed_says_nothing_of_its_operation() -> None:
    rows = launched((S, S + 5), (S + 20, S + 30), (S + 40, S + 50), (S + 60, S + 70))
    rows[4] = rows[4]._replace(start=70_000 * S, end=70_000 * S + 5)
    assert found(*rows) == {"events-outside": (1, 8, "api_call:3")}
    assert cell("overview busy_ns", *rows) == 35


def test_where_all_are_early_it_is_the_clocks() -> None:
    calls = Call(9 * S, 9 * S + 5, 1), Call(9 * S + 9, 9 * S + 12, 2)
    rows = (*calls, Kernel(10, 20, 1), Kernel(30, 40, 2))
    with opened(*rows) as profile:
        assert profile.timeline.clocks_disagree
        assert "ops-before-launch" not in found_in(profile.timeline)


# -- outside of the recording


def test_an_event_outside_of_the_session() -> None:
    rows = launched((MS, MS + 100), (MS + 200, MS + 300))
    session = {"recording_start_ns": 0, "recording_ns": 20 * MS}
    # A tenth of it more is no fault.
    assert found(*rows, Range(22 * MS - 10, 22 * MS, "a"), **session) == {}
    late = Range(68_400 * S, 68_400 * S + 5, "a")
    assert found(*rows, late, **session) == {"events-outside": (1, 5, "range:1")}
    assert found(*rows, Range(MS, 30 * MS, "a"), **session) == {"events-outside": (1, 5, "range:1")}
    assert found(*rows, Range(MS, MS + 9, "b"), late, **session) == {
        "events-outside": (1, 6, "range:2")
    }


def test_an_event_far_from_all_others_where_no_session_is_told() -> None:
    """From the first to the last of the others it is 19 ms: 100 times that is 1.9 s."""
    rows = launched(*((at * MS, at * MS + 100) for at in range(1, 21)))
    assert found(*rows, Range(1_900 * MS, 2 * S + 5, "a")) == {}
    assert found(*rows, Range(3 * S, 3 * S + 5, "a")) == {"events-outside": (1, 41, "range:1")}
    assert found(*rows, Range(-3 * S, 5 - 3 * S, "a")) == {"events-outside": (1, 41, "range:1")}
    # What lasts until the others begin is not far from them.
    assert found(*rows, Range(-3 * S, 5, "a")) == {}
    # Both at once; and two halves are two parts of a program.
    both = (Range(-9 * S, -9 * S + 5, "a"), Range(9 * S, 9 * S + 5, "a"))
    assert found(*rows, *both) == {"events-outside": (2, 42, "range:1")}
    # More than a few: the program has done something else in between.
    later = [Range(9 * S + at, 9 * S + at + 5, "a") for at in range(4)]
    assert found(*rows, *later[:3]) == {"events-outside": (3, 43, "range:1")}
    assert found(*rows, *later) == {}
    halves = launched(*((at * MS, at * MS + 100) for at in (*range(1, 21), *range(90_000, 90_020))))
    assert found(*halves) == {}


def test_operations_far_behind_their_calls_and_all_else() -> None:
    """All kernels are on a clock of their own, and copies are not: nothing happened in between."""
    rows = launched(*((at * MS, at * MS + 100) for at in range(1, 21)))
    calls = [row for row in rows if isinstance(row, Call)]
    late = [Kernel(3 * S + at * MS, 3 * S + at * MS + 100, at) for at in range(1, 21)]
    copied_by = Call(2 * MS + 400, 2 * MS + 500, 50, name="cudaMemcpyAsync")
    copy = copied_by, Memcpy(2 * MS + 500, 2 * MS + 600, 50)
    assert found(*calls, *copy, *late) == {"events-outside": (20, 42, "kernel:1")}
    assert cell("overview kernel_sum_ns window_ns", *calls, *copy, *late) == (0, 100)
    # Work without calls may be another program's; and it may have waited for what the host did meanwhile,
    # or the GPU.
    assert found(*calls[11:], *copy, *late) == {}
    assert found(*calls, *copy, *late, Call(3 * S, 3 * S + 5, 99, name="cudaEventRecord")) == {}
    assert found(*calls, *copy, *late, Memcpy(2 * MS + 600, 2 * S, 50, stream=9)) == {}


def test_an_operation_that_ends_long_after_all_else() -> None:
    """Nothing follows it on its stream. No session is known, and no other of its name is like it."""
    rows = launched((100, 200), (300, 400), (500, 600), (700, 2 * S))
    assert found(*rows) == {"events-outside": (1, 8, "kernel:4")}
    row = only("overview", *rows)
    assert row["window_ns"] == 500
    assert found(*rows[:6], *launched((700, S // 2))) == {}
    assert found(*(row for row in rows if isinstance(row, Kernel)), without={Fact.API_CALLS}) == {}
    # The host waited for it, or it is the only one of its name.
    assert found(*rows, Call(720, 2 * S + 5, 9, name="cudaDeviceSynchronize")) == {}
    assert found(*rows[:7], rows[7]._replace(name="solve")) == {}


def test_what_lies_outside_makes_no_time() -> None:
    rows = launched((MS, MS + 100_000), (2 * MS, 2 * MS + 100_000))
    session = {"recording_start_ns": 0, "recording_ns": 3 * MS}
    row = only("summary", *rows, Range(68_400 * S, 68_400 * S + 5, "a"), **session)
    assert row["after_ns"] == 3 * MS - 2 * MS - 100_000


# -- left over


def test_operations_that_were_left_over_from_before_the_recording() -> None:
    rest = launched((101 * MS, 102 * MS), (105 * MS, 111 * MS))  # 10 ms from the first call on
    left = [Kernel(MS, 2 * MS, 77), Kernel(3 * MS, 4 * MS, None)]
    assert found(*left, *rest) == {"leftover-ops": (2, 4, "kernel:1")}
    near = [Kernel(100 * MS + 999_980, 100 * MS + 999_985, 77)]
    # 5 ns before the first call: some ran when the recording began.
    assert found(*near, *rest) == {}
    assert found(*left, *near, *rest) == {"leftover-ops": (2, 5, "kernel:1")}
    # Where nothing is recorded of the host, nothing is known to be left over.
    assert found(Kernel(MS, 2 * MS), Kernel(101 * MS, 102 * MS)) == {}


# -- launches without work


def test_launches_whose_work_is_missing_and_those_that_failed() -> None:
    rows = launched((100, 200), (300, 400))
    lost, failed = Call(500, 505, 8), Call(600, 605, 9, result=700)
    assert found(*rows, lost, failed) == {
        "launches-without-work": (1, 4, "api_call:3"),
        "launches-failed": (1, 4, "api_call:4"),
    }
    assert found(*rows, Call(500, 505, 8, name="cudaMemcpyAsync")) == {}  # it may copy nothing
    graph = Call(500, 505, 8, name="cudaGraphLaunch")
    assert found(*rows, graph)["launches-without-work"] == (1, 3, "api_call:3")
    for name in ("hipModuleLaunchKernel", "cuLaunchKernelEx_ptsz"):
        assert found(*rows, Call(500, 505, 8, name=name))["launches-without-work"][0] == 1


def test_a_launch_in_another_has_the_work_of_that() -> None:
    rows = launched((100, 200), (300, 400))
    inner = Call(287, 294, 55, name="cuLaunchKernel", layer="driver")
    assert found(*rows, inner) == {}
    assert found(*rows, Call(291, 293, 55, name="cuLaunchKernel", layer="driver")) == {}
    other_thread = Call(291, 293, 55, name="cuLaunchKernel", layer="driver", tid=12)
    assert found(*rows, other_thread)["launches-without-work"][0] == 1
    # A pair without work is one launch that is lost, the outer one.
    lost = found(*rows, Call(500, 510, 8), Call(501, 509, 9, name="cuLaunchKernel"))
    assert lost == {"launches-without-work": (1, 4, "api_call:3")}


def test_launches_while_a_stream_is_captured_have_no_work() -> None:
    rows = launched((100, 200), (300, 400))
    begin = Call(500, 502, 10, name="cudaStreamBeginCapture")
    end = Call(520, 522, 12, name="cudaStreamEndCapture")
    assert found(*rows, begin, Call(510, 512, 11), end) == {}
    assert found(*rows, begin, end, Call(530, 532, 11))["launches-without-work"][0] == 1


def test_a_capture_takes_launches_of_threads_that_do_nothing_else_meanwhile() -> None:
    """Autograd's thread launches what is captured on the thread that asked for it."""
    rows = launched((100, 200), (300, 400))
    begin = Call(500, 502, 10, name="cudaStreamBeginCapture")
    end = Call(520, 522, 12, name="cudaStreamEndCapture")
    other = Call(510, 512, 11, tid=12)
    assert found(*rows, begin, other, end) == {}
    works = [Call(514, 515, 13, tid=12), Kernel(516, 518, 13, stream=8)]
    assert found(*rows, begin, other, *works, end)["launches-without-work"] == (1, 4, "api_call:4")
    elsewhere = other._replace(pid=2)
    assert found(*rows, begin, elsewhere, end)["launches-without-work"][0] == 1


def test_a_capture_without_an_end_or_that_failed_hides_no_loss() -> None:
    begin = Call(50, 52, 10, name="cudaStreamBeginCapture")
    lost = [Call(60, 62, 11), Call(500, 505, 12)]
    rows = launched((100, 200), (300, 400))
    assert found(begin, *rows, *lost)["launches-without-work"] == (1, 4, "api_call:5")
    failed = begin._replace(result=900)
    assert found(failed, *rows, *lost)["launches-without-work"] == (2, 4, "api_call:4")
    # The next capture on that thread is one of its own.
    again = Call(510, 512, 13, name="cudaStreamBeginCapture")
    end = Call(530, 532, 14, name="cudaStreamEndCapture")
    found_then = found(begin, *rows, *lost, again, Call(520, 522, 15), end)
    assert found_then["launches-without-work"] == (1, 5, "api_call:5")


def test_replays_of_a_graph_that_lack_nodes() -> None:
    """Three replays of three nodes; the note is at the first replay that lacks one."""
    calls = [Call(100 * n, 100 * n + 5, n, name="cudaGraphLaunch") for n in (1, 2, 3)]
    nodes = {(n, k): Kernel(100 * n + 10 * k, 100 * n + 10 * k + 5, n, node=k)
             for n in (1, 2, 3) for k in (1, 2, 3)}  # fmt: skip

    def without(*gone: tuple[int, int]) -> Found:
        return found(*calls, *(node for key, node in nodes.items() if key not in gone))

    assert without() == {}
    assert without((2, 3)) == {"graph-replays-unequal": (1, 9, "api_call:2")}
    assert without((2, 3), (3, 3)) == {"graph-replays-unequal": (2, 9, "api_call:2")}
    assert without((3, 1), (3, 2)) == {"graph-replays-unequal": (2, 9, "api_call:3")}


@pytest.mark.parametrize("work", [[], [Kernel(None, None, 8)]], ids=["lost", "without a time"])
def test_idle_time_behind_a_launch_without_work_has_no_cause(work: list[Row]) -> None:
    """Gaps [200, 300) and [400, 600); the lost launch at 450 is between the calls of the last two."""
    rows = [*launched((100, 200), (300, 400), (600, 700)), Call(450, 455, 8), *work]
    with opened(*rows) as profile:
        gaps = {gap["start_ns"]: gap for gap in profile.report("idle_gaps").rows()}
        assert (gaps[200]["host_ns"], gaps[200]["unknown_ns"]) == (90, 0)
        assert (gaps[400]["host_ns"], gaps[400]["unknown_ns"]) == (50, 150)
        rules = {row["rule"] for row in profile.report("findings").rows()}
        assert "idle_unknown" not in rules
    # After the last operation: no tear-down.
    rows = [
        *launched((100, 200), (300, 400)),
        Call(450, 455, 8),
        Call(500, 9_000, 9, name="cudaFree"),
        *work,
    ]
    rules = {row["rule"] for row in answers("findings", *rows) if row["value"]}
    assert "tear_down" not in rules


@pytest.mark.parametrize("work", [[], [Kernel(None, None, 8)]], ids=["lost", "without a time"])
def test_idle_time_behind_a_launch_without_work_is_not_to_be_saved(work: list[Row]) -> None:
    """Gaps [200, 300) and [400, 600), of which the second is known until the lost launch at 450.

    The waits outlast the kernels by 10 and 20, and the last launch comes at 590.
    """
    rows = [
        *launched((100, 200), (300, 400), (600, 700)), Call(450, 455, 8), *work,
        Call(96, 210, name="cudaDeviceSynchronize"), Call(296, 420, name="cudaDeviceSynchronize"),
        Call(430, 440, name="cudaMalloc"), Call(500, 580, name="cudaMalloc"),
    ]  # fmt: skip
    saved = {"sync_each_kernel": 100 + 50, "launch_bound": 90 + 5 + 50, "allocation": 10}
    asked = ":".join(("findings", *(f"{rule}=0" for rule in saved)))
    found = {row["rule"]: row["saving_ns"] for row in answers(asked, *rows)}
    assert {rule: found[rule] for rule in saved} == saved


@pytest.mark.parametrize(("lost_at", "ends"), [(450, [300, 450]), (350, [300]), (650, [300, 600])])
def test_the_part_of_gaps_that_is_known(lost_at: int, ends: list[int]) -> None:
    """Gaps [200, 300) and [400, 600), the latter's launch at 590: nothing of it is known from 350 on."""
    with opened(*launched((100, 200), (300, 400), (600, 700)), Call(lost_at, lost_at + 5, 8)) as profile:
        (whole,) = gaps(profile.timeline, "no_op")
        assert known_part(profile.timeline, whole).end.tolist() == ends


# -- seen by blocks


@pytest.mark.parametrize("size", [-1, (1 << 50) + 1, 1 << 62])
def test_sizes_that_cannot_be(size: int) -> None:
    """Their bytes are not recorded; a pebibyte, and what is not recorded, are no fault."""
    copies = [
        Memcpy(start, start + 10, bytes=each)
        for start, each in ((0, 100), (20, size), (40, size), (60, None), (80, 1 << 50))
    ]
    sets = (Memset(100, 110, bytes=size), Memset(120, 130, bytes=8))
    with opened(*copies, *sets) as profile:
        (note,) = (note for note in profile.timeline.profile.notes if note.slug == "sizes-impossible")
        assert (note.count, note.of, note.where) == (3, 7, "memcpy:2")
        assert note.facts == {Fact.MEMCPYS, Fact.MEMSETS}
        rows = profile.report("transfers").rows()
    assert [(row["memcpy_count"], row["bytes_sum"]) for row in rows] == [(5, 100 + (1 << 50))]


def test_memory_that_no_device_has() -> None:
    """Memory in use, or reserved, below 0 or above a pebibyte; freed blocks have a negative size."""
    odd, no = 1 << 62, None
    events = [
        Memory(20 + n, size, allocated=allocated, reserved=reserved)
        for n, (size, allocated, reserved) in enumerate(
            [(64, 64, 512), (-64, 0, 512), (8, odd, 512), (8, 72, -1), (-odd, no, no)]
        )
    ]
    with opened(Kernel(0, 10), *events) as profile:
        assert found_in(profile.timeline)["sizes-impossible"] == (3, 5, "memory_event 3")
        (row,) = profile.report("memory").rows()
        assert (row["peak_bytes"], row["peak_reserved_bytes"]) == (64, 512)


def test_what_is_sound_is_seen_by_blocks() -> None:
    """Kernels follow each other to 1 ms, up to a second before their calls, and each call has one.

    Of a session of 100 s times are compared to 24 ns.
    """
    pair = launched((10 * MS, 20 * MS), (19 * MS + 24, 30 * MS))
    assert seems_sound(*pair)
    calls = [Call(at * MS, at * MS + 5, at) for at in (1, 2)]
    at_once = (Kernel(9 * MS, 9 * MS, 1), Kernel(9 * MS, 10 * MS, 2))  # one without a length
    assert seems_sound(*calls, *at_once)
    assert seems_sound(*pair, Call(3 * S, 3 * S + 5, 3), Kernel(2 * S + 5 * MS, 2 * S + 6 * MS, 3))
    assert seems_sound(*launched((10 * MS, 20 * MS), (11 * MS, 21 * MS), stream=8)[2:], *pair[:2])
    waits = Call(50 * MS, 60 * MS, 9, name="cudaStreamSynchronize")
    assert seems_sound(*pair, waits)
    assert seems_sound(*launched(*((n * MS, n * MS + 900_000) for n in range(1, 500))))


@pytest.mark.parametrize(
    "rows",
    [
        [*launched((10 * MS, 20 * MS)), Kernel(19 * MS - 1, 30 * MS)],
        [*launched((10 * MS, 20 * MS)), Kernel(10 * MS, 10 * MS + 5)],
        [*launched((10 * MS, 20 * MS)), Memcpy(12 * MS, 12 * MS + 5)],
        [Call(3 * S + 1, 3 * S + 5, 9), Kernel(2 * S, 2 * S + 1, 9), Call(5, 6, 4, name="cudaFree")],
        [*launched((10 * MS, 20 * MS)), Call(5, 9, 1)],
        [*launched((10 * MS, 20 * MS)), Call(5, 9, 2)],
        [*launched((10 * MS, 20 * MS)), Call(5, 9, 65_560)],
        [*launched((10 * MS, 20 * MS)), Kernel(5, 9)],
        [*launched((10 * MS, 20 * MS)), Kernel(110 * S, 111 * S, stream=8)],
        [*launched((10 * MS, 20 * MS)), Call(5, 9, 3, name="cudaGraphLaunch")],
        [*launched((10 * MS, 20 * MS)), Migration(20 * MS, 21 * MS, bytes=-1)],
        [*launched((10 * MS, 20 * MS)), Call(5, 9, 3), Memcpy(20 * MS, 21 * MS, 3, bytes=1 << 60)],
        [*launched((10 * MS, 20 * MS)), Call(5, 9, 1 << 40), Kernel(20, 30, 1 << 40, stream=8)],
    ],
    ids=["overrun", "one start", "of two tables", "early", "one id twice", "lost", "lost, high id",
         "left", "outside", "graph", "a size", "another size", "far id"],
)  # fmt: skip
def test_what_only_an_examination_can_tell_is_not_called_sound(rows: list[Any]) -> None:
    assert not seems_sound(*rows)


def test_blocks_are_parts_of_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the numbers of one block fit in 32 bits and those of the next do not."""
    monkeypatch.setattr("nsysconv.store.read.ROWS_OF_BLOCK", 2)
    with opened(*launched((10, 20), (30, 40), (5 * S, 6 * S), (7 * S, 7 * S + 1))) as profile:
        stored: Profile = profile.timeline.profile
        names = ["start_ns", "dur_ns", "pid", "correlation_id"]
        whole, blocks = stored.columns("kernel", names), list(stored.blocks("kernel", names))
        assert [len(block["pid"]) for block in blocks] == [2, 2]
        assert all(values.dtype == "int64" for block in blocks for values in block.values())
        for name in names:
            assert [*whole[name]] == [value for block in blocks for value in block[name]]


# -- in a store


FILES = {
    "b01n.sqlite": "overrunning-ops", "b04.json": "events-outside", "b112.sqlite": "events-outside",
    "b76_other.json": "launches-without-work",
}  # fmt: skip


@pytest.mark.parametrize("name", few(FILES, 2))
@real
def test_a_public_report_is_answered_alike_in_place_and_stored(name: str, tmp_path: Path) -> None:
    path, store = REAL / "bug_reports" / name, tmp_path / "job.db"
    result = api.import_files([path], store)
    (imported,) = result.files[0].imported
    assert FILES[name] in {note.slug for note in imported.notes}
    answers = []
    for target in (path, store):
        with api.open(target) as profile:
            answers.append((
                found_in(profile.timeline),
                [r.rows() for r in profile.reports(["overview", "kernels", "idle_summary", "summary"])
                 if r.table],
            ))  # fmt: skip
    assert answers[0] == answers[1]
    assert FILES[name] in answers[0][0]
    again = api.import_files([store], tmp_path / "copy.db")
    with api.open(tmp_path / "copy.db") as profile:
        assert profile.profile.attributes["examined"]
        assert found_in(profile.timeline) == answers[0][0]
        assert [note.slug for note in again.files[0].imported[0].notes].count(FILES[name]) == 1
    assert not api.check(store).rows()


def test_strict_refuses_what_is_not_believed(tmp_path: Path) -> None:
    path = SOURCES["kineto"](training(dropped), tmp_path)
    result = api.import_files([path], tmp_path / "job.db", strict=True)
    assert len(result.errors) == 1
    assert "launches-without-work" in result.errors[0].hint
    assert not (tmp_path / "job.db").exists()
    assert not api.import_files([path], tmp_path / "job.db").errors


@pytest.mark.parametrize("source", few(["nsys", "kineto", "nvprof database", "rocpd"], 2))
def test_strict_refuses_a_run_whose_gpu_work_was_all_lost(source: str, tmp_path: Path) -> None:
    run = training(lambda events: replace(events, kernels=(), memcpys=()))
    if source == "rocpd":
        path = tmp_path / "run.db"
        write_rocpd(run, path)
    else:
        path = SOURCES[source](run, tmp_path)
    result = api.import_files([path], tmp_path / "job.db", strict=True)
    assert "gpu-activity-missing" in result.errors[0].hint


# -- faults in random runs


def _of(events: Events, kind: str, chosen: random.Random) -> int:
    return chosen.randrange(len(getattr(events, kind)))


def _with(events: Events, kind: str, place: int, **changes: int) -> Events:
    rows = list(getattr(events, kind))
    rows[place] = replace(rows[place], **changes)
    return replace(events, **{kind: tuple(rows)})


def healthy(chosen: random.Random) -> Callable[[Events], Events]:
    """Kernels of random lengths, none longer than it is until the next begins."""

    def change(events: Events) -> Events:
        kernels = [
            replace(k, end_ns=k.start_ns + max(1, int((k.end_ns - k.start_ns) * chosen.random())))
            for k in events.kernels
        ]
        return replace(events, kernels=tuple(kernels))

    return change


def dropped(events: Events) -> Events:
    """Every seventh kernel is missing."""
    return replace(events, kernels=tuple(k for i, k in enumerate(events.kernels) if i % 7))


def stalled(events: Events, chosen: random.Random) -> Events:
    place = chosen.randrange(1, len(events.kernels) - 1)
    late = events.kernels[place + 1].start_ns + chosen.choice((2, 50, 3_000, 100_000)) * MS
    return _with(events, "kernels", place, end_ns=late)


def lost(events: Events, chosen: random.Random) -> Events:
    gone = set(chosen.sample(range(len(events.kernels)), chosen.randrange(1, 100)))
    return replace(events, kernels=tuple(k for i, k in enumerate(events.kernels) if i not in gone))


def early(events: Events, chosen: random.Random) -> Events:
    place, by = _of(events, "kernels", chosen), chosen.choice((2, 90, 3_600, 68_400)) * S
    start = events.kernels[place].start_ns - by
    return _with(events, "kernels", place, start_ns=start, end_ns=start + 5_000)


def far(events: Events, chosen: random.Random) -> Events:
    kind = chosen.choice(("kernels", "ranges", "calls", "memcpys"))
    start = chosen.choice((1_100, 3_600, 68_400)) * S
    return _with(events, kind, _of(events, kind, chosen), start_ns=start, end_ns=start + 5_000)


def doubled(events: Events, chosen: random.Random) -> Events:
    """Some kernels, or all, are recorded again, at once or behind all others."""
    count = chosen.choice((1, 40, len(events.kernels)))
    again = sorted(chosen.sample(range(len(events.kernels)), count))
    more = [events.kernels[i] for i in again]
    kernels = [*events.kernels, *more]
    if chosen.random() < 0.5:
        kernels.sort(key=lambda kernel: kernel.start_ns)
    return replace(events, kernels=tuple(kernels))


WITH_CALLS = {"nsys", "kineto", "nvprof database", "nvprof log"}
ONE_CLOCK = WITH_CALLS - {"nvprof log"}  # whose times begin with its first event, in rounded units
FAULTS: dict[str, tuple[Callable[[Events, random.Random], Events], set[str], set[str]]] = {
    "stalled": (stalled, {"overrunning-ops", "events-outside"}, WITH_CALLS),
    "lost": (lost, {"launches-without-work"}, WITH_CALLS),
    "early": (early, {"ops-before-launch", "events-outside"}, ONE_CLOCK),
    "far": (far, {"events-outside"}, ONE_CLOCK),
    "doubled": (doubled, {"repeated-ops"}, WITH_CALLS),
}  # fmt: skip
CASES = [
    (fault, source, seed)
    for fault, (_, _, sources) in FAULTS.items()
    for source in sorted(sources)
    for seed in range(40)
]


@pytest.mark.parametrize(("fault", "source", "seed"), few(CASES, 8))
def test_a_planted_fault_is_found(
    fault: str, source: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = random.Random(f"{fault} {source} {seed}")
    plant, slugs, _ = FAULTS[fault]
    change = healthy(chosen)
    path = SOURCES[source](training(lambda events: plant(change(events), chosen)), tmp_path)
    # The import of a large file looks at blocks of rows first.
    with monkeypatch.context() as patched:
        patched.setattr("nsysconv.timeline.plausibility.MANY_ROWS", 1)
        api.import_files([path], tmp_path / "job.db")
    seen = []
    for target in (path, tmp_path / "job.db"):
        with api.open(target) as profile:
            seen.append(found_in(profile.timeline))
    assert slugs & seen[0].keys()
    assert seen[1] == seen[0]


@pytest.mark.parametrize(("source", "seed"), few([(s, n) for s in SOURCES for n in range(25)], 2))
def test_a_healthy_run_is_believed(source: str, seed: int, tmp_path: Path) -> None:
    path = SOURCES[source](training(healthy(random.Random(seed))), tmp_path)
    with api.open(path) as profile:
        assert found_in(profile.timeline) == {}


def test_a_profile_whose_calls_are_all_left_out(tmp_path: Path) -> None:
    """Their table has an extent, and no row that can be read."""
    path = SOURCES["nvprof database"](training(), tmp_path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute('UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET "end" = "end" + 0.5')
    with api.open(path) as profile:
        assert "launches-without-work" not in found_in(profile.timeline)
        assert profile.report("kernels").rows()
