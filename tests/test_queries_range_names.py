"""Names of ranges: what is grouped under one, by hand; what is named as recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, real
from small_store import Call, Kernel, Operator, Range, answers, cell, cells, hand_computed, write

from nsysconv import Slice, api
from nsysconv.errors import UsageError
from nsysconv.timeline.range_names import split_name

# docs/definitions/ranges-and-operators.md, Names of ranges.
EXAMPLE = (
    Range(0, 400, "ProfilerStep#7"),
    Range(50, 150, "aten::to, op_id = 12"), Range(200, 220, "aten::to, op_id = 15"),
    Range(500, 800, "ProfilerStep#8"), Range(600, 630, "aten::to, op_id = 31"),
)  # fmt: skip

# The host part of the gap [100, 450) is [100, 400): 90 + 90 ns of aten::to, then 120 ns of save.
IDLE = (
    Call(0, 10, 1), Kernel(20, 100, 1), Call(400, 410, 2), Kernel(450, 500, 2),
    Range(100, 190, "aten::to, op_id = 1"), Range(190, 280, "aten::to, op_id = 2"),
    Range(280, 400, "save"),
)  # fmt: skip


def picked(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_what_ranges_of_a_group_launched_is_added_up() -> None:
    work = (Call(60, 61, 1), Kernel(1000, 1010, 1), Call(610, 611, 2), Kernel(1100, 1130, 2))
    rows = answers("ranges", *EXAMPLE, *work)
    assert picked(rows, "kernel_count", "kernel_sum_ns", "self_kernel_sum_ns") == [
        (2, 40, 0), (2, 40, 40)]  # fmt: skip
    assert picked(rows, "projected_count", "projected_sum_ns") == [(2, 40), (2, 40)]


@pytest.mark.parametrize(("range_names", "paths"), [
    ("grouped", ["lib:ProfilerStep*", "ProfilerStep*"]),
    ("exact", ["lib:ProfilerStep#1", "ProfilerStep#2"]),
])  # fmt: skip
def test_a_domain_comes_before_the_name_of_a_group(range_names: str, paths: list[str]) -> None:
    spans = (Range(0, 20, "ProfilerStep#1", domain=3), Range(30, 40, "ProfilerStep#2"))
    assert cells("ranges path", *spans, domains={(1, 3): "lib"}, range_names=range_names) == paths


@pytest.mark.parametrize(("range_names", "expected"), [
    ("grouped", [("aten::to", 1, 180), ("save", 1, 120)]),
    ("exact", [("save", 1, 120), ("aten::to, op_id = 1", 1, 90), ("aten::to, op_id = 2", 1, 90)]),
])  # fmt: skip
def test_a_gap_counts_once_for_a_group(range_names: str, expected: list[tuple[Any, ...]]) -> None:
    assert cells("idle_host name gap_count host_sum_ns", *IDLE, range_names=range_names) == expected


@pytest.mark.parametrize(("range_names", "during"), [("grouped", ("aten::to", 180)),
                                                     ("exact", ("save", 120))])  # fmt: skip
def test_a_gap_is_named_by_the_group_with_most_time(range_names: str, during: tuple[str, int]) -> None:
    assert cell("idle_gaps during during_ns", *IDLE, range_names=range_names) == during


test_names_of_ranges = hand_computed(
    # Of the ranges of 100, 20 and 30 ns, each of which has a name of its own.
    ("ranges of one group are one row", "ranges path range_count range_sum_ns self_sum_ns", EXAMPLE,
     [("ProfilerStep*", 2, 400 + 300, 700 - 100 - 20 - 30),
      ("ProfilerStep*/aten::to", 3, 100 + 20 + 30, 150)]),
    ("ranges of one group are one row (2)", "ranges avg_ns med_ns min_ns max_ns", EXAMPLE,
     [(350, 350, 300, 400), (50, 30, 20, 100)]),
    ("exact names are those that were recorded", "ranges path range_sum_ns self_sum_ns", EXAMPLE,
     [("ProfilerStep#7", 400, 280), ("ProfilerStep#7/aten::to, op_id = 12", 100, 100),
      ("ProfilerStep#7/aten::to, op_id = 15", 20, 20), ("ProfilerStep#8", 300, 270),
      ("ProfilerStep#8/aten::to, op_id = 31", 30, 30)], {"range_names": "exact"}),
    ("a name that is alone in its group is the group s", "ranges path tree",
     (Range(0, 10, "ProfilerStep#7"),), [("ProfilerStep*", "ProfilerStep*")]),
    ("a range and an operator of one name are one row",
     "ranges:operators path range_count range_sum_ns",
     (Range(0, 10, "aten::mm, op_id = 1"), Operator(20, 50, "aten::mm.out")), [("aten::mm", 2, 40)]),
    ("operators of a group are one activity", "idle_host activity name host_sum_ns",
     (*IDLE[:4], Operator(100, 150, "aten::div_.Scalar"), Operator(200, 240, "aten::div_.Tensor")),
     [("outside", "[nothing recorded]", 210), ("operator", "aten::div_", 90)]),
)  # fmt: skip


@pytest.mark.parametrize("range_names", ["grouped", "exact"])
def test_findings_speak_of_groups(range_names: str) -> None:
    long = [row._replace(start=row.start * 10_000, end=row.end * 10_000) for row in IDLE]  # type: ignore[union-attr, operator]
    rows = answers("findings", *long, range_names=range_names)
    (finding,) = [row["finding"] for row in rows if row["rule"] == "host_bound"]
    assert "in range aten::to." in finding


@pytest.mark.parametrize(("report", "column"), [
    ("nvtx_sum", "name"), ("nvtx_pushpop_trace", "name"), ("timeline_events", "name"),
])  # fmt: skip
def test_names_of_other_tables_are_as_recorded(report: str, column: str) -> None:
    names = {row[column].removeprefix(":") for row in answers(report, *EXAMPLE)}
    assert names == {span.text for span in EXAMPLE}


def test_steps_are_found_and_called_by_what_was_recorded() -> None:
    steps = [row["step"] for row in answers("steps", *EXAMPLE) if row["occurrence"]]
    assert steps == ["ProfilerStep#7", "ProfilerStep#8"]
    (step, inside) = answers("ranges", *EXAMPLE, part=Slice(step="ProfilerStep#8"))
    assert (step["range_sum_ns"], inside["range_sum_ns"]) == (300, 30)
    (inside,) = answers("ranges", *EXAMPLE, part=Slice(range="aten::to, op_id = 15"))[1:]
    assert inside["range_sum_ns"] == 20


def test_arguments_of_an_old_version_are_no_part_of_a_name() -> None:
    assert split_name("MmBackward0, stashed seq = 3, op_id = 4").name == "MmBackward0"


# -- comparisons


def changes(tmp_path: Path, report: str, range_names: str) -> list[tuple[Any, ...]]:
    sides = tmp_path / "base.db", tmp_path / "other.db"
    for path, number, more in zip(sides, (7, 9), (0, 30), strict=True):
        write(path, Range(0, 900 + more, f"ProfilerStep#{number}"), *IDLE[:4],
              Range(100, 300 + more, f"aten::to, op_id = {number}"))  # fmt: skip
    (found,) = api.compare(*sides, [report], range_names=range_names).reports
    names = {"ranges": ("path", "where", "diff_range_sum_ns"),
             "idle_host": ("name", "where", "diff_host_sum_ns")}  # fmt: skip
    return sorted(picked(found.rows(), *names[report]))


@pytest.mark.parametrize(("report", "range_names", "expected"), [
    ("ranges", "grouped", [("ProfilerStep*", "both", 30), ("ProfilerStep*/aten::to", "both", 30)]),
    # Exact names match as they are.
    ("ranges", "exact", [
        ("ProfilerStep#7", "only in base", -900),
        ("ProfilerStep#7/aten::to, op_id = 7", "only in base", -200),
        ("ProfilerStep#9", "only in other", 930),
        ("ProfilerStep#9/aten::to, op_id = 9", "only in other", 230)]),
    ("idle_host", "grouped", [("ProfilerStep*", "both", -30), ("aten::to", "both", 30)]),
    # Exact activities match without numbers of operators.
    ("idle_host", "exact", [("ProfilerStep#7", "only in base", -100),
                            ("ProfilerStep#9", "only in other", 70), ("aten::to", "both", 30)]),
])  # fmt: skip
def test_names_of_two_sides(
    report: str, range_names: str, expected: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    assert changes(tmp_path, report, range_names) == expected


# -- how it is asked for


def test_other_words_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.db"
    write(path, *EXAMPLE)
    with api.open(path) as profile:
        asked = [
            lambda: profile.report("ranges", range_names="short"),
            lambda: profile.reports("ranges", range_names="short"),
            lambda: api.report_on(path, "ranges", range_names="short"),
            lambda: api.page(path, "ranges", range_names="short"),
            lambda: api.compare(path, path, "ranges", range_names="short"),
        ]
        for ask in asked:
            with pytest.raises(UsageError, match="no range names 'short'") as refused:
                ask()
            assert refused.value.hint == "There are: grouped, exact"


def test_every_way_to_ask_passes_it_on(tmp_path: Path) -> None:
    path = tmp_path / "small.db"
    write(path, *EXAMPLE)
    for range_names, count in (("grouped", 2), ("exact", 5)):
        with api.open(path) as profile:
            found = [*profile.reports("ranges", range_names=range_names)]
        found += api.report_on(path, "ranges", range_names=range_names)
        found += api.page(path, "ranges", range_names=range_names)
        assert [report.row_count for report in found] == [count] * 3


# -- a recording with emit_nvtx

AFTER, BEFORE = (
    REAL / "nsys_sqlite" / f"GindaChen+nsys-ai__mfu_2gpu_{which}.sqlite" for which in ("after", "before")
)


@real
def test_a_recording_of_operators_has_rows_that_people_can_read() -> None:
    with api.open(AFTER) as profile:
        grouped = profile.report("ranges").rows()
        exact = profile.report("ranges", range_names="exact").rows()
    assert (len(grouped), len(exact)) == (256, 16_993)
    assert not [row["path"] for row in grouped if " = " in row["path"]]
    for name in ("range_count", "range_sum_ns", "self_sum_ns", "kernel_sum_ns", "projected_sum_ns"):
        assert sum(row[name] for row in grouped) == sum(row[name] for row in exact)
    (top,) = [row for row in grouped if row["path"] == "aten::to"]
    mine = [row for row in exact if row["path"].startswith("aten::to, ") and row["level"] == 0]
    assert (top["range_count"], top["min_ns"], top["max_ns"]) == (
        sum(row["range_count"] for row in mine), min(row["min_ns"] for row in mine),
        max(row["max_ns"] for row in mine))  # fmt: skip


@real
@pytest.mark.slow
def test_two_recordings_of_operators_have_most_rows_in_common() -> None:
    (grouped,) = api.compare(BEFORE, AFTER, "ranges").reports
    (exact,) = api.compare(BEFORE, AFTER, "ranges", range_names="exact").reports
    matched, exactly = (sum(row["where"] == "both" for row in each.rows()) for each in (grouped, exact))
    assert (matched, exactly) == (216, 0)
