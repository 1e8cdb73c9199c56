"""Queries: one module per report, shared by all sources."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import cast

from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact, in_order
from nsysconv.notes import Note, merged
from nsysconv.phases import phase
from nsysconv.queries.contract import Answer, Data, Query, Request
from nsysconv.report import Report, build_table
from nsysconv.timeline.timeline import Timeline

CORE = (
    "overview",
    "processes",
    "api_vs_kernel",
    "kernels",
    "transfers",
    "transfer_sizes",
    "idle_summary",
    "idle_host",
    "idle_gaps",
)
"""The reports that answer for every source, printed where none is named."""

REPORTS = (
    *CORE,
    "gpu_utilization",
    "steps",
)
"""Modules of this folder that are reports. A new report is one more word here."""

BY_STEP = ("gpu_utilization",)
"""Reports that can give a row per step."""

_LIMITS = {"idle_gaps": 1000}


def query(name: str) -> Query:
    """The query module of a report. Raises UsageError with the names there are."""
    if name not in REPORTS:
        raise UsageError(f"no report {name!r}", hint=f"There are: {', '.join(REPORTS)}")
    return cast(Query, importlib.import_module(f"nsysconv.queries.{name}"))


def default_limit(name: str, *, for_people: bool) -> int:
    """How many rows a report shows unless told: 0 is all of them."""
    return 20 if for_people else _LIMITS.get(name, 0)


def read_ahead(names: Iterable[str], timeline: Timeline) -> None:
    """Has the timeline read at once what these reports will ask it for one by one."""
    wanted = {fact for name in names for fact in query(name).NEEDS | query(name).USES}
    if wanted >= {Fact.KERNELS, Fact.API_CALLS}:
        timeline.read_ahead()


def answer(name: str, timeline: Timeline, request: Request) -> Report:
    """A report on one profile. Raises NotRecorded where the profile lacks what the report needs."""
    module = query(name)
    missing = in_order(module.NEEDS - timeline.profile.facts)
    from_totals = request.part is None and bool(module.TOTALS & timeline.profile.facts)
    if missing and not from_totals:
        advice = [
            timeline.profile.advice[fact] for fact in missing if fact in timeline.profile.advice
        ]
        raise NotRecorded(name, missing, list(dict.fromkeys(advice)))
    with phase(f"compute {name}"):
        found = module.compute(timeline, request)
    if not isinstance(found, Answer):
        found = Answer(found)
    data = found.data
    filled = {"profile": [timeline.profile.ref.label] * _length(data), **data}
    table = build_table(module.COLUMNS, filled)
    report = Report(
        name=name,
        title=module.TITLE,
        columns=module.COLUMNS,
        table=table,
        profiles=(timeline.profile.ref,),
        slice=request.part.as_dict() if request.part else None,
        notes=tuple(_notes(module, timeline, found.notes)),
        row_count=table.num_rows if found.row_count is None else found.row_count,
    )
    return report.limited(request.limit)


def unanswered(error: NotRecorded, timeline: Timeline) -> Report:
    """The report that says what is missing, in place of one."""
    module = query(error.report)
    return Report(
        name=error.report,
        title=module.TITLE,
        columns=module.COLUMNS,
        table=None,
        profiles=(timeline.profile.ref,),
        not_recorded=tuple(f.label for f in error.missing),
        advice=error.advice,
    )


def _notes(module: Query, timeline: Timeline, own: tuple[Note, ...]) -> list[Note]:
    facts = module.NEEDS | module.USES | module.TOTALS
    found = [*timeline.profile.notes, *own]
    if Fact.KERNELS in facts or Fact.MEMCPYS in facts:
        found += timeline.op_notes
    if Fact.API_LINKS in facts:
        found += timeline.notes
    return [note for note in merged(dict.fromkeys(found)) if note.touches(facts)]


def _length(data: Data) -> int:
    lengths = {len(values) for values in data.values()}
    if len(lengths) != 1:
        raise AssertionError(f"columns of different lengths: {sorted(lengths)}")
    return int(next(iter(lengths)))
