"""The tree of ranges: nesting, self times, and what was launched in each, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, REAL, few, name_of, real
from small_store import Call, Kernel, Memcpy, Operator, Range, answers, asked, cells, opened

import nsysconv
from nsysconv import Slice
from nsysconv.facts import Fact

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
    (row,) = answers("ranges", *rows, ranks={1: 0, 2: 1})
    assert picked(row, "range_count", "range_sum_ns", "rank") == [3, 50, None]


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
