"""Every call of MPI."""

from __future__ import annotations

import numpy as np

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.queries.contract import Query, Request, Result
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import distinct
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

Array = np.ndarray

COLUMNS = (
    Column("start_ns", Unit.NS, "When it began.", printed=Printed("Start (ns)")),
    Column("end_ns", Unit.NS, "When it ended.", printed=Printed("End (ns)")),
    Column("dur_ns", Unit.NS, "How long it took.", printed=Printed("Duration (ns)")),
    Column("name", Unit.TEXT, "The function.", key=True, printed=Printed("Event")),
    Column("pid", Unit.ID, "The process.", key=True, printed=Printed("Pid")),
    Column("tid", Unit.ID, "The thread.", key=True, printed=Printed("Tid")),
    Column("tag", Unit.ID, "Tag of the message.", printed=Printed("Tag")),
    Column("rank", Unit.ID, "Rank of the process.", printed=Printed("Rank")),
    Column(
        "remote_rank", Unit.ID, "The rank sent to or received from.", printed=Printed("PeerRank")
    ),
    Column("root_rank", Unit.ID, "The root of the collective.", printed=Printed("RootRank")),
    Column(
        "bytes", Unit.BYTES, "Bytes sent or received; not of collectives.", printed=Printed("Size")
    ),
    Column(
        "send_bytes", Unit.BYTES, "Bytes that a collective sent.", printed=Printed("CollSendSize")
    ),
    Column(
        "recv_bytes",
        Unit.BYTES,
        "Bytes that a collective received.",
        printed=Printed("CollRecvSize"),
    ),
)

_COLLECTIVE = codes.MPI_KINDS.index("collective")


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per call in the order of their starts."""
    same = ("start_ns", "dur_ns", "pid", "tid", "tag", "remote_rank", "root_rank")
    column = timeline.columns("mpi_call", (*same, "kind", "name_id", "bytes", "recv_bytes"))
    order = np.argsort(column["start_ns"], kind="stable")
    count = len(order)
    order = order[: request.limit or None]
    column = {name: values[order].astype(np.int64) for name, values in column.items()}
    start, dur, size = column["start_ns"], column["dur_ns"], column["bytes"]
    collective = column["kind"] == _COLLECTIVE
    texts = timeline.profile.names(distinct(column["name_id"]))
    return Result(
        {
            **{name: column[name] for name in same},
            "end_ns": np.where((start == MISSING) | (dur == MISSING), MISSING, start + dur),
            "name": [texts[i] for i in column["name_id"].tolist()],
            "rank": _ranks(timeline, column["pid"]),
            "bytes": np.where(collective, MISSING, size),
            "send_bytes": np.where(collective, size, MISSING),
            "recv_bytes": np.where(collective, column["recv_bytes"], MISSING),
        },
        row_count=count,
    )


MPI_EVENT_TRACE = Query(
    title="MPI Event Trace",
    needs={Fact.MPI_CALLS},
    uses={Fact.RANKS},
    columns=COLUMNS,
    compute=compute,
)


def _ranks(timeline: Timeline, pids: Array) -> Array:
    found = np.full(len(pids), MISSING)
    for pid, rank in timeline.ranks.items():
        found[pids == pid] = rank
    return found
