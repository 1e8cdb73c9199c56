"""Ranges that lie deep in each other: what is told of them stays in bounds, and loses nothing."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from small_store import Call, Kernel, Range, answers, asked, opened

from nsysconv.export import lanes
from nsysconv.timeline.nesting import MAX_INDENT, MAX_PATH_LENGTH, path_texts

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
