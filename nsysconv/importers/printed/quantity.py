"""Spelled values: of few digits, and standing for all numbers that round to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

_MOST_DIGITS = 18


def whole_number(text: str) -> int | None:
    """The number that digits spell; None for other text, and for more of them than a store can hold."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


@dataclass(frozen=True)
class Quantity:
    """All numbers from `low` to `high`, in ns, bytes, bytes per second or percent."""

    low: Fraction
    high: Fraction

    @property
    def step(self) -> Fraction:
        """How far apart values are that are spelled differently; 0: exact."""
        return self.high - self.low

    @property
    def whole(self) -> int:
        """The integer in its middle; the only one it holds, where it holds one."""
        first = -(-self.low.numerator // self.low.denominator)
        last = self.high.numerator // self.high.denominator
        return (first + last) // 2 if first <= last else round((self.low + self.high) / 2)

    @property
    def is_exact(self) -> bool:
        """Whether it holds no more than one integer."""
        first = -(-self.low.numerator // self.low.denominator)
        return self.high < first + 1

    def times(self, count: int) -> Quantity:
        """The quantity of so many."""
        return Quantity(self.low * count, self.high * count)


def common(quantities: Iterable[Quantity]) -> Quantity | None:
    """What all of them leave possible; the first where they contradict each other; None of none."""
    result: Quantity | None = None
    for each in quantities:
        if result is None:
            result = each
            continue
        low, high = max(result.low, each.low), min(result.high, each.high)
        if low <= high:
            result = Quantity(low, high)
    return result


@dataclass
class Rounding:
    """How many sums are not known to the ns or byte, and in what steps those are spelled at the worst."""

    count: int = 0
    step: Fraction = Fraction(0)

    def add(self, quantity: Quantity) -> int:
        """The integer that a quantity stands for; one that stands for several is counted."""
        if not quantity.is_exact:
            self.count += 1
            self.step = max(self.step, quantity.step)
        return quantity.whole
