"""Units of columns, and how a value looks to a person. Values themselves stay in base units."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum


class Unit(StrEnum):
    """The unit of a column. `TEXT` and `ID` are no quantities; `REAL` has any unit."""

    TEXT = "text"
    ID = "id"
    COUNT = "count"
    REAL = "real"
    NS = "ns"
    BYTES = "bytes"
    PCT = "%"
    BYTES_PER_S = "bytes/s"


# (smallest value shown in this unit, its divisor, its name): decimal steps, as the definitions say:
# MB = 10^6 bytes.
_SCALES: dict[Unit, tuple[tuple[float, float, str], ...]] = {
    Unit.NS: ((1e9, 1e9, "s"), (1e6, 1e6, "ms"), (1e3, 1e3, "µs"), (0, 1, "ns")),
    Unit.BYTES: ((1e9, 1e9, "GB"), (1e6, 1e6, "MB"), (1e3, 1e3, "kB"), (0, 1, "B")),
    Unit.BYTES_PER_S: ((1e9, 1e9, "GB/s"), (1e6, 1e6, "MB/s"), (1e3, 1e3, "kB/s"), (0, 1, "B/s")),
}


def scale_for(unit: Unit, largest: float) -> tuple[float, str]:
    """Return the divisor and the unit's name in which a column with this largest value reads well."""
    for smallest, divisor, name in _SCALES.get(unit, ()):
        if abs(largest) >= smallest:
            return divisor, name
    return 1, "%" if unit is Unit.PCT else ""


def utc(ns: int) -> str:
    """Return a time of day for people, from ns since 1970: `2026-01-01 00:00:00 UTC`."""
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def human(value: float, unit: Unit) -> str:
    """Return one value with its unit, for sentences: `1.23 ms`, `512 B`, `97.0 %`."""
    divisor, name = scale_for(unit, value)
    number = value / divisor
    text = f"{number:,.0f}" if divisor == 1 and unit is not Unit.PCT else f"{number:,.2f}"
    return f"{text} {name}".rstrip()
