"""Text: what a person sees, at which width, and that no name steers a terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from nasty import (
    LARGEST,
    LONG_KERNEL,
    LONG_WORD,
    NAMES,
    SMALLEST,
    all_reports,
    empty_report,
    nasty_report,
    two_profiles,
    unrecorded_report,
)
from rich.cells import cell_len
from test_render import encoded, kept, rendered

from nsysconv.document import Section
from nsysconv.names import escaped
from nsysconv.notes import Note, Severity
from nsysconv.render import Options
from nsysconv.render.display import display_column
from nsysconv.render.text import notes_text
from nsysconv.report import Column, ProfileRef, Unit, build_table

KERNELS = (
    Column("profile", Unit.TEXT, "Profile.", key=True),
    Column("rank", Unit.ID, "Rank.", key=True),
    Column("device_id", Unit.ID, "Device.", key=True),
    Column("name", Unit.TEXT, "Kernel.", key=True),
    Column("kernel_count", Unit.COUNT, "Kernels.", better="less"),
    Column("kernel_sum_ns", Unit.NS, "Time.", better="less"),
    Column("kernel_pct", Unit.PCT, "Share."),
    Column("avg_ns", Unit.NS, "Mean.", real=True),
    Column("min_ns", Unit.NS, "Minimum.", brief=False),
    Column("stddev_ns", Unit.NS, "Deviation.", real=True, brief=False),
    Column("queue_avg_ns", Unit.NS, "Never recorded here.", real=True),
)
SGEMM = "ampere_sgemm_128x64_tn"
FILL = "void at::native::fill_kernel<4, at::native::FillFunctor<float>>(int, float*, float)"


def kernels(**changes: Any) -> Section:
    data: dict[str, list[Any]] = {
        "profile": ["base"] * 3,
        "rank": [None] * 3,
        "device_id": [0, 0, 1],
        "name": [SGEMM, FILL, None],
        "kernel_count": [120_000, 12, 1],
        "kernel_sum_ns": [812_345_678, 1_234_567, 89],
        "kernel_pct": [99.848, 0.1517, 0.00001],
        "avg_ns": [6769.5, 102_880.58, None],
        "min_ns": [1000, 90_000, 0],
        "stddev_ns": [12.25, 1.5, 0.0],
        "queue_avg_ns": [None] * 3,
    }
    report = Section(
        "kernels",
        "Kernels by time",
        KERNELS,
        build_table(KERNELS, data),
        (ProfileRef(1, "base", "made up", "/data/base.db"),),
        {"start_ns": 0, "end_ns": 1_500_000_001},
        (
            Note("graph-intervals", Severity.INFO, "Graphs are intervals.", 3, "row 7"),
            Note("negative-duration", Severity.DROPPED, "Rows were left out.", 1, "row 2"),
            Note("no-gpu-work", Severity.INFO, "Nothing.", 2000),
        ),
        row_count=312,
    )
    return replace(report, **changes)


HEADER_AT_160 = (
    "device_id  name  kernel_count  kernel_sum  kernel (%)  avg  min  stddev"
)

def test_80_columns() -> None:
    """812345678 ns -> 812 ms; 102880.58 ns -> 103 µs; 1234567 ns -> 1.23 ms: three digits and a unit."""
    assert rendered("text", kernels(), options=Options(width=80)) == kept("kernels-80.text")


def test_160_columns_have_room_for_all() -> None:
    lines = rendered("text", kernels(), options=Options(width=160)).splitlines()
    assert re.sub(" +", " ", lines[1]) == re.sub(" +", " ", HEADER_AT_160)
    assert "not shown" not in "".join(lines)
    assert "fill_kernel<…>" in lines[4] or "fill_kernel<4" in lines[4]


def test_not_a_terminal() -> None:
    columns = KERNELS[:6]
    data = {
        "profile": ["base"],
        "rank": [None],
        "device_id": [0],
        "name": [SGEMM],
        "kernel_count": [120_000],
        "kernel_sum_ns": [8_123_456_789],
    }
    report = kernels(columns=columns, table=build_table(columns, data), row_count=1)
    assert rendered("text", replace(report, slice=None, notes=())) == kept("full.text")


def test_not_a_terminal_has_everything_in_full() -> None:
    text = rendered("text", nasty_report())
    lines = text.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    for name in NAMES:
        assert name is None or escaped(name).strip() in text
    assert "never" in lines[1]
    assert "profile" in lines[1]
    assert "not shown" not in text
    # One name of 4,000 characters does not push every other row's numbers to column 4,000.
    assert sorted(map(len, lines))[len(lines) // 2] < 500


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("width", [1, 20, 40, 80, 160, 1000])
@pytest.mark.parametrize("report", all_reports(), ids=lambda report: report.name)
def test_never_wider_than_the_terminal(report: Section, width: int, encoding: str) -> None:
    text = encoded("text", encoding, report, options=Options(width=width))
    for line in text.split("\n"):
        assert cell_len(line) <= max(width, 20)
        assert line.isprintable()
        assert line == line.rstrip()


names = st.text(max_size=120) | st.sampled_from([LONG_KERNEL, LONG_WORD, "核" * 50])
ints = st.none() | st.integers(SMALLEST, LARGEST) | st.integers(-10, 10)
floats = st.none() | st.floats()


@examples(150)
@given(
    width=st.integers(20, 200),
    rows=st.lists(st.tuples(st.none() | names, st.none() | names, *[ints] * 4, *[floats] * 3)),
    brief=st.lists(st.booleans(), min_size=9, max_size=9),
    title=names,
)
def test_never_wider_than_any_terminal(
    width: int, rows: list[tuple[Any, ...]], brief: list[bool], title: str
) -> None:
    texts = [("name", Unit.TEXT, True), ("thread", Unit.TEXT, False)]
    whole = [
        ("device_id", Unit.ID, True),
        ("bucket_min_bytes", Unit.BYTES, True),
        ("call_count", Unit.COUNT, False),
        ("api_sum_ns", Unit.NS, False),
    ]
    real = [
        ("avg_ns", Unit.NS, False),
        ("idle_pct", Unit.PCT, False),
        ("x_bytes", Unit.BYTES, False),
    ]
    columns = tuple(
        Column(name, unit, "", key=key, brief=brief[i], real=i > 5)
        for i, (name, unit, key) in enumerate([*texts, *whole, *real])
    )
    data = {column.name: [row[i] for row in rows] for i, column in enumerate(columns)}
    report = Section("r", title, columns, build_table(columns, data), row_count=len(rows))
    text = rendered("text", report, options=Options(width=width))
    for line in text.split("\n"):
        assert cell_len(line) <= width
        assert line.isprintable()
    assert not rows or len(text.splitlines()) >= len(rows)


def test_names_are_no_markup_and_no_commands() -> None:
    text = rendered("text", nasty_report(), options=Options(width=1000))
    assert "[bold]markup[/bold] [/] [link=file:///etc/passwd]x[/link] :smile: [red" in text
    assert r"\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b31m bell\x07 delete\x7f" in text
    assert r"tab\there, line\nbreak, carriage\rreturn" in text
    assert r"lone surrogates \ud800 and \udfff here" in text


def test_color_adds_only_styles_around_lines() -> None:
    plain = rendered("text", nasty_report(), options=Options(width=80))
    colored = rendered("text", nasty_report(), options=Options(width=80, color=True))
    assert "\x1b[1m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_no_escape_sequences_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in rendered("text", nasty_report(), options=Options(width=80))


def test_a_stream_without_utf_8() -> None:
    lines = encoded("text", "ascii", kernels(), options=Options(width=80)).splitlines()
    assert lines[2].split() == ["%"]
    assert lines[4].endswith("6.77 us")
    assert set(lines[3]) == {"-", " "}
    assert "fill_kernel<4, Fil...oat>>" in lines[5]
    assert lines[7] == "... 3 of 312 rows, --limit 0 shows all"


def test_the_profile_column_shows_where_there_are_several() -> None:
    def header(report: Section) -> list[str]:
        lines = rendered("text", report, options=Options(width=1000)).splitlines()
        return next(line.split() for line in lines if "device_id" in line)

    assert "profile" not in header(nasty_report())
    # The made-up rows are all of one of the two.
    text = rendered("text", two_profiles(), options=Options(width=1000))
    assert "\nthe same in all rows shown: profile " in text
    assert "rank" not in header(two_profiles())


def test_40_columns_keep_a_number() -> None:
    lines = rendered("text", kernels(), options=Options(width=40)).splitlines()
    assert lines[2].split() == ["device_id", "name", "kernel_count"]
    assert lines[4].split() == ["0", "ampere_sg…64_tn", "120,000"]
    assert "not shown in 40 columns: kernel_sum," in lines


def test_no_rows_and_not_recorded() -> None:
    empty = rendered("text", replace(empty_report(), notes=(), slice=None))
    assert empty.splitlines()[1:] == ["No rows."]
    sliced = rendered("text", replace(empty_report(), notes=()))
    assert sliced.splitlines()[1:] == ["No rows in this selection."]
    assert rendered("text", replace(unrecorded_report(), notes=())).splitlines()[1:] == [
        "Not recorded in this profile: kernel <events>, API|calls.",
        "Record with `--trace=cuda`.",
        r"Then\x1b[2J import again.",
    ]
    assert notes_text(replace(unrecorded_report(), notes=(), slice=None)).startswith(
        "unrecorded: Not recorded in this profile: kernel <events>"
    )


def test_notes_text() -> None:
    assert notes_text(kernels()) == (
        "kernels: slice 0 ns to 1.500000001 s\n"
        "kernels: … 3 of 312 rows, --limit 0 shows all\n"
        "kernels: [1] dropped negative-duration: Rows were left out. (at row 2)\n"
        "kernels: [2] note graph-intervals: Graphs are intervals. (3 times, first at row 7)\n"
        "kernels: [3] note no-gpu-work: Nothing. (2,000 times)\n"
    )
    assert notes_text(kernels(notes=(), row_count=3, slice=None)) == ""
    for report in all_reports():
        for line in notes_text(report, width=60).split("\n"):
            assert cell_len(line) <= 60
            assert line.isprintable()


def cells(unit: Unit, *values: float | None, key: bool = False, real: bool = False) -> list[str]:
    column = display_column(Column(f"x_{unit.name.lower()}", unit, "", key=key, real=real), values)
    return [column.header, *column.cells]


def test_one_unit_per_column() -> None:
    assert cells(Unit.NS, 999, 0, None) == ["x (ns)", "999", "0", "-"]
    assert cells(Unit.NS, 1000, 1) == ["x (µs)", "1.000", "0.001"]
    assert cells(Unit.NS, 2_500_000, 1234) == ["x (ms)", "2.500", "0.001"]
    assert cells(Unit.NS, -3_000_000_000, 400_000) == ["x (s)", "-3.000", "<0.001"]
    assert cells(Unit.NS, -400_000, 3_000_000_000) == ["x (s)", ">-0.001", "3.000"]
    assert cells(Unit.NS, 47.5, 41.13, real=True) == ["x (ns)", "47.5", "41.1"]
    assert cells(Unit.BYTES, 1_234_567_890) == ["x (GB)", "1.235"]
    assert cells(Unit.BYTES, 1024) == ["x (kB)", "1.024"]
    assert cells(Unit.BYTES_PER_S, 12_345_678_901.0) == ["x (GB/s)", "12.346"]
    assert cells(Unit.FLOP_PER_S, 989e12, 1e9) == ["x (TFLOP/s)", "989.000", "0.001"]
    assert cells(Unit.PCT, 97.0, 0.004, -0.0) == ["x (%)", "97.00", "<0.01", "0.00"]
    assert cells(Unit.COUNT, LARGEST, SMALLEST) == [
        "x_count",
        "9,223,372,036,854,775,807",
        "-9,223,372,036,854,775,807",
    ]
    assert cells(Unit.ID, 1_234_567) == ["x_id", "1234567"]
    assert cells(Unit.PCT, 1e308) == ["x (%)", "1e+308"]
    assert cells(Unit.NS) == ["x (ns)"]


def test_keys_are_never_rounded_into_each_other() -> None:
    buckets = (0, 1000, 10_000, 1_000_000_000)
    assert cells(Unit.NS, *buckets) == ["x (s)", "0.000", "<0.001", "<0.001", "1.000"]
    assert cells(Unit.NS, *buckets, key=True) == ["x (ms)", "0.000", "0.001", "0.010", "1,000.000"]
    starts = (5_000_100_000, 5_000_200_000)
    assert cells(Unit.NS, *starts, key=True) == ["x (ms)", "5,000.100", "5,000.200"]
