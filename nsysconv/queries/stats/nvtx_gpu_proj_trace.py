"""Every NVTX range that launched GPU work, and when that work ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import Query, Request, Result
from nsysconv.queries.stats import nvtx
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import counts
from nsysconv.timeline.nesting import Tree, deep_path_notes
from nsysconv.timeline.projection import Projection
from nsysconv.timeline.timeline import Timeline, cached
from nsysconv.units import Unit

Array = np.ndarray

COLUMNS = (
    Column("name", Unit.TEXT, nvtx.NAME, key=True, printed=Printed("Name")),
    Column(
        "projected_start_ns",
        Unit.NS,
        "When the first operation launched in it began.",
        printed=Printed("Projected Start (ns)"),
    ),
    Column(
        "projected_dur_ns",
        Unit.NS,
        "From there to the end of the last.",
        better="less",
        printed=Printed("Projected Duration (ns)"),
    ),
    Column("start_ns", Unit.NS, "When the range began.", printed=Printed("Orig Start (ns)")),
    Column("dur_ns", Unit.NS, "How long it was open.", printed=Printed("Orig Duration (ns)")),
    Column("style", Unit.TEXT, nvtx.STYLE, key=True, printed=Printed("Style")),
    Column("pid", Unit.ID, "The process.", key=True, printed=Printed("PID")),
    Column("tid", Unit.ID, "The thread.", key=True, printed=Printed("TID")),
    Column(
        "launch_count",
        Unit.COUNT,
        "Calls in it that launched operations; the launch of a graph is one.",
        printed=Printed("NumGPUOps"),
    ),
    Column("level", Unit.COUNT, "Ranges of its thread that it lies in.", printed=Printed("Lvl")),
    Column(
        "child_count",
        Unit.COUNT,
        "Ranges directly inside it that launched operations.",
        printed=Printed("NumChild"),
    ),
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
)


@dataclass(frozen=True)
class Projected:
    """Ranges with their projections; `rows` are the places of those of the slice that launched an
    operation, and `child_count` counts, per range, those directly inside it that did.
    """

    tree: Tree
    on_gpu: Projection
    rows: Array
    child_count: Array

    @property
    def dur(self) -> Array:
        """Per range from the start of its first operation to the end of its last; MISSING: no times."""
        result: Array = np.where(
            self.on_gpu.start == MISSING, MISSING, self.on_gpu.end - self.on_gpu.start
        )
        return result


@cached
def projected(timeline: Timeline) -> Projected:
    """The ranges that launched GPU operations of the slice, on the threads that they are of."""
    tree, held = nvtx.on_own_thread(timeline)
    on_gpu = nvtx.projected(timeline, tree.spans)
    some = on_gpu.launch_count > 0
    inside = some & (tree.parent >= 0)
    return Projected(
        tree, on_gpu, np.flatnonzero(held & some), counts(tree.parent[inside], len(tree))
    )


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per range in the order of projected starts, the longest first."""
    found = projected(timeline)
    tree, on_gpu, dur = found.tree, found.on_gpu, found.dur
    spans = tree.spans
    rows = found.rows
    rows = rows[np.lexsort((spans.row[rows], -dur[rows], on_gpu.start[rows]))]
    count = len(rows)
    rows = rows[: request.limit or None]
    ids = spans.row + 1
    parent = tree.parent[rows]
    stacks = nvtx.stacks(tree, ids, rows)
    return Result(
        {
            "name": [spans.names[i] for i in spans.name[rows].tolist()],
            "projected_start_ns": on_gpu.start[rows],
            "projected_dur_ns": dur[rows],
            "start_ns": spans.start[rows],
            "dur_ns": (spans.end - spans.start)[rows],
            "style": [nvtx.STYLES[kind] for kind in spans.kind[rows].tolist()],
            "pid": spans.pid[rows],
            "tid": spans.tid[rows],
            "launch_count": on_gpu.launch_count[rows],
            "level": tree.level[rows],
            "child_count": found.child_count[rows],
            "range_id": ids[rows],
            "parent_id": np.where(parent >= 0, ids[parent], MISSING) if count else parent,
            "range_stack": stacks,
        },
        row_count=count,
        notes=deep_path_notes(stacks),
    )


NVTX_GPU_PROJ_TRACE = Query(
    title="NVTX GPU Projection Trace",
    needs={Fact.RANGES, Fact.API_LINKS},
    uses={Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.GRAPH_LAUNCHES, Fact.API_CALLS},
    columns=COLUMNS,
    compute=compute,
)
