"""Rows of two sides, matched by their keys, steps as one row; and how they vary from step to step.

Formulas, with a worked example: docs/definitions/comparing.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from nsysconv.diff import noise
from nsysconv.diff.change import Change
from nsysconv.diff.names import NameKey, kernel_key
from nsysconv.notes import Note, Severity
from nsysconv.report import Better, Column, Report, Unit, report_table
from nsysconv.timeline.slices import StepRule
from nsysconv.timeline.steps import (
    BETWEEN,
    WHOLE,
    Samples,
    call_sums,
    kernel_sums,
    step_durations,
    step_periods,
)
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray
Key = tuple[Any, ...]
Row = Mapping[str, Any]

_RENUMBERED = frozenset({"device_id", "peer_device_id", "pid"})
"""Keys whose numbers mean nothing on another machine or in another run: their order does."""


@dataclass(frozen=True)
class RowMatcher:
    """The keys by which rows of two sides are matched.

    Rows are added up over the keys in `summed_over`: one side does not record them, or has another
    number of values. `ordinals`: by side and key, the rank of each number among those of the side.
    `name_keys`: the function that makes the key of a column's texts. `renamed`: keys that are taken for
    another one.
    """

    keys: tuple[str, ...]
    summed_over: tuple[str, ...]
    ordinals: tuple[Mapping[str, Mapping[Any, int]], Mapping[str, Mapping[Any, int]]]
    name_keys: Mapping[str, NameKey]
    renamed: Mapping[Key, Key] = field(default_factory=dict)

    def keys_of(self, side: int, rows: Sequence[Row]) -> list[Key]:
        """Return the key of each row of a side (0 or 1)."""
        parts = [self._parts(side, name, [row[name] for row in rows]) for name in self.keys]
        keys: list[Key] = list(zip(*parts, strict=True)) if parts else [()] * len(rows)
        return [self.renamed.get(key, key) for key in keys] if self.renamed else keys

    def _parts(self, side: int, name: str, values: list[Any]) -> list[Any]:
        if name in self.ordinals[side]:
            return list(map(self.ordinals[side][name].get, values))
        name_key = self.name_keys.get(name)
        return (
            [value if value is None else name_key(value) for value in values]
            if name_key
            else values
        )


def row_matcher(
    columns: Sequence[Column],
    sides: tuple[Iterable[Row], Iterable[Row]],
    name_keys: Mapping[str, NameKey],
) -> RowMatcher:
    """Decide by which keys the rows of these sides are matched."""
    matched, summed_over = [], []
    ordinals: tuple[dict[str, dict[Any, int]], dict[str, dict[Any, int]]] = ({}, {})
    tables = tuple(list(side) for side in sides)
    for name in (column.name for column in columns if column.key and column.name != "profile"):
        base, other = values_of_sides = [{row[name] for row in rows} for rows in tables]
        differ = base and other and base != other
        if differ and _cannot_match(name, base, other):
            summed_over.append(name)
            continue
        matched.append(name)
        if differ and name in _RENUMBERED:
            for side, values in enumerate(values_of_sides):
                ordered = sorted(values, key=lambda value: (value is not None, value or 0))
                ordinals[side][name] = {value: i for i, value in enumerate(ordered)}
    return RowMatcher(tuple(matched), tuple(summed_over), ordinals, name_keys)


def _cannot_match(name: str, base: set[Any], other: set[Any]) -> bool:
    # One side does not record the key, no rank is on both, or there are more devices on one.
    if name == "rank":
        return not (base & other) - {None}
    return {None} in (base, other) or (name in _RENUMBERED and len(base) != len(other))


@dataclass
class SummedRow:
    """Rows of one side under one key: the first's spelling, their values, and other spellings."""

    spelled: Row
    values: dict[str, Any] = field(default_factory=dict)
    also: list[str] = field(default_factory=list)


def sum_by_key(
    rows: Sequence[Row], measures: Sequence[Column], matcher: RowMatcher, side: int
) -> dict[Key, SummedRow]:
    """Return the rows of a run by key; several of one key are added up where that means something."""
    summed: dict[Key, SummedRow] = {}
    measure_names = [column.name for column in measures]
    for key, row in zip(matcher.keys_of(side, rows), rows, strict=True):
        if key not in summed:
            summed[key] = SummedRow(row, {name: row[name] for name in measure_names})
            continue
        sums = summed[key].values
        summed[key].also += [
            str(row[name]) for name in matcher.name_keys if row[name] != summed[key].spelled[name]
        ]
        for column in measures:
            name = column.name
            sums[name] = _sum(sums[name], row[name]) if column.adds_up else None
    return summed


def _sum(first: Any, second: Any) -> Any:
    return None if first is None or second is None else first + second


BOTH, ONLY_BASE, ONLY_OTHER = "both", "only in base", "only in other"
PER_STEP = "per_step_ns"
"""The column that is a report's first sum divided by the number of steps."""


class RowPair(NamedTuple):
    """A matched pair of rows: both sides' values by measure, and the change of each measure.

    `differences` are those of the values, other less base; None where one is not known. `change` gives
    what became of a measure, and its interval; None where a value is missing. `judged`: the measures of
    which there may be a verdict.
    """

    key: Key
    where: str
    base: Row
    other: Row
    base_values: Mapping[str, Any]
    other_values: Mapping[str, Any]
    differences: Mapping[str, Any]
    change: Callable[[str], Change | None]
    judged: frozenset[str]

    def judged_change(self, name: str) -> Change | None:
        """Return the change of a measure; None also where there may be no verdict of it."""
        return self.change(name) if name in self.judged else None

    def verdict(self, column: Column) -> str | None:
        """Return the verdict on a measure; None where there is to be none."""
        change = self.judged_change(column.name)
        # A greater count is more work, so less is better.
        better: Better | None = "less" if column.unit is Unit.COUNT else None
        return None if change is None else change.verdict(column.better or better)


def measures_of(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that are neither keys nor texts."""
    return [column for column in columns if not column.key and column.unit is not Unit.TEXT]


def main_measure(columns: Sequence[Column]) -> Column:
    """Return what rows are sorted and judged by: the first sum, else the first that can get worse."""
    measures = [column for column in columns if not column.key]
    return next(
        (column for column in measures if column.counted_by),
        next((column for column in measures if column.better), measures[0]),
    )


def template_argument_notes(rows: Iterable[RowPair]) -> list[Note]:
    """Return a note where kernels of the two sides differ in their template arguments alone."""
    alone: dict[str, dict[str, list[str]]] = {ONLY_BASE: {}, ONLY_OTHER: {}}
    for row in rows:
        name = (row.base or row.other).get("name")
        if row.where in alone and name is not None:
            alone[row.where].setdefault(kernel_key(name, "name"), []).append(name)
    base, other = alone.values()
    shared = [function for function in base if function in other]
    if not shared:
        return []
    text = (
        "kernels on one side only whose function the other side has with different template arguments; "
        "--match name adds them up"
    )
    count = sum(len(side[function]) for side in (base, other) for function in shared)
    return [Note("template-arguments-differ", Severity.INFO, text, count, shared[0])]


# -- steps as one row

STEP_COUNT = "step_count"
_OF_A_STEP = ("pid", "step", "occurrence")
# From this many steps on, the mean of the usual step leaves out the shortest and the longest.
_TRIMMED = 10
ALL_STEPS = (
    Column("avg_ns", Unit.NS, "Mean duration of a step.", better="less", real=True),
    Column(
        "trimmed_ns",
        Unit.NS,
        "Mean duration of the usual step: without a tenth of the steps, rounded down, that are the "
        "shortest and as many that are the longest.",
        better="less",
        real=True,
    ),
    Column(
        "between_ns",
        Unit.NS,
        "Time between steps; 0: steps follow each other directly; null: no steps.",
        better="less",
        adds=True,
    ),
    Column(
        "period_ns",
        Unit.NS,
        "Mean time from the start of a step to that of the next: steps and the time between them, "
        "divided by the number of steps.",
        better="less",
        real=True,
    ),
)
"""Columns of the row that all steps of a device are."""


def has_no_annotated_steps(report: Report) -> bool:
    """Return whether a report per step has each process as a whole in place of annotated steps."""
    rows = report.rows()
    return bool(rows) and all(row["step"] == WHOLE for row in rows)


def without_unannotated(report: Report) -> Report:
    """Return the report as not recorded, where it has no annotated step; else as it is."""
    if not has_no_annotated_steps(report):
        return report
    return replace(report, table=None, not_recorded=("annotated steps",), row_count=0)


def unannotated_notes(base: Sequence[Report], other: Sequence[Report]) -> tuple[Note, ...]:
    """Return a note where one side has annotated steps, and the other whole profiles as steps."""
    without = [[has_no_annotated_steps(r) for r in side if r.rows()] for side in (base, other)]
    if len({*chain(*without)}) < 2:
        return ()
    sides = [
        f"{'' if all(side) else 'a profile of '}{name} has no annotated steps"
        for name, side in zip(("base", "other"), without, strict=True)
        if any(side)
    ]
    text = f"{' and '.join(sides)}: name ranges that are steps with --step-range"
    return (Note("steps-not-annotated", Severity.APPROXIMATED, text),)


@dataclass
class _StepTotals:
    # These are the totals of one rank that has at least one step.
    sums: dict[str, int | None]
    durations: list[int] = field(default_factory=list)
    between: int | None = None  # where no step is annotated

    def add(self, step: dict[str, Any]) -> None:
        if step["step"] == BETWEEN:
            self.between = (self.between or 0) + step["dur_ns"]
            return
        if step["step"] != WHOLE:
            self.between = self.between or 0
        self.durations.append(step["dur_ns"])
        for name in self.sums:
            self.sums[name] = _sum(self.sums[name], step[name])

    def measures(self) -> dict[str, Any]:
        count = len(self.durations)
        if self.between is None:
            # Nothing says how many steps the whole process is.
            return {**self.sums, STEP_COUNT: count, **{column.name: None for column in ALL_STEPS}}
        ends = count // _TRIMMED
        usual = sorted(self.durations)[ends : count - ends]
        return {
            **self.sums,
            STEP_COUNT: count,
            "avg_ns": sum(self.durations) / count,
            "trimmed_ns": sum(usual) / len(usual),
            "between_ns": self.between,
            "period_ns": (sum(self.durations) + self.between) / count,
        }


def steps_per_rank(report: Report) -> Report:
    """Return a report with a row per step as one with a row per rank: sums, counted by `step_count`."""
    # Steps of two runs have nothing in common but what they are called, and not always that.
    measures = [column for column in report.columns if column.adds]
    keys = [c for c in report.columns if c.key and c.name not in _OF_A_STEP]
    names = [column.name for column in keys]
    columns = (
        *keys,
        Column(STEP_COUNT, Unit.COUNT, "Number of steps."),
        *(replace(column, counted_by=STEP_COUNT) for column in measures),
        *ALL_STEPS,
    )
    if report.table is None:
        return replace(report, columns=columns)
    totals_by_key: dict[tuple[object, ...], _StepTotals] = {}
    for step in report.rows():
        key = tuple(step[name] for name in names)
        new = _StepTotals({column.name: 0 for column in measures})
        totals_by_key.setdefault(key, new).add(step)
    rows = [
        dict(zip(names, key, strict=True)) | steps.measures()
        for key, steps in totals_by_key.items()
    ]
    table = report_table(columns, {c.name: [row[c.name] for row in rows] for c in columns})
    return replace(report, columns=columns, table=table, row_count=len(rows))


# -- how columns vary from step to step

Sampler = Callable[[Timeline, StepRule], Samples | None]
"""Returns values by step of a time line, whose steps a rule makes; None where there are too few."""


@dataclass(frozen=True)
class _ByStep:
    # The columns of a report have values by step. `keys` are the keys of its rows, and `deviations` how
    # they vary.
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    sampler: Sampler
    deviations: Callable[[Samples], Array] = lambda samples: noise.deviations(samples.values)


def _of_operations(samples: Samples) -> Array:
    if samples.counts is None:
        return noise.deviations(samples.values)
    return noise.deviations_of_sums(samples.values, samples.counts)


_OF_KERNELS = ("device_id", "name")
_BY_STEP = {
    "overview": (_ByStep(("kernel_sum_ns",), _OF_KERNELS, kernel_sums, _of_operations),),
    "kernels": (
        _ByStep(("kernel_sum_ns", PER_STEP, "avg_ns"), _OF_KERNELS, kernel_sums, _of_operations),
    ),
    "api_vs_kernel": (
        _ByStep(("api_sum_ns", PER_STEP), ("layer", "name"), call_sums, _of_operations),
    ),
    "steps": (
        _ByStep(("dur_ns", "avg_ns"), (), step_durations),
        _ByStep(
            ("trimmed_ns",), (), step_durations, lambda s: noise.deviations_of_trimmed(s.values)
        ),
        _ByStep(("period_ns",), (), step_periods),
    ),
}


def samples_of(
    names: Iterable[str], timeline: Timeline, steps: StepRule
) -> dict[Sampler, Samples | None]:
    """Return the values by step that `half_widths` needs for these reports."""
    samplers = {by_step.sampler for name in names for by_step in _BY_STEP.get(name, ())}
    return {sampler: sampler(timeline, steps) for sampler in samplers}


def half_widths(
    name: str,
    sides: Sequence[tuple[Mapping[Sampler, Samples | None], Report]],
    run_noise: noise.RunNoise,
    matcher: RowMatcher,
) -> dict[Key, dict[str, float]]:
    """Return half the width of the interval of log(other / base), by row and column of a report.

    Only columns with values by step on both sides have one. Each of `sides` is one profile, with its
    samples and its report. `run_noise` is the noise between runs.
    """
    halves: dict[Key, dict[str, float]] = {}
    for by_step in _BY_STEP.get(name, ()):
        sampled = [
            _by_row_keys(samples, by_step.keys, report, matcher, side)
            for side, (samples_of_side, report) in enumerate(sides)
            if (samples := samples_of_side[by_step.sampler]) is not None
        ]
        if len(sampled) < len(sides):
            continue
        on_both = set(sampled[0].keys) & set(sampled[1].keys)
        shared = [key for key in sampled[0].keys if key in on_both]
        base, other = (by_step.deviations(_select(each, shared)) for each in sampled)
        between_runs = run_noise.of(name, by_step.columns[0], by_step=True)
        if between_runs is None:
            continue
        halves_of_rows = noise.step_half_widths(base, other, between_runs).tolist()
        for key, half in zip(shared, halves_of_rows, strict=True):
            if math.isfinite(half):
                halves.setdefault(key, {}).update(dict.fromkeys(by_step.columns, half))
    return halves


def _by_row_keys(
    samples: Samples, keys: Sequence[str], report: Report, matcher: RowMatcher, side: int
) -> Samples:
    # The samples get the keys that rows have, and those of one row are added up.
    table = report.rows()
    ranks = {row["rank"] for row in table}
    rest = dict.fromkeys(matcher.keys) | {"rank": ranks.pop() if len(ranks) == 1 else None}
    # Samples are by device; rows may be over devices.
    over = {"device_id": None} if all(row.get("device_id") is None for row in table) else {}
    rows = [rest | dict(zip(keys, key, strict=True)) | over for key in samples.keys]
    places: dict[Key, int] = {}
    place = [places.setdefault(key, len(places)) for key in matcher.keys_of(side, rows)]

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
