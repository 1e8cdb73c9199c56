"""Time in constructs of OpenACC, by construct and place."""

from __future__ import annotations

import re

import numpy as np

from nsysconv.errors import NotRecorded
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
from nsysconv.timeline.annotations import DIRECTIVE, operators
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import OPENACC, OPENACC_EXCLUSIVE, totals
from nsysconv.units import Unit

COLUMNS = time_columns(
    "openacc",
    Column("call_count", Unit.COUNT, "Executions.", printed=Printed("Num Calls")),
    Column(
        "name",
        Unit.TEXT,
        "The construct, `@`, its file and line.",
        key=True,
        printed=Printed("Name"),
    ),
)

_CONSTRUCT = r"acc_\w+|\[OpenACC event -?\d+\]"
_NAMES = (
    re.compile(rf"({_CONSTRUCT})(@.+?:\d+)(?: \(.*\))?", re.DOTALL),
    re.compile(rf"({_CONSTRUCT})((?:@.+?)?)(?: \(.*\))?", re.DOTALL),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per construct and place, most time first."""
    if Fact.DIRECTIVES not in timeline.profile.facts:
        return _of_totals(timeline)
    spans = operators(timeline)
    spans = spans.take(timeline.holds(spans) & (spans.kind == DIRECTIVE))
    places: dict[str, int] = {}
    of_name = np.full(len(spans.names), -1)
    for i, name in enumerate(spans.names):
        place = _place(name)
        if place is not None:
            of_name[i] = places.setdefault(place, len(places))
    group = of_name[spans.name] if len(spans) else np.empty(0, np.int64)
    mine = group >= 0
    found = sums(group[mine], (spans.end - spans.start)[mine], [(place,) for place in places])
    return time_table(COLUMNS, most_first(row for row in found if row.count))


OPENACC_SUM = Query(
    title="OpenACC Summary",
    needs={Fact.DIRECTIVES},
    totals={Fact.DIRECTIVE_TOTALS},
    columns=COLUMNS,
    compute=compute,
)


def _of_totals(timeline: Timeline) -> ColumnValues:
    found = totals(timeline, OPENACC)
    if not found and totals(timeline, OPENACC_EXCLUSIVE):
        # Times less those of the constructs inside are another quantity.
        advice = timeline.profile.advice.get(Fact.DIRECTIVES)
        raise NotRecorded("openacc_sum", [Fact.DIRECTIVES], [advice] if advice else [])
    by_place = times_of_totals(
        found, lambda total: _place(total.name) or total.name, lambda place: (place,)
    )
    return time_table(COLUMNS, most_first(by_place))


def _place(name: str) -> str | None:
    """A directive's name as nsys has it: `acc_enter_data@a.c:7 (x)` is `Enter Data@a.c:7`; None: it is
    not OpenACC's."""
    for pattern in _NAMES:
        match = pattern.fullmatch(name)
        if match:
            construct, place = match.groups()
            if construct.startswith("acc_"):
                construct = construct.removeprefix("acc_").replace("_", " ").title()
            return f"{construct}{place}"
    return None
