"""Cells of a table that people know from elsewhere, as they know them: headers, decimals, rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Context, Decimal

from nsysconv.report import Column, Printed, Report, Value

# As many digits as the largest double has before the point, and then some.
_CONTEXT = Context(prec=400, rounding=ROUND_HALF_UP)
# So many digits of a decimal number every double keeps.
_DIGITS = 15


def column_headers(report: Report) -> list[str]:
    """What the columns of a report are called: as they are known, if all of them are."""
    if not report.is_printed:
        return [column.name for column in report.columns]
    return [column.printed.header for column in report.columns if column.printed]


def printed_rows(report: Report) -> Iterator[tuple[str, ...]]:
    """The rows of a printed report as text, null as an empty one."""
    spell = [cell_formatter(column) for column in report.columns]
    for row in report.tuples():
        yield tuple(each(value) for each, value in zip(spell, row, strict=True))


def cell_formatter(column: Column) -> Callable[[Value], str]:
    """What makes text of the values of a column."""
    printed = column.printed
    if printed is None or printed.decimals is None:
        return lambda value: "" if value is None else str(value)
    return lambda value: round_half_up(value, printed) if isinstance(value, int | float) else ""


def round_half_up(value: int | float, printed: Printed) -> str:
    """A number with its decimals, half away from zero of what its shortest decimal spelling says."""
    decimals = printed.decimals or 0
    if isinstance(value, int):
        # The common case, in whole numbers: listings have millions of them.
        steps = (2 * abs(value) * 10**decimals + printed.per) // (2 * printed.per)
        whole, part = divmod(steps, 10**decimals)
        sign = "-" if value < 0 and steps else ""
        return f"{sign}{whole}.{part:0{decimals}d}" if decimals else f"{sign}{whole}"
    spelled = repr(value)
    if printed.per == 1 and _has_no_tie(spelled, decimals):
        return f"{value:.{decimals}f}"  # ten times faster
    number = _CONTEXT.divide(Decimal(spelled), Decimal(printed.per))
    number = number.quantize(Decimal(1).scaleb(-decimals), context=_CONTEXT)
    return f"{number if number else abs(number):f}"


def _has_no_tie(spelled: str, decimals: int) -> bool:
    """Whether rounding what is spelled and what is stored comes to the same: there is nothing half-way,
    no sign that a zero could keep, and no decimal that a double of this size does not have.
    """
    before, _, after = spelled.partition(".")
    plain = before.isdigit() and after.isdigit() and len(before) + decimals <= _DIGITS
    return plain and after[decimals:] != "5"


def with_separators(number: str) -> str:
    """A number as text with a comma between thousands: `-1234.5` becomes `-1,234.5`."""
    sign = "-" if number.startswith("-") else ""
    whole, point, part = number.removeprefix("-").partition(".")
    return f"{sign}{int(whole):,}{point}{part}" if whole.isdigit() else number
