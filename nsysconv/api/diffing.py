"""Two sides compared: what changed, whether it can be trusted, and whether a limit is exceeded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Unpack, cast

import pyarrow as pa

from nsysconv import queries
from nsysconv.api.diff_page import (
    DRAWN,
    aligned_reports,
    drawn_reports,
    says_nothing,
    step_key,
)
from nsysconv.api.open_profile import OpenProfile, shown_report
from nsysconv.api.options import DiffKeywords, DiffOptions, check_word
from nsysconv.api.shown_report import ShownReport
from nsysconv.api.sides import Side, open_sides, same_recordings
from nsysconv.api.targets import Say, Target, Words, silent
from nsysconv.diff import account, change, comparability, gate, limits_file, names, noise, rows
from nsysconv.diff.compare import CompareOptions, Comparison, HalfWidths, compare_reports
from nsysconv.diff.renamed import limit_rows
from nsysconv.diff.trees import TREES, compare_trees
from nsysconv.errors import InputError, UsageError, available_hint
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.phases import phase
from nsysconv.queries.columns import has_per_step
from nsysconv.queries.contract import GPU_OP_FACTS, Request
from nsysconv.report import Column, ProfileRef, Report, Unit, merged_header
from nsysconv.store.location import local_path
from nsysconv.timeline.account import Accounts, accounts
from nsysconv.timeline.steps import STEP_FACTS, STEP_RANGE, Samples, step_durations, step_periods
from nsysconv.timeline.timeline import Timeline

ACCOUNT, CULPRITS = "account", "culprits"
_CULPRIT_REPORTS = ("kernels", "api_vs_kernel", "idle_host")
DEFAULT = (
    ACCOUNT,
    CULPRITS,
    "overview",
    "kernels",
    "api_vs_kernel",
    "transfers",
    "idle_summary",
    "idle_host",
    "steps",
)
"""The reports that are compared if none is named."""

_NOT_COMPARED = {*queries.reports_that_are("events"), *queries.OVER_RANKS}
_COMPARABLE = tuple(name for name in queries.OWN if name not in _NOT_COMPARED)
_LIMIT_FOR_PEOPLE = 20
_FAIL, _PASS = "fail", "pass"
_OF_CALLS = ("api_vs_kernel", "launch_stats", "idle_host")
_TIME = Column("time_ns", Unit.NS, "The time that the answer speaks of.", better="less", real=True)
_WINDOW_FACTS = frozenset({Fact.KERNELS, Fact.KERNEL_TOTALS, *GPU_OP_FACTS})
_RUN_NOISE = re.compile(r"\s*([0-9]{1,2}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})\s*%\s*")


@dataclass(frozen=True)
class DiffResult:
    """The result of a comparison.

    `answer` is one line: slower, faster, same or cannot tell, of what and by how much; `headline` the
    same as a report of one row. `reports` are those of changes, then, where there are limits, that of
    verdicts. `exit_status` is 0, 1 or 4: within all limits, one exceeded, or none exceeded and one that
    nothing can be said of; or 3 where a file of a folder could not be read.
    """

    answer: str
    headline: ShownReport
    reports: tuple[ShownReport, ...]
    exit_status: int

    def __repr__(self) -> str:
        """Return the answer, on one line."""
        return f"<{type(self).__name__} {self.answer}>"


def compare(
    base: Target,
    other: Target,
    reports: Words | None = None,
    *,
    say: Say = silent,
    **options: Unpack[DiffKeywords],
) -> DiffResult:
    """Compare two sides: what changed from base to other.

    A side is a store, STORE@LABEL, a profile file, a folder or a glob; profiles of one run are its
    ranks, all others repeats. `reports` are those with keys (None: the most useful). Raises UsageError
    for words that are not known, InputError where a side cannot be read. What a side did not record is
    in the reports.
    """
    return compare_targets(base, other, DiffOptions(reports=reports, **options), say)


def compare_targets(
    base: Target, other: Target, options: DiffOptions, say: Say = silent
) -> DiffResult:
    """Compare two sides as `compare` does, with the options as a value."""
    wanted = list(DEFAULT if options.reports is None else options.reports)
    comparable = (ACCOUNT, CULPRITS, *DRAWN, *_COMPARABLE)
    for name in wanted:
        if name not in comparable:
            raise UsageError(
                f"no report {name!r} that can be compared", hint=available_hint(name, comparable)
            )
    limits, run_noise, passes_undecided = _limits(options)
    check_word("matching", options.match, names.MATCHES)
    in_rows = [name for name in wanted if name in _COMPARABLE]
    options.check_part([*in_rows, *(limit.report for limit in limits)])
    request = Request(
        step_range=options.step_range, range_names=options.range_names, split=options.split
    )
    with ExitStack() as stack, phase("diff"):
        sides = open_sides(base, other, stack, say)
        if options.part is not None:
            for profile in (*sides[0].profiles, *sides[1].profiles):
                profile.narrow(options.part)
        other_makers = names.vendors_differ(*([p.timeline for p in s.profiles] for s in sides))
        if options.reports is None and other_makers:
            # Of kernels of other makers hardly a name is the same.
            wanted.insert(wanted.index("kernels"), "kernel_categories")
        if options.reports is None and options.for_page:
            wanted += drawn_reports(p for side in sides for p in side.profiles)
        named = [TREES.get(name, name) for name in wanted if name in (*_COMPARABLE, *TREES)]
        named = list(dict.fromkeys([*named, *(limit.report for limit in limits)]))
        needed = dict.fromkeys(
            [*named, *(_CULPRIT_REPORTS if CULPRITS in wanted else ()), "kernels"]
        )
        single = all(len(side.profiles) == 1 for side in sides)
        # One after the other: together they would need memory for all of them.
        answers = {
            profile.timeline: _ask(profile, list(needed), request, with_samples=single)
            for side in sides
            for profile in side.profiles
        }
        sources = {p.profile.ref.source for side in sides for p in side.profiles}
        match = cast(names.Match, options.match or ("exact" if len(sources) == 1 else "signature"))
        comparer = _Comparer(sides, answers, match, options.step_range, other_makers, run_noise)
        changes = list(_changes(wanted, comparer, options))
        verdicts = [comparer.verdict(limit) for limit in limits]
        status = 0
        if verdicts:
            changes.append(gate.limits_report(verdicts))
            status = gate.exit_status(verdicts, passes_undecided=passes_undecided)
        answer = comparer.answer()
        headline = answer.report([verdict.state for verdict in verdicts])
        shown = tuple(map(shown_report, changes))
        if any(side.unread for side in sides):
            # Whatever the rest shows, a rank or a run that is lost passes no gate.
            status = InputError.exit_status
        return DiffResult(answer.line, shown_report(headline), shown, status)


def _changes(wanted: Sequence[str], comparer: _Comparer, options: DiffOptions) -> Iterator[Report]:
    is_default = options.limit is None and options.for_people
    row_limit = _LIMIT_FOR_PEOPLE if is_default else options.limit or 0
    for name in wanted:
        if name in DRAWN:
            report = comparer.drawn_report(name)
            if options.for_page:
                # A picture is of all rows and columns.
                if name in (options.reports or ()) or not says_nothing(report):
                    yield report
                continue
            report = report.limited(row_limit)
        elif name == ACCOUNT:
            report = comparer.account_report(for_people=options.for_people)
        elif name == CULPRITS:
            report = comparer.culprits_report()
        else:
            report = comparer.report(name).limited(row_limit)
        yield report.briefly() if options.for_people else report


def _limits(options: DiffOptions) -> tuple[list[gate.Limit], float | None, bool]:
    # The limits, the noise of a run, and whether undecided limits pass. What a flag says comes
    # before what the file says; each limit counts once.
    columns = {name: _columns(name) for name in _COMPARABLE}
    limits = [gate.parse_limit(text, columns) for text in options.fail_on]
    run_noise, cannot_tell = _run_noise(options.run_noise), options.cannot_tell
    if options.limits is not None:
        file = limits_file.read_limits_file(local_path(options.limits))
        limits += [gate.parse_limit(text, columns, where) for text, where in file.limits]
        cannot_tell = cannot_tell or file.cannot_tell
        if run_noise is None:
            run_noise = _run_noise(file.run_noise, where=str(options.limits))
    if cannot_tell not in (None, _FAIL, _PASS):
        raise UsageError(
            f"no way {cannot_tell!r} to take what cannot be told", hint=f"{_FAIL} or {_PASS}."
        )
    by_text: dict[str, gate.Limit] = {}
    for limit in limits:
        by_text.setdefault(limit.text, limit)
    return list(by_text.values()), run_noise, cannot_tell == _PASS


def _run_noise(text: str | None, where: str = "") -> float | None:
    # The relative standard deviation: 0.003 of "0.3%".
    if text is None:
        return None
    match = _RUN_NOISE.fullmatch(text)
    if match is None:
        hint = "Write how runs of the same program differ, as a share: 0.3%."
        raise UsageError(f"{text!r} is not the noise of a run", where=where, hint=hint)
    return float(match[1]) / 100


@cache
def _columns(name: str) -> Sequence[Column]:
    # Of a report that can be compared; steps are added up.
    query = queries.query(name)
    if name == "steps":
        return rows.steps_per_rank(Report(name, query.title, query.columns, None)).columns
    return query.columns


@dataclass(frozen=True)
class _Answers:
    # Of one profile, all that the comparison needs of it.
    reports: Mapping[str, Report]
    samples: Mapping[rows.Sampler, Samples | None]


def _ask(
    profile: OpenProfile, wanted: Sequence[str], request: Request, *, with_samples: bool
) -> _Answers:
    # What is asked of its events later is cached, and then it may forget them.
    timeline, steps = profile.timeline, request.step_range or STEP_RANGE
    reports = profile.answers([(name, request) for name in wanted])
    samples = rows.samples_of((*wanted, "steps"), timeline, steps) if with_samples else {}
    comparability.cache_properties(timeline, steps=steps)
    comparability.step_period(timeline, steps)
    accounts(timeline, steps)
    profile.forget()
    return _Answers(dict(zip(wanted, reports, strict=True)), samples)


class _Comparer:
    # Two open sides, of which each profile has been asked. `run_noise` is the relative standard deviation
    # of a run, where it is known.
    def __init__(
        self,
        sides: tuple[Side, Side],
        answers: Mapping[Timeline, _Answers],
        match: names.Match,
        step_range: str | None,
        other_makers: bool,
        run_noise: float | None,
    ) -> None:
        self._sides = sides
        self._answers = answers
        self._match = match
        self._steps = step_range or STEP_RANGE
        self._other_makers = other_makers
        self._single = all(len(side.profiles) == 1 for side in sides)
        self._comparisons: dict[str, Comparison] = {}
        base, other = self._timelines = tuple([p.timeline for p in s.profiles] for s in sides)
        self._noise = (
            self._assumed_noise() if run_noise is None else noise.RunNoise.known(run_noise)
        )
        self._notes = comparability.comparability_notes(base, other, steps=self._steps)
        self._identical = same_recordings(*sides)
        if self._identical:
            text = "both sides are the same recording: a file was named twice, or copied"
            self._notes.append(Note("sides-equal", Severity.INFO, text))
        self._notes += names.symbols_only_notes(base, other)
        self._unread = [
            replace(note, text=f"{name}: {note.text}")
            for side, name in zip(sides, ("base", "other"), strict=True)
            for note in side.unread
        ]
        self._notes += self._unread
        self._notes += [
            replace(note, text=f"{name}: {note.text}")
            for side, name in zip(sides, ("base", "other"), strict=True)
            for profile in side.profiles
            for note in (
                *profile.timeline.slice_notes,
                *(note for note in profile.profile.notes if note.severity is not Severity.INFO),
            )
        ]
        self._unlike = self._work_differences()

    def _assumed_noise(self) -> noise.RunNoise:
        # Runs differ less on the same GPU than on one that may be another; a host's differ more.
        base, other = map(comparability.gpu_uuids, self._timelines)
        stepped = noise.RUN_NOISE if base and base == other else noise.UNKNOWN_RUN_NOISE
        profiles = [self._accounts(profile) for side in self._sides for profile in side.profiles]
        late = noise.waits_for_the_host(
            account for each in profiles for account in each.of_steps or each.of_window
        )
        return noise.RunNoise(stepped, span=noise.HOST_RUN_NOISE if late else None)

    def report(self, name: str) -> Report:
        comparison = self._comparison(name)
        report = comparison.report
        if name != "kernels" or self._other_makers or comparison.rows is None:
            return report
        notes = rows.template_argument_notes(comparison.rows)
        return replace(report, notes=(*report.notes, *notes))

    def _comparison(self, name: str) -> Comparison:
        if name not in self._comparisons:
            self._comparisons[name] = self._compared(name)
        return self._comparisons[name]

    def _compared(
        self, name: str, *, judged: bool = True, renamed: Mapping[rows.Key, rows.Key] | None = None
    ) -> Comparison:
        base, other = ([self._of_run(name, run) for run in side.runs] for side in self._sides)
        facts = self._facts(name)
        failure = comparability.failure(self._notes, facts)
        unlike = self._unlike_steps if name == "steps" else ()
        options = CompareOptions(
            name_keys=self._name_keys(name),
            half_widths=self._half_widths(name),
            notes=[*unlike, *(note for note in self._notes if note.touches(facts))],
            comparable=lambda column: judged and not failure and not self._is_unlike(column),
            one_sided=not self._other_makers,
            noise=self._noise,
            renamed=renamed or {},
        )
        return compare_reports(base, other, options)

    def _work_differences(self) -> list[str]:
        # Reasons why the sides did not do the same work, as far as they can be found.
        reasons = comparability.work_differences(self._notes, have_steps=self._have_steps)
        if not self._have_steps:
            kernels = self._compared("kernels", judged=False).rows or ()
            difference = kernels and (
                comparability.kernel_mix_difference(kernels)
                or comparability.launch_count_difference(kernels)
            )
            reasons += [difference] if difference else []
        if reasons:
            self._notes.append(comparability.work_note(reasons))
        return reasons

    @cached_property
    def _have_some_steps(self) -> bool:
        timelines = [timeline for side in self._timelines for timeline in side]
        return any(any(comparability.step_counts(t, self._steps)) for t in timelines)

    @cached_property
    def _unlike_steps(self) -> tuple[Note, ...]:
        # What is one step as a whole cannot be compared with steps.
        reports = ([self._answers[t].reports["steps"] for t in side] for side in self._timelines)
        return rows.unannotated_notes(*reports)

    @cached_property
    def _have_steps(self) -> bool:
        return None not in [time for side in self._times_per_step for time in side]

    @cached_property
    def _times_per_step(self) -> list[list[float | None]]:
        # Per side and run the longest of its devices; None without steps.
        return [
            [_longest(map(self._time_per_step, run)) for run in side.runs] for side in self._sides
        ]

    def _time_per_step(self, profile: OpenProfile) -> float | None:
        of_steps = self._accounts(profile).of_steps
        if of_steps is None:
            # No GPU operation lies in the steps, or their clocks disagree.
            return comparability.step_period(profile.timeline, self._steps)
        return _longest(each.span.length / (each.span.steps or 1) for each in of_steps)

    def _accounts(self, profile: OpenProfile) -> Accounts:
        return accounts(profile.timeline, self._steps)

    def _facts(self, name: str) -> frozenset[Fact]:
        # What a report is made of.
        query = queries.query(name)
        facts = frozenset(query.needs | query.uses | query.totals)
        return facts if self._have_some_steps or not has_per_step(query) else facts - STEP_FACTS

    def _is_unlike(self, column: Column) -> bool:
        return bool(self._unlike) and comparability.grows_with_work(column)

    def _name_keys(self, name: str) -> Mapping[str, names.NameKey]:
        if name == "kernels":
            return {"name": self._kernel_key}
        if name in _OF_CALLS and self._other_makers:
            return {"name": names.call_name_key()}
        return {}

    @cached_property
    def _kernel_key(self) -> names.NameKey:
        base, other = self._timelines
        return names.kernel_name_key(base, other, self._match)

    def _of_run(self, name: str, run: Sequence[OpenProfile]) -> Report:
        # Of its only profile, or of all its ranks one below the other.
        reports = [self._answers[profile.timeline].reports[name] for profile in run]
        if name == "steps":
            if self._unlike_steps:
                reports = [*map(rows.without_unannotated, reports)]
            reports = [*map(rows.steps_per_rank, reports)]
        if name == "idle_host":
            reports = [*map(names.without_operator_numbers, reports)]
        tables = [report.table for report in reports]
        table = None if any(t is None for t in tables) else pa.concat_tables(tables)
        return replace(merged_header(reports), table=table, advice=reports[0].advice)

    def _half_widths(self, name: str) -> HalfWidths:
        # By step, if each side is one run of one profile that has enough steps.
        if not self._single:
            return lambda matcher: {}
        answers = [self._answers[timeline] for (timeline,) in self._timelines]
        sides = [(each.samples, each.reports[name]) for each in answers]
        return partial(rows.half_widths, name, sides, self._noise)

    def answer(self) -> change.Answer:
        if self._have_steps:
            what, half, facts = change.STEP, self._half_of_periods(), STEP_FACTS
            values = self._times_per_step
        else:
            what, half, facts = change.WINDOW, None, _WINDOW_FACTS
            values = [[self._window(run) for run in side.runs] for side in self._sides]
        assumed = self._noise.of_span(by_step=half is not None)
        moved = change.change_of(_TIME, *values, noise=assumed, half_width=half)
        notes = (*self._unread, *self._disturbances(values))
        base, other = (len(side.runs) for side in self._sides)
        failure = comparability.failure(self._notes, facts)
        runs = base, other
        return change.Answer(what, moved, runs, self._unlike, failure, notes, self._identical)

    def _disturbances(self, values: Sequence[Sequence[float | None]]) -> Iterator[Note]:
        for side, times, name in zip(self._sides, values, ("base", "other"), strict=True):
            measured = [time for time in times if time is not None]
            labels = [run[0].profile.ref.label for run in side.runs]
            if len(measured) == len(times):
                yield from change.outlier_run_notes(name, measured, labels)
            if self._single:
                samples = self._answers[side.profiles[0].timeline].samples[step_durations]
                if samples is not None:
                    yield from change.slow_step_notes(name, samples.values[0])
        base, other = ([[p.timeline for p in run] for run in side.runs] for side in self._sides)
        yield from change.run_order_notes(base, other)

    def _half_of_periods(self) -> float | None:
        # Of the interval of the time per step, by how the steps of each run vary.
        if not self._single:
            return None
        base, other = (self._answers[t].samples[step_periods] for (t,) in self._timelines)
        if base is None or other is None:
            return None
        varying = noise.deviations(base.values), noise.deviations(other.values)
        (half,) = noise.step_half_widths(*varying, self._noise.of_span(by_step=True)).tolist()
        return half if math.isfinite(half) else None

    def _window(self, run: Sequence[OpenProfile]) -> float | None:
        windows = [each.span.length for p in run for each in self._accounts(p).of_window]
        return max(windows, default=None)

    @cached_property
    def _change(self) -> account.ChangeAccount:
        base, other = ([[*map(self._accounts, run)] for run in side.runs] for side in self._sides)
        return account.account_for_change(base, other, self._kernel_key)

    def account_report(self, *, for_people: bool) -> Report:
        # For people small parts are joined.
        moved = account.with_minor_parts_joined(self._change) if for_people else self._change
        notes = [note for note in self._notes if note.slug == "work-differs"]
        return account.account_report(moved, self._refs, notes)

    def culprits_report(self) -> Report:
        kernels, calls, gaps = (self._comparison(name).rows or () for name in _CULPRIT_REPORTS)
        return account.culprits(kernels, calls, gaps, account=self._change, profiles=self._refs)

    def drawn_report(self, name: str) -> Report:
        if name not in TREES:
            return self._aligned[name]
        base, other = (
            [[self._answers[p.timeline].reports[TREES[name]] for p in run] for run in side.runs]
            for side in self._sides
        )
        notes = [note for note in self._notes if note.slug == "work-differs"]
        key, steps = step_key(self._steps), self._change.steps
        return compare_trees(name, base, other, name_key=key, steps=steps, notes=notes)

    @cached_property
    def _aligned(self) -> Mapping[str, Report]:
        base, other = self._sides
        return aligned_reports(base.runs, other.runs, self._steps)

    @property
    def _refs(self) -> tuple[ProfileRef, ...]:
        return tuple(profile.profile.ref for side in self._sides for profile in side.profiles)

    def verdict(self, limit: gate.Limit) -> gate.LimitVerdict:
        columns, pairs = _columns(limit.report), self._comparison(limit.report).rows
        (column,) = (column for column in columns if column.name == limit.column)
        if failure := comparability.failure(self._notes, self._facts(limit.report)):
            return gate.undecided(limit, failure, is_void=True)
        if self._is_unlike(column):
            reason = f"not the same work: {'; '.join(self._unlike)}; limit a mean, such as "
            return gate.undecided(
                limit, f"{reason}steps.avg_ns, kernels.per_step_ns or transfers.bytes_per_step"
            )
        if pairs is None:
            return gate.judge_limit(limit, column, None)

        def compared(renamed: Mapping[rows.Key, rows.Key]) -> Sequence[rows.RowPair]:
            return self._compared(limit.report, renamed=renamed).rows or ()

        seen = limit_rows(limit, columns, pairs, compared, identical=self._identical)
        return gate.judge_limit(limit, column, seen)


def _longest(times: Iterable[float | None]) -> float | None:
    values = list(times)
    return None if None in values else max(values, default=None)  # type: ignore[type-var]


# -- the sides of a comparison
