"""Reports on a profile, or on all profiles of a run: each looked at by itself, their answers as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from nsysconv import queries
from nsysconv.api.combining import Combined, rows
from nsysconv.api.opening import BY as OF_PROFILE
from nsysconv.api.opening import (
    OpenProfile,
    ShownReport,
    check_by,
    check_limit,
    request_of,
    shown,
)
from nsysconv.api.sources import Source, sources
from nsysconv.api.words import Say, Target, Words, several, silent
from nsysconv.api.workers import workers as workers_for
from nsysconv.errors import InputError, UsageError
from nsysconv.importers import detection
from nsysconv.importers.contract import Options
from nsysconv.phases import phase
from nsysconv.queries import Part
from nsysconv.queries.contract import Request
from nsysconv.ranks.members import Member, member
from nsysconv.report import ProfileRef, Report, report_table
from nsysconv.store.census import census
from nsysconv.store.places import shown as shown_target
from nsysconv.timeline.slices import Slice

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
    shown_rows = {name: rows(name, limit, for_people=for_people) for name in wanted}
    detection.check_included(Options(frozenset(several(include))))
    asked = _Asked(wanted, (), request, slice, several(include))
    combined = [Combined(name, by, shown_rows[name], request) for name in wanted]
    run = _Run(combined)
    found = sources(target, say)
    if len(found) == 1 and not found[0].in_folder:
        with ExitStack() as stack:
            opened = found[0].opened(stack, asked.include, say)
            if len(opened) == 1 and by not in ("host", "device"):
                asked = replace(asked, limits=[shown_rows[n].limit for n in wanted], alone=True)
                return [shown(report) for report in _reports(asked, opened[0])]
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
        every = working.map(partial(_answers, asked), away, files=Source.files)
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
        queries.wanted(name)


def _count(found: Sequence[Source], asked: int | None) -> int | None:
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
    given: tuple[Report | Part, ...]


def _answers(asked: _Asked, source: Source) -> list[_Answers] | InputError:
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


def _from_here(answers: _Answers, here: Source, there: Source) -> _Answers:
    """The answers of a file as it was named here."""
    if answers.ref.path != str(there.place):
        return answers
    return replace(answers, ref=replace(answers.ref, path=str(here.place)))


def _reports(asked: _Asked, opened: OpenProfile) -> Iterator[Any]:
    step_range = asked.request.step_range or (asked.slice.step_range if asked.slice else None)
    if asked.slice is not None:
        opened.narrow(replace(asked.slice, step_range=asked.slice.step_range or step_range))
    queries.read_ahead(asked.wanted, opened.timeline)
    whole: list[tuple[str, Request]] = []
    parts: dict[str, Part] = {}
    for spec, limit in zip(asked.wanted, asked.limits, strict=True):
        name = queries.wanted(spec).name
        request = replace(
            asked.request,
            limit=limit,
            by_step=asked.request.by_step and name in queries.BY_STEP,
            step_range=step_range,
        )
        if not asked.alone and name in queries.OVER_RANKS:
            parts[spec] = queries.part(spec, opened.timeline, request)
        else:
            whole.append((spec, request))
    reports = iter(opened.answers(whole))
    for spec in asked.wanted:
        yield parts[spec] if spec in parts else next(reports)


# -- all of them


class _Run:
    """The answers of the profiles so far. Of each, no more is kept than its report needs."""

    def __init__(self, combined: Sequence[Combined]) -> None:
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
        notes = census(self._processes).notes()
        return [shown(each.report(self._members, notes)) for each in self._combined]


def _labelled(given: Report | Part, ref: ProfileRef) -> Report | Part:
    """The same of a profile of that label."""
    if isinstance(given, Part):
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
