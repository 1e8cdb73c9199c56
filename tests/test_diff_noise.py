"""Intervals of changes: against tables, against a slow version, and how often they are wrong."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from statistics import NormalDist, fmean, pvariance

import numpy as np
import pytest
import slow_intervals as slow
import verdict_power as power
from conftest import few
from hypothesis import given
from hypothesis import strategies as st
from slow_intervals import BY_STEP, REPEATED

from nsysconv.diff import noise
from nsysconv.diff.noise import (
    ConfidenceInterval,
    deviations,
    deviations_of_sums,
    deviations_of_trimmed,
    minimum_detectable_change,
    percentage_point_deviation,
    required_runs,
    runs_difference_interval,
    runs_ratio_interval,
    single_run_half_width,
    step_half_widths,
    t_quantile,
    trimmed_mean,
)
from nsysconv.timeline.steps import MIN_STEPS

Array = np.ndarray


# -- Student's t


@pytest.mark.parametrize(
    ("confidence", "degrees", "tabulated"),
    [
        (0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 3, 3.182), (0.95, 4, 2.776), (0.95, 5, 2.571),
        (0.95, 9, 2.262), (0.95, 10, 2.228), (0.95, 30, 2.042), (0.95, 120, 1.980),
        (0.90, 1, 6.314), (0.90, 7, 1.895), (0.99, 1, 63.657), (0.99, 3, 5.841), (0.99, 40, 2.704),
        (0.999, 5, 6.869), (0.50, 3, 0.765),
    ],
)  # fmt: skip
def test_quantiles_of_t_are_those_of_the_tables(
    confidence: float, degrees: float, tabulated: float
) -> None:
    assert t_quantile(confidence, degrees) == pytest.approx(tabulated, abs=0.0006)


def test_t_of_many_degrees_is_the_normal() -> None:
    assert t_quantile(0.95, 1e7) == pytest.approx(NormalDist().inv_cdf(0.975), abs=1e-5)


@pytest.mark.parametrize("confidence", [0.1, 0.8, 0.95, 0.999])
def test_t_of_one_and_two_degrees_in_closed_form(confidence: float) -> None:
    assert t_quantile(confidence, 1) == pytest.approx(math.tan(math.pi * confidence / 2))
    two = confidence * math.sqrt(2 / (1 - confidence**2))
    assert t_quantile(confidence, 2) == pytest.approx(two)


# -- repeats


@pytest.mark.parametrize(
    ("low", "high", "value", "excludes"),
    [
        (1.01, 1.2, 1, True), (0.8, 0.99, 1, True), (1.0, 1.2, 1, False), (0.8, 1.0, 1, False),
        (0.0, math.inf, 1, False), (0.5, 2, 0, True), (-2, -0.5, 0, True), (-0.5, 2, 0, False),
        (0, 2, 0, False),
    ],
)  # fmt: skip
def test_an_interval_excludes_what_is_outside_of_it(
    low: float, high: float, value: int, excludes: bool
) -> None:
    assert ConfidenceInterval(low, high).excludes(value) == excludes


@pytest.mark.parametrize(
    ("base", "other", "middle", "half"),
    [
        # Variance 2 each, standard error sqrt(2), 2 degrees of freedom.
        ([-1, 1], [2, 4], 3, 4.302653 * math.sqrt(2)),
        # Squares 1/3 and 1: (4/3)^2 / ((1/3)^2 / 2 + 1^2 / 1) = 32/19 degrees of freedom.
        ([-1, 0, 1], [0, 2], 1, t_quantile(0.95, 32 / 19) * math.sqrt(4 / 3)),
        # Variance 2 of one degree of freedom, standard error sqrt(2 (1 + 1/2)).
        ([0], [-1, 1], 0, 12.70620 * math.sqrt(3)),
    ],
    ids=["two runs per side", "unequal sides", "one run vs. several, which varies as these do"],
)
def test_repeats_by_hand(base: list[float], other: list[float], middle: float, half: float) -> None:
    """Runs by the logarithms of their values."""
    found = runs_ratio_interval([*map(math.exp, base)], [*map(math.exp, other)])
    assert found is not None
    assert math.log(found.low) == pytest.approx(middle - half)
    assert math.log(found.high) == pytest.approx(middle + half)


def test_repeats_the_other_way_round_is_the_inverse() -> None:
    base, other = [10.0, 11.0, 10.5], [12.0, 11.5]
    forward, back = runs_ratio_interval(base, other), runs_ratio_interval(other, base)
    assert forward is not None and back is not None
    assert forward.low == pytest.approx(1 / back.high)
    assert forward.high == pytest.approx(1 / back.low)


def test_repeats_without_variance_is_a_point() -> None:
    assert runs_ratio_interval([1.0, 1.0], [2.0, 2.0, 2.0]) == ConfidenceInterval(2.0, 2.0)
    for runs in range(2, 60):
        assert runs_ratio_interval([1.1] * runs, [1.1] * 2) == ConfidenceInterval(1.0, 1.0)


def test_repeats_with_variance_on_one_side_only() -> None:
    found = runs_ratio_interval([100.0] * 3, [109.0, 110.0, 111.0])
    assert found is not None
    half = t_quantile(0.95, 2) * 1 / 110 / math.sqrt(3)
    assert math.log(found.low) == pytest.approx(math.log(1.1) - half, abs=1e-4)
    assert found.excludes(1)


def test_tiny_variances_do_not_vanish() -> None:
    found = runs_ratio_interval([1.0, math.nextafter(1, 2)], [1.0, math.nextafter(1, 2)])
    assert found is not None and not found.excludes(1)


@pytest.mark.parametrize("bad", [[], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf]])
def test_no_interval_of_such_repeats(bad: list[float]) -> None:
    assert runs_ratio_interval(bad, [1.0, 2.0]) is None
    assert runs_ratio_interval([1.0, 2.0], bad) is None


@pytest.mark.parametrize("name", REPEATED)
def test_intervals_of_runs(name: str) -> None:
    """Computed by hand, and with a program of its own."""
    base, other, expected, _ = REPEATED[name]
    found = runs_ratio_interval(base, other)
    assert found is not None
    assert (found.low, found.high) == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize(("spread", "is_wide"), [(2.02, False), (2.03, True)])
@pytest.mark.parametrize("swapped", [False, True])
def test_many_runs_show_how_few_vary(spread: float, is_wide: bool, swapped: bool) -> None:
    """Of F with 2 and 10 degrees of freedom 5 % are above 5 (20**0.2 - 1), the square of 2.0256."""
    base, other = [-1.0] * 5 + [1.0] * 5 + [0.0], [-spread, 0.0, spread]
    square = (10 + 2 * spread**2) / 12
    half = 2.178813 * math.sqrt(square * (1 / 11 + 1 / 3))
    if is_wide:
        squares = 1 / 11, spread**2 / 3
        degrees = sum(squares) ** 2 / (squares[0] ** 2 / 10 + squares[1] ** 2 / 2)
        half = t_quantile(0.95, degrees) * math.sqrt(sum(squares))
    found = runs_difference_interval(*((other, base) if swapped else (base, other)))
    assert found is not None
    assert found.high == pytest.approx(half, abs=1e-5)


def test_fewer_than_ten_runs_do_not_show_it() -> None:
    # Welch's, of 2 degrees of freedom and a little.
    found = runs_difference_interval([-1.0, 1.0] * 4 + [0.0], [-1.0, 0.0, 1.0])
    assert found is not None
    squares = 1 / 9, 1 / 3
    degrees = sum(squares) ** 2 / (squares[0] ** 2 / 8 + squares[1] ** 2 / 2)
    assert found.high == pytest.approx(t_quantile(0.95, degrees) * math.sqrt(sum(squares)))


def test_one_run_a_side_tells_nothing_of_runs() -> None:
    assert runs_ratio_interval([100], [104]) is None
    assert runs_ratio_interval([], [100, 101, 102]) is None


@pytest.mark.parametrize(
    ("runs", "deviations", "most"),
    few([
        *(((runs, runs), (0.05, 0.05), 65) for runs in (2, 3, 5, 10)),
        # Welch alone has 87 of two against eight.
        ((2, 8), (0.02, 0.02), 75), ((1, 5), (0.02, 0.02), 75), ((5, 2), (0.02, 0.02), 75),
        ((2, 8), (0.01, 0.02), 75), ((20, 3), (0.02, 0.02), 75),
    ], 2),
)  # fmt: skip
def test_runs_are_as_often_wrong_as_it_says(
    runs: tuple[int, int], deviations: tuple[float, float], most: int
) -> None:
    """Of 1000 pairs of sides that differ in nothing 50 are expected to be told apart."""
    random = np.random.default_rng(runs[0] * 10 + runs[1])
    wrong = 0
    for _ in range(1000):
        base, other = (np.exp(random.normal(0, deviation, count)).tolist()
                       for deviation, count in zip(deviations, runs, strict=True))  # fmt: skip
        found = runs_ratio_interval(base, other)
        wrong += found is not None and found.excludes(1)
    assert wrong <= most


# -- differences


@pytest.mark.parametrize(
    ("base", "other", "low", "high"),
    [
        ([8.0, 8.4, 8.2], [9.9, 10.3, 10.4], 1.452, 2.548),
        # The standard error is 1 / sqrt(3), of the two degrees of freedom of the other side.
        ([0, 0, 0], [3, 5, 4], 4 - 4.302653 / math.sqrt(3), 4 + 4.302653 / math.sqrt(3)),
        ([3, 5, 4], [0, 0, 0], -6.484, -1.516),
        ([0, 0], [2, 2, 2], 2, 2),
        # Variance 2 of one degree of freedom, standard error sqrt(2 (1 + 1/2)).
        ([-1], [0, 2], 2 - 12.70620 * math.sqrt(3), 2 + 12.70620 * math.sqrt(3)),
    ],
    ids=["percentages", "from 0", "to 0", "no variance", "one run"],
)
def test_differences_of_runs(base: list[float], other: list[float], low: float, high: float) -> None:
    found = runs_difference_interval(base, other)
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(low, abs=5e-4), pytest.approx(high, abs=5e-4))


@pytest.mark.parametrize("bad", [[], [1.0, math.nan], [1.0, math.inf]])
def test_no_difference_of_such_runs(bad: list[float]) -> None:
    assert runs_difference_interval(bad, [1.0, 2.0]) is None
    assert runs_difference_interval([1.0, 2.0], bad) is None
    assert runs_difference_interval([1.0], [2.0]) is None


RUNS = st.lists(st.floats(-5, 5), min_size=1, max_size=6)


@given(RUNS, RUNS)
def test_ratios_are_differences_of_logarithms(base: list[float], other: list[float]) -> None:
    difference = runs_difference_interval(base, other)
    ratio = runs_ratio_interval([math.exp(x) for x in base], [math.exp(x) for x in other])
    assert (difference is None) == (ratio is None) == (len(base) + len(other) < 3)
    if difference is not None and ratio is not None and difference.high < 700:
        assert math.log(ratio.high) == pytest.approx(difference.high, abs=1e-6)
        if difference.low > -700:
            assert math.log(ratio.low) == pytest.approx(difference.low, abs=1e-6)


# -- how many runs


@pytest.mark.parametrize(
    ("deviation", "runs"),
    [
        (0.005, [6, 3, 3, 3, 3]),
        (0.01, [17, 6, 4, 3, 3]),
        (0.02, [64, 17, 9, 4, 3]),
        (0.03, [143, 37, 17, 7, 3]),
    ],
)
def test_runs_needed(deviation: float, runs: list[int]) -> None:
    assert [required_runs(deviation, limit) for limit in (0.01, 0.02, 0.03, 0.05, 0.1)] == runs


def test_runs_needed_by_hand() -> None:
    """Four runs per side, of 6 degrees of freedom: (2.4469 + 0.9057) / sqrt(2) = 2.3707."""
    assert required_runs(1, 2.371) == 4
    assert required_runs(1, 2.370) == 5


def test_never_fewer_than_three_runs_nor_more_than_a_thousand() -> None:
    assert required_runs(0, 0.03) == 3
    assert required_runs(0.01, 0.01 * 2.8035 / math.sqrt(500)) == 1000
    assert required_runs(0.01, 0.01 * 2.8 / math.sqrt(500)) is None
    assert required_runs(0.01, 0) is None


def test_runs_beside_many() -> None:
    # t(.975, 23) + t(.80, 23) = 2.069 + 0.858 of 0.02 sqrt(1/20 + 1/5) are 0.02927; four take 0.0321.
    assert required_runs(0.02, 0.03, 20) == required_runs(0.02, 0.0293, 20) == 5
    assert required_runs(0.02, 0.0292, 20) == 6
    # One is enough of 1 %, and none are where base alone varies too much.
    assert required_runs(0.01, 0.031, 20) == 1
    assert required_runs(0.05, 0.03, 20) is None


def test_the_smallest_visible_change() -> None:
    assert minimum_detectable_change(0.02) == pytest.approx(0.028)
    (many, few) = ((t_quantile(0.95, d) + t_quantile(0.6, d)) / t_quantile(0.95, d) for d in (1e6, 4))
    assert few < 1.4 < many


# -- one run per side


def test_one_run_without_steps() -> None:
    """1.96 sqrt(2) 3 % = 8.32 %."""
    assert math.exp(single_run_half_width(0.03)) == pytest.approx(1.0867, abs=5e-5)
    assert math.exp(-single_run_half_width(0.03)) == pytest.approx(0.9202, abs=5e-5)
    assert single_run_half_width(0) == 0


def test_noise_of_a_percentage() -> None:
    """Of 1 % of runs and an idle share of a half: sqrt(2) 0.01 / 4 = 0.354 percentage points."""
    assert percentage_point_deviation(0.01, 0.5) == pytest.approx(0.35355, abs=1e-5)
    assert percentage_point_deviation(0.01, 0) == percentage_point_deviation(0.01, 1) == 0
    for share in (0.1, 0.9):
        assert percentage_point_deviation(0.01, share) == pytest.approx(0.12728, abs=1e-5)


def test_deviations_by_hand() -> None:
    found = deviations(np.array([[8, 10, 12], [0, 0, 0], [-1, -1, -1]]))
    assert found[0].tolist() == pytest.approx([-0.2, 0, 0.2])
    assert np.isnan(found[1:]).all()


def test_deviations_of_sums_by_hand() -> None:
    """Counts of 1, 2 and 3, sums of 12, 18 and 30: 10 each; the mean sum is 20."""
    found = deviations_of_sums(
        np.array([[12, 18, 30], [0, 0, 0], [10, 30, 20]]),
        np.array([[1, 2, 3], [0, 0, 0], [1, 3, 2]]),
    )
    assert found[0].tolist() == pytest.approx([0.1, -0.1, 0])
    assert np.isnan(found[1]).all()
    assert found[2].tolist() == [0, 0, 0], "of equal means only counts vary, which are not noise"


def test_more_launches_as_long_as_before() -> None:
    """100 and 105 launches in 20 steps: the sum's noise is that between runs, its ratio 1.05."""
    base, other = np.full((1, 20), 5), np.full((1, 20), 5)
    other[0, 3:8] = 6
    sides = (deviations_of_sums(counts * 1000.0, counts) for counts in (base, other))
    (half,) = step_half_widths(*sides, 0.01).tolist()
    assert other.sum() / base.sum() * math.exp(-half) == pytest.approx(1.0213, abs=5e-5)
    assert other.sum() / base.sum() * math.exp(half) == pytest.approx(1.0795, abs=5e-5)


def test_a_trimmed_mean_by_hand() -> None:
    """Of 1, 2, ... 9 and 100 a tenth at either end: 2 to 9 are left, whose mean is 5.5."""
    values = np.array([[100, 1, 2, 3, 4, 5, 6, 7, 8, 9]])
    assert trimmed_mean(values).tolist() == [5.5]
    found = deviations_of_trimmed(values)[0]
    # 100 counts as 9 and 1 as 2: their mean is 5.5, too.
    assert found[:3].tolist() == pytest.approx([3.5 / 5.5 / 0.8, -3.5 / 5.5 / 0.8, -3.5 / 5.5 / 0.8])
    assert found[3] == pytest.approx(-2.5 / 5.5 / 0.8)


def test_trimmed_deviations_of_a_row_of_zeros() -> None:
    rare = np.zeros((1, 30))
    rare[0, 4] = 1
    assert np.isnan(deviations_of_trimmed(rare)).all()


def test_trimming_narrows_what_few_slow_steps_widen() -> None:
    random = np.random.default_rng(11)
    sides = white(random, 100, 0.02) * np.where(np.arange(100) % 50 == 3, 3, 1), white(random, 100, 0.02)
    rows = [deviations_of_trimmed(side[np.newaxis]) for side in sides]
    (trimmed,) = step_half_widths(*rows, 0).tolist()
    assert trimmed < half_width(*sides) / 4


def half_width(base: Array, other: Array, run_noise: float = 0) -> float:
    """Of one row."""
    (half,) = step_half_widths(*(deviations(s[np.newaxis]) for s in (base, other)), run_noise).tolist()
    return float(half)


@pytest.mark.parametrize("name", BY_STEP)
def test_intervals_of_one_run_a_side(name: str) -> None:
    """Computed with a program of its own, runs differing by 1 %."""
    base, other, expected, _ = BY_STEP[name]
    half = half_width(np.array(base), np.array(other), 0.01)
    assert slow.about(fmean(other) / fmean(base), half) == pytest.approx(expected, abs=2e-5)


def test_the_example_of_the_definitions() -> None:
    """c_9^2 = 0.03^2 100 / 2 is one of nine: v = 0.045 / 9 / 100, of 9 degrees of freedom of other."""
    waves = np.cos(9 * math.pi * (np.arange(100) + 0.5) / 100)
    base, other = np.full(100, 10.0), 11 * (1 + 0.03 * waves)
    half = half_width(base, other, 0.01)
    assert half == pytest.approx(math.sqrt(2.262157**2 * 0.00005 + 2 * 0.0196**2))
    ratio = fmean(other) / fmean(base)
    assert round(ratio * math.exp(-half), 3) == 1.065
    assert round(ratio * math.exp(half), 3) == 1.136


def test_no_interval_of_too_few_steps() -> None:
    few, enough = np.zeros((3, MIN_STEPS - 1)), np.zeros((3, MIN_STEPS))
    assert MIN_STEPS == 20
    assert np.isnan(step_half_widths(few, enough, 0.01)).all()
    assert np.isnan(step_half_widths(enough, few, 0.01)).all()
    assert step_half_widths(enough, enough, 0.01).tolist() == [single_run_half_width(0.01)] * 3
    assert step_half_widths(np.zeros((0, 30)), np.zeros((0, 30)), 0.01).tolist() == []


@pytest.mark.parametrize("shared", [0, 0.2, 0.9])
@pytest.mark.parametrize("trend", [0, 0.5])
@pytest.mark.parametrize("steps", [(20, 20), (40, 60), (101, 64), (150, 150), (333, 20)])
def test_the_quick_version_is_the_slow_one(steps: tuple[int, int], trend: float, shared: float) -> None:
    random = np.random.default_rng(sum(steps))
    both = random.gamma(3, 1000, max(steps))
    base, other = (
        (shared * both[:count] + (1 - shared) * random.gamma(3, 1000, (4, count)))
        * (1 + trend * np.arange(count) / count)
        for count in steps
    )
    sides = deviations(base), deviations(other)
    rows = zip(*(side.tolist() for side in sides), strict=True)
    expected = [slow.half_of_steps(*of_row, 0.01) for of_row in rows]
    assert step_half_widths(*sides, 0.01).tolist() == pytest.approx(expected)


def test_rows_do_not_mind_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor in how many pieces their steps are looked at: 2 rows at once here, and 25 steps."""
    random = np.random.default_rng(1)
    both = random.gamma(5, 100, (7, 100))
    base, other = both + random.gamma(5, 10, (7, 100)), both + random.gamma(5, 100, (7, 100))
    base[2], other[5, 3] = 0, math.nan
    sides = deviations(base), deviations(other)
    whole = step_half_widths(*sides, 0.01)
    monkeypatch.setattr(noise, "CELLS_AT_ONCE", 200)
    assert np.isnan(whole).tolist() == [row in (2, 5) for row in range(7)]
    assert step_half_widths(*sides, 0.01).tolist() == pytest.approx(whole.tolist(), nan_ok=True)
    for row in range(7):
        (alone,) = step_half_widths(*(side[row : row + 1] for side in sides), 0.01).tolist()
        assert alone == pytest.approx(whole[row], nan_ok=True)


def test_whole_numbers_and_their_unit_do_not_matter() -> None:
    base, other = np.random.default_rng(2).integers(10**6, 2 * 10**6, (2, 1, 60))
    ns = step_half_widths(deviations(base), deviations(other), 0.01)
    us = step_half_widths(deviations(base / 1000), deviations(other / 1000), 0.01)
    assert ns.tolist() == pytest.approx(us.tolist())


def test_the_other_way_round_it_is_as_wide() -> None:
    base, other = map(deviations, np.random.default_rng(3).gamma(9, 1, (2, 5, 80)))
    there, back = step_half_widths(base, other, 0), step_half_widths(other, base, 0)
    assert there.tolist() == pytest.approx(back.tolist())


def test_steps_that_are_all_alike() -> None:
    """What rounding makes of a mean is no change, even where runs are said not to differ."""
    base, other = np.full(30, 0.7), np.full(31, 0.7)
    half = half_width(base, other)
    change = abs(math.log(other.mean() / base.mean()))
    assert change < 1e-12 <= half < 1e-10


def test_a_side_whose_steps_are_all_alike() -> None:
    """Not paired, and with the degrees of freedom of the other side: c_1 alone is not 0."""
    other = 1 + 0.1 * np.cos(math.pi * (np.arange(100) + 0.5) / 100)
    (half,) = step_half_widths(np.zeros((1, 100)), deviations(other[np.newaxis]), 0).tolist()
    quarters = slow.pieces(other.tolist(), 4)
    blocks = slow.pieces(other.tolist(), 10)
    drift = pvariance(quarters) - 0.15 * fmean((b - a) ** 2 for a, b in pairwise(blocks)) / 2
    # 0.4 of 100^(2/3) is 9; c_1 is 0.1 sqrt(100 / 2).
    square = 2.262157**2 * 0.5 / 9 / 100 + 8 / 3 * 2.200985**2 * drift
    assert half == pytest.approx(math.sqrt(square))


def test_what_both_sides_share_is_no_noise() -> None:
    slow = np.where(np.arange(100) < 5, 10.0, 1.0)
    random = np.random.default_rng(7)
    base, other = (slow * white(random, 100, 0.01) for _ in range(2))
    assert half_width(base, other) < 0.01 < 0.3 < half_width(base, other[::-1])


@pytest.mark.parametrize(("weight", "paired"), [(0.45, False), (0.55, True)])
def test_steps_are_paired_where_their_changes_correlate(weight: float, paired: bool) -> None:
    """Two series that have nothing in common, so weighted that the correlation is the weight."""
    random = np.random.default_rng(0)
    changes = random.standard_normal((2, 199))
    changes -= changes.mean(axis=1, keepdims=True)
    changes[1] -= changes[0] * (changes[0] @ changes[1]) / (changes[0] @ changes[0])
    changes /= np.sqrt((changes**2).sum(axis=1, keepdims=True))
    changes[1] = weight * changes[0] + math.sqrt(1 - weight**2) * changes[1]
    assert np.corrcoef(changes)[0, 1] == pytest.approx(weight)
    levels = 10 + np.cumsum(np.pad(changes, ((0, 0), (1, 0))), axis=1)
    sides = [deviations(side[np.newaxis]) for side in levels]
    assert noise.are_paired(*sides).tolist() == [paired]
    assert noise.are_paired(sides[0], -sides[1]).tolist() == [False]


def test_a_trend_that_both_sides_share_pairs_no_steps() -> None:
    """The correlation is about the mean change."""
    steps = np.random.default_rng(10).normal(np.arange(100, 200), 0.1, (2, 1, 100))
    assert noise.are_paired(*steps).tolist() == [False]


def test_drift_is_paid_for_only_where_it_shows() -> None:
    random = np.random.default_rng(8)
    base, other = white(random, 100, 0.05), white(random, 100, 0.05)
    trend = 1 + 0.2 * np.arange(100) / 100
    assert half_width(base, other) < 0.02 < 0.1 < half_width(base, other * trend)


def test_noise_between_runs_is_added_as_a_square() -> None:
    base, other = map(deviations, np.random.default_rng(5).normal(100, 5, (2, 3, 80)))
    without, with_it = step_half_widths(base, other, 0), step_half_widths(base, other, 0.01)
    expected = without**2 + single_run_half_width(0.01) ** 2
    assert (with_it**2).tolist() == pytest.approx(expected.tolist())


def test_many_rows_take_no_time() -> None:
    base, other = np.random.default_rng(6).normal(100, 2, (2, 500, 500))
    begun = time.process_time()
    step_half_widths(deviations(base), deviations(other), 0.01)
    assert time.process_time() - begun < 2


# -- how often it is wrong, and how often it sees what there is


def white(random: np.random.Generator, steps: int, part: float) -> Array:
    return 1 + part * random.standard_normal(steps)


@pytest.mark.parametrize("case", few(power.CASES, 12), ids=lambda case: case.name)
def test_intervals_are_as_often_right_as_they_have_to_be(case: power.Case) -> None:
    """Of 400 pairs, give or take 3 %; `make verdict-power` takes more."""
    rates = case.rates(np.random.default_rng(5), 400)
    known = [rate for name, rate in power.MISSED if name == case.name]
    for bar in (bar for bar in power.bars() if bar.case == case.name and bar.rate not in known):
        assert bar.least - 0.03 <= rates[bar.rate] <= bar.most + 0.03, bar.rate
