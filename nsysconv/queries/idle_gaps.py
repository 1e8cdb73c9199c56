"""The gaps themselves, longest first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nsysconv import schema
from nsysconv.codes import DIRECTIONS
from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    BY_DEVICE,
    GAP_KIND,
    GAP_PART_DOCS,
    GAP_STREAM,
    HOST_FACTS,
    duration_column,
)
from nsysconv.queries.contract import Query, Request, Result
from nsysconv.queries.values import code_name, gap_keys, rows_at
from nsysconv.report import MISSING, Column
from nsysconv.timeline import idle
from nsysconv.timeline.arrays import distinct
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    *BY_DEVICE,
    replace(GAP_KIND, brief=False),
    replace(GAP_STREAM, brief=False),
    Column("start_ns", Unit.NS, "When the gap began.", key=True),
    duration_column("dur_ns", "How long it was."),
    Column("cause", Unit.TEXT, "The largest of its parts."),
    *(
        duration_column(f"{part}_ns", f"Part of it: {GAP_PART_DOCS[part]}.", brief=False)
        for part in idle.PARTS
    ),
    Column("thread", Unit.TEXT, "The thread whose call ended it.", brief=False),
    Column("during", Unit.TEXT, "What that thread did for the longest time of the host part."),
    Column("during_ns", Unit.NS, "How long it did that.", brief=False),
    Column("next_op", Unit.TEXT, "The GPU operation that ended it."),
)


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per gap of the requested kinds, longest first."""
    gap_lists = [each for kind in request.idle_kinds for each in idle.gaps(timeline, kind)]
    total = sum(len(each) for each in gap_lists)
    # There may be millions of gaps: only those that will be shown are described.
    if request.limit and total > request.limit:
        durations = np.concatenate([each.dur for each in gap_lists])
        shortest = int(np.partition(durations, total - request.limit)[total - request.limit])
        gap_lists = [each.take(each.dur >= shortest) for each in gap_lists]
    activities = idle.host_activity(timeline)
    names = _Names(timeline)
    columns: dict[str, list[Any]] = {column.name: [] for column in COLUMNS[1:]}
    for each in gap_lists:
        _add(columns, timeline, each, activities, names)
    start, dur = (np.array(columns[name], np.int64) for name in ("start_ns", "dur_ns"))
    return Result(rows_at(columns, np.lexsort((start, -dur))), total)


IDLE_GAPS = Query(
    title="Idle gaps, longest first",
    needs={Fact.KERNELS},
    uses={Fact.API_LINKS, Fact.THREADS, *HOST_FACTS},
    columns=COLUMNS,
    compute=compute,
)


def _add(
    columns: dict[str, list[Any]],
    timeline: Timeline,
    device_gaps: idle.Gaps,
    activities: idle.HostActivity,
    names: _Names,
) -> None:
    columns["start_ns"] += device_gaps.start.tolist()
    columns["dur_ns"] += device_gaps.dur.tolist()
    gap_parts = idle.parts(timeline, device_gaps)
    columns["cause"] += [idle.PARTS[cause] for cause in gap_parts.argmax(axis=0).tolist()]
    for part, spent in zip(idle.PARTS, gap_parts.tolist(), strict=True):
        columns[f"{part}_ns"] += spent
    activity_names, activity_times = _during(
        idle.drop_threadless_host_parts(timeline, device_gaps), activities
    )
    columns["during"] += activity_names
    columns["during_ns"] += activity_times
    columns["thread"] += [names.thread(op) for op in device_gaps.ended_by.tolist()]
    columns["next_op"] += [names.operation(op) for op in device_gaps.ended_by.tolist()]
    for name, value in gap_keys(timeline, device_gaps).items():
        columns[name] += [value] * len(device_gaps)


def _during(
    device_gaps: idle.Gaps, activities: idle.HostActivity
) -> tuple[list[str | None], list[int | None]]:
    """Return per gap the activity with the largest share of its host part, and that share."""
    names: list[str | None] = [None] * len(device_gaps)
    times: list[int | None] = [None] * len(device_gaps)
    # By name: two symbols of one function are one activity.
    totals: dict[tuple[int, str], int] = {}
    for pieces in activities.split(device_gaps):
        for gap, label, time in zip(
            pieces.gap.tolist(), pieces.label.tolist(), pieces.time.tolist(), strict=True
        ):
            name = activities.name(label)[1]
            totals[gap, name] = totals.get((gap, name), 0) + time
    for (gap, name), time in totals.items():
        best = times[gap]
        if best is None or time > best:
            names[gap], times[gap] = name, time
    return names, times


class _Names:
    """What operations and threads are called."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        kernels = timeline.profile.columns("kernel", ("name_id",))["name_id"]
        self._kernel_names = timeline.profile.names(distinct(kernels[kernels != MISSING]))
        self._kernels = kernels
        self._threads = {
            (row["pid"], row["tid"]): row["name"] for row in timeline.profile.rows("thread")
        }

    def operation(self, op: int) -> str | None:
        """Return a kernel's name, or what kind of operation it is; None for -1."""
        if op < 0:
            return None
        ops = self._timeline.ops
        kind, row = OpKind(int(ops.kind[op])), int(ops.row[op])
        if kind is OpKind.KERNEL:
            return self._kernel_names.get(int(self._kernels[row]), "[no name]")
        if kind in (OpKind.MEMCPY, OpKind.MIGRATION):
            table = schema.GPU_OP_TABLES[kind]
            directions = self._timeline.profile.columns(table, ("direction",))["direction"]
            word = code_name(DIRECTIONS, int(directions[row])) or "Unknown"
            return f"[memcpy {word}]" if kind is OpKind.MEMCPY else f"[UM {word}]"
        return "[memset]" if kind is OpKind.MEMSET else "[graph launch]"

    def thread(self, op: int) -> str | None:
        """Return number and name of the thread that launched an operation; None: not recorded."""
        owner = int(self._timeline.owner[op]) if op >= 0 else -1
        if owner < 0:
            return None
        calls = self._timeline.calls
        pid, tid = calls.threads[int(calls.thread[owner])]
        if tid == MISSING:
            return None
        name = self._threads.get((pid, tid))
        return f"{tid} {name}" if name else str(tid)
