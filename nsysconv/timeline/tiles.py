"""Events of one lane in rows that do not overlap, and as tiles: what they were in equal parts of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, Columns, blocks, factorize, sums
from nsysconv.timeline.intervals import expand_ranges

NO_ROW = -1


class Rows:
    """The rows of a lane, to which its events are given some at a time, in the order of their starts."""

    def __init__(self, most: int) -> None:
        """Start without rows; there are `most` of them at most."""
        self._most = most
        self._ends: list[int] = []

    def fit(self, start: Array, end: Array) -> Array:
        """Return the row of each event, from 0: the first in which it overlaps none before it.

        What has no room in any has NO_ROW.
        """
        row = np.full(len(start), NO_ROW, np.int8)
        rest = np.arange(len(start), dtype=np.int32)
        for number in range(self._most):
            if not len(rest):
                break
            if number == len(self._ends):
                self._ends.append(MISSING)
            starts, ends = start[rest], end[rest]
            taken = _chain(starts, ends, self._ends[number])
            row[rest[taken]] = number
            self._ends[number] = int(ends[taken].max(initial=self._ends[number]))
            rest = rest[~taken]
        return row


def _chain(start: Array, end: Array, reach: int) -> Array:
    # The mask is true for events that fit in a row which is full until `reach`: each begins after the
    # one before it in the row.
    reaches = np.maximum.accumulate(np.append(reach, end))
    inside = start < reaches[:-1]
    if not (inside & (end > reaches[:-1])).any():
        return ~inside  # they nest: those that lie in no other
    following = np.maximum(np.searchsorted(start, end), np.arange(1, len(start) + 1))
    taken = np.zeros(len(start), bool)
    at = int(np.searchsorted(start, reach))
    for block in blocks(len(start)):
        steps, first, found = following[block].tolist(), block.start, []
        while at < block.stop:
            found.append(at)
            at = steps[at - first]
        taken[found] = True
    return taken


@dataclass(frozen=True)
class Tiles(Columns):
    """What happened in equal parts of the time, by label: one entry per tile and label that occurs in it.

    `time` is how long events of the label ran in the tile, and `count` how many of them began in it.
    Sorted by (tile, label).
    """

    tile: Array
    label: Array
    time: Array
    count: Array


_NO_TILES = Tiles(*(np.empty(0, kind) for kind in (np.int32, np.int32, np.int64, np.int32)))


def cut_into_tiles(
    start: Array, end: Array, label: Array, extent: tuple[int, int], width: int
) -> Tiles:
    """Return events that do not overlap as tiles of `width` ns from the start of an extent to its end.

    The events are in the order of their starts, and all in the extent; what begins as it ends, which has
    no length, is in the last tile.
    """
    return joined(
        [
            _cut(start[block], end[block], label[block], extent, width)
            for block in blocks(len(start))
        ]
    )


def joined(parts: Sequence[Tiles]) -> Tiles:
    """Return tiles of several parts of a lane's events, which follow each other in time, as one.

    In the tile where a part ends, the next may begin.
    """
    whole: list[Tiles] = []
    for part in parts:
        if not len(part):
            continue
        if whole and whole[-1].tile[-1] == part.tile[0]:
            last = whole.pop()
            cut = int(np.searchsorted(last.tile, part.tile[0]))
            end = int(np.searchsorted(part.tile, part.tile[0], side="right"))
            both = _concatenated([last.take(slice(cut, None)), part.take(slice(end))])
            whole += [last.take(slice(cut)), _summed(both.tile, both.label, both.time, both.count)]
            part = part.take(slice(end, None))
        whole += [part] if len(part) else []
    return _concatenated(whole)


def _concatenated(parts: Sequence[Tiles]) -> Tiles:
    columns = zip(*(vars(part).values() for part in (*parts, _NO_TILES)), strict=True)
    return Tiles(*map(np.concatenate, columns))


def _cut(start: Array, end: Array, label: Array, extent: tuple[int, int], width: int) -> Tiles:
    first, last = extent
    low = (np.minimum(start, last - 1) - first) // width
    high = np.maximum((end - 1 - first) // width, low)
    event, tile = expand_ranges(low, high - low + 1)
    edge = first + tile * width
    begun, ended = np.maximum(start[event], edge), np.minimum(end[event], edge + width)
    time = np.maximum(ended - begun, 0)
    return _summed(tile, label[event], time, (tile == low[event]).astype(np.int64))


def _summed(tile: Array, label: Array, time: Array, count: Array) -> Tiles:
    number, (tiles, labels) = factorize(tile, label)
    counted = sums(number, count, len(tiles)).astype(np.int32)
    # There may be nearly as many as events.
    return Tiles(
        tiles.astype(np.int32), labels.astype(np.int32), sums(number, time, len(tiles)), counted
    )


def coarser(tiles: Tiles, factor: int) -> Tiles:
    """Return tiles `factor` times as wide."""
    return _summed(tiles.tile // factor, tiles.label, tiles.time, tiles.count)


def dominating(tiles: Tiles) -> tuple[Tiles, Array, Array]:
    """Return, per tile, the entry of the label with most time, and the time and count of all labels.

    If labels have the same time, the one with more begun events counts, then the first.
    """
    first = np.flatnonzero(np.diff(tiles.tile, prepend=-1))
    if not len(first):
        return tiles, tiles.time, tiles.count
    size = np.diff(first, append=len(tiles))
    longest = tiles.time == np.repeat(np.maximum.reduceat(tiles.time, first), size)
    count = np.where(longest, tiles.count, -1)
    best = np.flatnonzero(count == np.repeat(np.maximum.reduceat(count, first), size))
    best = best[np.flatnonzero(np.diff(tiles.tile[best], prepend=-1))]
    count = tiles.count.astype(np.int64)
    total = np.add.reduceat(tiles.time, first), np.add.reduceat(count, first)
    return tiles.take(best), *total
