"""One event among the others: what ran before and after it, what it lies in, who waited for it."""

from __future__ import annotations

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array
from nsysconv.timeline.events import ApiCalls, GpuOps, OpKind, Spans
from nsysconv.timeline.intervals import measure
from nsysconv.timeline.timeline import Timeline

NONE = -1
"""In place of an index: there is no such event."""


def place_of(ops: GpuOps, kind: OpKind, row: int) -> int:
    """Return the index of the operation that is this row of its table."""
    return int(np.flatnonzero((ops.row == row) & (ops.kind == kind))[0])


def last_before(timeline: Timeline, op: int, *, on_stream: bool) -> int:
    """Return which operation of the device, or stream, ended last among those that began before `op`.

    If several began together, those listed before `op` count as earlier. NONE if `op` is the first.
    """
    ops = timeline.ops
    earlier = np.flatnonzero(_beside(ops, op, on_stream=on_stream)[:op])
    if not len(earlier):
        return NONE
    # If several operations end last, this takes the last of them.
    return int(earlier[len(earlier) - 1 - np.argmax(ops.end[earlier][::-1])])


def queued_behind(timeline: Timeline, op: int) -> int:
    """Return the next operation of the stream, if its call had returned before an operation ended.

    NONE where it had not, where its call is not recorded, and where the clocks disagree.
    """
    ops = timeline.ops
    later = np.flatnonzero(_beside(ops, op, on_stream=True)[op + 1 :])
    if not len(later) or timeline.clocks_disagree:
        return NONE
    following = op + 1 + int(later[0])
    call = int(timeline.owner[following])
    waited = call >= 0 and timeline.calls.end[call] < ops.end[op] <= ops.start[following]
    return following if waited else NONE


def wait_until(timeline: Timeline, op: int, waits: Array) -> int:
    """Return the call that waited until an operation ended: of `waits`, a mask of calls, the one of its
    process that returned first of those under way then, if nothing else of the stream (where that is
    not recorded, of the device) ended before that.

    NONE where there is none, and where the clocks disagree.
    """
    ops, calls = timeline.ops, timeline.calls
    moment = int(ops.end[op])
    begun = int(np.searchsorted(calls.start, moment, side="left"))
    under_way = waits[:begun] & (calls.end[:begun] >= moment) & (calls.pid[:begun] == ops.pid[op])
    found = np.flatnonzero(under_way)
    if not len(found) or timeline.clocks_disagree:
        return NONE
    call = int(found[np.argmin(calls.end[found])])
    ends = ops.end[_beside(ops, op, on_stream=bool(ops.stream[op] != MISSING))]
    return NONE if ((ends > moment) & (ends <= calls.end[call])).any() else call


def waited_for(timeline: Timeline, call: int) -> int:
    """Return the operation of its process that ended last while a call was under way, NONE for none."""
    ops, calls = timeline.ops, timeline.calls
    mine = ops.timed & (ops.pid == calls.pid[call])
    mine &= (ops.end > calls.start[call]) & (ops.end <= calls.end[call])
    if timeline.clocks_disagree or not mine.any():
        return NONE
    return int(np.argmax(np.where(mine, ops.end, MISSING)))


def around(spans: Spans, pid: int, tid: int, start: int, end: int, equal: int) -> Array:
    """Return which spans of a thread an event begins in, as indices, the outermost first.

    Of those that begin as it does: the longer ones, and of those as long the first `equal` of all spans.
    Nothing is around what has no thread.
    """
    holding = (spans.start <= start) & (spans.end > start) & (spans.pid == pid)
    holding &= (spans.tid == tid) & (tid != MISSING)
    found = np.flatnonzero(holding)
    begin, until = spans.start[found], spans.end[found]
    found = found[(begin < start) | (until > end) | ((until == end) & (found < equal))]
    order: Array = found[np.lexsort((found, -spans.end[found], spans.start[found]))]
    return order


def outer_call(calls: ApiCalls, call: int) -> int:
    """Return the outermost call of its thread that an API call lies in, NONE where it is one itself."""
    if calls.outermost[call]:
        return NONE
    begun = np.flatnonzero(
        calls.outermost[:call] & (calls.thread[:call] == calls.thread[call])
        & (calls.end[:call] > calls.start[call])
    )  # fmt: skip
    return int(begun[-1]) if len(begun) else NONE


def launched_in(
    timeline: Timeline, pid: int, tid: int | None, low: int, high: int
) -> tuple[Array, int]:
    """Return the operations whose calls start in [low, high), as indices, and how many calls these are.

    `tid`: on that thread, None: on any of the process.
    """
    calls, owner = timeline.calls, timeline.owner
    first, past = np.searchsorted(calls.start, (low, high), side="left").tolist()
    which = calls.pid[first:past] == pid
    if tid is not None:
        threads = [number for number, key in enumerate(calls.threads) if key == (pid, tid)]
        which = which & (
            calls.thread[first:past] == (threads[0] if threads and tid != MISSING else -1)
        )
    wanted = np.zeros(len(calls) + 1, bool)  # the last is that of operations without a call
    wanted[first:past] = which
    ops = np.flatnonzero(wanted[owner])
    return ops, len(set(owner[ops].tolist()))


def at_work(timeline: Timeline, pid: int, low: int, high: int) -> tuple[int, int]:
    """Return for how long of [low, high) a process kept its GPUs busy, and with which operation longest.

    NONE where nothing ran. Only where the clocks agree.
    """
    ops = timeline.ops
    mine = ops.timed & (ops.pid == pid) & (ops.start < high) & (ops.end > low)
    busy = measure(ops.start, ops.end, low, high, mine)
    if not busy:
        return 0, NONE
    found = np.flatnonzero(mine)
    overlap = np.minimum(ops.end[found], high) - np.maximum(ops.start[found], low)
    return busy, int(found[np.argmax(overlap)])


def _beside(ops: GpuOps, op: int, *, on_stream: bool) -> Array:
    # Operations with a time of the same device, or of the same stream, which migrations are not on; none
    # of a stream that is not recorded, for these may be of several.
    mine: Array = ops.timed & (ops.device == ops.device[op])
    if on_stream:
        mine &= (ops.pid == ops.pid[op]) & (ops.stream == ops.stream[op])
        mine &= ops.stream != MISSING
        mine &= ops.kind != OpKind.MIGRATION
    return mine
