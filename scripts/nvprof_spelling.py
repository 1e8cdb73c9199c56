"""Spellings of names, times, sizes and rates by nvprof: glued to their units in text, bare in CSV.

Prefixes of sizes and rates are powers of 1024. In text a value and its unit fill a width together
(`3.2557ms`, `2.02475s`), whole below one microsecond or one KB (`438ns`, `4B`); a unit is left for
the next one at 1000, so 1020 KB are `0.9961MB`. In CSV a value has six decimals in the unit of its
column, and none where that is `ns` or `B`, which count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workload import Process, Workload

TIMES = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
# No GPU that nvprof knows moves a TB in a second.
RATES = {"B/s": 1, "KB/s": 1 << 10, "MB/s": 1 << 20, "GB/s": 1 << 30}
MEMORY = {"pageable": "Pageable", "pinned": "Pinned", "device": "Device", "managed": "Managed",
          "unknown": "Unknown"}  # fmt: skip
SECRET = "SECRET-IN-COMMAND"
# The widths of values in tables; totals of unified memory and rates are longer.
NARROW, TOTAL = 8, 10
# As many characters of a device as text shows.
NAMED_BY = 15
VERSION = re.compile(r"(_ptsz|_ptds)?(_v\d+)?$")


@dataclass(frozen=True)
class Units:
    """The units of a trace's columns in CSV, in nvprof's words."""

    start: str = "ms"
    duration: str = "us"
    static_shared: str = "KB"
    dynamic_shared: str = "B"
    size: str = "KB"
    rate: str = "GB/s"
    migrated: str = "B"


@dataclass(frozen=True)
class SummaryUnits:
    """The units of a summary's columns in CSV."""

    time: str = "ms"
    avg: str = "us"
    min: str = "us"
    max: str = "us"


def fitting(values: Iterable[float], units: Mapping[str, int]) -> str:
    """Return the unit that nvprof takes: the first in which the largest value is below 1000."""
    largest = max(values, default=0)
    return next((u for u, factor in units.items() if largest < 1000 * factor), list(units)[-1])


def decimal(value: float, factor: int) -> str:
    """Return a cell of CSV: six decimals in a larger unit, none in the base unit."""
    if factor == 1 and isinstance(value, int):
        return str(value)
    return f"{value / factor:.6f}"


def _digits(value: float, width: int) -> str:
    if value >= 1000:
        return f"{value:.1e}"
    return f"{value:.{width - 1 - len(str(int(value)))}f}"


def time(ns: int, width: int = NARROW) -> str:
    """Return a time with its unit, as text has it."""
    unit = fitting([ns], TIMES)
    return f"{ns}ns" if unit == "ns" else _digits(ns / TIMES[unit], width - len(unit)) + unit


def size(value: float, width: int = NARROW) -> str:
    """Return a size with its unit, as text has it."""
    unit = fitting([value], SIZES)
    if unit == "B" and isinstance(value, int):
        return f"{value}B"
    return _digits(value / SIZES[unit], width - len(unit)) + unit


def rate(bytes_per_s: float) -> str:
    """Return a rate with its unit, as text has it."""
    unit = fitting([bytes_per_s], RATES)
    return _digits(bytes_per_s / RATES[unit], TOTAL - len(unit)) + unit


def suffixed(value: float, units: Mapping[str, int]) -> str:
    """Return a value with its unit and six decimals, as in single migrations and tables without units."""
    unit = fitting([value], units)
    if units[unit] == 1 and isinstance(value, int):
        return f"{value}{unit}"
    return f"{value / units[unit]:.6f}{unit}"


def quoted(text: object) -> str:
    """Return a cell of CSV that holds no number."""
    return '"' + str(text).replace('"', '""') + '"'


def function(symbol: str) -> str:
    """Return an API function as nvprof prints it: without version and mode of the default stream."""
    return VERSION.sub("", symbol)


def device(process: Process, ordinal: int, product: str | None = None) -> str:
    """Return a device as CSV has it, with its number in the process."""
    return f"{product or process.devices[ordinal].name} ({ordinal})"


def command(workload: Workload) -> str:
    """Return a command line with a secret in it, as the banners repeat it."""
    return " ".join((workload.command, *workload.arguments, f"--token={SECRET}"))


def profiling(workload: Workload, process: Process) -> str:
    """Return the line that nvprof prints when a process starts."""
    pid = process.pid
    return f"=={pid}== NVPROF is profiling process {pid}, command: {command(workload)}\n"


def banner(workload: Workload, process: Process) -> str:
    """Return the lines before the first table."""
    pid = process.pid
    return (
        profiling(workload, process)
        + f"=={pid}== Profiling application: {command(workload)}\n"
        + f"=={pid}== Profiling result:\n"
    )


def concatenated(texts: Iterable[str]) -> str:
    """Return several logs in one file, as processes that share it leave them."""
    return "".join(texts)
