"""Long times in which a process left a device unused (docs/rules.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.queries.columns import DEVICE, PROFILE, RANK, WINDOW
from nsysconv.queries.contract import Array, Option, Query, Request, Result
from nsysconv.queries.rules.in_use import Use, named, uses
from nsysconv.report import MISSING, Column
from nsysconv.timeline.intervals import Union
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    PROFILE,
    RANK,
    Column("pid", Unit.ID, "The process.", key=True),
    DEVICE,
    Column("start_ns", Unit.NS, "When the gap began. " + WINDOW, key=True),
    Column(
        "dur_ns",
        Unit.NS,
        "How long neither an operation of the process ran on the device nor the profiler was at work "
        "in the process.",
        better="less",
    ),
    Column(
        "before_table",
        Unit.TEXT,
        "Table of the operation that ended last before the gap; null: none did.",
    ),
    Column("before_id", Unit.ID, "Its `id` there."),
    Column(
        "after_table",
        Unit.TEXT,
        "Table of the operation that began first after the gap; null: none did.",
    ),
    Column("after_id", Unit.ID, "Its `id` there."),
)


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per gap, longest first."""
    shortest = request.options["gap"]
    if not shortest >= 0:
        raise UsageError(f"gap={shortest} of gpu_gaps", hint="Milliseconds, 0 or more.")
    found = list(uses(timeline))
    gaps = [_long_gaps(use, shortest * 1e6) for use in found]
    which = np.repeat(np.arange(len(found)), [len(each.starts) for each in gaps])
    start = np.concatenate([np.empty(0, np.int64), *(each.starts for each in gaps)])
    end = np.concatenate([np.empty(0, np.int64), *(each.ends for each in gaps)])
    order = np.lexsort((which, start, start - end))
    total = len(order)
    order = order[: request.limit] if request.limit else order
    which, start, end = which[order], start[order], end[order]
    neighbours = _Neighbours(len(order))
    for place, use in enumerate(found):
        mine = np.flatnonzero(which == place)
        neighbours.add(timeline, use, mine, start[mine], end[mine])
    of = [found[place] for place in which.tolist()]
    data = {
        "rank": [timeline.ranks.get(use.pid) for use in of],
        "pid": [use.pid for use in of],
        "device_id": [use.device for use in of],
        "start_ns": start,
        "dur_ns": end - start,
        **neighbours.columns,
    }
    return Result(data, total)


GPU_GAPS = Query(
    title="Times in which a process left a device unused, longest first",
    needs={Fact.KERNELS},
    uses={Fact.OVERHEAD, Fact.API_LINKS, Fact.DEVICES},
    options=(Option("gap", 500.0, "Gaps of at least so many milliseconds are listed."),),
    columns=COLUMNS,
    compute=compute,
)


def _long_gaps(use: Use, shortest: float) -> Union:
    low, high = use.in_use.gaps(use.window.start, use.window.end)
    long = high - low >= shortest
    return Union(low[long], high[long])


class _Neighbours:
    """The operations beside each of a number of gaps, as columns of the report."""

    def __init__(self, count: int) -> None:
        self.columns: dict[str, Any] = {}
        for side in ("before", "after"):
            self.columns[f"{side}_table"] = [None] * count
            self.columns[f"{side}_id"] = np.full(count, MISSING)

    def add(self, timeline: Timeline, use: Use, rows: Array, low: Array, high: Array) -> None:
        """The neighbours of the gaps [low, high) of a process on a device, which are these rows."""
        ops = use.ops
        by_end = np.argsort(ops.end, kind="stable")
        ended = np.searchsorted(ops.end[by_end], low, side="right") - 1
        began = np.searchsorted(ops.start, high, side="left")
        # The place -1 stands for none.
        before = np.append(by_end, -1)[ended]
        after = np.append(np.arange(len(ops)), -1)[began]
        for side, places in (("before", before), ("after", after)):
            tables, ids = named(timeline, ops, places)
            self.columns[f"{side}_id"][rows] = ids
            for row, table in zip(rows.tolist(), tables, strict=True):
                self.columns[f"{side}_table"][row] = table
