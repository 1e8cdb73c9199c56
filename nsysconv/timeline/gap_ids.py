"""Numbers of gaps: those of the whole profile, device by device in the order of time, from 1."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array
from nsysconv.timeline.idle import Gaps, gap_times, gaps
from nsysconv.timeline.timeline import Timeline

GAP = "gap"
"""The kind of these events in their ids, `gap:3`."""


def gap_count(timeline: Timeline) -> int:
    """Return how many gaps without any GPU operation the profile has, of all devices."""
    return sum(map(len, gap_times(timeline.whole, "no_op")))


def gap_id(number: int) -> str | None:
    """Return the id of the gap with a number; None for MISSING."""
    return None if number == MISSING else f"{GAP}:{number}"


def gap_numbers(timeline: Timeline, found: Gaps) -> Array:
    """Return the number of the profile's gap in which each of these gaps lies, from 1.

    A slice may cut a gap: what is left of it lies in it. MISSING for a gap that lies in none: before the
    device's first operation, after its last, where the slice leaves operations out, and for gaps of other
    kinds.
    """
    result = np.full(len(found), MISSING, np.int64)
    if found.kind != "no_op":
        return result
    for first, whole in _numbered(timeline):
        if whole.device == found.device and len(whole):
            place = np.searchsorted(whole.start, found.start, side="right") - 1
            inside = (place >= 0) & (found.end <= whole.end[place])
            result[inside] = first + place[inside]
    return result


def gap_of_number(timeline: Timeline, number: int) -> Gaps:
    """Return the profile's gap with that number, alone; it is one of `gap_count`."""
    found = iter(gaps(timeline.whole, "no_op"))
    for first, whole in _numbered(timeline):
        mine = next(found)
        if number < first + len(whole):
            return mine.take(slice(number - first, number - first + 1))
    raise IndexError(number)


def _numbered(timeline: Timeline) -> Iterator[tuple[int, Gaps]]:
    # The gaps of each device with the number of the first of them.
    first = 1
    for whole in gap_times(timeline.whole, "no_op"):
        yield first, whole
        first += len(whole)
