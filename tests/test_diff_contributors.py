"""The largest parts of a change by name, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from nsysconv.diff.account import CONTRIBUTOR_COLUMNS, ChangeAccount, contributors
from nsysconv.diff.rows import RowPair
from nsysconv.queries import query

Pair = tuple[float | None, float | None]


def row(values: tuple[str, str], keys: Mapping[str, Any], base: Pair, other: Pair) -> RowPair:
    """A row of these counts and sums; a count of 0 says that the side has no such row."""
    return RowPair(
        (), "both", keys if base[0] else {}, keys if other[0] else {},
        dict(zip(values, base, strict=True)), dict(zip(values, other, strict=True)),
        {}, lambda _: None, frozenset(),
    )  # fmt: skip


def kernel(name: str, base: Pair, other: Pair, **keys: Any) -> RowPair:
    return row(("kernel_count", "kernel_sum_ns"), {"name": name, **keys}, base, other)


def call(name: str, base: Pair, other: Pair, layer: str = "runtime") -> RowPair:
    return row(("call_count", "api_sum_ns"), {"name": name, "layer": layer}, base, other)


def gap(name: str, base: Pair, other: Pair, activity: str = "api_call") -> RowPair:
    return row(("gap_count", "host_sum_ns"), {"name": name, "activity": activity}, base, other)


def first(*rows: RowPair, **options: Any) -> dict[str, Any]:
    return contributors(rows, (), (), **options).rows()[0]


@pytest.mark.parametrize(("report", "columns"), [
    ("kernels", {"name", "kernel_count", "kernel_sum_ns"}),
    ("api_vs_kernel", {"name", "layer", "call_count", "api_sum_ns"}),
    ("idle_host", {"name", "activity", "gap_count", "host_sum_ns"}),
])  # fmt: skip
def test_the_reports_have_what_is_asked_of_them(report: str, columns: set[str]) -> None:
    assert columns <= {column.name for column in query(report).columns}


@pytest.mark.parametrize(("base", "other", "why"), [
    ((100, 1000), (110, 1100), "launched 10 % more often"),
    ((100, 1000), (90, 900), "launched 10 % less often"),
    ((100, 1000), (300, 3000), "launched 3.0 times as often"),
    ((100, 1000), (100, 1120), "each launch 12 % longer"),
    ((100, 1000), (100, 985), "each launch 1.5 % shorter"),
    ((100, 1000), (100, 2500), "each launch 2.5 times as long"),
    ((50, 500), (55, 605), "each launch 10 % longer, launched 10 % more often"),
    ((100, 1000), (101, 1200), "each launch 19 % longer"),
    ((100, 1000), (150, 1200), "launched 50 % more often, each launch 20 % shorter"),
    ((0, 0), (5, 60), "only in other"),
    ((5, 60), (0, 0), "only in base"),
    ((5, 0), (5, 60), "each launch longer"),
])  # fmt: skip
def test_why_in_words(base: Pair, other: Pair, why: str) -> None:
    assert first(kernel("k", base, other))["why"] == why


def test_other_kinds_have_other_words() -> None:
    found = contributors((), [call("f", (100, 1000), (110, 1100))], [gap("g", (100, 1000), (90, 900))])
    assert [(each["kind"], each["why"]) for each in found.rows()] == [
        ("call", "called 10 % more often"), ("idle", "in 10 % fewer gaps")]  # fmt: skip


def test_count_and_mean_add_up_to_the_change() -> None:
    assert first(kernel("k", (50, 500), (55, 605))) == {
        "kind": "kernel", "name": "k", "activity": None, "change_ns": 105,
        "why": "each launch 10 % longer, launched 10 % more often",
        "by_count_ns": 50, "by_mean_ns": 55, "base_ns": 500, "other_ns": 605,
    }  # fmt: skip
    thirds = first(kernel("k", (3, 100), (4, 150)))
    assert (thirds["by_count_ns"], thirds["by_mean_ns"]) == (33, 17)


def test_the_greatest_of_all_kinds_come_first() -> None:
    found = contributors(
        [kernel("small", (1, 10), (1, 12)), kernel("less", (1, 900), (1, 100))],
        [call("sync", (1, 100), (1, 500)), call("same", (1, 7), (1, 7))],
        [gap("sync", (1, 0), (1, 300))],
        3,
    )  # fmt: skip
    assert [(each["kind"], each["name"], each["change_ns"]) for each in found.rows()] == [
        ("kernel", "less", -800), ("call", "sync", 400), ("idle", "sync", 300)]  # fmt: skip
    assert found.row_count == 3


def test_ranks_and_devices_of_one_name_are_added_up() -> None:
    rows = [kernel("k", (1, 10), (1, 20), rank=rank, device_id=0) for rank in range(4)]
    assert (first(*rows)["base_ns"], first(*rows)["other_ns"]) == (40, 80)


def test_calls_of_two_layers_are_two() -> None:
    rows = [call("f", (1, 10), (1, 20)), call("f", (1, 10), (1, 40), "driver")]
    found = contributors((), rows, ()).rows()
    assert [(each["activity"], each["change_ns"]) for each in found] == [("driver", 30), ("runtime", 10)]


def test_values_are_those_of_a_step_of_one_device() -> None:
    """2 steps against 4, on two devices: as often as before, and 5 ns more each."""
    account = ChangeAccount((), (Fraction(2), Fraction(4)), (Fraction(2), Fraction(2)))
    found = first(kernel("k", (40, 800), (80, 2000)), account=account)
    assert (found["base_ns"], found["other_ns"], found["why"]) == (200, 250, "each launch 25 % longer")


def test_what_is_not_known_on_a_side_is_left_out() -> None:
    kernels, calls = [kernel("k", (1, 10), (1, None))], [call("f", (None, 3), (1, 4))]
    assert contributors(kernels, calls, ()).rows() == []


def test_nothing_changed() -> None:
    report = contributors([kernel("k", (1, 10), (1, 10))], (), ())
    assert (report.name, report.row_count, report.rows()) == ("contributors", 0, [])
    assert [column.name for column in report.columns] == [column.name for column in CONTRIBUTOR_COLUMNS]
