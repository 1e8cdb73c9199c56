"""API calls as `nsys stats` sums them up: by symbol, runtime and driver in one."""

from __future__ import annotations

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.stats.summary import Sum, sums, times_of_totals
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import API_CALL, totals


def shown_name(symbol: str) -> str:
    """A symbol without `_v` and what follows it, where that is four characters and nothing else.

    `cudaMalloc_v3020` is `cudaMalloc`, and `cudaLaunchKernelExC_v11060` stays as it is.
    """
    return symbol[:-6] if symbol[-6:-4] == "_v" else symbol


def call_sums(timeline: Timeline) -> list[Sum]:
    """One sum per symbol, most time first, equal ones as the source numbers the symbols.

    Totals of two versions of a function may have the same name: they are not added up.
    """
    if Fact.API_CALLS not in timeline.profile.facts:
        by_row = [
            row
            for total in totals(timeline, API_CALL)
            for row in times_of_totals(
                [total], lambda total: shown_name(total.symbol), lambda name: (name,)
            )
        ]
        return sorted(by_row, key=lambda row: -(row.total or 0))
    column = timeline.columns("api_call", ("dur_ns", "name_id"))
    group, (name_ids,) = factorize(column["name_id"])
    texts = timeline.profile.names(name_ids)
    labels = [(shown_name(texts[i]),) for i in name_ids.tolist()]
    found = sums(np.asarray(group), column["dur_ns"], labels)
    return sorted(found, key=lambda row: -(row.total or 0))
