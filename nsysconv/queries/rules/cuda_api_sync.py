"""The rule about calls that wait for a whole device or stream (docs/rules.md)."""

from __future__ import annotations

import re

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import PROFILE, RANK, duration_column
from nsysconv.queries.contract import Array, Query, Request, Result
from nsysconv.report import Column
from nsysconv.timeline.events import call_ids
from nsysconv.timeline.timeline import Timeline, cached_whole
from nsysconv.units import Unit

PID = Column("pid", Unit.ID, "The process.")
FUNCTION = Column("name", Unit.TEXT, "Documented name of the function.")
COLUMNS = (
    PROFILE,
    RANK,
    PID,
    Column("tid", Unit.ID, "The thread; null: not recorded."),
    Column("call_id", Unit.ID, "The call, `api_call.id`.", key=True),
    Column("start_ns", Unit.NS, "When the call began."),
    duration_column("dur_ns", "How long it took."),
    FUNCTION,
)

# A thread is what CUDA called a context's device before there were others.
_WAITS = re.compile(r"cuda(?:Device|Stream|Thread)Synchronize|cu(?:Ctx|Stream)Synchronize"
                    r"|hip(?:Device|Stream|Ctx)Synchronize")  # fmt: skip


@cached_whole
def call_row_ids(timeline: Timeline) -> Array:
    """Return the id in the table api_call of each call; kept for all rules, for it reads a long table."""
    return call_ids(timeline.whole.profile, timeline.whole.calls)


def _waiting_calls(timeline: Timeline, request: Request) -> Result:
    """Return one row per outermost call, longest first."""
    calls = timeline.calls
    functions = [i for i, name in timeline.call_names.items() if _WAITS.match(name)]
    waits = timeline.calls_in_slice & calls.outermost & np.isin(calls.name_id, functions)
    waiting = np.flatnonzero(waits)
    dur, ids = (calls.end - calls.start)[waiting], call_row_ids(timeline)[waiting]
    order = np.lexsort((ids, calls.start[waiting], -dur))
    count = len(order)
    order = order[: request.limit or None]
    shown = waiting[order]
    threads = [calls.threads[place] for place in calls.thread[shown].tolist()]
    values = {
        "rank": [timeline.ranks.get(pid) for pid, _ in threads],
        "pid": [pid for pid, _ in threads],
        "tid": [tid for _, tid in threads],
        "call_id": ids[order],
        "start_ns": calls.start[shown],
        "dur_ns": dur[order],
        "name": [timeline.call_names[i] for i in calls.name_id[shown].tolist()],
    }
    return Result(values, count)


CUDA_API_SYNC = Query(
    title="Calls that wait for a device or a stream, longest first",
    needs={Fact.API_CALLS},
    uses={Fact.THREADS},
    columns=COLUMNS,
    compute=_waiting_calls,
)
