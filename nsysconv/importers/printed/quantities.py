"""Quantities as they are printed: spelled with few digits, they stand for all numbers that round to them.

Totals of a table become rows of `aggregate` here; each is as exact as its cells leave it together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers.printed.registry import IdRegistry, Row
from nsysconv.importers.printed.text import line_notes
from nsysconv.notes import Note, Severity

_WHOLE_PCT = 100
# By how much all shares together may be off beside their rounding.
_SLACK_PCT = Fraction(1, 100)


@dataclass(frozen=True)
class ValueRange:
    """All numbers from `low` to `high`, in ns, bytes, bytes per second or percent."""

    low: Fraction
    high: Fraction

    @property
    def step(self) -> Fraction:
        """Return how far apart values are that are spelled differently; 0 for an exact number."""
        return self.high - self.low

    @property
    def middle(self) -> Fraction:
        """Return the number as it is spelled."""
        return (self.low + self.high) / 2

    @property
    def integer(self) -> int:
        """Return the integer in the middle of those inside; without one, the nearest."""
        first, last = ceil(self.low), floor(self.high)
        return (first + last) // 2 if first <= last else round(self.middle)

    @property
    def is_exact(self) -> bool:
        """Return whether it holds no more than one integer."""
        return self.high < ceil(self.low) + 1

    def times(self, count: int) -> ValueRange:
        """Return the range of the sum of `count` such values."""
        return ValueRange(self.low * count, self.high * count)


def intersection(ranges: Iterable[ValueRange]) -> ValueRange | None:
    """Return what all ranges leave possible, or None; one that contradicts earlier ones is ignored."""
    result: ValueRange | None = None
    for other in ranges:
        result = result or other
        low, high = max(result.low, other.low), min(result.high, other.high)
        if low <= high:
            result = ValueRange(low, high)
    return result


@dataclass(frozen=True)
class Measured:
    """How often something happened, and the measures (total, avg, ...) that the cells of a row give."""

    count: int
    measures: Mapping[str, ValueRange]

    def total(self) -> ValueRange | None:
        """Return the sum, as exact as sum and mean, of a single event also min and max, leave it."""
        ranges = [self.measures["total"]] if "total" in self.measures else []
        if "avg" in self.measures:
            ranges.append(self.measures["avg"].times(self.count))
        if self.count == 1:
            ranges += [self.measures[role] for role in ("min", "max") if role in self.measures]
        return intersection(ranges)

    def statistics(self, column: str, total: int | None) -> Row:
        """Return the columns of `aggregate` with this sum: `column` is their name, {} the measure."""
        measures = self.measures
        values: Row = {column.format("sum"): total}
        for role in ("min", "max"):
            values[column.format(role)] = measures[role].integer if role in measures else None
        for role in ("med", "stddev"):
            values[column.format(role)] = float(measures[role].middle) if role in measures else None
        return values


def shares_incomplete(shares: Sequence[ValueRange | None]) -> bool:
    """Return whether a table's shares, in percent, show that rows are missing; a None leaves it open."""
    values = [share for share in shares if share is not None]
    if len(values) < len(shares) or not any(share.middle for share in values):
        # If the total is no time at all, all shares are printed as 0.
        return False
    # Where the locale has decimal commas, nsys of 2020 and 2021 cuts decimals: 27.9 is 27,0.
    are_cut = all(share.middle.denominator == 1 for share in values)
    most = sum(share.middle + 1 if are_cut else share.high for share in values)
    return most + _SLACK_PCT < _WHOLE_PCT


# -- totals

GPU_TOTALS = frozenset({Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS})
"""Facts of a table of all the GPU's work: work that is not in it did not happen."""

_TOTALS_FACTS = {
    "kernel": Fact.KERNEL_TOTALS,
    "memcpy": Fact.MEMORY_TOTALS,
    "memset": Fact.MEMORY_TOTALS,
    "unified_memory": Fact.UNIFIED_MEMORY_TOTALS,
    "api_call": Fact.API_TOTALS,
    "range": Fact.RANGE_TOTALS,
    "osrt_call": Fact.OSRT_TOTALS,
}


def totals_fact(kind: str) -> Fact:
    """Return the fact that totals of a kind of codes.AGGREGATE_KINDS record."""
    return _TOTALS_FACTS.get(kind, Fact.DIRECTIVE_TOTALS)


@dataclass
class _RoundedSums:
    # How many sums are not known to the ns or byte, and the coarsest step in which they are spelled.
    count: int = 0
    step: Fraction = Fraction(0)

    def add(self, value: ValueRange | None) -> int | None:
        if value is None:
            return None
        if not value.is_exact:
            self.count += 1
            self.step = max(self.step, value.step)
        return value.integer


@dataclass
class PrintedTotals(ABC):
    """Collect rows of `aggregate` of one recording, and what its notes are about.

    `ids` numbers names and devices. `times` and `sizes` are the sums that are not exact, by fact,
    `unread` lines that look like rows and are none, `incomplete` header lines of tables that lack rows.
    """

    ids: IdRegistry
    rows: list[Row] = field(default_factory=list)
    facts: set[Fact] = field(default_factory=set)
    times: dict[Fact, _RoundedSums] = field(default_factory=dict)
    sizes: dict[Fact, _RoundedSums] = field(default_factory=dict)
    unread: list[int] = field(default_factory=list)
    incomplete: list[int] = field(default_factory=list)

    def put(self, kind: str, values: Row) -> None:
        """Add a row of a kind of codes.AGGREGATE_KINDS."""
        code = codes.AGGREGATE_KINDS.index(kind)
        self.rows.append({"id": len(self.rows) + 1, "kind": code, **values})

    def times_of(self, kind: str, row: Measured) -> Row:
        """Return the columns of a row whose measures are times."""
        sums = self.times.setdefault(totals_fact(kind), _RoundedSums())
        return {"count": row.count, **row.statistics("{}_ns", sums.add(row.total()))}

    def sizes_of(self, kind: str, row: Measured) -> Row:
        """Return the columns of a row whose measures are sizes."""
        sums = self.sizes.setdefault(totals_fact(kind), _RoundedSums())
        return {"count": row.count, **row.statistics("bytes_{}", sums.add(row.total()))}

    @abstractmethod
    def notes(self) -> Iterator[Note]:
        """Yield what was rounded or left out."""

    def rounding_notes(self, sizes: str) -> Iterator[Note]:
        """Yield how exactly sums are known, by fact; those of bytes are called `sizes`."""
        for slug, sums, words, unit in (
            ("rounded-times", self.times, "{}: time totals", "ns"),
            ("rounded-bytes", self.sizes, sizes, "bytes"),
        ):
            for fact, rounded in sums.items():
                if rounded.count:
                    step = f"are accurate to {float(rounded.step):,.0f} {unit} or better"
                    text = f"{words.format(fact.label)} {step}"
                    facts = frozenset({fact})
                    yield Note(slug, Severity.APPROXIMATED, text, rounded.count, "", facts)

    def incomplete_notes(self) -> Iterator[Note]:
        """Yield the note on tables that lack rows."""
        text = "the shares in a table do not add up to 100 %: rows are missing"
        yield from line_notes("totals-incomplete", Severity.DROPPED, text, self.incomplete)


def needless_totals(*, gpu_trace: bool, api_trace: bool) -> frozenset[Fact]:
    """Return the totals that a log with these traces does not need, because it holds the events."""
    needless = {*GPU_TOTALS, Fact.UNIFIED_MEMORY_TOTALS} if gpu_trace else set()
    return frozenset(needless | ({Fact.API_TOTALS} if api_trace else set()))
