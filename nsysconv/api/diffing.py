"""Two sides compared: what changed, whether it can be trusted, and whether a limit is exceeded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from nsysconv import queries
from nsysconv.api.opening import OpenProfile, ShownReport, check_limit, shown
from nsysconv.api.sides import Side, check_sides, open_side
from nsysconv.api.words import Say, Target, Words, several, silent
from nsysconv.diff import gate, spelling
from nsysconv.diff.answers import step_counts
from nsysconv.diff.comparability import differences, look
from nsysconv.diff.compare import Comparison, Intervals, compare_reports, main_measure
from nsysconv.diff.names import MATCHES, Match
from nsysconv.diff.noise import Interval, bootstrap_many
from nsysconv.diff.ranges import unnumbered
from nsysconv.diff.rows import Key, Naming, Spelling
from nsysconv.diff.steps import in_all, not_annotated, without_rows
from nsysconv.errors import UsageError, there_are
from nsysconv.notes import Note, Severity
from nsysconv.phases import phase
from nsysconv.queries.contract import Request
from nsysconv.queries.per_step import has_sums_per_step
from nsysconv.report import Column, Report, common_slice
from nsysconv.timeline.samples import Samples, call_sums, kernel_sums, step_durations
from nsysconv.timeline.slices import Slice
from nsysconv.timeline.steps import STEP_FACTS, STEP_RANGE
from nsysconv.timeline.timeline import Timeline

DEFAULT = (
    "overview",
    "kernels",
    "api_vs_kernel",
    "transfers",
    "idle_summary",
    "idle_host",
    "steps",
)
"""The reports that are compared where none is named."""

_COMPARABLE = tuple(
    name
    for name in queries.OWN
    if name not in ("idle_gaps", "timeline_events", *queries.OVER_RANKS)
)
_OF_CALLS = ("api_vs_kernel", "launch_stats", "idle_host")
_LIMIT_FOR_PEOPLE = 20
_SAMPLED: Mapping[str, tuple[tuple[str, ...], Callable[[Timeline, str], Samples | None]]] = {
    "overview": (("device_id", "name"), kernel_sums),
    "kernels": (("device_id", "name"), kernel_sums),
    "api_vs_kernel": (("layer", "name"), call_sums),
    "steps": ((), step_durations),
}


@dataclass(frozen=True)
class DiffResult:
    """What a comparison found: reports of changes, verdicts on limits (the last report), and 0, 1 or 4:
    within all limits, one exceeded, or one that nothing can be said of."""

    reports: tuple[ShownReport, ...]
    exit_status: int


def compare(
    base: Target,
    other: Target,
    reports: Words | None = None,
    *,
    match: str | None = None,
    fail_on: Words = (),
    limit: int | None = None,
    for_people: bool = False,
    slice: Slice | None = None,  # noqa: A002 - what it is
    step_range: str | None = None,
    say: Say = silent,
) -> DiffResult:
    """What changed from base to other.

    A side is a store, STORE@LABEL, a profile file, a folder or a glob; profiles of one run are its
    ranks, all others repeats. `reports` are those with keys (None: the most useful). `match` says how
    kernels' names are matched: exact, signature or name (None: exact between profiles of one source,
    else signature). `fail_on` are limits, `report.column:3%` or `report[/regex/].column:2ms`.
    `for_people` leaves out what few look at. `slice` says what of both sides to look at; `step_range`
    what steps are called. `limit` cuts rows (0: none cut, None: 20 for people, else none). Raises
    UsageError for words that are not known, InputError where a side cannot be read. What a side did not
    record is in the reports.
    """
    chosen = list(DEFAULT if reports is None else several(reports))
    check_limit(limit)
    unknown = [name for name in chosen if name not in _COMPARABLE]
    if unknown:
        raise UsageError(
            f"no report {unknown[0]!r} that can be compared",
            hint=there_are(unknown[0], _COMPARABLE),
        )
    limits = [
        gate.parse(text, {name: _columns(name) for name in _COMPARABLE})
        for text in several(fail_on)
    ]
    matched = _match(match)
    with ExitStack() as stack, phase("diff"):
        check_sides(base, other)
        sides = open_side(base, stack, say), open_side(other, stack, say)
        if slice is not None:
            for side in sides:
                side.cut(replace(slice, step_range=slice.step_range or step_range))
        others = spelling.makers_differ(*([p.timeline for p in s.profiles] for s in sides))
        if reports is None and others:
            # Of kernels of other makers hardly a name is the same.
            chosen.insert(chosen.index("kernels"), "kernel_categories")
        named = list(dict.fromkeys([*chosen, *(each.report for each in limits)]))
        comparing = _Comparing(sides, named, matched, step_range, other_makers=others)
        compared = {name: comparing.report(name) for name in named}
        most = _LIMIT_FOR_PEOPLE if limit is None and for_people else limit or 0
        found = [compared[name].report.limited(most) for name in chosen]
        if for_people:
            found = [report.briefly() for report in found]
        if not limits:
            return DiffResult(tuple(map(shown, found)), 0)
        verdicts = [comparing.verdict(each, compared[each.report]) for each in limits]
        found.append(gate.verdict_report(verdicts))
        return DiffResult(tuple(map(shown, found)), gate.exit_status(verdicts))


def _match(text: str | None) -> Match | None:
    known = next((match for match in MATCHES if match == text), None)
    if text is not None and known is None:
        raise UsageError(f"no matching {text!r}", hint=f"There are: {', '.join(MATCHES)}")
    return known


@cache
def _columns(name: str) -> Sequence[Column]:
    """The columns of a report that can be compared, steps added up."""
    return in_all(_empty(name)).columns if name == "steps" else queries.query(name).COLUMNS


def _empty(name: str) -> Report:
    query = queries.query(name)
    return Report(name, query.TITLE, query.COLUMNS, None)


class _Comparing:
    """Two open sides, and the answers of their profiles to these reports."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        names: Sequence[str],
        match: Match | None,
        step_range: str | None,
        *,
        other_makers: bool,
    ) -> None:
        self._sides = sides
        self._other_makers = other_makers
        self._single = all(len(side.profiles) == 1 for side in sides)
        self._samples: dict[tuple[Timeline, str], Samples | None] = {}
        self._steps = step_range or STEP_RANGE
        self._request = Request(step_range=step_range)
        sources = {p.profile.ref.source for side in sides for p in side.profiles}
        self._match: Match = match or ("exact" if len(sources) == 1 else "signature")
        base, other = ([p.timeline for p in side.profiles] for side in sides)
        self._timelines = base, other
        # One after the other: together they would need memory for all of them.
        self._answers = {
            profile.timeline: self._answers_to(names, profile)
            for side in sides
            for profile in side.profiles
        }
        # What is one step as a whole cannot be compared with steps.
        self._unlike_steps = not_annotated(*self._of_each_profile("steps")) if "steps" in names else ()
        self._have_steps = any(any(step_counts(t, self._steps)) for t in (*base, *other))
        self._notes = differences(base, other, steps=self._steps)
        # An empty or failed capture is never an improvement, nor within any limit.
        self._empty = any(note.slug == "side-empty" for note in self._notes)
        self._notes += spelling.symbols_on_one_side(base, other)
        self._notes += [
            note for i, name in ((0, "base"), (1, "other")) for note in _doubts(sides[i], name)
        ]

    def report(self, name: str) -> Comparison:
        """What changed in one report."""
        base, other = ([self._of_run(name, run) for run in side.runs] for side in self._sides)
        query = queries.query(name)
        facts = query.NEEDS | query.USES | query.TOTALS
        if not self._have_steps and has_sums_per_step(query):
            facts -= STEP_FACTS
        unlike = self._unlike_steps if name == "steps" else ()
        found = compare_reports(
            base,
            other,
            spelling=self._spelling(name),
            intervals=self._intervals(name),
            notes=[*unlike, *(note for note in self._notes if note.touches(facts))],
            judged=not self._empty and not self._other_work(main_measure(_columns(name))),
            one_sided=not self._other_makers,
        )
        if name != "kernels" or self._other_makers or found.rows is None:
            return found
        notes = (*found.report.notes, *spelling.other_arguments(found.rows))
        return replace(found, report=replace(found.report, notes=notes))

    def _spelling(self, name: str) -> Mapping[str, Spelling]:
        """What makes one of the spellings of names."""
        if name == "kernels":
            return {"name": self._kernels}
        if name in _OF_CALLS and self._other_makers:
            return {"name": spelling.of_calls()}
        return {}

    @cached_property
    def _kernels(self) -> Spelling:
        base, other = self._timelines
        return spelling.of_kernels(base, other, self._match)

    def _of_each_profile(self, name: str) -> list[list[Report]]:
        """A report of each profile of each side."""
        return [[self._answers[p.timeline][name] for p in side.profiles] for side in self._sides]

    def _of_run(self, name: str, run: Sequence[OpenProfile]) -> Report:
        """A report of one run: of its only profile, or of all its ranks one below the other."""
        found = [self._answers[profile.timeline][name] for profile in run]
        if name == "steps":
            comparable = map(without_rows, found) if self._unlike_steps else found
            found = [in_all(report) for report in comparable]
        if name == "idle_host":
            found = [unnumbered(report) for report in found]
        whole = found[0]
        if len(found) == 1:
            return whole
        told = [report for report in found if report.table is not None]
        table = None
        if len(told) == len(found):
            table = pa.concat_tables([report.table for report in told])
        return replace(
            whole,
            table=table,
            profiles=tuple(ref for report in found for ref in report.profiles),
            slice=common_slice(found),
            not_recorded=tuple(dict.fromkeys(m for r in found for m in r.not_recorded)),
        )

    def _answers_to(self, names: Sequence[str], profile: OpenProfile) -> dict[str, Report]:
        """A profile's answers to the reports. Of its events nothing is kept."""
        timeline = profile.timeline
        found = profile.answers([(name, self._request) for name in names])
        if self._single:
            # Two of the reports ask for the same.
            of = cache(lambda samples: samples(timeline, self._steps))
            for name in sorted(_SAMPLED.keys() & names):
                self._samples[timeline, name] = of(_SAMPLED[name][1])
        look(timeline, steps=self._steps)
        profile.forget()
        return dict(zip(names, found, strict=True))

    def _intervals(self, name: str) -> Intervals:
        """Intervals by step, where each side is one run of one profile that has enough steps."""
        sampled = _SAMPLED.get(name)

        def intervals(names: Naming) -> Mapping[Key, Interval]:
            if sampled is None or not self._single:
                return {}
            keys, _ = sampled
            values: list[dict[Key, np.ndarray]] = []
            for number, side in enumerate(self._sides):
                samples = self._samples[side.profiles[0].timeline, name]
                if samples is None:
                    return {}
                rows = self._answers[side.profiles[0].timeline][name].rows()
                rank = _only([row["rank"] for row in rows])
                values.append(_by_key(samples, keys, names, number, rank))
            shared = [key for key in values[0] if key in values[1]]
            found = (
                bootstrap_many(
                    np.array([values[0][key] for key in shared]),
                    np.array([values[1][key] for key in shared]),
                )
                if shared
                else []
            )
            return {k: i for k, i in zip(shared, found, strict=True) if i is not None}

        return intervals

    def _other_work(self, column: Column) -> bool:
        """Whether a column is not comparable, for one side did more steps than the other."""
        differ = any(note.slug == "steps-differ" for note in self._notes)
        return differ and gate.grows_with_work(column)

    def verdict(self, limit: gate.Limit, comparison: Comparison) -> gate.Verdict:
        """Whether a limit is exceeded."""
        columns = _columns(limit.report)
        (column,) = (column for column in columns if column.name == limit.column)
        rows = None
        if self._other_work(column):
            reason = "the sides have other numbers of steps; limit a mean, such as steps.avg_ns"
            return gate.cannot_tell(limit, reason)
        if self._empty:
            return gate.cannot_tell(limit, "a side holds no GPU work")
        if comparison.rows is not None:
            texts = [c.name for c in columns if c.key and c.name != "profile" and c.kind == "text"]
            rows = [
                gate.Row(
                    " ".join(str(v) for name in texts if (v := (row.base or row.other).get(name))),
                    row.base_values[column.name],
                    row.other_values[column.name],
                    uncertain=row.uncertain(column.name),
                )
                for row in comparison.rows
            ]
        return gate.judge(limit, column, rows)


def _doubts(side: Side, name: str) -> list[Note]:
    """What a side's own profiles note that makes figures doubtful."""
    return [
        replace(note, text=f"{name}: {note.text}")
        for profile in side.profiles
        for note in profile.profile.notes
        if note.severity is not Severity.INFO
    ]


def _only(values: Sequence[Any]) -> Any:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _by_key(
    samples: Samples, keys: Sequence[str], names: Naming, side: int, rank: Any
) -> dict[Key, np.ndarray]:
    """Values per step by the keys that rows have; of rows that are one, added up."""
    found: dict[Key, np.ndarray] = {}
    rest = dict.fromkeys(names.keys) | {"rank": rank}
    rows = [rest | dict(zip(keys, key, strict=True)) for key in samples.keys]
    for place, values in zip(names.named(side, rows), samples.values, strict=True):
        found[place] = found[place] + values if place in found else values
    return found
