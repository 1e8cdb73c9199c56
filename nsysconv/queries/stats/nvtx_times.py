"""The tables of `nsys stats` of the ranges themselves: sums by name, and every push/pop range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import printed
from nsysconv.queries.contract import Query, Request, Result
from nsysconv.queries.stats import nvtx_ranges
from nsysconv.queries.stats.summaries import (
    SummaryRow,
    summary,
    summary_rows,
    time_columns,
    time_rows,
)
from nsysconv.report import Column
from nsysconv.timeline.annotations import PUSH_POP, START_END, domain_names
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.nesting import MAX_INDENT, deep_path_notes, indent_names
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import RANGE as RANGE_TOTAL
from nsysconv.timeline.totals import Total, totals
from nsysconv.units import Unit

# -- sums by name

_COUNT = printed("Instances", Column("range_count", Unit.COUNT, "Ranges."))
_RANGE = printed("Range", nvtx_ranges.NAME)
_STYLE_DOC = f"{nvtx_ranges.STYLE.doc} Null: the source does not tell."
_STYLE = printed("Style", replace(nvtx_ranges.STYLE, doc=_STYLE_DOC))


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
        return [row._replace(labels=row.labels[1:]) for row in _rows(timeline, kind)]

    return summary(title, time_columns("range", _COUNT, _RANGE), rows, needs={Fact.RANGES})


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
    time_columns("range", _COUNT, _STYLE, _RANGE),
    _all_styles,
    needs={Fact.RANGES},
    totals={Fact.RANGE_TOTALS},
)
NVTX_PUSHPOP_SUM = _one_style("NVTX Push/Pop Range Summary", PUSH_POP)
NVTX_STARTEND_SUM = _one_style("NVTX Start/End Range Summary", START_END)

# -- every push/pop range

_TRACE_COLUMNS = (
    printed("Start (ns)", Column("start_ns", Unit.NS, "When it began.")),
    printed("End (ns)", Column("end_ns", Unit.NS, "When it ended.")),
    printed("Duration (ns)", Column("dur_ns", Unit.NS, "How long it was open.")),
    printed(
        "DurChild (ns)",
        Column("child_sum_ns", Unit.NS, "Sum of the durations of the ranges directly inside it."),
    ),
    printed("DurNonChild (ns)", Column("self_ns", Unit.NS, "Its duration less that sum.")),
    printed("Name", nvtx_ranges.NAME),
    printed("PID", Column("pid", Unit.ID, "The process.", key=True)),
    printed("TID", Column("tid", Unit.ID, "The thread.", key=True)),
    printed("Lvl", Column("level", Unit.COUNT, "Ranges that it lies in.")),
    printed("NumChild", Column("child_count", Unit.COUNT, "Ranges directly inside it.")),
    nvtx_ranges.RANGE_ID,
    nvtx_ranges.PARENT_ID,
    nvtx_ranges.RANGE_STACK,
    printed(
        "NameTree",
        Column(
            "name_tree",
            Unit.TEXT,
            f"The name, behind `--` for each range that it lies in, {MAX_INDENT} at most.",
        ),
    ),
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
    ids = spans.row + 1
    level = tree.level[rows]
    names = [spans.names[i] for i in spans.name[rows].tolist()]
    range_stacks = nvtx_ranges.stacks(tree, ids, rows)
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
            "parent_id": nvtx_ranges.parent_ids(tree, ids, rows),
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
