"""Time in calls of MPI, by function."""

from __future__ import annotations

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats.summary import most_first, sums, time_columns, time_table
from nsysconv.report import Column, Printed
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = time_columns(
    "mpi",
    Column("call_count", Unit.COUNT, "Calls.", printed=Printed("Instances")),
    Column(
        "source",
        Unit.TEXT,
        "Which kind of call: p2p, collectives, start-wait (starts or waits for requests), other.",
        key=True,
        printed=Printed("Source"),
    ),
    Column("name", Unit.TEXT, "The function.", key=True, printed=Printed("Name")),
)

_SOURCES = {"p2p": "p2p", "collective": "collectives", "wait": "start-wait", "other": "other"}


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per kind and function, most time first."""
    column = timeline.columns("mpi_call", ("dur_ns", "kind", "name_id"))
    group, (kinds, ids) = factorize(column["kind"], column["name_id"])
    texts = timeline.profile.names(ids)
    labels = [
        (_SOURCES[codes.MPI_KINDS[kind]], texts[i])
        for kind, i in zip(kinds.tolist(), ids.tolist(), strict=True)
    ]
    return time_table(COLUMNS, most_first(sums(group, column["dur_ns"], labels)))


MPI_EVENT_SUM = Query(
    title="MPI Event Summary",
    needs={Fact.MPI_CALLS},
    columns=COLUMNS,
    compute=compute,
)
