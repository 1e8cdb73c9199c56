"""`cuda_api_sum` of `nsys stats`: time per API function."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import Data, Option, Request
from nsysconv.queries.stats.api_calls import call_sums
from nsysconv.queries.stats.summary import time_columns, time_table
from nsysconv.report import Column, Printed
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

TITLE = "CUDA API Summary"
NEEDS = frozenset({Fact.API_CALLS})
USES: frozenset[Fact] = frozenset()
TOTALS = frozenset({Fact.API_TOTALS})
OPTIONS: tuple[Option, ...] = ()
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


def compute(timeline: Timeline, request: Request) -> Data:
    """One row per symbol, most time first."""
    return time_table(COLUMNS, call_sums(timeline))
