"""The tables of `nsys stats` of ranges: themselves, projected on the GPU, and with their kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    DURATION_DOCS,
    PID,
    TID,
    count_column,
    duration_column,
    key_column,
    rows_at,
    statistics_columns,
    statistics_docs,
    statistics_values,
    sum_column,
    values_by_column,
)
from nsysconv.queries.contract import Array, ColumnValues, Option, Query, Request, Result
from nsysconv.queries.stats import nvtx_ranges, summaries
from nsysconv.queries.stats.cuda_names import kernel_calls, kernel_names
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline import nesting
from nsysconv.timeline.annotations import PUSH_POP, START_END, domain_names, unclosed_apart
from nsysconv.timeline.arrays import (
    Statistics,
    by_group,
    counts,
    factorize,
    grouped_statistics,
    sums,
    weighted_statistics,
)
from nsysconv.timeline.nesting import Tree, containments
from nsysconv.timeline.projection import Projection
from nsysconv.timeline.timeline import Timeline, cached
from nsysconv.timeline.totals import RANGE as RANGE_TOTAL
from nsysconv.timeline.totals import Total, totals

# -- sums by name

_COUNT = count_column("range_count", "Number of ranges.")
_RANGE = nvtx_ranges.NAME
_STYLE_DOC = f"{nvtx_ranges.STYLE.doc} Null: not recorded."
_STYLE = replace(nvtx_ranges.STYLE, doc=_STYLE_DOC)


def _rows(timeline: Timeline, *kinds: int) -> list[summaries.Row]:
    spans = unclosed_apart(timeline, nvtx_ranges.ranges(timeline))
    spans = spans.take(nvtx_ranges.in_slice(timeline) & np.isin(spans.kind, kinds))
    group, (names, styles) = factorize(spans.name, spans.kind)
    labels = [
        (nvtx_ranges.STYLES[style], spans.names[name])
        for name, style in zip(names.tolist(), styles.tolist(), strict=True)
    ]
    return summaries.event_rows(group, spans.end - spans.start, labels)


def _one_style(kind: int) -> Query:
    def rows(timeline: Timeline, request: Request) -> list[summaries.Row]:
        return [replace(row, labels=row.labels[1:]) for row in _rows(timeline, kind)]

    return summaries.table(summaries.time_columns("range", _COUNT, _RANGE), rows)


def _all_styles(timeline: Timeline, request: Request) -> list[summaries.Row]:
    if Fact.RANGES in timeline.profile.facts:
        return _rows(timeline, PUSH_POP, START_END)
    domains = domain_names(timeline.profile)

    def labels(total: Total) -> tuple[str | None, str]:
        style = None if total.range_kind is None else nvtx_ranges.STYLES.get(total.range_kind)
        if total.domain_id is None:  # not recorded, unless the name itself says it
            return style, total.name
        return style, f"{domains.get((total.pid or 0, total.domain_id), '')}:{total.name}"

    return summaries.total_rows(totals(timeline, RANGE_TOTAL), labels)


NVTX_SUM = summaries.table(summaries.time_columns("range", _COUNT, _STYLE, _RANGE), _all_styles)
NVTX_PUSHPOP_SUM = _one_style(PUSH_POP)
NVTX_STARTEND_SUM = _one_style(START_END)

# -- every push/pop range

_TREE_COLUMNS = (
    Column(
        "range_id",
        Unit.ID,
        "Number of the range in its profile, from 1, in the order of the source.",
    ),
    Column("parent_id", Unit.ID, "Number of the enclosing range; null: none."),
    Column(
        "range_stack",
        Unit.TEXT,
        "Numbers of the enclosing ranges and of this one, outermost first. "
        f"The middle of more than {nesting.MAX_PATH_LENGTH} characters is left out.",
    ),
)


def _in_tree(tree: nesting.Tree, rows: Array) -> dict[str, Any]:
    spans, ids = tree.spans, tree.spans.row.astype(np.int64) + 1
    parent = tree.parent[rows]
    return {
        "name": [spans.names[i] for i in spans.name[rows].tolist()],
        "pid": spans.pid[rows],
        "tid": spans.tid[rows],
        "level": tree.level[rows],
        "range_id": ids[rows],
        "parent_id": np.where(parent >= 0, ids[parent], MISSING) if len(rows) else parent,
        # From the outermost range to this one: `:1:5:9`.
        "range_stack": nesting.path_texts(
            tree.parent, lambda place: f":{ids[place]}", rows, separator=""
        ),
    }


_TRACE_COLUMNS = (
    Column("start_ns", Unit.NS, "Start of the event."),
    Column("end_ns", Unit.NS, "End of the range."),
    Column("dur_ns", Unit.NS, "Duration of the range."),
    Column("child_sum_ns", Unit.NS, "Sum of the durations of the ranges directly inside it."),
    Column(
        "self_ns",
        Unit.NS,
        "Duration of the range minus the time covered by the ranges directly inside it.",
    ),
    nvtx_ranges.NAME,
    PID,
    TID,
    count_column("level", "Number of ranges around it."),
    count_column("child_count", "Number of ranges directly inside it."),
    *_TREE_COLUMNS,
    Column(
        "name_tree",
        Unit.TEXT,
        f"Name of the range, after `--` for each range around it ({nesting.MAX_INDENT} at most).",
    ),
)


def _trace(timeline: Timeline, request: Request) -> Result:
    """Return one row per range in the order of their starts, the shortest first."""
    tree = nvtx_ranges.push_pop_tree(timeline)
    spans = tree.spans
    dur = spans.end - spans.start
    rows = np.flatnonzero(nvtx_ranges.tree_in_slice(timeline, tree))
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
            "self_ns": tree.self_ns[rows],
            "child_count": tree.child_count[rows],
            "name_tree": nesting.indent_names("--", level, in_tree["name"]),
        },
        row_count=count,
        notes=nesting.deep_path_notes(range_stacks, level),
    )


NVTX_PUSHPOP_TRACE = Query(columns=_TRACE_COLUMNS, compute=_trace)

# -- projected on the GPU

_PROJ_STYLE = nvtx_ranges.STYLE


@dataclass(frozen=True)
class _ProjectedRanges:
    """Ranges with their projections.

    `rows` are the places of those of the slice that launched an operation; `child_count` counts, for
    each range, those directly inside it that did. `dur` is the time from the start of a range's first
    operation to the end of its last, MISSING where these have no times.
    """

    tree: nesting.Tree
    projection: Projection
    rows: Array
    child_count: Array
    dur: Array


@cached
def _projected_ranges(timeline: Timeline) -> _ProjectedRanges:
    tree = nvtx_ranges.own_thread_tree(timeline)
    projection = nvtx_ranges.gpu_projection(timeline, tree.spans)
    launching = projection.launch_count > 0
    inside = launching & (tree.parent >= 0)
    timed = projection.start != MISSING
    return _ProjectedRanges(
        tree,
        projection,
        np.flatnonzero(nvtx_ranges.tree_in_slice(timeline, tree) & launching),
        counts(tree.parent[inside], len(tree)),
        np.where(timed, projection.end - projection.start, MISSING),
    )


# -- by name

_PROJECTION = "from the start of the first operation launched in a range to the end of the last"
_PROJECTED_DOCS = statistics_docs(" projected time", one="one range")
_PROJ_SUM_COLUMNS = (
    nvtx_ranges.NAME,
    _PROJ_STYLE,
    duration_column(
        "projected_sum_ns",
        f"Sum of the projected times: {_PROJECTION}. Ranges inside are not taken off.",
    ),
    sum_column("range_sum_ns", "Sum of the ranges' own durations.", "range_count"),
    count_column("range_count", "Number of ranges in which an operation was launched."),
    *statistics_columns(_PROJECTED_DOCS, brief=_PROJECTED_DOCS),
    count_column(
        "launch_count", "Number of launching calls in the ranges; a graph launch counts once."
    ),
    Column("launch_avg", Unit.REAL, "Mean number of launching calls per range."),
    Column("level_avg", Unit.REAL, "Mean number of ranges of the same thread around a range."),
    Column(
        "child_avg",
        Unit.REAL,
        "Mean number of ranges with launches directly inside a range.",
    ),
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


NVTX_GPU_PROJ_SUM = Query(columns=_PROJ_SUM_COLUMNS, compute=_projected_summary)

# -- every range

_PROJ_TRACE_COLUMNS = (
    nvtx_ranges.NAME,
    Column("projected_start_ns", Unit.NS, "Start of the first operation launched in the range."),
    duration_column(
        "projected_dur_ns",
        "Time from that start to the end of the last operation launched in the range.",
    ),
    Column("start_ns", Unit.NS, "Start of the range."),
    Column("dur_ns", Unit.NS, "Duration of the range."),
    _PROJ_STYLE,
    PID,
    TID,
    count_column(
        "launch_count", "Number of launching calls in the range; a graph launch counts once."
    ),
    count_column("level", "Number of ranges of the same thread around it."),
    count_column("child_count", "Number of ranges with launches directly inside it."),
    *_TREE_COLUMNS,
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
        notes=nesting.deep_path_notes(in_tree["range_stack"]),
    )


NVTX_GPU_PROJ_TRACE = Query(columns=_PROJ_TRACE_COLUMNS, compute=_projected_trace)

# -- with their kernels: one counts in every range that its launch lies in

_KERNEL_COLUMNS = (
    key_column(
        "range",
        f"{nvtx_ranges.NAME.doc} Null: kernels launched outside all ranges.",
    ),
    key_column("style", f"{nvtx_ranges.STYLE.doc} Null: no range."),
    Column(
        "pid",
        Unit.ID,
        "Process that launched the kernels; null: launch not recorded.",
        key=True,
    ),
    Column("tid", Unit.ID, "Thread that launched the kernels.", key=True),
    count_column("range_count", "Number of ranges in which they were launched."),
    count_column("kernel_count", "Number of executions."),
    sum_column(
        "kernel_sum_ns",
        "Total duration of the kernels; a kernel in two nested ranges of the same name counts "
        "twice.",
        "kernel_count",
    ),
    *statistics_columns(DURATION_DOCS, brief=DURATION_DOCS),
    key_column("name", "Name of the kernel."),
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


def _kernel_summary(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per range, thread and kernel, by range and thread, most kernel time first."""
    # All ranges, whatever the slice: they say of its kernels where they were launched.
    tree = nvtx_ranges.own_thread_tree(timeline)
    kernels = _kernels(timeline, request)
    by_thread = list(_thread_rows(timeline, tree, kernels))
    if not by_thread:
        return values_by_column([], _KERNEL_COLUMNS)
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
    options=(
        Option("base", False, "Show short kernel names."),
        Option("mangled", False, "Show mangled kernel names, if the source has them."),
    ),
    columns=_KERNEL_COLUMNS,
    compute=_kernel_summary,
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
            # A kernel in several ranges of one name adds its time to each of them.
            times = weighted_statistics(pair_group, kernels.dur[kernel], pairs.around, len(name))
            range_count = sums(pair_group, pairs.fresh, len(name))
            yield _kernel_rows(pid, tid, names[ranges], kinds[ranges], name, range_count, times)
        if is_outside.any():
            yield _outside(pid, tid, kernels, launched[is_outside])


def _outside(pid: int, tid: int, kernels: _Kernels, launched: Array) -> dict[str, Array]:
    group, (kernel,) = factorize(kernels.name[launched])
    none, once = np.full(len(kernel), _NO_RANGE), np.ones(len(launched), np.int64)
    times = weighted_statistics(group, kernels.dur[launched], once, len(kernel))
    return _kernel_rows(pid, tid, none, none, kernel, np.zeros(len(kernel), np.int64), times)


def _kernel_rows(
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
