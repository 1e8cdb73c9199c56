"""One launch of a kernel as a report or a table has it, and the names and units of its metrics.

Nothing heavy is imported here: the process that opens a report comes through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

ATTRIBUTE = "device__attribute_"
"""Metrics of this name describe the GPU."""
GPU_NAME = f"{ATTRIBUTE}display_name"
DURATION = "gpu__time_duration.sum"
LAUNCH = "launch__"

NUMBER, PERCENT, BYTES, RATE, HERTZ = "number", "%", "bytes", "bytes/s", "Hz"
"""Words of codes.METRIC_UNITS."""


class Metric(NamedTuple):
    """A metric: its name, the word of its unit, that unit as it is spelled, and its values."""

    name: str
    unit: str
    spelled: str
    average: float
    least: float
    most: float


@dataclass
class Launch:
    """A launch, or several with the same kernel and sizes (`invocations`); None: not recorded.

    `is_kernel`: no range or graph of several. `left_out` counts metrics that are texts or have no value,
    `unreadable` those that should be numbers. The duration is known to `step_ns`.
    """

    kernel: str
    short: str | None = None
    symbol: str | None = None
    pid: int | None = None
    device: int | None = None
    context: int | None = None
    stream: int | None = None
    capability: tuple[int, ...] = ()
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    gpu: str | None = None
    is_kernel: bool = True
    invocations: int | None = None
    metrics: list[Metric] = field(default_factory=list)
    left_out: int = 0
    unreadable: int = 0
    step_ns: float = 0.0


# -- units

_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_TIMES = {"n": 1.0, "u": 1e3, "m": 1e6, "": 1e9}
_TIME = re.compile(r"([num]?)(?:s|second)")
_PER_TIME = re.compile(r"([KMGT]?)(byte|cycle)/([num]?)(?:s|second)")
_FREQUENCY = re.compile(r"([KMGT]?)[hH]z")
_SIZE = re.compile(r"([KMGT]?)byte")
# Other counts, such as Ksector or Gsector/s.
_COUNT = re.compile(r"([KMGT]?)((?:block|branches|byte|inst|request|sectors?|thread|warp)\b.*)")


def scale(unit: str) -> tuple[str, str, float]:
    """Return the word of codes.METRIC_UNITS for a unit, the unit without a prefix, and its factor.

    Times become ns, everything per time is per second. Prefixes are decimal.
    """
    if unit == "%":
        return PERCENT, unit, 1.0
    if match := _TIME.fullmatch(unit):
        return NUMBER, "ns", _TIMES[match[1]]
    if match := _PER_TIME.fullmatch(unit):
        factor = _PREFIXES[match[1]] * _TIMES[""] / _TIMES[match[3]]
        return (RATE, "byte/s", factor) if match[2] == "byte" else (HERTZ, "hz", factor)
    if match := _FREQUENCY.fullmatch(unit):
        return HERTZ, "hz", _PREFIXES[match[1]]
    if match := _SIZE.fullmatch(unit):
        return BYTES, "byte", _PREFIXES[match[1]]
    if match := _COUNT.fullmatch(unit):
        return NUMBER, match[2], _PREFIXES[match[1]]
    return NUMBER, unit, 1.0


# -- names


@cache
def _counters() -> Mapping[tuple[str, str], str]:
    text = Path(__file__).with_name("labels.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {(section, label): name for section, label, name in rows}


def counter(section: str, label: str) -> str:
    """Return the counter that the details page calls so; of others the label, after its section."""
    if "__" in label or not section:
        return label
    return _counters().get((section, label), f"{section}: {label}")
