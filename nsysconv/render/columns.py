"""Columns for people (text, Markdown, HTML): one unit per column, rounded, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nsysconv.names import escaped
from nsysconv.render.printed import cell_formatter, with_separators
from nsysconv.report import Column, Printed, Report, Value
from nsysconv.units import Unit, scale_for

NULL = "-"

# A scaled value's decimals are whole steps of the next smaller unit: 1.234 ms is 1234 µs.
_SCALED_DECIMALS = 3
# From here on a float's digits are noise, and would only make the column wide.
_TOO_LONG = 1e15
_SUFFIXES = {
    Unit.NS: "_ns",
    Unit.BYTES: "_bytes",
    Unit.PCT: "_pct",
    Unit.BYTES_PER_S: "_bytes_per_s",
}


@dataclass(frozen=True)
class DisplayColumn:
    """A column as people see it: its name without the unit, the unit, and a text per row.

    Texts hold no control character.
    """

    column: Column
    name: str
    unit: str
    cells: tuple[str, ...]

    @property
    def header(self) -> str:
        """Name and unit in one line: `kernel_sum (ms)`."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def right(self) -> bool:
        """Whether the column holds numbers, which are aligned to the right."""
        return self.column.kind != "text"


@dataclass(frozen=True)
class DisplayTable:
    """The columns to show, and those left out because they say nothing.

    `unrecorded` are values that no row has (never keys: a rank that nobody has is no news).
    """

    columns: tuple[DisplayColumn, ...]
    unrecorded: tuple[Column, ...]


def all_columns(report: Report) -> DisplayTable:
    """Every declared column that people are to see."""
    return DisplayTable(
        tuple(display_column(column, values) for column, values in _visible_columns(report)), ()
    )


def _visible_columns(report: Report) -> Iterator[tuple[Column, list[Value]]]:
    """The columns that are not said in words, printed as they are known only if all of them are; optional
    ones where a row has a value.
    """
    for column, values in zip(report.columns, report.by_column(), strict=True):
        hidden = column.optional and all(value is None for value in values)
        if not column.said and not hidden:
            yield column if report.is_printed else replace(column, printed=None), values


def informative_columns(report: Report) -> DisplayTable:
    """The columns that tell rows apart or say something about them.

    Not those without any value, nor the profile where there is one only, for the heading names it.
    """
    kept, unrecorded = [], []
    for column, values in _visible_columns(report):
        if column.name == "profile" and len(report.profiles) == 1:
            continue
        if any(value is not None for value in values):
            kept.append(display_column(column, values))
        elif not column.key:
            unrecorded.append(column)
    return DisplayTable(tuple(kept), tuple(unrecorded))


def display_column(column: Column, values: Sequence[Value]) -> DisplayColumn:
    """The column in the unit in which its largest value reads well, or as its table prints it."""
    if column.printed:
        return _as_printed(column, column.printed, values)
    if column.kind == "text":
        spelled = {value: NULL if value is None else escaped(str(value)) for value in set(values)}
        return DisplayColumn(column, column.name, "", tuple(spelled[value] for value in values))
    numbers = [value for value in values if isinstance(value, int | float)]
    divisor, unit = _scale(column, numbers)
    name = column.name.removesuffix(_SUFFIXES.get(column.unit, "")) or column.name
    cells = [
        _number(column, value, divisor) if isinstance(value, int | float) else NULL
        for value in values
    ]
    return DisplayColumn(column, name, unit, tuple(cells))


def _as_printed(column: Column, printed: Printed, values: Sequence[Value]) -> DisplayColumn:
    spell = cell_formatter(column)
    name, bracket, unit = printed.header.partition(" (")
    cells = [NULL if value is None else spell(value) for value in values]
    if column.kind == "text":
        cells = [escaped(text) for text in cells]
    elif column.unit is not Unit.ID:
        cells = [with_separators(text) for text in cells]
    return DisplayColumn(column, name, unit.removesuffix(")") if bracket else "", tuple(cells))


def _scale(column: Column, numbers: Sequence[int | float]) -> tuple[float, str]:
    """Divisor and unit; a key (a bucket's bound, a start) is never rounded into another key."""
    divisor, unit = scale_for(column.unit, max(map(abs, numbers), default=0))
    if column.key:
        different = len(set(numbers))
        while divisor > 1 and len({_number(column, n, divisor) for n in numbers}) < different:
            divisor, unit = scale_for(column.unit, divisor / 1000)
    return divisor, unit


def _number(column: Column, value: int | float, divisor: float) -> str:
    if column.unit is Unit.ID:
        return str(value)
    decimals = _decimals(column, divisor)
    if not decimals:
        return f"{value:,}"
    scaled = value / divisor + 0.0  # -0.0 becomes 0.0
    if abs(scaled) >= _TOO_LONG:
        return f"{scaled:.6g}"
    text = f"{scaled:,.{decimals}f}"
    if value and not text.strip("-0."):
        # Something must not look like nothing.
        return f"{'>-' if value < 0 else '<'}{10**-decimals:.{decimals}f}"
    return text


def _decimals(column: Column, divisor: float) -> int:
    if divisor > 1:
        return _SCALED_DECIMALS
    if column.unit is Unit.PCT:
        return 2
    if column.unit is Unit.REAL:
        return _SCALED_DECIMALS
    return 1 if column.kind == "float" else 0
