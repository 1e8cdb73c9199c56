"""Ranges as a tree: how long each lasted on the CPU, and what was launched in it did on the GPU."""

from __future__ import annotations

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    PROFILE,
    RANK,
    count_column,
    duration_column,
    ranks_by_group,
    rows_at,
    statistics_columns,
    statistics_values,
    sum_column,
)
from nsysconv.queries.contract import CALL_FACTS, Array, Option, Query, Request, Result
from nsysconv.report import MISSING, Column, Picture, Unit
from nsysconv.timeline import nesting
from nsysconv.timeline.annotations import (
    OPERATOR,
    START_END,
    shown_operators,
    shown_ranges,
    unclosed_apart,
)
from nsysconv.timeline.arrays import counts, grouped_statistics, sums
from nsysconv.timeline.events import Spans
from nsysconv.timeline.projection import projection
from nsysconv.timeline.timeline import Timeline

_STATISTICS = {
    "avg": "Mean duration.",
    "med": "Median duration.",
    "min": "Shortest.",
    "max": "Longest.",
}
_LAUNCHED = "the GPU operations that were launched in it"
COLUMNS = (
    PROFILE,
    RANK,
    Column(
        "path",
        Unit.TEXT,
        "Names from the outermost range to this one, `/` between two; a named domain before its `:`. "
        f"Of more than {nesting.MAX_PATH_LENGTH} characters the middle is left out.",
        key=True,
        brief=False,
    ),
    Column(
        "tree",
        Unit.TEXT,
        f"The range's own name, set in by its level, {nesting.MAX_INDENT} at most.",
    ),
    Column("level", Unit.ID, "How many ranges it lies in.", brief=False),
    count_column("range_count", "Ranges of this path."),
    sum_column("range_sum_ns", "Sum of their durations.", "range_count"),
    duration_column("self_sum_ns", "The same without the ranges directly inside.", adds=True),
    *statistics_columns(_STATISTICS, brief=()),
    count_column("launch_count", "API calls in it that launched GPU operations.", brief=False),
    count_column("gpu_op_count", f"Count of {_LAUNCHED}.", brief=False),
    count_column("kernel_count", "Kernels among those."),
    sum_column("kernel_sum_ns", "Sum of the kernels' durations.", "kernel_count"),
    duration_column(
        "self_kernel_sum_ns",
        "The same without what was launched in the ranges directly inside.",
        brief=False,
        adds=True,
    ),
    count_column("projected_count", "Ranges in which something was launched.", brief=False),
    sum_column(
        "projected_sum_ns",
        f"From the start of the first to the end of the last of {_LAUNCHED}, added up.",
        "projected_count",
    ),
    duration_column(
        "gpu_union_sum_ns", f"Union of {_LAUNCHED}, added up over the ranges.", adds=True
    ),
)
_ON_GPU = tuple(column.name for column in COLUMNS[12:])
_INDENT = "  "


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per path of names, below the range it lies in; siblings longest first."""
    options = request.options
    spans = _spans(timeline, request.range_names, operators_too=options["operators"])
    tree = nesting.build_tree(spans, apart=spans.kind == START_END)
    any_thread = np.where(tree.spans.kind == START_END, True, options["any-thread"])
    shown = np.flatnonzero(timeline.holds(tree.spans))
    if options["depth"]:
        shown = shown[tree.level[shown] < options["depth"]]
    paths, names = tree.paths, tree.spans.names
    group, count = paths.of[shown], len(paths)
    dur = tree.spans.end - tree.spans.start
    statistics = grouped_statistics(group, dur[shown], count)
    values = {
        "rank": ranks_by_group(timeline, tree.spans.pid[shown], group, count),
        "level": paths.level,
        "range_count": statistics.count,
        "range_sum_ns": statistics.total,
        "self_sum_ns": sums(group, (dur - tree.child_ns)[shown], count),
        **statistics_values(statistics),
    }
    if Fact.API_LINKS in timeline.profile.facts:
        values |= _on_gpu(timeline, tree, any_thread, shown, group, count)
    else:
        values |= {name: np.full(count, MISSING) for name in _ON_GPU}
    at = paths.depth_first(statistics.total)
    at = at[statistics.count[at] > 0]
    row_count = len(at)
    at = at[: request.limit or None]
    texts = nesting.path_texts(paths.parent, lambda path: names[paths.name[path]], at)
    level = paths.level[at]
    return Result(
        {
            "path": texts,
            "tree": nesting.indent_names(
                _INDENT, level, [names[i] for i in paths.name[at].tolist()]
            ),
            **rows_at(values, at),
        },
        row_count,
        nesting.deep_path_notes(texts, level),
    )


RANGES = Query(
    title="Ranges as a tree, and their work on the GPU",
    needs={Fact.RANGES},
    uses={Fact.OPERATORS, Fact.KERNELS, Fact.MEMCPYS, Fact.RANKS, *CALL_FACTS},
    options=(
        Option("operators", False, "With the operators of the framework, in one tree."),
        Option(
            "any-thread", False, "What any thread of the process launched meanwhile belongs to it."
        ),
        Option("depth", 0, "Show no deeper levels than this; 0: all."),
    ),
    columns=COLUMNS,
    picture=Picture(
        "flame", x=("tree",), values=("range_sum_ns", "kernel_sum_ns"), by=("rank",), level="level"
    ),
    compute=compute,
)


def _spans(timeline: Timeline, range_names: str, *, operators_too: bool) -> Spans:
    """Return the ranges, named with their domains, and on request the operators as ranges."""
    spans = unclosed_apart(timeline, shown_ranges(timeline, range_names))
    if not operators_too:
        return spans
    operator_spans = shown_operators(timeline, range_names)
    operator_spans = operator_spans.take(operator_spans.kind == OPERATOR)
    # A range and an operator of one name are one path.
    numbers = {text: number for number, text in enumerate(spans.names)}
    number = [numbers.setdefault(text, len(numbers)) for text in operator_spans.names]
    return Spans(
        start=np.concatenate((spans.start, operator_spans.start)),
        end=np.concatenate((spans.end, operator_spans.end)),
        pid=np.concatenate((spans.pid, operator_spans.pid)),
        tid=np.concatenate((spans.tid, operator_spans.tid)),
        kind=np.concatenate((spans.kind, np.zeros(len(operator_spans), np.int32))),
        domain=np.concatenate((spans.domain, operator_spans.domain)),
        row=np.concatenate((spans.row, operator_spans.row)),
        name=np.concatenate((spans.name, np.array(number, np.int64)[operator_spans.name])),
        names=tuple(numbers),
    )


def _on_gpu(
    timeline: Timeline,
    tree: nesting.Tree,
    any_thread: Array,
    shown: Array,
    group: Array,
    count: int,
) -> dict[str, Array]:
    projected = projection(timeline, tree.spans, any_thread)
    inside = np.flatnonzero(tree.parent >= 0)
    in_children = sums(tree.parent[inside], projected.kernel_sum_ns[inside], len(tree))
    launching = projected.start != MISSING
    length = np.where(launching, projected.end - projected.start, 0)
    columns = {
        "launch_count": projected.launch_count,
        "gpu_op_count": projected.op_count,
        "kernel_count": projected.kernel_count,
        "kernel_sum_ns": projected.kernel_sum_ns,
        "self_kernel_sum_ns": projected.kernel_sum_ns - in_children,
        "projected_sum_ns": length,
        "gpu_union_sum_ns": projected.union_ns,
    }
    return {
        "projected_count": counts(group[launching[shown]], count),
        **{name: sums(group, values[shown], count) for name, values in columns.items()},
    }
