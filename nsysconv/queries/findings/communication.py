"""Rules on communication and on work that is split unequally, over devices and over ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from nsysconv.queries.findings.contract import Found, Measure, Scene, counted, uncovered
from nsysconv.queries.kernel_categories import computes
from nsysconv.report import Unit, human
from nsysconv.timeline.annotations import ranges, which_named
from nsysconv.timeline.collective_messages import MESSAGE_COLUMNS, messages
from nsysconv.timeline.collectives import run_on_the_gpu
from nsysconv.timeline.events import event_id
from nsysconv.timeline.intervals import measure, union
from nsysconv.timeline.kernel_categories import communicates

_SMALL_BYTES = 1 << 20
# As PyTorch names the ranges on gloo's threads.
_ON_THE_HOST = re.compile(r"gloo:")


def exposed_communication(scene: Scene) -> Found | None:
    """Measure exposed communication."""
    timeline = scene.timeline
    talks = communicates(timeline)
    if timeline.ops_on(scene.device) is not timeline.ops:
        talks = talks[timeline.places_on(scene.device)]
    ops = timeline.ops_on(scene.device)
    whole = measure(ops.start, ops.end, scene.window.start, scene.window.end, talks & ops.timed)
    time = scene.times["communication"]
    event = scene.longest_op(scene.of_ops(communicates(timeline)))
    return Found(scene.of_window(time), time, {"all": human(whole, Unit.NS)}, event=event)


def bucket_size(scene: Scene) -> Found | None:
    """Measure small all-reduces with no computation beside them, where most collectives are such."""
    timeline = scene.timeline
    column = timeline.columns(
        "collective", ("start_ns", "dur_ns", "kind", "device_id", "name_id", *MESSAGE_COLUMNS)
    )
    which = run_on_the_gpu(column) & (column["device_id"] == scene.device)
    exchanged, place = messages(timeline, column, which)
    if not exchanged:
        return None
    size = np.array([each.size for each in exchanged], np.int64)[place]
    reduces = np.array([each.operation == "allreduce" for each in exchanged], bool)[place]
    small = reduces & (size >= 0) & (size < _SMALL_BYTES)
    if 2 * np.count_nonzero(small) <= np.count_nonzero(size >= 0):
        return None
    start, dur = column["start_ns"][which][small], column["dur_ns"][which][small]
    ops = scene.ops
    computing = union(ops.start, ops.end, computes(ops, scene.of_ops(communicates(timeline))))
    low, high = scene.window.start, scene.window.end
    time = uncovered(union(start, start + dur), computing, low, high)
    details = {
        "count": counted(len(start), "all-reduce", "all-reduces"),
        "mean": human(size[small].mean(), Unit.BYTES),
    }
    return Found(scene.of_window(time), time, details)


def host_collectives(scene: Scene) -> Found | None:
    """Measure the idle time in the window while the host was in collectives of gloo."""
    spans = ranges(scene.timeline)
    pids = scene.timeline.pids_on(scene.device)
    mine = spans.take(which_named(spans, _ON_THE_HOST.match) & np.isin(spans.pid, pids))
    if not len(mine):
        return None
    low, high = scene.window.start, scene.window.end
    time = uncovered(union(mine.start, mine.end), scene.busy, low, high)
    details = {"count": counted(len(mine), "collective", "collectives")}
    event = event_id("range", int(mine.row[(mine.end - mine.start).argmax()]))
    return Found(scene.of_window(time), time, details, event=event)


RULES: dict[str, Measure] = {
    "exposed_communication": exposed_communication,
    "host_collectives": host_collectives,
    "bucket_size": bucket_size,
}


def collective_wait(waited: Sequence[int], caused: Sequence[int], lasted: int) -> Found | None:
    """Measure what ranks waited for others than the one that made them wait most.

    `waited` and `caused` are sums over collectives by rank, `lasted` is the time of all of these.
    """
    rest = sum(caused) - max(caused, default=0)
    if not rest or not lasted:
        return None
    details = {"count": counted(len(waited), "rank", "ranks")}
    return Found(100 * rest / lasted, round(rest / len(waited)), details)


def imbalance(computed: Sequence[int]) -> tuple[int, Found] | None:
    """Measure how far the longest computation of devices or ranks lies above the mean; say which."""
    if len(computed) < 2 or not sum(computed):
        return None
    mean = sum(computed) / len(computed)
    top = max(range(len(computed)), key=lambda i: computed[i])
    details = {
        "most": human(computed[top], Unit.NS),
        "mean": human(mean, Unit.NS),
        "count": len(computed),
    }
    return top, Found((computed[top] / mean - 1) * 100, round(computed[top] - mean), details)
