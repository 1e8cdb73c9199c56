"""`cuda_api_sum` of `nsys stats`: time per API function."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats.api_calls import call_sums
from nsysconv.queries.stats.summary import time_columns, time_table
from nsysconv.report import Column, Printed
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = time_columns(
    "api",
    Column("call_count", Unit.COUNT, "Calls.", printed=Printed("Num Calls")),
    Column(
        "name",
        Unit.TEXT,
        "The function; two versions of one are two rows.",
        key=True,
        printed=Printed("Name"),
    ),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per symbol, most time first."""
    return time_table(COLUMNS, call_sums(timeline))


CUDA_API_SUM = Query(
    title="CUDA API Summary",
    needs={Fact.API_CALLS},
    totals={Fact.API_TOTALS},
    columns=COLUMNS,
    compute=compute,
)
