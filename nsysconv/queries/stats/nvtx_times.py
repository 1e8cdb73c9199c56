"""The tables of `nsys stats` of the ranges themselves: sums by name, and every push/pop range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request, Result
from nsysconv.queries.stats.nvtx_ranges import (
    NAME_DOC,
    PARENT_ID,
    RANGE_ID,
    RANGE_STACK,
    STYLE_DOC,
    STYLES,
    in_slice,
    parent_ids,
    push_pop_tree,
    ranges,
    stacks,
)
from nsysconv.queries.stats.summaries import (
    SummaryRow,
    largest_first,
    summary_rows,
    time_columns,
    time_rows,
    time_table,
)
from nsysconv.report import Column, Printed
from nsysconv.timeline.annotations import PUSH_POP, START_END, domain_names
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.nesting import MAX_INDENT, deep_path_notes, indent_names
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import RANGE as RANGE_TOTAL
from nsysconv.timeline.totals import Total, totals
from nsysconv.units import Unit

# -- sums by name

_COUNT = Column("range_count", Unit.COUNT, "Ranges.", printed=Printed("Instances"))
_RANGE = Column("name", Unit.TEXT, NAME_DOC, key=True, printed=Printed("Range"))
_STYLE = Column(
    "style",
    Unit.TEXT,
    f"{STYLE_DOC} Null: the source does not tell.",
    key=True,
    printed=Printed("Style"),
)
_ONE_STYLE_COLUMNS = time_columns("range", _COUNT, _RANGE)
_COLUMNS = time_columns("range", _COUNT, _STYLE, _RANGE)


def _rows(timeline: Timeline, *kinds: int) -> list[SummaryRow]:
    """Return one row per name and style of the slice's ranges of these kinds, most time first."""
    spans = ranges(timeline)
    spans = spans.take(in_slice(timeline) & np.isin(spans.kind, kinds))
    group, (names, styles) = factorize(spans.name, spans.kind)
    labels = [
        (STYLES[style], spans.names[name])
        for name, style in zip(names.tolist(), styles.tolist(), strict=True)
    ]
    return largest_first(summary_rows(group, spans.end - spans.start, labels))


def _one_style(kind: int) -> Callable[[Timeline, Request], ColumnValues]:
    """Return the `compute` of a summary of ranges of one kind: one row per name, most time first."""

    def compute(timeline: Timeline, request: Request) -> ColumnValues:
        rows = [replace(row, labels=row.labels[1:]) for row in _rows(timeline, kind)]
        return time_table(_ONE_STYLE_COLUMNS, rows)

    return compute


def _all_styles(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per name and style, most time first."""
    if Fact.RANGES in timeline.profile.facts:
        return time_table(_COLUMNS, _rows(timeline, PUSH_POP, START_END))
    domains = domain_names(timeline.profile)

    def labels(total: Total) -> tuple[str | None, str]:
        style = None if total.range_kind is None else STYLES.get(total.range_kind)
        if total.domain_id is None:  # not recorded, unless the name itself says it
            return style, total.name
        return style, f"{domains.get((total.pid or 0, total.domain_id), '')}:{total.name}"

    return time_table(_COLUMNS, largest_first(time_rows(totals(timeline, RANGE_TOTAL), labels)))


NVTX_SUM = Query(
    title="NVTX Range Summary",
    needs={Fact.RANGES},
    totals={Fact.RANGE_TOTALS},
    columns=_COLUMNS,
    compute=_all_styles,
)
NVTX_PUSHPOP_SUM = Query(
    title="NVTX Push/Pop Range Summary",
    needs={Fact.RANGES},
    columns=_ONE_STYLE_COLUMNS,
    compute=_one_style(PUSH_POP),
)
NVTX_STARTEND_SUM = Query(
    title="NVTX Start/End Range Summary",
    needs={Fact.RANGES},
    columns=_ONE_STYLE_COLUMNS,
    compute=_one_style(START_END),
)

# -- every push/pop range

_TRACE_COLUMNS = (
    Column("start_ns", Unit.NS, "When it began.", printed=Printed("Start (ns)")),
    Column("end_ns", Unit.NS, "When it ended.", printed=Printed("End (ns)")),
    Column("dur_ns", Unit.NS, "How long it was open.", printed=Printed("Duration (ns)")),
    Column(
        "child_sum_ns",
        Unit.NS,
        "Sum of the durations of the ranges directly inside it.",
        printed=Printed("DurChild (ns)"),
    ),
    Column("self_ns", Unit.NS, "Its duration less that sum.", printed=Printed("DurNonChild (ns)")),
    Column("name", Unit.TEXT, NAME_DOC, key=True, printed=Printed("Name")),
    Column("pid", Unit.ID, "The process.", key=True, printed=Printed("PID")),
    Column("tid", Unit.ID, "The thread.", key=True, printed=Printed("TID")),
    Column("level", Unit.COUNT, "Ranges that it lies in.", printed=Printed("Lvl")),
    Column("child_count", Unit.COUNT, "Ranges directly inside it.", printed=Printed("NumChild")),
    RANGE_ID,
    PARENT_ID,
    RANGE_STACK,
    Column(
        "name_tree",
        Unit.TEXT,
        f"The name, behind `--` for each range that it lies in, {MAX_INDENT} at most.",
        printed=Printed("NameTree"),
    ),
)


def _trace(timeline: Timeline, request: Request) -> Result:
    """Return one row per range in the order of their starts, the shortest first."""
    tree, selected = push_pop_tree(timeline)
    spans = tree.spans
    dur = spans.end - spans.start
    rows = np.flatnonzero(selected)
    rows = rows[np.lexsort((spans.row[rows], dur[rows], spans.start[rows]))]
    count = len(rows)
    rows = rows[: request.limit or None]
    ids = spans.row + 1
    level = tree.level[rows]
    names = [spans.names[i] for i in spans.name[rows].tolist()]
    range_stacks = stacks(tree, ids, rows)
    return Result(
        {
            "start_ns": spans.start[rows],
            "end_ns": spans.end[rows],
            "dur_ns": dur[rows],
            "child_sum_ns": tree.child_ns[rows],
            "self_ns": dur[rows] - tree.child_ns[rows],
            "name": names,
            "pid": spans.pid[rows],
            "tid": spans.tid[rows],
            "level": level,
            "child_count": tree.child_count[rows],
            "range_id": ids[rows],
            "parent_id": parent_ids(tree, ids, rows),
            "range_stack": range_stacks,
            "name_tree": indent_names("--", level, names),
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
