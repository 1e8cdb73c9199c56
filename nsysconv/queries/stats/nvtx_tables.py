"""The tables of `nsys stats` of ranges: by name and one by one, on the host and projected on the GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    PID,
    TID,
    duration_column,
    printed,
    statistics_by_header,
    statistics_docs,
    sum_column,
)
from nsysconv.queries.contract import LAUNCHED_FACTS, Array, ColumnValues, Query, Request, Result
from nsysconv.queries.stats import nvtx_ranges
from nsysconv.queries.stats.summaries import (
    SummaryRow,
    summary,
    summary_rows,
    time_columns,
    time_rows,
)
from nsysconv.queries.values import rows_at, statistics_values
from nsysconv.report import MISSING, Column
from nsysconv.timeline.annotations import PUSH_POP, START_END, domain_names
from nsysconv.timeline.arrays import counts, factorize, grouped_statistics, sums
from nsysconv.timeline.nesting import (
    MAX_INDENT,
    MAX_PATH_LENGTH,
    Tree,
    deep_path_notes,
    indent_names,
    path_texts,
)
from nsysconv.timeline.projection import Projection
from nsysconv.timeline.timeline import Timeline, cached
from nsysconv.timeline.totals import RANGE as RANGE_TOTAL
from nsysconv.timeline.totals import Total, totals
from nsysconv.units import Unit

# -- sums by name

_COUNT = Column("range_count", Unit.COUNT, "Ranges.")
_RANGE = nvtx_ranges.NAME
_STYLE_DOC = f"{nvtx_ranges.STYLE.doc} Null: the source does not tell."
_STYLE = replace(nvtx_ranges.STYLE, doc=_STYLE_DOC)


def _rows(timeline: Timeline, *kinds: int) -> list[SummaryRow]:
    spans = nvtx_ranges.ranges(timeline)
    spans = spans.take(nvtx_ranges.in_slice(timeline) & np.isin(spans.kind, kinds))
    group, (names, styles) = factorize(spans.name, spans.kind)
    labels = [
        (nvtx_ranges.STYLES[style], spans.names[name])
        for name, style in zip(names.tolist(), styles.tolist(), strict=True)
    ]
    return summary_rows(group, spans.end - spans.start, labels)


def _one_style(title: str, kind: int) -> Query:
    def rows(timeline: Timeline, request: Request) -> list[SummaryRow]:
        return [replace(row, labels=row.labels[1:]) for row in _rows(timeline, kind)]

    return summary(
        title,
        time_columns("range", {"Instances": _COUNT, "Range": _RANGE}),
        rows,
        needs={Fact.RANGES},
    )


def _all_styles(timeline: Timeline, request: Request) -> list[SummaryRow]:
    if Fact.RANGES in timeline.profile.facts:
        return _rows(timeline, PUSH_POP, START_END)
    domains = domain_names(timeline.profile)

    def labels(total: Total) -> tuple[str | None, str]:
        style = None if total.range_kind is None else nvtx_ranges.STYLES.get(total.range_kind)
        if total.domain_id is None:  # not recorded, unless the name itself says it
            return style, total.name
        return style, f"{domains.get((total.pid or 0, total.domain_id), '')}:{total.name}"

    return time_rows(totals(timeline, RANGE_TOTAL), labels)


NVTX_SUM = summary(
    "NVTX Range Summary",
    time_columns("range", {"Instances": _COUNT, "Style": _STYLE, "Range": _RANGE}),
    _all_styles,
    needs={Fact.RANGES},
    totals={Fact.RANGE_TOTALS},
)
NVTX_PUSHPOP_SUM = _one_style("NVTX Push/Pop Range Summary", PUSH_POP)
NVTX_STARTEND_SUM = _one_style("NVTX Start/End Range Summary", START_END)

# -- every push/pop range

_TREE_COLUMNS = {
    "RangeId": Column(
        "range_id",
        Unit.ID,
        "Number of the range in its profile, from 1, in the order of the source.",
    ),
    "ParentId": Column("parent_id", Unit.ID, "Number of the range that it lies in; null: in none."),
    "RangeStack": Column(
        "range_stack",
        Unit.TEXT,
        "Numbers of the ranges that it lies in, outermost first, and its own. "
        f"Of more than {MAX_PATH_LENGTH} characters the middle is left out.",
    ),
}


def _in_tree(tree: Tree, rows: Array) -> dict[str, Any]:
    spans, ids = tree.spans, tree.spans.row + 1
    parent = tree.parent[rows]
    return {
        "name": [spans.names[i] for i in spans.name[rows].tolist()],
        "pid": spans.pid[rows],
        "tid": spans.tid[rows],
        "level": tree.level[rows],
        "range_id": ids[rows],
        "parent_id": np.where(parent >= 0, ids[parent], MISSING) if len(rows) else parent,
        # From the outermost range to this one: `:1:5:9`.
        "range_stack": path_texts(tree.parent, lambda place: f":{ids[place]}", rows, separator=""),
    }


_TRACE_COLUMNS = printed(
    {
        "Start (ns)": Column("start_ns", Unit.NS, "When it began."),
        "End (ns)": Column("end_ns", Unit.NS, "When it ended."),
        "Duration (ns)": Column("dur_ns", Unit.NS, "How long it was open."),
        "DurChild (ns)": Column(
            "child_sum_ns", Unit.NS, "Sum of the durations of the ranges directly inside it."
        ),
        "DurNonChild (ns)": Column("self_ns", Unit.NS, "Its duration less that sum."),
        "Name": nvtx_ranges.NAME,
        "PID": PID,
        "TID": TID,
        "Lvl": Column("level", Unit.COUNT, "Ranges that it lies in."),
        "NumChild": Column("child_count", Unit.COUNT, "Ranges directly inside it."),
        **_TREE_COLUMNS,
        "NameTree": Column(
            "name_tree",
            Unit.TEXT,
            f"The name, behind `--` for each range that it lies in, {MAX_INDENT} at most.",
        ),
    }
)


def _trace(timeline: Timeline, request: Request) -> Result:
    """Return one row per range in the order of their starts, the shortest first."""
    tree, selected = nvtx_ranges.push_pop_tree(timeline)
    spans = tree.spans
    dur = spans.end - spans.start
    rows = np.flatnonzero(selected)
    rows = rows[np.lexsort((spans.row[rows], dur[rows], spans.start[rows]))]
    count = len(rows)
    rows = rows[: request.limit or None]
    in_tree = _in_tree(tree, rows)
    level, range_stacks = in_tree["level"], in_tree["range_stack"]
    return Result(
        {
            **in_tree,
            "start_ns": spans.start[rows],
            "end_ns": spans.end[rows],
            "dur_ns": dur[rows],
            "child_sum_ns": tree.child_ns[rows],
            "self_ns": dur[rows] - tree.child_ns[rows],
            "child_count": tree.child_count[rows],
            "name_tree": indent_names("--", level, in_tree["name"]),
        },
        row_count=count,
        notes=deep_path_notes(range_stacks, level),
    )


NVTX_PUSHPOP_TRACE = Query(
    title="NVTX Push/Pop Range Trace",
    needs={Fact.RANGES},
    columns=_TRACE_COLUMNS,
    compute=_trace,
)

# -- projected on the GPU

_NEEDS = {Fact.RANGES, Fact.API_LINKS}
_USES = {*LAUNCHED_FACTS, Fact.API_CALLS}
_PROJ_STYLE = nvtx_ranges.STYLE


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
_PROJECTED_DOCS = statistics_docs(" projected time", one="one range")
_PROJ_SUM_COLUMNS = printed(
    {
        "Range": nvtx_ranges.NAME,
        "Style": _PROJ_STYLE,
        "Total Proj Time (ns)": duration_column(
            "projected_sum_ns",
            f"Sum of the projected times: {_PROJECTION}. Ranges inside are not taken off.",
        ),
        "Total Range Time (ns)": sum_column(
            "range_sum_ns", "Sum of the ranges' own durations.", "range_count"
        ),
        "Range Instances": Column(
            "range_count", Unit.COUNT, "Ranges in which an operation was launched."
        ),
        **statistics_by_header("Proj {} (ns)", _PROJECTED_DOCS, brief=_PROJECTED_DOCS),
        "Total GPU Ops": Column(
            "launch_count",
            Unit.COUNT,
            "Calls in them that launched operations; the launch of a graph is one.",
        ),
        "Avg GPU Ops": Column("launch_avg", Unit.REAL, "The same per range."),
        "Avg Range Lvl": Column(
            "level_avg", Unit.REAL, "Ranges of its thread that a range lies in, on average."
        ),
        "Avg Num Child": Column(
            "child_avg",
            Unit.REAL,
            "Ranges directly inside a range that launched operations, on average.",
        ),
    }
)


def _projected_summary(timeline: Timeline, request: Request) -> ColumnValues:
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
    columns=_PROJ_SUM_COLUMNS,
    compute=_projected_summary,
)

# -- every range

_PROJ_TRACE_COLUMNS = printed(
    {
        "Name": nvtx_ranges.NAME,
        "Projected Start (ns)": Column(
            "projected_start_ns", Unit.NS, "When the first operation launched in it began."
        ),
        "Projected Duration (ns)": duration_column(
            "projected_dur_ns", "From there to the end of the last."
        ),
        "Orig Start (ns)": Column("start_ns", Unit.NS, "When the range began."),
        "Orig Duration (ns)": Column("dur_ns", Unit.NS, "How long it was open."),
        "Style": _PROJ_STYLE,
        "PID": PID,
        "TID": TID,
        "NumGPUOps": Column(
            "launch_count",
            Unit.COUNT,
            "Calls in it that launched operations; the launch of a graph is one.",
        ),
        "Lvl": Column("level", Unit.COUNT, "Ranges of its thread that it lies in."),
        "NumChild": Column(
            "child_count", Unit.COUNT, "Ranges directly inside it that launched operations."
        ),
        **_TREE_COLUMNS,
    }
)


def _projected_trace(timeline: Timeline, request: Request) -> Result:
    """Return one row per range in the order of projected starts, the longest first."""
    projected = _projected_ranges(timeline)
    tree, spans, projection = projected.tree, projected.tree.spans, projected.projection
    dur, rows = projected.dur, projected.rows
    rows = rows[np.lexsort((spans.row[rows], -dur[rows], projection.start[rows]))]
    count = len(rows)
    rows = rows[: request.limit or None]
    in_tree = _in_tree(tree, rows)
    return Result(
        {
            **in_tree,
            "projected_start_ns": projection.start[rows],
            "projected_dur_ns": dur[rows],
            "start_ns": spans.start[rows],
            "dur_ns": (spans.end - spans.start)[rows],
            "style": [nvtx_ranges.STYLES[kind] for kind in spans.kind[rows].tolist()],
            "launch_count": projection.launch_count[rows],
            "child_count": projected.child_count[rows],
        },
        row_count=count,
        notes=deep_path_notes(in_tree["range_stack"]),
    )


NVTX_GPU_PROJ_TRACE = Query(
    title="NVTX GPU Projection Trace",
    needs=_NEEDS,
    uses=_USES,
    columns=_PROJ_TRACE_COLUMNS,
    compute=_projected_trace,
)
