"""Launches: API calls with what they launched on a GPU.

Definitions, with worked examples: docs/definitions.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv import schema
from nsysconv.report import MISSING
from nsysconv.timeline.groups import blocks, sums
from nsysconv.timeline.statistics import number
from nsysconv.timeline.timeline import Timeline, cached_whole

Array = np.ndarray


@dataclass(frozen=True)
class Launches:
    """Calls that launched operations with a time, in the order in which the first of those start.

    Columns of equal length. `call` is the index in Timeline.calls; `device`, `pid`, `stream` and
    `op_start` are those of the first operation, and `op_sum` is how long all of them took. `latency` is
    from the call's start to that of the operation and `queue` from its end; both are MISSING where they
    are negative, and everywhere if the clocks disagree.
    """

    call: Array
    device: Array
    pid: Array
    stream: Array
    op_start: Array
    op_sum: Array
    latency: Array
    queue: Array

    def __len__(self) -> int:
        return len(self.call)

    def take(self, which: Array) -> Launches:
        """The launches of a mask."""
        return Launches(**{name: column[which] for name, column in vars(self).items()})


def launches(timeline: Timeline) -> Launches:
    """The launches of a time line. Of a slice, those whose first operation belongs to it."""
    found, op = _launches(timeline)
    if timeline.is_whole:
        return found
    ops = timeline.whole.ops
    kept = np.zeros(len(found), bool)
    for kind, table in enumerate(schema.GPU_OP_TABLES):
        mine = ops.kind[op] == kind
        kept[mine] = timeline.rows(table)[ops.row[op[mine]]]
    return found.take(kept)


def first_ops(timeline: Timeline) -> Array:
    """Per call the index of the first operation with a time that it launched, -1 for none.

    Of a slice: as in the whole profile, to whose operations the indices belong.
    """
    ops, owner = timeline.whole.ops, timeline.whole.owner
    result = np.full(len(timeline.calls) + 1, -1, np.int32)
    # Sorted by start, those without one before all others: written backwards, the first one stays.
    untimed = len(ops) - int(np.count_nonzero(ops.timed))
    for block in reversed(list(blocks(len(ops)))):
        places = np.arange(max(block.start, untimed), block.stop, dtype=np.int32)[::-1]
        result[owner[places].astype(np.intp)] = places
    return result[:-1]  # owner -1 wrote into the one behind


@cached_whole
def _launches(timeline: Timeline) -> tuple[Launches, Array]:
    """All launches, and the index of each one's first operation."""
    whole = timeline.whole
    ops, owner, calls = whole.ops, whole.owner, whole.calls
    launched = np.flatnonzero((owner >= 0) & ops.timed)
    first = first_ops(timeline)
    op = np.sort(first[first >= 0])
    call = owner[op].astype(np.int64)
    start = ops.start[op]
    latency, queue = start - calls.start[call], start - calls.end[call]
    told = not timeline.clocks_disagree
    found = Launches(
        call=call,
        device=ops.device[op],
        pid=ops.pid[op],
        stream=ops.stream[op],
        op_start=start,
        op_sum=sums(owner[launched], ops.dur[launched], len(calls))[call],
        latency=np.where(told & (latency >= 0), latency, MISSING),
        queue=np.where(told & (queue >= 0), queue, MISSING),
    )
    return found, op


@dataclass(frozen=True)
class Queues:
    """The queue of each stream: how many of its launches had been called and had not started.

    `device`, `pid`, `stream` say which stream, and `waited` is the sum, in ns, of the times its
    launches waited: one entry per stream. The length changes when a launch's call begins (by +1) and
    when its first operation starts (by -1): `group`, `time` and `length` are these changes by stream
    and time, with the number of the stream and the length after them. Of changes at one moment, those
    by calls come first. Launches without a latency are left out.
    """

    device: Array
    pid: Array
    stream: Array
    waited: Array
    group: Array
    time: Array
    length: Array

    def at_least(self, length: int) -> Array:
        """Per stream the time, in ns, in which its queue was at least so long, from 1."""
        # A queue is empty after its last change, so that nothing is counted into the next stream's.
        lasts = np.diff(self.time, append=self.time[-1:])
        full = self.length >= length
        return sums(self.group[full], lasts[full], len(self.stream))


def queues(timeline: Timeline) -> Queues:
    """The queues of all streams on which something was launched, by device, process and stream."""
    found = launches(timeline)
    stream_of, (device, pid, stream) = number(found.device, found.pid, found.stream)
    known = found.latency != MISSING
    group, latency, started = stream_of[known], found.latency[known], found.op_start[known]
    groups = np.concatenate((group, group))
    times = np.concatenate((started - latency, started))
    change = np.repeat((1, -1), len(group))
    order = np.lexsort((-change, times, groups))
    # The changes of a stream add up to 0: one running sum serves all.
    length = np.cumsum(change[order])
    waited = sums(group, latency, len(stream))
    return Queues(device, pid, stream, waited, groups[order], times[order], length)
