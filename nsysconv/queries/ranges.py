"""Ranges as a tree: how long each lasted on the CPU, and what was launched in it did on the GPU."""

from __future__ import annotations

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import PROFILE, ranks_by_group
from nsysconv.queries.contract import Array, Option, Query, Request, Result
from nsysconv.report import MISSING, Column, Picture
from nsysconv.timeline.annotations import OPERATOR, START_END, operators, prefix_domains, ranges
from nsysconv.timeline.arrays import counts, grouped_statistics, sums
from nsysconv.timeline.events import Spans
from nsysconv.timeline.nesting import (
    MAX_INDENT,
    MAX_PATH_LENGTH,
    Tree,
    build_tree,
    deep_path_notes,
    indent_names,
    path_texts,
)
from nsysconv.timeline.projection import projection
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

_LAUNCHED = "the GPU operations that were launched in it"
COLUMNS = (
    PROFILE,
    Column("rank", Unit.ID, "Rank of the only ranked process with such ranges.", key=True),
    Column(
        "path",
        Unit.TEXT,
        "Names from the outermost range to this one, `/` between two; a named domain before its `:`. "
        f"Of more than {MAX_PATH_LENGTH} characters the middle is left out.",
        key=True,
        brief=False,
    ),
    Column("tree", Unit.TEXT, f"The range's own name, set in by its level, {MAX_INDENT} at most."),
    Column("level", Unit.ID, "How many ranges it lies in.", brief=False),
    Column("range_count", Unit.COUNT, "Ranges of this path."),
    Column(
        "range_sum_ns", Unit.NS, "Sum of their durations.", better="less", counted_by="range_count"
    ),
    Column(
        "self_sum_ns",
        Unit.NS,
        "The same without the ranges directly inside.",
        better="less",
        adds=True,
    ),
    Column("avg_ns", Unit.NS, "Mean duration.", better="less", real=True, brief=False),
    Column("med_ns", Unit.NS, "Median duration.", better="less", real=True, brief=False),
    Column("min_ns", Unit.NS, "Shortest.", better="less", brief=False),
    Column("max_ns", Unit.NS, "Longest.", better="less", brief=False),
    Column(
        "launch_count", Unit.COUNT, "API calls in it that launched GPU operations.", brief=False
    ),
    Column("gpu_op_count", Unit.COUNT, f"Count of {_LAUNCHED}.", brief=False),
    Column("kernel_count", Unit.COUNT, "Kernels among those."),
    Column(
        "kernel_sum_ns",
        Unit.NS,
        "Sum of the kernels' durations.",
        better="less",
        counted_by="kernel_count",
    ),
    Column(
        "self_kernel_sum_ns",
        Unit.NS,
        "The same without what was launched in the ranges directly inside.",
        better="less",
        brief=False,
        adds=True,
    ),
    Column("projected_count", Unit.COUNT, "Ranges in which something was launched.", brief=False),
    Column(
        "projected_sum_ns",
        Unit.NS,
        f"From the start of the first to the end of the last of {_LAUNCHED}, added up.",
        better="less",
        counted_by="projected_count",
    ),
    Column(
        "gpu_union_sum_ns",
        Unit.NS,
        f"Union of {_LAUNCHED}, added up over the ranges.",
        better="less",
        adds=True,
    ),
)
_ON_GPU = tuple(column.name for column in COLUMNS[12:])
_INDENT = "  "


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per path of names, each below the range it lies in; siblings by time, longest first."""
    options = request.options
    spans = _spans(timeline, operators_too=options["operators"])
    tree = build_tree(spans, apart=spans.kind == START_END)
    wide = np.where(tree.spans.kind == START_END, True, options["any-thread"])
    kept = np.flatnonzero(timeline.holds(tree.spans))
    if options["depth"]:
        kept = kept[tree.level[kept] < options["depth"]]
    paths, names = tree.paths, tree.spans.names
    group, count = paths.of[kept], len(paths)
    dur = tree.spans.end - tree.spans.start
    stats = grouped_statistics(group, dur[kept], count)
    data: dict[str, Array] = {
        "level": paths.level,
        "range_count": stats.count,
        "range_sum_ns": stats.total,
        "self_sum_ns": sums(group, (dur - tree.child_ns)[kept], count),
        "avg_ns": stats.mean,
        "med_ns": stats.median,
        "min_ns": stats.minimum,
        "max_ns": stats.maximum,
    }
    if Fact.API_LINKS in timeline.profile.facts:
        data |= _on_gpu(timeline, tree, wide, kept, group, count)
    else:
        data |= {name: np.full(count, MISSING) for name in _ON_GPU}
    rank = ranks_by_group(timeline, tree.spans.pid[kept], group, count)
    at = paths.depth_first(stats.total)
    at = at[stats.count[at] > 0]
    row_count = len(at)
    at = at[: request.limit or None]
    texts = path_texts(paths.parent, lambda path: names[paths.name[path]], at)
    level = paths.level[at]
    return Result(
        {
            "rank": [rank[i] for i in at.tolist()],
            "path": texts,
            "tree": indent_names(_INDENT, level, [names[i] for i in paths.name[at].tolist()]),
            **{name: values[at] for name, values in data.items()},
        },
        row_count,
        deep_path_notes(texts, level),
    )


RANGES = Query(
    title="Ranges as a tree, and their work on the GPU",
    needs={Fact.RANGES},
    uses={
        Fact.OPERATORS,
        Fact.API_CALLS,
        Fact.API_LINKS,
        Fact.KERNELS,
        Fact.MEMCPYS,
        Fact.RANKS,
    },
    options=(
        Option("operators", False, "With the operators of the framework, in one tree."),
        Option(
            "any-thread", False, "What any thread of the process launched meanwhile belongs to it."
        ),
        Option("depth", 0, "Show no deeper levels than this; 0: all."),
    ),
    columns=COLUMNS,
    picture=Picture("bars", x=("tree",), values=("range_sum_ns", "projected_sum_ns"), by=("rank",)),
    compute=compute,
)


def _spans(timeline: Timeline, *, operators_too: bool) -> Spans:
    """The ranges, named with their domains, and the operators; their `kind` is that of ranges."""
    found = prefix_domains(timeline, ranges(timeline))
    if not operators_too:
        return found
    run = operators(timeline)
    run = run.take(run.kind == OPERATOR)
    return Spans(
        start=np.concatenate((found.start, run.start)),
        end=np.concatenate((found.end, run.end)),
        pid=np.concatenate((found.pid, run.pid)),
        tid=np.concatenate((found.tid, run.tid)),
        kind=np.concatenate((found.kind, np.zeros(len(run), np.int32))),
        domain=np.concatenate((found.domain, run.domain)),
        row=np.concatenate((found.row, run.row)),
        name=np.concatenate((found.name, run.name + len(found.names))),
        names=(*found.names, *run.names),
    )


def _on_gpu(
    timeline: Timeline, tree: Tree, wide: Array, kept: Array, group: Array, count: int
) -> dict[str, Array]:
    """Per group what was launched in its ranges."""
    found = projection(timeline, tree.spans, wide)
    inside = np.flatnonzero(tree.parent >= 0)
    in_children = sums(tree.parent[inside], found.kernel_sum_ns[inside], len(tree))
    some = found.start != MISSING
    length = np.where(some, found.end - found.start, 0)
    columns = {
        "launch_count": found.launch_count,
        "gpu_op_count": found.op_count,
        "kernel_count": found.kernel_count,
        "kernel_sum_ns": found.kernel_sum_ns,
        "self_kernel_sum_ns": found.kernel_sum_ns - in_children,
        "projected_sum_ns": length,
        "gpu_union_sum_ns": found.union_ns,
    }
    return {
        "projected_count": counts(group[some[kept]], count),
        **{name: sums(group, values[kept], count) for name, values in columns.items()},
    }
