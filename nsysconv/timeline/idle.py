"""Gaps: when a device, its kernels or a stream did nothing, and why (docs/definitions/idle.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import (
    Array,
    Columns,
    among,
    blocks,
    distinct,
    factorize,
    indices,
    take,
)
from nsysconv.timeline.events import ApiCalls, GpuOps, OpKind
from nsysconv.timeline.intervals import Union, union
from nsysconv.timeline.timeline import Timeline, cached
from nsysconv.timeline.windows import Window

IDLE_KINDS = ("no_op", "no_kernel", "stream")
PARTS = ("host", "launch", "queue", "migration", "profiler", "unknown", "end")
"""The parts of a gap, in the order in which ties for its cause are decided."""

GAP = "gap"
"""The kind of gaps in their ids, `gap:3`."""

_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
_HOST, _LAUNCH, _QUEUE, _MIGRATION, _PROFILER, _UNKNOWN, _END = range(len(PARTS))


@dataclass(frozen=True)
class Gaps(Columns):
    """The gaps of one device and kind (and stream), in time order.

    `ended_by` is the index in Timeline.ops of the operation that starts at a gap's end, -1 for none.
    The host part of a gap, the profiler's share of it included, is [start, host_end).
    """

    device: int
    kind: str
    stream: tuple[int, int] | None
    start: Array
    end: Array
    ended_by: Array
    host_end: Array

    @property
    def dur(self) -> Array:
        """Return how long each gap is."""
        result: Array = self.end - self.start
        return result


def window(timeline: Timeline, device: int, ops: GpuOps) -> Window | None:
    """Return the window of a device: the slice's time in its processes, else that from the first of these
    operations to the last, migrations left out. None where there is no such operation with a time.
    """
    of_slice = None if timeline.is_whole else timeline.window(timeline.pids_on(device))
    if of_slice is not None:
        return of_slice
    counting = ops.timed & (ops.kind != OpKind.MIGRATION)
    if not counting.any():
        return None
    first = int(ops.start[np.argmax(counting)])  # they are sorted by start
    return Window(first, int(ops.end.max(where=counting, initial=MISSING)))


@cached
def in_use(timeline: Timeline, device: int) -> Union:
    """Return when an operation ran on a device."""
    ops = timeline.ops_on(device)
    return union(ops.start, ops.end)


@cached
def gaps(timeline: Timeline, kind: str) -> list[Gaps]:
    """Return the gaps of a kind, device by device (and stream by stream)."""
    found = list(_gaps(timeline, kind))
    if not any(map(len, found)):
        return found
    calls = timeline.calls
    return [replace(each, host_end=_host_ends(timeline, calls, each)) for each in found]


def gap_before(timeline: Timeline, op: int) -> Gaps | None:
    """Return the gap of its device at whose end an operation with a time starts; one of kind no_op.

    `ended_by` is the operation that counts of those that start then. None where there is no such gap: it
    is the first, others run until it starts, or nothing that starts then has a length.
    """
    ops, device = timeline.ops, int(timeline.ops.device[op])
    of_device = window(timeline, device, timeline.ops_on(device))
    start = int(ops.start[op])
    span = None if of_device is None else of_device.around(start)
    if span is None:
        return None
    first, past = (int(np.searchsorted(ops.start, start, side)) for side in _SIDES)
    here = ops.take(slice(0, past))
    mine = here.timed & (here.device == device)
    together = first + np.flatnonzero(mine[first:])
    # Only where a window ends an operation without length ends a gap; migrations after it do not.
    ends = here.end[together]
    together = together[ends == start] if start == span.end else together
    if not len(together) or (start < span.end and not (ends > start).any()):
        return None
    before = mine[:first] & (here.end[:first] > here.start[:first])
    low = max(int(here.end[:first].max(where=before, initial=MISSING)), span.start)
    if low >= start:
        return None
    begun, ended, ended_by = np.array([[low], [start], [together[0]]], np.int64)
    found = Gaps(device, "no_op", None, begun, ended, ended_by, host_end=begun)
    return replace(found, host_end=_host_ends(timeline, timeline.calls, found))


def drop_threadless_host_parts(timeline: Timeline, found: Gaps) -> Gaps:
    """Return the gaps; drop the host part of each gap that was ended by a call without a thread."""
    if all(tid != MISSING for _, tid in timeline.calls.threads):
        return found
    host = np.flatnonzero(found.host_end > found.start)
    known = timeline.calls.on_a_thread(launched(timeline, found.take(host))[0])
    host_end = found.host_end.copy()
    host_end[host[~known]] = found.start[host[~known]]
    return replace(found, host_end=host_end)


def _gaps(timeline: Timeline, kind: str) -> Iterator[Gaps]:
    # The gaps have no host parts yet, because calls are read only if there is a gap.
    ops = timeline.ops
    for device in timeline.devices:
        here = timeline.ops_on(device)
        places = timeline.places_on(device) if here is not ops else None
        if not here.timed.all():
            timed = indices(here.timed)
            here, places = here.take(timed), timed if places is None else places[timed]
        span = window(timeline, device, here)
        if span is None:
            continue
        half_open = timeline.window(here.pid) is not None
        for stream, members in _groups(timeline, device, here, kind):
            running = (
                in_use(timeline, device)
                if kind == "no_op"
                else union(here.start, here.end, members)
            )
            low, high = span.gaps(running)
            which = _enders(here, members, high, span, half_open)
            if places is not None:
                which[which >= 0] = places[which[which >= 0]]
            yield Gaps(device, kind, stream, low, high, which, host_end=low)


def _groups(
    timeline: Timeline, device: int, ops: GpuOps, kind: str
) -> Iterator[tuple[tuple[int, int] | None, Array]]:
    # Masks of the operations of a device between which gaps of this kind lie: one, or one per stream.
    if kind == "no_op":
        yield None, np.ones(len(ops), bool)
    elif kind == "no_kernel":
        yield None, (ops.kind == OpKind.KERNEL) | (ops.kind == OpKind.GRAPH)
    else:
        # The driver migrates memory by itself, so a migration does not make a stream busy.
        mine = ops.kind != OpKind.MIGRATION
        group, (pids, streams) = factorize(ops.pid, ops.stream)
        places = {s: i for i, s in enumerate(zip(pids.tolist(), streams.tolist(), strict=True))}
        for stream in timeline.streams(device):
            yield stream, mine & (group == places.get(stream, -1))


def _enders(ops: GpuOps, which: Array, high: Array, span: Window, half_open: bool) -> Array:
    # Which of these operations ended each of the gaps between them, which end at `high`; -1: none.
    ended_by = np.full(len(high), -1, np.int32)
    if not half_open:
        # Migrations may follow the last operation of a window; they lie outside of it.
        which = which & ((ops.start < span.end) | (ops.end == span.end))
    if which.any():
        members = indices(which)
        starts, ends = take(ops.start, which), take(ops.end, which)
        # Members are sorted by (start, stream, id): the first with this start is the one that counts.
        place = np.minimum(np.searchsorted(starts, high), len(members) - 1)
        # An operation that begins where the window ends lies outside, unless it has no length and is
        # the last of the window.
        inside = ~span.ends_at(high) | ((ends[place] == high) & (not half_open))
        hit = (starts[place] == high) & inside
        ended_by[hit] = members[place[hit]]
    return ended_by


def _host_ends(timeline: Timeline, calls: ApiCalls, found: Gaps) -> Array:
    host_end = found.start.copy()
    for block in blocks(len(found)):
        call, migrated = launched(timeline, found.take(block))
        linked = np.flatnonzero(call >= 0)
        mine = found.take(block).take(linked)
        until = _known_until(timeline, mine, call[linked])
        began = np.where(migrated[linked], until, calls.start.take(call[linked]))
        host_end[block][linked] = np.clip(began, mine.start, until)
    return host_end


def _known_until(timeline: Timeline, found: Gaps, call: Array) -> Array:
    # From this moment on, it is not known what happened in a gap that an operation of `call` ended. It
    # is the first lost launch between the launches of the operations around the gap, else the end of
    # the gap.
    lost, calls = timeline.whole.lost_launches, timeline.calls
    if not len(lost):
        return found.end
    mine = lost[among(calls.pid[lost], timeline.pids_on(found.device))]
    lost = calls.start[mine]  # in order, as the calls are
    places = timeline.places_on(found.device)
    before = places[np.maximum(np.searchsorted(places, found.ended_by) - 1, 0)]
    caller = timeline.owner[before]
    since = np.where(caller >= 0, calls.start[np.maximum(caller, 0)], found.start)
    first = np.append(lost, np.iinfo(np.int64).max)[np.searchsorted(lost, since, side="right")]
    return np.where(first < calls.start[call], np.clip(first, found.start, found.end), found.end)


def known_part(timeline: Timeline, found: Gaps) -> Gaps:
    """Return the gaps until work was launched that is not recorded, or not believed.

    From then on the device may have been busy. Gaps of which nothing is left are dropped.
    """
    if not len(timeline.whole.lost_launches) or not len(found):
        return found
    call, _ = launched(timeline, found)
    linked, end = np.flatnonzero(call >= 0), found.end.copy()
    end[linked] = _known_until(timeline, found.take(linked), call[linked])
    return replace(found, end=end).take(np.flatnonzero(end > found.start))


def launched(timeline: Timeline, found: Gaps) -> tuple[Array, Array]:
    """Return the calls that launched the operations which ended gaps (-1: not known), and a mask of the
    gaps that ended with a migration.

    An idle GPU has no page faults: the host caused that migration, and its thread is the one that began
    the last call before it.
    """
    ops, ended = timeline.ops, found.ended_by >= 0
    if not ended.any():
        return np.full(len(ended), -1), ended
    migrated = ended & (ops.kind.take(found.ended_by) == OpKind.MIGRATION)
    linked = ended & ~migrated & (not timeline.clocks_disagree)
    call = np.where(linked, timeline.owner.take(found.ended_by), -1)
    if migrated.any() and not timeline.clocks_disagree:
        by = found.ended_by[migrated]  # a gap may be cut, so its end is not theirs
        call[migrated] = _last_calls(timeline.calls, ops.pid.take(by), ops.start.take(by))
    return call, migrated


def _last_calls(calls: ApiCalls, pids: Array, moments: Array) -> Array:
    # The last call of each process that began before a moment; -1: none.
    result = np.full(len(pids), -1)
    for pid in distinct(pids).tolist():
        here, mine = np.flatnonzero(pids == pid), indices(calls.of_processes(np.array([pid])))
        place = np.searchsorted(take(calls.start, mine), moments[here]) - 1
        result[here[place >= 0]] = mine[place[place >= 0]]
    return result


def parts(timeline: Timeline, found: Gaps) -> Array:
    """Return what part of each gap is whose, by PARTS; ask for some at a time: there may be millions."""
    calls, dur, ended = timeline.calls, found.dur, found.ended_by >= 0
    call, migrated = launched(timeline, found)
    result = np.zeros((len(PARTS), len(found)), np.int64)
    linked = call >= 0
    mine: Array | slice = slice(None)
    if not linked.all():
        mine, unlinked = np.flatnonzero(linked), ended & ~linked
        by_pages, unknown = unlinked & migrated, unlinked & ~migrated
        for part, which in ((_END, ~ended), (_MIGRATION, by_pages), (_UNKNOWN, unknown)):
            result[part, which] = dur[which]
    low, high, began, call = (v[mine] for v in (found.start, found.end, found.host_end, call))
    until = _known_until(timeline, found.take(mine), call)
    returned = np.clip(calls.end.take(call), low, until)
    returned = np.where(migrated[mine], began, returned)
    profiler = _profiler(timeline, take(calls.pid, call), low, began)
    result[_HOST, mine] = began - low - profiler
    result[_PROFILER, mine] = profiler
    result[_LAUNCH, mine] = returned - began
    result[_QUEUE, mine] = until - returned
    result[_UNKNOWN, mine] += high - until
    return result


def _profiler(timeline: Timeline, pids: Array, low: Array, high: Array) -> Array:
    # The result is how much of each [low, high) is overhead of the profiler in that process.
    result = np.zeros(len(low), np.int64)
    for pid, at_work in timeline.overhead.items():
        mine = pids == pid
        if mine.all():
            return at_work.covered(low, high)
        result[mine] = at_work.covered(low[mine], high[mine])
    return result


def stream_label(stream: tuple[int, int] | None, pids: int) -> str | None:
    """Return a stream's number, with its process where a device has several."""
    if stream is None:
        return None
    pid, number = stream
    text = "[no stream]" if number == MISSING else str(number)
    return f"{text}@{pid}" if pids > 1 else text


# -- their ids: those of the whole profile, device by device in the order of time, from 1


def gap_count(timeline: Timeline) -> int:
    """Return how many gaps without any GPU operation the profile has, of all devices."""
    return sum(map(len, gaps(timeline.whole, "no_op")))


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
    for first, whole in _numbered(timeline):
        if number < first + len(whole):
            return whole.take(slice(number - first, number - first + 1))
    raise IndexError(number)


def _numbered(timeline: Timeline) -> Iterator[tuple[int, Gaps]]:
    # The gaps of each device with the number of the first of them.
    first = 1
    for whole in gaps(timeline.whole, "no_op"):
        yield first, whole
        first += len(whole)
