"""What a target of `report` names: the profiles of one run, each where it can be opened by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from nsysconv import queries
from nsysconv.api import inputs
from nsysconv.api.inputs import missing_rank_lines
from nsysconv.api.open_profile import BY as OF_PROFILE
from nsysconv.api.open_profile import (
    OpenProfile,
    ShownReport,
    check_by,
    check_limit,
    of_one_run,
    open_all,
    open_run,
    request_of,
    shown_report,
)
from nsysconv.api.targets import Say, Target, Words, several, silent
from nsysconv.api.workers import workers as workers_for
from nsysconv.errors import InputError, UsageError
from nsysconv.importers import detection
from nsysconv.importers.contract import Options
from nsysconv.notes import Note, merged
from nsysconv.phases import phase
from nsysconv.queries import CombinedReport, PartialReport
from nsysconv.queries.columns import PROFILE, RANK
from nsysconv.queries.contract import Request
from nsysconv.ranks.extremes import By, Extremes
from nsysconv.ranks.members import Member, member
from nsysconv.report import Column, Printed, ProfileRef, Report, concatenated, report_table
from nsysconv.store.address import Url
from nsysconv.store.location import Location, is_store, reading, split_target
from nsysconv.store.location import redacted_target as shown_target
from nsysconv.store.runs import rank_coverage
from nsysconv.timeline.slices import Slice

_BYTES_PER_EVENT = 100


@dataclass(frozen=True)
class ReportTarget:
    """One profile of a store, or all of a file. `events` is about how many there are to look at.

    `profile` is None for a file; `selector` says what of it. A file `in_folder` may be a store, or none.
    """

    place: Location
    profile: int | None = None
    selector: str | None = None
    in_folder: bool = False
    events: int = 0

    def opened(
        self, stack: ExitStack, include: Sequence[str] = (), say: Say = silent
    ) -> list[OpenProfile]:
        """What it names, open as long as the stack; of a folder all that is in a file, else one run."""
        if self.profile is None:
            open_those = open_all if self.in_folder else open_run
            return open_those(self.place, self.selector, stack, say, include=include)
        store = stack.enter_context(reading(self.place))
        return [OpenProfile(store.profile(self.profile), ExitStack())]

    def absolute(self) -> ReportTarget:
        """The same as it is called from any folder."""
        return self if isinstance(self.place, Url) else replace(self, place=self.place.absolute())

    def files(self) -> list[Path]:
        """The file that is read; of a database none."""
        return [] if isinstance(self.place, Url) else [self.place]


def report_targets(target: Target, say: Say = silent) -> list[ReportTarget]:
    """The profiles of a profile file, a store of one run, PLACE@WORD, or all that is in a folder.

    Of a store they are in the order of ranks, of a folder in that of names. Raises UsageError where a
    store holds several runs and none is named, InputError where a folder holds nothing.
    """
    where, selector = split_target(target)
    if isinstance(where, Path) and where.is_dir():
        # None of them is opened here: there may be thousands, and who looks at one opens it anyway.
        return [_file(path, None, in_folder=True) for path in _files(where, say)]
    if not isinstance(where, Url) and not is_store(where):
        return [_file(where, selector, in_folder=False)]
    with reading(where) as store:
        return [
            ReportTarget(
                where,
                profile.id,
                events=profile.row_count("kernel") + profile.row_count("api_call"),
            )
            for profile in of_one_run(store, where, selector)
        ]


def _file(path: Path, selector: str | None, *, in_folder: bool) -> ReportTarget:
    size = path.stat().st_size if path.is_file() else 0
    return ReportTarget(path, None, selector, in_folder, size // _BYTES_PER_EVENT)


def _files(folder: Path, say: Say) -> Iterator[Path]:
    """The files below a folder that may be profiles, each recording once. Raises InputError for none."""
    there = inputs.found([folder])
    for passed in there.passed:
        say(f"skipped: {passed.path}: {passed.reason}")
    for line in missing_rank_lines(there.lost, alone=not there.read):
        say(line)
    if not there.read:
        raise InputError("no profile in it" if there.lost else "no files in it", where=str(folder))
    yield from (each.path for each in there.read)


MOST_BESIDE = 8
"""Of more profiles than this, rows become three: of the least, the median and the greatest value."""

# So many rows of each profile people see at least, where those of a few stand below each other.
_FEWEST_FOR_PEOPLE = 5


@dataclass(frozen=True)
class RowLimit:
    """How many rows of a report are shown (0: all), and whether that is so by default, for people."""

    limit: int
    by_default: bool = False

    def of_each(self, profiles: int) -> int:
        """How many of each profile, where rows of several stand below each other."""
        if profiles == 1 or not self.limit:
            return self.limit
        fewest = _FEWEST_FOR_PEOPLE if self.by_default and profiles <= MOST_BESIDE else 1
        return max(self.limit // profiles, fewest)


def row_limit(spec: str, limit: int | None, *, for_people: bool) -> RowLimit:
    """How many rows of a report are shown if `limit` was asked for; None: nothing was."""
    if limit is not None:
        return RowLimit(limit)
    return RowLimit(queries.default_limit(spec, for_people=for_people), by_default=for_people)


class MergedReport:
    """One report over the profiles of a run.

    `by`: "rank" keeps the rows of all below each other, "host" and "device" make three of all rows of
    each of these, None does so of all of the run if it has more than MOST_BESIDE profiles.
    """

    def __init__(self, spec: str, by: str | None, shown: RowLimit, request: Request) -> None:
        self.spec = spec
        self._shown = shown
        name = queries.parse_spec(spec).name
        columns = {column.name for column in queries.query(name).columns}
        self._may_reduce = name not in queries.IN_TIME and by not in ("rank", "step")
        self._by: By | None = None
        if self._may_reduce and (by == "host" or (by == "device" and "device_id" in columns)):
            self._by = "host" if by == "host" else "device"
        self._over_ranks: CombinedReport | None = None
        if name in queries.OVER_RANKS:
            limit = 0 if self._by else shown.limit
            self._over_ranks = CombinedReport(spec, replace(request, limit=limit))
        self._beside: list[tuple[Member, Report]] = []
        self._extremes: Extremes | None = None

    def limit_of_each(self, profiles: int | None) -> int:
        """How many rows a profile has to give at most, of so many (None: not known); 0: all."""
        many = profiles is None or profiles > MOST_BESIDE
        reduced = self._may_reduce and (self._by is not None or many)
        return 0 if reduced else self._shown.limit

    def add(self, given: Report | PartialReport, member: Member) -> None:
        """Takes in what a profile says."""
        if isinstance(given, PartialReport):
            assert self._over_ranks is not None
            self._over_ranks.add(given)
            return
        if self._extremes is not None:
            self._extremes.add(given, {member.label: member})
            return
        self._beside.append((member, given))
        if self._by or (self._may_reduce and len(self._beside) > MOST_BESIDE):
            self._reduce()

    def _reduce(self) -> None:
        self._extremes = Extremes(self._beside[0][1], self._by)
        for who, report in self._beside:
            self._extremes.add(report, {who.label: who})
        self._beside.clear()

    def report(self, members: Mapping[str, Member], coverage_notes: list[Note]) -> Report:
        """The report; `members` are all profiles by label, `coverage_notes` what is said of them."""
        found = self._report(members)
        if len(members) == 1:
            return found
        return replace(found, notes=tuple(merged([*found.notes, *coverage_notes])))

    def _report(self, members: Mapping[str, Member]) -> Report:
        if self._over_ranks is not None:
            whole = self._over_ranks.report()
            if self._by is None or whole.table is None:
                return whole
            self._extremes = Extremes(whole, self._by)
            self._extremes.add(whole, members)
        if self._extremes is not None:
            return self._extremes.report(self._shown.limit)
        self._beside.sort(key=lambda each: each[0].order)
        count = len(self._beside)
        each = self._shown.of_each(count)
        reports = [
            (_named(report, member) if count > 1 else report).limited(each)
            for member, report in self._beside
        ]
        return concatenated(reports)


def _named(report: Report, member: Member) -> Report:
    """The report with columns that say whose rows these are, where it has none."""
    own = {column.name for column in report.columns}
    if "profile" in own:
        return report
    values: dict[str, Any] = {"profile": member.label, "rank": member.rank}
    more = [column for column in _WHOSE if column.name not in own]
    if not report.is_printed:
        more = [replace(column, printed=None) for column in more]

    def wider(table: pa.Table) -> pa.Table:
        for place, column in enumerate(more):
            same = report_table([column], {column.name: [values[column.name]] * table.num_rows})
            table = table.add_column(place, column.name, same.column(0))
        return table

    return replace(
        report,
        columns=(*more, *report.columns),
        table=None if report.table is None else wider(report.table),
        uncut=None if report.uncut is None else wider(report.uncut),
    )


_WHOSE: tuple[Column, ...] = (
    replace(PROFILE, printed=Printed("Profile")),
    replace(RANK, printed=Printed("Rank")),
)


BY = ("rank", "host", "device", *OF_PROFILE)
"""What rows may be given for."""

_FEW_EVENTS = 4_000_000
"""Fewer events than this take this process some 3 s; to start processes takes most of 1 s of each."""


def report_on(
    target: Target,
    names: Words | None = None,
    *,
    by: str | None = None,
    for_people: bool = False,
    limit: int | None = None,
    slice: Slice | None = None,  # noqa: A002 - what it is
    idle: Words = ("no_op",),
    kernel_names: str = "demangled",
    step_range: str | None = None,
    dask: str | None = None,
    workers: int | None = None,
    include: Words = (),
    say: Say = silent,
) -> list[ShownReport]:
    """Reports on a profile or a run, the core ones by default; one that is not recorded says so.

    `target` is as for `open`; or a store of one run, STORE@RUN, or a folder, whose profiles are one run.
    Rows of up to 8 profiles stand below each other. Of more, rows of one key are three, of the least, the
    median and the greatest value over ranks; but reports that list what happened when stay by rank.
    `by` "rank" keeps all rows below each other, "host" and "device" (physical GPU) give three rows for
    each of these, "step" gives gpu_utilization a row per step. `limit` cuts each report's rows (0: none;
    None: 20 for people, else 1000 gaps and all of the rest). `include` is as for `open`.

    Profiles are looked at by `workers` processes at a time (None: as many as pay), or by the workers of a
    Dask cluster (`dask`: its scheduler's address or file, or "local"); the answer depends on neither.
    The rest is as in `OpenProfile.reports`. Raises UsageError for unknown words and where a store holds
    several runs and none was named, InputError where nothing can be read.
    """
    wanted = tuple(queries.CORE if names is None else several(names))
    check_limit(limit)
    _check(by, wanted)
    request = request_of(0, idle, kernel_names, "step" if by == "step" else None, step_range)
    row_limits = {name: row_limit(name, limit, for_people=for_people) for name in wanted}
    detection.check_included(Options(frozenset(several(include))))
    asked = _Asked(wanted, (), request, slice, several(include))
    combined = [MergedReport(name, by, row_limits[name], request) for name in wanted]
    run = _Run(combined)
    found = report_targets(target, say)
    if len(found) == 1 and not found[0].in_folder:
        with ExitStack() as stack:
            opened = found[0].opened(stack, asked.include, say)
            if len(opened) == 1 and by not in ("host", "device"):
                asked = replace(asked, limits=[row_limits[n].limit for n in wanted], alone=True)
                return [shown_report(report) for report in _reports(asked, opened[0])]
            asked = replace(asked, limits=[one.limit_of_each(len(opened)) for one in combined])
            for each in _of_all(asked, opened):
                run.add(each)
        return run.reports(shown_target(target), slice)
    # Of a folder nobody knows yet how many profiles its files hold.
    count = None if found[0].in_folder else len(found)
    asked = replace(asked, limits=[each.limit_of_each(count) for each in combined])
    explained = False
    with phase("report on a run"), workers_for(dask, _count(found, workers)) as working:
        # Workers elsewhere have folders of their own that they were started in.
        away = found if dask is None else [each.absolute() for each in found]
        every = working.map(partial(_answers, asked), away, files=ReportTarget.files)
        for here, there, answers in zip(found, away, every, strict=True):
            if isinstance(answers, InputError):
                say(f"skipped: {answers.brief}".replace(str(there.place), str(here.place)))
                explained = explained or bool(answers.hint)
                continue
            for each in answers:
                run.add(_from_here(each, here, there))
    if explained:
        say("`nsysconv info FILE` says more of a file that was skipped.")
    return run.reports(shown_target(target), slice)


def _check(by: str | None, wanted: Sequence[str]) -> None:
    if by is not None and by not in BY:
        raise UsageError(f"no rows by {by!r}", hint=f"There are: {', '.join(BY)}")
    if by in OF_PROFILE:
        check_by(by, wanted)
    for name in wanted:
        queries.parse_spec(name)


def _count(found: Sequence[ReportTarget], asked: int | None) -> int | None:
    """How many processes look at them; None: one for each core."""
    if asked is not None:
        return asked
    return 1 if len(found) == 1 or sum(each.events for each in found) < _FEW_EVENTS else None


# -- one profile, wherever it is looked at


@dataclass(frozen=True)
class _Asked:
    """What is asked of each profile. `include` is as for `open`; `alone`: there is no other profile, so
    that reports over ranks are made at once.
    """

    wanted: tuple[str, ...]
    limits: Sequence[int]
    request: Request
    slice: Slice | None
    include: Sequence[str]
    alone: bool = False


@dataclass(frozen=True)
class _Answers:
    """What one profile says: who it is, its processes, and its answers or parts of answers."""

    ref: ProfileRef
    member: Member
    processes: tuple[Mapping[str, Any], ...]
    given: tuple[Report | PartialReport, ...]


def _answers(asked: _Asked, source: ReportTarget) -> list[_Answers] | InputError:
    """The answers of what a source names; or why a file of a folder gives none."""
    try:
        with ExitStack() as stack:
            return list(_of_all(asked, source.opened(stack, asked.include)))
    except InputError as error:
        if not source.in_folder:
            raise
        return error


def _of_all(asked: _Asked, opened: Sequence[OpenProfile]) -> Iterator[_Answers]:
    """The answers of profiles, one after the other."""
    for profile in opened:
        yield from _of_profile(asked, profile)
        profile.forget()


def _of_profile(asked: _Asked, opened: OpenProfile) -> Iterator[_Answers]:
    profile = opened.profile
    processes = tuple(
        {name: row[name] for name in ("pid", "rank", "world_size", "host", "job")}
        for row in profile.rows("process")
    )
    who = member(profile.ref.label, profile.attributes["host"], processes, profile.rows("device"))
    if asked.slice is not None and asked.slice.ranks and who.ranks:
        ranks = tuple(rank for rank in asked.slice.ranks if rank in who.ranks)
        if not ranks:
            return
        asked = replace(asked, slice=replace(asked.slice, ranks=ranks))
    yield _Answers(profile.ref, who, processes, tuple(_reports(asked, opened)))


def _from_here(answers: _Answers, here: ReportTarget, there: ReportTarget) -> _Answers:
    """The answers of a file as it was named here."""
    if answers.ref.path != str(there.place):
        return answers
    return replace(answers, ref=replace(answers.ref, path=str(here.place)))


def _reports(asked: _Asked, opened: OpenProfile) -> Iterator[Any]:
    step_range = asked.request.step_range or (asked.slice.step_range if asked.slice else None)
    if asked.slice is not None:
        opened.narrow(replace(asked.slice, step_range=asked.slice.step_range or step_range))
    queries.prefetch(asked.wanted, opened.timeline)
    whole: list[tuple[str, Request]] = []
    parts: dict[str, PartialReport] = {}
    for spec, limit in zip(asked.wanted, asked.limits, strict=True):
        name = queries.parse_spec(spec).name
        request = replace(
            asked.request,
            limit=limit,
            by_step=asked.request.by_step and name in queries.BY_STEP,
            step_range=step_range,
        )
        if not asked.alone and name in queries.OVER_RANKS:
            parts[spec] = queries.partial_report(spec, opened.timeline, request)
        else:
            whole.append((spec, request))
    reports = iter(opened.answers(whole))
    for spec in asked.wanted:
        yield parts[spec] if spec in parts else next(reports)


# -- all of them


class _Run:
    """The answers of the profiles so far. Of each, no more is kept than its report needs."""

    def __init__(self, combined: Sequence[MergedReport]) -> None:
        self._combined = combined
        self._members: dict[str, Member] = {}
        self._numbers: dict[str, int] = {}  # the last one behind each label
        self._processes: list[tuple[str, Sequence[Mapping[str, Any]]]] = []

    def add(self, answers: _Answers) -> None:
        """Takes in those of one profile. Where another has its label, it gets one of its own."""
        wanted = label = answers.ref.label
        while label in self._members:
            self._numbers[wanted] = self._numbers.get(wanted, 1) + 1
            label = f"{wanted}-{self._numbers[wanted]}"
        who = replace(answers.member, label=label)
        self._members[label] = who
        self._processes.append((label, answers.processes))
        for combined, given in zip(self._combined, answers.given, strict=True):
            combined.add(_labelled(given, replace(answers.ref, label=label)), who)

    def reports(self, target: str, part: Slice | None) -> list[ShownReport]:
        """The reports on all."""
        if not self._members and part is not None and part.ranks:
            raise UsageError(f"no profile of rank {', '.join(map(str, part.ranks))}", where=target)
        if not self._members:
            raise InputError("no profile in it", where=target)
        notes = rank_coverage(self._processes).notes()
        return [shown_report(each.report(self._members, notes)) for each in self._combined]


def _labelled(given: Report | PartialReport, ref: ProfileRef) -> Report | PartialReport:
    """The same of a profile of that label."""
    if isinstance(given, PartialReport):
        return replace(given, report=replace(given.report, profiles=(ref,)))
    if given.profiles == (ref,):
        return given
    column = next((c for c in given.columns if c.name == "profile"), None)

    def labelled(table: pa.Table | None) -> pa.Table | None:
        if table is None or column is None:
            return table
        labels = report_table([column], {"profile": [ref.label] * table.num_rows})
        return table.set_column(table.column_names.index("profile"), "profile", labels.column(0))

    return replace(given, profiles=(ref,), table=labelled(given.table), uncut=labelled(given.uncut))
