"""Every push/pop range, with what lies in it."""

from __future__ import annotations

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import Query, Request, Result
from nsysconv.queries.stats import nvtx
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.nesting import MAX_INDENT, deep_path_notes, indent_names
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
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
    Column("name", Unit.TEXT, nvtx.NAME, key=True, printed=Printed("Name")),
    Column("pid", Unit.ID, "The process.", key=True, printed=Printed("PID")),
    Column("tid", Unit.ID, "The thread.", key=True, printed=Printed("TID")),
    Column("level", Unit.COUNT, "Ranges that it lies in.", printed=Printed("Lvl")),
    Column("child_count", Unit.COUNT, "Ranges directly inside it.", printed=Printed("NumChild")),
    Column("range_id", Unit.ID, nvtx.RANGE_ID, printed=Printed("RangeId")),
    Column(
        "parent_id",
        Unit.ID,
        "Number of the range that it lies in; null: in none.",
        printed=Printed("ParentId"),
    ),
    Column(
        "range_stack",
        Unit.TEXT,
        nvtx.STACK,
        printed=Printed("RangeStack"),
    ),
    Column(
        "name_tree",
        Unit.TEXT,
        f"The name, behind `--` for each range that it lies in, {MAX_INDENT} at most.",
        printed=Printed("NameTree"),
    ),
)


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per range in the order of their starts, the shortest first."""
    tree, held = nvtx.push_pop(timeline)
    spans = tree.spans
    dur = spans.end - spans.start
    rows = np.flatnonzero(held)
    rows = rows[np.lexsort((spans.row[rows], dur[rows], spans.start[rows]))]
    count = len(rows)
    rows = rows[: request.limit or None]
    ids = spans.row + 1
    parent, level = tree.parent[rows], tree.level[rows]
    names = [spans.names[i] for i in spans.name[rows].tolist()]
    stacks = nvtx.stacks(tree, ids, rows)
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
            "parent_id": np.where(parent >= 0, ids[parent], MISSING) if count else parent,
            "range_stack": stacks,
            "name_tree": indent_names("--", level, names),
        },
        row_count=count,
        notes=deep_path_notes(stacks, level),
    )


NVTX_PUSHPOP_TRACE = Query(
    title="NVTX Push/Pop Range Trace",
    needs={Fact.RANGES},
    columns=COLUMNS,
    compute=compute,
)
