"""Gaps: when a device, its kernels or a stream did nothing, and which part of the wait was whose.

Definitions, with worked examples: docs/definitions.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.groups import blocks, indices
from nsysconv.timeline.intervals import union
from nsysconv.timeline.ops import GpuOps, Kind, taken
from nsysconv.timeline.statistics import number
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray

IDLE_KINDS = ("no_op", "no_kernel", "stream")
PARTS = ("host", "launch", "queue", "migration", "profiler", "unknown", "end")
"""The parts of a gap, in the order in which ties for its cause are decided."""

_HOST, _LAUNCH, _QUEUE, _MIGRATION, _PROFILER, _UNKNOWN, _END = range(len(PARTS))


@dataclass(frozen=True)
class Window:
    """The time in which a device's busy and idle time are measured: [start, end)."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """In nanoseconds."""
        return self.end - self.start


@dataclass(frozen=True)
class Gaps:
    """The gaps of one device and kind (and stream), in time order.

    `ended_by` is the index in Timeline.ops of the operation that starts at a gap's end, -1 for none;
    `parts` has one row per name of PARTS, which add up to the durations. The host part of a gap, the
    profiler's share of it included, is [start, host_end).
    """

    device: int
    kind: str
    stream: tuple[int, int] | None
    start: Array
    end: Array
    ended_by: Array
    parts: Array
    host_end: Array

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: Array) -> Gaps:
        """The gaps of a mask."""
        return Gaps(
            self.device,
            self.kind,
            self.stream,
            self.start[which],
            self.end[which],
            self.ended_by[which],
            self.parts[:, which],
            self.host_end[which],
        )

    @property
    def dur(self) -> Array:
        """How long each gap is."""
        result: Array = self.end - self.start
        return result

    @property
    def cause(self) -> Array:
        """Per gap the number in PARTS of its largest part."""
        result: Array = np.argmax(self.parts, axis=0)
        return result


def window(timeline: Timeline, device: int, ops: GpuOps) -> Window | None:
    """The window of a device with these operations: the slice's time in its processes, else first to
    last but for migrations. None where there is no such operation with a time.
    """
    limits = None if timeline.is_whole else timeline.limits(timeline.pids_on(device))
    if limits is not None:
        return Window(*limits)
    counting = ops.timed & (ops.kind != Kind.MIGRATION)
    if not counting.any():
        return None
    first = int(ops.start[np.argmax(counting)])  # they are sorted by start
    return Window(first, int(ops.end.max(where=counting, initial=MISSING)))


def busy(starts: Array, ends: Array, span: Window, which: Array | None = None) -> int:
    """The measure of the union of these intervals, all or those of a mask, inside the window.

    Those without a time are MISSING.
    """
    found = union(starts, ends, which)
    low, high = span.start, span.end
    return int((np.clip(found.ends, low, high) - np.clip(found.starts, low, high)).sum())


def gaps(timeline: Timeline, kind: str) -> list[Gaps]:
    """The gaps of a kind, device by device (and stream by stream)."""
    return timeline.kept(("gaps", kind), lambda: list(_gaps(timeline, kind)))


def on_threads(timeline: Timeline, found: Gaps) -> Gaps:
    """The gaps, without a host part where no thread is recorded of the call that launched what ended
    them: their parts are as they were, `host_end` is their start.
    """
    host = np.flatnonzero(found.host_end > found.start)
    known = timeline.calls.on_a_thread(timeline.owner[found.ended_by[host]])
    if known.all():
        return found
    host_end = found.host_end.copy()
    host_end[host[~known]] = found.start[host[~known]]
    return replace(found, host_end=host_end)


def _gaps(timeline: Timeline, kind: str) -> Iterator[Gaps]:
    ops = timeline.ops
    for device in timeline.devices:
        mine = ops.timed
        if len(timeline.devices) > 1:
            mine &= ops.device == device
        here = ops if mine.all() else ops.take(mine)
        span = window(timeline, device, here)
        if span is None:
            continue
        half_open = timeline.limits(here.pid) is not None
        for stream, members in _groups(timeline, device, mine, kind):
            yield _gaps_of(timeline, device, kind, stream, members, span, half_open)


def _groups(
    timeline: Timeline, device: int, mine: Array, kind: str
) -> Iterator[tuple[tuple[int, int] | None, Array]]:
    """The operations between which gaps of this kind lie: one group, or one per stream.

    `mine` is a mask of the device's operations, and so are the groups.
    """
    ops = timeline.ops
    if kind == "no_op":
        yield None, mine
    elif kind == "no_kernel":
        yield None, mine & ((ops.kind == Kind.KERNEL) | (ops.kind == Kind.GRAPH))
    else:
        # The driver migrates memory on its own; that keeps no stream of the program busy.
        mine = mine & (ops.kind != Kind.MIGRATION)
        group, (pids, streams) = number(ops.pid, ops.stream)
        places = {s: i for i, s in enumerate(zip(pids.tolist(), streams.tolist(), strict=True))}
        for stream in timeline.streams(device):
            yield stream, mine & (group == places.get(stream, -1))


def _gaps_of(
    timeline: Timeline,
    device: int,
    kind: str,
    stream: tuple[int, int] | None,
    which: Array,
    span: Window,
    half_open: bool,
) -> Gaps:
    ops = timeline.ops
    low, high = union(ops.start, ops.end, which).gaps(span.start, span.end)
    ended_by = np.full(len(high), -1, np.int32)
    if not half_open:
        # Migrations may follow the last operation of a window; they lie outside of it.
        which = which & ((ops.start < span.end) | (ops.end == span.end))
    if which.any():
        members = indices(which)
        starts, ends = taken(ops.start, which), taken(ops.end, which)
        # Members are sorted by (start, stream, id): the first with this start is the one that counts.
        place = np.minimum(np.searchsorted(starts, high, side="left"), len(members) - 1)
        # What begins where the window ends lies outside, but for an operation without length that
        # is itself the last of a window.
        inside = (high < span.end) | ((ends[place] == high) & (not half_open))
        hit = (starts[place] == high) & inside
        ended_by[hit] = members[place[hit]]
    # No part is longer than its gap.
    short = int((high - low).max(initial=0)) <= np.iinfo(np.int32).max
    parts = np.empty((len(PARTS), len(low)), np.int32 if short else np.int64)
    host_end = np.empty(len(low), np.int64)
    for block in blocks(len(low)):
        found = _parts(timeline, low[block], high[block], ended_by[block])
        parts[:, block], host_end[block] = found
    return Gaps(device, kind, stream, low, high, ended_by, parts, host_end)


def _parts(timeline: Timeline, low: Array, high: Array, ended_by: Array) -> tuple[Array, Array]:
    """Who each gap belongs to: one row per name of PARTS; and where the host part ends."""
    ops, calls = timeline.ops, timeline.calls
    dur = high - low
    parts = np.zeros((len(PARTS), len(low)), np.int64)
    host_end = low.copy()
    nobody = ended_by < 0
    parts[_END, nobody] = dur[nobody]
    op = np.maximum(ended_by, 0)
    migrated = ~nobody & (ops.kind[op] == Kind.MIGRATION) if len(ops) else nobody & False
    parts[_MIGRATION, migrated] = dur[migrated]
    call = np.where(nobody | migrated, -1, timeline.owner[op] if len(ops) else -1)
    told = (call >= 0) & (not timeline.clocks_disagree)
    unknown = ~nobody & ~migrated & ~told
    parts[_UNKNOWN, unknown] = dur[unknown]
    if told.any():
        g0, g1, a = low[told], high[told], call[told]
        began, returned = np.clip(calls.start[a], g0, g1), np.clip(calls.end[a], g0, g1)
        profiler = _profiler(timeline, calls.pid[a], g0, began)
        parts[_HOST, told] = began - g0 - profiler
        parts[_PROFILER, told] = profiler
        parts[_LAUNCH, told] = returned - began
        parts[_QUEUE, told] = g1 - returned
        host_end[told] = began
    return parts, host_end


def _profiler(timeline: Timeline, pids: Array, low: Array, high: Array) -> Array:
    """How much of each [low, high) the profiler itself was at work in that process."""
    result = np.zeros(len(low), np.int64)
    for pid, at_work in timeline.overhead.items():
        mine = pids == pid
        result[mine] = at_work.covered(low[mine], high[mine])
    return result


def stream_label(stream: tuple[int, int] | None, pids: int) -> str | None:
    """A stream's number, with its process where a device has several."""
    if stream is None:
        return None
    pid, number = stream
    text = "[no stream]" if number == MISSING else str(number)
    return f"{text}@{pid}" if pids > 1 else text
