"""Opened profiles: one of a store or of its own file, all of a run."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Unpack

from nsysconv import queries, schema
from nsysconv.api.inputs import Input, joined_input, only_recording
from nsysconv.api.options import ProfileKeywords, ProfileOptions, options_of
from nsysconv.api.shown_report import ShownReport, query_report
from nsysconv.api.targets import Say, Target, Words, several, silent, with_joined
from nsysconv.document import Section
from nsysconv.errors import InputError, NotRecorded, UsageError, available_hint
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.present import tables
from nsysconv.queries.contract import Request
from nsysconv.report import Report, concatenated
from nsysconv.store.location import Location, Url, globbed, is_store, reading, split_target
from nsysconv.store.read import Profile, Store, find_profile
from nsysconv.store.runs import profiles_of_rank, tagged_profiles
from nsysconv.store.selection import last_count, last_runs, runs_in_order
from nsysconv.timeline.sliced import sliced
from nsysconv.timeline.slices import Slice
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import KERNEL, totals

if TYPE_CHECKING:
    import pyarrow as pa

    from nsysconv.api.profile_file import ProfileFile

# A selector with this prefix is a rank.
_RANK = "rank="
_MOST_CHOICES = 20
"""The number of profiles that are listed where one of several has to be named."""


class OpenProfile:
    """One opened profile, in a store or in its own file, as `open` gives it. Use as a context manager.

    Its reports are good after it is closed. One thread at a time. What is left open is closed when
    nothing refers to it, or when the interpreter ends.
    """

    def __init__(
        self,
        profile: Profile,
        place: Location,
        resources: ExitStack,
        file: ProfileFile | None = None,
    ) -> None:
        """Take over `resources`, to be closed with it; `file` is read in place, None for a store."""
        self.timeline = Timeline(profile)
        self.profile = profile
        self._place = place
        self._close = weakref.finalize(self, resources.close)
        # The interpreter's exit must not close a profile that a daemon thread may still use.
        self._close.atexit = not threading.current_thread().daemon
        self._file = file
        self._timelines: dict[frozenset[Fact], Timeline] = {}
        self._parts: list[Slice] = []

    def __repr__(self) -> str:
        """Return the profile's label, file and source, on one line."""
        ref = self.profile.ref
        state = "" if self._close.alive else ", closed"
        return f"<{type(self).__name__} {ref.label} of {ref.path} ({ref.source}){state}>"

    def __enter__(self) -> OpenProfile:
        """Return the profile itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the profile."""
        self.close()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._close()

    @property
    def id(self) -> int:
        """Return its number in the store, which tables have as `profile_id`."""
        return self.profile.id

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return what was dropped, guessed or approximated in all that was read so far."""
        return self.profile.notes

    def events(
        self,
        kind: str,
        columns: Words | None = None,
        *,
        slice: Slice | None = None,  # noqa: A002
    ) -> pa.Table:
        """Return a kind of events as an Arrow table, a row for each, as `export` writes them.

        `kind` is a table of events in docs/schema.md: kernel, memcpy, api_call, range, operator, …
        Columns are the table's, times in ns and sizes in bytes as integers; beside ids of names is
        `name` (and `short_name`, …), beside codes `direction_name` and the like, dictionary-encoded.
        `columns` says which of them, and in which order (None: all): what is not asked for is not read.
        `slice` says which events (None: all). All rows are in memory at once. Python functions are rows
        of `operator`; those of a file are there if it was opened to include them. `notes` has what was
        dropped on the way.

        Raises NotRecorded if the profile lacks such events, and returns a table without rows where they
        would have been recorded and there were none. Raises UsageError for an unknown kind or column, and
        if the profile is closed.
        """
        self._check_open()
        if kind not in schema.EVENT_TABLES:
            hint = available_hint(kind, list(schema.EVENT_TABLES))
            raise UsageError(f"no events of kind {kind!r}", hint=hint)
        from nsysconv.export.tables import event_table

        fact, profile = schema.EVENT_TABLES[kind], self.profile
        if fact not in profile.facts and not profile.row_count(kind):
            advice = profile.advice.get(fact)
            raise NotRecorded(kind, [fact], [advice] if advice else [])
        wanted = None if columns is None else several(columns)
        with profile.unchanged():
            return event_table(_cut(self.timeline, slice), kind, wanted)

    def sql(self, text: str) -> ShownReport:
        """Return the rows of a query on the tables of the store; docs/schema.md describes them.

        A store's tables hold all of its profiles: `where profile_id = …` chooses this one (`id`), and a
        note says so where a query of several profiles does not. A file is imported into a private store
        at the first query, which is removed when the profile is closed. The rest is as in `sql`.
        """
        self._check_open()
        place = self._place if self._file is None else self._file.copy()
        notes, count = [], self.profile.count_in_store()
        if count > 1 and "profile_id" not in str(text).lower():
            words = f"rows may come from all {count:,} profiles; this one is profile_id {self.id}"
            notes.append(Note("query-of-all-profiles", Severity.INFO, words))
        return query_report(place, text, notes)

    def report(self, name: str, /, **options: Unpack[ProfileKeywords]) -> ShownReport:
        """Return one report, by its name and its own options (`cuda_gpu_kern_sum:base`).

        Its columns and their units are in docs/reports.md; times are integers of ns. Without `limit` it
        has all rows, unless it is for people.

        Raises NotRecorded if the profile lacks what the report needs, UsageError for unknown words and if
        the profile is closed.
        """
        self._check_open()
        asked = options_of(ProfileOptions, options)
        (spec,) = asked.checked((name,))
        limit = asked.row_limit(spec) if asked.for_people else asked.limit or 0
        timeline = _cut(self._timeline_for(spec), asked.part)
        report = queries.compute_report(spec, timeline, asked.request(limit))
        return shown_report(report, limit, form=asked.form)

    def reports(
        self, names: Words | None = None, **options: Unpack[ProfileKeywords]
    ) -> list[ShownReport]:
        """Return several reports, by default the answer and the core ones; what is not recorded says so.

        Raises UsageError as `report`.
        """
        self._check_open()
        asked = options_of(ProfileOptions, options)
        specs = asked.checked(queries.DEFAULT if names is None else several(names))
        limits = [asked.row_limit(spec) for spec in specs]
        requests = [(s, asked.request(limit)) for s, limit in zip(specs, limits, strict=True)]
        reports = self.answers(requests, asked.part)
        pairs = zip(reports, limits, strict=True)
        return [shown_report(report, limit, form=asked.form) for report, limit in pairs]

    def why(
        self,
        event: str,
        *,
        kernel_names: str = "demangled",
        step_range: str | None = None,
        step_kernel: str | None = None,
        step_graph: bool = False,
    ) -> ShownReport:
        """Return what launched one event, what it waited for, and who waited for it: one row.

        `event` is an id, as `timeline_events`, `idle_gaps` and `findings` have it: its kind and its place
        among the profile's rows of that kind, from 1 (`kernel:5`); of a gap, its number (`gap:3`). The
        rest is as in `report`.

        Raises UsageError for the id of no event, NotRecorded where events of its kind are not recorded.
        """
        from nsysconv.queries.why.report import why

        self._check_open()
        asked = ProfileOptions(
            kernel_names=kernel_names,
            step_range=step_range,
            step_kernel=step_kernel,
            step_graph=step_graph,
        )
        asked.checked(())
        with self.profile.unchanged():
            return shown_report(why(event, self.timeline, asked.request(0)))

    def find(self, pattern: str, **options: Unpack[ProfileKeywords]) -> list[ShownReport]:
        """Return the events whose name matches a regular expression, after how many of each kind do.

        Two reports: `find_counts` and `find`, whose rows are the longest first and have the ids that
        `why` takes. The rest is as in `report`; raises UsageError for what is no regular expression.
        """
        from nsysconv.queries.find import find

        self._check_open()
        asked = options_of(ProfileOptions, options)
        asked.checked(())
        limit = asked.limit or 0
        with self.profile.unchanged():
            rows, counts = find(pattern, _cut(self.timeline, asked.part), asked.request(limit))
            return [shown_report(counts), shown_report(rows, limit)]

    def answers(
        self, asked: Sequence[tuple[str, Request]], part: Slice | None = None
    ) -> list[Report]:
        """Return reports as `queries.compute_reports` does, on a part of the profile.

        Rows that one report has to have read for it no other report sees: what a report says does not
        depend on which others are asked for.
        """
        timelines = [self._timeline_for(spec) for spec, _ in asked]
        reports: dict[int, Report] = {}
        for timeline in dict.fromkeys(timelines):
            places = [place for place, each in enumerate(timelines) if each is timeline]
            requests = [asked[place] for place in places]
            computed = queries.compute_reports(requests, _cut(timeline, part))
            reports.update(zip(places, computed, strict=True))
        return [reports[place] for place in range(len(asked))]

    def narrow(self, part: Slice) -> None:
        """Look at no more of the profile than this part from now on."""
        self._parts.append(part)
        self.timeline = sliced(self.timeline, part)

    def forget(self) -> None:
        """Free what was read of events; it is read again if a report needs it."""
        for timeline in (self.timeline, *self._timelines.values()):
            timeline.forget()

    def _timeline_for(self, spec: str) -> Timeline:
        # Some rows of a file are read only for the reports that cannot do without them.
        if self._file is None:
            return self.timeline
        lacking = frozenset(queries.missing_facts(spec, self.timeline))
        facts = lacking & self._file.on_request
        if not facts:
            return self.timeline
        if facts not in self._timelines:
            store = self._file.store(facts)
            timeline = Timeline(find_profile(store, self.profile.ref.label))
            for part in self._parts:
                timeline = sliced(timeline, part)
            self._timelines[facts] = timeline
        return self._timelines[facts]

    def _check_open(self) -> None:
        if not self._close.alive:
            hint = "Ask for reports within the `with` block, or open it again."
            raise UsageError("the profile is closed", where=self.profile.ref.path, hint=hint)


def _cut(timeline: Timeline, part: Slice | None) -> Timeline:
    return timeline if part is None else sliced(timeline, part)


def shown_report(
    report: Report, limit: int = 0, *, form: Callable[[Section], Section] = lambda seen: seen
) -> ShownReport:
    """Return a report as callers see it, with at most `limit` rows (0: all) of that form of it."""
    return shown_section(form(tables.section(report)).limited(limit))


def shown_section(seen: Section) -> ShownReport:
    """Return a section as callers see it."""
    return ShownReport(**{field.name: getattr(seen, field.name) for field in fields(seen)})


def shown_beside(
    reports: Sequence[Report],
    rows: int,
    limit: int,
    *,
    form: Callable[[Section], Section] = lambda seen: seen,
) -> ShownReport:
    """Return one report on several profiles with at most so many `rows` of each (0: all).

    `limit` is that of all rows, where their form is another than that of the reports.
    """
    whole = concatenated(reports)
    shown = shown_report(whole, limit, form=form)
    if whole.table is None or shown.columns != whole.columns or not rows:
        return shown
    table = concatenated([report.limited(rows) for report in reports]).table
    return replace(shown, table=table, uncut=whole.table)


def open(  # noqa: A001 - as gzip.open
    target: Target, *, include: Words = (), join: Words = (), say: Say = silent
) -> OpenProfile:
    """Open a profile: a store's (`job.db`, `job.db@LABEL`, `@ID`, `@rank=N`, `@KEY=VALUE`) or a file's.

    A file is read in place and nothing is left behind; `include` names rows of it that are left out
    unless asked for, such as python_functions. `join` are files that are one profile with it: parts of
    the recording, or of the same program metrics of kernels or times of source lines. Raises UsageError
    where there are several profiles and none was chosen, InputError if a file cannot be read.
    """
    target = with_joined(target, join)
    place, selector = split_target(target)
    with ExitStack() as stack:
        item = joined_input(target)
        store, file = _open_store(place, stack, say, several(include), item)
        selector = None if item else selector
        with store.snapshot():
            profile = _select_one(store, place, selector)
        return OpenProfile(profile, place, stack.pop_all(), file)
    raise AssertionError("unreachable")


def open_all(
    place: Location,
    selector: str | None,
    stack: ExitStack,
    say: Say = silent,
    *,
    include: Sequence[str] = (),
    one_run: bool = False,
    item: Input | None = None,
) -> list[OpenProfile]:
    """Open what `select_profiles` returns for as long as the stack is open; raise as that and `open`.

    `item`: the files of the profile, if they are known already.
    """
    store, file = _open_store(place, stack, say, include, item)
    selector = None if item is not None and item.joined else selector
    with store.snapshot():
        profiles = select_profiles(store, place, selector, one_run=one_run)
    return [OpenProfile(each, place, ExitStack(), file) for each in profiles]


class SeveralChoicesError(UsageError):
    """A target holds several runs or profiles, and none was chosen; `choices`: their labels and sizes."""

    choices: tuple[str, ...] = ()


def select_profiles(
    store: Store, place: Location, selector: str | None, *, one_run: bool = False
) -> list[Profile]:
    """Return profiles of a store in the order of ranks, at least one.

    `selector` is the label of a run, names one profile, is a tag KEY=VALUE that any number may have, or
    last:N, the newest N runs; None means all. Raises UsageError if they are to be of one run, and are of
    several.
    """
    profiles = store.profiles()
    if selector is not None:
        runs = {row["id"] for row in store.runs() if row["label"] == selector}
        profiles = (
            [p for p in profiles if p.attributes["run_id"] in runs]
            or _tagged(store, profiles, selector)
            or _last(store, profiles, selector)
            or [_select_one(store, place, selector)]
        )
    if one_run:
        labels = {row["id"]: row["label"] for row in store.runs()}
        by_run: dict[str, list[Profile]] = {}
        for profile in profiles:
            by_run.setdefault(labels[profile.attributes["run_id"]], []).append(profile)
        if len(by_run) > 1:
            raise _ambiguous("runs", by_run, place)
    if len(profiles) > 1:
        return sorted(profiles, key=rank_order)
    return profiles or [_select_one(store, place, None)]


def _open_store(
    place: Location,
    stack: ExitStack,
    say: Say,
    include: Sequence[str],
    item: Input | None = None,
) -> tuple[Store, ProfileFile | None]:
    item = item or profile_files(place)
    if item is None or item.is_store:
        if include:
            raise UsageError(
                "a store holds what was imported: nothing more can be included",
                where=str(place),
                hint="Import the file again, with --include.",
            )
        return stack.enter_context(reading(place)), None
    from nsysconv.api.profile_file import ProfileFile

    file = stack.enter_context(ProfileFile(item, say, include))
    return file.store(), file


def profile_files(place: Location) -> Input | None:
    """Return the file that may be a profile, or the files of the only one of a folder or glob.

    None: it is a store. Raises UsageError for a folder of several profiles, InputError for no file.
    """
    if isinstance(place, Url) or is_store(place):
        return None
    matches = globbed(place)
    if not matches and not place.exists():
        raise InputError("no such file", where=str(place))
    if not matches and not place.is_dir():
        return Input((place,))
    found = only_recording(matches or [place])
    if found is None or found.is_store:
        what = f"{len(matches)} files match" if matches else "a folder of several profiles"
        hint = f"Name one, or import them first: nsysconv import '{place}' -o STORE.db"
        if found is not None:
            what, hint = "a folder with a store", f"Name the store: {found.path}"
        raise UsageError(what, where=str(place), hint=hint)
    return found


def _select_one(store: Store, place: Location, selector: str | None) -> Profile:
    profiles = store.profiles()
    if selector is not None:
        if selector.startswith(_RANK):
            of_rank = profiles_of_rank(store, selector.removeprefix(_RANK))
            chosen = [profile for profile in profiles if profile.id in of_rank]
        else:
            chosen = _tagged(store, profiles, selector) or [find_profile(store, selector)]
        if len(chosen) == 1:
            return chosen[0]
        hint = "`nsysconv runs STORE` lists the profiles."
        raise UsageError(f"{len(chosen)} profiles with {selector}", where=str(place), hint=hint)
    if len(profiles) == 1:
        return profiles[0]
    if not profiles:
        hint = f"Import one: nsysconv import FILE -o {place}"
        raise UsageError("the store holds no profile", where=str(place), hint=hint)
    raise _ambiguous("profiles", {profile.ref.label: [profile] for profile in profiles}, place)


def _tagged(store: Store, profiles: Sequence[Profile], selector: str) -> list[Profile]:
    # A label may look like a tag: then it is the label that is meant.
    key, sign, value = selector.partition("=")
    if not sign or selector.startswith(_RANK) or selector in {p.ref.label for p in profiles}:
        return []
    ids = tagged_profiles(store, key, value)
    return [profile for profile in profiles if profile.id in ids]


def _last(store: Store, profiles: Sequence[Profile], selector: str) -> list[Profile]:
    count = None if selector in {p.ref.label for p in profiles} else last_count(selector)
    if count is None:
        return []
    runs = {run.id for run in last_runs(runs_in_order(store), count)}
    return [profile for profile in profiles if profile.attributes["run_id"] in runs]


def _ambiguous(
    what: str, choices: Mapping[str, Sequence[Profile]], place: Location
) -> SeveralChoicesError:
    labels = []
    for label, profiles in islice(choices.items(), _MOST_CHOICES):
        kernels = sum(map(_kernel_count, profiles))
        sizes = [f"{len(profiles)} profiles"] if len(profiles) > 1 else []
        sizes += [f"{kernels:,} kernel{'s' * (kernels > 1)}"] if kernels else []
        labels.append(label + (f"  ({', '.join(sizes)})" if sizes else ""))
    lines = [f"  {place}@{label}" for label in labels]
    kind = "store" if isinstance(place, Url) or is_store(place) else "file"
    if len(choices) > _MOST_CHOICES:
        every = f"nsysconv runs {place}" if kind == "store" else "Imported, `nsysconv runs STORE`"
        lines.append(f"and {len(choices) - _MOST_CHOICES:,} more. {every} lists them all.")
    text = f"the {kind} holds {len(choices)} {what}: name one"
    error = SeveralChoicesError(text, where=str(place), hint="\n".join(lines))
    error.choices = tuple(labels)
    return error


def _kernel_count(profile: Profile) -> int:
    count = profile.row_count("kernel")
    return count or sum(total.count for total in totals(Timeline(profile), KERNEL))


def rank_order(profile: Profile) -> tuple[bool, int, int]:
    """Return the key by which profiles of a run are in the order of their ranks."""
    ranks = [row["rank"] for row in profile.rows("process") if row["rank"] is not None]
    return (not ranks, min(ranks, default=0), profile.id)
