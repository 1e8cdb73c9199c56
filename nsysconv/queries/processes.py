"""One row per process: what it called and what it launched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    DIMENSIONS,
    PROFILE,
    RANK,
    count_column,
    dimensions_by_process,
    outer_call_time,
    sum_column,
    values_by_column,
)
from nsysconv.queries.contract import Array, ColumnValues, Query, Request
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import distinct
from nsysconv.timeline.events import ApiCalls
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import API_CALL, GPU_KINDS, totals

COLUMNS = (
    PROFILE,
    RANK,
    Column("pid", Unit.ID, "Process number.", key=True),
    Column("process", Unit.TEXT, "Name of the program."),
    DIMENSIONS,
    count_column("thread_count", "Number of threads with API calls.", brief=False),
    count_column("api_call_count", "Number of API calls."),
    sum_column(
        "api_sum_ns",
        "Sum of the durations of the outermost API calls of each thread; null: threads are not "
        "recorded.",
        "api_call_count",
    ),
    count_column("gpu_op_count", "Number of GPU operations of the process."),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per process with events, by number."""
    profile, calls, ops = timeline.profile, timeline.calls, timeline.ops
    facts = profile.facts
    has_threads = facts >= {Fact.THREADS, Fact.API_CALLS}
    rows: list[dict[str, Any]] = []
    dimensions = dimensions_by_process(timeline)
    for process in sorted(profile.rows("process"), key=lambda row: int(row["pid"])):
        pid = process["pid"]
        if not timeline.in_processes(np.array([pid])).all():
            continue
        own_calls = (calls.pid == pid) & timeline.calls_in_slice
        rows.append(
            {
                "rank": process["rank"],
                "pid": pid,
                "process": process["name"],
                "dimensions": dimensions[pid],
                "thread_count": _thread_count(calls, own_calls) if has_threads else None,
                "api_call_count": int(own_calls.sum())
                if Fact.API_CALLS in facts
                else _total_count(timeline, pid, {Fact.API_TOTALS: (API_CALL,)}),
                "api_sum_ns": outer_call_time(timeline, pid),
                "gpu_op_count": int(np.count_nonzero(ops.pid == pid))
                if Fact.KERNELS in facts
                else _total_count(timeline, pid, GPU_KINDS),
            }
        )
    return values_by_column(rows, COLUMNS[1:])


PROCESSES = Query(columns=COLUMNS, compute=compute)


def _thread_count(calls: ApiCalls, which: Array) -> int:
    made = distinct(calls.thread[which]).tolist()
    return sum(calls.threads[thread][1] != MISSING for thread in made)


def _total_count(timeline: Timeline, pid: int, kinds: Mapping[Fact, tuple[int, ...]]) -> int | None:
    """Return the count of these kinds in the totals of a process; None where it cannot be known."""
    facts = timeline.profile.facts
    # A process need not have unified memory.
    if not timeline.is_whole or not facts >= kinds.keys() - {Fact.UNIFIED_MEMORY_TOTALS}:
        return None
    recorded = totals(timeline, *(kind for fact in facts & kinds.keys() for kind in kinds[fact]))
    if any(total.pid is None for total in recorded):
        return None
    return sum(total.count for total in recorded if total.pid == pid)
