"""Reports on a profile, or on all profiles of a run.

A target names profiles; each is reported on by itself, here or by workers; the reports are merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from nsysconv import queries
from nsysconv.api import inputs, open_profile
from nsysconv.api.open_profile import OpenProfile, shown_beside, shown_report
from nsysconv.api.options import BY as PROFILE_BY
from nsysconv.api.options import ReportKeywords, ReportOptions, options_of
from nsysconv.api.shown_report import ShownReport
from nsysconv.api.targets import Files, Joined, Say, Target, Words, silent, with_joined
from nsysconv.api.workers import Workers
from nsysconv.api.workers import workers as workers_for
from nsysconv.errors import AbsentError, InputError, UsageError
from nsysconv.importers import detection
from nsysconv.importers.contract import Options
from nsysconv.notes import Note, merged
from nsysconv.phases import phase
from nsysconv.queries import CombinedReport, PartialReport
from nsysconv.queries.columns import PROFILE, RANK
from nsysconv.queries.contract import Request
from nsysconv.queries.cycles import Member, Session, cycles_of
from nsysconv.ranks.over_ranks import (
    By,
    RankAggregator,
    RankProfile,
    are_ranks_of_one_job,
    job_size,
    rank_profile,
)
from nsysconv.report import (
    MISSING,
    Column,
    ProfileRef,
    Report,
    report_table,
)
from nsysconv.store.location import (
    Location,
    Url,
    globbed,
    is_store,
    reading,
    redacted_target,
    split_target,
)
from nsysconv.store.runs import rank_coverage
from nsysconv.timeline.clock_offsets import time_of_day
from nsysconv.timeline.slices import Slice

if TYPE_CHECKING:
    from nsysconv.ranks.job import JobAggregator

BY = ("rank", "host", "device", "job", *PROFILE_BY)
"""Kinds of rows that a report on many ranks can have."""

MOST_BESIDE = 8
"""With more profiles than this, rows become three: minimum, median and maximum."""

# If the rows of a few profiles follow each other, text shows at least so many rows of each.
_FEWEST_FOR_PEOPLE = 5

_FEW_EVENTS = 4_000_000
"""Fewer events than this take this process some 3 s; to start processes takes most of 1 s of each."""
_BYTES_PER_EVENT = 100


def report_on(
    target: Target,
    names: Words | None = None,
    *,
    join: Words = (),
    say: Say = silent,
    **options: Unpack[ReportKeywords],
) -> list[ShownReport]:
    """Report on a profile or a run, by default the answer and the core reports.

    `target` and `join` are as for `open`; or the target is a store of one run, STORE@RUN, or a folder,
    whose profiles are one run. Rows of up to 8 profiles stand below each other. Of more, rows of one key
    are three, of the least, the median and the greatest value over ranks; but reports that list what
    happened when stay by rank.

    Raises UsageError for unknown words and where a store holds several runs and none was named,
    InputError where nothing can be read.
    """
    target = with_joined(target, join)
    return report_target(target, options_of(ReportOptions, {"names": names, **options}), say)


def report_target(target: Target, options: ReportOptions, say: Say = silent) -> list[ShownReport]:
    """Report on a target as `report_on` does, with the options as a value."""
    job = _report_job(options)
    unread = inputs.UnreadFiles(say)
    run = _Run(job, unread)
    targets = _targets(target, say, unread.say_at_end)
    if len(targets) > 1 or targets[0].in_folder:
        count = _worker_count(targets, options.workers)
        with phase("report on a run"), workers_for(options.dask, count) as workers:
            for reports in _reports_of_workers(job, targets, workers, unread):
                run.add(reports)
        return run.reports(redacted_target(target), options.slice)
    with ExitStack() as stack:
        profiles = targets[0].opened(stack, tuple(options.include), say)
        if len(profiles) == 1 and options.by not in ("host", "device", "job"):
            profile = profiles[0]
            _prepare(job, profile)
            requests = job.requests(job.row_limits)
            return job.shown(profile.answers(requests))
        for reports in _reports_of_profiles(job.for_profiles(len(profiles)), profiles):
            run.add(reports)
    return run.reports(redacted_target(target), options.slice)


# -- what a target names


@dataclass(frozen=True)
class _Target:
    # This is one profile of a store (`profile`), or all profiles of a file, of which `selector` may
    # choose some. A file `in_folder` may be a store, a profile, or neither. `events` is roughly the
    # number of events to read. `item`: the files, if they are several.
    place: Location
    profile: int | None = None
    selector: str | None = None
    in_folder: bool = False
    events: int = 0
    item: inputs.Input | None = None

    def opened(
        self, stack: ExitStack, include: Sequence[str] = (), say: Say = silent
    ) -> list[OpenProfile]:
        if self.profile is None:
            one_run = not self.in_folder
            return open_profile.open_all(
                self.place,
                self.selector,
                stack,
                say,
                include=include,
                one_run=one_run,
                item=self.item,
            )
        store = stack.enter_context(reading(self.place))
        return [OpenProfile(store.profile(self.profile), self.place, ExitStack())]

    def absolute(self) -> _Target:
        if isinstance(self.place, Url):
            return self
        return replace(self, place=self.place.absolute(), item=self.item and self.item.absolute())

    def files(self) -> list[Path]:
        # A database has no file.
        if self.item is not None:
            return list(self.item.paths)
        return [] if isinstance(self.place, Url) else [self.place]


def _targets(target: Target, say: Say, say_skipped: Say) -> list[_Target]:
    # Profiles of a store are in the order of ranks, and files of a folder are in the order of names.
    if isinstance(target, Joined):
        return [_file_target(inputs.joined(target.names).read[0], None, in_folder=False)]
    listed = target.paths if isinstance(target, Files) else globbed(target)
    if listed:
        found = list(inputs.inputs_to_read(listed, str(target), say, say_skipped))
        return [_file_target(item, None, in_folder=len(found) > 1) for item in found]
    where, selector = split_target(target)
    if isinstance(where, Path) and where.is_dir():
        # None of them is opened here: there may be thousands, and who looks at one opens it anyway.
        items = inputs.inputs_to_read([where], str(where), say, say_skipped)
        return [_file_target(item, None, in_folder=True) for item in items]
    if not isinstance(where, Url) and not is_store(where):
        return [_file_target(inputs.Input((where,)), selector, in_folder=False)]
    with reading(where) as store, store.snapshot():
        return [
            _Target(where, each.id, events=each.row_count("kernel") + each.row_count("api_call"))
            for each in open_profile.select_profiles(store, where, selector, one_run=True)
        ]


def _file_target(item: inputs.Input, selector: str | None, *, in_folder: bool) -> _Target:
    size = sum(path.stat().st_size for path in item.paths if path.is_file())
    # A store is opened as any other place.
    files = None if len(item.paths) == 1 else item
    return _Target(item.path, None, selector, in_folder, size // _BYTES_PER_EVENT, files)


# -- one profile, wherever it is looked at


@dataclass(frozen=True)
class _ReportJob:
    options: ReportOptions
    names: tuple[str, ...]
    row_limits: tuple[int, ...]  # of each report; 0: all rows
    row_counts: tuple[int, ...] = ()  # the most rows that a profile has to give for each report

    def requests(self, row_counts: Sequence[int]) -> list[tuple[str, Request]]:
        counted = zip(self.names, row_counts, strict=True)
        return [(name, self.options.request(rows)) for name, rows in counted]

    def merged_reports(self) -> list[_MergedReport]:
        limits = zip(self.names, self.row_limits, strict=True)
        return [_MergedReport(name, self.options, limit) for name, limit in limits]

    def shown(self, reports: Sequence[Report]) -> list[ShownReport]:
        form, pairs = self.options.form, zip(reports, self.row_limits, strict=True)
        return [shown_report(report, limit, form=form) for report, limit in pairs]

    def for_profiles(self, count: int | None) -> _ReportJob:
        # `count` is None for a folder, because the number of profiles in its files is not yet known.
        rows = [report.rows_of_each(count) for report in self.merged_reports()]
        return replace(self, row_counts=tuple(rows))


def _report_job(options: ReportOptions) -> _ReportJob:
    asked = queries.DEFAULT if options.names is None else tuple(options.names)
    names = options.checked(asked, BY)
    limits = tuple(map(options.row_limit, names))
    if options.include:
        detection.check_included(Options(frozenset(options.include)))
    return _ReportJob(options, names, limits)


@dataclass(frozen=True)
class _ProfileReports:
    # One profile gives these: its reports, or its parts of the reports on all profiles together.
    ref: ProfileRef
    rank_profile: RankProfile
    processes: tuple[Mapping[str, Any], ...]
    session: Session | None
    reports: tuple[Report | PartialReport, ...]


def _prepare(job: _ReportJob, profile: OpenProfile) -> None:
    part = job.options.part
    if part is not None:
        profile.narrow(part)
    queries.prefetch(job.names, profile.timeline)


def _reports_of_profiles(
    job: _ReportJob, profiles: Sequence[OpenProfile]
) -> Iterator[_ProfileReports]:
    # Not all profiles of a run have all devices, streams, processes and threads.
    absent, is_any = None, False
    for profile in profiles:
        try:
            yield from _reports_of_profile(job, profile)
            is_any = True
        except AbsentError as error:
            absent = absent or error
        profile.forget()
    if absent is not None and not is_any:
        raise absent


def _reports_of_profile(job: _ReportJob, opened: OpenProfile) -> Iterator[_ProfileReports]:
    # A profile yields nothing if the slice names other ranks.
    profile, part = opened.profile, job.options.slice
    processes = tuple(
        {name: row[name] for name in ("pid", "rank", "world_size", "host", "job")}
        for row in profile.rows("process")
    )
    who = rank_profile(
        profile.ref.label, profile.attributes["host"], processes, profile.rows("device")
    )
    if part is not None and part.ranks and who.ranks:
        ranks = tuple(rank for rank in part.ranks if rank in who.ranks)
        if not ranks:
            return
        job = replace(job, options=replace(job.options, slice=replace(part, ranks=ranks)))
    session = _session(opened, processes)
    _prepare(job, opened)
    requests = job.requests(job.row_counts)
    partial_reports = {
        spec: queries.partial_report(spec, opened.timeline, request)
        for spec, request in requests
        if queries.parse_spec(spec).name in queries.OVER_RANKS
    }
    whole = iter(opened.answers([each for each in requests if each[0] not in partial_reports]))
    reports = tuple(
        partial_reports[spec] if spec in partial_reports else next(whole) for spec, _ in requests
    )
    yield _ProfileReports(profile.ref, who, processes, session, reports)


def _session(opened: OpenProfile, processes: Sequence[Mapping[str, Any]]) -> Session | None:
    # Processes without a host and a rank differ in numbers only, so nothing shows whether two profiles
    # share one.
    profile, zero = opened.profile, time_of_day(opened.timeline)
    host = profile.attributes["host"]
    known = frozenset((row["host"] or host, row["rank"], row["pid"]) for row in processes)
    columns = (profile.columns(table, ("start_ns",)) for table in ("kernel", "api_call"))
    starts = [start[start != MISSING] for start in (column["start_ns"] for column in columns)]
    bounds = [edge for start in starts if len(start) for edge in (start.min(), start.max())]
    if zero is None or not bounds or all(host is None and rank is None for host, rank, _ in known):
        return None
    return Session(known, zero + int(min(bounds)), zero + int(max(bounds)))


def _worker_count(targets: Sequence[_Target], wanted: int | None) -> int | None:
    # None means one process per core.
    if wanted is not None:
        return wanted
    events = sum(each.events for each in targets)
    return 1 if len(targets) == 1 or events < _FEW_EVENTS else None


def _reports_of_workers(
    job: _ReportJob,
    targets: Sequence[_Target],
    workers: Workers,
    unread: inputs.UnreadFiles,
) -> Iterator[_ProfileReports]:
    job = job.for_profiles(None if targets[0].in_folder else len(targets))
    # Workers elsewhere were started in folders of their own.
    is_remote = job.options.dask is not None
    named = [each.absolute() for each in targets] if is_remote else targets
    results = workers.map(partial(_reports_of_target, job), named, files=_Target.files)
    is_any = False
    absent = None
    for target, worker_target, result in zip(targets, named, results, strict=True):
        if isinstance(result, AbsentError):
            absent = absent or result
            continue
        if isinstance(result, InputError):
            result.where = result.where.replace(str(worker_target.place), str(target.place))
            unread.add(result)
            continue
        for reports in result:
            is_any = True
            if reports.ref.path == str(worker_target.place):
                reports = replace(reports, ref=replace(reports.ref, path=str(target.place)))
            yield reports
    if absent is not None and not is_any:
        raise absent
    if is_any:
        unread.end()


def _reports_of_target(
    job: _ReportJob, target: _Target
) -> list[_ProfileReports] | InputError | AbsentError:
    # A file of a folder may be anything: why it gives no report is the result.
    try:
        with ExitStack() as stack:
            profiles = target.opened(stack, tuple(job.options.include))
            return list(_reports_of_profiles(job, profiles))
    except AbsentError as error:
        return error
    except InputError as error:
        if not target.in_folder:
            raise
        return error


# -- all profiles of a run


class _Run:
    # This holds the reports of the profiles so far. Each report keeps only what it needs of a profile.
    def __init__(self, job: _ReportJob, unread: inputs.UnreadFiles) -> None:
        self._job = job
        self._unread = unread
        self._merged = job.merged_reports()
        self._members: dict[str, RankProfile] = {}
        self._last_numbers: dict[str, int] = {}
        self._processes: list[tuple[str, Sequence[Mapping[str, Any]]]] = []
        self._refs: list[Member] = []

    def add(self, profile: _ProfileReports) -> None:
        # If another profile has the same label, this one gets a number behind it.
        base = label = profile.ref.label
        while label in self._members:
            self._last_numbers[base] = self._last_numbers.get(base, 1) + 1
            label = f"{base}-{self._last_numbers[base]}"
        ref = replace(profile.ref, label=label)
        member = Member(ref.id, ref.label, ref.source, ref.path, profile.session)
        who = replace(profile.rank_profile, label=label, processes=member.processes)
        self._refs.append(member)
        self._members[label] = who
        self._processes.append((label, profile.processes))
        for merged_report, report in zip(self._merged, profile.reports, strict=True):
            of_all = isinstance(report, PartialReport)
            merged_report.add(_labeled(report, member if of_all else ref), who)

    def reports(self, target: str, part: Slice | None) -> list[ShownReport]:
        if not self._members and part is not None and part.ranks:
            raise UsageError(f"no profile of rank {', '.join(map(str, part.ranks))}", where=target)
        if not self._members:
            raise self._unread.nothing(target)
        cycles = cycles_of(self._refs)
        ranks = [each for each in self._processes if cycles.first[each[0]] == each[0]]
        of_several = rank_coverage(ranks).notes() if len(self._members) > 1 else []
        notes = [*of_several, *cycles.notes(), *self._unread.notes()]
        return [each.report(self._members, notes) for each in self._merged]


def _labeled(report: Report | PartialReport, ref: ProfileRef) -> Report | PartialReport:
    if isinstance(report, PartialReport):
        return replace(report, report=replace(report.report, profiles=(ref,)))
    if report.profiles == (ref,):
        return report
    column = next((c for c in report.columns if c.name == "profile"), None)

    def labeled(table: pa.Table | None) -> pa.Table | None:
        if table is None or column is None:
            return table
        labels = report_table([column], {"profile": [ref.label] * table.num_rows})
        return table.set_column(table.column_names.index("profile"), "profile", labels.column(0))

    return replace(report, profiles=(ref,), table=labeled(report.table))


class _MergedReport:
    # This is one report over the profiles of a run, which are added one by one. `by`: "rank" keeps the
    # rows of all profiles below each other; "host" and "device" reduce all rows of each host or device
    # to three; "job" adds up those of one key; None does so in reports that are "by-job", and reduces
    # others to three rows if the run has more than MOST_BESIDE profiles.
    def __init__(self, spec: str, options: ReportOptions, limit: int) -> None:
        self._options, self._limit = options, limit
        self._is_default_for_people = options.limit is None and options.for_people
        name, by = queries.parse_spec(spec).name, options.by
        columns, traits = queries.query(name).columns, queries.ENTRIES[name].traits
        self._may_reduce = "in-time" not in traits and by not in ("rank", "step")
        has_devices = any(column.name == "device_id" for column in columns)
        self._by: By | None = None
        if self._may_reduce and (by == "host" or (by == "device" and has_devices)):
            self._by = "host" if by == "host" else "device"
        of_job = by == "job" or (by is None and options.split is None and "by-job" in traits)
        self._is_job = of_job and self._may_reduce and name not in queries.OVER_RANKS
        self._over_ranks: CombinedReport | None = None
        if name in queries.OVER_RANKS:
            self._over_ranks = CombinedReport(spec, options.request(0 if self._by else limit))
        self._beside: list[tuple[RankProfile, Report]] = []
        self._extremes: RankAggregator | None = None

    def rows_of_each(self, profile_count: int | None) -> int:
        # The result is the most rows to keep (0: all). `profile_count` is None if it is not known.
        is_many = profile_count is None or profile_count > MOST_BESIDE
        reduced = self._may_reduce and (self._by is not None or is_many)
        return 0 if reduced or self._is_job else self._limit

    def add(self, report: Report | PartialReport, who: RankProfile) -> None:
        if isinstance(report, PartialReport):
            assert self._over_ranks is not None
            self._over_ranks.add(report)
            return
        self._beside.append((who, report))
        is_many = self._may_reduce and not self._is_job and len(self._beside) > MOST_BESIDE
        if self._by or is_many or self._extremes is not None:
            self._extremes = self._extremes or RankAggregator(self._beside[0][1], self._by)
            for each, of_profile in self._beside:
                self._extremes.add(of_profile, {each.label: each})
            self._beside.clear()

    def report(self, members: Mapping[str, RankProfile], missing: list[Note]) -> ShownReport:
        # `members` are all profiles by label, the notes are on who is missing.
        report = self._report(members)
        if not missing and len(members) == 1:
            return report
        return replace(report, notes=tuple(merged([*report.notes, *missing])))

    def _report(self, members: Mapping[str, RankProfile]) -> ShownReport:
        if self._over_ranks is not None:
            whole = self._over_ranks.report()
            if self._by is None or whole.table is None:
                return shown_report(whole, self._limit, form=self._options.form)
            self._extremes = RankAggregator(whole, self._by)
            self._extremes.add(whole, members)
        if self._extremes is not None:
            # It has cut the rows: a limit below three is one key's three rows.
            return shown_report(self._extremes.report(self._limit), form=self._options.form)
        self._beside.sort(key=lambda pair: pair[0].order)
        count = len(self._beside)
        first = self._beside[0][1]
        reduced: RankAggregator | JobAggregator | None = None
        if self._is_job and job_size(first.columns) is not None and self._is_one_job():
            from nsysconv.ranks.job import JobAggregator

            reduced = JobAggregator(first)
        elif self._may_reduce and count > MOST_BESIDE:
            reduced = RankAggregator(first, None)
        if reduced is not None:
            for who, report in self._beside:
                reduced.add(report, {who.label: who})
            return shown_report(reduced.report(self._limit), form=self._options.form)
        rows = self._limit
        if count > 1 and rows:
            is_few = self._is_default_for_people and count <= MOST_BESIDE
            rows = max(rows // count, _FEWEST_FOR_PEOPLE if is_few else 1)
        reports = [
            _with_profile_columns(report, who) if count > 1 else report
            for who, report in self._beside
        ]
        return shown_beside(reports, rows, self._limit, form=self._options.form)

    def _is_one_job(self) -> bool:
        # Rows of profiles that are not ranks of one run are added up only if somebody says so.
        sources = [(who, report.profiles[0].source) for who, report in self._beside]
        is_run = len(sources) > 1 and are_ranks_of_one_job(sources)
        return self._options.by == "job" or is_run


def _with_profile_columns(report: Report, who: RankProfile) -> Report:
    own = {column.name for column in report.columns}
    if "profile" in own:
        return report
    values: dict[str, Any] = {"profile": who.label, "rank": who.rank}
    more = [column for column in _PROFILE_COLUMNS if column.name not in own]

    def wider(table: pa.Table) -> pa.Table:
        for place, column in enumerate(more):
            same = report_table([column], {column.name: [values[column.name]] * table.num_rows})
            table = table.add_column(place, column.name, same.column(0))
        return table

    table = None if report.table is None else wider(report.table)
    return replace(report, columns=(*more, *report.columns), table=table)


_PROFILE_COLUMNS: tuple[Column, ...] = (PROFILE, RANK)
