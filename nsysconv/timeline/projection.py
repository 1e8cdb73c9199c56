"""Intervals of the CPU projected onto the GPU: when what they launched ran (docs/definitions)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nsysconv.report import MISSING
from nsysconv.threads import Threads
from nsysconv.timeline.arrays import Array, batches, blocks, by_group, indices, take
from nsysconv.timeline.events import GpuOps, OpKind, Spans, number_threads
from nsysconv.timeline.intervals import expand_ranges, grouped_measure, union
from nsysconv.timeline.timeline import Timeline

# Intervals that are looked at one by one are gathered so many at a time.
SPANS_AT_ONCE = 1 << 18
# If gathering takes more than so many passes over the operations, one sweep replaces it.
MOST_PASSES = 64
# Threads of a program that are looked at together: each takes memory of its own.
_AT_THE_SAME_TIME = 2


@dataclass(frozen=True)
class Projection:
    """One entry per span: what its operations are, whose API calls start inside it.

    `start` and `end` are those of the first and of the last operation, MISSING for none; `union_ns` is
    when at least one of them ran. `launch_count` counts the calls that launched them. Operations
    without a time count, and have no time.
    """

    start: Array
    end: Array
    union_ns: Array
    op_count: Array
    launch_count: Array
    kernel_count: Array
    kernel_sum_ns: Array


def projection(timeline: Timeline, spans: Spans, any_thread: bool | Array = False) -> Projection:
    """Return the projections of spans on their own thread or, all or those of a mask, on any of their
    process.

    Push/pop ranges and operators are their thread's; steps and start/end ranges are their process's.
    """
    count = len(spans)
    found = Projection(
        *(np.full(count, MISSING) for _ in range(2)),
        *(np.zeros(count, np.int64) for _ in range(5)),
    )
    parts = list(_launches(timeline, spans, np.broadcast_to(any_thread, count)))
    # Threads of the program are independent of each other; numpy lets go of the interpreter.
    with Threads(_AT_THE_SAME_TIME) as pool:
        list(pool.map(lambda part: _fill(found, timeline, spans, *part), parts))
    return found


def launches_outside(timeline: Timeline, spans: Spans) -> bool:
    """Return whether a thread launched something in none of its spans while another of its process was in
    one.
    """
    calls, owner = timeline.calls, timeline.owner
    call = take(owner, indices(owner >= 0))
    thread, threads = number_threads(spans.pid, spans.tid)
    spans_of = dict(zip(threads, by_group(thread, len(threads)), strict=True))
    of_process = {
        pid: union(spans.start, spans.end, spans.pid == pid)
        for pid in np.unique(spans.pid).tolist()
    }
    members = by_group(take(calls.thread, call), len(calls.threads), call)
    for key, mine in zip(calls.threads, members, strict=True):
        if key[0] in of_process and key[1] != MISSING:
            own, moments = spans_of.get(key, slice(0)), take(calls.start, mine)
            inside = union(spans.start[own], spans.end[own]).meets(moments, moments)
            if (of_process[key[0]].meets(moments, moments) & ~inside).any():
                return True
    return False


@dataclass(frozen=True)
class _Launched:
    # Operations in the order of their calls, and those with a time in that of their starts: both as
    # indices of `ops`, which are int32. `place` says per operation by call where it is by start,
    # `len(by_start)` and beyond for those without a time; None where both orders are one.

    ops: GpuOps
    by_call: Array
    by_start: Array
    place: Array | None

    def __len__(self) -> int:
        return len(self.by_call)

    def places(self, calls: Array) -> Array:
        # The calls' order and the starts' order number the operations differently: this maps the first
        # to the second.
        return calls if self.place is None else take(self.place, calls)

    def times(self, places: Array | slice) -> tuple[Array, Array]:
        which = self.by_start[places]
        return self.ops.start[which], self.ops.end[which]

    def begun(self, moments: Array) -> Array:
        # They are in order among all operations, which are in that of their starts.
        place = np.searchsorted(self.ops.start, moments, side="left")
        return np.searchsorted(self.by_start, place.astype(np.int32), side="left")


def _launches(timeline: Timeline, spans: Spans, wide: Array) -> Iterator[tuple[Array, Array]]:
    # Each result has the indices of the spans of a thread, or of a process, and of the operations that
    # they launched.
    calls, ops, owner = timeline.calls, timeline.ops, timeline.owner
    linked = indices(owner >= 0)
    if not len(linked) or not len(spans):
        return
    if not wide.all():
        thread = take(calls.thread, take(owner, linked))
        numbers = {key: number for number, key in enumerate(calls.threads)}
        members = by_group(thread, len(calls.threads), linked)
        own = np.flatnonzero(~wide)
        mine, threads = number_threads(spans.pid[own], spans.tid[own])
        for key, places in zip(threads, by_group(mine, len(threads)), strict=True):
            if key in numbers and key[1] != MISSING and len(members[numbers[key]]):
                yield own[places], members[numbers[key]]
    if wide.any():
        process = take(ops.pid, linked)
        for pid in np.unique(spans.pid[wide]).tolist():
            here = take(linked, process == pid)
            if len(here):
                yield np.flatnonzero(wide & (spans.pid == pid)), here


def _fill(
    found: Projection, timeline: Timeline, spans: Spans, which: Array, by_start: Array
) -> None:
    # The spans at `which` are projected onto the operations `by_start`, which are in the order of their
    # starts.
    ops, calls = timeline.ops, timeline.calls
    untimed = int(np.count_nonzero(~take(ops.timed, by_start)))
    by_call = np.concatenate((by_start[untimed:], by_start[:untimed])) if untimed else by_start
    call = take(timeline.owner, by_call)
    called, place = take(calls.start, call), None
    if untimed or (called[1:] < called[:-1]).any():
        place = np.argsort(called, kind="stable").astype(np.int32)
        called, call, by_call = take(called, place), take(call, place), take(by_call, place)
    low = np.searchsorted(called, spans.start[which], side="left")
    high = np.searchsorted(called, spans.end[which], side="left")
    del called  # here and below: what has been looked at makes room for the next
    some = high > low
    which, low, high = which[some], low[some], high[some]
    if not len(which):
        return
    found.op_count[which] = high - low
    found.launch_count[which] = _between(_one_of_each(call, len(calls)), low, high)
    del call
    kernels, spent = _kernels(ops, by_call)
    found.kernel_count[which] = _between(kernels, low, high)
    found.kernel_sum_ns[which] = _between(spent, low, high)
    del kernels, spent
    launched = _Launched(ops, by_call, by_start[untimed:], place)
    windows = _Windows(low, high, len(launched))
    first, last, timed = _places(launched, windows)
    end = windows.best(take(ops.end, by_call), np.maximum)
    del windows
    some = timed > 0
    which, low, high = which[some], low[some], high[some]
    first, last, timed = first[some], last[some], timed[some]
    if not len(which):
        return
    found.start[which], _ = launched.times(first)
    found.end[which] = end[some]
    found.union_ns[which] = _covered(launched, low, high, first, last, timed)


def _one_of_each(call: Array, count: int) -> Array:
    last = np.empty(count, np.int32)
    for block in blocks(len(call)):
        last[call[block]] = np.arange(block.start, block.stop)
    result = np.empty(len(call), bool)
    for block in blocks(len(call)):
        result[block] = last[call[block]] == np.arange(block.start, block.stop)
    return result


def _kernels(ops: GpuOps, which: Array) -> tuple[Array, Array]:
    # The result is a mask of the kernels among these operations, and their durations (0 for others).
    kernel, spent = np.empty(len(which), bool), np.empty(len(which), np.int64)
    for block in blocks(len(which)):
        here = which[block]
        kernel[block] = ops.kind[here] == OpKind.KERNEL
        spent[block] = np.where(kernel[block], ops.end[here] - ops.start[here], 0)
    return kernel, spent


def _fresh(start: Array, end: Array, reach: Array) -> Array:
    # The result is how much each interval, in the order of starts, covers that no earlier one does;
    # `reach` is the latest end before it.
    fresh: Array = np.maximum(end - np.maximum(start, reach), 0)
    return fresh


def _sums_before(values: Array) -> Array:
    # The result has the sum before each value and, last, the sum of all. Sums of a mask are int32,
    # because places fit in it.
    result = np.zeros(len(values) + 1, np.int32 if values.dtype == bool else np.int64)
    np.cumsum(values, out=result[1:])
    return result


def _between(values: Array, low: Array, high: Array) -> Array:
    # The result is the sum of the values per window [low, high) of places.
    total = _sums_before(values)
    result: Array = total[high] - total[low]
    return result


def _places(launched: _Launched, windows: _Windows) -> tuple[Array, Array, Array]:
    # The result has, per window of calls, the first and the last place by start of its operations with
    # a time, and their number.
    low, high, place = windows.low, windows.high, launched.place
    if place is None:
        return low, high - 1, high - low
    timed = place < len(launched.by_start)
    first = windows.best(place, np.minimum)
    last = windows.best(place if timed.all() else np.where(timed, place, -1), np.maximum)
    return first, last, _between(timed, low, high)


class _Windows:
    # Windows [low, high) of places below `count`, none of them empty. The blocks between their edges are
    # numbered: a window is a run of blocks.

    def __init__(self, low: Array, high: Array, count: int) -> None:
        self.low, self.high = low, high
        is_edge = np.zeros(count + 1, bool)
        is_edge[low] = is_edge[high] = True
        block = np.cumsum(is_edge, dtype=np.int32) - 1
        self._edges = np.flatnonzero(is_edge[:count])
        self._first, self._length = block[low], block[high] - block[low]

    def best(self, values: Array, better: np.ufunc) -> Array:
        # The result is the least (or greatest) value per window. Two runs of 1, 2, 4, … blocks cover a
        # window, and its value is the better of theirs.
        table = better.reduceat(values, self._edges)
        power = np.frexp(self._length)[1] - 1
        result = np.empty(len(self.low), values.dtype)
        for level in range(int(power.max()) + 1):
            if level:
                half = 1 << (level - 1)
                table = better(table[:-half], table[half:])
            mine = np.flatnonzero(power == level)
            left = self._first[mine]
            right = left + self._length[mine] - (1 << level)
            result[mine] = better(table[left], table[right])
        return result


def _covered(
    launched: _Launched, low: Array, high: Array, first: Array, last: Array, count: Array
) -> Array:
    # The result is, per window of calls, the measure of the union of its operations. Usually these are
    # consecutive by start, without others in between. Running sums then give the result, except for
    # operations at the window's beginning that overlap with earlier ones.
    reach, covered = _running(launched)
    measure: Array = covered[last + 1] - covered[first]
    # From `clear` on, operations start after all operations before the window have ended.
    clear = np.clip(launched.begun(reach[first]), first, last + 1)
    alone = last - first + 1 == count
    size = np.where(alone, clear - first, high - low)
    rest = np.where(alone, covered[last + 1] - covered[clear], 0)
    del reach, covered
    todo = np.flatnonzero(size > 0)
    if int(size.sum()) > MOST_PASSES * (len(launched) + len(low)):
        measure[todo] = _swept(launched, low[todo], high[todo])
        return measure
    for piece in batches(size[todo], SPANS_AT_ONCE):
        mine = todo[piece]
        group, place = _gathered(
            launched, np.where(alone, first, low)[mine], size[mine], alone[mine]
        )
        own = grouped_measure(*launched.times(place), group, len(mine))
        measure[mine] = own + rest[mine]
    return measure


def _running(launched: _Launched) -> tuple[Array, Array]:
    # Both results have an element per place by start and one for the end. They cover the operations
    # before it: their latest end (MISSING for none), and the measure of their union.
    count = len(launched.by_start)
    reach, covered = np.full(count + 1, MISSING), np.zeros(count + 1, np.int64)
    for block in blocks(count):
        start, end = launched.times(block)
        before, after = block.start, slice(block.start + 1, block.stop + 1)
        np.maximum.accumulate(np.maximum(end, reach[before]), out=reach[after])
        fresh = _fresh(start, end, reach[block])
        covered[after] = np.cumsum(fresh) + covered[before]
    return reach, covered


def _gathered(
    launched: _Launched, begin: Array, size: Array, by_start: Array
) -> tuple[Array, Array]:
    # The operations of windows, which are by start or by call: window and place by start, sorted.
    group, place = expand_ranges(begin, size)
    by_call = ~by_start[group]
    if not by_call.any():
        return group, place
    place[by_call] = launched.places(place[by_call])
    timed = place < len(launched.by_start)
    group, place = group[timed], place[timed]
    order = np.lexsort((place, group))
    return group[order], place[order]


def _swept(launched: _Launched, low: Array, high: Array) -> Array:
    # This computes the measures of windows by call, operation after operation, so its time does not
    # depend on their sizes. Each moment belongs to the latest operation so far that ran then. A window
    # ends at the current operation, and its measure is the moments that belong to its operations.
    moments = _Moments(len(launched))
    measure = np.zeros(len(low), np.int64)
    order = np.argsort(high, kind="stable")
    wanted, lows, highs = order.tolist(), low.tolist(), high.tolist()
    at = 0
    places = launched.places(np.arange(len(launched))).tolist()
    starts, ends = (times.tolist() for times in launched.times(slice(None)))
    for number, place in enumerate(places):
        if place < len(starts) and ends[place] > starts[place]:
            moments.give(starts[place], ends[place], number)
        while at < len(wanted) and highs[wanted[at]] == number + 1:
            measure[wanted[at]] = moments.of(lows[wanted[at]])
            at += 1
    return measure


class _Moments:
    # These are disjoint intervals, each with the number of its owner. A Fenwick tree holds the sums of
    # their lengths by owner.

    def __init__(self, count: int) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._owners: list[int] = []
        self._total = 0
        self._tree = [0] * (count + 1)

    def give(self, start: int, end: int, owner: int) -> None:
        low, high = bisect_right(self._ends, start), bisect_left(self._starts, end)
        pieces = [(start, end, owner)]
        for place in range(low, high):
            s, e, other = self._starts[place], self._ends[place], self._owners[place]
            self._add(other, s - e)
            if s < start:
                pieces.insert(0, (s, start, other))
            if e > end:
                pieces.append((end, e, other))
        for s, e, each in pieces:
            self._add(each, e - s)
        self._starts[low:high] = [s for s, _, _ in pieces]
        self._ends[low:high] = [e for _, e, _ in pieces]
        self._owners[low:high] = [each for _, _, each in pieces]

    def of(self, owner: int) -> int:
        # The result is the sum of all lengths except those of owners before this one.
        result = self._total
        while owner > 0:
            result -= self._tree[owner]
            owner -= owner & -owner
        return result

    def _add(self, owner: int, length: int) -> None:
        self._total += length
        owner += 1
        while owner < len(self._tree):
            self._tree[owner] += length
            owner += owner & -owner
