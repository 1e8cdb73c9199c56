"""Ranges as a tree: how long each lasted on the CPU, and what was launched in it did on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.names import shorten
from nsysconv.notes import Note, Severity
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
from nsysconv.queries.contract import Array, Option, Query, Request, Result
from nsysconv.report import MISSING, Column, Unit, human
from nsysconv.timeline import nesting
from nsysconv.timeline.annotations import (
    OPERATOR,
    PUSH_POP,
    START_END,
    name_pattern,
    ranges,
    shown_operators,
    shown_ranges,
    unclosed_apart,
)
from nsysconv.timeline.arrays import counts, grouped_statistics, sums
from nsysconv.timeline.events import Spans
from nsysconv.timeline.projection import Projection, launches_outside, projection
from nsysconv.timeline.range_names import GROUPED, group_spans
from nsysconv.timeline.step_rules import resolved
from nsysconv.timeline.timeline import Timeline

_STATISTICS = {
    "avg": "Mean duration.",
    "med": "Median duration.",
    "min": "Shortest.",
    "max": "Longest.",
}
_LAUNCHED = "the GPU operations launched in the range"
_ELSEWHERE = (
    "on other threads of the process; null: these threads have ranges of their own, or `any-thread` "
    "counts the calls in the other columns"
)
COLUMNS = (
    PROFILE,
    RANK,
    Column(
        "path",
        Unit.TEXT,
        "Names of the enclosing ranges and of this one, outermost first, separated by `/`; named domains "
        f"as `domain:`. The middle of more than {nesting.MAX_PATH_LENGTH} characters is left out.",
        key=True,
        brief=False,
    ),
    Column(
        "tree",
        Unit.TEXT,
        f"Name of the range, indented by its level ({nesting.MAX_INDENT} at most).",
    ),
    Column("level", Unit.ID, "Number of ranges around it.", brief=False),
    count_column("range_count", "Number of ranges with this path."),
    sum_column("range_sum_ns", "Sum of their durations.", "range_count"),
    duration_column("self_sum_ns", "Total duration without the ranges inside.", adds=True),
    *statistics_columns(_STATISTICS, brief=()),
    count_column("launch_count", "Number of API calls that launched GPU operations.", brief=False),
    count_column("gpu_op_count", f"Number of {_LAUNCHED}.", brief=False),
    count_column("kernel_count", "Number of kernels among these."),
    sum_column("kernel_sum_ns", "Sum of the kernels' durations.", "kernel_count"),
    duration_column(
        "self_kernel_sum_ns",
        "Total kernel duration without kernels launched in the ranges inside.",
        brief=False,
        adds=True,
    ),
    Column(
        "other_thread_launch_count",
        Unit.COUNT,
        f"Number of launching calls while the range was open, {_ELSEWHERE}.",
        brief=False,
        optional=True,
    ),
    Column(
        "other_thread_kernel_sum_ns",
        Unit.NS,
        "Total duration of the kernels launched by those calls.",
        better="less",
        adds=True,
        optional=True,
    ),
    count_column(
        "projected_count", "Number of ranges in which GPU operations were launched.", brief=False
    ),
    sum_column(
        "projected_sum_ns",
        f"Time from the start of the first to the end of the last of {_LAUNCHED}, summed over ranges.",
        "projected_count",
    ),
    duration_column(
        "gpu_union_sum_ns", f"Time with any of {_LAUNCHED} running, summed over ranges.", adds=True
    ),
)
_ON_GPU = tuple(column.name for column in COLUMNS[12:])
_ON_OTHER_THREADS = ("other_thread_launch_count", "other_thread_kernel_sum_ns")
_INDENT = "  "
# Ranges that are operators: no range of the program.
_CALLED = -1
_LONGEST = 80


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per path of names, below the range it lies in; siblings longest first."""
    options = request.options
    spans = _spans(timeline, request.range_names, operators_too=options["operators"])
    steps = resolved(timeline, request.steps).range
    if steps is not None and request.range_names == GROUPED:
        is_step = name_pattern(steps).fullmatch
        spans = group_spans(spans, lambda name: steps if is_step(name) else name)
    tree = nesting.build_tree(spans, apart=spans.kind == START_END)
    any_thread = np.where(tree.spans.kind == START_END, True, options["any-thread"])
    shown = np.flatnonzero(timeline.holds(tree.spans))
    if options["depth"]:
        shown = shown[tree.level[shown] < options["depth"]]
    paths, names = tree.paths, tree.spans.names
    group, count = paths.of[shown], len(paths)
    dur = tree.spans.end - tree.spans.start
    statistics = grouped_statistics(group, dur[shown], count)
    values: dict[str, Any] = {
        "rank": ranks_by_group(timeline, tree.spans.pid[shown], group, count),
        "level": paths.level,
        "range_count": statistics.count,
        "range_sum_ns": statistics.total,
        "self_sum_ns": sums(group, tree.self_ns[shown], count),
        **statistics_values(statistics),
        **dict.fromkeys(_ON_GPU, np.full(count, MISSING)),
    }
    if Fact.API_LINKS in timeline.profile.facts:
        projected = projection(timeline, tree.spans, any_thread)
        values |= _on_gpu(timeline, tree, projected, any_thread, shown, count)
        if not options["any-thread"]:
            values |= _on_other_threads(timeline, tree, projected, shown, count)
    at = paths.depth_first(statistics.total)
    at = at[statistics.count[at] > 0]
    row_count = len(at)

    def path_texts(which: Array) -> list[str]:
        return nesting.path_texts(paths.parent, lambda path: names[paths.name[path]], which)

    notes = _on_others(values, at, path_texts)
    at = at[: request.limit or None]
    texts = path_texts(at)
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
        (*notes, *nesting.deep_path_notes(texts, level)),
    )


RANGES = Query(
    options=(
        Option("operators", False, "Include the framework's operators in the same tree."),
        Option(
            "any-thread",
            False,
            "Attribute launches of any thread during the range to it, as for steps.",
        ),
        Option("depth", 0, "Deepest level to show; 0: all."),
    ),
    columns=COLUMNS,
    compute=compute,
)


def _spans(timeline: Timeline, range_names: str, *, operators_too: bool) -> Spans:
    """Return the ranges, named with their domains, and on request the operators as ranges."""
    spans = shown_ranges(timeline, range_names)
    spans = replace(spans, kind=np.where(ranges(timeline).called, _CALLED, spans.kind))
    spans = unclosed_apart(timeline, spans)
    if not operators_too:
        return spans
    operator_spans = shown_operators(timeline, range_names)
    operator_spans = operator_spans.take(operator_spans.kind == OPERATOR)
    # A range and an operator of one name are one path.
    called = np.broadcast_to(np.int64(_CALLED), len(operator_spans))
    return spans.followed_by(replace(operator_spans, kind=called))


def _on_gpu(
    timeline: Timeline,
    tree: nesting.Tree,
    projected: Projection,
    any_thread: Array,
    shown: Array,
    count: int,
) -> dict[str, Array]:
    group = tree.paths.of[shown]
    inside = np.flatnonzero(tree.parent >= 0)
    taken = projected.kernel_sum_ns.copy()
    # One that crosses the end of its parent, or holds what does so, takes other launches from that.
    other = np.flatnonzero(tree.end_in_parent != tree.spans.end)
    cut = replace(tree.spans, end=tree.end_in_parent).take(other)
    taken[other] = projection(timeline, cut, any_thread[other]).kernel_sum_ns
    in_children = sums(tree.parent[inside], taken[inside], len(tree))
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


def _on_other_threads(
    timeline: Timeline, tree: nesting.Tree, projected: Projection, shown: Array, count: int
) -> dict[str, Array]:
    # Only ranges that the program pushed count. The result is empty if all threads launch in ranges of
    # their own.
    own = tree.spans.kind == PUSH_POP
    if not launches_outside(timeline, tree.spans.take(own)):
        return {}
    shown = shown[own[shown]]
    meanwhile = projection(timeline, tree.spans.take(shown), any_thread=True)
    others = (
        meanwhile.launch_count - projected.launch_count[shown],
        meanwhile.kernel_sum_ns - projected.kernel_sum_ns[shown],
    )
    return {
        name: sums(tree.paths.of[shown], each, count)
        for name, each in zip(_ON_OTHER_THREADS, others, strict=True)
    }


def _on_others(
    values: Mapping[str, Array], at: Array, path_texts: Callable[[Array], list[str]]
) -> tuple[Note, ...]:
    # The note names the path with most of that work; among equals it names the innermost, then the
    # first.
    launches, spent = (values[name][at] for name in _ON_OTHER_THREADS)
    if launches.max(initial=0) <= 0:
        return ()
    most = np.lexsort((-np.arange(len(at)), values["level"][at], launches, spent))[-1:]
    (path,) = path_texts(at[most])
    line = (
        f"{shorten(path, _LONGEST)}: while it was open, other threads, not all in ranges of their "
        f"own, launched GPU operations with {int(launches[most[0]]):,} calls (kernels: "
        f"{human(int(spent[most[0]]), Unit.NS)}). The columns other_thread_… show them; with "
        "ranges:any-thread they belong to the range."
    )
    return (Note("work-of-other-threads", Severity.INFO, line),)
