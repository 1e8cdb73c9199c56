"""Two open sides compared: report by report, then the answer, its account and the verdicts on limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from nsysconv import queries
from nsysconv.api.open_profile import OpenProfile, Side
from nsysconv.diff import gate
from nsysconv.diff.account import (
    ChangeAccount,
    account_for_change,
    account_report,
    culprits,
    with_minor_parts_joined,
)
from nsysconv.diff.answer import (
    STEP,
    WINDOW,
    Answer,
    outlier_run_notes,
    run_order_notes,
    slow_step_notes,
)
from nsysconv.diff.change import change_of
from nsysconv.diff.comparability import (
    cache_properties,
    comparability_notes,
    gpu_uuids,
    grows_with_work,
    kernel_mix_difference,
    launch_count_difference,
    step_counts,
    step_period,
    work_differences,
    work_note,
)
from nsysconv.diff.compare import CompareOptions, Comparison, HalfWidths, RunNoise, compare_reports
from nsysconv.diff.names import (
    Match,
    NameKey,
    call_name_key,
    kernel_name_key,
    symbols_only_notes,
    without_operator_numbers,
)
from nsysconv.diff.noise import (
    RUN_NOISE,
    UNKNOWN_RUN_NOISE,
    deviations,
    deviations_of_sums,
    deviations_of_trimmed,
    step_half_widths,
)
from nsysconv.diff.rows import PER_STEP, Key, RowMatcher, template_argument_notes
from nsysconv.diff.steps import steps_per_rank, unannotated_notes, without_unannotated
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import has_per_step
from nsysconv.queries.contract import Request
from nsysconv.report import Column, ProfileRef, Report, common_slice
from nsysconv.timeline.account import Accounts, accounts
from nsysconv.timeline.steps import (
    STEP_FACTS,
    STEP_RANGE,
    Samples,
    call_sums,
    kernel_sums,
    step_durations,
    step_periods,
)
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

Array = np.ndarray

_OF_CALLS = ("api_vs_kernel", "launch_stats", "idle_host")
_TIME = Column("time_ns", Unit.NS, "The time that the answer speaks of.", better="less", real=True)


def _of_operations(samples: Samples) -> Array:
    counts = samples.counts
    return (
        deviations(samples.values) if counts is None else deviations_of_sums(samples.values, counts)
    )


def _of_steps(samples: Samples) -> Array:
    return deviations(samples.values)


def _of_trimmed(samples: Samples) -> Array:
    return deviations_of_trimmed(samples.values)


@dataclass(frozen=True)
class _ByStep:
    """Columns of a report that have values by step, the keys of their rows, and how they vary."""

    columns: tuple[str, ...]
    keys: tuple[str, ...]
    samples: Callable[[Timeline, str], Samples | None]
    deviations: Callable[[Samples], Array] = _of_steps


_BY_STEP: Mapping[str, tuple[_ByStep, ...]] = {
    "overview": (_ByStep(("kernel_sum_ns",), ("device_id", "name"), kernel_sums, _of_operations),),
    "kernels": (
        _ByStep(
            ("kernel_sum_ns", PER_STEP, "avg_ns"),
            ("device_id", "name"),
            kernel_sums,
            _of_operations,
        ),
    ),
    "api_vs_kernel": (
        _ByStep(("api_sum_ns", PER_STEP), ("layer", "name"), call_sums, _of_operations),
    ),
    "steps": (
        _ByStep(("dur_ns", "avg_ns"), (), step_durations),
        _ByStep(("trimmed_ns",), (), step_durations, _of_trimmed),
        _ByStep(("period_ns",), (), step_periods),
    ),
}


class Comparing:
    """Two open sides, and the reports of their profiles that are compared."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        names: Sequence[str],
        match: Match | None,
        step_range: str | None,
        *,
        other_makers: bool,
        run_noise: float | None = None,
    ) -> None:
        """Ask each profile all that the comparison needs of it, and let it forget its events.

        `run_noise` is the relative standard deviation of a run, where it is known (None: it is not).
        """
        self._sides = sides
        self._other_makers = other_makers
        self._single = all(len(side.profiles) == 1 for side in sides)
        self._samples: dict[tuple[Timeline, object], Samples | None] = {}
        self._comparisons: dict[str, Comparison] = {}
        self._steps = step_range or STEP_RANGE
        self._request = Request(step_range=step_range)
        sources = {p.profile.ref.source for side in sides for p in side.profiles}
        self._match: Match = match or ("exact" if len(sources) == 1 else "signature")
        base, other = ([p.timeline for p in side.profiles] for side in sides)
        self._timelines = base, other
        needed = list(dict.fromkeys((*names, "kernels")))
        # One after the other: together they would need memory for all of them.
        self._reports = {
            profile.timeline: self._reports_of(needed, profile)
            for side in sides
            for profile in side.profiles
        }
        self._noise = (
            _assumed_noise(base, other) if run_noise is None else RunNoise(run_noise, run_noise)
        )
        # What is one step as a whole cannot be compared with steps.
        self._unlike_steps = (
            unannotated_notes(*self._of_each_profile("steps")) if "steps" in names else ()
        )
        self._notes = comparability_notes(base, other, steps=self._steps)
        # An empty or failed capture is never an improvement, nor within any limit.
        self._empty = any(note.slug == "side-empty" for note in self._notes)
        self._notes += symbols_only_notes(base, other)
        self._notes += [
            note for i, name in ((0, "base"), (1, "other")) for note in _doubts(sides[i], name)
        ]
        self._unlike = self._work()

    def report(self, name: str) -> Comparison:
        """Return what changed in one report."""
        comparison = self._comparison(name)
        if name != "kernels" or self._other_makers or comparison.rows is None:
            return comparison
        notes = (*comparison.report.notes, *template_argument_notes(comparison.rows))
        return replace(comparison, report=replace(comparison.report, notes=notes))

    def _comparison(self, name: str) -> Comparison:
        if name not in self._comparisons:
            self._comparisons[name] = self._compared(name)
        return self._comparisons[name]

    def _compared(self, name: str, *, judged: bool = True) -> Comparison:
        base, other = ([self._of_run(name, run) for run in side.runs] for side in self._sides)
        query = queries.query(name)
        facts = query.needs | query.uses | query.totals
        if not self._have_some_steps and has_per_step(query):
            facts -= STEP_FACTS
        unlike = self._unlike_steps if name == "steps" else ()
        options = CompareOptions(
            name_keys=self._name_keys(name),
            half_widths=self._half_widths(name),
            notes=[*unlike, *(note for note in self._notes if note.touches(facts))],
            comparable=lambda column: judged and not self._incomparable(column),
            one_sided=not self._other_makers,
            noise=self._noise,
        )
        return compare_reports(base, other, options)

    def _work(self) -> list[str]:
        # Reasons why the sides did not do the same work, as far as they can be found.
        reasons = work_differences(self._notes, have_steps=self._have_steps)
        if not self._have_steps:
            kernels = self._compared("kernels", judged=False).rows
            looks = (kernel_mix_difference, launch_count_difference)
            reasons += [text for difference in looks if kernels and (text := difference(kernels))][
                :1
            ]
        if reasons:
            self._notes.append(work_note(reasons))
        return reasons

    @cached_property
    def _have_some_steps(self) -> bool:
        return any(any(step_counts(t, self._steps)) for side in self._timelines for t in side)

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
        timeline = profile.timeline
        of_steps = self._accounts(profile).of_steps
        if of_steps is None:
            # No GPU operation lies in the steps, or their clocks disagree.
            return step_period(timeline, self._steps)
        return _longest(each.span.length / (each.span.steps or 1) for each in of_steps)

    def _accounts(self, profile: OpenProfile) -> Accounts:
        return accounts(profile.timeline, self._steps)

    def _incomparable(self, column: Column) -> bool:
        return self._empty or (bool(self._unlike) and grows_with_work(column))

    def _name_keys(self, name: str) -> Mapping[str, NameKey]:
        if name == "kernels":
            return {"name": self._kernels}
        if name in _OF_CALLS and self._other_makers:
            return {"name": call_name_key()}
        return {}

    @cached_property
    def _kernels(self) -> NameKey:
        base, other = self._timelines
        return kernel_name_key(base, other, self._match)

    def _of_each_profile(self, name: str) -> list[list[Report]]:
        return [[self._reports[p.timeline][name] for p in side.profiles] for side in self._sides]

    def _of_run(self, name: str, run: Sequence[OpenProfile]) -> Report:
        # Of its only profile, or of all its ranks one below the other.
        reports = [self._reports[profile.timeline][name] for profile in run]
        if name == "steps":
            comparable = map(without_unannotated, reports) if self._unlike_steps else reports
            reports = [steps_per_rank(report) for report in comparable]
        if name == "idle_host":
            reports = [without_operator_numbers(report) for report in reports]
        whole = reports[0]
        if len(reports) == 1:
            return whole
        recorded = [report for report in reports if report.table is not None]
        table = None
        if len(recorded) == len(reports):
            table = pa.concat_tables([report.table for report in recorded])
        return replace(
            whole,
            table=table,
            profiles=tuple(ref for report in reports for ref in report.profiles),
            slice=common_slice(reports),
            not_recorded=tuple(dict.fromkeys(m for r in reports for m in r.not_recorded)),
        )

    def _reports_of(self, names: Sequence[str], profile: OpenProfile) -> dict[str, Report]:
        timeline = profile.timeline
        reports = profile.answers([(name, self._request) for name in names])
        if self._single:
            for samples in {by.samples for n in (*names, "steps") for by in _BY_STEP.get(n, ())}:
                self._samples[timeline, samples] = samples(timeline, self._steps)
        cache_properties(timeline, steps=self._steps)
        step_period(timeline, self._steps)
        accounts(timeline, self._steps)
        profile.forget()
        return dict(zip(names, reports, strict=True))

    def _half_widths(self, name: str) -> HalfWidths:
        # By step, if each side is one run of one profile that has enough steps.
        def half_widths(names: RowMatcher) -> Mapping[Key, Mapping[str, float]]:
            halves: dict[Key, dict[str, float]] = {}
            for by_step in _BY_STEP.get(name, ()) if self._single else ():
                for key, half in self._halves(name, names, by_step):
                    halves.setdefault(key, {}).update(dict.fromkeys(by_step.columns, half))
            return halves

        return half_widths

    def _halves(self, name: str, names: RowMatcher, by_step: _ByStep) -> list[tuple[Key, float]]:
        # Of the rows that have values by step on both sides.
        sides = []
        for number, side in enumerate(self._sides):
            timeline = side.profiles[0].timeline
            samples = self._samples[timeline, by_step.samples]
            if samples is None:
                return []
            rank = _only([row["rank"] for row in self._reports[timeline][name].rows()])
            sides.append(_by_row_keys(samples, by_step.keys, names, number, rank))
        other_keys = set(sides[1].keys)
        shared = [key for key in sides[0].keys if key in other_keys]
        if not shared:
            return []
        base, other = (by_step.deviations(_select(each, shared)) for each in sides)
        pairs = zip(
            shared, step_half_widths(base, other, self._noise.stepped).tolist(), strict=True
        )
        return [(key, half) for key, half in pairs if math.isfinite(half)]

    def answer(self) -> Answer:
        """Return whether the other side is slower, and by how much."""
        base, other = self._sides
        if self._have_steps:
            what, half = STEP, self._half_of_periods()
            values = self._times_per_step
        else:
            what, half = WINDOW, None
            values = [[self._window(run) for run in side.runs] for side in self._sides]
        noise = self._noise.single if half is None else self._noise.stepped
        change = change_of(_TIME, *values, noise=noise, half_width=half)
        notes = tuple(self._disturbances(values))
        runs = len(base.runs), len(other.runs)
        return Answer(what, change, runs, self._unlike, self._empty, notes)

    def _disturbances(self, values: Sequence[Sequence[float | None]]) -> Iterator[Note]:
        for side, times, name in zip(self._sides, values, ("base", "other"), strict=True):
            measured = [time for time in times if time is not None]
            labels = [run[0].profile.ref.label for run in side.runs]
            if len(measured) == len(times):
                yield from outlier_run_notes(name, measured, labels)
            if self._single:
                samples = self._samples[side.profiles[0].timeline, step_durations]
                if samples is not None:
                    yield from slow_step_notes(name, samples.values[0])
        base, other = ([[p.timeline for p in run] for run in side.runs] for side in self._sides)
        yield from run_order_notes(base, other)

    def _half_of_periods(self) -> float | None:
        # Of the interval of the time per step, by how the steps of each run vary.
        if not self._single:
            return None
        base, other = (
            self._samples[side.profiles[0].timeline, step_periods] for side in self._sides
        )
        if base is None or other is None:
            return None
        (half,) = step_half_widths(_of_steps(base), _of_steps(other), self._noise.stepped).tolist()
        return half if math.isfinite(half) else None

    def _window(self, run: Sequence[OpenProfile]) -> float | None:
        windows = [each.span.length for p in run for each in self._accounts(p).of_window]
        return max(windows, default=None)

    @cached_property
    def change(self) -> ChangeAccount:
        """Return the account of the change."""
        base, other = ([[*map(self._accounts, run)] for run in side.runs] for side in self._sides)
        return account_for_change(base, other, self._kernels)

    def account(self, *, for_people: bool) -> Report:
        """Return the report of what the change is made of; for people small parts are joined."""
        change = with_minor_parts_joined(self.change) if for_people else self.change
        notes = [note for note in self._notes if note.slug == "work-differs"]
        return account_report(change, self._refs, notes)

    def culprits(self) -> Report:
        """Return the report of the kernels, calls and idle times that changed most."""
        kernels, calls, gaps = (
            self._comparison(name).rows or () for name in ("kernels", "api_vs_kernel", "idle_host")
        )
        return culprits(kernels, calls, gaps, account=self.change, profiles=self._refs)

    @property
    def _refs(self) -> tuple[ProfileRef, ...]:
        return tuple(profile.profile.ref for side in self._sides for profile in side.profiles)

    def verdict(
        self, limit: gate.Limit, columns: Sequence[Column], comparison: Comparison
    ) -> gate.LimitVerdict:
        """Return whether a limit is exceeded; `columns` are those of its report."""
        (column,) = (column for column in columns if column.name == limit.column)
        if self._empty:
            return gate.undecided(limit, "a side holds no GPU work")
        if self._incomparable(column):
            reason = f"not the same work: {'; '.join(self._unlike)}; limit a mean, such as "
            return gate.undecided(
                limit, f"{reason}steps.avg_ns, kernels.per_step_ns or transfers.bytes_per_step"
            )
        if comparison.rows is None:
            return gate.judge_limit(limit, column, None)
        texts = [c.name for c in columns if c.key and c.name != "profile" and c.kind == "text"]
        rows = [
            gate.LimitRow(
                " ".join(str(v) for name in texts if (v := (row.base or row.other).get(name))),
                row.base_values[column.name],
                row.other_values[column.name],
                row.change(column.name),
            )
            for row in comparison.rows
        ]
        return gate.judge_limit(limit, column, rows)


def _assumed_noise(base: Sequence[Timeline], other: Sequence[Timeline]) -> RunNoise:
    # Runs differ less on the same GPU than on one that may be another.
    is_same = bool(gpu_uuids(base)) and gpu_uuids(base) == gpu_uuids(other)
    return RunNoise(RUN_NOISE if is_same else UNKNOWN_RUN_NOISE, UNKNOWN_RUN_NOISE)


def _longest(times: Iterable[float | None]) -> float | None:
    values = list(times)
    return None if None in values else max(values, default=None)  # type: ignore[type-var]


def _doubts(side: Side, name: str) -> list[Note]:
    return [
        replace(note, text=f"{name}: {note.text}")
        for profile in side.profiles
        for note in profile.profile.notes
        if note.severity is not Severity.INFO
    ]


def _only(values: Sequence[Any]) -> Any:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _by_row_keys(
    samples: Samples, keys: Sequence[str], names: RowMatcher, side: int, rank: Any
) -> Samples:
    # Samples by the keys that rows have; those of one row are added up.
    rest = dict.fromkeys(names.keys) | {"rank": rank}
    rows = [rest | dict(zip(keys, key, strict=True)) for key in samples.keys]
    places: dict[Key, int] = {}
    place = [places.setdefault(key, len(places)) for key in names.keys_of(side, rows)]

    def added(table: Array) -> Array:
        result = np.zeros((len(places), table.shape[1]), table.dtype)
        np.add.at(result, place, table)
        return result

    counts = None if samples.counts is None else added(samples.counts)
    return Samples(list(places), added(samples.values), counts)


def _select(samples: Samples, keys: Sequence[Key]) -> Samples:
    places = {key: place for place, key in enumerate(samples.keys)}
    rows = [places[key] for key in keys]
    counts = None if samples.counts is None else samples.counts[rows]
    return Samples(list(keys), samples.values[rows], counts)
