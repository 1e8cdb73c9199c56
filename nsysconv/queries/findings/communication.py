"""Rules on communication and on work that is split unequally, over devices and over ranks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from nsysconv.queries.contract import Array
from nsysconv.queries.findings.contract import (
    NAMES_CALL,
    NAMES_RANGE,
    Found,
    Scene,
    counted,
    remaining,
)
from nsysconv.queries.kernel_categories import computes
from nsysconv.queries.stragglers import Waits
from nsysconv.report import Unit, human
from nsysconv.threads import cached_in
from nsysconv.timeline.annotations import ranges, which_named
from nsysconv.timeline.arrays import take
from nsysconv.timeline.collective_messages import MESSAGE_COLUMNS, messages
from nsysconv.timeline.collectives import run_on_the_gpu
from nsysconv.timeline.events import event_id
from nsysconv.timeline.intervals import Union, difference, union
from nsysconv.timeline.kernel_categories import communicates, kernel_names

_SMALL_BYTES = 1 << 20
# As PyTorch names the ranges on gloo's threads.
# Sends, and all-to-all, which NCCL and RCCL make of them.
_EXCHANGE = re.compile(r"SendRecv|AllToAll", re.IGNORECASE)
_ON_THE_HOST = re.compile(r"gloo:")
# Who waited for less than this part of what the longest did waited for nothing.
_WAITED_PARTS = 100


@dataclass(frozen=True)
class Exposure:
    """The communication of a device in its window, which is that long: kernels by their rows, and when
    there was one and no computation.
    """

    row: Array
    start: Array
    end: Array
    alone: Union
    window_ns: int

    def moved(self, move: Callable[[Array], Array]) -> Exposure:
        """Return it with other times; what has no length then is gone."""
        alone = union(move(self.alone.starts), move(self.alone.ends))
        return Exposure(self.row, move(self.start), move(self.end), alone, self.window_ns)

    def found(self) -> Found:
        """Measure exposed communication."""
        each = self.alone.covered(self.start, self.end)
        longest = int(each.argmax()) if len(each) else 0
        time = self.alone.measure
        return Found(
            100 * time / self.window_ns if self.window_ns else 0.0,
            time,
            {"all": human(union(self.start, self.end).measure, Unit.NS)},
            event=event_id("kernel", int(self.row[longest])) if len(each) else None,
            most_ns=int(each.max(initial=0)),
            when=lambda: self.alone,
        )


@cached_in("measured")
def exposure(scene: Scene) -> Exposure:
    """Return the communication of a device."""
    talks = scene.of_ops(communicates(scene.timeline))
    ops = scene.ops.take(np.flatnonzero(talks))
    pieces = scene.window.pieces(ops.start, ops.end)
    row, start, end = ops.row[pieces.interval], pieces.starts, pieces.ends
    alone = union(start, end)
    if len(alone.starts):
        works = computes(scene.ops, talks)
        alone = difference(alone, union(scene.ops.start, scene.ops.end, works))
    return Exposure(row, start, end, alone, scene.window.length)


def exposed_communication(scene: Scene) -> Found | None:
    """Measure exposed communication; say whether most of it has no buckets that could be larger."""
    measured = exposure(scene)
    found = measured.found()
    if not scene.speaks("exposed_communication", found):
        return found
    places, names = kernel_names(scene.timeline)
    exchanges = np.array([bool(name and _EXCHANGE.search(name)) for name in names])
    each = measured.alone.covered(measured.start, measured.end)
    exchanged = int(each[exchanges[places[measured.row]]].sum())
    return replace(found, case="exchange" if 2 * exchanged > found.time_ns else "")


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
    when = partial(remaining, union(start, start + dur), computing, scene.window)
    time = when().measure
    details = {
        "count": counted(len(start), "all-reduce", "all-reduces"),
        "mean": human(size[small].mean(), Unit.BYTES),
    }
    return Found(scene.of_window(time), time, details, when=when, names=NAMES_CALL)


def host_collectives(scene: Scene) -> Found | None:
    """Measure the idle time in the window while the host was in collectives of gloo."""
    spans = ranges(scene.timeline)
    pids = scene.timeline.pids_on(scene.device)
    mine = spans.take(which_named(spans, _ON_THE_HOST.match) & np.isin(spans.pid, pids))
    if not len(mine):
        return None
    when = partial(remaining, union(mine.start, mine.end), scene.busy, scene.window)
    time = when().measure
    details = {"count": counted(len(mine), "collective", "collectives")}
    event = event_id("range", int(mine.row[(mine.end - mine.start).argmax()]))
    share = scene.of_window(time)
    return Found(share, time, details, event=event, when=when, names=NAMES_RANGE)


def straggler(waits: Waits, span_ns: int, exposed: Mapping[str, int]) -> tuple[int, Found]:
    """Measure what ranks waited for the one that made them wait most; say which that is.

    What could be saved of it is at most what of their communication is `exposed`, in ns by profile, on
    average; of those that are not in it nothing is left out.
    """
    top = int(waits.by_last.sum(axis=1).argmax())
    who_waited = _is_noteworthy(waits.by_last[top])
    waited = take(waits.by_last[top], who_waited)
    whole, others = round(waited.mean()), len(waits.who) - 1
    if len(waited) == others:
        who = "The other ranks" if others > 1 else "The other rank"
    else:
        who = f"{len(waited):,} of the {others:,} other ranks"
    labels = [waits.who[i]["profile"] for i in np.flatnonzero(who_waited).tolist()]
    parts = [
        min(exposed.get(label, ns), ns) for label, ns in zip(labels, waited.tolist(), strict=True)
    ]
    time = round(sum(parts) / len(parts))
    details = {
        "who": who,
        "each": " each on average" if len(waited) > 1 else "",
        "waited": human(whole, Unit.NS),
        "exposed": f", {human(time, Unit.NS)} of it without overlapping computation"
        if time < whole
        else "",
    }
    most = int(waits.most[top]) * time // max(1, int(waits.by_last[top].sum()))
    share = 100 * time / span_ns if span_ns else 0.0
    return top, Found(share, time, details, most_ns=most, names=NAMES_CALL)


def collective_wait(waits: Waits, straggler: int) -> tuple[int, Found] | None:
    """Measure what ranks waited for others than this one; say which rank waited most in total."""
    others = np.arange(len(waits.who)) != straggler
    waited = waits.by_last[others].sum(axis=0)
    total = int(waited.sum())
    if not total or not waits.lasted:
        return None
    noteworthy = take(waited, _is_noteworthy(waited))
    time = round(noteworthy.mean())
    details = {"count": counted(len(noteworthy), "rank", "ranks")}
    most = int(waits.most[others].max()) * time // total
    found = Found(100 * total / waits.lasted, time, details, most_ns=most)
    return int(waits.by_last.sum(axis=0).argmax()), found


def _is_noteworthy(waited: Array) -> Array:
    mask: Array = (waited > 0) & (_WAITED_PARTS * waited >= waited.max())
    return mask


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
