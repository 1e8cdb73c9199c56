"""Intervals of ratios: against tables, against a slow version, and how often they are wrong."""

from __future__ import annotations

import math
from statistics import NormalDist, fmean

import numpy as np
import pytest

from nsysconv.diff.noise import (
    Interval,
    _beta,
    deviations,
    repeats,
    t_quantile,
    within,
)

Array = np.ndarray
PAIRS = 200
LENGTHS = (50, 100, 200, 400)


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


@pytest.mark.parametrize("x", [0.001, 0.2, 0.5, 0.77, 0.999])
def test_beta_in_closed_form(x: float) -> None:
    assert _beta(x, 1, 1) == pytest.approx(x)
    assert _beta(x, 2, 2) == pytest.approx(3 * x**2 - 2 * x**3)
    assert _beta(x, 5, 1) == pytest.approx(x**5)
    assert _beta(x, 0.5, 0.5) == pytest.approx(2 / math.pi * math.asin(math.sqrt(x)))


# -- repeats


def test_an_interval_excludes_no_change() -> None:
    assert Interval(1.01, 1.2).excludes_no_change
    assert Interval(0.8, 0.99).excludes_no_change
    assert not Interval(1.0, 1.2).excludes_no_change
    assert not Interval(0.8, 1.0).excludes_no_change
    assert not Interval(0.0, math.inf).excludes_no_change


def test_repeats_by_hand() -> None:
    """Logs -1, 1 and 2, 4: variance 2 each, standard error sqrt(2), 2 degrees of freedom."""
    found = repeats([math.exp(-1), math.exp(1)], [math.exp(2), math.exp(4)])
    assert found is not None
    half = 4.302653 * math.sqrt(2)
    assert math.log(found.low) == pytest.approx(3 - half)
    assert math.log(found.high) == pytest.approx(3 + half)


def test_repeats_of_unequal_sides_by_hand() -> None:
    """Squares 1/3 and 1: (4/3)^2 / ((1/3)^2 / 2 + 1^2 / 1) = 32/19 degrees of freedom."""
    found = repeats([math.exp(-1), 1, math.exp(1)], [1, math.exp(2)])
    assert found is not None
    half = t_quantile(0.95, 32 / 19) * math.sqrt(4 / 3)
    assert math.log(found.low) == pytest.approx(1 - half)
    assert math.log(found.high) == pytest.approx(1 + half)


def test_repeats_the_other_way_round_is_the_inverse() -> None:
    base, other = [10.0, 11.0, 10.5], [12.0, 11.5]
    forward, back = repeats(base, other), repeats(other, base)
    assert forward is not None and back is not None
    assert forward.low == pytest.approx(1 / back.high)
    assert forward.high == pytest.approx(1 / back.low)


def test_repeats_without_variance_is_a_point() -> None:
    assert repeats([1.0, 1.0], [2.0, 2.0, 2.0]) == Interval(2.0, 2.0)
    for runs in range(2, 60):
        assert repeats([1.1] * runs, [1.1] * 2) == Interval(1.0, 1.0)


def test_repeats_with_variance_on_one_side_only() -> None:
    found = repeats([100.0] * 3, [109.0, 110.0, 111.0])
    assert found is not None
    half = t_quantile(0.95, 2) * 1 / 110 / math.sqrt(3)
    assert math.log(found.low) == pytest.approx(math.log(1.1) - half, abs=1e-4)
    assert found.excludes_no_change


def test_tiny_variances_do_not_vanish() -> None:
    found = repeats([1.0, math.nextafter(1, 2)], [1.0, math.nextafter(1, 2)])
    assert found is not None and not found.excludes_no_change


@pytest.mark.parametrize(
    "bad", [[], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf]]
)
def test_no_interval_of_such_repeats(bad: list[float]) -> None:
    assert repeats(bad, [1.0, 2.0]) is None
    assert repeats([1.0, 2.0], bad) is None


NEAR_100 = [100, 101, 99, 100, 102]


@pytest.mark.parametrize(
    ("base", "other", "low", "high"),
    [
        (NEAR_100, [105, 106, 104, 105, 107], 1.03298, 1.06691),
        ([100, 101], [110, 111], 1.06788, 1.13207),
        ([100], [105, 106, 104, 105, 107], 1.01988, 1.08916),
        ([100] * 3, [103.5] * 3, 1.035, 1.035),
        (NEAR_100, [100, 101, 99, 100, 112], 0.95680, 1.08499),
        ([100, 101], [100, 101, 99, 100, 102, 101, 100, 99], 0.97407, 1.02145),
        ([100, 100.5], [104], 0.98201, 1.09594),
    ],
)
def test_intervals_of_runs(
    base: list[float], other: list[float], low: float, high: float
) -> None:
    """Computed by hand, and with a program of its own."""
    found = repeats(base, other)
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(low, abs=2e-5), pytest.approx(high, abs=2e-5))


def test_one_run_a_side_tells_nothing_of_runs() -> None:
    assert repeats([100], [104]) is None
    assert repeats([], [100, 101, 102]) is None


def test_one_run_against_several_varies_as_these_do() -> None:
    """Logs 0 and -1, 1: variance 2 of one degree of freedom, standard error sqrt(2 (1 + 1/2))."""
    found = repeats([1.0], [math.exp(-1), math.exp(1)])
    assert found is not None
    half = 12.7062 * math.sqrt(3)
    assert math.log(found.high) == pytest.approx(half, abs=1e-3)
    assert math.log(found.low) == pytest.approx(-half, abs=1e-3)


@pytest.mark.parametrize(
    ("base_runs", "other_runs", "base_noise"), [(1, 5, 0.02), (2, 8, 0.02), (5, 2, 0.02), (2, 8, 0.01)]
)
def test_sides_of_other_numbers_of_runs_are_as_often_wrong_as_it_says(
    base_runs: int, other_runs: int, base_noise: float
) -> None:
    random = np.random.default_rng(base_runs * 10 + other_runs)
    wrong = 0
    for _ in range(1000):
        base = np.exp(random.normal(0, base_noise, base_runs)).tolist()
        found = repeats(base, np.exp(random.normal(0, 0.02, other_runs)).tolist())
        wrong += found is not None and found.excludes_no_change
    assert wrong <= 75  # of 50 expected; Welch alone has 87 of two against eight


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_repeats_is_as_often_wrong_as_it_says(runs: int) -> None:
    random = np.random.default_rng(runs)
    wrong = 0
    for _ in range(1000):
        base, other = np.exp(random.normal(0, 0.05, (2, runs))).tolist()
        found = repeats(base, other)
        wrong += found is not None and found.excludes_no_change
    assert wrong <= 65  # of 50 expected


# -- one run a side


def p(steps: int, size: float, by: int = 7, of: int = 11) -> Array:
    """Values about 1 that vary by up to the size, in an order that looks like none."""
    return 1 + size * (np.arange(steps) * by % of - (of - 1) / 2) / ((of - 1) / 2)


def q(steps: int, size: float) -> Array:
    return p(steps, size, 3, 13)


TENTH_IS_SLOW = np.where(np.arange(40) % 10 == 9, 3, 1)


@pytest.mark.parametrize(
    ("base", "other", "low", "high"),
    [
        (10 * p(40, 0.02), 10 * q(40, 0.02), 0.97193, 1.02744),
        (10 * p(40, 0.02), 11 * q(40, 0.02), 1.06912, 1.13019),
        (10 * p(40, 0.2), 10.4 * p(40, 0.2), 1.01157, 1.06923),
        (10 * p(40, 0.01), 10 * q(40, 0.01) * (1 + 0.002 * np.arange(40)), 0.95397, 1.13082),
        (10 * p(40, 0.02) * TENTH_IS_SLOW, 10 * q(40, 0.02) * TENTH_IS_SLOW, 0.96917, 1.02700),
        (10 * p(40, 0.02), 11 * q(60, 0.02), 1.06949, 1.13055),
        (np.full(40, 10), np.full(40, 10.5), 1.02130, 1.07951),
    ],
    ids=["white", "changed", "paired", "drift", "slow steps", "other numbers of steps", "all alike"],
)
def test_intervals_of_one_run_a_side(base: Array, other: Array, low: float, high: float) -> None:
    """Computed with a program of its own, runs differing by 1 %."""
    (half,) = within(deviations(base[np.newaxis]), deviations(other[np.newaxis]), 0.01).tolist()
    ratio = fmean(other) / fmean(base)
    assert ratio * math.exp(-half) == pytest.approx(low, abs=2e-5)
    assert ratio * math.exp(half) == pytest.approx(high, abs=2e-5)
