"""Rules on copies: alone on the device, from pageable memory, waited for, too many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from nsysconv.codes import DIRECTIONS, MEMORY_KINDS
from nsysconv.names import called
from nsysconv.queries.columns import direction_names, memory_kind_names
from nsysconv.queries.findings.contract import (
    NAMES_CALL,
    Found,
    Scene,
    counted,
    remaining,
    uncovered,
)
from nsysconv.queries.findings.waits import after_waits, gaps_after
from nsysconv.report import Unit, human
from nsysconv.timeline.arrays import Array, among, blocks, distinct, take
from nsysconv.timeline.events import GpuOps, OpKind
from nsysconv.timeline.idle import Gaps
from nsysconv.timeline.intervals import Union, longest, union, union_with, united

_WITH_THE_HOST = np.array([DIRECTIONS.index("HtoD"), DIRECTIONS.index("DtoH")])
_ON_THE_DEVICE = DIRECTIONS.index("DtoD")
_PAGEABLE = MEMORY_KINDS.index("Pageable")
_SMALL_BYTES = 4096
_FEWEST_SMALL = 100


def _largest(copies: GpuOps, column: Mapping[str, Array], which: Array) -> tuple[str, str]:
    # The words name the direction with most time of these copies, its bytes, its rate and its kind of
    # memory. With them comes the case of the advice.
    if not which.any():
        return "", ""
    direction = column["direction"]
    directions = distinct(take(direction, which))
    dur = copies.dur
    spent = [int(dur[which & (direction == d)].sum()) for d in directions.tolist()]
    top = int(directions[int(np.argmax(spent))])
    mine = which & (direction == top)
    moved, took = int(np.maximum(column["bytes"][mine], 0).sum()), max(spent)
    name = direction_names(np.array([top]))[0]
    kinds = column["src_kind" if name.startswith("H") else "dst_kind"][mine]
    known = [kind for kind in memory_kind_names(distinct(kinds)) if kind]
    memory = f", {known[0].lower()} memory" if len(known) == 1 and name in ("HtoD", "DtoH") else ""
    rate = f" at {human(moved * 1e9 / took, Unit.BYTES_PER_S)}" if took else ""
    case = "device" if top == _ON_THE_DEVICE else ""
    return f"; most of it {human(moved, Unit.BYTES)} {name}{rate}{memory}", case


def _without_kernel(scene: Scene, ops: GpuOps, which: Array) -> Union:
    # When one of these operations ran in the window, and no kernel.
    running = union(ops.start, ops.end, which)
    return remaining(running, scene.computing, scene.window)


def _time_without_kernel(scene: Scene, ops: GpuOps, which: Array) -> int:
    running = union(ops.start, ops.end, which)
    return uncovered(running, scene.computing, scene.window)


def _longest(ops: GpuOps, which: Array) -> str | None:
    best = longest(ops.start, ops.end, which)
    return None if best is None else ops.event_id(best)


def copy_bound(scene: Scene) -> Found | None:
    """Measure exposed copies and memsets."""
    time = scene.times["memcpy"] + scene.times["memset"]
    kinds = (scene.ops.kind == OpKind.MEMCPY) | (scene.ops.kind == OpKind.MEMSET)
    ops, column = scene.copies
    what, case = _largest(ops, column, np.ones(len(ops), bool))
    details, event = {"what": what}, scene.longest_op(kinds)

    def when() -> Union:
        running = union(scene.ops.start, scene.ops.end, kinds)
        return remaining(running, scene.computing, scene.span)

    return Found(scene.of_window(time), time, details, event=event, when=when, case=case)


def is_pageable(copies: Mapping[str, Array]) -> Array:
    """Return which copies are from or to pageable memory, of their columns, as a mask."""
    result: Array = (copies["src_kind"] == _PAGEABLE) | (copies["dst_kind"] == _PAGEABLE)
    return result


def pageable_copies(scene: Scene) -> Found | None:
    """Measure the time in which copies of pageable memory ran and no kernel."""
    ops, column = scene.copies
    pageable = is_pageable(column)
    when = partial(_without_kernel, scene, ops, pageable)
    time, count = _time_without_kernel(scene, ops, pageable), int(np.count_nonzero(pageable))
    what, _ = _largest(ops, column, pageable)
    details = {"count": counted(count, "copy", "copies"), "what": what}
    event = _longest(ops, pageable)
    share = scene.of_window(time)
    return Found(share, time, details, event=event, when=when, names=NAMES_CALL)


def synchronous_copies(scene: Scene) -> Found | None:
    """Measure copies by calls that wait for them, without a kernel, and the gaps that began in these.

    No call waits for a copy within the device.
    """
    which = scene.calls_named(called("blocking_copy"))
    column, of_copies = scene.copies[1], scene.owner[scene.ops.kind == OpKind.MEMCPY]
    which = which[~np.isin(which, of_copies[column["direction"] == _ON_THE_DEVICE])]
    if not len(which):
        return None
    # The mask is true for these calls. The extra last element represents operations without a call.
    waited_for = np.zeros(len(scene.timeline.calls) + 1, bool)
    waited_for[which] = True
    ops = scene.ops
    mine = ops.kind == OpKind.MEMCPY
    mine[mine] = waited_for.take(take(scene.owner, mine), mode="wrap")
    time = _time_without_kernel(scene, ops, mine)
    # A gap costs its wait at most, and of several in one wait all but the last lie inside it.
    most = time + 2 * scene.calls_at(which).measure
    if not scene.speaks("synchronous_copies", at_most := Found(scene.of_window(most), most)):
        return at_most
    time += gaps_after(scene, which).time
    count = counted(len(which), "copy", "copies")
    details = {"count": count, "calls": scene.names_of(which)}

    def when() -> Union:
        alone, after = _without_kernel(scene, ops, mine), after_waits(scene, which)
        return union_with(alone, after.starts, after.ends)

    event = _longest(ops, mine)
    return Found(scene.of_window(time), time, details, event=event, when=when, names=NAMES_CALL)


def small_copies(scene: Scene) -> Found | None:
    """Measure small copies from and to the host without a kernel beside them, and the gaps they make."""
    ops, column = scene.copies
    small = (column["bytes"] >= 0) & (column["bytes"] <= _SMALL_BYTES)
    small &= among(column["direction"], _WITH_THE_HOST)
    count = int(np.count_nonzero(small))
    if count < _FEWEST_SMALL or scene.gaps is None:
        return None
    gaps = scene.gaps

    def when() -> Union:
        alone = _without_kernel(scene, ops, small)
        own = united(_own_gaps(scene, gaps, take(ops.row, small)), len(gaps))
        return union_with(alone, own.starts, own.ends)

    own = (int((end - start).sum()) for start, end in _own_gaps(scene, gaps, take(ops.row, small)))
    time, event = _time_without_kernel(scene, ops, small) + sum(own), _longest(ops, small)
    details = {"count": counted(count, "copy", "copies")}
    return Found(scene.of_window(time), time, details, event=event, when=when, names=NAMES_CALL)


def _own_gaps(scene: Scene, gaps: Gaps, rows: Array) -> Iterator[tuple[Array, Array]]:
    # The parts of gaps after the call of the copy had begun that ended them, of copies at these rows of
    # their table: starts and ends, some at a time. What the host did before that call is not the copy's
    # doing.
    timeline = scene.timeline
    is_meant = np.zeros(timeline.profile.row_count("memcpy"), bool)
    is_meant[rows] = True
    for block in blocks(len(gaps)):
        found = gaps.take(block)
        found = found.take(np.flatnonzero(found.ended_by >= 0))
        kind, row = timeline.ops.kind[found.ended_by], timeline.ops.row[found.ended_by]
        owner = timeline.owner[found.ended_by]
        mine = np.flatnonzero((kind == OpKind.MEMCPY) & (owner >= 0))
        mine = mine[is_meant[row[mine]]]
        asked = timeline.calls.start[owner[mine]]
        yield np.clip(asked, found.start[mine], found.end[mine]), found.end[mine]
