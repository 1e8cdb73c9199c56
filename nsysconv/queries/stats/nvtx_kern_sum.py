"""Kernel time by NVTX range and kernel: a kernel counts in every range that its launch lies in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    DURATION_DOCS,
    key_column,
    printed,
    statistics_by_header,
    sum_column,
)
from nsysconv.queries.contract import Array, ColumnValues, Option, Query, Request
from nsysconv.queries.stats import nvtx_ranges
from nsysconv.queries.stats.cuda_names import kernel_calls, kernel_names
from nsysconv.queries.values import rows_at, statistics_values, values_by_column
from nsysconv.report import MISSING, Column
from nsysconv.timeline.arrays import Statistics, by_group, factorize, sums, weighted_statistics
from nsysconv.timeline.nesting import Tree, containments
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = printed(
    {
        "NVTX Range": key_column(
            "range",
            f"{nvtx_ranges.NAME.doc} Null: no range, the kernels that were launched outside of all.",
        ),
        "Style": key_column("style", f"{nvtx_ranges.STYLE.doc} Null: no range."),
        "PID": Column(
            "pid",
            Unit.ID,
            "The process that launched them; null: their launch was not recorded.",
            key=True,
        ),
        "TID": Column("tid", Unit.ID, "The thread that launched them.", key=True),
        "NVTX Inst": Column("range_count", Unit.COUNT, "Ranges that they were launched in."),
        "Kern Inst": Column("kernel_count", Unit.COUNT, "Executions."),
        "Total Time (ns)": sum_column(
            "kernel_sum_ns",
            "Sum of their durations; of a kernel in two ranges of the name, one in the other, twice.",
            "kernel_count",
        ),
        **statistics_by_header("{} (ns)", DURATION_DOCS, brief=DURATION_DOCS),
        "Kernel Name": key_column("name", "Name of the kernel."),
    }
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


def _summary(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per range, thread and kernel, by range and thread, most kernel time first."""
    # All ranges, whatever the slice: they say of its kernels where they were launched.
    tree, _ = nvtx_ranges.own_thread_tree(timeline)
    kernels = _kernels(timeline, request)
    by_thread = list(_thread_rows(timeline, tree, kernels))
    if not by_thread:
        return values_by_column([], COLUMNS)
    rows = {name: np.concatenate([each[name] for each in by_thread]) for name in by_thread[0]}
    texts = tree.spans.names
    ranges = [None if i == _NO_RANGE else texts[i] for i in rows.pop("range").tolist()]
    kinds = rows.pop("kind").tolist()
    names = [kernels.names[i] for i in rows.pop("kernel").tolist()]
    pids, tids = rows["pid"].tolist(), rows["tid"].tolist()
    spent = np.maximum(rows["kernel_sum_ns"], 0).tolist()
    order = sorted(
        range(len(names)),
        key=lambda i: (
            (ranges[i] is not None, ranges[i] or ""),
            *(pids[i], tids[i], -spent[i], kinds[i], names[i]),
        ),
    )
    styles = [nvtx_ranges.STYLES.get(kind) for kind in kinds]
    return rows_at({**rows, "range": ranges, "style": styles, "name": names}, order)


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


def _thread_rows(timeline: Timeline, tree: Tree, kernels: _Kernels) -> Iterator[dict[str, Array]]:
    """Yield the rows of each thread by column; `range` and `kind` are _NO_RANGE outside of all."""
    calls, spans = timeline.calls, tree.spans
    unlinked = np.flatnonzero(kernels.call < 0)
    if len(unlinked):
        yield _outside(MISSING, MISSING, kernels, unlinked)
    linked = np.flatnonzero(kernels.call >= 0)
    ranges_by_thread = nvtx_ranges.by_thread(spans)
    groups = by_group(calls.thread[kernels.call[linked]], len(calls.threads))
    for (pid, tid), members in zip(calls.threads, groups, strict=True):
        if not len(members):
            continue
        launched = linked[members]
        places = _NO_PLACES if tid == MISSING else ranges_by_thread.get((pid, tid), _NO_PLACES)
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
            kernel = launched[pairs.item]
            pair_group, (ranges, name) = factorize(pairs.group, kernels.name[kernel])
            # Of a kernel in several ranges of one name the time counts in each.
            times = weighted_statistics(pair_group, kernels.dur[kernel], pairs.around, len(name))
            range_count = sums(pair_group, pairs.fresh, len(name))
            yield _rows(pid, tid, names[ranges], kinds[ranges], name, range_count, times)
        if is_outside.any():
            yield _outside(pid, tid, kernels, launched[is_outside])


def _outside(pid: int, tid: int, kernels: _Kernels, launched: Array) -> dict[str, Array]:
    group, (kernel,) = factorize(kernels.name[launched])
    none, once = np.full(len(kernel), _NO_RANGE), np.ones(len(launched), np.int64)
    times = weighted_statistics(group, kernels.dur[launched], once, len(kernel))
    return _rows(pid, tid, none, none, kernel, np.zeros(len(kernel), np.int64), times)


def _rows(
    pid: int, tid: int, ranges: Array, kind: Array, kernel: Array, count: Array, times: Statistics
) -> dict[str, Array]:
    return {
        "pid": np.full(len(kernel), pid),
        "tid": np.full(len(kernel), tid),
        "range": ranges,
        "kind": kind,
        "kernel": kernel,
        "range_count": count,
        "kernel_count": times.count,
        "kernel_sum_ns": times.total,
        **statistics_values(times),
    }
