"""Cells of a table that people know from elsewhere, as they know them: headers, decimals, rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Context, Decimal

from nsysconv.render.values import Value, rows
from nsysconv.report import Column, Printed, Report

# As many digits as the largest double has before the point, and then some.
_CONTEXT = Context(prec=400, rounding=ROUND_HALF_UP)


def headers(report: Report) -> list[str]:
    """What the columns of a report are called: as they are known, if all of them are."""
    if not report.is_printed:
        return [column.name for column in report.columns]
    return [column.printed.header for column in report.columns if column.printed]


def texts(report: Report) -> Iterator[tuple[str, ...]]:
    """The rows of a printed report as text, null as an empty one."""
    spell = [speller(column) for column in report.columns]
    for row in rows(report):
        yield tuple(each(value) for each, value in zip(spell, row, strict=True))


def speller(column: Column) -> Callable[[Value], str]:
    """What makes text of the values of a column."""
    printed = column.printed
    if printed is None or printed.decimals is None:
        return lambda value: "" if value is None else str(value)
    return lambda value: rounded(value, printed) if isinstance(value, int | float) else ""


def rounded(value: int | float, printed: Printed) -> str:
    """A number with its decimals, half away from zero of what its shortest decimal spelling says."""
    decimals = printed.decimals or 0
    if isinstance(value, int):
        # The common case, in whole numbers: listings have millions of them.
        steps = (2 * abs(value) * 10**decimals + printed.per) // (2 * printed.per)
        whole, part = divmod(steps, 10**decimals)
        sign = "-" if value < 0 and steps else ""
        return f"{sign}{whole}.{part:0{decimals}d}" if decimals else f"{sign}{whole}"
    number = _CONTEXT.divide(Decimal(repr(value)), Decimal(printed.per))
    number = number.quantize(Decimal(1).scaleb(-decimals), context=_CONTEXT)
    return f"{number if number else abs(number):f}"


def with_separators(number: str) -> str:
    """A number as text with a comma between thousands: `-1234.5` becomes `-1,234.5`."""
    sign = "-" if number.startswith("-") else ""
    whole, point, part = number.removeprefix("-").partition(".")
    return f"{sign}{int(whole):,}{point}{part}" if whole.isdigit() else number
