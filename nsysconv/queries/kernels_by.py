"""Kernels by name in each step, or in each innermost range: what takes most there."""

from __future__ import annotations

import numpy as np

from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    PID,
    PROCESS_RANK,
    PROFILE,
    count_column,
    key_column,
    rows_at,
    statistics_columns,
    statistics_values,
    sum_column,
)
from nsysconv.queries.contract import Array, ColumnValues, Request, View
from nsysconv.queries.event_lanes import NO_NAME, kernel_ids_of
from nsysconv.queries.stats.cuda_names import ranges_around
from nsysconv.report import Column, Unit
from nsysconv.timeline.annotations import exact_ranges, shown_ranges
from nsysconv.timeline.arrays import factorize, grouped_statistics, percent, sums
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.steps import steps, steps_of_ops
from nsysconv.timeline.timeline import Timeline

NO_RANGE = "[no range]"

_OF_KERNELS = (
    key_column("name", "Demangled kernel name (`--names` selects other spellings)."),
    count_column("kernel_count", "Executions launched there."),
    sum_column("kernel_sum_ns", "Sum of their durations.", "kernel_count"),
    Column(
        "kernel_pct", Unit.PCT, "Share of the kernel time launched there.", better="less", real=True
    ),
    *statistics_columns({"avg": "Mean duration.", "min": "Shortest.", "max": "Longest."}),
)
STEP_COLUMNS = (
    PROFILE,
    PROCESS_RANK,
    PID,
    key_column("step", "Step of the process in which the kernel was launched."),
    Column(
        "occurrence",
        Unit.ID,
        "Number of the step among those of the same name, from 1.",
        key=True,
        brief=False,
    ),
    *_OF_KERNELS,
)
RANGE_COLUMNS = (
    PROFILE,
    PROCESS_RANK,
    PID,
    key_column("range", f"Innermost range around the launch; {NO_RANGE}: none."),
    *_OF_KERNELS,
)
VIEWS = {
    "step": View("Kernels by step and name", STEP_COLUMNS),
    "range": View("Kernels by innermost range and name", RANGE_COLUMNS),
}


def by_step(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per step of a process and name, steps in their order, most time first.

    A kernel is of the step in which it was launched; kernels in no step have no row. Raises NotRecorded
    where no step is known.
    """
    found = steps(timeline, request.steps)
    if not found:
        raise NotRecorded("kernels:by=step", [f"steps: {request.steps.absent}"])
    kernels = _kernels(timeline)
    step = steps_of_ops(timeline, request.steps, kernels)
    inside = step >= 0
    kernels, step = kernels[inside], step[inside]
    of_process = {mine.pid: mine for mine in found}
    values, places = _rows(timeline, request, kernels, step)
    of_row = [*zip(map(of_process.get, values["pid"].tolist()), places.tolist(), strict=True)]
    return {
        **values,
        "step": [mine and mine.name[place] for mine, place in of_row],
        "occurrence": [mine and mine.occurrence[place] for mine, place in of_row],
    }


def by_range(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per process, range and name, ranges with most kernel time first."""
    if Fact.RANGES not in timeline.profile.facts:
        raise NotRecorded("kernels:by=range", [Fact.RANGES])
    spans, shown = exact_ranges(timeline), shown_ranges(timeline, request.range_names)
    names = np.full(len(spans.names) + 1, -1, np.int64)
    names[spans.name] = shown.name
    of_row = np.full(timeline.profile.row_count("kernel"), -1, np.int64)
    of_row[np.flatnonzero(timeline.rows("kernel"))] = names[ranges_around(timeline)[0]]
    kernels = _kernels(timeline)
    values, places = _rows(
        timeline, request, kernels, of_row[timeline.ops.row[kernels]], by_size=True
    )
    texts = [*shown.names, NO_RANGE]
    return {**values, "range": [texts[place] for place in places.tolist()]}


def _kernels(timeline: Timeline) -> Array:
    return np.flatnonzero((timeline.ops.kind == OpKind.KERNEL) & timeline.ops.timed)


def _rows(
    timeline: Timeline, request: Request, kernels: Array, place: Array, *, by_size: bool = False
) -> tuple[dict[str, Array], Array]:
    # Rows of kernels, operations, by process, by the place that each is in, and by name; and the place
    # of each row. Places go by their kernel time, or as they are numbered.
    ops, top = timeline.ops.take(kernels), request.options["top"]
    name_ids = kernel_ids_of(timeline, request)[ops.row]
    group, (places, pids, ids) = factorize(place, ops.pid, name_ids)
    statistics = grouped_statistics(group, ops.dur, len(ids))
    of_place, _ = factorize(places, pids)
    whole = sums(of_place, statistics.total, int(of_place.max(initial=-1)) + 1)[of_place]
    first = -whole if by_size else places
    order = np.lexsort((ids, -statistics.total, of_place, first))
    if top:
        # The rows of one place follow each other.
        new = np.diff(of_place[order], prepend=-1) != 0
        begin = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
        order = order[np.arange(len(order)) - begin < top]
    texts = timeline.profile.names(np.unique(ids))
    values = {
        "pid": pids,
        "rank": [timeline.ranks.get(pid) for pid in pids.tolist()],
        "name": [texts.get(i, NO_NAME) for i in ids.tolist()],
        "kernel_count": statistics.count,
        "kernel_sum_ns": statistics.total,
        "kernel_pct": percent(statistics.total, np.maximum(whole, 1)),
        **{name: statistics_values(statistics)[name] for name in ("avg_ns", "min_ns", "max_ns")},
    }
    return dict(rows_at(values, order)), places[order]
