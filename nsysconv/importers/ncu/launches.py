"""One launch of a kernel as a report or a table has it, and the names and units of its metrics.

Nothing heavy is imported here: the process that opens a report comes through.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

ATTRIBUTE = "device__attribute_"
"""How metrics begin that describe the GPU."""
GPU_NAME = f"{ATTRIBUTE}display_name"
DURATION = "gpu__time_duration.sum"


class Metric(NamedTuple):
    """Values of a metric; the unit as codes.METRIC_UNITS has it, and as spelled, less its prefix."""

    unit: str
    spelled: str
    average: float
    least: float
    most: float


@dataclass
class Launch:
    """A launch, or `invocations` of them with the same kernel; None: not recorded.

    `is_kernel`: no range or graph of several. `counts` has metrics that are texts or have no value
    ("text"), and those that should be numbers ("unreadable"). The duration is known to `step_ns`.
    """

    kernel: str
    short: str | None = None
    symbol: str | None = None
    pid: int | None = None
    gpu: str | None = None
    is_kernel: bool = True
    invocations: int | None = None
    metrics: dict[str, Metric] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    step_ns: float = 0.0

    def number(self, metric: str) -> int | None:
        """Return a metric as a count, an id or a time; None for what can be none."""
        found = self.metrics.get(metric)
        return round(found.average) if found and 0 <= found.average < 1 << 53 else None


_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SECONDS = {"n": 1.0, "u": 1e3, "m": 1e6, "": 1e9}
_TIME = re.compile(r"([num]?)s(?:econd)?")
_UNIT = re.compile(
    r"([KMGT]?)(byte|cycle|hz|(?:block|branches|byte|inst|request|sectors?|thread|warp)\b.*?)"
    r"(?:/([num]?)s(?:econd)?)?",
    re.IGNORECASE,
)
_KINDS = {
    ("byte", False): "bytes",
    ("byte", True): "bytes/s",
    ("cycle", True): "Hz",
    ("hz", False): "Hz",
}


def scale(unit: str) -> tuple[str, str, float]:
    """Return a unit as codes.METRIC_UNITS has it, without a prefix, and the factor of that prefix.

    Prefixes are decimal. Times become ns, and everything per time is per second.
    """
    if match := _TIME.fullmatch(unit):
        return "number", "ns", _SECONDS[match[1]]
    if match := _UNIT.fullmatch(unit):
        kind = _KINDS.get((match[2].lower(), match[3] is not None), "number")
        factor = _PREFIXES[match[1].upper()] * (1e9 / _SECONDS[match[3]] if match[3] else 1)
        return kind, f"{match[2]}/s" if match[3] is not None else match[2], factor
    return "%" if unit == "%" else "number", unit, 1.0


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
