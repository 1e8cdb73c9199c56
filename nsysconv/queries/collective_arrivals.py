"""Each collective of a run: who came first, who came last, and how long the others waited."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.queries.columns import duration_column, key_column
from nsysconv.queries.contract import Array, Query, Result, compute_alone
from nsysconv.queries.kernel_categories import RULES
from nsysconv.queries.stragglers import ANY_OF, USES, CollectivesAggregator, partial
from nsysconv.report import Column
from nsysconv.timeline.collectives import CollectiveGroups
from nsysconv.units import Unit

COLUMNS = (
    key_column("operation", "What it does."),
    key_column("group", "The group of ranks, as far as it is recorded, else null."),
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
    duration_column("spread_ns", "How much later the last rank came."),
    Column("rank_count", Unit.COUNT, "Ranks (or devices of ranks) that are known to have come."),
    Column("first_rank", Unit.ID, "Who came first; null: a process without a rank.", brief=False),
    Column("last_rank", Unit.ID, "Who came last."),
    duration_column("wait_sum_ns", "How long all others waited for the last, added up.", adds=True),
)


class _Arrivals(CollectivesAggregator):
    def result(self) -> Result:
        """Return one row per collective of several ranks; those first in which others waited longest."""
        matched, _, notes = self.matched()
        ranks = [member.rank for member in self.meetings.participants]
        joint = np.flatnonzero((matched.count > 1) & matched.shown)
        joint = joint[np.lexsort((matched.first[joint], -matched.wait_sum[joint]))]
        shown = joint[: self.limit or None]
        return Result(_values(matched, shown, ranks), len(joint), notes)


def _values(matched: CollectiveGroups, places: Array, ranks: list[int | None]) -> dict[str, Any]:
    series = [matched.series[i] for i in matched.series_of[places].tolist()]
    return {
        "operation": [each.operation for each in series],
        "group": [each.group or None for each in series],
        "index": matched.number[places],
        "repeat": [each.repeat for each in series],
        "start_ns": matched.first[places],
        "spread_ns": matched.last[places] - matched.first[places],
        "rank_count": matched.count[places],
        "first_rank": [ranks[i] for i in matched.first_who[places].tolist()],
        "last_rank": [ranks[i] for i in matched.last_who[places].tolist()],
        "wait_sum_ns": matched.wait_sum[places],
    }


COLLECTIVE_ARRIVALS = Query(
    title="Collectives: who came first and who last",
    any_of=ANY_OF,
    uses=USES,
    options=(RULES,),
    columns=COLUMNS,
    compute=compute_alone(partial, _Arrivals),
    partial=partial,
    aggregator=_Arrivals,
)
