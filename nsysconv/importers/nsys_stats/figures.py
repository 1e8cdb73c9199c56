"""Cells of tables of totals: numbers as exact as they are printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from nsysconv.importers.nsys_stats.numbers import (
    LARGEST,
    CellKind,
    NumberFormat,
    SpelledNumber,
    number_format,
)
from nsysconv.importers.nsys_stats.survey import PrintedTable
from nsysconv.importers.nsys_stats.tables import SIZES, TIMES, Layout
from nsysconv.importers.printed.quantities import ValueRange, intersection

MEASURES = ("total", "avg", "med", "min", "max", "stddev")
"""Columns of times or sizes."""
_WHOLE = ("total", "min", "max")
# What is used as it is spelled: no bound is made of it.
_AS_SPELLED = ("med", "stddev", "share", "count")
# By how much a mean with one decimal is rounded at most.
_ROUNDED = Fraction(1, 20)


@dataclass(frozen=True)
class TotalsRow:
    """One row of a table: how often and how much, as far as its cells tell."""

    line: int
    name: str
    category: str
    style: str
    count: int
    told: Mapping[str, ValueRange]

    def total(self) -> ValueRange | None:
        """The sum, as exact as sum and mean, and of one also least and greatest, leave it together."""
        of_one = [
            self.told[role] for role in ("min", "max") if self.count == 1 and role in self.told
        ]
        means = [self.told["avg"].times(self.count)] if "avg" in self.told else []
        return intersection(
            [*([self.told["total"]] if "total" in self.told else []), *means, *of_one]
        )

    def whole(self, role: str) -> int | None:
        """A figure as the integer in the middle of what it may be."""
        return self.told[role].whole if role in self.told else None

    def real(self, role: str) -> float | None:
        """A figure as it is spelled."""
        return float(self.told[role].middle) if role in self.told else None


class TotalsCells:
    """The cells of one table as quantities in ns, bytes, percent or rows."""

    def __init__(self, block: PrintedTable) -> None:
        self._header = block.header
        self.are_sizes = block.header.place("share") is None
        self._place = {column.role: place for place, column in enumerate(block.header.columns)}
        self._unit = block.unit
        found = [(row[i], self._holds(role)) for role, i in self._place.items() if self._is_number(role)
                 for _, row in block.rows]  # fmt: skip
        # nsys writes points there, whatever the locale.
        has_points = block.header.form in (Layout.DELIMITED, Layout.JSON)
        self._spelling: NumberFormat = number_format(found, has_points=has_points)
        self._decimals = self._most_decimals(block)
        self._is_cut = self._spelling.has_commas and self._tells_cut(block)

    def text(self, row: Sequence[str], role: str) -> str:
        """A cell; empty where there is no such column."""
        return row[self._place[role]].strip() if role in self._place else ""

    def quantity(self, row: Sequence[str], role: str) -> ValueRange | None:
        """What a cell says; None where it is empty or no number."""
        number = self._number(row, role)
        if number is None:
            return None
        if role == "count" or (self._holds(role) is CellKind.WHOLE and not number.decimals):
            return ValueRange(number.value, number.value)
        if self._is_cut and number.decimals and role not in _AS_SPELLED:
            found = number.cut(self._scale(role))
            return found if abs(found.high) <= LARGEST else None
        found = number.quantity(
            self._scale(role), max(number.decimals, self._decimals.get(role, 0))
        )
        return found if abs(found.high) <= LARGEST else None

    def is_ambiguous(self, row: Sequence[str], role: str) -> bool:
        """Whether a cell could be several numbers, and nothing tells which."""
        text = self.text(row, role)
        return bool(text) and self._spelling.is_ambiguous(text, self._holds(role))

    def cut(self, row: Sequence[str]) -> int:
        """How many cells of a row that are kept were cut; a mean tells nothing beside its exact sum."""
        if not self._is_cut:
            return 0
        found = {role: self._number(row, role) for role in MEASURES}
        total, count = found["total"], self._number(row, "count")
        needless = set()
        if total is not None and not total.decimals:
            needless.add("avg")
        if count is not None and count.value == 1:
            needless.add("stddev")
        return sum(
            number is not None and number.decimals > 0 and role not in needless
            for role, number in found.items()
        )

    def _tells_cut(self, block: PrintedTable) -> bool:
        """Whether decimals are cut: all of them are 0, and nsys is old or a mean is less than it is.

        Releases with medians print all decimals, as far as is known.
        """
        decimals = [number for _, row in block.rows for role in (*MEASURES, "share")
                    if (number := self._number(row, role)) is not None and number.decimals]  # fmt: skip
        if not decimals or any(number.value.denominator > 1 for number in decimals):
            return False
        return "med" not in self._place or any(self._falls_short(row) for _, row in block.rows)

    def _falls_short(self, row: Sequence[str]) -> bool:
        """Whether a mean is less than the sum tells by more than rounding, and by less than 1."""
        total, mean, count = (self._number(row, role) for role in ("total", "avg", "count"))
        if total is None or mean is None or count is None or count.value <= 0 or not mean.decimals:
            return False
        return _ROUNDED < total.value / count.value - mean.value < 1

    def _number(self, row: Sequence[str], role: str) -> SpelledNumber | None:
        """The number of a cell as it is spelled; None where there is none."""
        text = self.text(row, role)
        return self._spelling.number(text, self._holds(role)) if text else None

    def _is_number(self, role: str) -> bool:
        return role in MEASURES or role in ("count", "share")

    def _holds(self, role: str) -> CellKind:
        if role == "count" or (role in _WHOLE and not self.are_sizes and self._scale(role) == 1):
            return CellKind.WHOLE
        if role in MEASURES and self.are_sizes:
            return CellKind.THOUSANDTHS
        return CellKind.ANY

    def _scale(self, role: str) -> int:
        if role in ("share", "count"):
            return 1
        unit = self._header.columns[self._place[role]].unit
        total = self._header.place("total")
        unit = unit or (self._header.columns[total].unit if total is not None else "")
        if self.are_sizes:
            return SIZES.get(unit or self._unit or "KiB", 1)
        return TIMES.get(unit, 1)

    def _most_decimals(self, block: PrintedTable) -> dict[str, int]:
        """How many decimals the cells of a column are rounded to: ends that are 0 may not be spelled."""
        most: dict[str, int] = {}
        for role, place in self._place.items():
            if role not in MEASURES or self._holds(role) is CellKind.WHOLE:
                continue
            numbers = (
                self._spelling.number(row[place], self._holds(role)) for _, row in block.rows
            )
            own = max((number.decimals for number in numbers if number is not None), default=0)
            if not self.are_sizes:
                most[role] = max(own, 1)
            elif self._unit and self._header.columns[place].unit == "":
                most[role] = 0  # the oldest have as many decimals as fit: each cell its own
            else:
                most[role] = max(own, 3)
        if not self.are_sizes and any(self._scale(role) > 1 for role in most):
            return dict.fromkeys(most, max(most.values()))
        return most
