"""Stretches of time in which a process used little of a device (docs/rules.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.queries.columns import DEVICE, PROFILE, RANK, WINDOW
from nsysconv.queries.contract import Array, Option, Query, Request, Result
from nsysconv.queries.rules.in_use import Use, named, uses
from nsysconv.report import Column
from nsysconv.timeline.arrays import percent
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

_MAX_CHUNKS = 1000
COLUMNS = (
    PROFILE,
    RANK,
    Column("pid", Unit.ID, "The process.", key=True),
    DEVICE,
    Column("start_ns", Unit.NS, "Where the first of its chunks begins. " + WINDOW, key=True),
    Column("dur_ns", Unit.NS, "Length of its chunks, which follow each other.", better="less"),
    Column(
        "in_use_ns",
        Unit.NS,
        "Union of the operations of the process on the device and of the profiler's work in it.",
        brief=False,
    ),
    Column("in_use_pct", Unit.PCT, "That union as a share of `dur_ns`.", better="more"),
    Column("gpu_op_count", Unit.COUNT, "Operations of which at least a part lies inside."),
    Column("first_table", Unit.TEXT, "Table of the one that began first; null: none.", brief=False),
    Column("first_id", Unit.ID, "Its `id` there.", brief=False),
    Column("last_table", Unit.TEXT, "Table of the one that began last; null: none.", brief=False),
    Column("last_id", Unit.ID, "Its `id` there.", brief=False),
)


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per run of chunks that are all below the threshold, lowest first."""
    threshold, chunks = request.options["threshold"], request.options["chunks"]
    if not threshold >= 0:
        raise UsageError(f"threshold={threshold} of gpu_time_util", hint="Per cent, 0 or more.")
    if not 1 <= chunks <= _MAX_CHUNKS:
        raise UsageError(f"chunks={chunks} of gpu_time_util", hint=f"From 1 to {_MAX_CHUNKS}.")
    rows = [row for use in uses(timeline) for row in _rows(timeline, use, threshold, chunks)]
    rows.sort(key=lambda row: (row["in_use_pct"], -row["dur_ns"], row["start_ns"]))
    return Result({column.name: [row[column.name] for row in rows] for column in COLUMNS[1:]})


GPU_TIME_UTIL = Query(
    title="Times of low use of a device by a process, lowest first",
    needs={Fact.KERNELS},
    uses={Fact.OVERHEAD, Fact.API_LINKS, Fact.DEVICES},
    options=(
        Option("threshold", 50.0, "Chunks in use for less than so many per cent are listed."),
        Option(
            "chunks",
            30,
            f"How many chunks of one length the window is cut into, 1 to {_MAX_CHUNKS}.",
        ),
    ),
    columns=COLUMNS,
    compute=compute,
)


def _rows(timeline: Timeline, use: Use, threshold: float, chunks: int) -> list[dict[str, Any]]:
    span = use.window
    size = -(-span.length // chunks)
    low = np.arange(span.start, span.end, size)
    high = np.minimum(low + size, span.end)
    used = use.in_use.covered(low, high)
    little = np.concatenate(([False], used * 100 < threshold * (high - low), [False]))
    begins = np.flatnonzero(little[1:] & ~little[:-1])
    ends = np.flatnonzero(little[:-1] & ~little[1:])
    reach = np.maximum.accumulate(use.ops.end)
    rows = []
    for first, past in zip(begins.tolist(), ends.tolist(), strict=True):
        start, end, in_use = int(low[first]), int(high[past - 1]), int(used[first:past].sum())
        rows.append(
            {
                "rank": timeline.ranks.get(use.pid),
                "pid": use.pid,
                "device_id": use.device,
                "start_ns": start,
                "dur_ns": end - start,
                "in_use_ns": in_use,
                "in_use_pct": float(percent(in_use, end - start)),
                **_evidence(timeline, use, reach, start, end),
            }
        )
    return rows


def _evidence(timeline: Timeline, use: Use, reach: Array, low: int, high: int) -> dict[str, Any]:
    """The operations that intersect [low, high): how many, and the first and last to begin. `reach` is
    per operation how far it and those before it go.
    """
    ops = use.ops
    begin = min(np.searchsorted(reach, low, "right"), np.searchsorted(ops.start, low, "left"))
    end = np.searchsorted(ops.start, high, "left")
    near = slice(int(begin), int(end))
    inside = np.flatnonzero((ops.end[near] > low) | (ops.start[near] >= low)) + begin
    ends = inside[[0, -1]] if len(inside) else np.array([-1, -1])
    (first, last), ids = named(timeline, ops, ends)
    return {
        "gpu_op_count": len(inside),
        "first_table": first,
        "first_id": int(ids[0]),
        "last_table": last,
        "last_id": int(ids[1]),
    }
