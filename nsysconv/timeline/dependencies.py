"""What queued operations wait for: the one before them on their stream, or those before an event.

A call such as cudaStreamWaitEvent lets a stream wait for an event, which another call had recorded on
another stream: for all that this stream had been given by then (docs/definitions/idle.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nsysconv.names import called
from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, Columns, distinct, factorize, take
from nsysconv.timeline.events import OpKind, has_correlation
from nsysconv.timeline.idle import PARTS, Gaps
from nsysconv.timeline.timeline import Timeline, cached_whole

_QUEUE, _UNKNOWN = PARTS.index("queue"), PARTS.index("unknown")
_OF_SYNC = ("pid", "stream_id", "correlation_id", "record_correlation_id", "record_stream_id")


@dataclass(frozen=True)
class Dependencies(Columns):
    """Pairs of operations of the whole profile, by `op`: `op` could not begin before `on` had ended."""

    op: Array
    on: Array


@dataclass(frozen=True)
class Waits(Columns):
    """What gaps waited for after the call that ended them had returned.

    `on` is an operation of the whole profile, -1 where it is not known; `time` how much of the gap had
    passed after the call's return when that operation ended, in ns.
    """

    on: Array
    time: Array


@cached_whole
def event_dependencies(timeline: Timeline) -> Dependencies:
    """Return which operations waited for which, by events that calls recorded and streams waited for.

    An operation waits for the events for which its stream was made to wait since the launch before its
    own. There are none where waits or records are not recorded, or where the clocks disagree.
    """
    whole = timeline.whole
    column = whole.profile.columns("sync", _OF_SYNC)
    known = has_correlation(column["record_correlation_id"]) & (column["stream_id"] != MISSING)
    rows = {name: take(values, known) for name, values in column.items()}
    found = [np.empty((2, 0), np.int64)]
    if known.any() and not whole.clocks_disagree:
        found += _of_processes(whole, rows)
    op, on = np.concatenate(found, axis=1)
    order = np.lexsort((on, op))
    return Dependencies(op[order], on[order])


def last_dependency(timeline: Timeline, op: int) -> int:
    """Return which of the operations that one of the whole profile waited for, by events, ended last.

    Those that ended after it began do not count; -1 for none.
    """
    pairs, ops = event_dependencies(timeline), timeline.whole.ops
    on = pairs.on[slice(*np.searchsorted(pairs.op, (op, op + 1)).tolist())]
    on = on[ops.end[on] <= ops.start[op]]
    return int(on[ops.end[on].argmax()]) if len(on) else -1


def blocked_by(timeline: Timeline, found: Gaps, parts: Array) -> Waits:
    """Return what gaps waited for in their queued part; `parts` are those of `idle.parts`.

    That is, of the operations that the one which ended a gap depends on and which ended before it
    began, the one that ended last, if it ended in the queued part.
    """
    until = found.end - parts[_UNKNOWN]
    since = until - parts[_QUEUE]
    on, time = np.full(len(found), -1, np.int64), np.zeros(len(found), np.int64)
    asked = np.flatnonzero((found.ended_by >= 0) & (until > since))
    known = found.kind == "no_kernel" or len(event_dependencies(timeline)) > 0
    if not (known and len(asked)):
        return Waits(on, time)
    ops = timeline.whole.ops
    op = found.ended_by[asked].astype(np.int64)
    if not timeline.is_whole:
        op = np.flatnonzero(timeline.ops_in_slice)[op]
    for gap, other in _candidates(timeline, found, asked, op):
        end = ops.end[other]
        waited = np.clip(end, since[gap], until[gap]) - since[gap]
        waited[end > ops.start[op[np.searchsorted(asked, gap)]]] = 0
        order = np.argsort(waited, kind="stable")  # of equal gaps, the longest wait comes last
        gap, other, waited = gap[order], other[order], waited[order]
        more = waited > time[gap]
        on[gap[more]], time[gap[more]] = other[more], waited[more]
    return Waits(on, time)


def _candidates(
    timeline: Timeline, found: Gaps, asked: Array, op: Array
) -> Iterator[tuple[Array, Array]]:
    # Pairs of a gap and an operation that the one which ended it depends on.
    pairs = event_dependencies(timeline)
    first, past = (np.searchsorted(pairs.op, op, side) for side in ("left", "right"))
    count = past - first
    place = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
    yield np.repeat(asked, count), pairs.on[place]
    if found.kind == "no_kernel":
        # In the gaps of other kinds nothing of the operation's stream ran.
        before = _before_on_stream(timeline)[op]
        yield asked[before >= 0], before[before >= 0]


@cached_whole
def _before_on_stream(timeline: Timeline) -> Array:
    # The operation before each one on its stream, -1 for none; migrations are on none.
    ops = timeline.whole.ops
    mine = np.flatnonzero((ops.stream != MISSING) & (ops.kind != OpKind.MIGRATION) & ops.timed)
    stream, _ = factorize(ops.pid[mine], ops.stream[mine])
    order = np.argsort(stream, kind="stable")  # operations are sorted by start
    result = np.full(len(ops), -1, np.int64)
    same = stream[order[1:]] == stream[order[:-1]]
    result[mine[order[1:][same]]] = mine[order[:-1][same]]
    return result


def _of_processes(timeline: Timeline, rows: dict[str, Array]) -> Iterator[Array]:
    ops, calls = timeline.ops, timeline.calls
    is_wait = called("stream_wait")
    waiting = [i for i, name in timeline.call_names.items() if is_wait(name)]
    launched = np.flatnonzero(
        has_correlation(ops.correlation) & (ops.kind != OpKind.MIGRATION) & ops.timed
    )
    waits = np.flatnonzero(np.isin(calls.name_id, waiting))
    for pid in distinct(rows["pid"]).tolist():
        own = calls.correlation[waits[calls.pid[waits] == pid]]
        here = (rows["pid"] == pid) & np.isin(rows["correlation_id"], own)
        wait_on, wait, record, record_on = (rows[name][here] for name in _OF_SYNC[1:])
        streams = _Streams(timeline, launched[ops.pid[launched] == pid])
        op = streams.launched(wait_on, wait, after=True)
        on = streams.launched(record_on, record, after=False)
        found = (op >= 0) & (on >= 0) & (op != on)
        yield np.stack((op[found], on[found]))


class _Streams:
    # The operations of a process, by stream in the order of their launches: that of correlation ids,
    # which the profiler counts up. The call that recorded an event need not be recorded.

    def __init__(self, timeline: Timeline, ops: Array) -> None:
        number, stream = timeline.ops.correlation[ops], timeline.ops.stream[ops]
        order = np.lexsort((number, stream))
        self._ops, self._number, self._stream = ops[order], number[order], stream[order]

    def launched(self, streams: Array, numbers: Array, *, after: bool) -> Array:
        """Return the operation launched on each stream just before, or after, each call, -1 for none."""
        result = np.full(len(streams), -1, np.int64)
        for stream in distinct(streams).tolist():
            first, past = np.searchsorted(self._stream, (stream, stream + 1)).tolist()
            here = np.flatnonzero(streams == stream)
            place = first + np.searchsorted(self._number[first:past], numbers[here])
            place -= not after
            inside = (place >= first) & (place < past)
            result[here[inside]] = self._ops[place[inside]]
        return result
