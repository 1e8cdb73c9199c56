"""Time in calls of the operating system's runtime libraries, by function."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats.summary import (
    most_first,
    sums,
    time_columns,
    time_table,
    times_of_totals,
)
from nsysconv.report import Column, Printed
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import OSRT_CALL, totals
from nsysconv.units import Unit

COLUMNS = time_columns(
    "osrt",
    Column("call_count", Unit.COUNT, "Calls.", printed=Printed("Num Calls")),
    Column("name", Unit.TEXT, "The function.", key=True, printed=Printed("Name")),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per function, most time first."""
    if Fact.OSRT_CALLS not in timeline.profile.facts:
        by_name = times_of_totals(
            totals(timeline, OSRT_CALL), lambda total: total.name, lambda name: (name,)
        )
        return time_table(COLUMNS, most_first(by_name))
    column = timeline.columns("osrt_call", ("dur_ns", "name_id"))
    group, (ids,) = factorize(column["name_id"])
    texts = timeline.profile.names(ids)
    found = sums(group, column["dur_ns"], [(texts[i],) for i in ids.tolist()])
    return time_table(COLUMNS, most_first(found))


OSRT_SUM = Query(
    title="OS Runtime Summary",
    needs={Fact.OSRT_CALLS},
    totals={Fact.OSRT_TOTALS},
    columns=COLUMNS,
    compute=compute,
)
