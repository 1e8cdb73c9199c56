"""Gaps: when a device, its kernels or a stream did nothing, and why (docs/definitions/idle.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from nsysconv.report import MISSING
from nsysconv.threads import ThreadSafeCache, cached_in, cached_property
from nsysconv.timeline.annotations import (
    DIRECTIVE,
    OPERATOR,
    PUSH_POP,
    PYTHON_FUNCTION,
    shown_operators,
    shown_ranges,
)
from nsysconv.timeline.arrays import (
    Array,
    Columns,
    among,
    blocks,
    by_group,
    distinct,
    factorize,
    indices,
    take,
)
from nsysconv.timeline.events import ApiCalls, GpuOps, OpKind, Spans, number_threads
from nsysconv.timeline.intervals import (
    EMPTY,
    Pieces,
    Segments,
    Union,
    cut_at,
    difference,
    expand_ranges,
    innermost,
    measure,
    union,
    union_with,
    whole_pieces,
)
from nsysconv.timeline.timeline import Timeline, cached

IDLE_KINDS = ("no_op", "no_kernel", "stream")
PARTS = ("host", "launch", "queue", "migration", "profiler", "unknown", "end")
"""The parts of a gap, in the order in which ties for its cause are decided."""

_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
_HOST, _LAUNCH, _QUEUE, _MIGRATION, _PROFILER, _UNKNOWN, _END = range(len(PARTS))


@dataclass(frozen=True)
class Window:
    """The time in which a device's busy and idle time are measured: [start, end)."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Return how long it is, in ns."""
        return self.end - self.start


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
    limits = None if timeline.is_whole else timeline.limits(timeline.pids_on(device))
    if limits is not None:
        return Window(*limits)
    counting = ops.timed & (ops.kind != OpKind.MIGRATION)
    if not counting.any():
        return None
    first = int(ops.start[np.argmax(counting)])  # they are sorted by start
    return Window(first, int(ops.end.max(where=counting, initial=MISSING)))


def busy(starts: Array, ends: Array, span: Window, which: Array | None = None) -> int:
    """Return the measure of the union of these intervals, all or those of a mask, inside the window."""
    return measure(starts, ends, span.start, span.end, which)


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
    span = window(timeline, device, timeline.ops_on(device))
    start = int(ops.start[op])
    if span is None or not span.start < start <= span.end:
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
    known = timeline.calls.on_a_thread(_launched(timeline, found.take(host))[0])
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
        half_open = timeline.limits(here.pid) is not None
        for stream, members in _groups(timeline, device, here, kind):
            low, high, which = _between(here, members, span, half_open)
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


def _between(
    ops: GpuOps, which: Array, span: Window, half_open: bool
) -> tuple[Array, Array, Array]:
    low, high = union(ops.start, ops.end, which).gaps(span.start, span.end)
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
        inside = (high < span.end) | ((ends[place] == high) & (not half_open))
        hit = (starts[place] == high) & inside
        ended_by[hit] = members[place[hit]]
    return low, high, ended_by


def _host_ends(timeline: Timeline, calls: ApiCalls, found: Gaps) -> Array:
    host_end = found.start.copy()
    for block in blocks(len(found)):
        call, migrated = _launched(timeline, found.take(block))
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


def _launched(timeline: Timeline, found: Gaps) -> tuple[Array, Array]:
    # The result has the calls that launched the operations which ended gaps (-1: not known), and a mask
    # of the gaps that ended with a migration. An idle GPU has no page faults: the host caused that
    # migration, and its thread is the one that began the last call before it.
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
    call, migrated = _launched(timeline, found)
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


# Labels are one number: the kind of activity in the low bits, what it was above it.
_WORDS = ("api_call", "operator", "directive", "python_function", "range")
_API_CALL, _OPERATOR, _DIRECTIVE, _PYTHON_FUNCTION, _RANGE = range(len(_WORDS))
_KINDS = len(_WORDS)
_OUTSIDE = -1


@dataclass(frozen=True)
class HostPieces:
    """The host parts of gaps by what the launching thread did: a label for `HostActivity.name`."""

    gap: Array
    label: Array
    time: Array


@cached
def host_activity(timeline: Timeline, range_names: str) -> HostActivity:
    """Return what the threads of a profile did; ranges and operators are named as RANGE_NAMES says."""
    return HostActivity(timeline, range_names)


class HostActivity:
    """The activity of a profile's threads over time. Made by `host_activity`."""

    def __init__(self, timeline: Timeline, range_names: str) -> None:
        """Take what the threads did."""
        self._timeline = timeline
        self._range_names = range_names
        self._segments = ThreadSafeCache()

    def split(self, gaps: Gaps) -> Iterator[HostPieces]:
        """Yield the host parts of these gaps by activity of the thread that launched what ended each.

        All pieces of a gap come together; with what the profiler did they add up to its host part.
        """
        host = indices(gaps.host_end > gaps.start)
        calls = self._timeline.calls
        threads = calls.thread[_launched(self._timeline, gaps.take(host))[0]]
        for thread, members in enumerate(by_group(threads, len(calls.threads))):
            if not len(members):
                continue
            profiler, nested = self._layers(thread)
            for block in blocks(len(members)):
                mine = host[members[block]]
                _, _, rest = cut_at(whole_pieces(gaps.start[mine], gaps.host_end[mine]), profiler)
                yield _host_pieces(mine, rest, (self._calls_around(thread, rest), *nested))

    def outside_calls(self, gaps: Gaps) -> Iterator[Union]:
        """Yield the host parts of gaps in which the launching thread was in no API call, some at a time.

        What the profiler did is left out. It is what `split` gives to other activities.
        """
        calls = self._timeline.calls
        for block in blocks(len(gaps)):
            mine = gaps.take(block)
            mine = mine.take(np.flatnonzero(mine.host_end > mine.start))
            thread = calls.thread.take(_launched(self._timeline, mine)[0])
            for each in distinct(thread).tolist():
                of_thread = mine if len(calls.threads) == 1 else mine.take(thread == each)
                covering = self._covering(each, of_thread)
                yield difference(Union(of_thread.start, of_thread.host_end), covering)

    def _covering(self, thread: int, gaps: Gaps) -> Union:
        # The union covers the time around these gaps in which the thread was in calls or the profiler
        # was at work.
        calls = self._timeline.calls
        which = self._calls_in(thread, gaps.start, gaps.host_end)
        covering = union(calls.start.take(which), calls.end.take(which))
        at_work = self._timeline.overhead.get(calls.threads[thread][0])
        if at_work is None:
            return covering
        return union_with(covering, at_work.starts, at_work.ends)

    def name(self, label: int) -> tuple[str, str]:
        """Return a label in words: the kind of activity and its name."""
        if label == _OUTSIDE:
            return "outside", "[nothing recorded]"
        what, kind = divmod(label, _KINDS)
        if kind == _API_CALL:
            return _WORDS[kind], self._call_names[what]
        return _WORDS[kind], self._nested[kind].name(what)

    @cached_property
    def _call_labels(self) -> tuple[Array, Array]:
        by_id = sorted(self._timeline.call_names.items())
        places = {name: place for place, name in enumerate(self._call_names)}
        labels = [places[name] * _KINDS + _API_CALL for _, name in by_id]
        return np.array([i for i, _ in by_id], np.int64), np.array(labels, np.int64)

    @cached_property
    def _call_names(self) -> list[str]:
        # Two symbols of one function are one activity.
        return sorted(set(self._timeline.call_names.values()))

    @cached_property
    def _nested(self) -> dict[int, _Nested]:
        # The kinds are in the order in which they count. Ranges of two domains may have the same text.
        found = shown_ranges(self._timeline, self._range_names)
        run = shown_operators(self._timeline, self._range_names)
        spans_of = {
            _OPERATOR: run.take(run.kind == OPERATOR),
            _DIRECTIVE: run.take(run.kind == DIRECTIVE),
            _PYTHON_FUNCTION: run.take(run.kind == PYTHON_FUNCTION),
            _RANGE: found.take(found.kind == PUSH_POP),
        }
        return {kind: _Nested(spans, kind) for kind, spans in spans_of.items()}

    @cached_property
    def _calls_of(self) -> list[Array]:
        calls = self._timeline.calls
        found = indices(calls.outermost & (calls.end > calls.start))
        return by_group(take(calls.thread, found), len(calls.threads), found)

    def _calls_around(self, thread: int, pieces: Pieces) -> Segments:
        calls, which = self._timeline.calls, self._calls_in(thread, pieces.starts, pieces.ends)
        ids, labels = self._call_labels
        label = labels[np.searchsorted(ids, calls.name_id[which])]
        return Segments(calls.start[which], calls.end[which], label)

    def _calls_in(self, thread: int, low: Array, high: Array) -> Array:
        # The outermost calls of a thread that may run in intervals, which are in order and disjoint.
        calls, mine = self._timeline.calls, self._calls_of[thread]

        def begun(moments: Array, side: Literal["left", "right"]) -> Array:
            place = np.searchsorted(calls.start, moments, side)
            return np.searchsorted(mine, place.astype(mine.dtype))

        # They follow each other: of those that have begun by then, only the last may still run.
        first, past = np.maximum(begun(low, "right") - 1, 0), begun(high, "left")
        first[1:] = np.maximum(first[1:], past[:-1])
        _, place = expand_ranges(first, np.maximum(past - first, 0))
        return mine.take(place)

    @cached_in("_segments")
    def _layers(self, thread: int) -> tuple[Segments, list[Segments]]:
        pid, tid = self._timeline.calls.threads[thread]
        at_work, profiler = self._timeline.overhead.get(pid), EMPTY
        if at_work is not None:
            profiler = Segments(at_work.starts, at_work.ends, np.zeros_like(at_work.starts))
        return profiler, [each.of(pid, tid) for each in self._nested.values()]


def _host_pieces(gaps: Array, rest: Pieces, layers: Iterable[Segments]) -> HostPieces:
    gap, label, time = [], [], []
    for layer in layers:
        inside, labels, rest = cut_at(rest, layer)
        gap.append(gaps[inside.interval])
        label.append(labels)
        time.append(inside.ends - inside.starts)
    gap.append(gaps[rest.interval])
    label.append(np.full(len(rest.starts), _OUTSIDE))
    time.append(rest.ends - rest.starts)
    return HostPieces(np.concatenate(gap), np.concatenate(label), np.concatenate(time))


class _Nested:
    # This holds, thread by thread, which span is innermost at which time. Labels are a name and the
    # kind of activity.

    def __init__(self, spans: Spans, kind: int) -> None:
        self._spans = spans
        self._kind = kind
        thread, threads = number_threads(spans.pid, spans.tid)
        self._members = dict(zip(threads, by_group(thread, len(threads)), strict=True))

    def of(self, pid: int, tid: int) -> Segments:
        mine = self._members.get((pid, tid))
        if mine is None:
            return EMPTY
        labels = self._spans.name[mine].astype(np.int64) * _KINDS + self._kind
        return innermost(self._spans.start[mine], self._spans.end[mine], labels)

    def name(self, number: int) -> str:
        return self._spans.names[number]
