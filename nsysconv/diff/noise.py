"""Confidence intervals of a change at 95 %, without random numbers: is it more than noise?

Several runs: `runs_ratio_interval` of a ratio, `runs_difference_interval` of a difference. One run per
side: `step_half_widths` where there is a value per step, else `single_run_half_width`, with what
`RunNoise` assumes of who makes the value: the GPU, the host, or both.
"""

from __future__ import annotations

import bisect
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from nsysconv.codes import COMMUNICATION
from nsysconv.timeline.account import Account
from nsysconv.timeline.steps import MIN_STEPS

Array = np.ndarray

CONFIDENCE = 0.95
"""Confidence level: the share of intervals that hold the true change."""

RUN_NOISE = 0.01
"""Standard deviation of one run, as a share, of unchanged work on the same GPU and with steps.

Four repeats per side of recorded training runs had 1.3 and 1.4 %, two machines with one model of GPU
0.6 % (pytorch/pytorch #92358); nvbench ends a measurement at 0.5 % within one run.
"""

UNKNOWN_RUN_NOISE = 0.03
"""The same if the GPU is another one or not known, or there are no steps to look at.

Ten unchanged CI runs on one model of GPU had about 3 % (Forest-Neurotech/mach #73). GPUs of one model
may differ by more: 8 % on average (Sinha et al., SC22).
"""

HOST_RUN_NOISE = 0.10
"""The same of the host's times, and of steps and windows in which the GPU waits for it.

The time per step of one training, whose GPU waits for the host, had 15 % in six processes on a virtual
machine, calls and operators 18 and 20 %, kernels 0.1 % (tests/recorded, `same`). A host of one's own
varies less.
"""

FEWEST_RUNS = 3
"""Runs per side from which on they show how runs differ."""

MANY_RUNS = 10
"""Runs of one side from which on they show it for a side of fewer runs, too."""

_VARIES_MORE = 0.05

_NORMAL = 1.96
_MOST_RUNS = 1000

# Drift is looked for in so many cosines at least.
_SLOWEST = 8
# A walk at random adds to the square of the jth cosine (_WALK / j)^2 times what steady noise does, if it
# goes by 10 / steps of that noise in a step: the walk that the test of Elliott and Müller (Review of
# Economic Studies 73, 2006) is best at.
_WALK = 10 / math.pi
# A run is said to drift if steady noise explains its cosines this many times worse than that walk does.
_DRIFT_SHOWS = 1.13
_PIECES = 4
# If two runs walk at random from one level, the variance of the mean about that level is 1/3 of the
# variance of the walk's end, and the variance of the means of four pieces is 1/8 of it.
_WALK_MEAN_TO_SPREAD = 8 / 3
# That variance has about as many degrees of freedom as these. They were found by simulation with walks
# and trends beside white noise, and so were _DRIFT_SHOWS and _SHORT_NOISE_SHARE.
_WALK_DEGREES = 11.0
_PAIRED_WALK_DEGREES = 7.0
# Drift excludes this share of the spread that short noise alone would give. A share of 1 would miss the
# drift of short runs that their noise partly hides.
_SHORT_NOISE_SHARE = 0.5
_PAIRED_CORRELATION = 0.5
# Rounding moves the logarithm of a ratio by less.
_ROUNDING = 1e-12
_TRIMMED = 10
"""One value in this many is cut at either end."""
CELLS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class ConfidenceInterval:
    """Confidence interval of other / base, or of other - base; `high` may be infinite."""

    low: float
    high: float

    def excludes(self, value: float) -> bool:
        """Return whether a value is outside; the ends are inside."""
        return not self.low <= value <= self.high


# -- what runs are assumed to differ by, where each side is one

Maker = Literal["host", "span", "wait", "kernels", "copies"]

WAITING_SHARE = 0.1
"""More than this share of waiting makes a time that of what is waited for."""

_PAGEABLE = "Pageable"
# Columns that hold a time, or follow from one.
_TIMED = re.compile(r"_ns$|_per_s$")
_IDLE_BY_THE_HOST = ("idle_host", "idle_launch", "idle_unknown")
_HOST_TIMES = ("host_sum_ns", "host_self_sum_ns", "backward_host_sum_ns", "api_sum_ns")
_QUEUES = ("launch_latency_avg_ns", "launch_latency_med_ns", "queue_sum_ns", "queue_avg_ns",
           "queue_med_ns", "queue_max_ns")  # fmt: skip
_GAPS = ("gap_count", "gap_sum_ns", "per_step_ns", "host_sum_ns", "launch_sum_ns", "queue_sum_ns",
         "migration_sum_ns", "profiler_sum_ns", "unknown_sum_ns", "end_sum_ns",
         "device_max_sum_ns")  # fmt: skip
HOST_COLUMNS: Mapping[str, Mapping[Maker, tuple[str, ...]]] = {
    "overview": {"span": ("window_ns",), "wait": ("idle_ns", "idle_pct"),
                 "kernels": ("kernel_sum_ns", "kernel_union_ns"), "copies": ("memcpy_sum_ns",)},
    "processes": {"host": ("api_sum_ns",)},
    "api_vs_kernel": {"host": ("api_sum_ns", "per_step_ns"),
                      "wait": ("launch_latency_avg_ns", "queue_avg_ns")},
    "launch_stats": {"host": ("api_sum_ns", "api_med_ns", "api_max_ns"), "wait": _QUEUES},
    "idle_summary": {"wait": _GAPS},
    "idle_host": {"wait": ("gap_count", "host_sum_ns", "device_max_sum_ns")},
    "comm_overlap": {"span": ("window_ns",),
                     "wait": ("idle_ns", "communication_union_ns", "exposed_communication_ns",
                              "overlap_ns")},
    "collectives": {"wait": ("kernel_sum_ns", "wait_sum_ns")},
    "gpu_utilization": {"span": ("window_ns",), "wait": ("gpu_utilization_pct",)},
    "steps": {"span": ("dur_ns", "avg_ns", "trimmed_ns", "period_ns"),
              "wait": ("communication_ns",),
              "host": ("between_ns", "runtime_ns", "cpu_ns", "data_loader_ns", "other_ns")},
    "operators": {"host": _HOST_TIMES},
    "modules": {"host": _HOST_TIMES[:3]},
    "ranges": {"host": ("range_sum_ns", "self_sum_ns", "avg_ns", "med_ns", "min_ns", "max_ns")},
}  # fmt: skip
"""Columns that the host makes, by report: its own times; spans of host and GPU together; and waits of
one for the other; and the GPU's work with what waits in it, communication and copies of pageable memory.
All others are the GPU's work."""


@dataclass(frozen=True)
class RunNoise:
    """Hold the relative standard deviations of one run.

    Of what the GPU does: `stepped` where steps show the rest, else `single`. `host` is that of the host's
    times, `span` that of steps and windows where the GPU waits for the host (None: as what the GPU does),
    `wait` that of waits (None: unknown, for they are what two times differ by). `communicates`: more than
    a tenth of the kernels' time is of communication, which waits; `is_pageable`: as much of the copies'
    time of pageable memory; `is_cold`: as much of a window is such copies, or the loading of code.
    """

    stepped: float = UNKNOWN_RUN_NOISE
    single: float = UNKNOWN_RUN_NOISE
    host: float = HOST_RUN_NOISE
    span: float | None = None
    wait: float | None = None
    communicates: bool = False
    is_pageable: bool = False
    is_cold: bool = False

    @classmethod
    def known(cls, deviation: float) -> RunNoise:
        """Return the noise of runs that are known to differ by so much, whatever is measured."""
        return cls(deviation, deviation, deviation, deviation, deviation)

    def of(
        self, report: str, column: str, *, by_step: bool, row: Mapping[str, Any] | None = None
    ) -> float | None:
        """Return the noise of a column of a report; None where one run per side shows nothing of it.

        `row` has the keys and texts of the row: what waits for other ranks, or for the host, varies as
        they do.
        """
        makers = HOST_COLUMNS.get(report, {})
        maker = next((maker for maker, names in makers.items() if column in names), None)
        if maker == "wait" or (
            row and maker is None and _TIMED.search(column) and _waits(report, row)
        ):
            return self.wait
        if maker == "host":
            return self.host
        if (maker == "kernels" and self.communicates) or (maker == "copies" and self.is_pageable):
            return self.wait
        return self.of_span(by_step=by_step) if maker == "span" else self._of_gpu(by_step=by_step)

    def of_span(self, *, by_step: bool) -> float | None:
        """Return the noise of the time of a step, or of the window; None: nothing is known of it."""
        if self.is_cold and not by_step:
            return self.wait
        return self._of_gpu(by_step=by_step) if self.span is None else self.span

    def _of_gpu(self, *, by_step: bool) -> float:
        return self.stepped if by_step else self.single


def _waits(report: str, row: Mapping[str, Any]) -> bool:
    # Kernels of communication wait for other ranks, copies of pageable memory for the host to copy it.
    if report in ("kernels", "kernel_categories"):
        return row.get("category") == COMMUNICATION
    return report == "transfers" and is_pageable(row)


def is_pageable(copies: Mapping[str, Any]) -> bool:
    """Return whether a row of `transfers` is of copies from or to pageable memory."""
    return _PAGEABLE in (copies["src_kind"], copies["dst_kind"])


def waits_for_the_host(accounts: Iterable[Account]) -> bool:
    """Return whether the GPU of an account is idle for more than a tenth of it, for the host was late."""
    return any(
        sum(each.times[name] for name in _IDLE_BY_THE_HOST) > WAITING_SHARE * each.span.length
        for each in accounts
    )


# -- several runs


def runs_ratio_interval(base: Sequence[float], other: Sequence[float]) -> ConfidenceInterval | None:
    """Return `runs_difference_interval` of logarithms as a ratio; None where a value is not positive."""
    if not all(0 < x < math.inf for side in (base, other) for x in side):
        return None
    change = runs_difference_interval(*([math.log(x) for x in side] for side in (base, other)))
    if change is None:
        return None
    low, high = (math.exp(end) if end < 709 else math.inf for end in (change.low, change.high))
    return ConfidenceInterval(low, high)


def runs_difference_interval(
    base: Sequence[float], other: Sequence[float]
) -> ConfidenceInterval | None:
    """Return the confidence interval of the difference of the means, other - base, of a value per run.

    The wider of two intervals of Student's t. Welch's (Biometrika 34, 1947), with the degrees of
    freedom of Welch and Satterthwaite (Biometrics Bulletin 2, 1946), lets each side vary in its own
    way, and is too narrow where one has few runs and the other many. That of the pooled variance is too
    narrow where the side with fewer runs varies more. One run vs. several is taken to vary as these
    do, and so is a side of fewer runs than the other's MANY_RUNS or more, unless it clearly varies more.
    A side without any variance, such as one of zeros, leaves the degrees of freedom of the other.

    None where the sides have fewer than three values together or one has none, or where a value is not
    finite. Sides without any variance give one point. The unit is that of the values.
    """
    sides = (base, other)
    count = len(base) + len(other)
    if not all(sides) or count < 3 or not all(math.isfinite(x) for side in sides for x in side):
        return None
    # Exact, so that equal values have no variance.
    means = [statistics.mean(side) for side in sides]
    variances = [statistics.variance(side) if len(side) > 1 else 0.0 for side in sides]
    degrees = [len(side) - 1 for side in sides]
    common = sum(v * d for v, d in zip(variances, degrees, strict=True)) / (count - 2)
    square = common * sum(1 / len(side) for side in sides)
    half = t_quantile(CONFIDENCE, count - 2) * math.sqrt(square) if square else 0.0
    if all(degrees) and not _shows_noise(variances, degrees):
        squares = [v / len(side) for v, side in zip(variances, sides, strict=True)]
        half = max(half, _welch_half_width(squares, degrees))
    change = means[1] - means[0]
    return ConfidenceInterval(change - half, change + half)


def _shows_noise(variances: Sequence[float], degrees: Sequence[int]) -> bool:
    # Whether the side of more runs shows how those of the other vary: it has many, and F, the ratio of
    # the variances, is not so large that it would be larger in 5 % of sides that vary alike.
    (few, of_few), (many, of_many) = sorted(
        zip(degrees, variances, strict=True), key=lambda side: side[0]
    )
    if few == many or many + 1 < MANY_RUNS or not of_many:
        return False
    ratio = few * of_few / (many * of_many)
    return not of_few or _beta(ratio / (1 + ratio), few / 2, many / 2) <= 1 - _VARIES_MORE


def _welch_half_width(squares: Sequence[float], degrees: Sequence[float]) -> float:
    # `squares` are the squared standard errors of the two means, `degrees` their degrees of freedom.
    square = sum(squares)
    if not square:
        return 0.0
    # Shares of the whole, for the squares of tiny variances are 0.
    shares = [each / square for each in squares]
    inverse = sum(share**2 / each for share, each in zip(shares, degrees, strict=True))
    return t_quantile(CONFIDENCE, 1 / inverse) * math.sqrt(square)


def required_runs(deviation: float, limit: float, base: int | None = None) -> int | None:
    """Return the number of runs per side that detects a change of `limit` with a power of 80 %.

    The least n with (t(.975, 2n-2) + t(.80, 2n-2)) deviation sqrt(2/n) <= limit, but no fewer than 3,
    `deviation` being the standard deviation of a run and both being shares (or both in one unit). None
    beyond 1000. This is the usual sample size of a two-sample t-test (NIST/SEMATECH e-Handbook, 7.2.2.2).
    With `base` runs on one side it is the number on the other, one or more.
    """

    def is_enough(runs: int) -> bool:
        beside = base or runs
        degrees = beside + runs - 2
        quantiles = t_quantile(CONFIDENCE, degrees) + t_quantile(0.6, degrees)
        return quantiles * deviation * math.sqrt(1 / beside + 1 / runs) <= limit

    possible = range(1 if base else FEWEST_RUNS, _MOST_RUNS + 1)
    place = bisect.bisect_left(possible, True, key=is_enough)
    return possible[place] if place < len(possible) else None


def minimum_detectable_change(half: float) -> float:
    """Return the least change that an interval of this half width detects with a power of 80 %.

    In the unit of the half width: (t(.975) + t(.80)) / t(.975) of it, which is 1.34 at 4 degrees of
    freedom and 1.43 at many.
    """
    return 1.4 * half


# -- one run per side


def single_run_half_width(noise: float) -> float:
    """Return half the confidence interval of log(ratio) of two runs that vary by this share."""
    return _NORMAL * math.sqrt(2) * noise


def percentage_point_deviation(noise: float, share: float) -> float:
    """Return the standard deviation, in percentage points, of the difference of two runs' percentages.

    The noise is a share, by which the whole and the part vary; `share` (0 to 1) is the mean percentage
    of both sides. The interval's half is 1.96 times that. To first order (delta method) part / whole
    varies by noise * share * (1 - share).
    """
    return math.sqrt(2) * noise * share * (1 - share) * 100


def deviations(values: Array) -> Array:
    """Return each step's deviation as a share of its row's mean (rows x steps); NaN if that is <= 0."""
    values = values.astype(np.float64)
    return _shares(values, values.mean(axis=1, keepdims=True))


def deviations_of_sums(sums: Array, counts: Array) -> Array:
    """Return `deviations` of sums whose counts by step are exact and whose means alone are noise."""
    # A deviation is a step's sum minus its count times the row's mean, as a share of the mean sum.
    sums, counts = sums.astype(np.float64), counts.astype(np.float64)
    total = counts.sum(axis=1, keepdims=True)
    mean = sums.sum(axis=1, keepdims=True) / np.where(total > 0, total, np.nan)
    return _shares(sums - counts * mean, sums.mean(axis=1, keepdims=True), about=0.0)


def trimmed_mean(values: Array) -> Array:
    """Return per row the mean of its steps (rows x steps) without a tenth of them at either end."""
    ordered = np.sort(values, axis=1)
    steps = values.shape[1]
    mean: Array = ordered[:, steps // _TRIMMED : steps - steps // _TRIMMED].mean(axis=1)
    return mean


def deviations_of_trimmed(values: Array) -> Array:
    """Return `deviations` of `trimmed_mean`, by its winsorised values.

    What is cut of the mean counts as the nearest value that is not; all is divided by the 0.8 of the
    steps that are left (Tukey and McLaughlin, Sankhya A 25, 1963).
    """
    ordered = np.sort(values, axis=1)
    cut = values.shape[1] // _TRIMMED
    nearest = np.clip(values, ordered[:, cut, np.newaxis], ordered[:, -1 - cut, np.newaxis])
    nearest = nearest.astype(np.float64)
    nearest -= nearest.mean(axis=1, keepdims=True)
    left = 1 - 2 / _TRIMMED
    return _shares(nearest, trimmed_mean(values)[:, np.newaxis], about=0.0) / left


def _shares(values: Array, mean: Array, about: float = 1.0) -> Array:
    usable = (mean > 0) & np.isfinite(mean)
    shares: Array = values / np.where(usable, mean, np.nan)
    shares -= about
    return shares


def step_half_widths(base: Array, other: Array, noise: float) -> Array:
    """Return per row half the confidence interval of log(ratio of the means), of two runs' deviations.

    The sides (rows x steps, of `deviations` and the like) may differ in their number of steps. `noise`
    is that between runs. NaN for all where a side has fewer than FEWEST_STEPS, and for a row that holds
    NaN. Deviations in a unit, with a noise in it, give the half of a difference.

    Three variances are added:

    - Noise of steps, autocorrelated or not: the long-run variance of the mean by the slowest cosines of
      each run (`_StepDeviations.mean_variance`; Lazarus, Lewis, Stock and Watson, JBES 36, 2018), for
      which no length of blocks needs to be chosen. What both sides share step by step, such as slow
      first steps and checkpoints, is no noise of the ratio: where the step-to-step changes of the two
      correlate, the steps are compared in pairs.
    - Drift, where the slowest cosines are those of a walk rather than of steady noise: how far the means
      of each run's quarters are apart. What a run drifts by within itself, its mean may have drifted
      from the other's. No number of steps makes this part smaller.
    - `single_run_half_width`, for nothing in a run shows how runs differ: by another clock of the GPU,
      another node, another placement in memory. Only repeats do.
    """
    halves = np.full(len(base), np.nan)
    if min(base.shape[1], other.shape[1]) < MIN_STEPS:
        return halves
    rows = np.flatnonzero(np.isfinite(base.sum(axis=1)) & np.isfinite(other.sum(axis=1)))
    at_once = max(1, CELLS_AT_ONCE // max(base.shape[1], other.shape[1]))
    for first in range(0, len(rows), at_once):
        some = rows[first : first + at_once]
        halves[some] = _half_widths(base[some], other[some], noise)
    return halves


@dataclass(frozen=True)
class _StepDeviations:
    # These statistics of one side's deviations have a row each. They are linear, so the statistics of a
    # difference are the differences of the statistics.
    steps: int
    cosines: Array
    quarters: Array
    blocks: Array

    def __sub__(self, other: _StepDeviations) -> _StepDeviations:
        quarters, blocks = self.quarters - other.quarters, self.blocks - other.blocks
        return _StepDeviations(self.steps, self.cosines - other.cosines, quarters, blocks)

    def mean_variance(self) -> Array:
        # The variance follows from the slowest cosines, which hold what steps share.
        square: Array = (self.cosines[:, : _noise_cosine_count(self.steps)] ** 2).mean(
            axis=1
        ) / self.steps
        return square

    def drift_variance(self) -> Array:
        # The result is the variance of the quarters' means, less what noise from block to block
        # explains. The mean square successive difference estimates that noise (J. von Neumann, Annals
        # of Mathematical Statistics 12, 1941).
        short = (np.diff(self.blocks, axis=1) ** 2).mean(axis=1) / 2
        explained = short * (_PIECES - 1) / self.blocks.shape[1]
        spread = self.quarters.var(axis=1)
        drift: Array = np.maximum(0, spread - _SHORT_NOISE_SHARE * explained)
        return drift


def _half_widths(base: Array, other: Array, noise: float) -> Array:
    runs = _step_deviations(base), _step_deviations(other)
    paired = are_paired(base, other)
    halves, drift = np.empty(len(base)), np.empty(len(base))
    apart = np.flatnonzero(~paired)
    squares = zip(*(run.mean_variance()[apart].tolist() for run in runs), strict=True)
    degrees = [_noise_cosine_count(run.steps) for run in runs]
    halves[apart] = [_welch_half_width(both, degrees) for both in squares]
    drift[apart] = _drift_half(
        _WALK_DEGREES, runs[0].drift_variance()[apart] + runs[1].drift_variance()[apart]
    )
    if paired.any():
        change = runs[1] - runs[0]
        t = t_quantile(CONFIDENCE, _noise_cosine_count(change.steps))
        halves[paired] = t * np.sqrt(change.mean_variance()[paired])
        drift[paired] = _drift_half(_PAIRED_WALK_DEGREES, change.drift_variance()[paired])
    drift[~_show_drift(*runs)] = 0
    return np.maximum(np.sqrt(halves**2 + drift**2 + single_run_half_width(noise) ** 2), _ROUNDING)


def _drift_half(degrees: float, square: Array) -> Array:
    half: Array = t_quantile(CONFIDENCE, degrees) * np.sqrt(_WALK_MEAN_TO_SPREAD * square)
    return half


def _step_deviations(values: Array) -> _StepDeviations:
    steps = values.shape[1]
    cosines = _cosines(values, max(_SLOWEST, _noise_cosine_count(steps)))
    blocks = _block_means(values, steps // round(math.sqrt(steps)))
    return _StepDeviations(steps, cosines, _block_means(values, _PIECES), blocks)


def _noise_cosine_count(steps: int) -> int:
    return max(2, round(0.4 * math.pow(steps, 2 / 3)))


def _cosines(values: Array, count: int) -> Array:
    # The result has, per row, the first `count` coefficients c_1 ... of the orthonormal DCT-II.
    steps = values.shape[1]
    coefficients = np.zeros((len(values), count))
    frequency = np.pi / steps * np.arange(1, count + 1)
    at_once = max(1, CELLS_AT_ONCE // count)
    for first in range(0, steps, at_once):
        some = values[:, first : first + at_once]
        middle = np.arange(first, first + some.shape[1]) + 0.5
        coefficients += some @ np.cos(np.outer(middle, frequency))
    return coefficients * math.sqrt(2 / steps)


def _block_means(values: Array, count: int) -> Array:
    edges = np.arange(count + 1) * values.shape[1] // count
    means: Array = np.add.reduceat(values, edges[:-1], axis=1) / np.diff(edges)
    return means


def are_paired(base: Array, other: Array) -> Array:
    """Return per row whether the changes from step to step of both sides correlate."""
    if base.shape != other.shape:
        return np.zeros(len(base), bool)
    changes = [np.diff(side, axis=1) for side in (base, other)]
    changes = [change - change.mean(axis=1, keepdims=True) for change in changes]
    size = np.sqrt((changes[0] ** 2).sum(axis=1) * (changes[1] ** 2).sum(axis=1))
    # The comparison multiplies and does not divide, because `size` is 0 if a side's steps are all
    # alike.
    together: Array = (changes[0] * changes[1]).sum(axis=1) > _PAIRED_CORRELATION * size
    return together


def _show_drift(base: _StepDeviations, other: _StepDeviations) -> Array:
    squares = np.hstack([run.cosines**2 for run in (base, other)])
    number = np.hstack([np.arange(1, run.cosines.shape[1] + 1) for run in (base, other)])
    # What is left of steady noise if that of the walk beside it is divided out.
    left = 1 / (1 + (_WALK / number) ** 2)
    shown: Array = squares.mean(axis=1) * left.mean() > _DRIFT_SHOWS * (squares @ left) / len(left)
    return shown


@lru_cache(maxsize=4096)
def t_quantile(confidence: float, degrees: float) -> float:
    """Return the two-sided quantile of Student's t: |t| is below it with probability `confidence`.

    |t| <= x has the probability I(1/2, degrees/2) at x^2 / (degrees + x^2), I being the regularised
    incomplete beta function (DLMF 8.17; Abramowitz and Stegun 26.7.1).
    """
    quantile = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    scale += math.log(4 / (math.pi * degrees)) / 2
    # Newton's method: the probability is concave in t and the normal's t too small, so that each step
    # comes closer from below.
    for _ in range(100):
        square = quantile**2 / degrees
        missing = confidence - _beta(square / (1 + square), 0.5, degrees / 2)
        step = missing / math.exp(scale - (degrees + 1) / 2 * math.log1p(square))
        quantile += step
        if abs(step) < 1e-12 * quantile:
            break
    return quantile


def _beta(x: float, a: float, b: float) -> float:
    # The regularised incomplete beta function I_x(a, b), 0 < x < 1, by its continued fraction (DLMF
    # 8.17.22) and the method of Lentz. It converges quickly below the mean; beyond it, that of the other
    # side does.
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
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
