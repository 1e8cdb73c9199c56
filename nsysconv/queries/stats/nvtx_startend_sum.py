"""Time in start/end ranges by name."""

from __future__ import annotations

from dataclasses import replace

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats.nvtx import INSTANCES, RANGE, sums_by_name
from nsysconv.queries.stats.summary import time_columns, time_table
from nsysconv.timeline.annotations import START_END
from nsysconv.timeline.timeline import Timeline

COLUMNS = time_columns("range", INSTANCES, RANGE)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per name, most time first."""
    found = sums_by_name(timeline, START_END)
    return time_table(COLUMNS, [replace(row, labels=row.labels[1:]) for row in found])


NVTX_STARTEND_SUM = Query(
    title="NVTX Start/End Range Summary",
    needs={Fact.RANGES},
    columns=COLUMNS,
    compute=compute,
)
