"""A comparison, from what each profile of both sides answered to what is said of them.

All of it is values: nothing here is open, and nothing is asked of a profile again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from nsysconv.codes import COMMUNICATION
from nsysconv.diff import (
    account,
    change,
    comparability,
    gate,
    history,
    names,
    noise,
    rows,
    same_work,
)
from nsysconv.diff.comparability import Properties
from nsysconv.diff.compare import CompareOptions, Comparison, HalfWidths, compare_reports
from nsysconv.diff.replaced import Limited, replaced_as_one
from nsysconv.diff.trees import TREES, compare_trees, step_key
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.report import Column, ProfileRef, Report, Unit, merged_header
from nsysconv.timeline.account import Accounts
from nsysconv.timeline.slices import StepRule
from nsysconv.timeline.steps import STEP_FACTS, Samples, step_durations, step_periods

_TELLING = ("kernels", "transfers")
"""Reports on which every comparison rests, looked at first: in one recording nothing differs."""
_OF_SYSTEM = frozenset({Fact.OSRT_CALLS, Fact.SCHEDULING})
_OF_CALLS = ("api_vs_kernel", "launch_stats", "idle_host")
_TIME = Column("time_ns", Unit.NS, "Time that the answer is about.", better="less", real=True)


@dataclass(frozen=True)
class ProfileAnswers:
    """Hold the reports, samples and accounts of one profile; `step_names` is the pattern of its steps."""

    ref: ProfileRef
    properties: Properties
    sizes: Mapping[str, same_work.Amounts]
    reports: Mapping[str, Report]
    samples: Mapping[rows.Sampler, Samples | None]
    accounts: Accounts
    slice_notes: tuple[Note, ...]
    step_names: str | None = None

    @property
    def time_per_step(self) -> float | None:
        """Return the ns per step of the device where it is the longest; None without steps."""
        of_steps = self.accounts.of_steps
        if of_steps is None:
            # There is no account of steps if no GPU operation lies in them, or if their clocks
            # disagree.
            return self.properties.step_period
        return _longest(each.span.length / (each.span.steps or 1) for each in of_steps)


@dataclass(frozen=True)
class SideAnswers:
    """Hold the answers of all profiles of one side, run by run, and notes on files that were not read.

    `in_order`: the runs are a series, the newest last.
    """

    name: str
    runs: tuple[tuple[ProfileAnswers, ...], ...]
    unread: tuple[Note, ...] = ()
    in_order: bool = False

    @property
    def profiles(self) -> tuple[ProfileAnswers, ...]:
        """Return all profiles of all runs."""
        return tuple(profile for run in self.runs for profile in run)

    def named(self, notes: Iterable[Note]) -> list[Note]:
        """Return notes that say which side they are of."""
        return [replace(note, text=f"{self.name}: {note.text}") for note in notes]


@dataclass(frozen=True)
class ReportKind:
    """The declaration of a report: its columns, what it is made of, whether some are per step."""

    columns: Sequence[Column]
    facts: frozenset[Fact]
    has_per_step: bool


@dataclass(frozen=True)
class Asked:
    """Both sides' answers, and how they are to be compared.

    `kinds` are the reports that were asked for. `steps` is what makes a step; `kernel_key`
    gives the keys of kernels' names. `other_makers`: no vendor has GPUs on both sides; `identical`: both
    sides are the same recordings. `run_noise` is the relative standard deviation of a run, None if
    unknown; `window_facts` are those that the window is made of; `notes` are on both sides, `aligned`
    the reports that show both on one axis.
    """

    sides: tuple[SideAnswers, SideAnswers]
    kinds: Mapping[str, ReportKind]
    steps: StepRule
    kernel_key: names.NameKey
    other_makers: bool
    identical: bool
    run_noise: float | None
    window_facts: frozenset[Fact]
    notes: Sequence[Note] = ()
    aligned: Mapping[str, Report] = field(default_factory=dict)

    @property
    def is_single(self) -> bool:
        """Return whether each side is one profile."""
        return all(len(side.profiles) == 1 for side in self.sides)

    @property
    def refs(self) -> tuple[ProfileRef, ...]:
        """Return the references of all profiles."""
        return tuple(profile.ref for side in self.sides for profile in side.profiles)

    @property
    def unread(self) -> list[Note]:
        """Return the notes on files that could not be read."""
        return [note for side in self.sides for note in side.named(side.unread)]


@dataclass(frozen=True)
class Judgement:
    """Hold what both sides share before any of their reports is compared.

    `times_per_step` are those of each side's runs, None without steps. `unlike` says in words why the
    sides did not do the same work, `sizes` what of it was larger or smaller; `unlike_steps`: one side's
    runs are one step as a whole.
    """

    asked: Asked
    noise: noise.RunNoise
    notes: tuple[Note, ...]
    times_per_step: Sequence[Sequence[float | None]]
    unlike_steps: tuple[Note, ...]
    unlike: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()

    @property
    def have_steps(self) -> bool:
        """Return whether all runs have steps."""
        return all(time is not None for side in self.times_per_step for time in side)

    @property
    def per(self) -> tuple[float, float]:
        """Return the numbers of steps of the sides, of all runs together; without steps those of runs."""
        base, other = (
            sum(sum(profile.properties.step_counts) for profile in side.profiles)
            if self.have_steps
            else len(side.runs)
            for side in self.asked.sides
        )
        return float(base or 1), float(other or 1)

    @property
    def unlike_system(self) -> bool:
        """Return whether only some profiles say what the operating system did with threads."""
        held = (p.properties.facts & _OF_SYSTEM for s in self.asked.sides for p in s.profiles)
        return len(set(held)) > 1

    @property
    def work_notes(self) -> list[Note]:
        """Return the note that the sides did not do the same work, or none."""
        return [note for note in self.notes if note.slug == "work-differs"]

    def facts(self, name: str) -> frozenset[Fact]:
        """Return what a report is made of."""
        kind, profiles = self.asked.kinds[name], (p for s in self.asked.sides for p in s.profiles)
        if not kind.has_per_step or any(any(each.properties.step_counts) for each in profiles):
            return kind.facts
        return kind.facts - STEP_FACTS

    def is_unlike(self, column: Column) -> bool:
        """Return whether a column differs because the work does."""
        return bool(self.sizes) or (bool(self.unlike) and same_work.grows_with_work(column))


def judge(asked: Asked) -> Judgement:
    """Return what is known of both sides: notes, noise, and whether they did the same work."""
    sides = asked.sides
    base, other = ([each.properties for each in side.profiles] for side in sides)
    notes = comparability.comparability_notes(base, other)
    notes += [*asked.notes, *asked.unread]
    for side in sides:
        for profile in side.profiles:
            doubts = (n for n in profile.properties.notes if n.severity is not Severity.INFO)
            notes += side.named((*profile.slice_notes, *doubts))
    stepped = ([p.reports["steps"] for p in side.profiles] for side in sides)
    known = asked.run_noise
    judged = Judgement(
        asked,
        _assumed_noise(asked) if known is None else noise.RunNoise.known(known),
        tuple(notes),
        [[_longest(each.time_per_step for each in run) for run in side.runs] for side in sides],
        # What is one step as a whole cannot be compared with steps.
        rows.unannotated_notes(*stepped) if "steps" in asked.kinds else (),
    )
    differences = _size_differences(judged)
    notes += same_work.sizes_note(differences)
    sizes = tuple(each.short for each in differences if each.is_other_work)
    judged = replace(judged, notes=tuple(notes))
    unlike = (*sizes, *_work_differences(judged))
    if unlike:
        notes.append(same_work.work_note(unlike, of_sizes=bool(sizes)))
    if asked.identical or (not unlike and _are_equal(judged)):
        asked = replace(asked, identical=True)
        text = "both sides are the same recording: a file was named twice, copied or converted"
        notes.append(Note("sides-equal", Severity.INFO, text))
    return replace(judged, asked=asked, unlike=unlike, sizes=sizes, notes=tuple(notes))


def _are_equal(judged: Judgement) -> bool:
    # No two runs take as long to the ns, in all that they did.
    grave = any(note.severity is not Severity.INFO for note in judged.notes)
    base, other = ([_window(run) for run in side.runs] for side in judged.asked.sides)
    if grave or base != other or not all(base):
        return False
    if not compare(judged, _TELLING[0], is_judged=False).rows:
        return False
    others = (name for name in judged.asked.kinds if name not in _TELLING)
    return not any(_differs(judged, name) for name in (*_TELLING, *others))


def _differs(judged: Judgement, name: str) -> bool:
    # What only one side records, as after a conversion, is no difference.
    found = compare(judged, name, is_judged=False).rows or ()
    return any(row.where != rows.BOTH or any(row.differences.values()) for row in found)


def _size_differences(judged: Judgement) -> list[same_work.SizeDifference]:
    sides, key = [], judged.asked.kernel_key
    for side in judged.asked.sides:
        found = {
            kind: same_work.added(profile.sizes[kind] for profile in side.profiles)
            for kind in side.profiles[0].sizes
        }
        found[same_work.BLOCKS] = same_work.with_keys(found[same_work.BLOCKS], key)
        found[same_work.BYTES] = same_work.added(
            same_work.bytes_of(profile.reports["transfers"]) for profile in side.profiles
        )
        sides.append(found)
    return same_work.size_differences(sides[0], sides[1], judged.per)


def _assumed_noise(asked: Asked) -> noise.RunNoise:
    # Runs differ less on the same GPU than on one that may be another; a host's differ more.
    base, other = (
        comparability.gpu_uuids(each.properties for each in side.profiles) for side in asked.sides
    )
    stepped = noise.RUN_NOISE if base and base == other else noise.UNKNOWN_RUN_NOISE
    accounts = (profile.accounts for side in asked.sides for profile in side.profiles)
    late = noise.waits_for_the_host(
        account for each in accounts for account in each.of_steps or each.of_window
    )
    profiles = [profile for side in asked.sides for profile in side.profiles]
    return noise.RunNoise(
        stepped,
        span=noise.HOST_RUN_NOISE if late else None,
        communicates=any(map(_communicates, profiles)),
        is_pageable=any(map(_is_pageable, profiles)),
        is_cold=any(map(_is_cold, profiles)),
    )


def _share(report: Report, measure: str, which: Callable[[rows.Row], bool]) -> float:
    # The share of some rows in the sum of a report's column.
    listed = report.rows() if report.table is not None else ()
    spent = [(which(row), row[measure] or 0) for row in listed]
    whole = sum(value for _, value in spent)
    return sum(value for mine, value in spent if mine) / whole if whole else 0.0


def _communicates(profile: ProfileAnswers) -> bool:
    kernels = profile.reports["kernels"]
    share = _share(kernels, "kernel_sum_ns", lambda row: row["category"] == COMMUNICATION)
    return share > noise.WAITING_SHARE


def _is_pageable(profile: ProfileAnswers) -> bool:
    share = _share(profile.reports["transfers"], "memcpy_sum_ns", noise.is_pageable)
    return share > noise.WAITING_SHARE


def _is_cold(profile: ProfileAnswers) -> bool:
    longest = max(profile.properties.window_lengths.values(), default=0)
    copies = profile.reports["transfers"]
    spent = sum(
        row["memcpy_sum_ns"] or 0
        for row in (copies.rows() if copies.table is not None else ())
        if noise.is_pageable(row)
    )
    of_copies = spent / longest if longest else 0.0
    return max(of_copies, profile.properties.loading_share) > noise.WAITING_SHARE


def _work_differences(judged: Judgement) -> list[str]:
    # The result has the reasons, as far as they are known, why the sides did not do the same work.
    reasons = same_work.work_differences(judged.notes, have_steps=judged.have_steps)
    if not judged.have_steps:
        kernels = compare(judged, "kernels", is_judged=False).rows or ()
        difference = kernels and (
            same_work.kernel_mix_difference(kernels) or same_work.launch_count_difference(kernels)
        )
        reasons += [difference] if difference else []
    return reasons


def _longest(times: Iterable[float | None]) -> float | None:
    values = list(times)
    return None if None in values else max(values, default=None)  # type: ignore[type-var]


# -- a report


def compare(
    judged: Judgement,
    name: str,
    *,
    is_judged: bool = True,
    renamed: Mapping[rows.Key, rows.Key] | None = None,
) -> Comparison:
    """Compare one report of both sides; `renamed`: keys of rows that are taken for another one."""
    sides, facts = judged.asked.sides, judged.facts(name)
    base, other = ([_of_run(judged, name, run) for run in side.runs] for side in sides)
    failure = comparability.failure(judged.notes, facts)
    unlike = judged.unlike_steps if name == "steps" else ()
    options = CompareOptions(
        name_keys=_name_keys(judged.asked, name),
        half_widths=_half_widths(judged, name),
        notes=[*unlike, *(note for note in judged.notes if note.touches(facts))],
        comparable=lambda c: is_judged and not failure and not judged.is_unlike(c),
        one_sided=not judged.asked.other_makers,
        noise=judged.noise,
        renamed=renamed or {},
    )
    return compare_reports(base, other, options)


def _name_keys(asked: Asked, name: str) -> Mapping[str, names.NameKey]:
    if name == "kernels":
        return {"name": asked.kernel_key}
    return {"name": names.call_name_key()} if name in _OF_CALLS and asked.other_makers else {}


def _of_run(judged: Judgement, name: str, run: Sequence[ProfileAnswers]) -> Report:
    # The rows are those of the run's only profile, or those of all of its ranks one below the other.
    reports = [profile.reports[name] for profile in run]
    if name == "steps":
        if judged.unlike_steps:
            reports = [*map(rows.without_unannotated, reports)]
        reports = [*map(rows.steps_per_rank, reports)]
    if name == "idle_host":
        reports = [*map(names.without_operator_numbers, reports)]
        if judged.unlike_system:
            reports = [*map(names.without_system, reports)]
    tables = [report.table for report in reports]
    table = None if any(t is None for t in tables) else pa.concat_tables(tables)
    return replace(merged_header(reports), table=table, advice=reports[0].advice)


def _half_widths(judged: Judgement, name: str) -> HalfWidths:
    # The widths follow from samples by step, if each side is one run of one profile with enough steps.
    if not judged.asked.is_single:
        return lambda matcher: {}
    answers = [side.profiles[0] for side in judged.asked.sides]
    sides = [(each.samples, each.reports[name]) for each in answers]
    return partial(rows.half_widths, name, sides, judged.noise)


def changes_report(judged: Judgement, name: str, comparison: Comparison) -> Report:
    """Return the report of changes, with what is to be said of its rows."""
    report = comparison.report
    if name != "kernels" or judged.asked.other_makers or comparison.rows is None:
        return report
    notes = rows.template_argument_notes(comparison.rows)
    return replace(report, notes=(*report.notes, *notes))


def tree_report(judged: Judgement, name: str, change: account.ChangeAccount) -> Report:
    """Return both sides' trees as one."""
    base, other = (
        [[profile.reports[TREES[name]] for profile in run] for run in side.runs]
        for side in judged.asked.sides
    )
    names = (p.step_names for side in judged.asked.sides for p in side.profiles)
    key, notes = step_key(*filter(None, names)), judged.work_notes
    return compare_trees(name, base, other, name_key=key, steps=change.steps, notes=notes)


# -- what the change is made of


def change_account(judged: Judgement) -> account.ChangeAccount:
    """Return what the change of the time of each device is made of."""
    base, other = (
        [[profile.accounts for profile in run] for run in side.runs] for side in judged.asked.sides
    )
    other_gpu = any(note.slug == "gpu-differs" for note in judged.notes)
    return account.account_for_change(base, other, judged.asked.kernel_key, names_differ=other_gpu)


def contributors_report(
    judged: Judgement,
    change: account.ChangeAccount,
    compared: Callable[[str], Comparison],
) -> Report:
    """Return the rows that explain most of the change."""
    rows_of = {name: compared(name).rows or () for name in account.CONTRIBUTOR_REPORTS}
    for name in ("kernels", "api_vs_kernel"):
        if {row.where for row in rows_of[name]} >= {rows.ONLY_BASE, rows.ONLY_OTHER}:
            anew = partial(_rows_renamed, judged, name)
            rows_of[name] = tuple(replaced_as_one(name, rows_of[name], anew))
    return account.contributors(rows_of, account=change, profiles=judged.asked.refs)


# -- the answer, and verdicts


def answer(judged: Judgement) -> change.Answer:
    """Return whether the other side is slower, and how far that can be trusted."""
    asked = judged.asked
    if judged.have_steps:
        what, half, facts = change.STEP, _half_of_periods(judged), STEP_FACTS
        values = judged.times_per_step
    else:
        what, half, facts = change.WINDOW, None, asked.window_facts
        values = [[_window(run) for run in side.runs] for side in asked.sides]
    assumed = judged.noise.of_span(by_step=half is not None)
    moved = change.change_of(_TIME, *values, noise=assumed, half_width=half)
    notes = (*asked.unread, *_disturbances(asked, values))
    base, other = (len(side.runs) for side in asked.sides)
    failure = comparability.failure(judged.notes, facts)
    if asked.identical and failure == comparability.NO_GPU_WORK:
        failure = ""  # nothing is lost: there was none
    measured = [time for side in values for time in side if time is not None]
    return change.Answer(
        what,
        moved,
        (base, other),
        judged.unlike,
        is_other_size=bool(judged.sizes),
        failure=failure,
        notes=notes,
        identical=asked.identical,
        trend=history.trend(measured[-history.TREND_WIDTH :]) if asked.sides[0].in_order else None,
    )


def _disturbances(asked: Asked, values: Sequence[Sequence[float | None]]) -> Iterator[Note]:
    for side, times in zip(asked.sides, values, strict=True):
        measured = [time for time in times if time is not None]
        labels = [run[0].ref.label for run in side.runs]
        if len(measured) == len(times):
            yield from change.outlier_run_notes(side.name, measured, labels)
        if asked.is_single:
            samples = side.profiles[0].samples[step_durations]
            if samples is not None:
                yield from change.slow_step_notes(side.name, samples.values[0])
    base, other = (
        [[profile.properties.attributes["zero_utc_ns"] for profile in run] for run in side.runs]
        for side in asked.sides
    )
    yield from change.run_order_notes(base, other)


def _half_of_periods(judged: Judgement) -> float | None:
    # The result is half the width of the interval of the time per step. It follows from how the steps
    # of each run vary.
    if not judged.asked.is_single:
        return None
    base, other = (side.profiles[0].samples[step_periods] for side in judged.asked.sides)
    assumed = judged.noise.of_span(by_step=True)
    if base is None or other is None or assumed is None:
        return None
    varying = noise.deviations(base.values), noise.deviations(other.values)
    (half,) = noise.step_half_widths(*varying, assumed).tolist()
    return half if math.isfinite(half) else None


def _window(run: Sequence[ProfileAnswers]) -> float | None:
    windows = [each.span.length for profile in run for each in profile.accounts.of_window]
    return max(windows, default=None)


def verdict(judged: Judgement, limit: gate.Limit, comparison: Comparison) -> gate.LimitVerdict:
    """Return whether a limit is exceeded, by the comparison of its report."""
    found = _verdict(judged, limit, comparison)
    if judged.asked.identical and found.state == "inconclusive" and not found.is_void:
        # What one recording lacks has not changed either.
        reason = f"both sides are the same recording; {found.reason}"
        return replace(found, state="within", reason=reason, needs_runs=None)
    return found


def _rows_renamed(
    judged: Judgement, name: str, renamed: Mapping[rows.Key, rows.Key]
) -> Sequence[rows.RowPair]:
    return compare(judged, name, renamed=renamed).rows or ()


def _verdict(judged: Judgement, limit: gate.Limit, comparison: Comparison) -> gate.LimitVerdict:
    columns, pairs = judged.asked.kinds[limit.report].columns, comparison.rows
    (column,) = (column for column in columns if column.name == limit.column)
    if failure := comparability.failure(judged.notes, judged.facts(limit.report)):
        return gate.undecided(limit, failure, is_void=True)
    if judged.is_unlike(column) and not column.is_counted:
        mean = "steps.avg_ns, kernels.per_step_ns or transfers.bytes_per_step"
        advice = f"limit a mean, such as {mean}"
        if judged.sizes:
            advice = "record both sides with one size"
        return gate.undecided(limit, f"different workloads: {'; '.join(judged.unlike)}; {advice}")
    if pairs is None:
        return gate.judge_limit(limit, column, None)

    compared = partial(_rows_renamed, judged, limit.report)
    # Values of rows are means over runs.
    runs = (len(side.runs) for side in judged.asked.sides)
    base, other = (each / count for each, count in zip(judged.per, runs, strict=True))
    limited = Limited(limit, columns, pairs, compared, (base, other), judged.asked.identical)
    verdict = gate.judge_limit(limit, column, limited.limit_rows())
    if verdict.worst is None or not verdict.exceeding:
        return verdict
    of_category = limited.of_category(verdict.worst.keys)
    return verdict if of_category is None else gate.beside(verdict, column, of_category)
