"""Values as nvprof spells them: a number of few digits, with a unit of its own or of its column.

Sizes and rates have binary prefixes: 1 KB is 1024 bytes (docs/formats/nvprof-log.md). A spelled value
stands for all numbers that round to it; where several values tell the same quantity, what is left is what
they have in common.
"""

from __future__ import annotations

import re
from fractions import Fraction

from nsysconv.importers.printed.quantity import Quantity

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


def number(text: str) -> tuple[Fraction, Fraction] | None:
    """A number, in any language's spelling, and the value of its last digit; None if it is none.

    Of `,` and `.` the last is the decimal sign, unless it stands there more than once.
    """
    digits, _, power = text.lower().partition("e")
    comma, point = digits.rfind(","), digits.rfind(".")
    sign = "," if comma > point else "."
    if digits.count(sign) > 1:
        sign = "." if sign == "," else ","
    grouping = "," if sign == "." else "."
    _, *groups = digits.partition(sign)[0].split(grouping)
    if grouping in digits.partition(sign)[2] or any(len(group) != _GROUP for group in groups):
        return None
    digits = digits.replace(grouping, "").replace(sign, ".")
    decimals = len(digits.partition(".")[2])
    try:
        exponent = int(power or 0)
        value = Fraction(digits) * Fraction(10) ** exponent
    except ValueError:
        return None
    return value, Fraction(10) ** (exponent - decimals)


def spelled(text: str, unit: str = "") -> Quantity | None:
    """What a cell says; its own unit counts before its column's. None: no number of a known unit."""
    match = _VALUE.match(text)
    if match is None:
        return None
    scale = UNITS.get(match.group(2) or unit, 1 if not (match.group(2) or unit) else None)
    found = number(match.group(1))
    if scale is None or found is None or abs(found[0] * scale) > _LARGEST:
        return None
    value, last_digit = found[0] * scale, found[1] * scale
    return Quantity(value - last_digit / 2, value + last_digit / 2)
