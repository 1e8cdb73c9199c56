"""One row per process: what it called and what it launched."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import PROFILE, RANK, Data, Request, in_part
from nsysconv.report import Column
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

TITLE = "Processes"
NEEDS: frozenset[Fact] = frozenset()
USES = frozenset({Fact.API_CALLS, Fact.KERNELS, Fact.THREADS, Fact.RANKS})
TOTALS: frozenset[Fact] = frozenset()
COLUMNS = (
    PROFILE,
    RANK,
    Column("pid", Unit.ID, "Process number.", key=True),
    Column("process", Unit.TEXT, "Name of the program."),
    Column("thread_count", Unit.COUNT, "Threads with recorded events.", brief=False),
    Column("api_call_count", Unit.COUNT, "API calls."),
    Column(
        "api_sum_ns",
        Unit.NS,
        "Sum of the durations of the outermost API calls of each thread.",
        better="less",
    ),
    Column("gpu_op_count", Unit.COUNT, "GPU operations of the process."),
)


def compute(timeline: Timeline, request: Request) -> Data:
    """One row per process with events, by number."""
    profile, calls, ops = timeline.profile, timeline.calls, timeline.ops
    threads = profile.rows("thread")
    called = in_part(request, calls.start, calls.end)
    ran = in_part(request, ops.start, ops.end)
    rows: list[dict[str, Any]] = []
    for process in sorted(profile.rows("process"), key=lambda row: int(row["pid"])):
        pid = process["pid"]
        mine = (calls.pid == pid) & called
        outer = mine & calls.outermost
        rows.append(
            {
                "rank": process["rank"],
                "pid": pid,
                "process": process["name"],
                "thread_count": sum(thread["pid"] == pid for thread in threads)
                if Fact.THREADS in profile.facts
                else None,
                "api_call_count": int(mine.sum()) if Fact.API_CALLS in profile.facts else None,
                "api_sum_ns": int((calls.end[outer] - calls.start[outer]).sum())
                if Fact.API_CALLS in profile.facts
                else None,
                "gpu_op_count": int(np.count_nonzero((ops.pid == pid) & ran))
                if Fact.KERNELS in profile.facts
                else None,
            }
        )
    return {column.name: [row[column.name] for row in rows] for column in COLUMNS[1:]}
