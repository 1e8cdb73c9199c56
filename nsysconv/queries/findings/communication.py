"""Rules on communication and on work that is split unequally, over devices and over ranks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from nsysconv.codes import MPI_KINDS
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
from nsysconv.timeline.arrays import factorize, sums, take
from nsysconv.timeline.collective_messages import MESSAGE_COLUMNS, messages
from nsysconv.timeline.collectives import run_on_the_gpu
from nsysconv.timeline.events import event_id, has_time
from nsysconv.timeline.intervals import Union, difference, union
from nsysconv.timeline.kernel_categories import communicates, kernel_names

_SMALL_BYTES = 1 << 20
# Sends, and all-to-all, which NCCL and RCCL make of them.
_EXCHANGE = re.compile(r"SendRecv|AllToAll", re.IGNORECASE)
# As PyTorch names the ranges on gloo's threads, and wrappers of MPI those of its functions.
_MPI = re.compile(r"P?MPI_(?!Init|Finalize)")
ON_THE_HOST = re.compile(rf"gloo:|{_MPI.pattern}")
"""What matches the names of ranges in which the host exchanges data with other ranks."""
_OTHER_MPI = MPI_KINDS.index("other")
# Who waited for less than this part of what the longest did waited for nothing.
_WAITED_PARTS = 100
# One rank is late if others waited for it so many times as long as for any other one.
_TIMES_THE_NEXT = 2


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


@dataclass(frozen=True)
class _Exchanges:
    # The calls in which the host exchanges data with other ranks, with their rows: first those that are
    # ranges.
    start: Array
    end: Array
    name: Array
    names: tuple[str, ...]
    row: Array
    range_count: int


@cached_in("measured")
def host_collectives(scene: Scene) -> Found | None:
    """Measure the idle time in the window while the host itself exchanged data with other ranks."""
    made = _exchanges(scene)
    if not len(made.start):
        return None
    exchanged = union(made.start, made.end)
    when = partial(remaining, exchanged, scene.busy, scene.window)
    time = when().measure
    top = made.names[int(sums(made.name, made.end - made.start, len(made.names)).argmax())]
    details = {"count": f"{counted(len(made.start), 'call', 'calls')}, most of it in {top}"}
    longest = int((made.end - made.start).argmax())
    kind = "range" if longest < made.range_count else "mpi_call"
    event, case = event_id(kind, int(made.row[longest])), "mpi" if _MPI.match(top) else ""
    share = scene.of_window(time)
    return Found(share, time, details, event=event, when=when, names=NAMES_RANGE, case=case)


def exchanging(scene: Scene) -> Union:
    """Return when the host itself exchanged data with other ranks, if that is a finding; else nothing."""
    made, is_finding = _exchanges(scene), scene.has("host_collectives", host_collectives)
    return union(made.start, made.end, np.full(len(made.start), is_finding))


@cached_in("measured")
def _exchanges(scene: Scene) -> _Exchanges:
    # MPI's calls, which a profile has as such or as ranges, and gloo's ranges.
    pids = scene.timeline.pids_on(scene.device)
    spans = ranges(scene.timeline)
    mine = spans.take(which_named(spans, ON_THE_HOST.match) & np.isin(spans.pid, pids))
    column = scene.timeline.columns("mpi_call", ("start_ns", "dur_ns", "pid", "kind", "name_id"))
    row = np.flatnonzero(
        has_time(column) & np.isin(column["pid"], pids) & (column["kind"] != _OTHER_MPI)
    )
    start = np.concatenate((mine.start, column["start_ns"][row]))
    dur = np.concatenate((mine.end - mine.start, column["dur_ns"][row]))
    place, (ids,) = factorize(column["name_id"][row])
    texts = scene.timeline.profile.names(ids)
    names = (*mine.names, *(texts.get(i, "MPI") for i in ids.tolist()))
    rows = np.concatenate((mine.row, row))
    name = np.concatenate((mine.name, place + len(mine.names)))
    return _Exchanges(start, start + dur, name, names, rows, len(mine))


def late_rank(waits: Waits) -> int | None:
    """Return the place of the rank for which others waited twice as long as for any other; None: none."""
    by_rank = waits.by_last.sum(axis=1)
    second, first = np.sort(by_rank)[-2:].tolist()
    return int(by_rank.argmax()) if first >= _TIMES_THE_NEXT * second else None


def straggler(waits: Waits, top: int, span_ns: int, exposed: Mapping[str, int]) -> Found:
    """Measure what ranks waited for a late one.

    What could be saved of it is at most what of their communication is `exposed`, in ns by profile, on
    average; of those that are not in it nothing is left out.
    """
    who_waited = _is_noteworthy(waits.by_last[top])
    waited = take(waits.by_last[top], who_waited)
    whole, others = round(waited.mean()), len(waits.who) - 1
    if len(waited) == others:
        who = "The other ranks" if others > 1 else "The other rank"
    else:
        who = f"{len(waited):,} of the {others:,} other ranks"
    time = _mean_exposed(waits, waits.by_last[top], exposed)
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
    return Found(share, time, details, most_ns=most, names=NAMES_CALL)


def _mean_exposed(waits: Waits, waited: Array, exposed: Mapping[str, int]) -> int:
    # The mean of those that waited, of each at most what of its communication is exposed.
    some = np.flatnonzero(_is_noteworthy(waited)).tolist()
    labels = [waits.who[i]["profile"] for i in some]
    times = zip(labels, waited[some].tolist(), strict=True)
    return round(sum(int(min(exposed.get(label, ns), ns)) for label, ns in times) / len(some))


def collective_wait(
    waits: Waits, late: int | None, exposed: Mapping[str, int]
) -> tuple[int, Found] | None:
    """Measure what ranks waited for others than a late one, as `straggler` does; say who waited most."""
    others = np.arange(len(waits.who)) != (-1 if late is None else late)
    waited = waits.by_last[others].sum(axis=0)
    total = int(waited.sum())
    if not total or not waits.lasted:
        return None
    time = _mean_exposed(waits, waited, exposed)
    details = {"count": counted(int(np.count_nonzero(_is_noteworthy(waited))), "rank", "ranks")}
    most = int(waits.most[others].max()) * time // total
    found = Found(100 * total / waits.lasted, time, details, most_ns=most, names=NAMES_CALL)
    return int(waited.argmax()), found


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
