"""Two runs on one axis: their steps in pairs, and what ran in a step on both sides, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_store import Call, Kernel, Memcpy, Migration, Range, Row, write

from nsysconv import api
from nsysconv.diff import step_timelines
from nsysconv.facts import Fact
from nsysconv.report import Report

# Three steps of 100 ns. In the first a kernel from 20 to 50, and a copy from 60 to 80; in the others a
# kernel that begins 20 ns after the step.
BASE: tuple[Row, ...] = (
    Range(0, 100, "ProfilerStep#1"),
    Call(10, 12, 1),
    Kernel(20, 50, 1, name="gemm"),
    Call(55, 56, 2),
    Memcpy(60, 80, 2),
    Range(100, 200, "ProfilerStep#2"),
    Call(110, 112, 3),
    Kernel(120, 150, 3, name="gemm"),
    Range(200, 300, "ProfilerStep#3"),
    Call(210, 212, 4),
    Kernel(220, 250, 4, name="gemm"),
)
# Steps of 60, 110 and 100 ns. In the first a kernel from 30 to 55, on another stream and device.
OTHER: tuple[Row, ...] = (
    Range(1000, 1060, "ProfilerStep#1"),
    Call(1010, 1012, 1),
    Kernel(1030, 1055, 1, stream=9, device=2, name="gemm fast"),
    Range(1060, 1170, "ProfilerStep#2"),
    Call(1070, 1072, 2),
    Kernel(1080, 1110, 2, stream=9, device=2, name="gemm fast"),
    Range(1170, 1270, "ProfilerStep#3"),
    Call(1180, 1182, 3),
    Kernel(1190, 1220, 3, stream=9, device=2, name="gemm fast"),
)


def compared(folder: Path, base: Any, other: Any, name: str, **options: Any) -> Report:
    """The report of two sides, each the rows of one profile, or of several by rank."""
    for label, rows in (("before", base), ("after", other)):
        path = folder / f"{label}.db"
        if path.exists():
            continue
        if isinstance(rows, dict):
            for rank, of_rank in rows.items():
                write(path, *of_rank, ranks={1: rank}, label=f"{label}-{rank}", run="job")
        else:
            write(path, *rows, label=label)
    found = api.compare(folder / "before.db", folder / "after.db", [name], **options)
    (report,) = found.reports
    return report


def told(report: Report, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in report.rows()]


def slugs(report: Report) -> list[str]:
    return [note.slug for note in report.notes]


# -- steps


def test_each_step_stands_beside_its_namesake(tmp_path: Path) -> None:
    report = compared(tmp_path, BASE, OTHER, "step_pairs")
    names = ("step", "base_dur_ns", "other_dur_ns", "diff_dur_ns", "diff_pct", "drawn")
    assert told(report, *names) == [
        ("ProfilerStep#1", 100, 60, -40, -40.0, "greatest"),
        ("ProfilerStep#2", 100, 110, 10, 10.0, None),
        ("ProfilerStep#3", 100, 100, 0, 0.0, "median"),
    ]
    assert told(report, "base_start_ns", "other_start_ns")[1] == (100, 1060)
    assert slugs(report) == []


def test_of_two_steps_one_may_be_both_median_and_greatest(tmp_path: Path) -> None:
    """Of differences -40 and 10 the lower of the middle two is the greatest, too."""
    report = compared(tmp_path, BASE[:8], OTHER[:6], "step_pairs")
    assert told(report, "drawn") == [("median",), (None,)]


def steps(*names: str, length: int = 10) -> list[Row]:
    ranges = [Range(i * length, (i + 1) * length, name) for i, name in enumerate(names)]
    return [*ranges, Call(0, 1, 1), Kernel(2, 4, 1)]


BY_ORDER = "steps are matched by order: their names differ between the sides"


@pytest.mark.parametrize(("base", "other", "pairs", "notes"), [
    # What one side alone has is counted.
    (["s1", "s2", "s3"], ["s2", "s3", "s4", "s5"], [("s2", 1, None), ("s3", 1, None)],
     ["steps without a partner: 1 of 3 in base, 2 of 4 in other"]),
    # Of one name they are matched by which of them they are, and of other names by their order.
    (["s", "s"], ["s", "s", "s"], [("s", 1, None), ("s", 2, None)],
     ["steps without a partner: 0 of 2 in base, 1 of 3 in other"]),
    (["s1", "s2", "s3"], ["s3", "s4", "s5"], [("s1", 1, "s3"), ("s2", 1, "s4"), ("s3", 1, "s5")],
     [BY_ORDER]),
    # Namesakes in another order, too.
    (["s1", "s2"], ["s2", "s1"], [("s1", 1, "s2"), ("s2", 1, "s1")], [BY_ORDER]),
])  # fmt: skip
def test_which_steps_are_pairs(
    base: list[str], other: list[str], pairs: list[tuple[Any, ...]], notes: list[str], tmp_path: Path
) -> None:
    report = compared(tmp_path, steps(*base), steps(*other), "step_pairs", step_range="s*")
    assert told(report, "step", "occurrence", "other_step") == pairs
    assert [note.text for note in report.notes] == notes


def test_of_ranks_the_first_that_both_sides_have_is_paired(tmp_path: Path) -> None:
    base = {rank: steps("s1", length=10 + rank) for rank in (0, 2)}
    other = {rank: steps("s1", length=20 + rank) for rank in (2, 3)}
    report = compared(tmp_path, base, other, "step_pairs", step_range="s*")
    assert told(report, "rank", "base_dur_ns", "other_dur_ns") == [(2, 12, 22)]
    (note,) = report.notes
    assert note.slug == "profiles-not-aligned"
    assert note.text == "only before-2 and after-2 of 4 profiles are on one axis"


def test_without_steps_there_are_no_pairs(tmp_path: Path) -> None:
    report = compared(tmp_path, (Kernel(0, 10),), OTHER, "step_pairs")
    assert report.table is None
    assert report.not_recorded == ("annotated steps (base)",)


def test_steps_that_a_slice_cuts_are_left_out(tmp_path: Path) -> None:
    part = api.Slice(step="2")
    report = compared(tmp_path, BASE, OTHER, "step_pairs", slice=part)
    assert told(report, "step", "drawn") == [("ProfilerStep#2", "median")]


# -- what ran

BOX = ("lane", "side", "device_id", "stream_id", "kind", "start_ns", "dur_ns", "count", "name")


def test_what_ran_in_a_step_counts_from_its_start(tmp_path: Path) -> None:
    """Before: 20-50 and 60-80, after: 30-55. Alone are 20-30 and 60-80 before, and 50-55 after."""
    report = compared(tmp_path, BASE, OTHER, "step_timelines")
    rows = [row for row in report.rows() if row["pair"] == "greatest"]
    assert [tuple(row[name] for name in BOX) for row in rows] == [
        (0, "base", None, None, "whole", 0, 100, 1, "ProfilerStep#1"),
        (0, "other", None, None, "whole", 0, 60, 1, "ProfilerStep#1"),
        (1, "base", 0, 7, "computation", 20, 30, 1, "gemm"),
        (1, "base", 0, 7, "memcpy", 60, 20, 1, "[memcpy]"),
        (1, "other", 2, 9, "computation", 30, 25, 1, "gemm fast"),
        (1, "base", 0, 7, "alone", 20, 10, 1, None),
        (1, "base", 0, 7, "alone", 60, 20, 1, None),
        (1, "other", 2, 9, "alone", 50, 5, 1, None),
    ]
    assert list(dict.fromkeys(row["pair"] for row in report.rows())) == ["median", "greatest"]
    (note,) = report.notes
    assert note.slug == "devices-matched"
    assert note.text == "devices are matched by their order: 0 of base with 2 of other"


def test_operations_are_cut_where_the_step_ends(tmp_path: Path) -> None:
    """The step lasts to 14, the end of its kernel: of another that begins in it 2 ns are in it."""
    base = (
        Range(0, 10, "ProfilerStep#1"), Call(1, 2, 1), Kernel(4, 14, 1, name="late"),
        Range(10, 30, "ProfilerStep#2"), Kernel(12, 20, name="stray"),
    )  # fmt: skip
    report = compared(tmp_path, base, base, "step_timelines", slice=api.Slice(step="1:1"))
    rows = [row for row in report.rows() if row["lane"] and row["side"] == "base"]
    found = [(row["name"], row["start_ns"], row["dur_ns"]) for row in rows]
    assert found == [("late", 4, 10), ("stray", 12, 2)]


def test_equal_streams_are_one_lane_and_the_others_by_order(tmp_path: Path) -> None:
    base = [Kernel(0, 10, stream=each) for each in (7, 13)]
    other = [Kernel(0, 10, stream=each) for each in (7, 20, 21)]
    report = compared(tmp_path, base, other, "step_timelines")
    ran = [row for row in report.rows() if row["kind"] == "computation"]
    assert [(row["lane"], row["side"], row["stream_id"]) for row in ran] == [
        (1, "base", 7), (1, "other", 7), (2, "base", 13), (2, "other", 20), (3, "other", 21),
    ]  # fmt: skip


def test_many_streams_of_a_device_are_one_lane(tmp_path: Path) -> None:
    many = [Kernel(i, i + 1, stream=i) for i in range(7)]
    report = compared(tmp_path, many, many, "step_timelines")
    assert {(r["lane"], r["stream_id"]) for r in report.rows()} == {(0, None), (1, None)}


def test_what_is_on_no_stream_is_not_one_stream_too_many(tmp_path: Path) -> None:
    kernels = [Kernel(0, 10, stream=i) for i in range(1, 7)]
    report = compared(tmp_path, [*kernels, Migration(2, 5)], kernels, "step_timelines")
    lanes = {(row["lane"], row["stream_id"]) for row in report.rows() if row["lane"]}
    assert lanes == {*((i, i) for i in range(1, 7)), (7, None)}


def test_what_is_on_no_stream_is_beside_what_is_on_none(tmp_path: Path) -> None:
    base = [Kernel(0, 10, stream=7), Migration(2, 5)]
    other = [Kernel(0, 10, stream=7), Kernel(0, 10, stream=8)]
    report = compared(tmp_path, base, other, "step_timelines")
    ran = [row for row in report.rows() if row["kind"] in ("computation", "migration")]
    assert [(row["lane"], row["side"], row["stream_id"]) for row in ran] == [
        (1, "base", 7), (1, "other", 7), (2, "other", 8), (3, "base", None),
    ]  # fmt: skip


def test_devices_that_are_not_recorded_are_not_matched_with_numbers(tmp_path: Path) -> None:
    base = [Kernel(0, 10, device=None), Kernel(0, 10, device=1)]
    report = compared(tmp_path, base, [Kernel(0, 10, device=2)], "step_timelines")
    ran = [row for row in report.rows() if row["kind"] == "computation"]
    assert [(row["lane"], row["side"], row["device_id"]) for row in ran] == [
        (1, "base", 1), (1, "other", 2), (2, "base", None),
    ]  # fmt: skip
    (note,) = [note for note in report.notes if note.slug == "devices-matched"]
    assert note.text.endswith(": 1 of base with 2 of other")


def test_without_steps_slices_are_aligned_by_their_start(tmp_path: Path) -> None:
    base = (Kernel(100, 120), Kernel(130, 140))
    other = (Kernel(125, 150), Call(100, 105))
    part = api.Slice(time=(110, 135))
    report = compared(tmp_path, base, other, "step_timelines", slice=part)
    rows = [row for row in report.rows() if row["kind"] != "alone"]
    assert [(row["side"], row["kind"], row["start_ns"], row["dur_ns"]) for row in rows] == [
        ("base", "whole", 0, 25),
        ("other", "whole", 0, 25),
        ("base", "computation", 0, 10),
        ("base", "computation", 20, 5),
        ("other", "computation", 15, 10),
    ]
    (note,) = report.notes
    assert note.text.startswith("aligned by the start of each slice: ")


def test_a_slice_in_which_one_side_ran_nothing_has_what_the_other_ran(tmp_path: Path) -> None:
    base, other = (Kernel(0, 100),), (Kernel(0, 20), Kernel(200, 210))
    part = api.Slice(time=(50, 90))
    report = compared(tmp_path, base, other, "step_timelines", slice=part)
    assert told(report, "side", "kind", "start_ns", "dur_ns") == [
        ("base", "whole", 0, 40),
        ("other", "whole", 0, 40),
        ("base", "computation", 0, 40),
        ("base", "alone", 0, 40),
    ]


def test_without_steps_windows_are_aligned_by_their_start(tmp_path: Path) -> None:
    base, other = (Kernel(100, 110), Kernel(130, 140)), (Kernel(7000, 7025),)
    report = compared(tmp_path, base, other, "step_timelines")
    names = ("pair", "side", "kind", "start_ns", "dur_ns")
    assert told(report, *names) == [
        ("window", "base", "whole", 0, 40),
        ("window", "other", "whole", 0, 25),
        ("window", "base", "computation", 0, 10),
        ("window", "base", "computation", 30, 10),
        ("window", "other", "computation", 0, 25),
        ("window", "base", "alone", 30, 10),
        ("window", "other", "alone", 10, 15),
    ]
    (note,) = report.notes
    assert note.slug == "steps-not-aligned"
    assert "base and other have no annotated steps" in note.text


def test_of_too_many_operations_short_ones_are_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_timelines, "MOST_BOXES", 40)
    kernels = [Kernel(10 * i, 10 * i + 4, name=f"k{i % 3}") for i in range(1000)]
    later = [Kernel(1, 2), *(Kernel(10 * i + 2, 10 * i + 6) for i in range(1, 1000))]
    report = compared(tmp_path, kernels, later, "step_timelines")
    rows = report.rows()
    assert len(rows) <= 40
    for side in ("base", "other"):
        mine = [row for row in rows if row["side"] == side and row["kind"] == "computation"]
        assert sum(row["count"] for row in mine) == 1000
        assert sum(row["busy_ns"] for row in mine) == (4000 if side == "base" else 3997)
    (merged,) = [note.count for note in report.notes if note.slug == "operations-merged"]
    assert merged == sum(row["count"] > 1 and row["kind"] != "alone" for row in rows)


def test_rows_are_no_more_than_can_be_drawn_whatever_the_sides_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [Kernel(700 * i, 700 * i + 4) for i in range(12)]
    many = [Kernel(10 * i, 10 * i + 4) for i in range(1000)]
    for most in range(20, 60, 7):
        monkeypatch.setattr(step_timelines, "MOST_BOXES", most)
        assert len(compared(tmp_path, few, many, "step_timelines").rows()) <= most


def test_sides_without_operations_have_no_lanes(tmp_path: Path) -> None:
    report = compared(tmp_path, (Range(0, 5, "x"),), (Range(0, 5, "x"),), "step_timelines")
    assert report.rows() == []


def test_ranges_need_not_be_recorded(tmp_path: Path) -> None:
    for label in ("before", "after"):
        write(
            tmp_path / f"{label}.db",
            Kernel(0, 10),
            label=label,
            without={Fact.RANGES, Fact.OPERATORS},
        )
    report = compared(tmp_path, (), (), "step_timelines")
    assert [row["kind"] for row in report.rows()] == ["whole", "whole"] + ["computation"] * 2
