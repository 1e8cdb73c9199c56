"""Intervals of ratios: against tables, against a slow version, and how often they are wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import NormalDist, fmean, pvariance

import numpy as np
import pytest

from nsysconv.diff.noise import (
    FEWEST_STEPS,
    Interval,
    _beta,
    bootstrap,
    bootstrap_many,
    repeats,
    t_quantile,
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
    found = repeats([math.exp(-1), 1, math.exp(1)], [1, math.exp(2)], confidence=0.9)
    assert found is not None
    half = t_quantile(0.9, 32 / 19) * math.sqrt(4 / 3)
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


def slow_bootstrap(base: Array, other: Array, rounds: int, seed: int) -> Interval:
    """The definition, one block after the other."""
    random = np.random.default_rng(seed)
    logs, drift, blocks = [], 0.0, []
    for side in (base, other):
        values = (side / fmean(side)).tolist()
        steps = len(values)
        length = round(math.sqrt(steps))
        possible = [values[i : i + length] for i in range(steps - length + 1)]
        expected = fmean(fmean(block) for block in possible)
        starts = random.integers(0, len(possible), (rounds, math.ceil(steps / length)))
        logs.append(
            [math.log(fmean(fmean(possible[i]) for i in drawn) / expected) for drawn in starts]
        )
        blocks.append(steps // length)
        means, quarters = pieces(values, blocks[-1]), pieces(values, 4)
        between = fmean((b - a) ** 2 for a, b in pairwise(means)) / 2
        drift += max(0, pvariance(quarters) - 0.5 * between * 3 / blocks[-1])
    count = min(blocks)
    low, high = np.quantile(np.array(logs[1]) - np.array(logs[0]), (0.025, 0.975))
    wider = t_quantile(0.95, count - 1) / NormalDist().inv_cdf(0.975) * (count / (count - 1)) ** 0.5
    drift *= (t_quantile(0.95, 11) * math.sqrt(8 / 3)) ** 2
    change = math.log(fmean(other) / fmean(base))
    return Interval(
        math.exp(change - math.hypot(wider * low, drift**0.5)),
        math.exp(change + math.hypot(wider * high, drift**0.5)),
    )


def pieces(values: list[float], count: int) -> list[float]:
    edges = [i * len(values) // count for i in range(count + 1)]
    return [fmean(values[low:high]) for low, high in pairwise(edges)]


@pytest.mark.parametrize("steps", [(20, 20), (23, 50), (101, 64), (333, 400)])
def test_the_quick_bootstrap_is_the_slow_one(steps: tuple[int, int]) -> None:
    random = np.random.default_rng(sum(steps))
    base, other = (random.gamma(3, 1000, (5, count)) for count in steps)
    for row, found in enumerate(bootstrap_many(base, other, rounds=150, seed=3)):
        assert found is not None
        slow = slow_bootstrap(base[row], other[row], 150, 3)
        assert (found.low, found.high) == pytest.approx((slow.low, slow.high))


def test_rows_do_not_mind_each_other() -> None:
    random = np.random.default_rng(1)
    base, other = random.gamma(5, 100, (600, 30)), random.gamma(5, 100, (600, 40))
    many = bootstrap_many(base, other, rounds=200)
    assert many == bootstrap_many(base, other, rounds=200)
    for row in (0, 255, 256, 599):
        alone, found = bootstrap(base[row], other[row], rounds=200), many[row]
        assert alone is not None and found is not None
        assert (alone.low, alone.high) == pytest.approx((found.low, found.high))


def test_whole_numbers_and_their_unit_do_not_matter() -> None:
    random = np.random.default_rng(2)
    base, other = random.integers(10**6, 2 * 10**6, (2, 60))
    ns, us = bootstrap(base, other), bootstrap(base / 1000, other / 1000)
    assert ns is not None and us is not None
    assert (ns.low, ns.high) == pytest.approx((us.low, us.high))


def test_many_steps_are_drawn_in_several_pieces() -> None:
    random = np.random.default_rng(4)
    base, other = random.normal(100, 2, (2, 1, 30_000))
    (found,) = bootstrap_many(base, other, rounds=300)
    assert found is not None
    # Standard error of the ratio: 0.02 * sqrt(2 / 30000).
    assert 0.0002 < math.log(found.high / found.low) / 2 < 0.002


def test_steps_that_are_all_alike() -> None:
    same = bootstrap(np.full(30, 0.7), np.full(31, 0.7))
    assert same is not None and not same.excludes_no_change
    assert (same.low, same.high) == pytest.approx((1, 1))
    rounded = bootstrap(np.full(25, 0.3), np.full(26, 0.3), rounds=50)
    assert rounded is not None and not rounded.excludes_no_change
    double = bootstrap(np.full(30, 0.7), np.full(31, 1.4))
    assert double is not None and (double.low, double.high) == pytest.approx((2, 2))


def test_no_interval_of_too_few_steps() -> None:
    few, enough = np.ones((3, FEWEST_STEPS - 1)), np.ones((3, FEWEST_STEPS))
    assert bootstrap_many(few, enough) == [None] * 3
    assert bootstrap_many(enough, few) == [None] * 3
    assert None not in bootstrap_many(enough, enough)
    assert bootstrap(few[0], enough[0]) is None
    assert bootstrap_many(np.ones((0, 30)), np.ones((0, 30))) == []


def test_no_interval_of_a_row_without_a_ratio() -> None:
    base, other = np.ones((5, 30)), np.ones((5, 30))
    base[1], other[2], base[3, 4] = 0, 0, math.nan
    found = bootstrap_many(base, other)
    assert [one is None for one in found] == [False, True, True, True, False]


def test_a_row_of_one_step_may_be_anything() -> None:
    base, rare = np.ones(30), np.zeros(30)
    rare[11] = 60.0
    found = bootstrap(base, rare)
    assert found is not None and found.low == 0 and 2 < found.high < math.inf
    found = bootstrap(rare, base)
    assert found is not None and 0 < found.low < 1 and found.high == math.inf


def test_more_confidence_is_a_wider_interval() -> None:
    base, other = np.random.default_rng(5).normal(100, 5, (2, 80))
    widths = []
    for confidence in (0.5, 0.8, 0.95, 0.99):
        found = bootstrap(base, other, confidence=confidence)
        assert found is not None
        widths.append(found.high - found.low)
    assert widths == sorted(widths)


def test_many_rows_take_no_time() -> None:
    base, other = np.random.default_rng(6).normal(100, 2, (2, 200, 500))
    bootstrap_many(base[:1], other[:1])
    begun = time.process_time()
    bootstrap_many(base, other)
    assert time.process_time() - begun < 2


# -- how often it is wrong
#
# Pairs of runs of one program, with noise of 2 to 10 % per step; a gate of 3 % fails where the means'
# ratio is beyond 1.03 and the interval excludes 1.


def white(random: np.random.Generator, steps: int, part: float) -> Array:
    return 1 + part * random.standard_normal(steps)


def walk(random: np.random.Generator, steps: int, part: float) -> Array:
    """White noise, and a walk that ends as far away as that noise is large."""
    path = np.cumsum(random.standard_normal(steps)) / math.sqrt(steps)
    return white(random, steps, part) * np.exp(part * path)


def walk_alone(random: np.random.Generator, steps: int, part: float) -> Array:
    """A walk whose values within the run deviate by the part: it ends sqrt(6) times as far away."""
    path = np.cumsum(random.standard_normal(steps)) / math.sqrt(steps)
    return np.exp(math.sqrt(6) * part * path)


def trend(random: np.random.Generator, steps: int, part: float) -> Array:
    """White noise, and a trend of either direction that ends as far away as that noise is large."""
    slope = random.choice([-1, 1]) * part
    return white(random, steps, part) * (1 + slope * np.arange(steps) / steps)


def steep_trend(random: np.random.Generator, steps: int, part: float) -> Array:
    """A trend of any slope up to twice that."""
    slope = random.uniform(-2, 2) * part
    return white(random, steps, part) * (1 + slope * np.arange(steps) / steps)


def trend_alone(random: np.random.Generator, steps: int, part: float) -> Array:
    """A trend of either direction whose values within the run deviate by the part."""
    slope = random.choice([-1, 1]) * math.sqrt(12) * part
    return white(random, steps, part / 10) * (1 + slope * np.arange(steps) / steps)


def memory(random: np.random.Generator, steps: int, part: float) -> Array:
    """What remembers about ten steps: between white noise and drift."""
    keeps = math.exp(-1 / 10)
    fresh = math.sqrt(1 - keeps**2) * random.standard_normal(steps)
    level = [random.standard_normal()]
    for change in fresh[1:].tolist():
        level.append(keeps * level[-1] + change)
    return 1 + part * np.array(level)


def bursts(length: int) -> Callable[[np.random.Generator, int, float], Array]:
    """One step in ten takes three times as long; such steps come so many together, on average."""

    def made(random: np.random.Generator, steps: int, part: float) -> Array:
        slow: list[bool] = []
        now = random.random() < 0.1
        while len(slow) < steps:
            slow += [now] * int(random.geometric(1 / length if now else 1 / (9 * length)))
            now = not now
        return white(random, steps, part) * np.where(slow[:steps], 3, 1)

    return made


def exact_bursts(random: np.random.Generator, steps: int, part: float) -> Array:
    """Exactly one step in ten is slow, in clusters of five."""
    slow = np.zeros(steps, bool)
    for start in random.choice(steps // 5, max(1, steps // 50), replace=False):
        slow[5 * start : 5 * start + 5] = True
    return white(random, steps, part) * np.where(slow, 3, 1)


NOISE = {
    "white": white,
    "walk": walk,
    "walk alone": walk_alone,
    "trend": trend,
    "steep trend": steep_trend,
    "trend alone": trend_alone,
    "memory": memory,
    "bursts of 3": bursts(3),
    "bursts of 5": bursts(5),
    "bursts of 10": bursts(10),
    "bursts of 5, exactly": exact_bursts,
}


def failing(
    noise: Callable[[np.random.Generator, int, float], Array],
    steps: int,
    pairs: int,
    *,
    change: float = 1.0,
    parts: tuple[float, float] = (0.02, 0.10),
) -> int:
    """How many of so many pairs fail the gate."""
    random = np.random.default_rng(steps)
    base, other = np.empty((2, pairs, steps))
    for row in range(pairs):
        part = random.uniform(*parts)
        base[row] = noise(random, steps, part)
        other[row] = change * noise(random, steps, part)
    ratios = other.mean(axis=1) / base.mean(axis=1)
    found = bootstrap_many(base, other)
    return sum(
        one is not None and one.excludes_no_change and ratio > 1.03
        for ratio, one in zip(ratios.tolist(), found, strict=True)
    )


@pytest.mark.parametrize("steps", LENGTHS)
@pytest.mark.parametrize("kind", NOISE)
def test_noise_is_rarely_taken_for_a_change(kind: str, steps: int) -> None:
    assert failing(NOISE[kind], steps, PAIRS) <= PAIRS * 0.05


@pytest.mark.parametrize("steps", [50, 100, 400])
def test_a_change_of_ten_percent_is_found_under_white_noise_of_two(steps: int) -> None:
    assert failing(white, steps, 100, change=1.1, parts=(0.02, 0.02)) >= 95


def test_what_it_cannot_do() -> None:
    """Runs that are each steady at a level of their own differ, and only repeats tell why."""
    random = np.random.default_rng(9)
    base, other = white(random, 100, 0.02), 1.1 * white(random, 100, 0.02)
    found = bootstrap(base, other)
    assert found is not None and found.excludes_no_change
    of_runs = repeats([100.0, 110.0, 93.0], [110.0, 99.0, 104.0])
    assert of_runs is not None and not of_runs.excludes_no_change


def test_a_change_smaller_than_the_drift_is_not_found() -> None:
    assert failing(trend_alone, 200, 100, change=1.05, parts=(0.1, 0.1)) <= 5
