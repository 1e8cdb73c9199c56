"""Rules on copies: alone on the device, from pageable memory, waited for, too many."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nsysconv.codes import MEMORY_KINDS
from nsysconv.names import called
from nsysconv.queries.columns import direction_names, memory_kind_names
from nsysconv.queries.findings.contract import Found, Measure, Scene, counted, uncovered
from nsysconv.queries.findings.waits import gaps_after
from nsysconv.report import Unit, human
from nsysconv.timeline.arrays import Array, distinct, places_of
from nsysconv.timeline.events import GpuOps, OpKind
from nsysconv.timeline.intervals import union

_PAGEABLE = MEMORY_KINDS.index("Pageable")
_SMALL_BYTES = 4096
_FEWEST_SMALL = 100


def _largest(ops: GpuOps, column: Mapping[str, Array]) -> str:
    # The words name the direction with most time, its bytes, its rate and its kind of memory.
    if not len(ops):
        return ""
    directions = distinct(column["direction"])
    spent = [int(ops.dur[column["direction"] == d].sum()) for d in directions.tolist()]
    top = int(directions[int(np.argmax(spent))])
    mine = column["direction"] == top
    moved, took = int(np.maximum(column["bytes"][mine], 0).sum()), max(spent)
    name = direction_names(np.array([top]))[0]
    kinds = column["src_kind" if name.startswith("H") else "dst_kind"][mine]
    known = [kind for kind in memory_kind_names(distinct(kinds)) if kind]
    memory = f", {known[0].lower()} memory" if len(known) == 1 and name in ("HtoD", "DtoH") else ""
    rate = f" at {human(moved * 1e9 / took, Unit.BYTES_PER_S)}" if took else ""
    return f"; most of it {human(moved, Unit.BYTES)} {name}{rate}{memory}"


def _longest(ops: GpuOps) -> str | None:
    return ops.event_id(int(ops.dur.argmax())) if len(ops) else None


def copy_bound(scene: Scene) -> Found | None:
    """Measure exposed copies and sets."""
    time = scene.times["memcpy"] + scene.times["memset"]
    kinds = (scene.ops.kind == OpKind.MEMCPY) | (scene.ops.kind == OpKind.MEMSET)
    details, event = {"what": _largest(*scene.copies)}, scene.longest_op(kinds)
    return Found(scene.of_window(time), time, details, event=event)


def pageable_copies(scene: Scene) -> Found | None:
    """Measure the time in which copies of pageable memory ran and no kernel."""
    ops, column = scene.copies
    pageable = (column["src_kind"] == _PAGEABLE) | (column["dst_kind"] == _PAGEABLE)
    mine = ops.take(pageable)
    time = uncovered(
        union(mine.start, mine.end), scene.computing, scene.window.start, scene.window.end
    )
    what = _largest(mine, {name: values[pageable] for name, values in column.items()})
    details = {"count": counted(len(mine), "copy", "copies"), "what": what}
    return Found(scene.of_window(time), time, details, event=_longest(mine))


def synchronous_copies(scene: Scene) -> Found | None:
    """Measure copies by calls that wait for them, without a kernel, and the gaps that began in these."""
    which = scene.calls_named(called("blocking_copy"))
    if not len(which):
        return None
    # The mask is true for these calls. The extra last element represents operations without a call.
    waited_for = np.zeros(len(scene.timeline.calls) + 1, bool)
    waited_for[which] = True
    copies = np.flatnonzero(scene.ops.kind == OpKind.MEMCPY)
    mine = scene.ops.take(copies[waited_for.take(scene.owner.take(copies), mode="wrap")])
    low, high = scene.window.start, scene.window.end
    time = uncovered(union(mine.start, mine.end), scene.computing, low, high)
    # A gap costs its wait at most, and of several in one wait all but the last lie inside it.
    most = time + 2 * scene.calls_at(which).measure
    if not scene.speaks("synchronous_copies", at_most := Found(scene.of_window(most), most)):
        return at_most
    time += gaps_after(scene, which).time
    count = counted(len(which), "copy", "copies")
    details = {"count": count, "calls": scene.names_of(which)}
    return Found(scene.of_window(time), time, details, event=_longest(mine))


def small_copies(scene: Scene) -> Found | None:
    """Measure small copies without a kernel beside them, and the gaps that they end."""
    ops, column = scene.copies
    small = (column["bytes"] >= 0) & (column["bytes"] <= _SMALL_BYTES)
    mine = ops.take(small)
    if len(mine) < _FEWEST_SMALL or scene.gaps is None:
        return None
    low, high = scene.window.start, scene.window.end
    time = uncovered(union(mine.start, mine.end), scene.computing, low, high)
    time += int(scene.gaps.take(places_of(mine.start, scene.gaps.end)).dur.sum())
    count = counted(len(mine), "copy", "copies")
    return Found(scene.of_window(time), time, {"count": count}, event=_longest(mine))


RULES: dict[str, Measure] = {
    "copy_bound": copy_bound,
    "pageable_copies": pageable_copies,
    "synchronous_copies": synchronous_copies,
    "small_copies": small_copies,
}
