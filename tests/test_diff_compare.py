"""Two reports into one: hand-made rows, and what becomes of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysconv.diff.compare import CompareOptions, Comparison, compare_reports
from nsysconv.diff.names import range_key, without_operator_numbers
from nsysconv.diff.rows import main_measure
from nsysconv.notes import Note, Severity
from nsysconv.report import Column, ProfileRef, Report, Unit, build_table

COLUMNS = (
    Column("profile", Unit.TEXT, "Profile.", key=True),
    Column("device_id", Unit.ID, "Device.", key=True),
    Column("name", Unit.TEXT, "Name.", key=True),
    Column("kernel_count", Unit.COUNT, "Kernels."),
    Column("kernel_sum_ns", Unit.NS, "Sum.", better="less", counted_by="kernel_count"),
    Column("kernel_pct", Unit.PCT, "Share.", better="less", adds=True),
    Column("avg_ns", Unit.NS, "Mean.", better="less", real=True),
)
HUGE = (1 << 62) + 1


def report(*rows: tuple[Any, ...], columns: tuple[Column, ...] = COLUMNS) -> Report:
    """Rows without the profile's label."""
    cells = [dict(zip([c.name for c in columns], ("p", *row), strict=True)) for row in rows]
    table = build_table(columns, {c.name: [cell[c.name] for cell in cells] for c in columns})
    return Report("kernels", "Kernels", columns, table, (ProfileRef(1, "p", "s", "f"),))


def compared(base: Report, other: Report, **how: Any) -> Comparison:
    return compare_reports([base], [other], CompareOptions(**how))


def test_what_adding_in_another_order_makes_is_no_change() -> None:
    base, other = report((0, "f", 3, 30, 100.0, 10.0)), report((0, "f", 3, 30, 100.0, 10.0 + 1e-14))
    assert base.to_arrow() != other.to_arrow()
    assert compared(base, other).report.rows() == []
    assert len(compared(base, report((0, "f", 3, 30, 100.0, 10.0001))).report.rows()) == 1


def test_limits_that_look_at_rows_do_without_the_report() -> None:
    """It is made once, when it is asked for: of all cells it needs the intervals."""
    made: list[Report] = []

    class Watched(tuple[Note, ...]):
        """Notes that are read where the report is made."""

        def __iter__(self) -> Iterator[Note]:
            made.append(base)
            return super().__iter__()

    base = report((0, "f", 3, 30, 100.0, 10.0))
    found = compared(base, report((0, "f", 3, 60, 100.0, 20.0)), notes=Watched())
    assert (len(found.rows or ()), made) == (1, [])
    assert found.report is found.report
    assert made == [base]


def test_rows_of_one_side_have_a_verdict_unless_nothing_follows_from_them() -> None:
    base, other = report((0, "f", 3, 30, 100.0, 10.0)), report((0, "g", 3, 60, 100.0, 20.0))
    assert [row["verdict"] for row in compared(base, other).report.rows()] == ["worse", "better"]
    found = compared(base, other, one_sided=False).report.rows()
    assert [(row["verdict"], row["basis"]) for row in found] == [(None, None), (None, None)]


def test_both_values_the_difference_the_ratio_and_its_causes() -> None:
    base = report((0, "f", 50, 500_000, 100.0, 10_000.0))
    other = report((0, "f", 55, 605_000, 100.0, 11_000.0))
    (row,) = compared(base, other).report.rows()
    low, high = 1.21 / math.exp(0.08316), 1.21 * math.exp(0.08316)
    assert row == {
        "device_id": 0, "name": "f", "where": "both", "verdict": "worse",
        "diff_kernel_sum_ns": 105_000, "diff_pct": 21.0, "verdict_kernel_sum_ns": "worse",
        "ratio_low_kernel_sum": pytest.approx(low, rel=1e-4),
        "ratio_high_kernel_sum": pytest.approx(high, rel=1e-4),
        "interval": "+11.3 … +31.5 %, single run",
        "base_kernel_sum_ns": 500_000, "other_kernel_sum_ns": 605_000, "ratio_kernel_sum": 1.21,
        # (55 - 50) x 500,000 / 50 are more launches, the rest slower ones.
        "by_count_kernel_sum_ns": 50_000, "by_mean_kernel_sum_ns": 55_000,
        "base_kernel_count": 50, "other_kernel_count": 55, "diff_kernel_count": 5,
        "ratio_kernel_count": 1.1, "verdict_kernel_count": "worse",
        "ratio_low_kernel_count": 1.1, "ratio_high_kernel_count": 1.1,
        "base_kernel_pct": 100.0, "other_kernel_pct": 100.0, "diff_kernel_pct": 0.0,
        "ratio_kernel_pct": 1.0, "verdict_kernel_pct": "same",
        "ratio_low_kernel_pct": None, "ratio_high_kernel_pct": None,
        "base_avg_ns": 10_000.0, "other_avg_ns": 11_000.0, "diff_avg_ns": 1_000.0,
        # One run per side, of which nothing is known: 8.7 % more or less.
        "ratio_avg": 1.1, "verdict_avg_ns": "worse",
        "ratio_low_avg": pytest.approx(low / 1.1, rel=1e-4),
        "ratio_high_avg": pytest.approx(high / 1.1, rel=1e-4),
        "basis": "single run",
        "ratio_low": pytest.approx(low, rel=1e-4), "ratio_high": pytest.approx(high, rel=1e-4),
        "other_name": None,
    }  # fmt: skip


def test_the_part_of_the_count_is_rounded_to_the_nearest() -> None:
    base, other = report((0, "f", 3, 10, 1.0, 3.3)), report((0, "f", 5, 20, 1.0, 4.0))
    (row,) = compared(base, other).report.rows()
    # 2 x 10 / 3 = 6.67
    assert (row["by_count_kernel_sum_ns"], row["by_mean_kernel_sum_ns"]) == (7, 3)


def test_integers_of_64_bits_and_nulls_stay_what_they_are() -> None:
    base = report((0, "f", 1, HUGE, 1.0, None), (0, "g", 2, None, 1.0, 1.0))
    other = report((0, "f", 1, HUGE + 2, 1.0, None), (0, "g", 3, 7, 1.0, 1.0))
    rows = {row["name"]: row for row in compared(base, other).report.rows()}
    assert rows["f"]["diff_kernel_sum_ns"] == 2
    assert (rows["f"]["base_kernel_sum_ns"], rows["f"]["base_avg_ns"]) == (HUGE, None)
    assert (rows["g"]["base_kernel_sum_ns"], rows["g"]["diff_kernel_sum_ns"]) == (None, None)
    assert (rows["g"]["by_count_kernel_sum_ns"], rows["g"]["verdict"]) == (None, None)


def test_rows_of_one_side_are_there() -> None:
    base = report((0, "f", 1, 10, 50.0, 10.0), (0, "old", 2, 30, 50.0, 15.0))
    other = report((0, "f", 1, 10, 50.0, 10.0), (0, "new", 4, 20, 50.0, 5.0))
    rows = compared(base, other).report.rows()
    assert [(row["name"], row["where"]) for row in rows] == [
        ("old", "only in base"), ("new", "only in other")]  # fmt: skip
    old, new = rows
    # What adds up is 0 where there is no such row; a mean of nothing is not recorded.
    assert (old["other_kernel_sum_ns"], old["other_avg_ns"], old["ratio_kernel_sum"]) == (
        0,
        None,
        0,
    )
    assert (new["base_kernel_sum_ns"], new["base_avg_ns"], new["ratio_kernel_sum"]) == (
        0,
        None,
        None,
    )
    assert (old["by_count_kernel_sum_ns"], new["by_count_kernel_sum_ns"]) == (-30, 20)
    assert [row["verdict"] for row in rows] == ["better", "worse"]


def test_what_a_side_does_not_record_is_not_0_there() -> None:
    base = report((0, "f", 1, None, 50.0, None))
    other = report((0, "f", 1, None, 50.0, None), (0, "new", 4, 20, 50.0, 5.0))
    (row,) = compared(base, other).report.rows()
    assert (row["base_kernel_count"], row["base_kernel_sum_ns"]) == (0, None)


def test_unchanged_rows_are_counted() -> None:
    same = (0, "f", 1, 10, 50.0, 10.0)
    # The share of a row changes with every other row.
    other = report((0, "f", 1, 10, 40.0, 10.0), (0, "g", 1, 15, 60.0, 15.0))
    found = compared(report(same, (0, "g", 1, 10, 50.0, 10.0)), other).report
    assert [row["name"] for row in found.rows()] == ["g"]
    (note,) = [note for note in found.notes if note.slug == "rows-unchanged"]
    assert note.count == 1


def test_devices_are_matched_by_their_order() -> None:
    base = report((2, "f", 1, 10, 50.0, 10.0), (5, "f", 1, 20, 50.0, 20.0))
    other = report((0, "f", 1, 11, 50.0, 11.0), (1, "f", 1, 22, 50.0, 22.0))
    rows = compared(base, other).report.rows()
    assert [(row["device_id"], row["diff_kernel_sum_ns"]) for row in rows] == [(5, 2), (2, 1)]


def test_rows_are_added_up_over_devices_where_their_number_differs() -> None:
    base = report((0, "f", 1, 10, 50.0, 10.0), (1, "f", 3, 20, 50.0, 6.0))
    other = report((0, "f", 4, 33, 100.0, 8.25))
    found = compared(base, other).report
    (row,) = found.rows()
    assert "device_id" not in row
    assert (row["base_kernel_count"], row["base_kernel_sum_ns"], row["base_avg_ns"]) == (
        4,
        30,
        None,
    )
    assert "rows-combined" in {note.slug for note in found.notes}


def test_ranks_of_which_none_is_on_both_sides_are_no_key() -> None:
    columns = (COLUMNS[0], Column("rank", Unit.ID, "Rank.", key=True), *COLUMNS[2:])
    base = report((3, "f", 1, 10, 50.0, 10.0), columns=columns)
    other = report((0, "f", 1, 6, 50.0, 6.0), (1, "f", 1, 6, 50.0, 6.0), columns=columns)
    (row,) = compared(base, other).report.rows()
    assert "rank" not in row
    assert row["diff_kernel_sum_ns"] == 2
    both = report((3, "f", 1, 6, 50.0, 6.0), (1, "f", 1, 6, 50.0, 6.0), columns=columns)
    assert [row["rank"] for row in compared(base, both).report.rows()] == [1, 3]


def test_names_are_matched_by_their_spelling_and_both_are_kept() -> None:
    base, other = report((0, "F", 1, 10, 50.0, 10.0)), report((0, "f", 1, 11, 50.0, 11.0))
    (row,) = compared(base, other, name_keys={"name": str.lower}).report.rows()
    assert (row["name"], row["other_name"], row["where"]) == ("F", "f", "both")


def test_names_that_are_one_to_the_matching_are_added_up_with_a_note() -> None:
    base = report((0, "F", 1, 10, 50.0, 10.0), (0, "f", 2, 20, 50.0, 10.0))
    other = report((0, "f", 3, 33, 50.0, 11.0))
    found = compared(base, other, name_keys={"name": str.lower}).report
    (row,) = found.rows()
    assert (row["base_kernel_count"], row["base_kernel_sum_ns"]) == (3, 30)
    (note,) = [note for note in found.notes if note.slug == "names-merged"]
    assert (note.count, note.text.endswith("such as f")) == (1, True)


def test_a_report_that_a_side_lacks_says_what_is_missing() -> None:
    lacking = Report("kernels", "Kernels", COLUMNS, None, not_recorded=("kernel events",))
    found = compared(report((0, "f", 1, 10, 50.0, 10.0)), lacking)
    assert found.rows is None
    assert (found.report.table, found.report.not_recorded) == (None, ("kernel events (other)",))


def test_several_runs_are_compared_by_their_means() -> None:
    base = [report((0, "f", 1, ns, 50.0, 1.0)) for ns in (100, 102, 98, 100)]
    other = [report((0, "f", 1, ns, 50.0, 1.0)) for ns in (120, 118, 122, 120)]
    (row,) = compare_reports(base, other, CompareOptions()).report.rows()
    assert (row["base_kernel_sum_ns"], row["other_kernel_sum_ns"]) == (100.0, 120.0)
    assert (row["basis"], row["verdict"]) == ("repeats", "worse")
    assert 1.15 < row["ratio_low"] < 1.2 < row["ratio_high"] < 1.25


def test_without_a_verdict_nothing_is_better() -> None:
    base = report((0, "f", 1, 10, 50.0, 10.0))
    (row,) = compared(
        base, report((0, "f", 1, 5, 50.0, 5.0)), comparable=lambda column: False
    ).report.rows()
    assert (row["diff_kernel_sum_ns"], row["verdict"], row["basis"]) == (-5, None, None)


def test_a_caveat_of_every_repeat_is_told_once() -> None:
    caveat = Note("rounded-times", Severity.APPROXIMATED, "base: steps of 10 ns", 3)
    same = report((0, "f", 1, 10, 50.0, 10.0))
    found = compared(same, same, notes=[caveat, caveat]).report
    (told,) = [note for note in found.notes if note.slug == "rounded-times"]
    assert told.count == 6


def test_the_greatest_change_comes_first() -> None:
    base = report(*((0, name, 1, 100, 50.0, 1.0) for name in "abc"))
    other = report(
        (0, "a", 1, 101, 50.0, 1.0), (0, "b", 1, 50, 50.0, 1.0), (0, "c", 1, 110, 50.0, 1.0))  # fmt: skip
    assert [row["name"] for row in compared(base, other).report.rows()] == ["b", "c", "a"]


rows_of = st.dictionaries(
    st.tuples(st.integers(0, 2), st.sampled_from("fgh")),
    st.tuples(st.integers(1, 9), st.integers(1, 1 << 61)),
    min_size=1, max_size=6,
)  # fmt: skip


@given(base=rows_of, other=rows_of)
def test_differences_add_up_to_that_of_the_totals(
    base: dict[tuple[int, str], tuple[int, int]], other: dict[tuple[int, str], tuple[int, int]]
) -> None:
    sides = [
        report(*((*key, count, ns, 1.0, ns / count) for key, (count, ns) in side.items()))
        for side in (base, other)
    ]
    rows = compared(*sides).report.rows()
    total = sum(ns for _, ns in other.values()) - sum(ns for _, ns in base.values())
    assert sum(row["diff_kernel_sum_ns"] for row in rows) == total
    for row in rows:
        parts = row["by_count_kernel_sum_ns"] + row["by_mean_kernel_sum_ns"]
        assert parts == row["diff_kernel_sum_ns"]
    again = compared(*reversed(sides)).report.rows()
    assert sorted(-row["diff_kernel_sum_ns"] for row in again) == sorted(
        row["diff_kernel_sum_ns"] for row in rows
    )
    assert compared(sides[0], sides[0]).report.rows() == []


def test_the_main_measure() -> None:
    assert main_measure(COLUMNS).name == "kernel_sum_ns"
    assert main_measure(COLUMNS[5:]).name == "kernel_pct"


# -- ranges


@pytest.mark.parametrize(
    ("name", "expected"),
    [("aten::mm, seq = 47588, op_id = 999618", "aten::mm"),
     ("aten::copy_, op_id = 998915", "aten::copy_"),
     ("MmBackward0, stashed seq = 3, op_id = 4, sizes = [[1, 2], [3]]",
      "MmBackward0, sizes = [[1, 2], [3]]"),
     ("aten::mm, op_id = 5, input_op_ids = [(1,0), (2,0)]", "aten::mm"),
     ("epoch 3", "epoch 3"), ("seq = 4", "seq = 4")],
)  # fmt: skip
def test_what_a_framework_numbers_is_no_part_of_a_range(name: str, expected: str) -> None:
    assert range_key(name) == expected


def test_ranges_without_numbers_are_one_row() -> None:
    base = report((0, "mm, seq = 1, op_id = 2", 1, 10, 1.0, 10.0),
                  (0, "mm, seq = 2, op_id = 3", 1, 20, 1.0, 20.0))  # fmt: skip
    other = report((0, "mm, seq = 9, op_id = 7", 2, 36, 1.0, 18.0))
    (row,) = compared(without_operator_numbers(base), without_operator_numbers(other)).report.rows()
    assert (row["name"], row["base_kernel_count"], row["diff_kernel_sum_ns"]) == ("mm", 2, 6)
