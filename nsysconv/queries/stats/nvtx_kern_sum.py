"""Kernel time by NVTX range and kernel: a kernel counts in every range that its launch lies in."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import Data, Option, Request
from nsysconv.queries.stats import nvtx
from nsysconv.queries.stats.kernels import kernel_names, owners
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.calls import by_group, number_threads
from nsysconv.timeline.groups import counts
from nsysconv.timeline.statistics import Statistics, distinct, grouped_statistics, number
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.tree import Tree
from nsysconv.units import Unit

Array = np.ndarray

TITLE = "NVTX Range Kernel Summary"
NEEDS = frozenset({Fact.RANGES, Fact.KERNELS, Fact.API_LINKS})
USES = frozenset({Fact.API_CALLS})
TOTALS: frozenset[Fact] = frozenset()
OPTIONS = (
    Option("base", False, "Kernels by their short names."),
    Option("mangled", False, "Kernels by their symbols, where the source has them."),
)
COLUMNS = (
    Column(
        "range",
        Unit.TEXT,
        f"{nvtx.NAME} Null: no range, the kernels that were launched outside of all.",
        key=True,
        printed=Printed("NVTX Range"),
    ),
    Column("style", Unit.TEXT, f"{nvtx.STYLE} Null: no range.", key=True, printed=Printed("Style")),
    Column(
        "pid",
        Unit.ID,
        "The process that launched them; null: their launch was not recorded.",
        key=True,
        printed=Printed("PID"),
    ),
    Column("tid", Unit.ID, "The thread that launched them.", key=True, printed=Printed("TID")),
    Column(
        "range_count",
        Unit.COUNT,
        "Ranges that they were launched in.",
        printed=Printed("NVTX Inst"),
    ),
    Column("kernel_count", Unit.COUNT, "Executions.", printed=Printed("Kern Inst")),
    Column(
        "kernel_sum_ns",
        Unit.NS,
        "Sum of their durations; of a kernel in two ranges of the name, one in the other, twice.",
        better="less",
        counted_by="kernel_count",
        printed=Printed("Total Time (ns)"),
    ),
    Column(
        "avg_ns",
        Unit.NS,
        "Mean duration.",
        better="less",
        real=True,
        printed=Printed("Avg (ns)", 1),
    ),
    Column(
        "med_ns",
        Unit.NS,
        "Median duration (mean of the middle two).",
        better="less",
        real=True,
        printed=Printed("Med (ns)", 1),
    ),
    Column("min_ns", Unit.NS, "Shortest.", better="less", printed=Printed("Min (ns)")),
    Column("max_ns", Unit.NS, "Longest.", better="less", printed=Printed("Max (ns)")),
    Column(
        "stddev_ns",
        Unit.NS,
        "Sample standard deviation; 0 for one row.",
        better="less",
        real=True,
        printed=Printed("StdDev (ns)", 1),
    ),
    Column("name", Unit.TEXT, "Name of the kernel.", key=True, printed=Printed("Kernel Name")),
)

_NONE = -1  # stands for no range
_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True)
class _Kernels:
    """Executions of kernels: their call (-1: not recorded), duration and number of their name."""

    call: Array
    dur: Array
    name: Array
    names: tuple[str, ...]


@dataclass(frozen=True)
class _Rows:
    """Rows of the table of one thread; `range` and `kind` are _NONE outside of all ranges."""

    pid: int | None
    tid: int | None
    range: Array
    kind: Array
    kernel: Array
    range_count: Array
    kernel_count: Array
    stats: Statistics


def compute(timeline: Timeline, request: Request) -> Data:
    """One row per range, thread and kernel, by range and thread, most kernel time first."""
    # All ranges, whatever the slice: they say of its kernels where they were launched.
    tree, _ = nvtx.on_own_thread(timeline)
    kernels = _kernels(timeline, request)
    found = [(rows, i) for rows in _rows(timeline, tree, kernels) for i in range(len(rows.kernel))]
    texts = tree.spans.names

    def order(row: tuple[_Rows, int]) -> tuple[Any, ...]:
        rows, i = row
        name = rows.range[i]
        return (
            (name != _NONE, texts[name] if name != _NONE else ""),
            (rows.pid is not None, rows.pid or 0),
            (rows.tid is not None, rows.tid or 0),
            -int(max(rows.stats.total[i], 0)),
            rows.kind[i],
            kernels.names[rows.kernel[i]],
        )

    found.sort(key=order)
    stats = [(rows.stats, i) for rows, i in found]
    return {
        "range": [None if r.range[i] == _NONE else texts[r.range[i]] for r, i in found],
        "style": [nvtx.STYLES.get(int(r.kind[i])) for r, i in found],
        "pid": [r.pid for r, _ in found],
        "tid": [r.tid for r, _ in found],
        "range_count": [r.range_count[i] for r, i in found],
        "kernel_count": [r.kernel_count[i] for r, i in found],
        "kernel_sum_ns": [s.total[i] for s, i in stats],
        "avg_ns": [s.mean[i] for s, i in stats],
        "med_ns": [s.median[i] for s, i in stats],
        "min_ns": [s.minimum[i] for s, i in stats],
        "max_ns": [s.maximum[i] for s, i in stats],
        "stddev_ns": [s.deviation[i] for s, i in stats],
        "name": [kernels.names[r.kernel[i]] for r, i in found],
    }


def _rows(timeline: Timeline, tree: Tree, kernels: _Kernels) -> Iterator[_Rows]:
    calls, layer = timeline.calls, _layers(tree)
    loose = np.flatnonzero(kernels.call < 0)
    if len(loose):
        yield _grouped(None, None, kernels, [_outside(loose)], tree)
    linked = np.flatnonzero(kernels.call >= 0)
    ranges_of = nvtx.by_thread(tree.spans)
    members = by_group(calls.thread[kernels.call[linked]], len(calls.threads))
    for (pid, tid), mine in zip(calls.threads, members, strict=True):
        if not len(mine):
            continue
        which = linked[mine]
        places = ranges_of.get((pid, tid), _NOTHING) if tid != MISSING else _NOTHING
        pairs = list(_pairs(timeline, tree, places, layer, which, kernels))
        yield _grouped(pid, None if tid == MISSING else tid, kernels, pairs, tree)


def _pairs(
    timeline: Timeline, tree: Tree, places: Array, layer: Array, which: Array, kernels: _Kernels
) -> Iterator[_Pairs]:
    """The kernels with the ranges that their calls lie in: no kernel is twice in one item."""
    call = kernels.call[which]
    start, end = timeline.calls.start[call], timeline.calls.end[call]
    alone = np.ones(len(which), bool)
    for number_ in distinct(layer[places]).tolist():
        own = places[layer[places] == number_]
        at = np.searchsorted(tree.spans.start[own], start, side="right") - 1
        holder = own[np.maximum(at, 0)]
        inside = (at >= 0) & (tree.spans.end[holder] >= end)
        alone &= ~inside
        if inside.any():
            yield _Pairs(holder[inside], which[inside])
    if alone.any():
        yield _outside(which[alone])


@dataclass(frozen=True)
class _Pairs:
    """Kernels, each with the place of a range (_NONE: none)."""

    range: Array
    kernel: Array


def _outside(kernels: Array) -> _Pairs:
    return _Pairs(np.full(len(kernels), _NONE), kernels)


def _grouped(
    pid: int | None, tid: int | None, kernels: _Kernels, pairs: Sequence[_Pairs], tree: Tree
) -> _Rows:
    place = np.concatenate([each.range for each in pairs])
    kernel = np.concatenate([each.kernel for each in pairs])
    name, kind = np.full(len(place), _NONE), np.full(len(place), _NONE)
    inside = place != _NONE
    name[inside], kind[inside] = tree.spans.name[place[inside]], tree.spans.kind[place[inside]]
    group, (names, kinds, kernel_names) = number(name, kind, kernels.name[kernel])
    count = len(names)
    stats = grouped_statistics(group, kernels.dur[kernel], count)
    range_count, items = np.zeros(count, np.int64), np.zeros(count, np.int64)
    low = 0
    for each in pairs:
        own = group[low : low + len(each.kernel)]
        low += len(own)
        items += counts(own, count) > 0
        if each.range[0] != _NONE:
            range_count += counts(_first(each.range, own, count), count)
    kernel_count = stats.count.copy()
    # A range inside another of its name: their kernels are there twice.
    twice = items > 1
    if twice.any():
        some = twice[group]
        kernel_count[twice] = counts(_first(kernel[some], group[some], count), count)[twice]
    return _Rows(pid, tid, names, kinds, kernel_names, range_count, kernel_count, stats)


def _first(values: Array, group: Array, count: int) -> Array:
    """The groups of the distinct pairs of a value and a group."""
    result: Array = np.unique(values.astype(np.int64) * count + group) % count
    return result


def _layers(tree: Tree) -> Array:
    """Numbers for the ranges so that those of one thread with the same number do not overlap."""
    spans = tree.spans
    thread, _ = number_threads(spans.pid, spans.tid)
    order = np.lexsort((spans.start, tree.level, thread))
    same = (np.diff(thread[order]) == 0) & (np.diff(tree.level[order]) == 0)
    if not (same & (spans.start[order[1:]] < spans.end[order[:-1]])).any():
        return tree.level
    # Ranges cross each other: each takes the number of one that is over, or a new one.
    found: list[int] = []
    for places in nvtx.by_thread(spans).values():
        running: list[tuple[int, int]] = []
        for start, end in zip(
            spans.start[places].tolist(), spans.end[places].tolist(), strict=True
        ):
            over = running and running[0][0] <= start
            own = heapq.heappop(running)[1] if over else len(running)
            heapq.heappush(running, (end, own))
            found.append(own)
    return np.array(found, np.int64)


def _kernels(timeline: Timeline, request: Request) -> _Kernels:
    spelling = replace(request, options={"nvtx-name": False, **request.options})
    told = kernel_names(timeline, spelling)
    numbers: dict[str, int] = {}
    merged = np.array([numbers.setdefault(text, len(numbers)) for text in told.texts], np.int64)
    dur = timeline.columns("kernel", ("dur_ns",))["dur_ns"]
    return _Kernels(owners(timeline), dur, merged[told.number], tuple(numbers))
