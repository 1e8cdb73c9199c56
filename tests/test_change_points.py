"""Where a series steps: the statistic against a slow version, and series with known steps."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysconv.diff.change_points import FEWEST_VALUES, change_points, outliers, split_statistics


def slow_statistic(values: list[int], place: int) -> Fraction:
    """The energy statistic of the ranks before and from a place, term by term."""
    count = len(values)
    ranks = [
        Fraction(sum(v < value for v in values) + sum(v <= value for v in values) + 1, 2 * count)
        for value in values
    ]
    before, after = ranks[:place], ranks[place:]

    def mean_distance(one: list[Fraction], other: list[Fraction]) -> Fraction:
        return sum((abs(a - b) for a, b in product(one, other)), Fraction()) / (len(one) * len(other))

    within = mean_distance(before, before) + mean_distance(after, after)
    return Fraction(len(before) * len(after), count) * (2 * mean_distance(before, after) - within)


def test_the_statistic_by_hand() -> None:
    # Ranks are 1 to 6, divided by 6. Those of the sides are 3 / 6 apart on average, those within a side
    # (0 + 1 + 2 + 1 + 0 + 1 + 2 + 1 + 0) / 9 / 6 = 8 / 54. 3 x 3 / 6 x (2 x 1/2 - 2 x 8/54) = 19 / 18.
    assert split_statistics(np.array([1.0, 2, 3, 10, 11, 12]))[2] == pytest.approx(19 / 18)


@given(st.lists(st.integers(0, 12), min_size=2, max_size=14))
def test_the_statistic_is_that_of_its_definition(values: list[int]) -> None:
    found = split_statistics(np.array(values, float))
    expected = [float(slow_statistic(values, place)) for place in range(1, len(values))]
    assert found == pytest.approx(expected, abs=1e-9)


def wave(count: int, level: float = 100.0) -> list[float]:
    """Values around a level, by -2 to 2 %, that neither rise nor fall."""
    return [level * (1 + 0.02 * ((i * 37) % 101 - 50) / 50) for i in range(count)]


@pytest.mark.parametrize(("series", "points"), [
    (wave(40), []),
    (wave(20) + wave(20, 105.0), [20]),
    (wave(30) + wave(15, 110.0) + wave(30), [30, 45]),
    # Six runs behind a step are enough, five are not.
    (wave(34) + wave(6, 110.0), [34]),
    (wave(194) + wave(6, 110.0), [194]),
    (wave(35) + wave(5, 110.0), []),
    # One run alone is no level, however far it is.
    ([*wave(20), 130.0, *wave(19)], []),
    ([100.0] * 10 + [110.0] * 10, [10]),
    ([100.0] * 10 + [100.9] * 10, []),  # below 1 %
    ([100.0] * 10 + [101.1] * 10, [10]),
    ([100.0] * 6 + [150.0] * 7, []),  # 13 runs
    ([100.0] * 7 + [150.0] * 7, [7]),
    ([0.0] * 20 + [3.0] * 20, [20]),
    ([5.0] * 40, []),
    ([], []),
])  # fmt: skip
def test_known_steps(series: list[float], points: list[int]) -> None:
    assert change_points(series) == points
    assert change_points([7 * value for value in series]) == points


def test_values_that_wander_have_no_steps() -> None:
    # Each value is 0.8 of the one before and a push: 60 such series, of which one in twenty may have
    # what looks like a step.
    numbers = np.random.default_rng(3)
    found = 0
    for _ in range(60):
        value, series = 0.0, []
        for push in numbers.standard_normal(100):
            value = 0.8 * value + 0.6 * push
            series.append(float(np.exp(0.01 * value)))
        found += bool(change_points(series))
    assert found <= 6


@given(st.lists(st.integers(90, 110), max_size=FEWEST_VALUES - 1))
def test_too_few_values_show_nothing(values: list[int]) -> None:
    assert change_points(values) == []


def test_outliers_are_far_from_their_level() -> None:
    # Deviations of the wave are 1 % by median: beyond 7.4 % a value is far.
    series = wave(20) + wave(20, 150.0)
    series[5], series[30], series[31] = 109.0, 100.0, 152.0
    assert outliers(series, [20]) == [5, 30]
    # Where values hardly vary it takes 3 %.
    assert outliers([100.0] * 9 + [102.9], []) == []
    assert outliers([100.0] * 9 + [103.1], []) == [9]
