"""Trees of two sides as one: which paths are the same, and what became of their times, by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pages import NODES, Node, tree_report
from small_store import Call, Kernel, Range, write

from nsysconv import api
from nsysconv.diff import trees
from nsysconv.diff.trees import compare_trees
from nsysconv.report import Report

AFTER: tuple[Node, ...] = (
    (0, "other", 1, 40, None),
    (0, "step", 2, 130, 90),
    (1, "add", 8, 20, 60),
    (1, "new", 1, 70, 10),
    (2, "add", 3, 30, 0),
)


def told(report: Report, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in report.rows()]


def both(base: Any, other: Any, **options: Any) -> Report:
    return compare_trees("modules_tree", [[tree_report(base)]], [[tree_report(other)]], **options)


def test_paths_of_both_sides_are_one_tree_the_most_time_first() -> None:
    """`add` is in `step` and in `conv2d`: two paths, of which the second is before alone."""
    report = both(NODES, AFTER)
    names = ("level", "name", "base_host_sum_ns", "other_host_sum_ns", "diff_host_sum_ns")
    assert told(report, *names) == [
        (0, "step", 100, 130, 30),
        (1, "add", 30, 20, -10),
        (1, "new", 0, 70, 70),
        (2, "add", 0, 30, 30),
        (1, "conv2d", 50, 0, -50),
        (2, "add", 10, 0, -10),
        (0, "other", 100, 40, -60),
    ]
    assert told(report, "path")[2:4] == [("step/new",), ("step/new/add",)]
    assert told(report, "base_device_sum_ns", "other_device_sum_ns")[0] == (80, 90)
    assert told(report, "base_call_count", "other_call_count")[1] == (8, 8)


def test_values_are_means_over_runs_of_sums_over_ranks() -> None:
    """Two runs of base, the second with two ranks: (100 + 100 + 40) / 2; of counts (1 + 1 + 1) / 2."""
    one, small = [(0, "x", 1, 100, None)], [(0, "x", 1, 40, None)]
    base = [[tree_report(one)], [tree_report(one), tree_report(small)]]
    report = compare_trees("modules_tree", base, [[tree_report(one)]])
    names = ("base_host_sum_ns", "other_host_sum_ns", "base_call_count", "other_call_count")
    assert told(report, *names) == [(120, 100, 1.5, 1.0)]


def test_with_steps_times_are_those_of_one_step() -> None:
    report = both(NODES[:1], NODES[:1], steps=(Fraction(4), Fraction(8)))
    assert told(report, "base_host_sum_ns", "other_host_sum_ns") == [(25, 12)]
    assert report.title == "What changed: Modules as a tree, per step"


def test_names_of_one_key_are_one_path() -> None:
    nodes = [(0, "step 1", 1, 10, 1), (1, "mm", 1, 4, 1), (0, "step 2", 1, 20, 1), (1, "mm", 1, 6, 1)]
    report = both(nodes, nodes, name_key=lambda name: "step *" if name.startswith("step") else name)
    assert told(report, "path", "base_host_sum_ns") == [("step *", 30), ("step */mm", 10)]


def test_what_a_side_does_not_record_is_not_0() -> None:
    without = [(0, "step", 2, 100, None)]
    report = both(without, NODES)
    assert told(report, "base_device_sum_ns", "diff_device_sum_ns")[0] == (None, None)


def test_a_side_on_which_nothing_ran_has_0() -> None:
    report = both([], NODES[:1])
    names = ("base_host_sum_ns", "other_host_sum_ns", "diff_host_sum_ns", "base_device_sum_ns")
    assert told(report, *names) == [(0, 100, 100, 0)]


def test_runs_that_do_not_record_the_report_do_not_lessen_the_mean() -> None:
    missing = Report("modules", "Modules", tree_report().columns, None, not_recorded=("modules",))
    report = compare_trees("modules_tree", [[tree_report(NODES)], [missing]], [[tree_report(NODES)]])
    assert told(report, "base_host_sum_ns", "diff_host_sum_ns")[0] == (100, 0)


def test_what_lies_in_rows_that_are_left_out_is_in_the_nearest_that_is_there() -> None:
    """Of names that fit a pattern: on one side the second is on level 3, on the other on level 2."""
    before = [(1, "fit a", 1, 50, 5), (3, "fit b", 1, 20, 2), (4, "fit c", 1, 10, 1)]
    after = [(1, "fit a", 1, 50, 5), (2, "fit b", 1, 30, 2), (3, "fit c", 1, 10, 1)]
    assert told(both(before, after), "path", "level", "diff_host_sum_ns") == [
        ("fit a", 0, 0),
        ("fit a/fit b", 1, 10),
        ("fit a/fit b/fit c", 2, 0),
    ]


def test_a_side_without_the_report_has_no_tree() -> None:
    missing = Report("modules", "Modules", tree_report().columns, None, not_recorded=("modules",))
    report = compare_trees("modules_tree", [[missing]], [[tree_report(NODES)]])
    assert report.table is None
    assert report.not_recorded == ("modules (base)",)


def test_of_too_many_paths_those_with_most_time_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """`other` has 140 on both sides, `step` 230, and in it `new` 70: more than the others."""
    monkeypatch.setattr(trees, "MOST_NODES", 3)
    report = both(NODES, AFTER)
    assert told(report, "name") == [("step",), ("add",), ("other",)]
    (note,) = report.notes
    assert (note.slug, note.count) == ("paths-left-out", 4)


def test_a_deep_tree_needs_no_stack() -> None:
    nodes = [(level, f"f{level}", 1, 5, 5) for level in range(3000)]
    report = both(nodes, nodes[:2000])
    assert report.row_count == 3000
    assert told(report, "level", "other_host_sum_ns")[-1] == (2999, 0)


def test_ranges_of_two_profiles_are_one_tree_report(tmp_path: Path) -> None:
    """Two steps before, one after: per step the kernels of `forward` took 30 and 40."""
    before = [
        Range(0, 100, "ProfilerStep#1"), Range(5, 50, "forward"), Call(10, 12, 1), Kernel(20, 50, 1),
        Range(100, 200, "ProfilerStep#2"), Range(105, 150, "forward"), Call(110, 112, 2),
        Kernel(120, 150, 2),
    ]  # fmt: skip
    after = [
        Range(0, 100, "ProfilerStep#7"), Range(5, 75, "forward"), Call(10, 12, 1), Kernel(20, 60, 1),
    ]  # fmt: skip
    write(tmp_path / "a.db", *before)
    write(tmp_path / "b.db", *after)
    (report,) = api.compare(tmp_path / "a.db", tmp_path / "b.db", ["ranges_tree"]).reports
    measures = ("range_sum_ns", "kernel_sum_ns")
    names = ("path", *(f"{side}_{name}" for name in measures for side in ("base", "other")))
    assert told(report, *names) == [
        ("ProfilerStep*", 100, 100, 30, 40),
        ("ProfilerStep*/forward", 45, 70, 30, 40),
    ]


def test_a_page_of_some_names_has_their_ranges(tmp_path: Path) -> None:
    rows = [Range(0, 100, "step"), Range(5, 60, "forward"), Call(10, 12, 1), Kernel(20, 50, 1)]
    for label in ("a", "b"):
        write(tmp_path / f"{label}.db", *rows)
    part = api.Slice(name="forw|kernel|cuda")
    found = api.compare(tmp_path / "a.db", tmp_path / "b.db", slice=part, for_page=True).reports
    (report,) = [each for each in found if each.name == "ranges_tree"]
    assert told(report, "path", "level") == [("forward", 0)]


# -- what a page has


def names_for_page(folder: Path, *rows: Any) -> list[str]:
    for label in ("a", "b"):
        write(folder / f"{label}.db", *rows, label=label)
    found = api.compare(folder / "a.db", folder / "b.db", for_page=True)
    return [report.name for report in found.reports][-5:]


def test_a_page_has_pairs_of_steps_lanes_and_the_trees_that_there_are(tmp_path: Path) -> None:
    names = names_for_page(tmp_path, Range(0, 100, "x"), Call(1, 2, 1), Kernel(5, 9, 1))
    assert names[-3:] == ["step_pairs", "step_timelines", "ranges_tree"]


def test_only_a_page_has_them_unasked(tmp_path: Path) -> None:
    write(tmp_path / "a.db", Kernel(5, 9, 1))
    names = [r.name for r in api.compare(tmp_path / "a.db", tmp_path / "a.db").reports]
    assert not {"step_pairs", "step_timelines", "ranges_tree"} & set(names)


def test_of_long_recordings_there_are_no_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nsysconv.api.diff_page.LONG", 3)
    names = names_for_page(tmp_path, Range(0, 100, "x"), Call(1, 2, 1), Kernel(5, 9, 1))
    assert names[-2:] == ["step_pairs", "step_timelines"]
