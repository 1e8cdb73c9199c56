"""Tables of nsys as locales print their numbers: the same numbers come out of all of them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from conftest import Row, by_turns, event_rows, few
from importing import only_note as note
from importing import profiles as imported
from importing import read, slugs, totals_of
from nsys_stats_tables import AGES, Rows
from test_importer_nsys_stats import LOCALES
from write_nsys_stats import PLAIN, Locale, column, stats, table

from nsysconv.notes import Severity

NEW = AGES["2025"]
every_locale = pytest.mark.parametrize("locale", few(LOCALES.values(), 3))
every_way = pytest.mark.parametrize(
    ("locale", "layout"), by_turns(LOCALES.values(), [column, table], 2)
)
Layout = Callable[[Rows, Locale], str]


def times(report: str, count: str, name: str, *rows: tuple[object, ...]) -> Rows:
    """A table of times: share, total, count, mean, median, least, greatest, deviation, name."""
    header = (*NEW.time[:2], count, *NEW.time[2:], name)
    cells = tuple(tuple(Decimal(c) if isinstance(c, str) and c[0].isdigit() else c for c in row)
                  for row in rows)  # fmt: skip
    return Rows(report, header, cells)  # type: ignore[arg-type]


KERNELS = times(
    "kernels", "Instances", "Name",
    ("96.1", 44_345_211_450, 38_928, "1139159.8", "21712.0", 9_120, 1_234_567_890, "88306.6", "k_a"),
    ("3.9", 1_800_000_000, 10_000, "180000.0", "999.0", 672, 1_219_152, "0.0", "k_b"),
    ("0.0", 123, 1, "123.0", "123.0", 123, 123, "0.0", "k_c"),
)  # fmt: skip
COPIES = times(
    "copies", "Count", "Operation",
    ("100.0", 2_218_247_417, 12_981, "170884.2", "147586.0", 672, 1_219_152, "68497.3",
     "[CUDA memcpy Host-to-Device]"),
)  # fmt: skip
SIZES = Rows(
    "sizes", ("Total (MB)", "Count", "Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)",
              "Operation"),
    ((Decimal("26959.009"), 12_981, Decimal("2.077"), Decimal("2.077"), Decimal("0.000"),
      Decimal("12345.678"), Decimal("0.095"), "[CUDA memcpy Host-to-Device]"),),
)  # fmt: skip
CALLS = times(
    "api", "Num Calls", "Name",
    ("60.0", 600, 2, "300.0", "300.0", 100, 500, "282.8", "cudaMalloc"),
    ("40.0", 400, 4, "100.0", "100.0", 70, 130, "25.8", "cudaFree"),
)  # fmt: skip
TRACE = Rows(
    "gpu_trace",
    ("Start (ns)", "Duration (ns)", "CorrId", "GrdX", "Bytes (MB)", "Throughput (MB/s)", "Device", "Ctx",
     "Strm", "Name"),
    ((7_000_000, 12_345, 1_003, 32_768, None, None, "GPU (0)", 1, 7, "k_a"),
     (7_100_000, 2_000, 104, None, Decimal("1234.567"), Decimal("617283500.000"), "GPU (0)", 1, 13,
      "[CUDA memcpy Host-to-Device]")),
)  # fmt: skip


def totals(kind: str, rows: Rows) -> list[Row]:
    """The rows that a table of times tells."""
    return [
        {"kind": kind, "count": row[2], "sum_ns": row[1], "min_ns": row[5], "max_ns": row[6],
         "med_ns": float(row[4]), "stddev_ns": float(row[7])}  # type: ignore[arg-type]
        for row in rows.cells
    ]  # fmt: skip


def without_names(rows: list[Row]) -> list[Row]:
    return [{k: v for k, v in row.items() if k not in ("name", "layer")} for row in rows]


@every_way
def test_times_are_read_in_every_locale(locale: Locale, layout: Layout) -> None:
    with read(layout(KERNELS, locale)) as profile:
        assert without_names(totals_of(profile)) == totals("kernel", KERNELS)
        assert slugs(profile) == {"processes-merged"}


@every_locale
def test_small_numbers_without_groups_are_read_in_every_locale(locale: Locale) -> None:
    with read(column(CALLS, locale)) as profile:
        assert without_names(totals_of(profile)) == totals("api_call", CALLS)


@every_way
def test_sizes_are_read_in_every_locale(locale: Locale, layout: Layout) -> None:
    """Thousandths of 10^6 bytes: to 1000 bytes."""
    with read(layout(COPIES, locale) + "\n" + layout(SIZES, locale)) as profile:
        (row,) = totals_of(profile)
    assert (row["count"], row["sum_ns"], row["bytes_sum"], row["bytes_min"], row["bytes_max"]) == (
        12_981, 2_218_247_417, 26_959_009_000, 0, 12_345_678_000)  # fmt: skip


@every_way
def test_traces_are_read_in_every_locale(locale: Locale, layout: Layout) -> None:
    with read(layout(TRACE, locale)) as profile:
        (kernel,), (copy,) = event_rows(profile, "kernel"), event_rows(profile, "memcpy")
        assert slugs(profile) <= {"rounded-bytes"}
    assert [kernel[c] for c in ("start_ns", "dur_ns", "correlation_id", "grid_x")] == [
        7_000_000, 12_345, 1_003, 32_768]  # fmt: skip
    # 2000 ns fit 500,000 times into a second: 617,283,500 MB/s are 1,234,567,000 bytes.
    assert (copy["start_ns"], copy["dur_ns"]) == (7_100_000, 2_000)
    assert copy["bytes"] == pytest.approx(1_234_567_000, abs=500)


@every_locale
def test_all_tables_of_a_console_are_read_in_every_locale(locale: Locale, tmp_path: Path) -> None:
    both = []
    for which in (locale, PLAIN):
        path = tmp_path / f"{len(both)}.txt"
        path.write_text(stats(NEW, [CALLS, KERNELS, COPIES, SIZES], which), encoding="utf-8")
        with imported(path) as (profile,):
            both.append(totals_of(profile))
    assert both[0] == both[1]
    assert len(both[0]) == 2 + 3 + 1


def test_one_locale_is_that_of_all_cells_of_a_table() -> None:
    """`1,2981` and `121,9152` look like decimals where they stand alone; the sum has two groups."""
    header = " Time (%)  Total Time (ns)  Instances   Avg (ns)   Max (ns)  Name\n"
    rules = " --------  ---------------  ---------  ---------  ---------  ----\n"
    rows = "    100.0     22,1824,7417     1,2981  17,0884.2   121,9152  k   \n"
    with read(header + rules + rows) as profile:
        (row,) = totals_of(profile)
    assert (row["count"], row["sum_ns"], row["max_ns"]) == (12_981, 2_218_247_417, 1_219_152)


def test_a_cell_of_another_locale_than_its_table_is_left_out() -> None:
    """`1,2345` is no number of a table in groups of three; nothing is made of it."""
    header = "Time (%)  Total Time (ns)  Instances  Avg (ns)  Min (ns)  Max (ns)   Name\n"
    rules = "--------  ---------------  ---------  --------  --------  ---------  ----\n"
    rows = ("    90.0        9,000,000          2  4,500,000.0    1,2345  8,900,000  a\n"
            "    10.0        1,000,000          1  1,000,000.0  1,000,000  1,000,000  b\n")  # fmt: skip
    with read(header + rules + rows) as profile:
        first, second = totals_of(profile)
        unreadable = note(profile, "cell-unreadable")
    assert ("min_ns" in first, first["sum_ns"], first["max_ns"]) == (False, 9_000_000, 8_900_000)
    assert second["min_ns"] == 1_000_000
    assert (unreadable.severity, unreadable.count, unreadable.where) == (
        Severity.DROPPED, 1, "line 3")  # fmt: skip


def test_a_row_without_a_readable_count_is_left_out() -> None:
    header = "Time (%)  Total Time (ns)  Instances  Name\n--------  ---------------  ---------  ----\n"
    rows = "    90,0        9.000.000     1,2981  a\n    10,0        1.000.000      1.298  b\n"
    with read(header + rows) as profile:
        assert [(row["name"], row["count"]) for row in totals_of(profile)] == [("b", 1298)]
        assert note(profile, "line-unreadable").count == 1


def test_a_cell_of_a_total_that_may_be_one_or_a_thousand_is_left_out() -> None:
    """A median of three digits behind a point, and nothing that tells what that marks."""
    header = "| Time (%) | Total Time (ns) | Instances | Med (ns) | Name |\n|--|--|--|--|--|\n"
    text = f"{header}| 100 | 999 | 3 | 1.234 | k |\n"
    with read(text) as profile:
        (row,) = totals_of(profile)
        assert (row["count"], row["sum_ns"], row.get("med_ns")) == (3, 999, None)
        assert note(profile, "number-ambiguous").count == 1


def test_unreadable_cells_of_a_trace_are_noted() -> None:
    """The row stays: it says when, how long and what."""
    text = "Start (ns),Duration (ns),CorrId,Strm,Name\n1000,500,x7,13,k\n2000,600,-,13,k\n"
    with read(text) as profile:
        assert [row["correlation_id"] for row in event_rows(profile, "kernel")] == [None, None]
        assert note(profile, "cell-unreadable").count == 1
