"""Kernels with the calls that launched them, as `nsys stats` takes their times apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.queries.contract import Array, Request
from nsysconv.queries.stats.kernels import kernel_names
from nsysconv.report import MISSING
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.timeline import Timeline


@dataclass(frozen=True)
class Launched:
    """Columns of equal length, one entry per kernel whose call is recorded, by the start of its call.

    `queue` and `total` are MISSING where they are not known: the queue time is the time from the end of
    the call to the start of the kernel, unless that is negative; the total is the time from the start
    of the call to the end of both.
    """

    call: Array
    row: Array
    start: Array
    end: Array
    queue: Array
    total: Array
    device: Array
    name: Array
    names: list[str]


def launched(timeline: Timeline, request: Request) -> Launched:
    """The slice's kernels whose call is recorded."""
    ops, calls = timeline.ops, timeline.calls
    mine = np.flatnonzero((ops.kind == OpKind.KERNEL) & (timeline.owner >= 0) & ops.timed)
    mine = mine[np.lexsort((ops.start[mine], calls.start[timeline.owner[mine]]))]
    call, start, end = timeline.owner[mine], ops.start[mine], ops.end[mine]
    told = not timeline.clocks_disagree
    queue = start - calls.end[call]
    total = np.maximum(end, calls.end[call]) - calls.start[call]
    names = kernel_names(timeline, request)
    place = np.cumsum(timeline.rows("kernel")) - 1
    return Launched(
        call=call,
        row=ops.row[mine],
        start=start,
        end=end,
        queue=np.where(told & (queue >= 0), queue, MISSING),
        total=np.where(told, total, MISSING),
        device=ops.device[mine],
        name=names.number[place[ops.row[mine]]],
        names=names.texts,
    )


def ordinals(timeline: Timeline) -> dict[int, int]:
    """device_id -> the CUDA ordinal, where it is recorded."""
    rows = timeline.profile.rows("device")
    return {row["device_id"]: row["ordinal"] for row in rows if row["ordinal"] is not None}
