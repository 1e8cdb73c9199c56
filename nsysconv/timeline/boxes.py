"""Operations as boxes, few enough to be drawn; and when one of two is busy and the other is not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.timeline.arrays import Array, Columns, counts
from nsysconv.timeline.intervals import Segments, Union, grouped_measure


@dataclass(frozen=True)
class Boxes(Columns):
    """Boxes by their starts, each of one interval, or of `count` short ones that lie close together.

    A box is from the first start to the last end; of that time `busy` is the union of its intervals.
    `longest` is the index of the longest of them.
    """

    start: Array
    end: Array
    busy: Array
    count: Array
    longest: Array


def boxes(start: Array, end: Array, most: int) -> Boxes:
    """Return intervals, given by their starts, as `most` boxes at most (1 or more).

    If they are too many, those shorter than a grain that begin in the same grain of time, one after the
    other, are one box; the grain is as small as that allows, to a factor of 2.
    """
    group = np.arange(len(start))
    if len(group) > most:
        grain = max(int(end.max() - start[0]) // (8 * most), 1)
        while (group := _grouped(start, end, grain))[-1] >= most:
            grain *= 2
    if not len(group):
        return Boxes(start, end, end - start, group, group)
    count = int(group[-1]) + 1
    first = np.searchsorted(group, np.arange(count))
    length = end - start
    longest = np.flatnonzero(length == np.maximum.reduceat(length, first)[group])
    longest = longest[np.searchsorted(group[longest], np.arange(count))]
    busy = grouped_measure(start, end, group, count)
    last_end = np.maximum.reduceat(end, first)
    return Boxes(start[first], last_end, busy, counts(group, count), longest)


def _grouped(start: Array, end: Array, grain: int) -> Array:
    # The result has the number of each interval's box, from 0.
    cell = (start - start[0]) // grain
    short = end - start < grain
    joins = short[1:] & short[:-1] & (cell[1:] == cell[:-1])
    return np.cumsum(np.append(False, ~joins))


ONE, OTHER = 0, 1
"""Labels of `busy_alone`."""


def busy_alone(one: Union, other: Union) -> Segments:
    """Return when just one of two unions covers the time, labeled ONE or OTHER."""
    edges = np.concatenate((one.starts, one.ends, other.starts, other.ends))
    # All four are sorted, which a stable sort makes use of.
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    # If several edges are at one moment, the state after the last of them counts.
    last = np.flatnonzero(np.append(edges[1:] != edges[:-1], True)) if len(edges) else order
    sizes = [len(each) for union in (one, other) for each in (union.starts, union.ends)]
    in_one, in_other = (
        np.cumsum(np.repeat(np.array(change, np.int8), sizes)[order], dtype=np.int8)[last]
        for change in ((1, -1, 0, 0), (0, 0, 1, -1))
    )
    moments, alone = edges[last], np.flatnonzero(in_one[:-1] != in_other[:-1])
    labels = np.where(in_one[alone] > 0, ONE, OTHER)
    return Segments(moments[alone], moments[alone + 1], labels)
