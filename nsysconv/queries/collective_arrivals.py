"""Each collective of a run: who came first, who came last, and how long the others waited."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.queries.contract import Aggregator, Array, Query, Request, Result, aggregate_one
from nsysconv.queries.kernel_categories import RULES
from nsysconv.queries.stragglers import ANY_OF, USES, Gathered, partial
from nsysconv.report import Column
from nsysconv.timeline.collectives import CollectiveGroups
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    Column("operation", Unit.TEXT, "What it does.", key=True),
    Column(
        "group", Unit.TEXT, "The group of ranks, as far as it is recorded, else null.", key=True
    ),
    Column(
        "index",
        Unit.ID,
        "Its number in its group as recorded; else which one of its operation it is on each rank, "
        "from 0.",
        key=True,
    ),
    Column("repeat", Unit.ID, "Which one of that number, from 0.", key=True, brief=False),
    Column(
        "start_ns",
        Unit.NS,
        "When the first rank came, since the zero of the profile whose clock is the run's.",
    ),
    Column("spread_ns", Unit.NS, "How much later the last rank came.", better="less"),
    Column("rank_count", Unit.COUNT, "Ranks (or devices of ranks) that are known to have come."),
    Column("first_rank", Unit.ID, "Who came first; null: a process without a rank.", brief=False),
    Column("last_rank", Unit.ID, "Who came last."),
    Column(
        "wait_sum_ns",
        Unit.NS,
        "How long all others waited for the last, added up.",
        better="less",
        adds=True,
    ),
)


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per collective that several ranks of the profile took part in."""
    return aggregate_one(aggregator(request), timeline, partial(timeline, request))


def aggregator(request: Request) -> Aggregator:
    """The same of all profiles of a run; those first in which the others waited longest."""
    return _Each(request.limit)


COLLECTIVE_ARRIVALS = Query(
    title="Collectives: who came first and who last",
    any_of=ANY_OF,
    uses=USES,
    options=(RULES,),
    columns=COLUMNS,
    compute=compute,
    partial=partial,
    aggregator=aggregator,
)


class _Each(Gathered):
    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def result(self) -> Result:
        met, _, notes = self.met()
        ranks = [one.rank for one in self.meetings.participants]
        which = np.flatnonzero((met.count > 1) & met.shown)
        which = which[np.lexsort((met.first[which], -met.wait_sum[which]))]
        kept = which[: self._limit] if self._limit else which
        return Result(_columns(met, kept, ranks), len(which), notes)


def _columns(met: CollectiveGroups, which: Array, ranks: list[int | None]) -> dict[str, Any]:
    series = [met.series[i] for i in met.series_of[which].tolist()]
    return {
        "operation": [each.operation for each in series],
        "group": [each.group or None for each in series],
        "index": met.number[which],
        "repeat": [each.repeat for each in series],
        "start_ns": met.first[which],
        "spread_ns": met.last[which] - met.first[which],
        "rank_count": met.count[which],
        "first_rank": [ranks[i] for i in met.first_who[which].tolist()],
        "last_rank": [ranks[i] for i in met.last_who[which].tolist()],
        "wait_sum_ns": met.wait_sum[which],
    }
