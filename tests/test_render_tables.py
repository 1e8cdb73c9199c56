"""Tables that are read: three digits with their unit, what rows share said once, names kept apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import NSYS, REAL_FILES, REAL_TRACES, few, name_of, real
from golden_cases import run
from hypothesis import given
from hypothesis import strategies as st
from test_render import rendered

import nsysconv
from nsysconv.document import Picture, Section
from nsysconv.names import shorten, shorten_apart, shorten_kernel
from nsysconv.notes import Note, Severity
from nsysconv.queries import CORE
from nsysconv.render import Options
from nsysconv.render.display import own_unit_column
from nsysconv.report import Column, Unit, build_table

# -- cells

TIMES = {
    0: "0", 1: "1 ns", 999: "999 ns", 1000: "1.00 µs", 1234: "1.23 µs", 9_994: "9.99 µs",
    9_996: "10.0 µs", 99_940: "99.9 µs", 99_960: "100 µs", 999_400: "999 µs", 999_600: "1.00 ms",
    1_340_000_000: "1.34 s",
    -562_000: "-562 µs", 4_000_000_000_000: "4,000 s",
}  # fmt: skip


@pytest.mark.parametrize("ns", TIMES)
def test_a_time_has_three_digits_and_its_unit(ns: int) -> None:
    shown = own_unit_column(Column("sum_ns", Unit.NS, ""), [ns])
    assert (shown.header, shown.cells[0].rstrip()) == ("sum", TIMES[ns])


def test_units_are_below_each_other() -> None:
    shown = own_unit_column(Column("sum_ns", Unit.NS, ""), [1_500_000_000, 20_000, 0, None])
    assert shown.cells == ("1.50 s ", "20.0 µs", "0   ", "-")


def test_sizes_and_means() -> None:
    assert own_unit_column(Column("bytes", Unit.BYTES, ""), [1572]).cells == ("1.57 kB",)
    assert own_unit_column(Column("avg_ns", Unit.NS, "", real=True), [4.25]).cells == ("4.2 ns",)


def test_moments_are_not_rounded_into_each_other() -> None:
    starts = own_unit_column(Column("window_start_ns", Unit.NS, ""), [155_000_000_000, 155_000_762_000])
    assert (starts.header, starts.cells) == ("window_start (s)", ("155.000", "155.001"))


def test_classes_are_called_by_their_bounds_and_other_keys_are_not_rounded() -> None:
    bounds = own_unit_column(Column("bucket_min_ns", Unit.NS, "", key=True), [0, 1000, 10_000])
    assert (bounds.header, bounds.cells) == ("bucket", ("≥ 0 ns", "≥ 1 µs", "≥ 10 µs"))
    starts = own_unit_column(Column("start_ns", Unit.NS, "", key=True), [1_000_001, 1_000_002])
    assert len(set(starts.cells)) == 2


# -- rows

COLUMNS = (
    Column("rank", Unit.ID, "", key=True),
    Column("name", Unit.TEXT, "", key=True),
    Column("call_count", Unit.COUNT, ""),
    Column("own_sum_ns", Unit.NS, "", counted_by="call_count"),
    Column("own_pct", Unit.PCT, ""),
    Column("copied_ns", Unit.NS, ""),
    Column("kind", Unit.TEXT, ""),
)


def table_of(
    *rows: tuple[Any, ...], name: str = "made", columns: Sequence[Column] = COLUMNS, **told: Any
) -> Section:
    data = {column.name: [row[i] for row in rows] for i, column in enumerate(columns)}
    table = build_table(columns, data)
    return Section(name, name.title(), tuple(columns), table, row_count=len(rows), **told)


def lines_of(*reports: Section, width: int | None = 100) -> list[str]:
    return rendered("text", *reports, options=Options(width=width)).splitlines()


def test_what_all_rows_share_is_said_above_them() -> None:
    lines = lines_of(table_of((3, "a", 2, 10, 40.0, 0, "x"), (3, "b", 1, 15, 60.0, 0, "x")))
    assert lines[1:3] == ["the same in all rows: rank 3, kind x", "0 in all rows: copied"]
    assert lines[3].split() == ["name", "own", "(%)", "own_sum", "call_count"]
    assert lines[5].split() == ["a", "40.00", "10", "ns", "2"]


def test_of_one_row_all_is_shown_but_zeros() -> None:
    lines = lines_of(table_of((3, "a", 2, 10, 40.0, 0, "x")))
    assert lines[1] == "all 0: copied"
    assert lines[2].split() == ["rank", "name", "own", "(%)", "own_sum", "call_count", "kind"]


def test_keys_that_all_rows_share_are_said_once_where_another_is_different() -> None:
    lines = lines_of(table_of((1, "a", 2, 1, 1.0, 5, "x"), (2, "a", 3, 1, 1.0, 6, "x")))
    assert lines[1].startswith("the same in all rows: name a, ")
    assert lines[2].split()[0] == "rank"


ORDERED = (
    Column("name", Unit.TEXT, "", key=True),
    Column("host_sum_ns", Unit.NS, ""),
    Column("self_sum_ns", Unit.NS, ""),
    Column("self_pct", Unit.PCT, ""),
)


def test_what_rows_are_ordered_by_comes_first_with_its_share() -> None:
    told: dict[str, Any] = {"columns": ORDERED, "leads": ("self_sum_ns", "host_sum_ns")}
    lines = lines_of(table_of(("a", 5, 9, 90.0), ("b", 7, 1, 10.0), **told))
    assert lines[1].split() == ["name", "self", "(%)", "self_sum", "host_sum"]
    # Where that is 0 in all rows, the next decides.
    lines = lines_of(table_of(("a", 7, 0, 0.0), ("b", 5, 0, 0.0), **told))
    assert lines[1] == "0 in all rows: self_sum, self (%)"
    assert lines[2].split() == ["name", "host_sum"]


def test_columns_that_would_be_called_the_same_keep_their_units() -> None:
    columns = (
        Column("during", Unit.TEXT, ""), Column("during_ns", Unit.NS, ""),
        Column("idle_ns", Unit.NS, ""), Column("idle_pct", Unit.PCT, ""))  # fmt: skip
    report = table_of(("a", 1, 1, 1), ("b", 2, 2, 2), columns=columns)
    assert lines_of(report)[1].split() == ["during", "during_ns", "idle", "idle", "(%)"]
    assert "not shown in 20 columns: idle, idle (%);" in " ".join(
        map(str.strip, lines_of(report, width=20)))  # fmt: skip


def test_a_single_row_goes_on_below() -> None:
    """What has no room has its value there, and not its name alone."""
    columns = (Column("name", Unit.TEXT, "", key=True), Column("dur_ns", Unit.NS, ""),
               Column("kernel_count", Unit.COUNT, ""), Column("busy_pct", Unit.PCT, ""))  # fmt: skip
    report = table_of(("a kernel", 1500, 12, 33.3), columns=columns)
    assert lines_of(report, width=20)[-2:] == ["also: kernel_count", "    12, busy 33.30 %"]
    assert not [line for line in lines_of(report, width=80) if "also" in line]


def test_prose_lose_their_end_and_names_their_middle() -> None:
    columns = (Column("name", Unit.TEXT, "", key=True), Column("why", Unit.TEXT, ""))
    rows = (("n" * 60, "each call 40 % longer, called 11 % less often"), ("m", "longer"))
    report = table_of(*rows, columns=columns, words=frozenset({"why"}))
    assert lines_of(report, width=60)[3].split("n  ")[1] == "each call 40 % longer, called 11…"


def test_values_that_only_look_alike_are_not_said_once() -> None:
    """963.1 ms and 963.2 ms."""
    rows = ((1, "a", 2, 1, 1.0, 963_100_000, "x"), (1, "b", 1, 1, 1.0, 963_200_000, "y"))
    assert "copied" in lines_of(table_of(*rows))[2].split()


def test_wide_has_all_columns() -> None:
    lines = lines_of(table_of((3, "a", 2, 10, 40.0, 0, "x"), (3, "b", 1, 15, 60.0, 0, "x")), width=None)
    assert lines[1].split()[:2] == ["rank", "name"]
    assert "all rows" not in "".join(lines)


def test_wide_has_names_without_bounds_last() -> None:
    """Where nothing is cut what follows a long name would be out of line."""
    rows = (3, "k" * 300, 2, 10, 40.0, 5, "x"), (3, "b", 1, 15, 60.0, 6, "x")
    lines = lines_of(table_of(*rows), width=None)
    assert lines[1].split()[-1] == "name"
    assert [line.index("ns") for line in lines[3:]] == [lines[3].index("ns")] * 2


def test_a_heading_says_over_how_many_devices_its_sums_are() -> None:
    columns = (*COLUMNS, Column("device_count", Unit.COUNT, "", optional=True, distinct=True))
    for count, said in ((3, "Made - sums over 3 devices"), (1, "Made"), (None, "Made")):
        rows = [(1, "a", 2, 1, 1.0, 5, "x", 1), (1, "b", 2, 1, 1.0, 5, "x", count)]
        assert lines_of(table_of(*rows, columns=columns))[0] == said


# -- notes and what is missing


def note(slug: str, severity: Severity, count: int = 1, of: int = 0) -> Note:
    return Note(slug, severity, f"Of {slug}.", count, of=of)


def test_notes_of_several_reports_come_once_and_last_gravest_first() -> None:
    mild, grave = note("unlinked-ops", Severity.INFO, 1, 4), note("negative-duration", Severity.DROPPED)
    row = (1, "a", 2, 1, 1.0, 5, "x")
    lines = lines_of(table_of(row, notes=(mild,)), table_of(row, name="other", notes=(mild, grave)))
    assert lines[-3:] == [
        "", "[1] dropped negative-duration: Of negative-duration.",
        "[2] note unlinked-ops: Of unlinked-ops. (1 of 4: 25.0 %)"]  # fmt: skip
    assert "\n".join(lines).count("Of unlinked-ops") == 1


def test_what_cannot_be_answered_is_said_together() -> None:
    told = {"not_recorded": ("kernel events",), "advice": ("Record them.",)}
    missing = [replace(table_of(name=name, **told), table=None) for name in ("kernels", "overview")]
    lines = lines_of(missing[0], table_of((1, "a", 2, 1, 1.0, 5, "x")), missing[1])
    assert lines[-2:] == [
        "", "kernels, overview: Not recorded in this profile: kernel events. Record them."]  # fmt: skip
    assert "Kernels" not in lines
    # Alone it has its title.
    assert lines_of(missing[0])[0] == "Kernels"


# -- names

KERNELS = [
    f"void sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize{size}x8_stage3_warpsize2x2x1_execute_kernel"
    for size in ("128x128", "64x64", "64x128")
]


@pytest.mark.parametrize("width", [24, 40, 60])
def test_names_that_are_cut_stay_apart(width: int) -> None:
    cut = {name: shorten_kernel(name, width) for name in KERNELS}
    shown = shorten_apart(cut, width)
    assert len(set(shown.values())) == 3
    assert max(map(len, shown.values())) <= width
    assert "#" not in "".join(shown.values())
    assert "64x128" in shown[KERNELS[2]]


def test_names_that_are_apart_are_left_alone() -> None:
    cut = {"one": "o", "two": "t"}
    assert shorten_apart(cut, 1) == cut


def test_names_that_differ_too_late_are_numbered() -> None:
    names = {"x" * 50 + "a" * k + "b": "x…" for k in (20, 40)} | {"other": "other"}
    shown = shorten_apart(names, 6)
    assert len(set(shown.values())) == 3
    assert max(map(len, shown.values())) <= 6


@given(st.sets(st.text("ab_", min_size=1, max_size=60), min_size=1, max_size=12), st.integers(8, 20))
def test_names_are_never_alike_and_never_too_long(names: set[str], width: int) -> None:
    shown = shorten_apart({name: shorten(name, width) for name in sorted(names)}, width)
    assert len(set(shown.values())) == len(names)
    assert all(len(text) <= width for text in shown.values())


def test_noise_goes_before_what_distinguishes() -> None:
    name = "void at::native::elementwise_kernel<(int)128, (int)4, at::native::FillFunctor<float>>(int)"
    assert shorten_kernel(name, 60) == "elementwise_kernel<128, 4, FillFunctor<float>>"
    assert shorten_kernel(name, 200) == name


def test_what_is_cut_in_a_tree_stays_set_in() -> None:
    name = Column("name", Unit.TEXT, "", key=True)
    columns = (name, Column("level", Unit.ID, ""), Column("own_ns", Unit.NS, ""))
    rows = [(f"{'aten::scaled_dot_product' * 6}_{i}", i, 3 - i) for i in range(3)]
    picture = Picture("flame", x=("name",), values=("own_ns",), level="level")
    report = table_of(*rows, columns=columns, picture=picture)
    lines = lines_of(report, width=60)[3:6]
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 2, 4]


# -- widths, of real files

REPORTS = (*CORE, "operators", "operator_kernels", "ranges")
_NUMBERED = re.compile(r"(?<!Step)#\d+(?=\s|$)")


def test_a_pipe_is_as_wide_as_columns_says(tmp_path: Path) -> None:
    outcome = run("report", NSYS / "basic-3.25.0.sqlite", "kernels", cwd=tmp_path)
    assert max(map(len, outcome.out.splitlines())) <= 120
    wide = run("report", NSYS / "basic-3.25.0.sqlite", "kernels", "--wide", cwd=tmp_path)
    assert "void <unnamed>::saxpy<float, (int)4>(int, T1, const T1 *, T1 *)" in wide.out
    assert "stddev" in wide.out
    assert "not shown" not in wide.out


@real
@pytest.mark.parametrize("path", few([*REAL_FILES, *REAL_TRACES], 1), ids=name_of)
def test_tables_of_real_files(path: Path) -> None:
    """No line is wider; no two names of a column are shown alike; few need a number."""
    with nsysconv.open(path) as profile:
        answers = profile.reports(REPORTS, limit=20)
    reports = [report for report in answers if report.table is not None]
    for width in (80, 100, 120, 160):
        rows, numbered = 0, 0
        for report in reports:
            lines = lines_of(report, width=width)
            assert max(map(len, lines)) <= width
            rows += len(report.rows())
            numbered += sum(bool(_NUMBERED.search(line)) for line in lines)
            begin = next((i for i, line in enumerate(lines, 1) if line.startswith("──")), len(lines))
            body = lines[begin : begin + len(report.rows())]
            assert all(count == 1 for count in Counter(body).values()), (report.name, width)
        assert numbered <= max(0.02 * rows, 1), width


def test_a_table_that_begins_otherwise_keeps_its_order() -> None:
    """As the overview, which begins with the window."""
    columns = (COLUMNS[1], Column("window_ns", Unit.NS, ""), *COLUMNS[2:5])
    rows = [("a", 9, 2, 10, 40.0), ("b", 8, 1, 15, 60.0)]
    lines = lines_of(table_of(*rows, columns=columns))
    assert lines[1].split() == ["name", "window", "call_count", "own_sum", "own", "(%)"]
