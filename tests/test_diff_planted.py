"""Planted changes are found with the right size, from every pair of sources."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from conftest import few, scratch
from diff_workloads import CHANGES, COPY_BYTES, LATE_NS, SOURCES, STEPS, training

from nsysconv import api
from nsysconv.importers.nvprof_database import reader

pytestmark = pytest.mark.usefixtures("demangled")

Row = dict[str, Any]


@cache
def written(source: str, change: str | None) -> Path:
    """The workload, with a change or without, as that source writes it."""
    workload = training(CHANGES[change]) if change else training()
    return SOURCES[source](workload, scratch())


def changed(pair: tuple[str, str], change: str | None, *reports: str) -> list[Row]:
    base, other = written(pair[0], None), written(pair[1], change)
    found = api.compare(base, other, reports).reports
    assert len(found) == len(reports)
    assert all(report.table is not None for report in found)
    return [row for report in found for row in report.rows()]


every_pair = pytest.mark.parametrize(
    ("pair",), few([(pair,) for pair in product(SOURCES, SOURCES)], 2), ids="-".join
)


def figures(row: Row, measure: str) -> tuple[Any, ...]:
    return tuple(row[f"{which}_{measure}"] for which in ("base", "other", "diff", "by_count", "by_mean"))


@every_pair
def test_no_change_is_no_row(pair: tuple[str, str]) -> None:
    assert changed(pair, None, "kernels", "transfers", "idle_summary") == []


@every_pair
def test_a_slower_kernel(pair: tuple[str, str]) -> None:
    (row,) = changed(pair, "slower", "kernels")
    assert "saxpy" in row["name"]
    launches = 2 * STEPS
    assert (row["base_kernel_count"], row["other_kernel_count"]) == (launches, launches)
    assert figures(row, "kernel_sum_ns") == (
        launches * 40_000, launches * 44_000, launches * 4_000, 0, launches * 4_000)  # fmt: skip
    assert row["ratio_kernel_sum"] == pytest.approx(1.1)
    assert row["verdict"] == "worse"


@every_pair
def test_a_removed_kernel(pair: tuple[str, str]) -> None:
    rows = changed(pair, "removed", "kernels")
    (row,) = [row for row in rows if row["where"] == "only in base"]
    assert "apply" in row["name"]
    spent = 2 * STEPS * 5_000
    assert figures(row, "kernel_sum_ns") == (spent, 0, -spent, -spent, 0)
    assert row["verdict"] == "better"
    # The shares of the others grew; their times did not.
    assert {row["diff_kernel_sum_ns"] for row in rows if row["where"] == "both"} <= {0}


@every_pair
def test_more_launches(pair: tuple[str, str]) -> None:
    rows = changed(pair, "more", "kernels")
    (row,) = [row for row in rows if row["diff_kernel_sum_ns"]]
    assert row["name"] == "stencil"
    assert row["diff_kernel_count"] == 5
    assert figures(row, "kernel_sum_ns") == (500_000, 550_000, 50_000, 50_000, 0)


@every_pair
def test_a_new_host_gap(pair: tuple[str, str]) -> None:
    rows = changed(pair, "waiting", "idle_summary")
    assert sum(row["diff_gap_sum_ns"] for row in rows) == LATE_NS
    assert sum(row["diff_host_sum_ns"] for row in rows) == LATE_NS
    assert sum(row["diff_gap_count"] for row in rows) == 0


@every_pair
def test_doubled_copies(pair: tuple[str, str]) -> None:
    (row,) = changed(pair, "doubled", "transfers")
    assert row["direction"] == "HtoD"
    assert row["diff_memcpy_count"] == STEPS
    size = STEPS * COPY_BYTES
    told = (row["base_bytes_sum"], row["other_bytes_sum"], row["diff_bytes_sum"])
    assert told == (size, 2 * size, size)


def test_rows_of_several_names_are_not_split_by_count_and_mean() -> None:
    """Without its shortest kernel all others are as long as they were, and the mean is another one."""
    names = ["overview", "transfers", "idle_summary", "steps"]
    for name, found in zip(names, api.compare(
            written("nsys", None), written("nsys", "removed"), names).reports, strict=True):  # fmt: skip
        assert found.rows() or name == "transfers"
        assert not [c.name for c in found.columns if c.name.startswith(("by_count_", "by_mean_"))]


@pytest.mark.parametrize("source", few(SOURCES, 2))
def test_a_profile_differs_from_itself_in_nothing(source: str) -> None:
    path = written(source, None)
    account, *reports = api.compare(path, path).reports
    assert {row["change_ns"] for row in account.rows()} <= {0}
    assert [report.name for report in reports if report.table and report.rows()] == []


@pytest.mark.parametrize("base", few(["nsys", "nvprof database"], 1))
def test_without_a_demangler_kernels_are_matched_by_symbols(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "demangler", lambda: None)
    pair = (base, "nvprof database" if base == "nsys" else "nsys")
    assert changed(pair, None, "kernels") == []
    test_a_slower_kernel(pair)
    found = api.compare(written(pair[0], None), written(pair[1], "slower"), ["kernels"]).reports[0]
    (note,) = [note for note in found.notes if note.slug == "symbols-only"]
    assert note.text.startswith("base: " if base != "nsys" else "other: ")


def test_symbols_of_a_side_alone_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "demangler", lambda: None)
    rows = changed(("kineto", "nvprof database"), None, "kernels")
    assert {row["where"] for row in rows} == {"only in base", "only in other"}
    same = api.compare(
        written("nvprof database", None), written("nvprof database", "slower"), ["kernels"]
    )
    assert "symbols-only" not in {note.slug for note in same.reports[0].notes}
