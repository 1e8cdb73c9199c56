"""Time in NVTX ranges by name."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats.nvtx import INSTANCES, RANGE, STYLE, STYLES, sums_by_name
from nsysconv.queries.stats.summary import most_first, time_columns, time_table, times_of_totals
from nsysconv.report import Column, Printed
from nsysconv.timeline.annotations import PUSH_POP, START_END, domain_names
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import RANGE as RANGE_TOTAL
from nsysconv.timeline.totals import Total, totals
from nsysconv.units import Unit

COLUMNS = time_columns(
    "range",
    INSTANCES,
    Column(
        "style",
        Unit.TEXT,
        f"{STYLE} Null: the source does not tell.",
        key=True,
        printed=Printed("Style"),
    ),
    RANGE,
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per name and style, most time first."""
    if Fact.RANGES in timeline.profile.facts:
        return time_table(COLUMNS, sums_by_name(timeline, PUSH_POP, START_END))
    known = domain_names(timeline.profile)

    def name(total: Total) -> str:
        if total.domain_id is None:  # not told, unless the name itself says it
            return total.name
        return f"{known.get((total.pid or 0, total.domain_id), '')}:{total.name}"

    found = times_of_totals(
        totals(timeline, RANGE_TOTAL),
        lambda total: (total.range_kind, name(total)),
        lambda key: (None if key[0] is None else STYLES.get(key[0]), key[1]),
    )
    return time_table(COLUMNS, most_first(found))


NVTX_SUM = Query(
    title="NVTX Range Summary",
    needs={Fact.RANGES},
    totals={Fact.RANGE_TOTALS},
    columns=COLUMNS,
    compute=compute,
)
