"""Lanes of what was counted over time, as data of the time line: memory in use, sampled metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from nsysconv.document import Section
from nsysconv.names import WHOLE, escaped, shorten
from nsysconv.render.page.markup import amount, rows
from nsysconv.report import Unit, scale_for

REPORT = "metrics_over_time"
"""The report that lanes of sampled metrics are drawn from."""

_TOPS = {"%": 100.0, "level": 10.0}
"""The heights of lanes whose greatest possible value is known."""
_NAMES = {"number": "", "level": "of 10"}
_SCALED = {"bytes": Unit.BYTES, "bytes/s": Unit.BYTES_PER_S, "Hz": Unit.HZ}

Row = dict[str, Any]
Group = Callable[[int | None, int | None], str]
"""What the group of a lane is called, by process and device."""


def counter_lanes(
    memory: Section | None, metrics: Section | None, group: Group
) -> Iterator[dict[str, Any]]:
    """Yield each lane with the name of its group: memory in use first, then metrics by name."""
    yield from _memory(memory, group)
    yield from _metrics(metrics, group)


def _memory(memory: Section | None, group: Group) -> Iterator[dict[str, Any]]:
    found = [row for row in rows(memory) if row["max_bytes"] is not None]
    for (pid, device, kind), of_pool in groupby(
        found, lambda row: (row["pid"], row["device_id"], row["memory"])
    ):
        bins = list(of_pool)
        yield {
            **_lane(group(pid, device), f"{kind} memory in use", bins),
            "tag": f"{kind} memory",
            "high": [row["max_bytes"] for row in bins],
            "words": [amount(row["max_bytes"], Unit.BYTES) for row in bins],
        }


def _metrics(metrics: Section | None, group: Group) -> Iterator[dict[str, Any]]:
    for (device, name, _, unit), of_metric in groupby(
        rows(metrics), lambda row: (row["device_id"], row["metric"], row["kind"], row["unit"])
    ):
        bins = list(of_metric)
        greatest = max(row["value_max"] for row in bins)
        divisor, words = 1.0, _NAMES.get(unit, unit or "")
        if unit in _SCALED:
            divisor, words = scale_for(_SCALED[unit], greatest)
        own = shorten(escaped(name), WHOLE)
        yield {
            **_lane(group(None, device), own, bins),
            "tag": own,
            "unit": words,
            "top": max(_TOPS.get(unit, 0.0), greatest / divisor),
            "high": [_rounded(row["value_max"] / divisor) for row in bins],
            "low": [_rounded(row["value_min"] / divisor) for row in bins],
            "mean": [_rounded(row["value_avg"] / divisor) for row in bins],
            "count": [row["sample_count"] for row in bins],
        }


def _lane(group: str, name: str, bins: Sequence[Row]) -> dict[str, Any]:
    # A value holds until the next bin that has one.
    starts = [row["start_ns"] for row in bins]
    return {
        "name": f"{group}: {name}",
        "group": group,
        "start": [at - before for at, before in zip(starts, (0, *starts), strict=False)],
        "end": starts[-1] + bins[-1]["dur_ns"],
    }


def _rounded(value: float) -> float:
    number = float(f"{value:.4g}")
    return int(number) if number.is_integer() else number
