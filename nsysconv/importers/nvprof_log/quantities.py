"""Values as nvprof spells them: a number of few digits, with a unit of its own or of its column.

Sizes and rates have binary prefixes: 1 KB is 1024 bytes (docs/formats/nvprof-log.md). A spelled value
stands for all numbers that round to it; where several values tell the same quantity, what is left is what
they have in common.
"""

from __future__ import annotations

import re
from fractions import Fraction

from nsysconv.importers.printed.quantities import ValueRange

_K = 1024
UNITS: dict[str, int] = {
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "µs": 10**3,
    "ns": 1,
    "B": 1,
    "KB": _K,
    "MB": _K**2,
    "GB": _K**3,
    "TB": _K**4,
    "B/s": 1,
    "KB/s": _K,
    "MB/s": _K**2,
    "GB/s": _K**3,
    "TB/s": _K**4,
    "%": 1,
}
"""Units -> how many ns, bytes, bytes per second or percent one of them is."""

_VALUE = re.compile(r"\s*(-?[0-9][0-9.,]*(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-zµ%/]*)\s*$")
_LARGEST = 1 << 62
_GROUP = 3


def step_of(text: str) -> Fraction | None:
    """What the last digit of a number is worth, in any language's spelling; None if it is none."""
    found = _digits(text)
    return None if found is None else Fraction(10) ** found[1]


def spelled(text: str, unit: str = "") -> ValueRange | None:
    """What a cell says; its own unit counts before its column's. None: no number of a known unit."""
    found = _scaled(text, unit)
    if found is None:
        return None
    digits, scale, parts = found
    return ValueRange(
        Fraction((2 * digits - 1) * scale, 2 * parts), Fraction((2 * digits + 1) * scale, 2 * parts)
    )


def measured(text: str, unit: str = "") -> tuple[float, float] | None:
    """The middle of the same, and its step: what traces of a million rows need of it."""
    found = _scaled(text, unit)
    if found is None:
        return None
    digits, scale, parts = found
    return digits * scale / parts, scale / parts


def _scaled(text: str, unit: str) -> tuple[int, int, int] | None:
    """The digits of a cell, what the last of them stands for, and in how many parts of one that is."""
    match = _VALUE.match(text)
    if match is None:
        return None
    unit = match.group(2) or unit
    scale = UNITS.get(unit, None if unit else 1)
    found = _digits(match.group(1))
    if scale is None or found is None:
        return None
    digits, exponent = found
    scale, parts = scale * 10 ** max(exponent, 0), 10 ** max(-exponent, 0)
    if max(abs(digits), 1) * scale > _LARGEST * parts:
        return None
    return digits, scale, parts


def _digits(text: str) -> tuple[int, int] | None:
    """The digits of a number, and the power of ten that the last of them stands for.

    Of `,` and `.` the last is the decimal sign, unless it stands there more than once.
    """
    digits, _, power = text.lower().partition("e")
    comma, point = digits.rfind(","), digits.rfind(".")
    sign = "," if comma > point else "."
    if digits.count(sign) > 1:
        sign = "." if sign == "," else ","
    grouping = "," if sign == "." else "."
    whole, _, decimals = digits.partition(sign)
    _, *groups = whole.split(grouping)
    if grouping in decimals or any(len(group) != _GROUP for group in groups):
        return None
    try:
        return int(whole.replace(grouping, "") + decimals), int(power or 0) - len(decimals)
    except ValueError:  # no digit, or thousands of them
        return None
