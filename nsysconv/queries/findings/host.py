"""Rules on the host: it launches late, launches much, waits often, loads data; others are at work."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysconv.cache import cached_in
from nsysconv.names import shorten
from nsysconv.queries.findings.contract import Found, Measure, Scene, counted, uncovered
from nsysconv.report import MISSING, Unit, human
from nsysconv.timeline.account import op_name
from nsysconv.timeline.annotations import operators, ranges, which_named
from nsysconv.timeline.arrays import Array, among, blocks, distinct, factorize, sums, take
from nsysconv.timeline.events import OpKind, Spans, event_id
from nsysconv.timeline.idle import (
    PARTS,
    Gaps,
    HostActivity,
    drop_threadless_host_parts,
    host_activity,
    parts,
)
from nsysconv.timeline.intervals import Union, measure, union, union_with
from nsysconv.timeline.range_names import GROUPED
from nsysconv.timeline.steps import DATA_LOADER

WAITS = re.compile(
    r"cuda(?:Device|Stream|Thread|Event)Synchronize|cu(?:Ctx|Stream|Event)Synchronize"
    r"|hip(?:Device|Stream|Ctx|Event)Synchronize"
)
SYNCHRONOUS_COPIES = re.compile(r"(?:cuda|cu|hip)Memcpy(?!.*Async)(?!Batch)")
_HOST, _LAUNCH, _QUEUE = (PARTS.index(name) for name in ("host", "launch", "queue"))
_SHORT_GAP_NS = 200_000
_SHORT_KERNEL_NS = 20_000
_MOST_GAPS = 100_000
_SMALL_COPY_BYTES = 65_536
_DTOH = 2
_NAME = 36


@cached_in("measured")
def launch_bound(scene: Scene) -> Found | None:
    """Measure the idle time of host and launches in gaps below 200 µs, where kernels are short."""
    kernels = scene.ops.dur[scene.ops.kind == OpKind.KERNEL]
    if not len(kernels) or scene.gaps is None:
        return None
    mean = float(kernels.mean())
    if mean >= _SHORT_KERNEL_NS:
        return None
    time = count = 0
    most, event = 0, None
    for block in blocks(len(scene.gaps)):
        short = scene.gaps.take(block)
        short = short.take(np.flatnonzero(short.dur < _SHORT_GAP_NS))
        waited = parts(scene.timeline, short)[[_HOST, _LAUNCH]].sum(axis=0)
        time += int(waited.sum())
        count += int(np.count_nonzero(waited))
        if waited.max(initial=0) > most:
            most = int(waited.max())
            event = scene.timeline.ops.event_id(int(short.ended_by[waited.argmax()]))
    details = {"mean_kernel": human(mean, Unit.NS), "gaps": counted(count, "gap", "gaps")}
    return Found(scene.of_window(time), time, details, event=event)


def host_bound(scene: Scene) -> Found | None:
    """Measure the host parts of gaps in which the launching thread was in no API call.

    What other rules say is left out: gaps below 200 µs where `launch_bound` speaks, and the time of the
    data loader where `data_loader` does.
    """
    if scene.gaps is None:
        return None
    found = drop_threadless_host_parts(scene.timeline, scene.gaps)
    if scene.speaks("launch_bound", launch_bound(scene)):
        found = found.take(np.flatnonzero(found.dur >= _SHORT_GAP_NS))
    # Of one sentence a number of an operator's call is no use, however tables name ranges.
    activity = host_activity(scene.timeline, GROUPED)
    time = max(activity.outside_calls(found) - _loading_time(scene, found), 0)
    measured = Found(scene.of_window(time), time)
    if not scene.speaks("host_bound", measured):
        return measured
    details = {"doing": _doing(activity, found)}
    return replace(
        measured, details=details, **costliest_gap(scene, found, found.host_end - found.start)
    )


def _doing(activity: HostActivity, found: Gaps) -> str:
    # What the host did most of the time in the longest gaps, but in calls and for input, as a clause.
    if len(found) > _MOST_GAPS:
        found = found.take(np.sort(np.argpartition(-found.dur, _MOST_GAPS)[:_MOST_GAPS]))
    by_name: dict[tuple[str, str], int] = {}
    for pieces in activity.split(found):
        group, (labels,) = factorize(pieces.label)
        spent = sums(group, pieces.time, len(labels))
        for label, time in zip(labels.tolist(), spent.tolist(), strict=True):
            kind, name = activity.name(label)
            if kind != "api_call" and not DATA_LOADER.search(name):
                by_name[kind, name] = by_name.get((kind, name), 0) + time
    if not by_name:
        return ""
    kind, name = max(by_name, key=lambda key: by_name[key])
    if kind == "outside":
        return "; mostly in nothing that is recorded"
    return f"; above all in the {kind.replace('_', ' ')} {shorten(name, _NAME)}"


def _loading_time(scene: Scene, found: Gaps) -> int:
    # How much of the host parts the data loader takes, where it takes enough to be said.
    loader = _loader(scene)
    if not len(loader.starts) or not scene.speaks("data_loader", data_loader(scene)):
        return 0
    return int(loader.covered(found.start, found.host_end).sum())


def costliest_gap(scene: Scene, found: Gaps, cost: Array) -> dict[str, Any]:
    """Return where the gap is that costs most: the operations around it, and its stream."""
    if not len(found):
        return {}
    top = int(cost.argmax())
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


def gaps_after(scene: Scene, waits: Array) -> GapsAfterWaits:
    """Return the gaps that began while the host was in one of these calls."""
    found = scene.gaps
    if found is None or not len(waits):
        return GapsAfterWaits(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))
    waiting = scene.calls_at(waits)
    places, cost = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    outlasts = [np.empty(0, np.bool_)]
    for block in blocks(len(found)):
        start = found.start[block]
        place = np.searchsorted(waiting.starts, start, side="right") - 1
        # A window begins with no gap, a slice may: nothing ran before.
        began = (place >= 0) & (waiting.ends.take(place) > start) & (start > scene.window.start)
        here = np.flatnonzero(began)
        place = place.take(here)
        waited = waiting.ends.take(place) - waiting.starts.take(place)
        places.append(here + block.start)
        end = found.end[block].take(here)
        cost.append(np.minimum(end - start.take(here), waited))
        outlasts.append(end >= waiting.ends.take(place))
    return GapsAfterWaits(np.concatenate(places), np.concatenate(cost), np.concatenate(outlasts))


def sync_each_kernel(scene: Scene) -> Found | None:
    """Measure the gaps that began while the host waited for the device, and outlasted it, by kernel."""
    waits = scene.calls_named(WAITS.match)
    after = gaps_after(scene, waits)
    places, cost = after.places[after.outlasts], after.cost[after.outlasts]
    kernels = int(np.count_nonzero(scene.ops.kind == OpKind.KERNEL))
    if not kernels or scene.gaps is None:
        return None
    details = {
        "kernels": counted(kernels, "kernel", "kernels"),
        "count": counted(len(places), "gap", "gaps"),
        "calls": scene.names_of(waits),
    }
    where = costliest_gap(scene, scene.gaps.take(places), cost)
    return Found(len(places) / kernels, int(cost.sum()), details, **where)


def sync_small_copies(scene: Scene) -> Found | None:
    """Measure the gaps that began as a small copy to the host ended which the host waited for."""
    waits = scene.calls_named(lambda name: WAITS.match(name) or SYNCHRONOUS_COPIES.match(name))
    after = gaps_after(scene, waits)
    copies = scene.ops.take(scene.ops.kind == OpKind.MEMCPY)
    column = scene.timeline.profile.columns("memcpy", ("direction", "bytes"))
    size, direction = column["bytes"][copies.row], column["direction"][copies.row]
    small = (direction == _DTOH) & (size >= 0) & (size <= _SMALL_COPY_BYTES)
    ended = np.sort(copies.end[small])
    if scene.gaps is None or not len(ended):
        return None
    fitting = np.flatnonzero(among(scene.gaps.start[after.places], ended))
    cost = after.cost[fitting]
    time = int(cost.sum())
    return Found(
        scene.of_window(time),
        time,
        {"count": counted(len(fitting), "time", "times")},
        **costliest_gap(scene, scene.gaps.take(after.places[fitting]), cost),
    )


def queue_wait(scene: Scene) -> Found | None:
    """Measure the idle time in which the next operation had been launched."""
    time = scene.times["idle_queue"]
    measured = Found(scene.of_window(time), time)
    if scene.gaps is None or not scene.speaks("queue_wait", measured):
        return measured
    cost = parts(scene.timeline, scene.gaps)[_QUEUE]
    return replace(measured, **costliest_gap(scene, scene.gaps, cost))


def idle_unknown(scene: Scene) -> Found | None:
    """Measure the idle time of which no cause is recorded."""
    time = scene.times["idle_unknown"]
    where = {} if scene.gaps is None else costliest_gap(scene, scene.gaps, scene.gaps.dur)
    return Found(scene.of_window(time), time, **where)


@cached_in("measured")
def data_loader(scene: Scene) -> Found | None:
    """Measure the idle time in the window while the program waited for its data loader."""
    loading = _loader(scene)
    low, high = scene.window.start, scene.window.end
    time = uncovered(loading, scene.busy, low, high)
    inside = int(np.count_nonzero((loading.starts < high) & (loading.ends > low)))
    count = counted(inside, "time", "times")
    return Found(scene.of_window(time), time, {"count": count}, event=_longest_load(scene))


def _loader(scene: Scene) -> Union:
    # When the program waited for its data loader.
    loads = list(_loads(scene).values())
    starts, ends = ([getattr(each, name) for each in loads] for name in ("start", "end"))
    return union(np.concatenate(starts), np.concatenate(ends))


@cached_in("measured")
def _loads(scene: Scene) -> dict[str, Spans]:
    # The ranges and operators that wait for input, by their kind.
    pids = scene.timeline.pids_on(scene.device)
    kinds = {"range": ranges(scene.timeline), "operator": operators(scene.timeline)}
    return {
        kind: spans.take(which_named(spans, DATA_LOADER.search) & np.isin(spans.pid, pids))
        for kind, spans in kinds.items()
    }


def _longest_load(scene: Scene) -> str | None:
    longest, event = -1, None
    for kind, spans in _loads(scene).items():
        dur = spans.end - spans.start
        if dur.max(initial=-1) > longest:
            longest, event = int(dur.max()), event_id(kind, int(spans.row[dur.argmax()]))
    return event


def profiler_overhead(scene: Scene) -> Found | None:
    """Measure the idle time in the window in which the profiler itself was at work."""
    low, high = scene.window.start, scene.window.end
    at_work = union(np.empty(0, np.int64), np.empty(0, np.int64))
    for pid in scene.timeline.pids_on(scene.device).tolist():
        if pid in scene.timeline.overhead:
            own = scene.timeline.overhead[pid]
            at_work = union_with(at_work, own.starts, own.ends)
    time = uncovered(at_work, scene.busy, low, high)
    return Found(scene.of_window(time), time, {})


def shared_gpu(scene: Scene) -> Found | None:
    """Measure the time in which another process than the one with most operations used the device."""
    pids = distinct(scene.ops.pid)
    if len(pids) < 2:
        return None
    low, high = scene.window.start, scene.window.end
    times = []
    for pid in pids.tolist():
        mine = scene.ops.pid == pid
        times.append(union(take(scene.ops.start, mine), take(scene.ops.end, mine)).measure)
    largest = pids[int(np.argmax(times))]
    others = scene.ops.pid != largest
    time = measure(scene.ops.start, scene.ops.end, low, high, others)
    event = scene.longest_op(others)
    return Found(scene.of_window(time), time, {"process_count": len(pids)}, event=event)


RULES: dict[str, Measure] = {
    "launch_bound": launch_bound,
    "host_bound": host_bound,
    "sync_each_kernel": sync_each_kernel,
    "sync_small_copies": sync_small_copies,
    "queue_wait": queue_wait,
    "idle_unknown": idle_unknown,
    "data_loader": data_loader,
    "profiler_overhead": profiler_overhead,
    "shared_gpu": shared_gpu,
}
