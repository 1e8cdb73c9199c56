"""The tree of ranges: nesting, self times, and what was launched in each, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from small_store import Call, Kernel, Memcpy, Operator, Range, answers

from nsysconv import Slice
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact

# docs/definitions.md, Projection: A1 at 150 and A2 at 380 start in forward [100, 400), A3 not.
EXAMPLE = (
    Range(100, 400, "forward"),
    Call(150, 170, 1), Call(380, 430, 2), Call(440, 450, 3),
    Kernel(300, 500, 1), Kernel(600, 900, 2), Kernel(900, 960, 3),
)  # fmt: skip

# docs/definitions.md, Nesting of ranges; a kernel of 10 ns launched in each of the four.
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


def test_without_ranges_it_is_not_recorded() -> None:
    with pytest.raises(NotRecorded, match="ranges"):
        answers("ranges", Kernel(0, 10), without=[Fact.RANGES])
