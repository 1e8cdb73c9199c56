"""Computing reports: one, several at a time, and one over the profiles of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact, in_order
from nsysconv.launch import cores
from nsysconv.notes import ANSWERS, Note, merged
from nsysconv.phases import phase
from nsysconv.queries.contract import ColumnValues, Query, Request, Result
from nsysconv.queries.registry import (
    ReportSpec,
    needed_facts,
    parse_spec,
    query,
    reports_that_are,
    view,
)
from nsysconv.report import Report, merged_header, report_table
from nsysconv.threads import Threads
from nsysconv.timeline.events import OF_MOST
from nsysconv.timeline.timeline import Timeline

# Each report takes memory of its own, and more of them would wait for the same cached columns.
_MAX_CONCURRENT = 2
# Reports on fewer kernels and calls are computed before a thread has started.
MIN_EVENTS_FOR_THREADS = 200_000
# The reports that take longest, in that order: the last to start should be a short one.
_LONGEST = (
    "timeline_tiles",
    "steps",
    "event_durations",
    "idle_host",
    "api_vs_kernel",
    "kernels",
    "overview",
)


@dataclass(frozen=True)
class _Job:
    """A report to be computed. `request` has the values of its options."""

    spec: ReportSpec
    query: Query
    request: Request


def _job(text: str, request: Request) -> _Job:
    spec = parse_spec(text)
    return _Job(spec, query(spec.name), replace(request, options=spec.options))


def missing_facts(text: str, timeline: Timeline) -> list[Fact]:
    """Return the facts that a profile lacks for a report with options; none if it can be computed."""
    spec = parse_spec(text)
    declared, recorded = query(spec.name), timeline.profile.facts
    missing = in_order(needed_facts(declared, spec.options) - recorded)
    if not declared.any_of & recorded:
        missing += in_order(declared.any_of)
    # Totals are of a whole profile; of a slice they say nothing.
    from_totals = timeline.is_whole and bool(declared.totals & recorded)
    return [] if from_totals else missing


def prefetch(texts: Sequence[str], timeline: Timeline) -> None:
    """Have the timeline read at once what these reports will ask it for one by one.

    `compute_reports` does so itself; call it for reports that share columns with `partial_report`.
    """
    if _facts(texts) >= {Fact.KERNELS, Fact.API_CALLS}:
        of_most = OF_MOST if len(texts) > 1 else {}
        asked = {parse_spec(text).name for text in texts}
        results = {"api_call": ("result",)} if asked & {*reports_that_are("results")} else {}
        timeline.whole.read_ahead({**of_most, **results})


def compute_report(text: str, timeline: Timeline, request: Request) -> Report:
    """Return a report on one profile, or on the slice that the time line is cut to.

    Raises NotRecorded where the profile lacks what the report needs, UsageError for unknown names.
    """
    job = _job(text, request)
    result = _compute(timeline, job)
    if isinstance(result, NotRecorded):
        raise result
    return _report(timeline, job, result)


def compute_reports(wanted: Sequence[tuple[str, Request]], timeline: Timeline) -> list[Report]:
    """Return several reports on one profile or slice, in the order asked for; one that is not recorded
    says so in place of rows. Of a large profile two are computed at the same time.

    Raises UsageError for unknown names.
    """
    jobs = [_job(text, request) for text, request in wanted]
    texts = [text for text, _ in wanted]
    prefetch(texts, timeline)
    order = sorted(range(len(jobs)), key=lambda i: _priority(jobs[i]))
    compute = partial(_compute, timeline)
    ordered_jobs = [jobs[i] for i in order]
    if len(jobs) > 1 and cores() > 1 and _is_large(texts, timeline):
        with Threads(_MAX_CONCURRENT) as pool:
            results = dict(zip(order, pool.map(compute, ordered_jobs), strict=True))
    else:
        results = dict(zip(order, map(compute, ordered_jobs), strict=True))
    # Built only now: notes that were found while one report was computed belong to all of them.
    return [_report(timeline, job, results[i]) for i, job in enumerate(jobs)]


def not_recorded_report(error: NotRecorded, timeline: Timeline) -> Report:
    """Return the report that says what is missing, in place of rows."""
    declared = view(parse_spec(error.report))
    return Report(
        name=error.report,
        title=declared.title,
        columns=declared.columns,
        table=None,
        profiles=(timeline.profile.ref,),
        not_recorded=error.words,
        advice=error.advice,
    )


def _facts(texts: Sequence[str]) -> frozenset[Fact]:
    declared = [query(parse_spec(text).name) for text in texts]
    return frozenset(fact for each in declared for fact in needed_facts(each) | each.uses)


def _is_large(texts: Sequence[str], timeline: Timeline) -> bool:
    facts = _facts(texts)
    tables = [t for f, t in ((Fact.KERNELS, "kernel"), (Fact.API_CALLS, "api_call")) if f in facts]
    return sum(map(timeline.profile.row_count, tables)) >= MIN_EVENTS_FOR_THREADS


def _priority(job: _Job) -> int:
    return _LONGEST.index(job.spec.name) if job.spec.name in _LONGEST else len(_LONGEST)


def _compute(timeline: Timeline, job: _Job) -> Result | NotRecorded:
    missing = _not_recorded(timeline, job)
    if missing is not None:
        return missing
    try:
        with phase(f"compute {job.spec.name}"), timeline.profile.unchanged():
            compute = job.query.compute
            result = compute(timeline, job.request) if compute else _aggregate_alone(timeline, job)
    except NotRecorded as error:
        # With its traceback, a kept error would keep all that was computed for the report.
        return error.with_traceback(None)
    return result if isinstance(result, Result) else Result(result)


def _aggregate_alone(timeline: Timeline, job: _Job) -> Result:
    assert job.query.over_ranks is not None, job.spec.name
    single = job.query.over_ranks.aggregator(job.request)
    single.add(timeline.profile.ref, job.query.over_ranks.partial(timeline, job.request))
    return single.result()


def _not_recorded(timeline: Timeline, job: _Job) -> NotRecorded | None:
    missing = missing_facts(job.spec.text, timeline)
    if not missing:
        return None
    advice = timeline.profile.advice
    lines = [advice[fact] for fact in missing if fact in advice]
    return NotRecorded(job.spec.text, missing, list(dict.fromkeys(lines)))


def _report(timeline: Timeline, job: _Job, result: Result | NotRecorded) -> Report:
    if isinstance(result, NotRecorded):
        return not_recorded_report(result, timeline)
    label = timeline.profile.ref.label
    values = {"profile": [label] * _row_count(result.values), **result.values}
    report = _header(timeline, job, result.notes, _noted_facts(job.query) - result.unused)
    return _with_rows(report, replace(result, values=values))


def _noted_facts(declared: Query) -> frozenset[Fact]:
    return frozenset(needed_facts(declared) | declared.uses | declared.totals)


def _header(timeline: Timeline, job: _Job, notes: Sequence[Note], facts: frozenset[Fact]) -> Report:
    """Return the report without rows, with the profile's notes on `facts` besides its own."""
    answers = [note for note in notes if note.slug in ANSWERS]
    every = [*answers, *timeline.profile.notes, *timeline.slice_notes, *notes]
    if Fact.KERNELS in facts or Fact.MEMCPYS in facts:
        every += timeline.op_notes
    if Fact.API_LINKS in facts:
        every += timeline.notes
    shown = view(job.spec)
    return Report(
        name=job.spec.text,
        title=shown.title,
        columns=shown.columns,
        table=None,
        profiles=(timeline.profile.ref,),
        slice=timeline.slice_description,
        notes=tuple(note for note in merged(dict.fromkeys(every)) if note.touches(facts)),
    )


def _with_rows(report: Report, result: Result) -> Report:
    table = report_table(report.columns, result.values)
    count = table.num_rows if result.row_count is None else result.row_count
    title = result.title or report.title
    return replace(report, title=title, table=table, row_count=count)


def _row_count(values: ColumnValues) -> int:
    lengths = {len(each) for each in values.values()}
    if len(lengths) != 1:
        raise AssertionError(f"columns of different lengths: {sorted(lengths)}")
    return int(next(iter(lengths)))


# -- over the profiles of a run


@dataclass(frozen=True)
class PartialReport:
    """The contribution of one profile to a report over ranks, sent to the process that combines them.

    `report` is all but the rows; `content` is None where the profile did not record them.
    """

    report: Report
    content: Any = None


def partial_report(text: str, timeline: Timeline, request: Request) -> PartialReport:
    """Return a profile's contribution to a report of OVER_RANKS; without content where it lacks facts."""
    job = _job(text, request)
    missing = _not_recorded(timeline, job)
    if missing is not None:
        return PartialReport(not_recorded_report(missing, timeline))
    assert job.query.over_ranks is not None, job.spec.name
    with phase(f"compute {job.spec.name}"), timeline.profile.unchanged():
        content = job.query.over_ranks.partial(timeline, job.request)
    return PartialReport(_header(timeline, job, (), _noted_facts(job.query)), content)


class CombinedReport:
    """One report of OVER_RANKS, of the partial reports of many profiles.

    Of one profile alone it is what `compute_report` returns.
    """

    def __init__(self, text: str, request: Request) -> None:
        """Start without a profile; `request` is that of the partial reports."""
        self._job = _job(text, request)
        assert self._job.query.over_ranks is not None, self._job.spec.name
        self._aggregator = self._job.query.over_ranks.aggregator(self._job.request)
        self._headers: list[Report] = []
        self._has_content = False

    def add(self, part: PartialReport) -> None:
        """Add one profile's contribution."""
        self._headers.append(part.report)
        if part.content is not None:
            self._has_content = True
            self._aggregator.add(part.report.profiles[0], part.content)

    def report(self) -> Report:
        """Return the report; at least one profile has been added."""
        header = merged_header(self._headers)
        if not self._has_content:
            return header
        with phase(f"compute {self._job.spec.name} over ranks"):
            result = self._aggregator.result()
        header = replace(
            header,
            notes=tuple(merged([*header.notes, *result.notes])),
            not_recorded=(),
            advice=(),
        )
        return _with_rows(header, result)
