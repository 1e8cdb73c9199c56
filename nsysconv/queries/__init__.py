"""Queries: one module per report, shared by all sources."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import isfinite
from typing import Any, cast

from nsysconv.cores import cores
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact, in_order
from nsysconv.notes import Note, merged
from nsysconv.phases import phase
from nsysconv.queries import rules, stats
from nsysconv.queries.contract import (
    Answer,
    Data,
    Option,
    Query,
    QueryOverRanks,
    Request,
    any_of,
    picture_of,
)
from nsysconv.report import Report, merged_header, report_table
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

OVER_RANKS = ("rank_summary", "stragglers", "collective_arrivals", "gpu_time_util_map")
"""The reports on all profiles of a run together."""

OWN = (
    *CORE,
    "gpu_utilization",
    "utilization_over_time",
    "timeline_events",
    "steps",
    "ranges",
    "comm_overlap",
    "kernel_categories",
    "launch_stats",
    "queue_length",
    "metrics",
    *OVER_RANKS,
)
"""Modules of this folder that are reports. A new report is one more word here."""

REPORTS = (*OWN, *rules.REPORTS, *stats.REPORTS)
"""All reports by name."""

_FOLDERS = {
    **dict.fromkeys(OWN, __name__),
    **dict.fromkeys(rules.REPORTS, rules.__name__),
    **dict.fromkeys(stats.REPORTS, stats.__name__),
}

BY_STEP = ("gpu_utilization",)
"""Reports that can give a row per step."""

IN_TIME = (
    "idle_gaps",
    "utilization_over_time",
    "timeline_events",
    "collective_arrivals",
    "gpu_time_util_map",
    *rules.REPORTS,
    *(name for name in stats.REPORTS if name.endswith("_trace")),
)
"""Reports that list what happened when: rows of many ranks are not made one."""

ROWS_FOR_PEOPLE = 20
"""Rows of a table in text, unless told."""

_LIMITS = {"idle_gaps": 1000}

# So many reports at the same time: each takes memory of its own, and more would wait for the same parts.
_AT_ONCE = 2
# Fewer kernels and calls are answered before a thread has begun.
_MANY_EVENTS = 200_000
# The reports that take longest, in that order: the last to begin should be a short one.
_LONGEST = ("steps", "idle_host", "api_vs_kernel", "kernels", "overview")


def query(name: str) -> Query:
    """The query module of a report's name. Raises UsageError with the names that are close."""
    if name not in _FOLDERS:
        close = get_close_matches(name, [*REPORTS, *stats.ALIASES], 5, 0.6)
        known = f"Close to it: {', '.join(close)}. " if close else ""
        raise UsageError(
            f"no report {name!r}", hint=f"{known}`nsysconv report --list` names them all."
        )
    return cast(Query, importlib.import_module(f"{_FOLDERS[name]}.{name}"))


@dataclass(frozen=True)
class Wanted:
    """A report as it was asked for: its name, and the options that were given, as text after `:`."""

    name: str
    options: Mapping[str, Any]
    spec: str


def wanted(spec: str) -> Wanted:
    """What `REPORT[:OPTION[=VALUE]]...` asks for; older names of a report are understood.

    Raises UsageError for a report or an option that there is not, or a value of another type.
    """
    word, *words = spec.split(":")
    name = stats.ALIASES.get(word, word)
    options = {option.name: option for option in query(name).OPTIONS}
    given: dict[str, str | None] = {}
    for piece in words:
        key, sign, value = piece.partition("=")
        if key in given:
            raise UsageError(f"option {key} of {name} is given twice", hint=_options_of(name))
        if key in options:
            given[key] = value if sign else None
            last = key
        elif given and given[last] is not None:
            given[last] = f"{given[last]}:{piece}"  # a value may hold a colon, as paths may
        else:
            raise UsageError(f"{name} has no option {key!r}", hint=_options_of(name))
    values = {key: _value(name, options[key], text) for key, text in given.items()}
    defaults = {option.name: option.default for option in options.values()}
    return Wanted(name, {**defaults, **values}, ":".join((name, *words)))


def _value(name: str, option: Option, text: str | None) -> Any:
    if isinstance(option.default, bool):
        if text is None:
            return True
        raise UsageError(f"option {option.name} of {name} has no value", hint=_options_of(name))
    if text is None or text == "":
        raise UsageError(f"option {option.name} of {name} needs a value", hint=_options_of(name))
    kind = str if option.default is None else type(option.default)
    try:
        value = kind(text)
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(text)
    except ValueError as error:
        raise UsageError(
            f"{option.name}={text} of {name} is no number", hint=_options_of(name)
        ) from error
    return value


def _options_of(name: str) -> str:
    options = query(name).OPTIONS
    if not options:
        return f"{name} has no options."
    known = (
        f"{option.name}" if option.default is False else f"{option.name}={option.default or '…'}"
        for option in options
    )
    return f"Options of {name}: {', '.join(known)}."


def default_limit(name: str, *, for_people: bool) -> int:
    """How many rows a report shows unless told: 0 is all of them."""
    return ROWS_FOR_PEOPLE if for_people else _LIMITS.get(wanted(name).name, 0)


def facts_of(specs: Iterable[str]) -> frozenset[Fact]:
    """The facts that these reports ask for."""
    asked = [query(wanted(spec).name) for spec in specs]
    return frozenset(fact for module in asked for fact in module.NEEDS | module.USES)


def read_ahead(names: Sequence[str], timeline: Timeline) -> None:
    """Has the timeline read at once what these reports will ask it for one by one.

    `answers` does; what it is to share with `part` is read ahead of both.
    """
    if facts_of(names) >= {Fact.KERNELS, Fact.API_CALLS}:
        timeline.whole.read_ahead(several=len(names) > 1)


def unrecorded(name: str, timeline: Timeline) -> list[Fact]:
    """The facts that a profile lacks for a report; none where it can be answered."""
    module = query(name)
    missing = in_order(module.NEEDS - timeline.profile.facts)
    if not any_of(module) & timeline.profile.facts:
        missing += in_order(any_of(module))
    # Totals tell no part of themselves.
    from_totals = timeline.is_whole and bool(module.TOTALS & timeline.profile.facts)
    return [] if from_totals else missing


def answer(spec: str, timeline: Timeline, request: Request) -> Report:
    """A report on one profile, or on the slice that the time line is cut to.

    Raises NotRecorded where the profile lacks what the report needs, UsageError for unknown words.
    """
    asked = wanted(spec)
    return _report(asked, timeline, request, _computed(asked, timeline, request))


def answers(asked: Sequence[tuple[str, Request]], timeline: Timeline) -> list[Report]:
    """Several reports on one profile or slice, in the order asked for; one that is not recorded says so
    in place of rows. Raises UsageError for unknown words.

    Of a large profile two are made at the same time.
    """
    each = [(wanted(spec), request) for spec, request in asked]
    names = [spec for spec, _ in asked]
    read_ahead(names, timeline)

    def computed(place: int) -> Answer | NotRecorded:
        try:
            return _computed(each[place][0], timeline, each[place][1])
        except NotRecorded as missing:
            return missing

    turns = sorted(range(len(each)), key=lambda place: _turn(each[place][0]))
    if len(turns) > 1 and cores() > 1 and _ask_for_much(names, timeline):
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            found = dict(zip(turns, pool.map(computed, turns), strict=True))
    else:
        found = dict(zip(turns, map(computed, turns), strict=True))
    # Reports are made of them only now: what was noted while others were made belongs to all.
    reports = []
    for place, (spec, request) in enumerate(each):
        result = found[place]
        if isinstance(result, NotRecorded):
            reports.append(unanswered(result, timeline))
        else:
            reports.append(_report(spec, timeline, request, result))
    return reports


def _ask_for_much(names: Sequence[str], timeline: Timeline) -> bool:
    facts = facts_of(names)
    tables = [t for f, t in ((Fact.KERNELS, "kernel"), (Fact.API_CALLS, "api_call")) if f in facts]
    return sum(map(timeline.profile.row_count, tables)) >= _MANY_EVENTS


def _turn(asked: Wanted) -> int:
    """When a report is made among others: the least first."""
    return _LONGEST.index(asked.name) if asked.name in _LONGEST else len(_LONGEST)


def _computed(asked: Wanted, timeline: Timeline, request: Request) -> Answer:
    module = query(asked.name)
    _check_recorded(asked, timeline)
    with phase(f"compute {asked.name}"):
        found = module.compute(timeline, replace(request, options=asked.options))
    return found if isinstance(found, Answer) else Answer(found)


def _report(asked: Wanted, timeline: Timeline, request: Request, found: Answer) -> Report:
    module = query(asked.name)
    data = found.data
    filled = {"profile": [timeline.profile.ref.label] * _length(data), **data}
    report = Report(
        name=asked.spec,
        title=module.TITLE,
        columns=module.COLUMNS,
        table=None,
        profiles=(timeline.profile.ref,),
        slice=timeline.described,
        notes=tuple(_notes(module, timeline, found.notes, found.unused)),
        picture=picture_of(module),
    )
    return _with_rows(report, replace(found, data=filled), request)


def _check_recorded(asked: Wanted, timeline: Timeline) -> None:
    missing = unrecorded(asked.name, timeline)
    if missing:
        known = timeline.profile.advice
        advice = [known[fact] for fact in missing if fact in known]
        raise NotRecorded(asked.spec, missing, list(dict.fromkeys(advice)))


def _with_rows(report: Report, found: Answer, request: Request) -> Report:
    table = report_table(report.columns, found.data)
    count = table.num_rows if found.row_count is None else found.row_count
    return replace(report, table=table, row_count=count).limited(request.limit)


@dataclass(frozen=True)
class Part:
    """What one profile gives to a report over ranks, to be sent to who joins them.

    `report` says all but the rows; `content` is None where the profile did not record them.
    """

    report: Report
    content: Any = None


def part(spec: str, timeline: Timeline, request: Request) -> Part:
    """A profile's part in a report of OVER_RANKS; what it did not record it says in place of content."""
    asked = wanted(spec)
    module = cast(QueryOverRanks, query(asked.name))
    try:
        _check_recorded(asked, timeline)
    except NotRecorded as missing:
        return Part(unanswered(missing, timeline))
    with phase(f"compute {asked.name}"):
        content = module.part(timeline, replace(request, options=asked.options))
    report = Report(
        name=asked.spec,
        title=module.TITLE,
        columns=module.COLUMNS,
        table=None,
        profiles=(timeline.profile.ref,),
        slice=timeline.described,
        notes=tuple(_notes(module, timeline, ())),
        picture=picture_of(module),
    )
    return Part(report, content)


class OverRanks:
    """Makes one report of the parts of many profiles; of one alone it is what `answer` gives."""

    def __init__(self, spec: str, request: Request) -> None:
        asked = wanted(spec)
        self._module = cast(QueryOverRanks, query(asked.name))
        self._name = asked.name
        self._request = replace(request, options=asked.options)
        self._gathering = self._module.gathering(self._request)
        self._said: list[Report] = []
        self._answered = False

    def add(self, given: Part) -> None:
        """Takes in one profile's part."""
        self._said.append(given.report)
        if given.content is not None:
            self._answered = True
            self._gathering.add(given.report.profiles[0], given.content)

    def report(self) -> Report:
        """The report, of one profile at least."""
        said = merged_header(self._said)
        if not self._answered:
            return said
        with phase(f"compute {self._name} over ranks"):
            found = self._gathering.answer()
        notes = tuple(merged([*said.notes, *found.notes]))
        said = replace(
            said, notes=notes, not_recorded=(), advice=(), picture=picture_of(self._module)
        )
        return _with_rows(said, found, self._request)


def unanswered(error: NotRecorded, timeline: Timeline) -> Report:
    """The report that says what is missing, in place of one."""
    module = query(wanted(error.report).name)
    return Report(
        name=error.report,
        title=module.TITLE,
        columns=module.COLUMNS,
        table=None,
        profiles=(timeline.profile.ref,),
        not_recorded=error.words,
        advice=error.advice,
    )


def _notes(
    module: Query,
    timeline: Timeline,
    own: tuple[Note, ...],
    unused: frozenset[Fact] = frozenset(),
) -> list[Note]:
    facts = (module.NEEDS | module.USES | module.TOTALS) - unused
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
