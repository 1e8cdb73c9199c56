"""The change of a figure, its confidence interval and verdict; the answer to "is it slower?" in a line.

Which interval a figure gets, and what a verdict is: docs/definitions/comparing.md, "Comparing two runs".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Literal

import numpy as np

from nsysconv.diff.noise import (
    CONFIDENCE,
    FEWEST_RUNS,
    MANY_RUNS,
    ConfidenceInterval,
    minimum_detectable_change,
    percentage_point_deviation,
    required_runs,
    runs_difference_interval,
    runs_ratio_interval,
    single_run_half_width,
    t_quantile,
)
from nsysconv.notes import Note, Severity
from nsysconv.report import Better, Column, Report, Unit, human, report_table

Number = int | float
Basis = Literal["exact", "repeats", "within run", "single run", "none"]
Verdict = Literal["worse", "better", "more", "less", "same", "~"]

UNCERTAIN: Verdict = "~"
_NORMAL = 1.96
# Adding up in another order changes a ratio by less than this.
_REL_TOL = 1e-9
SAME_SHARE = 0.03
"""An interval inside ±3 % shows that a figure is the same, for all that matters."""
# What cannot show changes below this many percent shows none.
_HARDLY_SEEN = 300.0
SAME_POINTS = 1.0
"""The same of a percentage: ±1 percentage point."""

_DIRECTIONS: dict[Better | None, tuple[Verdict, Verdict]] = {
    "less": ("worse", "better"),
    "more": ("better", "worse"),
    None: ("more", "less"),
}


@dataclass(frozen=True)
class Change:
    """Hold the values of one metric in each run of both sides, and the noise assumed for them.

    `half_width` is half the width of the interval of log(other / base), where each side is one run: of
    values by step, or of what runs are assumed to differ by. `noise` is that assumption: the relative
    standard deviation of a run. `points`: the values are percentages.
    """

    base: tuple[Number, ...]
    other: tuple[Number, ...]
    basis: Basis
    half_width: float = 0.0
    noise: float = 0.0
    points: bool = False

    def __post_init__(self) -> None:
        """Take a half width that is rounding for 0."""
        if self.half_width < _REL_TOL:
            object.__setattr__(self, "half_width", 0.0)

    @property
    def means(self) -> tuple[Number, Number]:
        """Return the mean of each side; of a single run, its value."""
        return _mean(self.base), _mean(self.other)

    @property
    def ratio(self) -> ConfidenceInterval | None:
        """Return the interval of other / base; None for percentages and values that are <= 0."""
        if self.points or self.basis == "none" or min(*self.base, *self.other) <= 0:
            return None
        before, after = self.means
        if self.basis == "exact":
            return ConfidenceInterval(after / before, after / before)
        if self.basis == "repeats":
            return runs_ratio_interval(self.base, self.other)
        return ConfidenceInterval(
            after / before * math.exp(-self.half_width), after / before * math.exp(self.half_width)
        )

    def difference(self, scale: float = 1.0) -> ConfidenceInterval | None:
        """Return the confidence interval of other - scale * base; None where nothing shows the spread."""
        before, after = self.means
        if self.basis == "none":
            return None
        if self.basis == "exact":
            exact = after - before if scale == 1 else after - scale * before
            return ConfidenceInterval(exact, exact)
        if self.basis == "repeats":
            return runs_difference_interval([scale * value for value in self.base], self.other)
        if not self.points and before > 0 and after > 0:
            low, high = (after * math.exp(sign * self.half_width) for sign in (-1, 1))
            return ConfidenceInterval(low - scale * before, high - scale * before)
        if self.points:
            reach = _NORMAL * percentage_point_deviation(self.noise, (before + after) / 200)
        else:
            # A side whose value is 0 does not vary; the other side's value varies as any value does.
            reach = math.expm1(self.half_width) * (abs(after) + abs(scale * before))
        middle = after - scale * before
        return ConfidenceInterval(middle - reach, middle + reach)

    @property
    def is_significant(self) -> bool:
        """Return whether no change is outside the confidence interval."""
        if self.basis == "exact":
            return self.means[0] != self.means[1]
        ratio, difference = self.ratio, self.difference()
        if ratio is not None:
            return ratio.excludes(1)
        return difference is not None and difference.excludes(0)

    def is_certain(self, tested: int) -> bool:
        """Return whether it is significant as one of so many changes that are tested together.

        By Bonferroni: its interval at a confidence of 1 - 0.05 / tested excludes no change.
        """
        if not self.is_significant or self.basis in ("exact", "none"):
            return self.is_significant
        confidence = 1 - (1 - CONFIDENCE) / max(tested, 1)
        interval = self.ratio or self.difference()
        if self.basis == "repeats":
            degrees = len(self.base) + len(self.other) - 2
            wider = t_quantile(confidence, degrees) / t_quantile(CONFIDENCE, degrees)
        else:
            wider = NormalDist().inv_cdf((1 + confidence) / 2) / _NORMAL
        if interval is None:
            return False
        low, high = interval.low, interval.high
        if self.ratio is not None:
            if low <= 0 or high == math.inf:
                return False
            low, high = math.log(low), math.log(high)
        return abs(low + high) > wider * (high - low)

    @property
    def run_deviation(self) -> float | None:
        """Return the relative standard deviation of a run; None for exact or non-positive values."""
        if self.points or self.basis in ("exact", "none") or min(*self.base, *self.other) <= 0:
            return None
        if self.basis != "repeats":
            return self.half_width / single_run_half_width(1.0)
        squares = [
            (math.log(value) - mean) ** 2
            for side in (self.base, self.other)
            for mean in [sum(map(math.log, side)) / len(side)]
            for value in side
        ]
        return math.sqrt(sum(squares) / (len(squares) - 2))

    @property
    def needed_run_noise(self) -> float | None:
        """Return below which noise between runs the change would be significant, by what steps show.

        None where it is significant, or where the noise of steps alone hides it.
        """
        before, after = self.means
        if self.basis != "within run" or self.points or min(before, after) <= 0:
            return None
        one = single_run_half_width(1.0)
        of_steps = self.half_width**2 - (one * (self.noise or 0.0)) ** 2
        room = math.log(after / before) ** 2 - of_steps
        if self.is_significant or room <= 0:
            return None
        return math.sqrt(room) / one

    @property
    def smallest_visible(self) -> float | None:
        """Return the minimum detectable change in percent; None without an interval of the ratio."""
        if (ratio := self.ratio) is None:
            return None
        before, after = self.means
        return 100 * minimum_detectable_change(ratio.high / (after / before) - 1)

    def runs_for(self, share: float) -> int | None:
        """Return the runs per side that would detect a change by this share; None: too many.

        With one run per side the least number that shows how runs differ. Beside a base of many runs
        (`has_many`) it is the number of runs of other.
        """
        if self.basis != "repeats":
            return FEWEST_RUNS
        spread, base = self.run_deviation, len(self.base) if self.has_many else None
        needed = None if spread is None or not share else required_runs(spread, share, base)
        # What is close to the limit needs more than what would show the limit.
        fewest = len(self.other) if base else max(len(self.base), len(self.other))
        return None if needed is None else max(needed, fewest + 1)

    @property
    def has_many(self) -> bool:
        """Return whether base has so many runs that only those of other are too few."""
        return self.basis == "repeats" and len(self.base) >= max(MANY_RUNS, len(self.other) + 1)

    @property
    def basis_words(self) -> str:
        """Return what the interval rests on: `exact`, `5:5 runs`, `within run`, `single run`."""
        return f"{len(self.base)}:{len(self.other)} runs" if self.basis == "repeats" else self.basis

    def interval_words(self, unit: Unit, *, in_units: bool = False) -> str:
        """Return interval and basis: `+1.2 … +6.9 %, within run`; a share of base unless `in_units`."""
        if self.basis == "none":
            return "a single run per side shows no spread"
        ratio = None if in_units else self.ratio
        interval = ratio or self.difference()
        if self.basis == "exact" or interval is None:
            return self.basis_words
        if ratio is not None:
            ends = f"{_percent(ratio.low)} … {_percent(ratio.high)} %"
        elif self.points:
            ends = f"{interval.low:+.1f} … {interval.high:+.1f} pp"
        else:
            low, high = (human(end, unit) for end in (interval.low, interval.high))
            ends = f"{low} … {high}"
        return f"{ends}, {self.basis_words}"

    def verdict(self, better: Better | None) -> Verdict:
        """Return worse, better (more, less), same, or `~` where noise alone may have made the change."""
        before, after = self.means
        if self.is_significant:
            # The means decide which way: those of logarithms may differ from them, hardly ever in that.
            return _DIRECTIONS[better][0 if after > before else 1]
        return "same" if self._is_same() else UNCERTAIN

    def _is_same(self) -> bool:
        ratio, difference = self.ratio, self.difference()
        if self.basis == "exact":
            return True  # what differs exactly is excluded before
        if ratio is not None:
            return ratio.low >= 1 - SAME_SHARE and ratio.high <= 1 + SAME_SHARE
        if difference is None:
            return False
        most = SAME_POINTS if self.points else 0.0
        return difference.low >= -most and difference.high <= most


def _mean(values: Sequence[Number]) -> Number:
    return values[0] if len(values) == 1 else sum(values) / len(values)


def change_of(
    column: Column,
    base: Sequence[Number | None],
    other: Sequence[Number | None],
    *,
    noise: float | None,
    half_width: float | None = None,
) -> Change | None:
    """Return the change of a column, of a value per run and side; None where a value is not finite.

    `noise` is the relative standard deviation that runs are assumed to have where each side is one, None
    where that is unknown; `half_width` that of `Change`, where values by step show how the column varies.
    """
    before = tuple(value for value in base if value is not None and math.isfinite(value))
    after = tuple(value for value in other if value is not None and math.isfinite(value))
    if len(before) < max(1, len(base)) or len(after) < max(1, len(other)):
        return None
    points = column.unit is Unit.PCT
    is_counted = column.unit in (Unit.COUNT, Unit.BYTES) and noise is not None
    if is_counted and len({*before}) == len({*after}) == 1:
        return Change(before[:1], after[:1], "exact")
    if len(before) + len(after) > 2:
        return Change(before, after, "repeats", points=points)
    if column.is_order_statistic or noise is None:
        return Change(before, after, "none", points=points)
    if half_width is not None:
        return Change(before, after, "within run", half_width, noise, points)
    return Change(before, after, "single run", single_run_half_width(noise), noise, points)


_LEAST_RUN_NOISE = 0.0005


def undecided_words(change: Change, share: float | None = None) -> str:
    """Return why a change is undecided, in one number, and how many runs would decide it.

    `share` is the change to be detected; None: the one that was measured, but for what counts as same.
    Then it also says which noise between runs hides it, where steps alone would show it.
    """
    before, after = change.means
    quiet = change.needed_run_noise if share is None else None
    if share is None:
        share = max(SAME_SHARE, abs(after / before - 1) if before else 0.0)
    several = change.basis == "repeats"
    runs = f"{len(change.base)} vs. {len(change.other)} runs" if several else "1 run per side"
    seen, unit = change.smallest_visible, "%"
    interval = change.difference() if change.points else None
    if interval is not None:
        seen, unit = minimum_detectable_change((interval.high - interval.low) / 2), "pp"
    if seen is None or seen > _HARDLY_SEEN:
        doubt = f"{runs} cannot show it" if several else f"{runs} does not show how it varies"
    else:
        least = f"{seen:.0f}" if seen >= 100 else f"{seen:.2g}"
        doubt = f"{runs} cannot show changes below {least} {unit}"
    needed = change.runs_for(share)
    if quiet is not None and quiet >= _LEAST_RUN_NOISE:
        # What a run's steps show counts as soon as runs are known to differ by less.
        most = math.floor(1e4 * quiet) / 100
        doubt += f" with run-to-run noise of {most:g} % or more"
        return f"{doubt}: record {needed} runs per side, or rule that out (--run-noise)"
    record = f"{needed} new runs" if change.has_many else f"{needed} runs per side"
    return f"{doubt}: record {record}" if needed else doubt


# -- the answer

STEP, WINDOW = "step", "window"
_WORDS = {"worse": "slower", "better": "faster", "same": "same"}
_WHAT = {STEP: "step period", WINDOW: "GPU active window"}
_INCONCLUSIVE = "inconclusive"
_STATES = ("exceeded", "within", _INCONCLUSIVE)
# What limits come to, in words for where the answer does not explain it.
_OF_LIMITS = {"FAIL": "limits exceeded", "PASS": "limits hold", "INCONCLUSIVE": "limits undecided"}
_AGREEING = {"FAIL": ("slower",), "PASS": ("faster", "same"), "INCONCLUSIVE": ()}
_HARDLY_BOUNDED = 101


def _percent(ratio: float) -> str:
    # With two values per side, an interval can be so wide that its exact end says nothing.
    return "over +10,000" if ratio > _HARDLY_BOUNDED else f"{100 * (ratio - 1):+,.1f}"


@dataclass(frozen=True)
class Answer:
    """The answer: whether the other side is slower, and how far that can be trusted.

    `what` is the figure: the time of a step, with what lies between steps, where both sides have steps;
    else the window from the first to the last GPU operation; of several devices and ranks the longest.
    `change` is None where it is not recorded. `runs` are those of each side. `unlike` says in words why
    the work of the sides differs, `is_other_size` that times per step do not compare either, `failure`
    why nothing can be compared; `notes` name what may have disturbed the runs. `identical`: both sides
    are the same recordings. `trend` has the runs of both sides as heights, where they are a series.
    """

    what: str
    change: Change | None
    runs: tuple[int, int]
    unlike: Sequence[str] = ()
    is_other_size: bool = False
    failure: str = ""
    notes: tuple[Note, ...] = ()
    identical: bool = False
    trend: str | None = None

    @property
    def is_one_recording(self) -> bool:
        """Return whether both sides are the same recordings, which are whole."""
        return self.identical and not self.failure

    @property
    def word(self) -> str:
        """Return `slower`, `faster`, `same`, or `inconclusive`."""
        if self.is_one_recording:
            return _WORDS["same"]
        if self.change is None or self.failure or self._cannot_compare:
            return _INCONCLUSIVE
        return _WORDS.get(self.change.verdict("less"), _INCONCLUSIVE)

    @property
    def _cannot_compare(self) -> bool:
        return self.is_other_size or (bool(self.unlike) and self.what == WINDOW)

    @property
    def line(self) -> str:
        """Return the answer in one line."""
        return f"{self.word}: {'; '.join(self._parts())}"

    def _with(self, gate: str | None) -> str:
        # The answer in one line, after what the limits come to.
        if gate is None:
            return self.line
        if self.is_one_recording:
            return f"{gate}: {self.line}: it cannot test the gate"
        if self.word == gate.lower():
            return f"{gate}: {self.line.partition(': ')[2]}"
        # Limits may be on something else than this line, which then does not explain the gate.
        agrees = self.word in _AGREEING[gate]
        return f"{gate}: {self.line}" if agrees else f"{gate}: {_OF_LIMITS[gate]}; {self.line}"

    def _parts(self) -> Iterable[str]:
        base, other = ("1 run" if count == 1 else f"{count} runs" for count in self.runs)
        if self.failure:
            yield self.failure
            return
        if self.identical:
            yield "both sides are the same recording"
            return
        if self.change is None:
            yield "GPU operation times are not recorded on both sides"
            yield f"{base} vs. {other}"
            return
        other_work = f"different workloads ({'; '.join(self.unlike)})"
        if self._cannot_compare:
            yield other_work
        before, after = self.change.means
        moved = f" ({100 * (after - before) / before:+.1f} %)" if before else ""
        yield f"{_WHAT[self.what]} {human(before, Unit.NS)} → {human(after, Unit.NS)}{moved}"
        if self._cannot_compare:
            yield f"{base} vs. {other}"
        elif self.change.verdict("less") == UNCERTAIN:
            yield undecided_words(self.change)
        else:
            yield f"{base} vs. {other}, {self._interval(self.change)}"
        if self.unlike and not self._cannot_compare:
            yield f"{other_work}, compared per step"

    def _interval(self, change: Change) -> str:
        if (ratio := change.ratio) is None:
            return "no interval"
        text = f"95 % interval {_percent(ratio.low)} to {_percent(ratio.high)} %"
        if change.basis != "repeats":
            text += f", assuming {100 * change.noise:.2g} % run-to-run noise"
        return text

    def report(self, limits: Sequence[str] = (), gate: str | None = None) -> Report:
        """Return the answer as a report of one row, with the number of limits in each state.

        `gate` is the result of all limits, printed first; None: no limits.
        """
        change = None if self.failure else self.change
        before, after = change.means if change else (None, None)
        ratio = change.ratio if change else None
        counts = Counter(limits)
        row = {
            "gate": gate,
            "answer": self.word,
            "figure": self.what,
            "base_ns": before,
            "other_ns": after,
            "diff_pct": 100 * (after - before) / before if before and after is not None else None,
            "ratio_low": ratio.low if ratio else None,
            "ratio_high": ratio.high if ratio else None,
            "basis": change.basis if change else None,
            "smallest_visible_pct": None if self.change is None else self.change.smallest_visible,
            "base_runs": self.runs[0],
            "other_runs": self.runs[1],
            "unlike": "; ".join(self.unlike) or None,
            "trend": self.trend,
        }
        for state in _STATES:
            row[f"limits_{state.replace(' ', '_')}"] = counts[state] if limits else None
        return Report(
            "answer",
            self._with(gate),
            ANSWER_COLUMNS,
            report_table(ANSWER_COLUMNS, {name: [value] for name, value in row.items()}),
            row_count=1,
            notes=self.notes,
        )


ANSWER_COLUMNS = tuple(
    Column(name, unit, doc, real=unit is Unit.NS)
    for name, unit, doc in (
        ("gate", Unit.TEXT, "Result of all limits: PASS, FAIL or INCONCLUSIVE; null: no limits."),
        ("answer", Unit.TEXT, "slower, faster, same, or inconclusive."),
        ("figure", Unit.TEXT, "step: time per step; window: from the first GPU operation to the last."),
        ("base_ns", Unit.NS, "Its value on base, of the device or rank where it is the longest."),
        ("other_ns", Unit.NS, "Its value on the other side."),
        ("diff_pct", Unit.PCT, "Other minus base as a share of base."),
        ("ratio_low", Unit.REAL, "Least ratio of other and base that noise allows."),
        ("ratio_high", Unit.REAL, "Upper end of that interval."),
        ("basis", Unit.TEXT, "What the interval rests on: repeats, within run, single run."),
        ("smallest_visible_pct", Unit.PCT, "The smallest change that would probably have been seen."),
        ("base_runs", Unit.COUNT, "Runs of base."),
        ("other_runs", Unit.COUNT, "Runs of the other side."),
        ("unlike", Unit.TEXT, "Why the sides did not do the same work; null where nothing says so."),
        ("trend", Unit.TEXT, "Runs of base, then of other, as heights; null: base is no STORE@last:N."),
        ("limits_exceeded", Unit.COUNT, "Exceeded limits; null: none was given."),
        ("limits_within", Unit.COUNT, "Limits that passed."),
        ("limits_inconclusive", Unit.COUNT, "Undecided limits."),
    )
)  # fmt: skip


# 1.4826 times the median distance from the median is the standard deviation of normal noise.
_FAR = 5 * 1.4826
_FAR_SHARE = 0.03
_SLOW_SHARE = 0.2
_MANY_RUNS = 4


def outlier_run_notes(side: str, values: Sequence[float], names: Sequence[str]) -> Iterator[Note]:
    """Yield a note on runs that are far from the others of their side, of four at least."""
    if len(values) < _MANY_RUNS:
        return
    middle = median(values)
    usual = median(abs(value - middle) for value in values)
    far = [
        (name, value)
        for name, value in zip(names, values, strict=True)
        if abs(value - middle) > max(_FAR * usual, _FAR_SHARE * middle)
    ]
    if far:
        name, value = far[0]
        text = f"{side}: outlier runs, {name} by {100 * (value - middle) / middle:+.1f} %"
        yield Note("run-outlier", Severity.INFO, text, len(far), of=len(values))


def run_order_notes(
    base: Sequence[Sequence[int | None]], other: Sequence[Sequence[int | None]]
) -> Iterator[Note]:
    """Yield a note if all runs of one side were recorded before the other's, with four runs or more.

    A run is a list with the time of recording of each of its profiles, in ns since 1970.
    """
    if len(base) + len(other) < _MANY_RUNS:
        return
    starts = [[_recorded_at(run) for run in side] for side in (base, other)]
    recorded = [[moment for moment in side if moment is not None] for side in starts]
    if [*map(len, recorded)] != [len(base), len(other)]:
        return
    for first, last, words in ((0, 1, "base first"), (1, 0, "the new side first")):
        if max(recorded[first]) < min(recorded[last]):
            text = (
                f"the runs of each side were recorded in one block, {words}; interleave them to "
                "cancel drift"
            )
            yield Note("runs-not-in-turns", Severity.INFO, text)


def _recorded_at(moments: Sequence[int | None]) -> int | None:
    known = [moment for moment in moments if moment is not None]
    return min(known) if len(known) == len(moments) else None


def slow_step_notes(side: str, durations: np.ndarray) -> Iterator[Note]:
    """Yield notes on steps (durations in ns) much slower than the usual one, the first ones apart."""
    middle = float(np.median(durations))
    far = _FAR * float(np.median(np.abs(durations - middle)))
    first = durations[: len(durations) // 4]
    slow = np.flatnonzero(durations > middle + far)
    if len(slow) and slow[-1] < len(first) and far:
        text = f"{side}: the first steps are the slowest; --skip-first {slow[-1] + 1} skips them"
        yield Note("slow-first-steps", Severity.INFO, text, len(slow), of=len(durations))
        return
    slow = np.flatnonzero(durations > middle + max(far, _SLOW_SHARE * middle))
    if len(slow):
        share = 100 * float(durations[slow].sum()) / float(durations.sum())
        text = f"{side}: outlier steps, much slower than the usual one, {share:.0f} % of total step time"
        yield Note("slow-steps", Severity.INFO, text, len(slow), of=len(durations))
