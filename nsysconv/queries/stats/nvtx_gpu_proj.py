"""`nvtx_gpu_proj_sum` and `nvtx_gpu_proj_trace` of `nsys stats`: ranges projected on the GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    duration_column,
    printed,
    rows_at,
    statistics_columns,
    statistics_values,
    sum_column,
)
from nsysconv.queries.contract import Array, ColumnValues, Query, Request, Result
from nsysconv.queries.stats import nvtx_ranges
from nsysconv.report import MISSING, Column
from nsysconv.timeline.arrays import counts, factorize, grouped_statistics, sums
from nsysconv.timeline.nesting import Tree, deep_path_notes
from nsysconv.timeline.projection import Projection
from nsysconv.timeline.timeline import Timeline, cached
from nsysconv.units import Unit

_NEEDS = {Fact.RANGES, Fact.API_LINKS}
_USES = {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.GRAPH_LAUNCHES, Fact.API_CALLS}
_STYLE = printed("Style", nvtx_ranges.STYLE)


@dataclass(frozen=True)
class _ProjectedRanges:
    """Ranges with their projections.

    `rows` are the places of those of the slice that launched an operation; `child_count` counts, for
    each range, those directly inside it that did. `dur` is the time from the start of a range's first
    operation to the end of its last, MISSING where these have no times.
    """

    tree: Tree
    projection: Projection
    rows: Array
    child_count: Array
    dur: Array


@cached
def _projected_ranges(timeline: Timeline) -> _ProjectedRanges:
    tree, selected = nvtx_ranges.own_thread_tree(timeline)
    projection = nvtx_ranges.gpu_projection(timeline, tree.spans)
    launching = projection.launch_count > 0
    inside = launching & (tree.parent >= 0)
    timed = projection.start != MISSING
    return _ProjectedRanges(
        tree,
        projection,
        np.flatnonzero(selected & launching),
        counts(tree.parent[inside], len(tree)),
        np.where(timed, projection.end - projection.start, MISSING),
    )


# -- by name

_PROJECTION = "from the start of the first operation launched in a range to the end of the last"
_SUM_COLUMNS = (
    printed("Range", nvtx_ranges.NAME),
    _STYLE,
    printed(
        "Total Proj Time (ns)",
        duration_column(
            "projected_sum_ns",
            f"Sum of the projected times: {_PROJECTION}. Ranges inside are not taken off.",
        ),
    ),
    printed(
        "Total Range Time (ns)",
        sum_column("range_sum_ns", "Sum of the ranges' own durations.", "range_count"),
    ),
    printed(
        "Range Instances",
        Column("range_count", Unit.COUNT, "Ranges in which an operation was launched."),
    ),
    *statistics_columns(
        {
            "avg": "Mean projected time.",
            "med": "Median projected time (mean of the middle two).",
            "min": "Shortest.",
            "max": "Longest.",
            "stddev": "Sample standard deviation; 0 for one range.",
        },
        header="Proj {} (ns)",
        brief=("avg", "med", "min", "max", "stddev"),
    ),
    printed(
        "Total GPU Ops",
        Column(
            "launch_count",
            Unit.COUNT,
            "Calls in them that launched operations; the launch of a graph is one.",
        ),
    ),
    printed("Avg GPU Ops", Column("launch_avg", Unit.REAL, "The same per range.")),
    printed(
        "Avg Range Lvl",
        Column("level_avg", Unit.REAL, "Ranges of its thread that a range lies in, on average."),
    ),
    printed(
        "Avg Num Child",
        Column(
            "child_avg",
            Unit.REAL,
            "Ranges directly inside a range that launched operations, on average.",
        ),
    ),
)


def _summary(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per name and style, most projected time first."""
    projected = _projected_ranges(timeline)
    tree, rows, spans = projected.tree, projected.rows, projected.tree.spans
    group, (names, kinds) = factorize(spans.name[rows], spans.kind[rows])
    count = len(names)
    statistics = grouped_statistics(group, projected.dur[rows], count)
    launches, range_sum, level, children = (
        sums(group, values[rows], count)
        for values in (
            projected.projection.launch_count,
            spans.end - spans.start,
            tree.level,
            projected.child_count,
        )
    )
    texts = [spans.names[i] for i in names.tolist()]
    styles = [nvtx_ranges.STYLES[kind] for kind in kinds.tolist()]
    total = np.where(statistics.total == MISSING, 0, statistics.total)
    order = sorted(range(count), key=lambda i: (-int(total[i]), texts[i], styles[i]))
    size = np.maximum(statistics.count, 1)
    values = {
        "name": texts,
        "style": styles,
        "projected_sum_ns": statistics.total,
        "range_sum_ns": range_sum,
        "range_count": statistics.count,
        **statistics_values(statistics),
        "launch_count": launches,
        "launch_avg": launches / size,
        "level_avg": level / size,
        "child_avg": children / size,
    }
    return rows_at(values, order)


NVTX_GPU_PROJ_SUM = Query(
    title="NVTX GPU Projection Summary",
    needs=_NEEDS,
    uses=_USES,
    columns=_SUM_COLUMNS,
    compute=_summary,
)

# -- every range

_TRACE_COLUMNS = (
    printed("Name", nvtx_ranges.NAME),
    printed(
        "Projected Start (ns)",
        Column("projected_start_ns", Unit.NS, "When the first operation launched in it began."),
    ),
    printed(
        "Projected Duration (ns)",
        duration_column("projected_dur_ns", "From there to the end of the last."),
    ),
    printed("Orig Start (ns)", Column("start_ns", Unit.NS, "When the range began.")),
    printed("Orig Duration (ns)", Column("dur_ns", Unit.NS, "How long it was open.")),
    _STYLE,
    printed("PID", Column("pid", Unit.ID, "The process.", key=True)),
    printed("TID", Column("tid", Unit.ID, "The thread.", key=True)),
    printed(
        "NumGPUOps",
        Column(
            "launch_count",
            Unit.COUNT,
            "Calls in it that launched operations; the launch of a graph is one.",
        ),
    ),
    printed("Lvl", Column("level", Unit.COUNT, "Ranges of its thread that it lies in.")),
    printed(
        "NumChild",
        Column("child_count", Unit.COUNT, "Ranges directly inside it that launched operations."),
    ),
    nvtx_ranges.RANGE_ID,
    nvtx_ranges.PARENT_ID,
    nvtx_ranges.RANGE_STACK,
)


def _trace(timeline: Timeline, request: Request) -> Result:
    """Return one row per range in the order of projected starts, the longest first."""
    projected = _projected_ranges(timeline)
    tree, spans, projection = projected.tree, projected.tree.spans, projected.projection
    dur, rows = projected.dur, projected.rows
    rows = rows[np.lexsort((spans.row[rows], -dur[rows], projection.start[rows]))]
    count = len(rows)
    rows = rows[: request.limit or None]
    ids = spans.row + 1
    range_stacks = nvtx_ranges.stacks(tree, ids, rows)
    return Result(
        {
            "name": [spans.names[i] for i in spans.name[rows].tolist()],
            "projected_start_ns": projection.start[rows],
            "projected_dur_ns": dur[rows],
            "start_ns": spans.start[rows],
            "dur_ns": (spans.end - spans.start)[rows],
            "style": [nvtx_ranges.STYLES[kind] for kind in spans.kind[rows].tolist()],
            "pid": spans.pid[rows],
            "tid": spans.tid[rows],
            "launch_count": projection.launch_count[rows],
            "level": tree.level[rows],
            "child_count": projected.child_count[rows],
            "range_id": ids[rows],
            "parent_id": nvtx_ranges.parent_ids(tree, ids, rows),
            "range_stack": range_stacks,
        },
        row_count=count,
        notes=deep_path_notes(range_stacks),
    )


NVTX_GPU_PROJ_TRACE = Query(
    title="NVTX GPU Projection Trace",
    needs=_NEEDS,
    uses=_USES,
    columns=_TRACE_COLUMNS,
    compute=_trace,
)
