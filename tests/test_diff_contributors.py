"""The largest parts of a change by name, and their words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest

from nsysconv.diff.account import CONTRIBUTOR_COLUMNS, ChangeAccount, contributors
from nsysconv.diff.change import Change
from nsysconv.diff.rows import RowPair
from nsysconv.report import Report

Pair = tuple[float | None, float | None]


def row(values: tuple[str, str], keys: Mapping[str, Any], base: Pair, other: Pair) -> RowPair:
    """A row of these counts and sums; a count of 0 says that the side has no such row."""
    return RowPair(
        (), "both", keys if base[0] else {}, keys if other[0] else {},
        dict(zip(values, base, strict=True)), dict(zip(values, other, strict=True)),
        {}, lambda _: None, frozenset(),
    )  # fmt: skip


def sure(pair: RowPair, change: Change) -> RowPair:
    """The row with this change of its sum."""
    name = next(name for name in pair.base_values if name.endswith("_ns"))
    difference = pair.other_values[name] - pair.base_values[name]
    return pair._replace(
        differences={name: difference}, change=lambda _: change, judged=frozenset([name])
    )


def kernel(name: str, base: Pair, other: Pair, **keys: Any) -> RowPair:
    return row(("kernel_count", "kernel_sum_ns"), {"name": name, **keys}, base, other)


def call(name: str, base: Pair, other: Pair, layer: str = "runtime") -> RowPair:
    return row(("call_count", "api_sum_ns"), {"name": name, "layer": layer}, base, other)


def gap(name: str, base: Pair, other: Pair, activity: str = "api_call") -> RowPair:
    return row(("gap_count", "host_sum_ns"), {"name": name, "activity": activity}, base, other)


def found_in(
    kernels: Sequence[RowPair] = (), calls: Sequence[RowPair] = (), gaps: Sequence[RowPair] = (),
    **options: Any,
) -> Report:
    """The contributors of the rows of these reports."""
    rows_of = {"kernels": kernels, "api_vs_kernel": calls, "idle_host": gaps}
    return contributors(rows_of, **options)


def first(*rows: RowPair, **options: Any) -> dict[str, Any]:
    return found_in(rows, **options).rows()[0]


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
    found = found_in((), [call("f", (100, 1000), (110, 1100))], [gap("g", (100, 1000), (90, 900))])
    assert [(each["kind"], each["why"]) for each in found.rows()] == [
        ("call", "called 10 % more often"), ("idle", "in 10 % fewer gaps")]  # fmt: skip


def test_count_and_mean_add_up_to_the_change() -> None:
    assert first(kernel("k", (50, 500), (55, 605))) == {
        "kind": "kernel", "name": "k", "activity": None, "change_ns": 105,
        "certain": "no", "why": "each launch 10 % longer, launched 10 % more often",
        "by_count_ns": 50, "by_mean_ns": 55, "base_ns": 500, "other_ns": 605,
    }  # fmt: skip
    thirds = first(kernel("k", (3, 100), (4, 150)))
    assert (thirds["by_count_ns"], thirds["by_mean_ns"]) == (33, 17)


def test_the_greatest_of_all_kinds_come_first() -> None:
    found = found_in(
        [kernel("small", (1, 10), (1, 12)), kernel("less", (1, 900), (1, 100))],
        [call("sync", (1, 100), (1, 500)), call("same", (1, 7), (1, 7))],
        [gap("sync", (1, 0), (1, 300))],
        most=3,
    )  # fmt: skip
    assert [(each["kind"], each["name"], each["change_ns"]) for each in found.rows()] == [
        ("kernel", "less", -800), ("call", "sync", 400), ("idle", "sync", 300)]  # fmt: skip
    assert found.row_count == 3


def test_ranks_and_devices_of_one_name_are_added_up() -> None:
    rows = [kernel("k", (1, 10), (1, 20), rank=rank, device_id=0) for rank in range(4)]
    assert (first(*rows)["base_ns"], first(*rows)["other_ns"]) == (40, 80)


def test_calls_of_two_layers_are_two() -> None:
    rows = [call("f", (1, 10), (1, 20)), call("f", (1, 10), (1, 40), "driver")]
    found = found_in((), rows).rows()
    assert [(each["activity"], each["change_ns"]) for each in found] == [("driver", 30), ("runtime", 10)]


def test_values_are_those_of_a_step_of_one_device() -> None:
    """2 steps against 4, on two devices: as often as before, and 5 ns more each."""
    account = ChangeAccount((), (Fraction(2), Fraction(4)), (Fraction(2), Fraction(2)))
    found = first(kernel("k", (40, 800), (80, 2000)), account=account)
    assert (found["base_ns"], found["other_ns"], found["why"]) == (200, 250, "each launch 25 % longer")


def test_what_is_not_known_on_a_side_is_left_out() -> None:
    kernels, calls = [kernel("k", (1, 10), (1, None))], [call("f", (None, 3), (1, 4))]
    assert found_in(kernels, calls).rows() == []


def test_nothing_changed() -> None:
    report = found_in([kernel("k", (1, 10), (1, 10))])
    assert (report.name, report.row_count, report.rows()) == ("contributors", 0, [])
    assert [column.name for column in report.columns] == [column.name for column in CONTRIBUTOR_COLUMNS]


def test_what_is_certain_comes_first_and_what_waits_is_left_out() -> None:
    """A large change that noise may have made comes after a small one that it has not."""
    varies = Change((900, 1100, 1000), (1100, 1500, 1300), "repeats")
    steady = Change((100, 101, 99), (110, 111, 109), "repeats")
    kernels = [sure(kernel("noisy", (1, 1000), (1, 1300)), varies),
               sure(kernel("slower", (1, 100), (1, 110)), steady)]  # fmt: skip
    waits = ("cudaStreamSynchronize", "cuCtxSynchronize", "hipEventSynchronize", "hipDeviceSynchronize")
    calls = [sure(call(name, (1, 1000), (1, 2000)), steady) for name in waits]
    found = found_in(kernels, [*calls, sure(call("cudaMalloc", (1, 100), (1, 105)), steady)]).rows()
    assert [(each["name"], each["certain"]) for each in found] == [
        ("slower", "yes"), ("cudaMalloc", "yes"), ("noisy", "no")]  # fmt: skip


def test_what_more_devices_do_and_what_others_undo_is_no_certain_change() -> None:
    exact, unclear = Change((5,), (6,), "exact"), Change((5,), (6,), "none")
    alone = sure(kernel("gemm", (0, 0), (10, 100)), exact)._replace(where="only in other")
    both = kernel("gemm", (10, 100), (10, 104))
    counts = [ChangeAccount(None, device_counts=pair) for pair in ((1, 2), (2, 2))]

    def certain(*rows: RowPair, account: ChangeAccount) -> str:
        return str(first(*rows, account=account)["certain"])

    assert [certain(sure(both, unclear), alone, account=each) for each in counts] == ["no", "yes"]
    assert [certain(sure(both, exact), alone, account=each) for each in counts] == ["yes", "yes"]
    assert [certain(alone, account=each) for each in counts] == ["yes", "yes"]
    # One rank is 50 shorter for certain, but all together are 10 longer.
    less = sure(kernel("gemm", (10, 150), (10, 100)), exact)
    more = [sure(kernel("gemm", (10, 100), (10, 130)), unclear)] * 2
    assert certain(less, *more, account=counts[1]) == "no"


def test_many_rows_need_more_to_be_certain() -> None:
    """At t = 3.0 with 4 degrees of freedom one row is certain (2.78), one of 20 is not (6.3)."""
    change = Change((100, 101, 99), (102.45, 103.45, 101.45), "repeats")
    assert change.is_certain(1)
    assert not change.is_certain(20)
    sure_at_20 = Change((100, 101, 99), (106, 107, 105), "repeats")
    assert sure_at_20.is_certain(20)
    assert Change((5,), (6,), "exact").is_certain(1000)
    assert not Change((5,), (6,), "none").is_certain(1)
