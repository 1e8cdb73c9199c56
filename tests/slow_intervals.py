"""Intervals of a change, slowly and one number after the other: what verdicts of a diff rest on.

Nothing of the program is used here. The values that a case is made of, and what comes of them as another
program has it, are in REPEATED and BY_STEP.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from statistics import mean, variance

Interval = tuple[float, float]
Values = Sequence[float]


@cache
def t975(degrees: float) -> float:
    """The 97.5 % quantile of Student's t: its density added up by Simpson's rule, then bisected."""
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
    scale /= math.sqrt(degrees * math.pi)

    def up_to(x: float) -> float:
        count = 600
        density = [
            scale * (1 + (x * i / count) ** 2 / degrees) ** (-(degrees + 1) / 2)
            for i in range(count + 1)
        ]
        weights = [1] + [4, 2] * (count // 2 - 1) + [4, 1]
        return sum(w * d for w, d in zip(weights, density, strict=True)) * x / count / 3

    low, high = 1.9, 13.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if up_to(middle) < 0.475 else (low, middle)
    return low


def half_of_repeats(base: Values, other: Values) -> float:
    """The wider of Welch's interval and that of one variance for both sides."""
    n, m = len(base), len(other)
    s0, s1 = (variance(side) if len(side) > 1 else 0.0 for side in (base, other))
    common = ((n - 1) * s0 + (m - 1) * s1) / (n + m - 2)
    half = t975(n + m - 2) * math.sqrt(common * (1 / n + 1 / m))
    v = s0 / n + s1 / m
    if n > 1 and m > 1 and v:
        degrees = v**2 / ((s0 / n) ** 2 / (n - 1) + (s1 / m) ** 2 / (m - 1))
        half = max(half, t975(degrees) * math.sqrt(v))
    return half


def repeats(base: Values, other: Values) -> Interval:
    """Of the ratio, of one value per run."""
    x, y = ([math.log(value) for value in side] for side in (base, other))
    half = half_of_repeats(x, y)
    return math.exp(mean(y) - mean(x) - half), math.exp(mean(y) - mean(x) + half)


def difference_of_repeats(base: Values, other: Values) -> Interval:
    """Of the difference, in the values' unit."""
    half = half_of_repeats(base, other)
    return mean(other) - mean(base) - half, mean(other) - mean(base) + half


def single(base: float, other: float, noise: float = 0.03) -> Interval:
    """Of the ratio of two values of which nothing more is known."""
    return about(other / base, 1.96 * noise * math.sqrt(2))


def within(base: Values, other: Values, floor: float) -> Interval:
    """Of the ratio of the means, of values by step of one run per side."""
    z0, z1 = ([value / mean(side) - 1 for value in side] for side in (base, other))
    return about(mean(other) / mean(base), half_of_steps(z0, z1, floor))


def trimmed_within(base: Values, other: Values, floor: float) -> Interval:
    """Of the ratio of the means without a tenth of the steps at either end: the usual step."""
    z0, z1 = (winsorised(side) for side in (base, other))
    return about(trimmed(other) / trimmed(base), half_of_steps(z0, z1, floor))


def trimmed(values: Values) -> float:
    ends = len(values) // 10
    return mean(sorted(values)[ends : len(values) - ends])


def winsorised(values: Values) -> list[float]:
    """Deviations of values that are at most as far out as what is left by `trimmed`."""
    ends = len(values) // 10
    low, high = sorted(values)[ends], sorted(values)[len(values) - ends - 1]
    w = [min(max(value, low), high) for value in values]
    return [(value - mean(w)) / trimmed(values) / 0.8 for value in w]


def about(ratio: float, half: float) -> Interval:
    return ratio * math.exp(-half), ratio * math.exp(half)


def half_of_steps(z0: Values, z1: Values, floor: float) -> float:
    """Half the interval of the logarithm, of how far values by step are from their mean."""
    c0, c1 = cosines(z0), cosines(z1)
    paired = len(z0) == len(z1) and correlation(_steps(z0), _steps(z1)) > 0.5
    if paired:
        z = [b - a for a, b in zip(z0, z1, strict=True)]
        v, degrees = long_variance(z), float(terms(len(z)))
    else:
        v0, v1 = long_variance(z0), long_variance(z1)
        v = v0 + v1
        shares = v0**2 / terms(len(z0)) + v1**2 / terms(len(z1))
        degrees = v**2 / shares if shares else 1e9
    c0, c1 = (side[: max(8, terms(len(side) + 1))] for side in (c0, c1))
    weights = [j**2 / (j**2 + 100 / math.pi**2) for side in (c0, c1) for j in range(1, len(side) + 1)]
    squares = [c**2 for side in (c0, c1) for c in side]
    steady = mean(squares)
    walking = sum(w * square for w, square in zip(weights, squares, strict=True)) / sum(weights)
    drift = 0.0
    if steady > 1.13 * walking:
        drift = 8 / 3 * (t975(7.0) ** 2 * wandering(z) if paired
                         else t975(11.0) ** 2 * (wandering(z0) + wandering(z1)))  # fmt: skip
    t = t975(degrees) if degrees < 1e6 else 1.96
    return math.sqrt(t**2 * v + drift + 2 * (1.96 * floor) ** 2)


def terms(count: int) -> int:
    """How many cosines the variance is taken from."""
    return max(2, round(0.4 * count ** (2 / 3)))


def cosines(z: Values) -> list[float]:
    """The orthonormal type-II cosine coefficients but for the first."""
    n = len(z)
    return [
        math.sqrt(2 / n) * sum(x * math.cos(math.pi * j * (i + 0.5) / n) for i, x in enumerate(z))
        for j in range(1, n)
    ]


def long_variance(z: Values) -> float:
    """The variance of the mean, from the slowest cosines."""
    return mean(c**2 for c in cosines(z)[: terms(len(z))]) / len(z)


def wandering(z: Values) -> float:
    """How far quarters lie apart beyond what noise from block to block explains."""
    quarters, blocks = pieces(z, 4), pieces(z, len(z) // round(math.sqrt(len(z))))
    apart = mean(step**2 for step in _steps(blocks))
    spread = mean((quarter - mean(quarters)) ** 2 for quarter in quarters)
    return max(0.0, spread - 0.5 * 3 / len(blocks) * apart / 2)


def pieces(z: Values, count: int) -> list[float]:
    edges = [len(z) * i // count for i in range(count + 1)]
    return [mean(z[first:last]) for first, last in pairwise(edges)]


def correlation(x: Values, y: Values) -> float:
    dx, dy = [a - mean(x) for a in x], [b - mean(y) for b in y]
    spread = math.sqrt(sum(a * a for a in dx) * sum(b * b for b in dy))
    return sum(a * b for a, b in zip(dx, dy, strict=True)) / spread if spread else 0.0


def _steps(z: Values) -> list[float]:
    return [b - a for a, b in pairwise(z)]


def state(interval: Interval, change: float, limit: float, unchanged: float = 1.0) -> str:
    """What a limit in percent says of a ratio (or, with `unchanged` 0, one in a unit of a difference)."""
    scale = 100 if unchanged else 1
    low, high = ((edge - unchanged) * scale for edge in interval)
    if low > 0 and change > limit:
        return "exceeded"
    return "within" if high <= limit else "inconclusive"


def verdict(interval: Interval) -> str:
    """What is said of a change of which less is better."""
    low, high = interval
    if low > 1 or high < 1:
        return "worse" if low > 1 else "better"
    return "same" if low >= 0.97 and high <= 1.03 else "~"


# -- planted values


def p(n: int, s: float, a: int = 7, m: int = 11) -> list[float]:
    """So many values about 1, up to `s` away from it, in a fixed disorder."""
    middle = (m - 1) / 2
    return [1 + s * ((i * a % m) - middle) / middle for i in range(n)]


def q(n: int, s: float) -> list[float]:
    """As `p`, in another disorder."""
    return p(n, s, 3, 13)


def by(factor: float, values: Values) -> list[float]:
    return [factor * value for value in values]


def slow_tenths(values: Values) -> list[float]:
    """Every tenth step takes three times as long."""
    return [3 * x if i % 10 == 9 else x for i, x in enumerate(values)]


HUNDRED = [100.0, 101.0, 99.0, 100.0, 102.0]
FIVE_MORE = [105.0, 106.0, 104.0, 105.0, 107.0]

# Values of runs (base, other), the interval of the ratio, and what a limit of 3 % says.
REPEATED: dict[str, tuple[Values, Values, Interval, str]] = {
    "R1": (HUNDRED, FIVE_MORE, (1.03298, 1.06691), "exceeded"),
    "R2": ([100, 101], [110, 111], (1.06788, 1.13207), "exceeded"),
    "R3": ([100], FIVE_MORE, (1.01988, 1.08916), "exceeded"),
    "R4": ([100] * 3, [103.5] * 3, (1.035, 1.035), "exceeded"),
    "R5": (HUNDRED, [100, 101, 99, 100, 112], (0.95680, 1.08499), "inconclusive"),
    "R6": ([100, 101], [100, 101, 99, 100, 102, 101, 100, 99], (0.97407, 1.02145), "within"),
    "R7": ([100, 100.5], [104], (0.98201, 1.09594), "inconclusive"),
}  # fmt: skip

# Values by step of one run per side, which runs are assumed to differ by 1 %.
BY_STEP: dict[str, tuple[Values, Values, Interval, str]] = {
    "W1": (by(10, p(40, 0.02)), by(10, q(40, 0.02)), (0.97193, 1.02744), "within"),
    "W2": (by(10, p(40, 0.02)), by(11, q(40, 0.02)), (1.06912, 1.13019), "exceeded"),
    "W3": (by(10, p(40, 0.2)), by(10.4, p(40, 0.2)), (1.01157, 1.06923), "exceeded"),
    "W4": (by(10, p(40, 0.01)), [10 * x * (1 + 0.002 * i) for i, x in enumerate(q(40, 0.01))],
           (0.95397, 1.13082), "inconclusive"),
    "W5": (slow_tenths(by(10, p(40, 0.02))), slow_tenths(by(10, q(40, 0.02))),
           (0.96917, 1.02700), "within"),
    "W6": (by(10, p(40, 0.02)), by(11, q(60, 0.02)), (1.06949, 1.13055), "exceeded"),
    "W8": ([10.0] * 40, [10.5] * 40, (1.02130, 1.07951), "exceeded"),
}  # fmt: skip
