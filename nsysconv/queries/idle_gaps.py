"""The gaps themselves, longest first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nsysconv.codes import DIRECTIONS
from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    DEVICE,
    GAP_KIND,
    GAP_PART_DOCS,
    GAP_STREAM,
    PROFILE,
    RANK,
    gap_keys,
)
from nsysconv.queries.contract import Array, Query, Request, Result
from nsysconv.report import MISSING, Column
from nsysconv.timeline.arrays import distinct
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.idle import (
    PARTS,
    Gaps,
    HostActivity,
    drop_threadless_host_parts,
    gaps,
    host_activity,
    parts,
)
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    PROFILE,
    RANK,
    DEVICE,
    replace(GAP_KIND, brief=False),
    replace(GAP_STREAM, brief=False),
    Column("start_ns", Unit.NS, "When the gap began.", key=True),
    Column("dur_ns", Unit.NS, "How long it was.", better="less"),
    Column("cause", Unit.TEXT, "The largest of its parts."),
    *(
        Column(
            f"{part}_ns", Unit.NS, f"Part of it: {GAP_PART_DOCS[part]}.", better="less", brief=False
        )
        for part in PARTS
    ),
    Column("thread", Unit.TEXT, "The thread whose call ended it.", brief=False),
    Column("during", Unit.TEXT, "What that thread did for the longest time of the host part."),
    Column("during_ns", Unit.NS, "How long it did that.", brief=False),
    Column("next_op", Unit.TEXT, "The GPU operation that ended it."),
)


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per gap of the requested kinds, longest first."""
    found = [g for kind in request.idle_kinds for g in gaps(timeline, kind)]
    total = sum(len(g) for g in found)
    # Words are made for the rows that will be shown; there may be millions of gaps.
    if request.limit and total > request.limit:
        durations = np.concatenate([g.dur for g in found])
        shortest = int(np.partition(durations, total - request.limit)[total - request.limit])
        found = [g.take(g.dur >= shortest) for g in found]
    doing = host_activity(timeline)
    words = _Words(timeline)
    columns: dict[str, list[Any]] = {column.name: [] for column in COLUMNS[1:]}
    for each in found:
        _add(columns, timeline, each, doing, words)
    order = np.lexsort(
        (np.array(columns["start_ns"], np.int64), -np.array(columns["dur_ns"], np.int64))
    )
    return Result(
        {name: [values[i] for i in order.tolist()] for name, values in columns.items()}, total
    )


IDLE_GAPS = Query(
    title="Idle gaps, longest first",
    needs={Fact.KERNELS},
    uses={
        Fact.API_LINKS,
        Fact.OPERATORS,
        Fact.DIRECTIVES,
        Fact.PYTHON_FUNCTIONS,
        Fact.RANGES,
        Fact.DEVICES,
        Fact.OVERHEAD,
        Fact.THREADS,
    },
    columns=COLUMNS,
    compute=compute,
)


def _add(
    columns: dict[str, list[Any]],
    timeline: Timeline,
    found: Gaps,
    doing: HostActivity,
    words: _Words,
) -> None:
    columns["start_ns"] += found.start.tolist()
    columns["dur_ns"] += found.dur.tolist()
    of_whom = parts(timeline, found)
    columns["cause"] += [PARTS[cause] for cause in of_whom.argmax(axis=0).tolist()]
    for part, spent in zip(PARTS, of_whom.tolist(), strict=True):
        columns[f"{part}_ns"] += spent
    during, during_ns = _during(drop_threadless_host_parts(timeline, found), doing)
    columns["during"] += during
    columns["during_ns"] += during_ns
    columns["thread"] += [words.thread(op) for op in found.ended_by.tolist()]
    columns["next_op"] += [words.operation(op) for op in found.ended_by.tolist()]
    for name, value in gap_keys(timeline, found).items():
        columns[name] += [value] * len(found)


def _during(found: Gaps, doing: HostActivity) -> tuple[list[str | None], list[int | None]]:
    """Per gap the activity with the largest share of its host part, and that share."""
    names: list[str | None] = [None] * len(found)
    times: list[int | None] = [None] * len(found)
    # By name: two symbols of one function are one activity.
    totals: dict[tuple[int, str], int] = {}
    for pieces in doing.split(found):
        for gap, label, time in zip(
            pieces.gap.tolist(), pieces.label.tolist(), pieces.time.tolist(), strict=True
        ):
            name = doing.name(label)[1]
            totals[gap, name] = totals.get((gap, name), 0) + time
    for (gap, name), time in totals.items():
        best = times[gap]
        if best is None or time > best:
            names[gap], times[gap] = name, time
    return names, times


class _Words:
    """Operations and threads in words."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        kernels = timeline.profile.columns("kernel", ("name_id",))["name_id"]
        self._kernel_names = timeline.profile.names(distinct(kernels[kernels != MISSING]))
        self._kernels = kernels
        self._threads = {
            (row["pid"], row["tid"]): row["name"] for row in timeline.profile.rows("thread")
        }

    def operation(self, op: int) -> str | None:
        """A kernel's name, or what kind of operation it is; None for none."""
        if op < 0:
            return None
        ops = self._timeline.ops
        kind, row = OpKind(int(ops.kind[op])), int(ops.row[op])
        if kind is OpKind.KERNEL:
            return self._kernel_names.get(int(self._kernels[row]), "[no name]")
        if kind in (OpKind.MEMCPY, OpKind.MIGRATION):
            table, prefix = (
                ("memcpy", "[memcpy ")
                if kind is OpKind.MEMCPY
                else ("unified_memory_event", "[UM ")
            )
            return f"{prefix}{self._direction(table, row)}]"
        return "[memset]" if kind is OpKind.MEMSET else "[graph launch]"

    def _direction(self, table: str, row: int) -> str:
        codes: Array = self._timeline.profile.columns(table, ("direction",))["direction"]
        code = int(codes[row])
        return DIRECTIONS[code] if 0 <= code < len(DIRECTIONS) else "Unknown"

    def thread(self, op: int) -> str | None:
        """The thread that launched an operation: its number, and its name where it has one."""
        owner = int(self._timeline.owner[op]) if op >= 0 else -1
        if owner < 0:
            return None
        calls = self._timeline.calls
        pid, tid = calls.threads[int(calls.thread[owner])]
        if tid == MISSING:
            return None
        name = self._threads.get((pid, tid))
        return f"{tid} {name}" if name else str(tid)
