"""Rules on waits: the host waits for each kernel or small copy, the GPU for what was launched before."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysconv.cache import cached_in
from nsysconv.queries.findings.contract import Found, Measure, Scene, counted
from nsysconv.report import MISSING
from nsysconv.timeline.account import op_name
from nsysconv.timeline.arrays import Array, among, blocks, search
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.idle import PARTS, Gaps, parts

WAITS = re.compile(
    r"cuda(?:Device|Stream|Thread|Event)Synchronize|cu(?:Ctx|Stream|Event)Synchronize"
    r"|hip(?:Device|Stream|Ctx|Event)Synchronize"
)
SYNCHRONOUS_COPIES = re.compile(r"(?:cuda|cu|hip)Memcpy(?!.*Async)(?!Batch)")
_QUEUE = PARTS.index("queue")
_SMALL_COPY_BYTES = 65_536
_DTOH = 2


def costliest_gap(
    scene: Scene, found: Gaps, cost: Array, places: Array | None = None
) -> dict[str, Any]:
    """Return where the gap is that costs most: the operations around it, and its stream.

    `places`: which of the gaps cost that, as indices; None: all.
    """
    if not len(cost):
        return {}
    top = int(cost.argmax()) if places is None else int(places[cost.argmax()])
    ended_by = int(found.ended_by[top])
    low = int(found.start[top])
    # No slice: what ends a gap, and so its cause, lies outside of it.
    where: dict[str, Any] = {}
    ops = scene.timeline.ops
    if ended_by >= 0:
        where["after"] = op_name(scene.timeline, ended_by)
        where["event"] = ops.event_id(ended_by)
        stream = int(ops.stream[ended_by])
        where["stream"] = None if stream == MISSING else stream
    here = np.flatnonzero((ops.device == scene.device) & (ops.end == low) & ops.timed)
    if len(here):
        where["before"] = op_name(scene.timeline, int(here[0]))
    return where


@dataclass(frozen=True)
class GapsAfterWaits:
    """The gaps that began while the host was in one of some calls, as indices, and what each costs.

    Without the wait the host would have gone on earlier by as long as it waited, at most: so much of a
    gap counts. `outlasts`: whether the gap ended after the wait; what ended another one had been
    launched before.
    """

    places: Array
    cost: Array
    outlasts: Array

    @property
    def time(self) -> int:
        """Return what all of them cost."""
        return int(self.cost.sum())


def gaps_after(scene: Scene, waits: Array, starts: Array | None = None) -> GapsAfterWaits:
    """Return the gaps that began while the host was in one of these calls.

    `starts`: only those that began at one of these moments, which are in order; None: at any.
    """
    found = scene.gaps
    if found is None or not len(waits):
        return GapsAfterWaits(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))
    waiting = scene.calls_at(waits)
    places, cost = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    outlasts = [np.empty(0, np.bool_)]
    for block in blocks(len(found)):
        start = found.start[block]
        # A window begins with no gap, a slice may: nothing ran before.
        may = start > scene.window.start
        if starts is not None:
            may &= among(start, starts)
        here = np.flatnonzero(may)
        place = search(waiting.starts, start.take(here), side="right") - 1
        began = (place >= 0) & (waiting.ends.take(place) > start.take(here))
        here, place = here[began], place[began]
        waited = waiting.ends.take(place) - waiting.starts.take(place)
        places.append(here + block.start)
        end = found.end[block].take(here)
        cost.append(np.minimum(end - start.take(here), waited))
        outlasts.append(end >= waiting.ends.take(place))
    return GapsAfterWaits(np.concatenate(places), np.concatenate(cost), np.concatenate(outlasts))


@cached_in("measured")
def sync_each_kernel(scene: Scene) -> Found | None:
    """Measure the gaps that began while the host waited for the device, and outlasted it, by kernel."""
    waits = scene.calls_named(WAITS.match)
    after = gaps_after(scene, waits)
    places, cost = after.places[after.outlasts], after.cost[after.outlasts]
    kernels = int(np.count_nonzero(scene.ops.kind == OpKind.KERNEL))
    if not kernels or scene.gaps is None:
        return None
    measured = Found(len(places) / kernels, int(cost.sum()))
    if not scene.speaks("sync_each_kernel", measured):
        return measured
    details = {
        "kernels": counted(kernels, "kernel", "kernels"),
        "count": counted(len(places), "gap", "gaps"),
        "calls": scene.names_of(waits),
    }
    return replace(measured, details=details, **costliest_gap(scene, scene.gaps, cost, places))


@cached_in("measured")
def sync_small_copies(scene: Scene) -> Found | None:
    """Measure the gaps that began as a small copy to the host ended which the host waited for."""
    copies = scene.ops.take(scene.ops.kind == OpKind.MEMCPY)
    column = scene.timeline.profile.columns("memcpy", ("direction", "bytes"))
    size, direction = column["bytes"][copies.row], column["direction"][copies.row]
    small = (direction == _DTOH) & (size >= 0) & (size <= _SMALL_COPY_BYTES)
    ended = np.sort(copies.end[small])
    if scene.gaps is None or not len(ended):
        return None
    waits = scene.calls_named(lambda name: WAITS.match(name) or SYNCHRONOUS_COPIES.match(name))
    after = gaps_after(scene, waits, ended)
    return Found(
        scene.of_window(after.time),
        after.time,
        {"count": counted(len(after.places), "time", "times")},
        **costliest_gap(scene, scene.gaps, after.cost, after.places),
    )


def queue_wait(scene: Scene) -> Found | None:
    """Measure the idle time in which the next operation had been launched."""
    time = scene.times["idle_queue"]
    measured = Found(scene.of_window(time), time)
    if scene.gaps is None or not scene.speaks("queue_wait", measured):
        return measured
    cost = parts(scene.timeline, scene.gaps)[_QUEUE]
    return replace(measured, **costliest_gap(scene, scene.gaps, cost))


RULES: dict[str, Measure] = {
    "sync_each_kernel": sync_each_kernel,
    "sync_small_copies": sync_small_copies,
    "queue_wait": queue_wait,
}
