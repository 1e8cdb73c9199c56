"""Which intervals lie in groups of other intervals, and in how many of each.

Neither time nor memory grows with how deep the members of one group lie in each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nsysconv.timeline.intervals import union
from nsysconv.timeline.nesting import enumerated

Array = np.ndarray

# Pairs of a group and what lies in it are gathered so many at a time, and each group as a whole.
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Held:
    """Pairs of a group and the place of an interval that lies in members of it, no pair twice.

    `around` counts these members. Of intervals of one label, `fresh` counts those members in which no
    other of the label begins earlier: over a group and a label it adds up to the members that hold any.
    """

    group: Array
    item: Array
    around: Array
    fresh: Array


def held(
    groups: Array, starts: Array, ends: Array, start: Array, end: Array, label: Array
) -> Iterator[Held]:
    """The groups, given by their members, that hold intervals from `start` to `end`; some at a time."""
    members = _Members(groups, starts, ends)
    before, told = _earlier(start, end, label)
    order, windows = _windows(groups, starts, ends, start, end)
    for low, high in _batches(*windows):
        group, first, size = (column[low:high] for column in windows)
        which, place = enumerated(first, size)
        item, mine = order[place], group[which]
        around, later = members.around(mine, start[item], end[item], before[item])
        yield Held(mine, item, around, np.where(told[item], later, 0))


def _windows(
    groups: Array, starts: Array, ends: Array, start: Array, end: Array
) -> tuple[Array, tuple[Array, Array, Array]]:
    """An order of the intervals; and windows of it by their groups: group, first place and size."""
    rest = np.lexsort((end, start))
    chains, parts, before = [], [], 0
    # Of intervals that follow each other with their starts and their ends, what lies in a member is
    # one window. Mostly all of them do.
    while len(rest):
        follows = end[rest] >= np.maximum.accumulate(end[rest])
        chain, rest = rest[follows], rest[~follows]
        low = np.searchsorted(start[chain], starts, side="left")
        high = np.searchsorted(end[chain], ends, side="right")
        some = high > low
        shift = groups[some] * (len(chain) + 1)
        found = union(low[some] + shift, high[some] + shift)
        group, first = np.divmod(found.starts, len(chain) + 1)
        parts.append((group, first + before, found.ends - found.starts))
        chains.append(chain)
        before += len(chain)
    if not parts:
        return rest, (rest, rest, rest)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    at = np.argsort(columns[0], kind="stable")
    group, first, size = (column[at] for column in columns)
    return np.concatenate(chains), (group, first, size)


def _batches(group: Array, first: Array, size: Array) -> Iterator[tuple[int, int]]:
    """Runs of windows of whole groups, not many more than are gathered at a time."""
    edges = (
        np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1]))) if len(group) else group
    )
    until = np.append(edges[1:], len(group))
    total = np.concatenate(([0], np.cumsum(size)))[until] if len(group) else group
    at, done = 0, 0
    while at < len(edges):
        following = max(int(np.searchsorted(total, done + _AT_ONCE, side="right")), at + 1)
        yield int(edges[at]), int(until[following - 1])
        at, done = following, int(total[following - 1])


def _earlier(start: Array, end: Array, label: Array) -> tuple[Array, Array]:
    """Per interval the last earlier start of one of its label, and whether it counts.

    None does that has another of its label inside: what holds it, holds that one, too.
    """
    order = np.lexsort((end, start, label))
    told = np.zeros(len(start), bool)
    before = np.full(len(start), np.iinfo(np.int64).min)
    # The least end of those that follow, label by label: ends as ranks, above those of later labels.
    rank = np.unique(end, return_inverse=True)[1].reshape(-1)[order]
    key = rank + label[order] * (len(start) + 1)
    least = np.minimum.accumulate(key[::-1])[::-1]
    inner = np.append(key[:-1] < least[1:], True) if len(key) else np.empty(0, bool)
    kept = order[inner]
    told[kept] = True
    same = label[kept[1:]] == label[kept[:-1]]
    before[kept[1:][same]] = start[kept[:-1][same]]
    return before, told


class _Members:
    """Members of groups, to be counted by where they begin and end: a wavelet matrix of their ends."""

    def __init__(self, groups: Array, starts: Array, ends: Array) -> None:
        self._starts, self._ends = np.unique(starts), np.unique(ends)
        self._stride = len(self._starts) + 1
        key = groups * self._stride + np.searchsorted(self._starts, starts)
        order = np.argsort(key, kind="stable")
        self._key = key[order]
        value = np.searchsorted(self._ends, ends[order])
        self._levels: list[tuple[int, Array]] = []
        for bit in reversed(range(len(self._ends).bit_length())):
            one = (value >> bit & 1).astype(bool)
            zeros = np.concatenate(([0], np.cumsum(~one)))
            self._levels.append((bit, zeros))
            value = np.concatenate((value[~one], value[one]))

    def around(self, group: Array, start: Array, end: Array, after: Array) -> tuple[Array, Array]:
        """Of each group's members how many hold [start, end), and of these begin after `after`."""
        least = np.searchsorted(self._ends, end, side="left")
        until, low = self._begun(group, start), self._begun(group, after)
        begin = np.searchsorted(self._key, group * self._stride)
        early = self._ending_before(least, begin, low)
        late = self._ending_before(least, low, until)
        return until - begin - early - late, until - low - late

    def _begun(self, group: Array, moment: Array) -> Array:
        """Where, among the members, those of each group that begin by then end."""
        rank = np.searchsorted(self._starts, moment, side="right")
        return np.searchsorted(self._key, group * self._stride + rank)

    def _ending_before(self, least: Array, low: Array, high: Array) -> Array:
        """How many of the places from low to high have an end of a lower rank."""
        result = np.zeros(len(least), np.int64)
        for bit, zeros in self._levels:
            zeros_low, zeros_high = zeros[low], zeros[high]
            one = (least >> bit & 1).astype(bool)
            result += np.where(one, zeros_high - zeros_low, 0)
            low = np.where(one, zeros[-1] + low - zeros_low, zeros_low)
            high = np.where(one, zeros[-1] + high - zeros_high, zeros_high)
        return result
