"""The change of a figure from one side to the other, its confidence interval and verdict.

Which interval a figure gets, and what a verdict is: docs/definitions.md, "Comparing two runs".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nsysconv.diff.noise import (
    ConfidenceInterval,
    percentage_point_deviation,
    runs_difference_interval,
    runs_ratio_interval,
    single_run_half_width,
)
from nsysconv.report import Better, Column
from nsysconv.units import Unit, human

Number = int | float
Basis = Literal["exact", "repeats", "within run", "single run", "none"]
Verdict = Literal["worse", "better", "more", "less", "same", "~"]

UNCERTAIN: Verdict = "~"
_NORMAL = 1.96
# What adding up in another order makes of a ratio.
_REL_TOL = 1e-9
SAME_SHARE = 0.03
"""An interval inside ±3 % shows that a figure is the same, for all that matters."""
SAME_POINTS = 1.0
"""The same of a percentage: ±1 percentage point."""

_DIRECTIONS: dict[Better | None, tuple[Verdict, Verdict]] = {
    "less": ("worse", "better"),
    "more": ("better", "worse"),
    None: ("more", "less"),
}


@dataclass(frozen=True)
class Change:
    """The values of one figure by run, on both sides, and what their interval rests on.

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
        first, second = (
            side[0] if len(side) == 1 else sum(side) / len(side) for side in (self.base, self.other)
        )
        return first, second

    @property
    def ratio(self) -> ConfidenceInterval | None:
        """Return the confidence interval of other / base, or None where there is none.

        Percentages have none, nor values that are not positive, nor figures whose spread nothing shows.
        """
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
        middle = after - scale * before
        if self.points:
            reach = _NORMAL * percentage_point_deviation(self.noise, (before + after) / 200)
            return ConfidenceInterval(middle - reach, middle + reach)
        if before > 0 and after > 0:
            low, high = (after * math.exp(sign * self.half_width) for sign in (-1, 1))
            return ConfidenceInterval(low - scale * before, high - scale * before)
        # Of a side without any, nothing varies; the other's value may be as far off as any.
        reach = math.expm1(self.half_width) * (abs(after) + abs(scale * before))
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
    def basis_words(self) -> str:
        """Return what the interval rests on: `exact`, `5:5 runs`, `within run`, `single run`."""
        return f"{len(self.base)}:{len(self.other)} runs" if self.basis == "repeats" else self.basis

    def interval_words(self, unit: Unit, *, in_units: bool = False) -> str:
        """Return the interval and what it rests on in words: `+1.2 … +6.9 %, within run`.

        It is a share of base where there is a ratio, unless `in_units`.
        """
        if self.basis == "none":
            return "one run a side shows no spread"
        ratio = None if in_units else self.ratio
        interval = ratio or self.difference()
        if self.basis == "exact" or interval is None:
            return self.basis_words
        if ratio is not None:
            low, high = (f"{100 * (end - 1):+,.1f}" for end in (ratio.low, ratio.high))
            ends = f"{low} … {high} %"
        elif self.points:
            ends = f"{interval.low:+.1f} … {interval.high:+.1f} pp"
        else:
            low, high = (human(end, unit) for end in (interval.low, interval.high))
            ends = f"{low} … {high}"
        return f"{ends}, {self.basis_words}"

    def verdict(self, better: Better | None) -> Verdict:
        """Return worse, better or same, or `~` where noise alone may have made the change.

        Return more or less where neither is better.
        """
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


def change_of(
    column: Column,
    base: Sequence[Number | None],
    other: Sequence[Number | None],
    *,
    noise: float,
    half_width: float | None = None,
) -> Change | None:
    """Return the change of a column, of a value per run and side; None where a value is not finite.

    `noise` is the relative standard deviation that runs are assumed to have where each side is one;
    `half_width` that of `Change`, where values by step show how the column varies.
    """
    before = tuple(value for value in base if value is not None and math.isfinite(value))
    after = tuple(value for value in other if value is not None and math.isfinite(value))
    if len(before) < max(1, len(base)) or len(after) < max(1, len(other)):
        return None
    points = column.unit is Unit.PCT
    if _is_counted(column) and len({*before}) == len({*after}) == 1:
        return Change(before[:1], after[:1], "exact")
    if len(before) + len(after) > 2:
        return Change(before, after, "repeats", points=points)
    if column.is_order_statistic:
        return Change(before, after, "none", points=points)
    if half_width is not None:
        return Change(before, after, "within run", half_width, noise, points)
    return Change(before, after, "single run", single_run_half_width(noise), noise, points)


def _is_counted(column: Column) -> bool:
    return column.unit in (Unit.COUNT, Unit.BYTES)
