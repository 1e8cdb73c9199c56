"""`cuda_api_trace` of `nsys stats`: every API call."""

from __future__ import annotations

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats.api_calls import shown_name
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import factorize, take
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    Column("start_ns", Unit.NS, "When the call began.", key=True, printed=Printed("Start (ns)")),
    Column("dur_ns", Unit.NS, "How long it took.", better="less", printed=Printed("Duration (ns)")),
    Column("name", Unit.TEXT, "The function.", key=True, printed=Printed("Name")),
    Column("result", Unit.ID, "What it returned; 0 is success.", printed=Printed("Result")),
    Column(
        "correlation_id",
        Unit.ID,
        "Shared with what it launched.",
        brief=False,
        printed=Printed("CorrID"),
    ),
    Column("pid", Unit.ID, "The process.", key=True, printed=Printed("Pid")),
    Column("tid", Unit.ID, "The thread.", key=True, printed=Printed("Tid")),
    Column(
        "priority",
        Unit.ID,
        "Priority of the thread, as the source gives it.",
        brief=False,
        printed=Printed("T-Pri"),
    ),
    Column("thread", Unit.TEXT, "Name of the thread.", brief=False, printed=Printed("Thread Name")),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per call, by start."""
    names = ("start_ns", "dur_ns", "name_id", "result", "correlation_id", "pid", "tid")
    column = timeline.columns("api_call", names)
    order = np.argsort(column["start_ns"], kind="stable")
    data = {name: take(values, order) for name, values in column.items()}
    place, (name_ids,) = factorize(data.pop("name_id"))
    texts = timeline.profile.names(name_ids)
    shown = np.array([shown_name(texts[i]) for i in name_ids.tolist()], object)
    threads, (pids, tids) = factorize(data["pid"], data["tid"])
    known = {(row["pid"], row["tid"]): row for row in timeline.profile.rows("thread")}
    rows = [known.get(thread, {}) for thread in zip(pids.tolist(), tids.tolist(), strict=True)]
    priorities = [row.get("priority") for row in rows]
    return {
        **data,
        "name": shown[place],
        "priority": np.array([MISSING if p is None else p for p in priorities], np.int64)[threads],
        "thread": np.array([row.get("name") for row in rows], object)[threads],
    }


CUDA_API_TRACE = Query(
    title="CUDA API Trace",
    needs={Fact.API_CALLS},
    uses={Fact.THREADS},
    columns=COLUMNS,
    compute=compute,
)
