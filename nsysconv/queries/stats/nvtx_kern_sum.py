"""Kernel time by NVTX range and kernel: a kernel counts in every range that its launch lies in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import DURATION_DOCS, printed, statistics_columns, sum_column
from nsysconv.queries.contract import Array, ColumnValues, Option, Query, Request
from nsysconv.queries.stats import nvtx_ranges
from nsysconv.queries.stats.cuda_names import kernel_calls, kernel_names
from nsysconv.report import MISSING, Column
from nsysconv.timeline.arrays import Statistics, by_group, factorize, sums, weighted_statistics
from nsysconv.timeline.nesting import Containments, Tree, containments
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    printed(
        "NVTX Range",
        Column(
            "range",
            Unit.TEXT,
            f"{nvtx_ranges.NAME.doc} Null: no range, the kernels that were launched outside of all.",
            key=True,
        ),
    ),
    printed(
        "Style", Column("style", Unit.TEXT, f"{nvtx_ranges.STYLE.doc} Null: no range.", key=True)
    ),
    printed(
        "PID",
        Column(
            "pid",
            Unit.ID,
            "The process that launched them; null: their launch was not recorded.",
            key=True,
        ),
    ),
    printed("TID", Column("tid", Unit.ID, "The thread that launched them.", key=True)),
    printed("NVTX Inst", Column("range_count", Unit.COUNT, "Ranges that they were launched in.")),
    printed("Kern Inst", Column("kernel_count", Unit.COUNT, "Executions.")),
    printed(
        "Total Time (ns)",
        sum_column(
            "kernel_sum_ns",
            "Sum of their durations; of a kernel in two ranges of the name, one in the other, twice.",
            "kernel_count",
        ),
    ),
    *statistics_columns(
        DURATION_DOCS, header="{} (ns)", brief=("avg", "med", "min", "max", "stddev")
    ),
    printed("Kernel Name", Column("name", Unit.TEXT, "Name of the kernel.", key=True)),
)

_NO_RANGE = -1
_NO_PLACES = np.empty(0, np.int64)


@dataclass(frozen=True)
class _Kernels:
    """Executions of kernels: their call (-1: not recorded), duration and number of their name."""

    call: Array
    dur: Array
    name: Array
    names: tuple[str, ...]


@dataclass(frozen=True)
class _ThreadRows:
    """Rows of the table of one thread; `range` and `kind` are _NO_RANGE outside of all ranges."""

    pid: int | None
    tid: int | None
    range: Array
    kind: Array
    kernel: Array
    range_count: Array
    statistics: Statistics


def _summary(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per range, thread and kernel, by range and thread, most kernel time first."""
    # All ranges, whatever the slice: they say of its kernels where they were launched.
    tree, _ = nvtx_ranges.own_thread_tree(timeline)
    kernels = _kernels(timeline, request)
    rows = [(r, i) for r in _thread_rows(timeline, tree, kernels) for i in range(len(r.kernel))]
    texts = tree.spans.names

    def order(row: tuple[_ThreadRows, int]) -> tuple[Any, ...]:
        r, i = row
        name = r.range[i]
        return (
            (name != _NO_RANGE, texts[name] if name != _NO_RANGE else ""),
            (r.pid is not None, r.pid or 0),
            (r.tid is not None, r.tid or 0),
            -int(max(r.statistics.total[i], 0)),
            r.kind[i],
            kernels.names[r.kernel[i]],
        )

    rows.sort(key=order)
    statistics = [(r.statistics, i) for r, i in rows]
    return {
        "range": [None if r.range[i] == _NO_RANGE else texts[r.range[i]] for r, i in rows],
        "style": [nvtx_ranges.STYLES.get(int(r.kind[i])) for r, i in rows],
        "pid": [r.pid for r, _ in rows],
        "tid": [r.tid for r, _ in rows],
        "range_count": [r.range_count[i] for r, i in rows],
        "kernel_count": [s.count[i] for s, i in statistics],
        "kernel_sum_ns": [s.total[i] for s, i in statistics],
        "avg_ns": [s.mean[i] for s, i in statistics],
        "med_ns": [s.median[i] for s, i in statistics],
        "min_ns": [s.minimum[i] for s, i in statistics],
        "max_ns": [s.maximum[i] for s, i in statistics],
        "stddev_ns": [s.deviation[i] for s, i in statistics],
        "name": [kernels.names[r.kernel[i]] for r, i in rows],
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
    compute=_summary,
)


def _kernels(timeline: Timeline, request: Request) -> _Kernels:
    spelling = replace(request, options={"nvtx-name": False, **request.options})
    names = kernel_names(timeline, spelling)
    # Names of one text are one here, whatever the source takes them for.
    numbers: dict[str, int] = {}
    by_text = np.array([numbers.setdefault(text, len(numbers)) for text in names.texts], np.int64)
    dur = timeline.columns("kernel", ("dur_ns",))["dur_ns"]
    return _Kernels(kernel_calls(timeline), dur, by_text[names.number], tuple(numbers))


def _thread_rows(timeline: Timeline, tree: Tree, kernels: _Kernels) -> Iterator[_ThreadRows]:
    calls, spans = timeline.calls, tree.spans
    unlinked = np.flatnonzero(kernels.call < 0)
    if len(unlinked):
        yield _outside(None, None, kernels, unlinked)
    linked = np.flatnonzero(kernels.call >= 0)
    ranges_by_thread = nvtx_ranges.by_thread(spans)
    groups = by_group(calls.thread[kernels.call[linked]], len(calls.threads))
    for (pid, tid), members in zip(calls.threads, groups, strict=True):
        if not len(members):
            continue
        launched = linked[members]
        recorded = None if tid == MISSING else tid
        places = _NO_PLACES if recorded is None else ranges_by_thread.get((pid, tid), _NO_PLACES)
        call, is_outside = kernels.call[launched], np.ones(len(launched), bool)
        group, (names, kinds) = factorize(spans.name[places], spans.kind[places])
        for pairs in containments(
            group.astype(np.int64),
            spans.start[places],
            spans.end[places],
            calls.start[call],
            calls.end[call],
            kernels.name[launched],
        ):
            is_outside[pairs.item] = False
            yield _inside(pid, recorded, kernels, launched, pairs, names, kinds)
        if is_outside.any():
            yield _outside(pid, recorded, kernels, launched[is_outside])


def _outside(pid: int | None, tid: int | None, kernels: _Kernels, launched: Array) -> _ThreadRows:
    """Return the rows of kernels that were launched outside of all ranges."""
    group, (kernel,) = factorize(kernels.name[launched])
    none, once = np.full(len(kernel), _NO_RANGE), np.ones(len(launched), np.int64)
    statistics = weighted_statistics(group, kernels.dur[launched], once, len(kernel))
    return _ThreadRows(pid, tid, none, none, kernel, np.zeros(len(kernel), np.int64), statistics)


def _inside(
    pid: int,
    tid: int | None,
    kernels: _Kernels,
    launched: Array,
    pairs: Containments,
    names: Array,
    kinds: Array,
) -> _ThreadRows:
    """Return the rows of ranges and the kernels that were launched in them.

    Of a kernel in several ranges of one name the time counts in each.
    """
    kernel = launched[pairs.item]
    group, (ranges, name) = factorize(pairs.group, kernels.name[kernel])
    count = len(name)
    return _ThreadRows(
        pid,
        tid,
        names[ranges],
        kinds[ranges],
        name,
        sums(group, pairs.fresh, count),
        weighted_statistics(group, kernels.dur[kernel], pairs.around, count),
    )
