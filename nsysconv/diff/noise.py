"""Intervals of the ratio other / base, for telling a change from noise.

Several runs: `repeats`. One run a side, with a value per step: `bootstrap`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray

FEWEST_STEPS = 20
"""Of fewer steps `bootstrap` makes no interval."""

_PIECES = 4
# Two runs that walk at random from one level: the mean's standard deviation about that level is
# sqrt(1/3) of the walk's at its end, the spread of the means of four pieces sqrt(1/8) of it.
_WALK_MEAN_TO_SPREAD = math.sqrt(8 / 3)
# As if that spread were estimated with so many degrees of freedom: found by simulation, with walks and
# trends as large as the white noise beside them and larger. (Walks alone have about five; but then
# a smaller part of the short noise need be left in the spread.)
_WALK_DEGREES = 11.0
# How much of the spread that short noise alone would give is not taken for drift. All of it would
# let through the drift of short runs that their noise half hides; none would triple the interval of
# runs that do not drift.
_SHORT_NOISE_SHARE = 0.5
# Rounding moves a ratio by less.
_ROUNDING = 1e-12
_ROWS_AT_ONCE = 256
_CELLS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Interval:
    """Where the ratio other / base may be; `low` may be 0 and `high` infinite."""

    low: float
    high: float

    @property
    def excludes_no_change(self) -> bool:
        """Whether the two sides differ by more than noise: 1 is outside."""
        return not self.low <= 1 <= self.high


def repeats(
    base: Sequence[float], other: Sequence[float], *, confidence: float = 0.95
) -> Interval | None:
    """The interval of the ratio of the geometric means, of one value per run.

    Of Student's t on the logarithms, the wider of two intervals. Welch's (Biometrika 34, 1947), with the
    degrees of freedom of Welch and Satterthwaite, lets each side vary in its own way, and is too narrow
    where one has few runs and the other many. That of one variance for both is too narrow where the
    side with fewer runs varies more. One run against several is taken to vary as these do.

    None where the sides have fewer than three values together or one has none, or where a value is not
    positive and finite. Sides without any variance give one point.
    """
    sides = (base, other)
    count = len(base) + len(other)
    if not all(sides) or count < 3 or not all(0 < x < math.inf for side in sides for x in side):
        return None
    logs = [[math.log(x) for x in side] for side in sides]
    # Exact, so that equal values have no variance.
    means = [statistics.mean(side) for side in logs]
    variances = [statistics.variance(side) if len(side) > 1 else 0.0 for side in logs]
    degrees = [len(side) - 1 for side in sides]
    common = sum(v * d for v, d in zip(variances, degrees, strict=True)) / (count - 2)
    square = common * sum(1 / len(side) for side in sides)
    half = t_quantile(confidence, count - 2) * math.sqrt(square) if square else 0.0
    if all(degrees):
        squares = [v / len(side) for v, side in zip(variances, sides, strict=True)]
        half = max(half, _welch(squares, degrees, confidence))
    change = means[1] - means[0]
    return Interval(_exp(change - half), _exp(change + half))


def _welch(squares: Sequence[float], degrees: Sequence[int], confidence: float) -> float:
    """Half of Welch's interval, of the squared standard errors of both means."""
    square = sum(squares)
    if not square:
        return 0.0
    # Shares of the whole, for the squares of tiny variances are 0.
    shares = [each / square for each in squares]
    inverse = sum(share**2 / each for share, each in zip(shares, degrees, strict=True))
    return t_quantile(confidence, 1 / inverse) * math.sqrt(square)


def bootstrap(
    base: Array, other: Array, *, confidence: float = 0.95, rounds: int = 2000, seed: int = 0
) -> Interval | None:
    """The interval of the ratio of the means, of one run's values per step and side.

    As `bootstrap_many` of one row.
    """
    rows = base[np.newaxis], other[np.newaxis]
    return bootstrap_many(*rows, confidence=confidence, rounds=rounds, seed=seed)[0]


def bootstrap_many(
    base: Array, other: Array, *, confidence: float = 0.95, rounds: int = 2000, seed: int = 0
) -> list[Interval | None]:
    """Per row the interval of the ratio of the means, of values per step (rows x steps).

    The sides may differ in their number of steps. None for all where one has fewer than FEWEST_STEPS,
    and for a row whose mean is not positive and finite on a side. The same values and seed give the
    same intervals.

    Two parts are added as squares, on the logarithm of the ratio:

    - Noise of up to a block's length, white or in bursts: the percentiles of a moving-block bootstrap
      (H. R. Künsch, Annals of Statistics 17, 1989) with blocks of sqrt(steps), about their own
      middle, widened from the normal's quantile to that of Student's t with as many degrees of
      freedom as the shorter run has blocks, less one.
    - Drift: how far the means of each run's quarters are apart, beyond what noise from block to block
      explains (the mean square successive difference: J. von Neumann, Annals of Mathematical
      Statistics 12, 1941). What a run drifts by within itself, its mean may have drifted from the
      other's. No number of steps makes this part smaller. It is set for two random walks from one
      level; linear trends of either direction are closer to it than walks.

    What it cannot do. A run tells only of what happened in it: two runs that are each steady, at levels
    of their own (another clock of the GPU, another node, another placement in memory), differ, and
    nothing in them says that the next pair would differ the other way; only repeats do. So do runs
    whose drift is slower than they are long, and two of which only one has the few bursts that both
    might have had. And what drifts hides changes smaller than the drift; slow first steps are such a
    drift, although both runs have them.
    """
    result: list[Interval | None] = [None] * len(base)
    if min(base.shape[1], other.shape[1]) < FEWEST_STEPS:
        return result
    means = [side.mean(axis=1) for side in (base, other)]
    usable = np.logical_and.reduce([(mean > 0) & np.isfinite(mean) for mean in means])
    rows = np.flatnonzero(usable)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        piece = rows[first : first + _ROWS_AT_ONCE]
        sides = [
            side[piece] / mean[piece, np.newaxis]
            for side, mean in zip((base, other), means, strict=True)
        ]
        change = np.log(means[1][piece] / means[0][piece])
        down, up = _half_widths(sides, confidence, rounds, seed)
        for row, low, high in zip(
            piece.tolist(), (change - down).tolist(), (change + up).tolist(), strict=True
        ):
            result[row] = Interval(_exp(low), _exp(high))
    return result


def _half_widths(
    sides: Sequence[Array], confidence: float, rounds: int, seed: int
) -> tuple[Array, Array]:
    """Per row how far the interval reaches down and up, of values with a mean of 1 on each side."""
    random = np.random.default_rng(seed)
    prefixes = [_prefix_sums(side) for side in sides]
    blocks = min(_blocks(side.shape[1]) for side in sides)
    base, other = (_resampled(prefix, rounds, random) for prefix in prefixes)
    tail = (1 - confidence) / 2
    low, high = np.quantile(other - base, (tail, 1 - tail), axis=0)
    degrees = float(blocks - 1)
    # The variance of what is drawn from so many blocks is that much too small.
    wider = t_quantile(confidence, degrees) / statistics.NormalDist().inv_cdf(1 - tail)
    wider *= math.sqrt(blocks / degrees)
    factor = _WALK_MEAN_TO_SPREAD * t_quantile(confidence, _WALK_DEGREES)
    drift = factor**2 * np.add(*map(_drift_squares, prefixes))
    down, up = (
        np.maximum(np.sqrt((wider * np.maximum(reach, 0)) ** 2 + drift), _ROUNDING)
        for reach in (-low, high)
    )
    return down, up


def _prefix_sums(values: Array) -> Array:
    """Per row the sums of its first 0, 1, ... values."""
    return np.pad(np.cumsum(values, axis=1, dtype=np.float64), ((0, 0), (1, 0)))


def _block_length(steps: int) -> int:
    return round(math.sqrt(steps))


def _blocks(steps: int) -> int:
    """How many whole blocks there are."""
    return steps // _block_length(steps)


def _piece_means(prefix: Array, count: int) -> Array:
    """The means of so many pieces of each row, as equal in length as can be."""
    edges = np.arange(count + 1) * (prefix.shape[1] - 1) // count
    means: Array = np.diff(prefix[:, edges], axis=1) / np.diff(edges)
    return means


def _resampled(prefix: Array, rounds: int, random: np.random.Generator) -> Array:
    """Logarithms of the means of resampled runs, about that of their expected value (rounds x rows).

    A resampled run strings together blocks of which any step but the last may be the first. All rows
    share the blocks drawn.
    """
    steps = prefix.shape[1] - 1
    length = _block_length(steps)
    means = (prefix[:, length:] - prefix[:, :-length]).T / length
    starts, drawn = len(means), -(-steps // length)
    result = np.empty((rounds, means.shape[1]))
    at_once = max(1, _CELLS_AT_ONCE // starts)
    for first in range(0, rounds, at_once):
        count = min(at_once, rounds - first)
        start = random.integers(0, starts, (count, drawn))
        # How often each block is drawn in each round: then one product of matrices serves all rows.
        cells = (start + np.arange(count)[:, np.newaxis] * starts).ravel()
        times = np.bincount(cells, minlength=count * starts).reshape(count, starts)
        result[first : first + count] = times.astype(np.float64) @ means
    # A row of which only few steps are not 0 may be resampled without any: far off, but a number.
    smallest = np.finfo(np.float64).tiny
    expected = np.maximum(means.mean(axis=0), smallest)
    logs: Array = np.log(np.maximum(result / drawn, smallest)) - np.log(expected)
    return logs


def _drift_squares(prefix: Array) -> Array:
    """Per row the variance of its quarters' means, less what noise from block to block explains."""
    blocks = _blocks(prefix.shape[1] - 1)
    steps_between = np.diff(_piece_means(prefix, blocks), axis=1)
    short = (steps_between**2).mean(axis=1) / 2
    explained = short * (_PIECES - 1) / blocks
    spread = _piece_means(prefix, _PIECES).var(axis=1)
    squares: Array = np.maximum(0, spread - _SHORT_NOISE_SHARE * explained)
    return squares


def _exp(power: float) -> float:
    """e to the power; infinite where that is too large."""
    return math.exp(power) if power < 709 else math.inf


def t_quantile(confidence: float, degrees: float) -> float:
    """The t that Student's t with these degrees of freedom is within, either way, so often.

    |t| <= x has the probability I(1/2, degrees/2) at x^2 / (degrees + x^2), I being the regularised
    incomplete beta function (DLMF 8.17; Abramowitz and Stegun 26.7.1).
    """
    found = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    scale += math.log(4 / (math.pi * degrees)) / 2
    # Newton's method: the probability is concave in t and the normal's t too small, so that each step
    # comes closer from below.
    for _ in range(100):
        square = found**2 / degrees
        missing = confidence - _beta(square / (1 + square), 0.5, degrees / 2)
        step = missing / math.exp(scale - (degrees + 1) / 2 * math.log1p(square))
        found += step
        if abs(step) < 1e-12 * found:
            break
    return found


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b) for 0 < x < 1."""
    # The fraction converges quickly below the mean; beyond it, that of the other side does.
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_fraction(1 - x, b, a)
    return _beta_fraction(x, a, b)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """I_x(a, b) by its continued fraction (DLMF 8.17.22), evaluated by the method of Lentz."""
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / a
    upper, lower, fraction = 1.0, 0.0, 1.0
    for i in range(1, 10_000):
        m = i // 2
        if i % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        upper, lower = 1 + term / upper, 1 / (1 + term * lower)
        fraction *= upper * lower
        if abs(upper * lower - 1) < 1e-15:
            break
    return front / fraction
