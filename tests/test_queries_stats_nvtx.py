"""The NVTX tables of `nsys stats`: hand-computed cases, as CSV to the byte, and slow versions."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, real
from hypothesis import given
from hypothesis import strategies as st
from small_store import (
    Call,
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Operator,
    Range,
    Total,
    answers,
    cell,
    cells,
    hand_computed,
    opened,
    printed,
)
from test_render import rendered

from nsysconv import api
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact

OTHER = 12  # another thread
TIMES = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
TRACE = (
    "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,"
    "RangeId,ParentId,RangeStack,NameTree"
)
PROJECTED = (
    "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),Style,"
    "PID,TID,NumGPUOps,Lvl,NumChild,RangeId,ParentId,RangeStack"
)
PROJECTED_SUM = (
    "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),"
    "Proj Med (ns),Proj Min (ns),Proj Max (ns),Proj StdDev (ns),Total GPU Ops,Avg GPU Ops,"
    "Avg Range Lvl,Avg Num Child"
)
KERNELS = (
    "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),"
    "Max (ns),StdDev (ns),Kernel Name"
)


# -- sums by name


def test_ranges_by_name() -> None:
    # a: 10, 20 and 60, 90 in total; their mean is 30, the median 20, and the deviation
    # sqrt((20² + 10² + 30²) / 2) = sqrt(700) = 26.457…; b: 10 alone. 90 and 10 of 100.
    rows = [Range(0, 10, "a"), Range(20, 40, "a"), Range(100, 160, "a"), Range(30, 40, "b")]
    assert printed("nvtx_sum", *rows) == [
        f"{TIMES},Style,Range",
        "90.0,90,3,30.0,20.0,10,60,26.5,PushPop,:a",
        "10.0,10,1,10.0,10.0,10,10,0.0,PushPop,:b",
    ]


def test_styles_are_separate_rows() -> None:
    rows = [Range(0, 10, "a"), Range(0, 30, "a", "start_end"), Range(5, 5, "a", "mark")]
    assert printed("nvtx_sum", *rows)[1:] == [
        "75.0,30,1,30.0,30.0,30,30,0.0,StartEnd,:a",
        "25.0,10,1,10.0,10.0,10,10,0.0,PushPop,:a",
    ]
    header = f"{TIMES},Range"
    assert printed("nvtx_pushpop_sum", *rows) == [header, "100.0,10,1,10.0,10.0,10,10,0.0,:a"]
    assert printed("nvtx_startend_sum", *rows) == [header, "100.0,30,1,30.0,30.0,30,30,0.0,:a"]


@pytest.mark.parametrize(
    ("last", "end"),
    [(Range(40, 70, "b"), 70), (Range(80, 80, "m", "mark"), 80), (Range(90, None, "c"), 90)],
    ids=["end", "mark", "start"],
)
def test_an_unclosed_range_ends_at_the_last_time_of_all_ranges(last: Range, end: int) -> None:
    # The recording goes on to 1000, and GPU work to 500.
    rows = [Range(10, None, "open"), last, Kernel(100, 500)]
    found = {r["name"]: r["range_sum_ns"] for r in answers("nvtx_sum", *rows, recording_ns=1000)}
    assert found[":open [never closed]"] == end - 10


@pytest.mark.parametrize(("report", "kind"), [
    ("nvtx_sum", "push_pop"), ("nvtx_sum", "start_end"), ("nvtx_pushpop_sum", "push_pop"),
    ("nvtx_startend_sum", "start_end"), ("ranges", "start_end"), ("ranges", "push_pop"),
])  # fmt: skip
def test_ranges_that_were_never_closed_are_a_row_of_their_own(report: str, kind: str) -> None:
    """Two of 10 and 20, and one open from 100 to the end of the recording, at 500."""
    rows = [Range(10, 20, "a", kind), Range(40, 60, "a", kind), Range(100, None, "a", kind),
            Range(490, 500, "b", kind, tid=12)]  # fmt: skip
    names = "path" if report == "ranges" else "name"
    found = {row[names].removeprefix(":"): (row["range_count"], row["range_sum_ns"], row["med_ns"])
             for row in answers(report, *rows, recording_ns=500)}  # fmt: skip
    assert found == {"a": (2, 30, 15), "a [never closed]": (1, 400, 400), "b": (1, 10, 10)}


@real
def test_of_a_real_export_closed_ranges_are_apart() -> None:
    with api.open(REAL / "bug_reports/b72.sqlite") as profile:
        report = profile.report("nvtx_sum")
    closed = {row["name"]: (row["range_count"], row["range_sum_ns"]) for row in report.rows()}["dom:GIN"]
    assert closed == (2, 20_000)
    assert "range-unclosed" in {note.slug for note in report.notes}


def test_operators_are_no_ranges() -> None:
    assert printed("nvtx_sum", Operator(0, 10, "aten::mm")) == [f"{TIMES},Style,Range"]


def test_totals_of_ranges_answer_where_there_are_no_ranges() -> None:
    rows = [Total("range", 2, 30, 10, 20, "a", domain=0), Total("range", 1, 10, 10, 10, "a", domain=1),
            Total("kernel", 1, 99, 99, 99, "k")]  # fmt: skip
    holds = {Fact.RANGE_TOTALS, Fact.KERNEL_TOTALS}
    lines = printed("nvtx_sum", *rows, holds=holds, domains={(1, 1): "X"})
    assert lines[1:] == ["75.0,30,2,15.0,,10,20,,,:a", "25.0,10,1,10.0,,10,10,,,X:a"]
    with pytest.raises(NotRecorded):
        answers("nvtx_pushpop_sum", *rows, holds=holds)


def test_totals_of_one_name_and_two_styles_are_two_rows() -> None:
    rows = [Total("range", 2, 30, 10, 20, "a", domain=0, style="push_pop"),
            Total("range", 1, 10, 10, 10, "a", domain=0, style="start_end")]  # fmt: skip
    assert printed("nvtx_sum", *rows, holds={Fact.RANGE_TOTALS})[1:] == [
        "75.0,30,2,15.0,,10,20,,PushPop,:a", "25.0,10,1,10.0,,10,10,,StartEnd,:a"]  # fmt: skip


@pytest.mark.parametrize("format_name", ["csv", "tsv", "json", "column"])
def test_a_table_read_back_prints_the_same(format_name: str, tmp_path: Path) -> None:
    """Of both styles, in a named domain and in the default one; a text may look like a domain's."""
    rows = [Range(0, 10, "a"), Range(20, 41, "a"), Range(100, 160, "a", "start_end"),
            Range(5, 8, "b", domain=1), Range(6, 8, "c:d"), Range(7, 8, ":e")]  # fmt: skip
    with opened(*rows, domains={(1, 1): "X"}) as profile:
        first = rendered(format_name, profile.report("nvtx_sum"))
    path = tmp_path / "table"
    path.write_text(first, encoding="utf-8")
    with api.open(path) as profile:
        assert rendered(format_name, profile.report("nvtx_sum")) == first
    assert all(name in first for name in (":a", "X:b", ":c:d", "::e", "PushPop", "StartEnd"))


test_sums_by_name = hand_computed(
    ("names say the domain", "nvtx_sum name range_sum_ns",
     (Range(0, 10, "a"), Range(0, 20, "a", domain=1), Range(0, 30, "a", domain=2)),
     [("cuBLAS:a", 30), ("NCCL:a", 20), (":a", 10)], {"domains": {(1, 1): "NCCL", (1, 2): "cuBLAS"}}),
    ("two domains of one name are one", "nvtx_sum name range_sum_ns range_count",
     (Range(0, 10, "a", domain=1), Range(0, 20, "a", domain=2), Range(0, 4, "a", domain=1, pid=2)),
     [("X:a", 34, 3)], {"domains": {(1, 1): "X", (1, 2): "X", (2, 1): "X"}}),
    ("a domain is its process's own", "nvtx_sum name",
     (Range(0, 10, "a", domain=1), Range(0, 20, "a", domain=1, pid=2)), ["Y:a", "X:a"],
     {"domains": {(1, 1): "X", (2, 1): "Y"}}),
    ("equal sums are in the order of their names", "nvtx_pushpop_sum name",
     (Range(0, 10, "b"), Range(20, 30, "c"), Range(40, 50, "a")), [":a", ":b", ":c"]),
    ("totals without domain keep their name", "nvtx_sum name",
     (Total("range", 2, 30, 10, 20, "NCCL:a"),), ["NCCL:a"], {"holds": {Fact.RANGE_TOTALS}}),
    ("a slice takes whole ranges that are partly in it", "nvtx_sum range_count range_sum_ns",
     (Range(0, 10, "a"), Range(20, 40, "a"), Range(50, 60, "a")), [(1, 20)], {"time": (35, 50)}),
    ("a slice by name looks at the text", "nvtx_sum name", (Range(0, 10, "a"), Range(20, 40, "ba")),
     [":a"], {"part": api.Slice(name="^a")}),
)  # fmt: skip


# -- push/pop ranges one by one


def test_push_pop_trace() -> None:
    # a [0, 100) holds b [10, 60) and c [70, 90); b holds d [20, 30) and d [30, 50), c nothing.
    # Of a's 100 its children take 50 + 20; of b's 50 they take 10 + 20.
    rows = [Range(0, 100, "a"), Range(10, 60, "b"), Range(20, 30, "d"), Range(30, 50, "d"),
            Range(70, 90, "c", domain=1), Range(5, 95, "s", "start_end"),
            Range(40, 45, "a", tid=OTHER), Range(40, 45, "a", pid=2)]  # fmt: skip
    assert printed("nvtx_pushpop_trace", *rows, domains={(1, 1): "X"}) == [
        TRACE,
        "0,100,100,70,30,:a,1,11,0,2,1,,:1,:a",
        "10,60,50,30,20,:b,1,11,1,2,2,1,:1:2,--:b",
        "20,30,10,0,10,:d,1,11,2,0,3,2,:1:2:3,----:d",
        "30,50,20,0,20,:d,1,11,2,0,4,2,:1:2:4,----:d",
        "40,45,5,0,5,:a,1,12,0,0,7,,:7,:a",
        "40,45,5,0,5,:a,2,11,0,0,8,,:8,:a",
        "70,90,20,0,20,X:c,1,11,1,0,5,1,:1:5,--X:c",
    ]


def test_of_ranges_that_start_together_the_shortest_is_first() -> None:
    rows = [Range(0, 100, "outer"), Range(0, 50, "inner")]
    assert cells("nvtx_pushpop_trace name level", *rows) == [(":inner", 1), (":outer", 0)]


def test_a_range_that_crosses_another_is_not_inside_it() -> None:
    # b [50, 150) begins in a [0, 100) and ends behind it. c [110, 120) lies in b alone, d [60, 70) in
    # both: b and a are equally long, and b begins later.
    rows = [Range(0, 100, "a"), Range(50, 150, "b", domain=1), Range(110, 120, "c"), Range(60, 70, "d")]
    found = {r["name"]: r for r in answers("nvtx_pushpop_trace", *rows)}
    assert {name: r["parent_id"] for name, r in found.items()} == {
        ":a": None, ":b": None, ":d": 2, ":c": 2}  # fmt: skip
    assert found[":b"]["child_sum_ns"] == 20
    assert found[":c"]["range_stack"] == ":2:3"


def test_a_slice_of_the_trace_keeps_its_parents() -> None:
    rows = [Range(0, 100, "a"), Range(10, 20, "b"), Range(60, 80, "b")]
    found = answers("nvtx_pushpop_trace", *rows, time=(70, 75))
    assert [(r["name"], r["child_count"], r["range_stack"]) for r in found] == [
        (":a", 2, ":1"), (":b", 0, ":1:3")]  # fmt: skip


# -- projections


def test_projection_trace() -> None:
    # a [0, 100) holds the calls of K1 [200, 230) and K2 [240, 300); b [10, 50) that of K1; e [60, 70)
    # none: it has no row, and a has one child. a is projected to [200, 300).
    rows = [Range(0, 100, "a"), Range(10, 50, "b"), Range(60, 70, "e"), Call(20, 30, 1),
            Call(80, 90, 2), Kernel(200, 230, 1), Kernel(240, 300, 2)]  # fmt: skip
    assert printed("nvtx_gpu_proj_trace", *rows) == [
        PROJECTED,
        ":a,200,100,0,100,PushPop,1,11,2,0,1,1,,:1",
        ":b,200,30,10,40,PushPop,1,11,1,1,0,2,1,:1:2",
    ]


def test_the_example_of_the_page() -> None:
    rows = [Range(0, 400, "step"), Range(100, 250, "load"), Call(200, 210, 1), Call(300, 310, 2),
            Kernel(350, 450, 1, name="K1"), Kernel(550, 700, 2, name="K2")]  # fmt: skip
    assert cells("nvtx_gpu_proj_sum name projected_sum_ns", *rows) == [(":step", 350), (":load", 100)]
    assert [(r["range"], r["name"]) for r in answers("nvtx_kern_sum", *rows)] == [
        (":load", "K1"), (":step", "K2"), (":step", "K1")]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "inside"),
    [
        ((10, 20), True),
        ((9, 20), False),
        ((10, 21), False),
        ((12, 15), True),
        ((20, 21), False),
        ((20, 20), True),
    ],
)
def test_a_call_has_to_lie_wholly_in_the_range(call: tuple[int, int], inside: bool) -> None:
    rows = [Range(10, 20, "a"), Call(*call, 1), Kernel(50, 60, 1)]
    assert bool(answers("nvtx_gpu_proj_trace", *rows)) is inside
    assert any(r["range"] == ":a" for r in answers("nvtx_kern_sum", *rows)) is inside


@pytest.mark.parametrize("kind", ["push_pop", "start_end"])
def test_ranges_are_projected_on_their_own_thread(kind: str) -> None:
    rows = [Range(0, 50, "a", kind), Range(0, 60, "b", kind, pid=2), Call(10, 20, 1, tid=OTHER),
            Call(10, 20, 1, pid=2), Kernel(100, 110, 1), Kernel(200, 220, 1, pid=2)]  # fmt: skip
    assert cell("nvtx_gpu_proj_trace name pid projected_start_ns", *rows) == (":b", 2, 200)
    assert [r["range"] for r in answers("nvtx_kern_sum", *rows)] == [None, ":b"]


def test_a_range_that_another_thread_closed_is_not_projected() -> None:
    rows = [Range(0, 50, "a", "start_end", end_tid=OTHER), Range(5, 40, "b"), Call(10, 20, 1),
            Kernel(100, 110, 1)]  # fmt: skip
    assert cell("nvtx_gpu_proj_trace name level parent_id", *rows) == (":b", 0, None)
    assert [r["range"] for r in answers("nvtx_kern_sum", *rows)] == [":b"]
    assert len(answers("nvtx_sum", *rows)) == 2


def test_projection_sum() -> None:
    # it: projected [100, 110) and [200, 230), 40 in total, 15 and 25 from the mean of 20 … the deviation
    # of 10 and 30 is sqrt((10² + 10²) / 1) = 14.142…; the ranges themselves took 40 + 50. The second
    # one holds x with a launch, and one that launched nothing.
    rows = [Range(0, 40, "it"), Range(50, 100, "it"), Range(60, 70, "x"), Range(80, 85, "y"),
            Call(10, 20, 1), Call(62, 64, 2), Call(90, 95, 3), Kernel(100, 110, 1),
            Kernel(200, 210, 2), Kernel(220, 230, 3)]  # fmt: skip
    assert printed("nvtx_gpu_proj_sum", *rows) == [
        PROJECTED_SUM,
        ":it,PushPop,40,90,2,20.0,20.0,10,30,14.1,3,1.5,0.0,0.5",
        ":x,PushPop,10,10,1,10.0,10.0,10,10,0.0,1,1.0,1.0,0.0",
    ]


test_projections = hand_computed(
    ("the longest of equal projected starts is first", "nvtx_gpu_proj_trace name",
     (Range(0, 10, "a"), Range(20, 30, "b"), Call(5, 6, 1), Call(25, 26, 2), Kernel(50, 60, 1),
      Kernel(50, 80, 2, stream=8)), [":b", ":a"]),
    ("a late call leaves those before it",
     "nvtx_gpu_proj_trace projected_start_ns projected_dur_ns launch_count",
     (Range(0, 50, "a"), Call(10, 20, 1), Call(45, 60, 2), Kernel(100, 110, 1), Kernel(200, 210, 2)),
     [(100, 10, 1)]),
    ("start/end ranges nest with the others", "nvtx_gpu_proj_trace style level child_count",
     (Range(0, 50, "a", "start_end"), Range(5, 40, "b"), Call(10, 20, 1), Kernel(60, 70, 1)),
     [("StartEnd", 0, 1), ("PushPop", 1, 0)]),
    # One call launched two kernels and a copy as nodes, another a graph as one interval.
    ("the launch of a graph is one operation", "nvtx_gpu_proj_trace launch_count projected_dur_ns",
     (Range(0, 50, "a"), Call(10, 12, 1), Call(20, 22, 2), Kernel(100, 110, 1), Kernel(120, 130, 1),
      Memcpy(140, 150, 1), Graph(160, 190, 2)), [(2, 90)]),
    ("the launch of a graph is one operation (2)", "nvtx_gpu_proj_sum launch_count launch_avg",
     (Range(0, 50, "a"), Call(10, 12, 1), Call(20, 22, 2), Kernel(100, 110, 1), Kernel(120, 130, 1),
      Memcpy(140, 150, 1), Graph(160, 190, 2)), [(2, 2.0)]),
    ("copies and memsets are projected and migrations are not",
     "nvtx_gpu_proj_trace projected_start_ns projected_dur_ns",
     (Range(0, 50, "a"), Call(10, 12, 1), Call(20, 22, 2), Memcpy(100, 110, 1), Memset(120, 130, 2),
      Migration(140, 300)), [(100, 30)]),
    ("an unclosed range is projected to the last time of all ranges",
     "nvtx_gpu_proj_trace name dur_ns launch_count",
     (Range(0, None, "open"), Range(30, 40, "b"), Call(35, 39, 1), Call(50, 55, 2),
      Kernel(100, 110, 1), Kernel(200, 210, 2)), [(":open", 40, 1), (":b", 10, 1)],
     {"recording_ns": 1000}),
    ("a slice projects its own operations", "nvtx_gpu_proj_trace projected_start_ns launch_count",
     (Range(0, 100, "a"), Call(20, 30, 1), Call(80, 90, 2), Kernel(40, 50, 1), Kernel(95, 99, 2)),
     [(95, 1)], {"time": (90, 100)}),
)  # fmt: skip


# -- kernels by range


def test_kernels_by_range() -> None:
    # a holds b: K1 counts in both, K2 in a alone, and K3 was launched outside. Nobody recorded the
    # launch of K4. a: add 10 and 30, their mean 20, the deviation 14.142…
    rows = [Range(0, 100, "a"), Range(10, 50, "b"), Call(20, 30, 1), Call(60, 70, 2), Call(110, 120, 3),
            Kernel(200, 210, 1, name="add"), Kernel(220, 250, 2, name="add"),
            Kernel(300, 305, 3, name="mul"), Kernel(400, 404, name="mul")]  # fmt: skip
    assert printed("nvtx_kern_sum", *rows) == [
        KERNELS,
        ",,,,0,1,4,4.0,4.0,4,4,0.0,mul",
        ",,1,11,0,1,5,5.0,5.0,5,5,0.0,mul",
        ":a,PushPop,1,11,1,2,40,20.0,20.0,10,30,14.1,add",
        ":b,PushPop,1,11,1,1,10,10.0,10.0,10,10,0.0,add",
    ]


def test_kernels_of_ranges_that_cross() -> None:
    # a [0, 100) and b [50, 150) overlap; c [110, 120) lies in b. The calls are in a and b, in b and c.
    rows = [Range(0, 100, "a", "start_end"), Range(50, 150, "b", "start_end"), Range(110, 120, "c"),
            Call(60, 70, 1), Call(112, 114, 2), Kernel(200, 210, 1), Kernel(220, 222, 2)]  # fmt: skip
    found = {r["range"]: r["kernel_sum_ns"] for r in answers("nvtx_kern_sum", *rows)}
    assert found == {":a": 10, ":b": 12, ":c": 2}


test_rows_of_kernels_by_range = hand_computed(
    ("kernels of one range most time first", "nvtx_kern_sum name",
     (Range(0, 100, "a"), Call(10, 11, 1), Call(20, 21, 2), Kernel(200, 210, 1, name="a"),
      Kernel(220, 250, 2, name="b")), ["b", "a"]),
    ("a range inside another of its name counts their kernel once and its time twice",
     "nvtx_kern_sum range_count kernel_count kernel_sum_ns avg_ns",
     (Range(0, 100, "a"), Range(10, 50, "a"), Call(20, 30, 1), Kernel(200, 210, 1)),
     [(2, 1, 20, 10.0)]),
    ("threads and processes have rows of their own", "nvtx_kern_sum pid tid kernel_sum_ns",
     (Range(0, 9, "a"), Range(0, 9, "a", tid=OTHER), Range(0, 9, "a", pid=2), Call(1, 2, 1),
      Call(1, 2, 2, tid=OTHER), Call(1, 2, 1, pid=2), Kernel(10, 11, 1), Kernel(12, 14, 2),
      Kernel(20, 23, 1, pid=2)), [(1, 11, 1), (1, 12, 2), (2, 11, 3)]),
    ("a slice of kernels knows the ranges before it",
     "nvtx_kern_sum range kernel_count kernel_sum_ns",
     (Range(0, 50, "a"), Call(1, 2, 1), Call(3, 4, 2), Kernel(100, 110, 1), Kernel(200, 230, 2)),
     [(":a", 1, 30)], {"time": (200, 300)}),
)  # fmt: skip


@pytest.mark.parametrize("option", ["base", "mangled"])
def test_kernels_by_other_names_fall_back_on_their_own(option: str) -> None:
    rows = [Range(0, 9, "a"), Call(1, 2, 1), Kernel(10, 11, 1, name="add(int)")]
    assert [r["name"] for r in answers(f"nvtx_kern_sum:{option}", *rows)] == ["add(int)"]


# -- against slow versions

_MOMENT = st.integers(0, 30)
_RANGES = st.lists(
    st.builds(
        lambda start, length, text, kind, tid, closed: Range(
            start, start + length if closed else None, text, kind, tid
        ),
        _MOMENT,
        st.integers(1, 20),
        st.sampled_from("ab"),
        st.sampled_from(["push_pop", "start_end"]),
        st.sampled_from([11, OTHER]),
        st.sampled_from([True, True, True, False]),
    ),
    max_size=8,
)
# Calls of one thread follow each other.
_CALLS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), max_size=6)


def _calls(found: Sequence[tuple[int, int]], tid: int, first: int) -> list[Call]:
    calls, now = [], 0
    for i, (gap, length) in enumerate(found):
        calls.append(Call(now + gap, now + gap + length, first + i, tid=tid))
        now += gap + length
    return calls


def _closed(ranges: Sequence[Range]) -> list[Range]:
    last = max((r.start if r.end is None else r.end for r in ranges), default=0)
    return [r._replace(end=last) if r.end is None else r for r in ranges]


def _around(call: Call, ranges: Sequence[Range]) -> list[int]:
    assert call.start is not None and call.end is not None
    return [i for i, r in enumerate(ranges)
            if r.tid == call.tid and r.start <= call.start and (r.end or 0) >= call.end]  # fmt: skip


@given(_RANGES, _CALLS, _CALLS)
def test_projections_as_the_slow_version(
    ranges: list[Range], mine: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    calls = _calls(mine, 11, 1) + _calls(other, OTHER, 100)
    kernels = [Kernel(50 + 7 * (c.correlation or 0) % 40, 95, c.correlation) for c in calls]
    closed = _closed(ranges)
    expected: dict[int, tuple[int, int, int]] = {}
    for call, kernel in zip(calls, kernels, strict=True):
        for i in _around(call, closed):
            low, high, count = expected.get(i + 1, (1 << 40, 0, 0))
            assert kernel.start is not None and kernel.end is not None
            expected[i + 1] = min(low, kernel.start), max(high, kernel.end), count + 1
    found = answers("nvtx_gpu_proj_trace", *ranges, *calls, *kernels)
    assert {
        r["range_id"]: (
            r["projected_start_ns"],
            r["projected_start_ns"] + r["projected_dur_ns"],
            r["launch_count"],
        )
        for r in found
    } == expected


@given(_RANGES, _CALLS, _CALLS)
def test_kernels_by_range_as_the_slow_version(
    ranges: list[Range], mine: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    calls = _calls(mine, 11, 1) + _calls(other, OTHER, 100)
    kernels = [Kernel(100 * i, 100 * i + 3 * i % 7 + 1, c.correlation, name="kl"[i % 2])
               for i, c in enumerate(calls)]  # fmt: skip
    closed = _closed(ranges)
    members: dict[tuple[Any, ...], list[tuple[int | None, int]]] = {}
    for place, (call, kernel) in enumerate(zip(calls, kernels, strict=True)):
        around: list[int | None] = [*_around(call, closed)] or [None]
        for i in around:
            name, kind = (None, None) if i is None else (f":{closed[i].text}", closed[i].kind)
            key = (name, kind and {"push_pop": "PushPop", "start_end": "StartEnd"}[kind], call.tid)
            members.setdefault((*key, kernel.name), []).append((i, place))

    def durations(pairs: list[tuple[int | None, int]]) -> list[int]:
        return [(kernels[p].end or 0) - (kernels[p].start or 0) for _, p in pairs]

    expected = {
        key: (
            len({i for i, _ in pairs if i is not None}),
            len({p for _, p in pairs}),
            sum(durations(pairs)),
            statistics.median(durations(pairs)),
        )
        for key, pairs in members.items()
    }
    found = answers("nvtx_kern_sum", *ranges, *calls, *kernels)
    assert {
        (r["range"], r["style"], r["tid"], r["name"]): (
            r["range_count"], r["kernel_count"], r["kernel_sum_ns"], r["med_ns"])
        for r in found
    } == expected  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12)), max_size=9))
def test_parents_as_the_slow_version(found: list[tuple[int, int]]) -> None:
    spans = [(start, start + length) for start, length in dict.fromkeys(found)]
    expected = {}
    for i, (start, end) in enumerate(spans):
        around = [(e - s, -s, j) for j, (s, e) in enumerate(spans) if j != i and s <= start and e >= end]
        expected[i + 1] = min(around)[2] + 1 if around else None
    rows = [Range(start, end, "a") for start, end in spans]
    answered = {r["range_id"]: r for r in answers("nvtx_pushpop_trace", *rows)}
    assert {i: r["parent_id"] for i, r in answered.items()} == expected
    for i, row in answered.items():
        inside = [j for j, parent in expected.items() if parent == i]
        assert row["child_count"] == len(inside)
        assert row["child_sum_ns"] == sum(spans[j - 1][1] - spans[j - 1][0] for j in inside)
        assert row["level"] == row["range_stack"].count(":") - 1
