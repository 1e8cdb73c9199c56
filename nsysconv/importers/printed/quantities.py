"""Spelled values: of few digits, and standing for all numbers that round to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from nsysconv.facts import Fact

_MOST_DIGITS = 18
_WHOLE_PCT = 100
# By how much all shares together may be off beside their rounding.
_SLACK_PCT = Fraction(1, 100)


def parse_digits(text: str) -> int | None:
    """The number that digits spell; None for other text, and for more of them than a store can hold."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


@dataclass(frozen=True)
class ValueRange:
    """All numbers from `low` to `high`, in ns, bytes, bytes per second or percent."""

    low: Fraction
    high: Fraction

    @property
    def step(self) -> Fraction:
        """How far apart values are that are spelled differently; 0: exact."""
        return self.high - self.low

    @property
    def middle(self) -> Fraction:
        """The number as it is spelled."""
        return (self.low + self.high) / 2

    @property
    def whole(self) -> int:
        """The integer in its middle; the only one it holds, where it holds one."""
        first = -(-self.low.numerator // self.low.denominator)
        last = self.high.numerator // self.high.denominator
        return (first + last) // 2 if first <= last else round(self.middle)

    @property
    def is_exact(self) -> bool:
        """Whether it holds no more than one integer."""
        first = -(-self.low.numerator // self.low.denominator)
        return self.high < first + 1

    def times(self, count: int) -> ValueRange:
        """The quantity of so many."""
        return ValueRange(self.low * count, self.high * count)


def intersection(quantities: Iterable[ValueRange]) -> ValueRange | None:
    """What all of them leave possible; the first where they contradict each other; None of none."""
    result: ValueRange | None = None
    for each in quantities:
        if result is None:
            result = each
            continue
        low, high = max(result.low, each.low), min(result.high, each.high)
        if low <= high:
            result = ValueRange(low, high)
    return result


def shares_incomplete(shares: Sequence[ValueRange | None]) -> bool:
    """Whether the shares of a table's rows, in percent, tell that there were others; None: not told."""
    told = [share for share in shares if share is not None]
    if len(told) < len(shares) or not any(share.middle for share in told):
        # Of no time at all, all shares are spelled as 0.
        return False
    if all(share.middle.denominator == 1 for share in told):
        # Where the locale has decimal commas, nsys of 2020 and 2021 cuts decimals: 27.9 is 27,0.
        most = sum(share.middle + 1 for share in told)
    else:
        most = sum(share.high for share in told)
    return most + _SLACK_PCT < _WHOLE_PCT


@dataclass
class RoundedSums:
    """How many sums are not known to the ns or byte, and in what steps those are spelled at the worst."""

    count: int = 0
    step: Fraction = Fraction(0)

    def add(self, quantity: ValueRange) -> int:
        """The integer that a quantity stands for; one that stands for several is counted."""
        if not quantity.is_exact:
            self.count += 1
            self.step = max(self.step, quantity.step)
        return quantity.whole


GPU_TOTALS = frozenset({Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS})
"""What a table of all the GPU's work tells: of what is not in it, there was none."""

_FACTS = {
    "kernel": Fact.KERNEL_TOTALS,
    "memcpy": Fact.MEMORY_TOTALS,
    "memset": Fact.MEMORY_TOTALS,
    "unified_memory": Fact.UNIFIED_MEMORY_TOTALS,
    "api_call": Fact.API_TOTALS,
    "range": Fact.RANGE_TOTALS,
    "osrt_call": Fact.OSRT_TOTALS,
}


def totals_fact(kind: str) -> Fact:
    """The fact that totals of a kind of codes.AGGREGATE_KINDS are told by."""
    return _FACTS.get(kind, Fact.DIRECTIVE_TOTALS)
