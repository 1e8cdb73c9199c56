"""The parts of a long recording of which a page shows single events: where one will look."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nsysconv.report import Report
from nsysconv.timeline.arrays import sums

Part = tuple[int, int]
"""From and to, in ns."""

_GAPS = 20
_NAMES = 10
"""The most gaps, and names of each kind of events, whose parts are shown whole."""
_MANY = 2_000
_AROUND_NS = 1_000_000
"""If an event holds more than _MANY others, this much around its start and its end is shown, in ns."""


def time_line_parts(
    reports: Mapping[str, Report], found: Sequence[Part], most_events: int
) -> list[Part] | None:
    """Return the times for which to show single events, in order; None if all events are few enough.

    `reports` are by name without options: `timeline_tiles` says where events are; there may be
    `idle_gaps`, `steps` and `event_durations`. First comes what was `found`, then the longest gaps, the
    median step and the longest, then the longest events of the names with most time; as many as fit into
    half of `most_events`, for what launched them comes with them.
    """
    crowd = _Crowd(reports["timeline_tiles"])
    if crowd.total <= most_events:
        return None
    chosen: list[Part] = []
    left = most_events / 2
    for part in _wanted(reports, found, crowd):
        fitting = crowd.cut(part, left)
        chosen.append(fitting)
        left -= crowd.count(fitting)
        if left < 1:
            break
    return _united(chosen)


class _Crowd:
    """The density of events over time, by the narrowest tiles of all lanes; in a tile it is even."""

    def __init__(self, tiles: Report) -> None:
        """Take the rows of `timeline_tiles`."""
        columns = dict(zip((c.name for c in tiles.columns), tiles.by_column(), strict=True))
        start, width, count = (
            np.array(columns[name], np.int64) for name in ("start_ns", "dur_ns", "event_count")
        )
        finest = width == width.min(initial=_LAST)
        begin, which = np.unique(start[finest], return_inverse=True)
        begun = sums(which, count[finest], len(begin))
        until = np.cumsum(begun)
        # Each has two edges, for between two of them there may be time in which nothing begins.
        self._edges = np.stack((begin, begin + width.min(initial=_LAST)), axis=1).ravel()
        self._before = np.stack((until - begun, until), axis=1).ravel()
        self.total = int(begun.sum())

    def count(self, part: Part) -> float:
        """Return how many events of a part there may be."""
        low, high = np.interp(part, self._edges, self._before)
        return float(high - low)

    def cut(self, part: Part, most: float) -> Part:
        """Return the part, or so much of its beginning as has so many events at most."""
        low, high = part
        until = np.interp(low, self._edges, self._before) + most
        return low, max(min(high, int(np.interp(until, self._before, self._edges))), low + 1)


_LAST = np.iinfo(np.int64).max


def _wanted(reports: Mapping[str, Report], found: Sequence[Part], crowd: _Crowd) -> Iterator[Part]:
    for low, high in found:
        yield from _around(low, high, crowd)
    gaps = [(row["start_ns"], row["dur_ns"]) for row in _rows(reports.get("idle_gaps"))]
    for start, dur in sorted(gaps, key=lambda gap: -gap[1])[:_GAPS]:
        yield from _around(start, start + dur, crowd)
    steps = [
        (row["start_ns"], row["dur_ns"])
        for row in _rows(reports.get("steps"))
        if not row["step"].startswith("[") and row["dur_ns"]
    ]
    steps.sort(key=lambda step: step[1])
    for start, dur in (steps[len(steps) // 2], steps[-1]) if steps else ():
        yield from _around(start, start + dur, crowd, whole=True)
    names: dict[tuple[str, str], tuple[int, int]] = {}
    of_kind: dict[str, int] = defaultdict(int)
    for row in _rows(reports.get("event_durations")):
        longest = names.get((row["kind"], row["name"]))
        if longest is None:
            of_kind[row["kind"]] += 1
        if of_kind[row["kind"]] <= _NAMES and (longest is None or row["max_ns"] > longest[1]):
            names[row["kind"], row["name"]] = row["max_start_ns"], row["max_ns"]
    for start, dur in names.values():
        yield from _around(start, start + dur, crowd)


def _around(low: int, high: int, crowd: _Crowd, *, whole: bool = False) -> Iterator[Part]:
    room = max((high - low) // 4, 1)
    part = low - room, high + room
    if whole or crowd.count(part) <= _MANY:
        yield part
        return
    for edge in (low, high):
        yield edge - min(room, _AROUND_NS), edge + min(room, _AROUND_NS)


def _united(parts: Sequence[Part]) -> list[Part]:
    found: list[Part] = []
    for low, high in sorted(parts):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def _rows(report: Report | None) -> Iterator[dict[str, Any]]:
    names = [] if report is None else [column.name for column in report.columns]
    for row in () if report is None else report.tuples():
        yield dict(zip(names, row, strict=True))
