"""The tree of ranges: nesting, self times, and what was launched in each, by hand."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, REAL, examples, few, name_of, real
from hypothesis import given
from hypothesis import strategies as st
from slow_versions import innermost, instants
from small_store import Call, Kernel, Memcpy, Operator, Range, answers, asked, cell, cells, opened

import nsysconv
from nsysconv import Slice
from nsysconv.export import lanes
from nsysconv.facts import Fact
from nsysconv.timeline.nesting import MAX_INDENT, MAX_PATH_LENGTH, path_texts

RECORDED = Path(__file__).parent / "recorded"

# docs/definitions/ranges-and-operators.md, Projection: A1 at 150 and A2 at 380 start in forward
# [100, 400), A3 not.
EXAMPLE = (
    Range(100, 400, "forward"),
    Call(150, 170, 1), Call(380, 430, 2), Call(440, 450, 3),
    Kernel(300, 500, 1), Kernel(600, 900, 2), Kernel(900, 960, 3),
)  # fmt: skip

# docs/definitions/ranges-and-operators.md, Nesting of ranges; a kernel of 10 ns launched in each of
# the four.
NESTED = (
    Range(0, 400, "step"), Range(50, 200, "load"), Range(100, 150, "copy"), Range(250, 350, "compute"),
    Call(10, 11, 1), Call(60, 61, 2), Call(110, 111, 3), Call(260, 261, 4),
    Kernel(500, 510, 1), Kernel(520, 530, 2), Memcpy(540, 590, 3), Kernel(600, 610, 4),
)  # fmt: skip


def by_path(*rows: Any, report: str = "ranges", **options: Any) -> dict[str, dict[str, Any]]:
    found = answers(report, *rows, **options)
    return {row["path"]: row for row in found}


def picked(row: dict[str, Any], *names: str) -> list[Any]:
    return [row[name] for name in names]


def test_the_example_of_the_definitions() -> None:
    (row,) = answers("ranges", *EXAMPLE)
    assert picked(row, "range_count", "range_sum_ns", "launch_count", "gpu_op_count") == [1, 300, 2, 2]
    assert picked(row, "projected_count", "projected_sum_ns", "gpu_union_sum_ns") == [1, 600, 500]
    assert picked(row, "kernel_count", "kernel_sum_ns", "self_kernel_sum_ns") == [2, 500, 500]


def test_self_times_are_without_what_lies_directly_inside() -> None:
    found = by_path(*NESTED)
    assert list(found) == ["step", "step/load", "step/load/copy", "step/compute"]
    assert [row["tree"] for row in found.values()] == ["step", "  load", "    copy", "  compute"]
    assert [row["level"] for row in found.values()] == [0, 1, 2, 1]
    assert [row["range_sum_ns"] for row in found.values()] == [400, 150, 50, 100]
    assert [row["self_sum_ns"] for row in found.values()] == [150, 100, 50, 100]
    # The kernels of step: its own, that of load and that of compute; the copy is no kernel.
    assert [row["kernel_sum_ns"] for row in found.values()] == [30, 10, 0, 10]
    assert [row["self_kernel_sum_ns"] for row in found.values()] == [10, 10, 0, 10]
    assert [row["gpu_op_count"] for row in found.values()] == [4, 2, 1, 1]
    # From 500 to 610, of which 10 + 10 + 50 + 10 ran.
    assert picked(found["step"], "projected_sum_ns", "gpu_union_sum_ns") == [110, 80]


def test_ranges_of_one_path_are_added_up() -> None:
    rows = (Range(0, 10, "a"), Range(100, 130, "a"), Range(200, 220, "a"),
            Call(105, 106, 1), Kernel(110, 120, 1))  # fmt: skip
    (row,) = answers("ranges", *rows)
    assert picked(row, "range_count", "range_sum_ns", "avg_ns", "med_ns") == [3, 60, 20, 20]
    assert picked(row, "min_ns", "max_ns", "projected_count") == [10, 30, 1]


def test_siblings_come_longest_first() -> None:
    rows = (Range(0, 100, "out"), Range(10, 20, "short"), Range(30, 90, "long"))
    assert list(by_path(*rows)) == ["out", "out/long", "out/short"]


def test_depth_shows_no_deeper_levels() -> None:
    found = by_path(*NESTED, report="ranges:depth=2")
    assert list(found) == ["step", "step/load", "step/compute"]
    assert found["step/load"]["self_sum_ns"] == 100  # what is not shown is still inside


def test_operators_join_the_tree_on_request() -> None:
    rows = (Range(0, 100, "step"), Operator(10, 90, "aten::mm"), Call(20, 21, 1), Kernel(50, 60, 1))
    assert list(by_path(*rows)) == ["step"]
    found = by_path(*rows, report="ranges:operators")
    assert list(found) == ["step", "step/aten::mm"]
    assert picked(found["step"], "self_sum_ns", "self_kernel_sum_ns") == [20, 0]
    assert found["step/aten::mm"]["kernel_sum_ns"] == 10


def test_launches_of_other_threads_count_for_start_end_ranges_and_with_any_thread_for_all() -> None:
    rows = (Range(0, 100, "pushed"), Range(0, 100, "started", "start_end", tid=12),
            Call(20, 21, 1, tid=13), Kernel(50, 60, 1))  # fmt: skip
    found = by_path(*rows)
    assert (found["pushed"]["kernel_count"], found["started"]["kernel_count"]) == (0, 1)
    found = by_path(*rows, report="ranges:any-thread")
    assert (found["pushed"]["kernel_count"], found["started"]["kernel_count"]) == (1, 1)


# docs/definitions/ranges-and-operators.md, Projection: threads 11 and 12 are its 1 and 2.
OTHERS = (
    Range(0, 400, "step"), Range(120, 320, "backward"), Range(220, 300, "hook", tid=12),
    Call(50, 51, 1), Kernel(500, 550, 1), Call(250, 251, 4, tid=12), Kernel(600, 607, 4),
    Call(160, 161, 2, tid=12), Kernel(550, 580, 2), Call(340, 341, 3, tid=12), Kernel(580, 600, 3),
)  # fmt: skip
OWN_AND_OTHERS = ("launch_count", "kernel_sum_ns",
                  "other_thread_launch_count", "other_thread_kernel_sum_ns")  # fmt: skip


def test_what_other_threads_launch_is_beside_a_range() -> None:
    found = by_path(*OTHERS)
    assert {path: picked(row, *OWN_AND_OTHERS) for path, row in found.items()} == {
        "step": [1, 50, 3, 57], "step/backward": [0, 0, 2, 37], "hook": [1, 7, 0, 0]}  # fmt: skip
    found = by_path(*OTHERS, report="ranges:any-thread")
    assert {path: picked(row, *OWN_AND_OTHERS) for path, row in found.items()} == {
        "step": [4, 107, None, None], "step/backward": [2, 37, None, None],
        "hook": [1, 7, None, None]}  # fmt: skip


def test_where_all_threads_launch_in_ranges_of_their_own_nothing_is_said() -> None:
    report = asked("ranges", *OTHERS[:7], Call(450, 451, 2, tid=12), Kernel(500, 510, 2))
    assert {row["path"]: picked(row, *OWN_AND_OTHERS) for row in report.rows()} == {
        "step": [1, 50, None, None], "step/backward": [0, 0, None, None],
        "hook": [1, 7, None, None]}  # fmt: skip
    assert report.texts == ()


def test_prose_name_the_path_with_most_of_it() -> None:
    # Of two with as much the first, and the inner one before the outer one.
    rows = (Range(10, 410, "copy", tid=13), Call(20, 21, 5, tid=13), Kernel(700, 750, 5))
    with opened(*OTHERS, *rows) as profile:
        (said,) = profile.report("ranges").texts
        assert said.lines == (
            "step: while it was open, other threads, not all in ranges of their own, launched GPU "
            "operations with 4 calls (kernels: 107 ns). The columns other_thread_… show them; with "
            "ranges:any-thread they belong to the range.",)  # fmt: skip
        assert profile.report("ranges:any-thread").texts == ()
    rows = (Range(0, 100, "outer"), Range(10, 90, "inner"), Call(20, 21, 1, tid=12), Kernel(50, 60, 1))
    (said,) = asked("ranges", *rows).texts
    assert said.lines[0].startswith("outer/inner: ")


@pytest.mark.parametrize("other", [
    Call(20, 21, 1, tid=None),  # of no known thread
    Call(20, 21, 1, tid=11, pid=2),
    Call(100, 101, 1, tid=12),  # behind the range
    Call(20, 21, 2, tid=12),  # launched nothing
])  # fmt: skip
def test_what_is_no_launch_of_another_thread_meanwhile(other: Call) -> None:
    (row,) = answers("ranges", Range(0, 100, "a"), other, Kernel(50, 60, 1, pid=other.pid))
    assert picked(row, *OWN_AND_OTHERS[2:]) == [None, None]


def test_ranges_of_operators_are_no_ranges_of_a_thread_and_operators_have_no_other_threads() -> None:
    rows = (Range(0, 100, "step"), Range(10, 90, "aten::mm, seq = 1"), Operator(5, 95, "aten::add"),
            Range(20, 30, "aten::t, seq = 2", tid=12), Call(22, 23, 1, tid=12), Kernel(50, 60, 1),
            Range(0, 100, "started", "start_end", tid=13))  # fmt: skip
    for spec in ("ranges", "ranges:operators"):
        found = {row["tree"].strip(): row["other_thread_launch_count"] for row in answers(spec, *rows)}
        assert found.pop("step") == 1
        assert set(found.values()) == {0}


def test_other_threads_of_a_slice_are_those_of_its_operations() -> None:
    found = by_path(*OTHERS, part=Slice((0, 560)))
    assert picked(found["step"], *OWN_AND_OTHERS) == [1, 50, 1, 30]


@real
def test_the_backward_pass_of_another_thread() -> None:
    (report,) = nsysconv.report_on(REAL / "bug_reports" / "b71.sqlite", "ranges")
    found = {row["path"]: picked(row, *OWN_AND_OTHERS) for row in report.rows()}
    assert found == {"train_step": [2, 5_000_000, 2, 7_000_000],
                     "train_step/backward": [0, 0, 2, 7_000_000]}  # fmt: skip
    (line,) = report.texts[0].lines
    assert line.startswith("train_step/backward: ")
    assert "with 2 calls (kernels: 7.00 ms)" in line


TWINS = [
    (["nsys/operators-3.0.0.sqlite", "nsys/operators-3.28.1.sqlite",
      "kineto/operators-2.5.json.gz", "kineto/operators-2.13.json"], "iteration 1", (5, 3)),
    (["kineto/training-2.5.json.gz", "kineto/training-2.13.json"],
     "ProfilerStep*", (4, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("paths", "step", "launches"), TWINS, ids=["operators", "training"])
def test_twins_of_one_workload_agree(paths: list[str], step: str, launches: tuple[int, int]) -> None:
    for path in paths:
        (report,) = nsysconv.report_on(FIXTURES / path, "ranges")
        row = next(row for row in report.rows() if row["path"] == step)
        assert (row["launch_count"], row["other_thread_launch_count"]) == launches


@pytest.mark.parametrize("path", few([
    FIXTURES / "nsys" / "operators-3.28.1.sqlite", FIXTURES / "kineto" / "operators-2.13.json",
    FIXTURES / "kineto" / "training-2.13.json", RECORDED / "training_plain.json.gz",
    RECORDED / "training_all.json.gz", RECORDED / "compiled.json.gz",
    FIXTURES / "nsys" / "ranges-3.28.1.sqlite", RECORDED / "shards-rank0.json.gz",
    RECORDED / "two_ranks_gloo-rank0.json.gz",
], 5), ids=name_of)  # fmt: skip
def test_both_together_are_what_steps_have(path: Path) -> None:
    """To a step belongs what any thread of the process launched in it."""
    with nsysconv.open(path) as profile:
        own, of_any = ({row["path"]: row for row in profile.report(spec, range_names="exact").rows()}
                       for spec in ("ranges", "ranges:any-thread"))  # fmt: skip
        steps = profile.report("steps").rows()
    names = [row["step"] for row in steps if row["step"] in own] or ["iteration 1"]
    for name in names:
        launches, kernels, *others = picked(own[name], *OWN_AND_OTHERS)
        assert [launches + others[0], kernels + others[1]] == picked(
            of_any[name], "launch_count", "kernel_sum_ns")  # fmt: skip
        assert others[0] > 0
    if path.name in ("training-2.13.json", "training_all.json.gz", "ranges-3.28.1.sqlite"):
        # Kernels that do not overlap: their union is as long as their sum.
        for row in (row for row in steps if row["step"] in own):
            mine = own[row["step"]]
            assert row["kernel_ns"] + row["communication_ns"] == (
                mine["kernel_sum_ns"] + mine["other_thread_kernel_sum_ns"])  # fmt: skip


def test_start_end_ranges_have_no_parent() -> None:
    # From inside `pushed` to behind it: inside, it would leave it a negative time of its own.
    rows = (Range(0, 100, "pushed"), Range(10, 500, "started", "start_end"), Range(20, 30, "inner"))
    found = by_path(*rows)
    assert list(found) == ["started", "pushed", "pushed/inner"]
    assert found["pushed"]["self_sum_ns"] == 90


def test_threads_and_processes_with_one_path_are_one_row() -> None:
    rows = (Range(0, 10, "a", tid=12), Range(5, 25, "a", tid=13), Range(5, 25, "a", pid=2))
    assert cell("ranges range_count range_sum_ns rank", *rows, ranks={1: 0, 2: 1}) == (3, 50, None)


def test_a_slice_shows_the_ranges_in_it_in_their_whole_tree() -> None:
    found = by_path(*NESTED, part=Slice((110, 160)))
    assert list(found) == ["step", "step/load", "step/load/copy"]
    assert found["step"]["self_sum_ns"] == 150


def test_gpu_columns_are_null_without_links() -> None:
    (row,) = answers("ranges", Range(0, 10, "a"), without=[Fact.API_LINKS])
    assert picked(row, "range_sum_ns", "kernel_count", "projected_sum_ns") == [10, None, None]


def test_steps_of_a_word_with_a_number_are_one_row() -> None:
    """Grouped: `step 1` to `step 3` with the ranges inside; exact names stay apart."""
    rows = [Range(20 * i, 20 * i + 20, f"step {i}") for i in range(3)]
    rows += [Range(20 * i + 5, 20 * i + 10, "forward") for i in range(3)]
    rows.append(Kernel(0, 60))
    paths = cells("ranges path range_count range_sum_ns", *rows)
    assert paths == [("step *", 3, 60), ("step */forward", 3, 15)]
    assert len(cells("ranges path", *rows, range_names="exact")) == 6


# -- ranges that cross each other, as those of two domains of one thread may: each moment is one range's


# docs/definitions/ranges-and-operators.md, Nesting of ranges: of two domains, whose ranges end
# independently of each other. A kernel of 1 ns is launched in each, and one where outer is over and
# lib:io is not.
CROSSING = (
    Range(0, 100, "outer"), Range(50, 250, "io", domain=1), Range(150, 200, "next"),
    Call(10, 11, 1), Call(60, 61, 2), Call(160, 161, 3), Call(120, 121, 4),
    *(Kernel(300 + i, 301 + i, i) for i in range(1, 5)),
)  # fmt: skip
DOMAINS = {(1, 1): "lib"}


def by_path_alone(rows: list[dict[str, Any]], *names: str) -> dict[str, list[Any]]:
    return {row["path"]: [row[name] for name in names] for row in rows}


def test_the_example_of_ranges_that_cross() -> None:
    rows = answers("ranges", *CROSSING, domains=DOMAINS)
    assert by_path_alone(rows, "range_sum_ns", "self_sum_ns", "kernel_sum_ns", "self_kernel_sum_ns") == {
        "outer": [100, 50, 2, 1],
        "outer/lib:io": [200, 150, 3, 2],
        "outer/lib:io/next": [50, 50, 1, 1],
    }


def test_what_reaches_beyond_a_child_is_not_its_parents_own() -> None:
    # b [10, 20) and, in it, c [15, 50): outer [0, 100) is alone in [0, 10) and [50, 100).
    rows = (Range(0, 100, "outer"), Range(10, 20, "b", domain=1), Range(15, 50, "c", domain=2),
            Call(30, 31, 1), Kernel(200, 207, 1), Call(60, 61, 2), Kernel(210, 215, 2))  # fmt: skip
    found = {row["tree"].strip(): row for row in answers("ranges", *rows)}
    assert {name: row["self_sum_ns"] for name, row in found.items()} == {"outer": 60, "b": 5, "c": 35}
    assert {name: row["self_kernel_sum_ns"] for name, row in found.items()} == {
        "outer": 5, "b": 0, "c": 7}  # fmt: skip


@real
def test_ranges_of_a_library_that_cross_those_of_the_program() -> None:
    (report,) = nsysconv.report_on(REAL / "bug_reports" / "b35.sqlite", "ranges")
    assert by_path_alone(report.rows(), "self_sum_ns", "self_kernel_sum_ns") == {
        "A": [500_000, 50_000],
        "A/libd:B": [2_000_000, 100_000],
        "A/libd:B/C": [500_000, 100_000],
    }


moments = st.integers(1, 30)
drawn_ranges = st.lists(st.tuples(moments, moments, st.integers(0, 2), st.integers(1, 2)), max_size=8)


@pytest.mark.parametrize("spec", ["ranges", "ranges:any-thread"])
@given(drawn=drawn_ranges, launches=st.lists(st.tuples(moments, st.integers(1, 2)), max_size=8))
@examples(100)
def test_self_times_are_those_of_each_moment(spec: str, drawn: Any, launches: Any) -> None:
    ranges = [
        Range(min(a, b), max(a, b), f"r{i}", domain=domain, tid=tid)
        for i, (a, b, domain, tid) in enumerate(drawn)
    ]
    # Kernels of 1, 2, 4, … ns: a sum says which they were.
    events = [each for i, (start, tid) in enumerate(launches)
              for each in (Call(start, start + 1, i + 1, tid=tid),
                           Kernel(1000 * i + 50, 1000 * i + 50 + (1 << i), i + 1))]  # fmt: skip
    rows = answers(spec, *ranges, *events)
    found = {int(row["tree"].split("r")[-1]): row for row in rows}
    assert found.keys() == set(range(len(ranges)))
    for thread in (1, 2):
        mine = [i for i, each in enumerate(ranges) if each.tid == thread]
        owner = innermost([(ranges[i].start, ranges[i].end or 0, i) for i in mine])
        for i in mine:
            assert found[i]["self_sum_ns"] == sum(each == i for each in owner.values())
            assert found[i]["self_kernel_sum_ns"] == sum(
                1 << place for place, (start, tid) in enumerate(launches)
                if owner.get(start) == i and (tid == thread or spec != "ranges")
            )  # fmt: skip
        spent = sum(found[i]["self_sum_ns"] for i in mine)
        assert spent == len(instants([(ranges[i].start, ranges[i].end or 0) for i in mine]))


@given(drawn=drawn_ranges, launches=st.lists(st.tuples(moments, st.integers(1, 3)), max_size=8))
@examples(100)
def test_launches_of_other_threads_are_those_of_the_definition(drawn: Any, launches: Any) -> None:
    ranges = [Range(min(a, b), max(a, b), f"r{i}", domain=domain, tid=tid)
              for i, (a, b, domain, tid) in enumerate(drawn)]  # fmt: skip
    events = [each for i, (start, tid) in enumerate(launches)
              for each in (Call(start, start + 1, i + 1, tid=tid),
                           Kernel(1000 * i + 50, 1000 * i + 50 + (1 << i), i + 1))]  # fmt: skip
    open_at = [{each.tid for each in ranges if each.start <= start < (each.end or 0)}
               for start, _ in launches]  # fmt: skip
    outside = any(inside and tid not in inside
                  for (_, tid), inside in zip(launches, open_at, strict=True))  # fmt: skip
    expected = {i: [1 << place for place, (start, tid) in enumerate(launches)
                    if tid != each.tid and each.start <= start < (each.end or 0)]
                for i, each in enumerate(ranges)}  # fmt: skip
    found = {int(row["tree"].split("r")[-1]): [row[f"other_thread_{name}"] for name in
                                               ("launch_count", "kernel_sum_ns")]
             for row in answers("ranges", *ranges, *events)}  # fmt: skip
    assert found == {i: [len(mine), sum(mine)] if outside else [None, None]
                     for i, mine in expected.items()}  # fmt: skip


def test_time_in_two_children_is_taken_off_once() -> None:
    # a [10, 70) and b [30, 90), which crosses it, lie in outer [0, 100), of which 20 are left.
    ranges = [Range(0, 100, "outer"), Range(10, 70, "a"), Range(30, 90, "b", domain=1)]
    found = {row["name"]: row for row in answers("nvtx_pushpop_trace", *ranges)}
    assert (found[":outer"]["child_sum_ns"], found[":outer"]["self_ns"]) == (120, 20)
    operators = [Operator(r.start, r.end, f"aten::{r.text}") for r in ranges]
    named = {row["name"]: row["host_self_sum_ns"] for row in answers("operators", *operators)}
    assert named == {"aten::outer": 20, "aten::a": 60, "aten::b": 60}
    modules = [
        Operator(r.start, r.end, f"nn.Module: {r.text}", kind="python_function") for r in ranges
    ]
    by_path = {row["path"]: row["host_self_sum_ns"] for row in answers("modules", *modules)}
    assert by_path == {"outer": 20, "outer/a": 60, "outer/b": 60}


# -- ranges that lie deep in each other: what is said of them stays in bounds, and loses nothing


MARK = len("…[1,000,000 characters left out, 0123456789ab]…")


def nest(depth: int, *, long: int = 0, first: str = "outer") -> list[Range]:
    """`first` around ranges called 0 to 9 in turn, each in the one before."""
    names = [first, *("x" * long + str(i % 10) for i in range(1, depth))]
    return [Range(i, 10 * depth - i, name) for i, name in enumerate(names)]


@pytest.mark.parametrize(("depth", "long"), [(3000, 0), (40, 5000)])
def test_paths_do_not_grow_with_the_depth(depth: int, long: int) -> None:
    found = answers("ranges", *nest(depth, long=long))
    paths = [row["path"] for row in found]
    assert max(map(len, paths)) <= MAX_PATH_LENGTH + MARK
    assert len(set(paths)) == depth
    assert [row["level"] for row in found] == list(range(depth))


def test_a_short_path_is_whole_and_of_a_longer_one_both_ends_are_there() -> None:
    found = answers("ranges", *nest(1500))
    paths = {row["level"]: row["path"] for row in found}
    assert paths[20] == "outer/" + "/".join(str(i % 10) for i in range(1, 21))
    whole = "outer/" + "/".join(str(i % 10) for i in range(1, 1500))
    head, tail = paths[1499].split("…[")[0], paths[1499].split("]…")[1]
    assert whole.startswith(head)
    assert whole.endswith(tail)
    left_out = len(whole) - len(head) - len(tail)
    assert f"…[{left_out:,} characters left out, " in paths[1499]


def test_paths_that_differ_in_their_middle_alone_differ() -> None:
    parent = np.arange(-1, 999)
    names = ["abcd"] * 1000
    one = path_texts(parent, names.__getitem__, np.array([999]))
    names[500] = "wxyz"
    other = path_texts(parent, names.__getitem__, np.array([999]))
    assert (one != other, len(one[0])) == (True, len(other[0]))


def test_a_note_counts_ranges_whose_path_is_cut() -> None:
    def notes(depth: int) -> list[int]:
        report = asked("ranges", *nest(depth))
        return [note.count for note in report.notes if note.slug == "path-shortened"]

    assert notes(MAX_INDENT + 1) == []
    assert notes(MAX_INDENT + 2) == [1]


def test_indentation_of_names_is_bounded() -> None:
    trees = [row["tree"] for row in answers("ranges", *nest(300))]
    assert trees[99:102] == ["  " * 99 + "9", "  " * 100 + "0", "  " * 100 + "1"]
    printed = answers("nvtx_pushpop_trace", *nest(300))
    assert max(len(row["name_tree"]) for row in printed) == 2 * MAX_INDENT + len(":0")


def test_stacks_of_numbers_do_not_grow_with_the_depth() -> None:
    stacks = [row["range_stack"] for row in answers("nvtx_pushpop_trace", *nest(2000))]
    assert stacks[2] == ":1:2:3"
    assert stacks[-1].endswith(":1999:2000")
    assert max(map(len, stacks)) <= MAX_PATH_LENGTH + MARK


def test_kernels_in_ranges_of_one_name_take_memory_for_each_kernel_once() -> None:
    rows: list[Any] = [Range(i, 100_000 - i, "a") for i in range(1500)]
    for i in range(1500):
        rows += [Call(2000 + 2 * i, 2001 + 2 * i, i + 1), Kernel(9000 + i, 9001 + i, i + 1)]
    with opened(*rows) as profile:
        profile.report("kernels")
        tracemalloc.start()
        (found,) = profile.report("nvtx_kern_sum").rows()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (found["range_count"], found["kernel_count"]) == (1500, 1500)
    assert found["kernel_sum_ns"] == 1500 * 1500
    assert peak < 20e6  # a pair of numbers for each kernel in each range would be 36 MB


def test_lanes_of_ranges_that_all_cross_are_found_in_a_few_steps_each() -> None:
    start = np.arange(30_000)
    begun = time.process_time()
    lane = lanes.nested(start, start + 100_000)
    assert time.process_time() - begun < 10
    assert lane.tolist() == start.tolist()
