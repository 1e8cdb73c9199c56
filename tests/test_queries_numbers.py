"""Numbers that hold whatever the order of rows, shares of a whole, and what does not apply."""

from __future__ import annotations

import numpy as np
import pytest
from small_store import Call, Kernel, Range, answers, opened

from nsysconv.timeline.arrays import grouped_statistics, percent, weighted_statistics
from nsysconv.timeline.clock_offsets import _median


def test_deviations_do_not_depend_on_the_order_of_rows() -> None:
    values = np.random.default_rng(1).integers(1, 10**9, 200_000)
    groups = np.arange(len(values)) % 2
    one = grouped_statistics(groups, values, 2)
    # The same values as other groups among more, and in another order.
    other = grouped_statistics(np.append(2 - groups[::-1], [0] * 7), np.append(values[::-1], [5] * 7), 3)
    assert one.deviation.tolist() == other.deviation[:0:-1].tolist()


def test_a_weight_is_how_often_a_value_counts() -> None:
    values, weights = np.array([7, 1, 5, 5]), np.array([1, 3, 2, 1])
    one = weighted_statistics(np.array([0, 0, 0, 1]), values, weights, 2)
    same = grouped_statistics(np.array([0] * 6 + [1]), np.array([7, 1, 1, 1, 5, 5, 5]), 2)
    assert one.count.tolist() == [3, 1]
    for name in ("total", "mean", "median", "minimum", "maximum"):
        assert getattr(one, name).tolist() == getattr(same, name).tolist()
    assert one.deviation == pytest.approx(same.deviation)


@pytest.mark.parametrize("whole", [3, 49, 10**15 + 7, 2**53 + 1])
def test_a_whole_is_100_percent_and_no_part_is_more(whole: int) -> None:
    parts = np.array([whole, whole - 1, 1])
    shares = percent(parts, whole)
    assert shares[0] == 100
    assert (shares <= 100).all()


def test_a_kernel_alone_has_all_of_the_time() -> None:
    (row,) = answers("kernels", Kernel(0, 49))
    assert row["kernel_pct"] == 100


def test_the_middle_of_two_clocks_rounds_a_half_up() -> None:
    assert (_median(np.array([250057, 250058])), _median(np.array([-3, -2]))) == (250058, -2)


def test_operations_without_a_call_have_no_calls_that_wait() -> None:
    events = (Call(0, 1, 1), Kernel(5, 9, 1), Kernel(10, 12, 0))
    rows = {row["name"]: row for row in answers("api_vs_kernel", *events)}
    assert rows["[no API call]"]["queue_count"] is None
    assert rows["[no API call]"]["call_count"] is None


def test_ranges_of_two_domains_are_two_activities() -> None:
    rows = (
        Kernel(0, 10, 1), Call(0, 1, 1),
        Range(20, 120, "read", domain=1), Range(200, 230, "read", domain=2),
        Call(300, 301, 2), Kernel(310, 320, 2),
    )  # fmt: skip
    domains = {(1, 1): "file", (1, 2): "net"}
    with opened(*rows, domains=domains) as profile:
        host = {row["name"]: row["host_sum_ns"] for row in profile.report("idle_host").rows()}
        (gap,) = profile.report("idle_gaps").rows()
    assert (host["file:read"], host["net:read"]) == (100, 30)
    assert gap["during"] == "[nothing recorded]"
