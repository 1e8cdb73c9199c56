"""Kernel time by NVTX range and kernel: a kernel counts in every range that its launch lies in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Option, Query, Request
from nsysconv.queries.stats import nvtx
from nsysconv.queries.stats.kernels import kernel_names, owners
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import Statistics, by_group, factorize, sums, weighted_statistics
from nsysconv.timeline.nesting import Containments, Tree, containments
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

Array = np.ndarray

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
    stats: Statistics


def compute(timeline: Timeline, request: Request) -> ColumnValues:
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
        "kernel_count": [s.count[i] for s, i in stats],
        "kernel_sum_ns": [s.total[i] for s, i in stats],
        "avg_ns": [s.mean[i] for s, i in stats],
        "med_ns": [s.median[i] for s, i in stats],
        "min_ns": [s.minimum[i] for s, i in stats],
        "max_ns": [s.maximum[i] for s, i in stats],
        "stddev_ns": [s.deviation[i] for s, i in stats],
        "name": [kernels.names[r.kernel[i]] for r, i in found],
    }


NVTX_KERN_SUM = Query(
    title="NVTX Range Kernel Summary",
    needs={Fact.RANGES, Fact.KERNELS, Fact.API_LINKS},
    uses={Fact.API_CALLS},
    options=(
        Option("base", False, "Kernels by their short names."),
        Option("mangled", False, "Kernels by their symbols, where the source has them."),
    ),
    columns=COLUMNS,
    compute=compute,
)


def _rows(timeline: Timeline, tree: Tree, kernels: _Kernels) -> Iterator[_Rows]:
    calls, spans = timeline.calls, tree.spans
    loose = np.flatnonzero(kernels.call < 0)
    if len(loose):
        yield _outside(None, None, kernels, loose)
    linked = np.flatnonzero(kernels.call >= 0)
    ranges_of = nvtx.by_thread(spans)
    members = by_group(calls.thread[kernels.call[linked]], len(calls.threads))
    for (pid, tid), mine in zip(calls.threads, members, strict=True):
        if not len(mine):
            continue
        which = linked[mine]
        places = ranges_of.get((pid, tid), _NOTHING) if tid != MISSING else _NOTHING
        recorded = None if tid == MISSING else tid
        call, alone = kernels.call[which], np.ones(len(which), bool)
        group, (names, kinds) = factorize(spans.name[places], spans.kind[places])
        for inside in containments(
            group.astype(np.int64),
            spans.start[places],
            spans.end[places],
            calls.start[call],
            calls.end[call],
            kernels.name[which],
        ):
            alone[inside.item] = False
            yield _inside(pid, recorded, kernels, which, inside, names, kinds)
        if alone.any():
            yield _outside(pid, recorded, kernels, which[alone])


def _outside(pid: int | None, tid: int | None, kernels: _Kernels, which: Array) -> _Rows:
    """The rows of kernels that were launched outside of all ranges."""
    group, (kernel,) = factorize(kernels.name[which])
    none, once = np.full(len(kernel), _NONE), np.ones(len(which), np.int64)
    stats = weighted_statistics(group, kernels.dur[which], once, len(kernel))
    return _Rows(pid, tid, none, none, kernel, np.zeros(len(kernel), np.int64), stats)


def _inside(
    pid: int,
    tid: int | None,
    kernels: _Kernels,
    which: Array,
    inside: Containments,
    names: Array,
    kinds: Array,
) -> _Rows:
    """The rows of ranges and the kernels, of these, that lie in them. Of a kernel in several ranges of
    one name the time counts in each.
    """
    kernel = which[inside.item]
    group, (ranges, found) = factorize(inside.group, kernels.name[kernel])
    count = len(found)
    return _Rows(
        pid,
        tid,
        names[ranges],
        kinds[ranges],
        found,
        sums(group, inside.fresh, count),
        weighted_statistics(group, kernels.dur[kernel], inside.around, count),
    )


def _kernels(timeline: Timeline, request: Request) -> _Kernels:
    spelling = replace(request, options={"nvtx-name": False, **request.options})
    told = kernel_names(timeline, spelling)
    numbers: dict[str, int] = {}
    merged = np.array([numbers.setdefault(text, len(numbers)) for text in told.texts], np.int64)
    dur = timeline.columns("kernel", ("dur_ns",))["dur_ns"]
    return _Kernels(owners(timeline), dur, merged[told.number], tuple(numbers))
