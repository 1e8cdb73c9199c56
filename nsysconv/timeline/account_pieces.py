"""The time account of a device as pieces: from when until when it was in which class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.account import IDLE_CLASSES, OPERATION_CLASSES, operation_classes
from nsysconv.timeline.arrays import Array, Columns, blocks
from nsysconv.timeline.idle import PARTS, Gaps, launched, parts, window
from nsysconv.timeline.intervals import Union, difference, union, union_with
from nsysconv.timeline.timeline import Timeline, cached
from nsysconv.timeline.windows import Window

PIECE_CLASSES = (*OPERATION_CLASSES, *IDLE_CLASSES)
"""The classes of pieces: those of the account inside a device's window."""

_HOST, _PROFILER = PARTS.index("host"), PARTS.index("profiler")
_IN_TIME = ("host", "launch", "queue", "migration", "unknown", "end")
"""The parts of a gap in the order of time; the profiler's lies in the host's."""


@dataclass(frozen=True)
class AccountPieces(Columns):
    """What a device did, in the order of time: pieces that do not overlap and fill its window.

    `place` is the class of each, as a place in PIECE_CLASSES; `gap` the place of the gap that it is a
    part of, MISSING for operations. A piece of operations lasts as long as any of its class runs, and
    none of a class before it.
    """

    start: Array
    end: Array
    place: Array
    gap: Array


def account_pieces(timeline: Timeline, device: int, found: Gaps | None) -> Iterator[AccountPieces]:
    """Yield the account of a device as pieces, some at a time, in the order of time.

    `found` are its gaps without any operation; all pieces of a gap are in one part.
    """
    of_classes = _classes(timeline, device)
    at = [0] * len(of_classes)
    parts_of = list(blocks(0 if found is None else len(found))) or [slice(0, 0)]
    for number, block in enumerate(parts_of):
        # Operations until the first gap of the next part: none of them reaches into a gap.
        until = None
        if found is not None and number + 1 < len(parts_of):
            until = int(found.start[parts_of[number + 1].start])
        made = []
        for i, (place, alone) in enumerate(of_classes):
            past = len(alone.starts) if until is None else int(np.searchsorted(alone.starts, until))
            here = slice(at[i], past)
            gap = np.full(past - at[i], MISSING)
            made.append(_pieces(alone.starts[here], alone.ends[here], place, gap))
            at[i] = past
        if found is not None:
            made += _idle(timeline, found.take(block), block.start)
        pieces = concatenated(made)
        yield pieces.take(np.argsort(pieces.start, kind="stable"))


def concatenated(made: Sequence[AccountPieces]) -> AccountPieces:
    """Return pieces of several parts as one."""
    empty = np.empty(0, np.int64)
    names = ("start", "end", "place", "gap")
    columns = (np.concatenate([empty, *(getattr(each, name) for each in made)]) for name in names)
    return AccountPieces(*columns)


@cached
def _classes(timeline: Timeline, device: int) -> list[tuple[int, Union]]:
    # Kept: pieces and tiles of the account are made at the same time, and each would hold its own.
    within = window(timeline, device, timeline.ops_on(device))
    return [] if within is None else list(_operations(timeline, device, within))


def _operations(timeline: Timeline, device: int, within: Window) -> Iterator[tuple[int, Union]]:
    # By class when any of its operations ran and none of a class before it.
    ops, place = timeline.ops_on(device), operation_classes(timeline, device)
    there = [n for n in range(len(OPERATION_CLASSES)) if ((place == n) & ops.timed).any()]
    before: Union | None = None
    for number in there:
        mine = within.inside(union(ops.start, ops.end, (place == number) & ops.timed))
        yield number, mine if before is None else difference(mine, before)
        if number != there[-1]:  # or else nobody asks what ran before
            before = mine if before is None else union_with(before, mine.starts, mine.ends)


def _idle(timeline: Timeline, found: Gaps, first: int) -> Iterator[AccountPieces]:
    # `first` is the place of the first of these gaps.
    spent, edge = parts(timeline, found), found.start
    for part in _IN_TIME:
        of_part = PARTS.index(part)
        length = spent[of_part] + (spent[_PROFILER] if of_part == _HOST else 0)
        which = np.flatnonzero(length)
        begun, over = edge[which], (edge + length)[which]
        edge = edge + length
        if of_part == _HOST and spent[_PROFILER].any():
            yield from _host(timeline, found, spent, first)
        else:
            yield _pieces(begun, over, len(OPERATION_CLASSES) + of_part, which + first)


def _host(timeline: Timeline, found: Gaps, spent: Array, first: int) -> Iterator[AccountPieces]:
    # The host parts of gaps, in some of which the profiler was at work.
    pids = timeline.calls.pid.take(launched(timeline, found)[0])
    free = (spent[_PROFILER] == 0) & (spent[_HOST] > 0)
    which = np.flatnonzero(free)
    of_host = len(OPERATION_CLASSES) + _HOST
    yield _pieces(found.start[which], found.host_end[which], of_host, which + first)
    for pid, at_work in timeline.overhead.items():
        mine = found.take(np.flatnonzero((spent[_PROFILER] > 0) & (pids == pid)))
        whole = Union(mine.start, mine.host_end)
        rest = difference(whole, at_work)
        for part, one in ((_HOST, rest), (_PROFILER, difference(whole, rest))):
            gap = np.searchsorted(found.start, one.starts, side="right") - 1
            yield _pieces(one.starts, one.ends, len(OPERATION_CLASSES) + part, gap + first)


def _pieces(start: Array, end: Array, place: int, gap: Array) -> AccountPieces:
    return AccountPieces(start, end, np.full(len(start), place), gap)
