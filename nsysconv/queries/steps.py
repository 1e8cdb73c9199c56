"""Time of each step, by what it was spent on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from nsysconv.errors import NotRecorded, UsageError, available_hint
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import PID, PROCESS_RANK, PROFILE, duration_column, key_column
from nsysconv.queries.contract import Array, Query, Request, Result
from nsysconv.queries.operator_rates import (
    MOST_SUM,
    PEAK_FLOP,
    above_note,
    check_peak,
    peaks_note,
    uncounted_note,
)
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline import steps as found_in
from nsysconv.timeline.annotations import ranges
from nsysconv.timeline.arrays import distinct
from nsysconv.timeline.flop import flop_of_calls, uncounted
from nsysconv.timeline.operator_calls import OperatorCalls, operator_calls
from nsysconv.timeline.peaks import KINDS, common_peaks, kinds_of_calls
from nsysconv.timeline.slices import StepRule
from nsysconv.timeline.steps import BETWEEN, STEP_FACTS, WHOLE, Steps, class_times
from nsysconv.timeline.timeline import Timeline

STEP = key_column(
    "step",
    f"Name of the step; `{WHOLE}`: no steps are annotated, and the row covers the whole process.",
)
_STEP = replace(
    STEP,
    doc=f"{STEP.doc} `{BETWEEN}` is the total time between the steps of the process.",
)
OCCURRENCE = Column(
    "occurrence",
    Unit.ID,
    "Number of the step among those of the same name in its process, from 1.",
    key=True,
)
_DOCS = {
    "kernel": "a computation kernel ran, or a graph recorded as one interval",
    "memcpy": "an explicit copy ran",
    "memset": "a memset ran",
    "communication": "a communication kernel ran, or a thread communicated (Gloo)",
    "runtime": "a thread was in an API call",
    "data_loader": "a thread waited for the data loader",
    "cpu": "a thread was in an operator or a range",
    "other": "none of the preceding was recorded",
}
COLUMNS = (
    PROFILE,
    PROCESS_RANK,
    PID,
    _STEP,
    OCCURRENCE,
    Column(
        "start_ns",
        Unit.NS,
        "Start of the step, or of the first interval between steps.",
        brief=False,
    ),
    duration_column(
        "dur_ns",
        "Duration of the step up to the end of the last GPU operation launched in it, or of all "
        "intervals between steps. The times in the following columns add up to it.",
        adds=True,
    ),
    Column(
        "mfu_pct",
        Unit.PCT,
        "Model FLOP utilization: `flop_per_s` as a share of the given peak, else of the GPUs' "
        "peaks for the data types; null: the FLOP count or the peak of some of the kernels is "
        "unknown.",
        better="more",
        optional=True,
    ),
    Column(
        "flop_sum",
        Unit.COUNT,
        "Floating-point operations of the operators called in the step; null: unknown, or the "
        "step is cut by the slice.",
        brief=False,
        optional=True,
    ),
    Column(
        "flop_per_s",
        Unit.FLOP_PER_S,
        "Floating-point operations per second of the step.",
        better="more",
        brief=False,
        optional=True,
    ),
    *(
        duration_column(
            f"{name}_ns",
            f"Time in the step during which {doc}"
            f"{', outside all preceding columns' if place and name != 'other' else ''}.",
            adds=True,
        )
        for place, (name, doc) in enumerate(_DOCS.items())
    ),
)

# A class is recorded if one of these facts is.
_FACTS = {
    "kernel": frozenset({Fact.KERNELS}),
    "memcpy": frozenset({Fact.MEMCPYS}),
    "memset": frozenset({Fact.MEMSETS}),
    "communication": {Fact.KERNELS, *STEP_FACTS},
    "runtime": frozenset({Fact.API_CALLS}),
    "data_loader": STEP_FACTS,
    "cpu": STEP_FACTS,
}


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per process and step, in time order, then one for the time between the steps.

    Times of classes are null where the clocks disagree.
    """
    peak = request.options[PEAK_FLOP.name]
    check_peak("steps", PEAK_FLOP.name, peak)
    works: _Works = {}
    notes: tuple[Note, ...] = ()
    has_shapes = Fact.INPUT_SHAPES in timeline.profile.facts
    if peak or (has_shapes and common_peaks(timeline) is not None):
        works, notes = _works(timeline, request.steps, peak)
    columns: dict[str, list[Any]] = {column.name: [] for column in COLUMNS[1:]}
    for steps in steps_of(timeline, request, "steps"):
        between = steps.between()
        keys = [identity(timeline, steps, i) for i in range(len(steps))]
        if len(between):
            keys.append(identity(timeline, between, 0) | {"occurrence": None})
        for name in ("rank", "pid", "step", "occurrence"):
            columns[name] += [key[name] for key in keys]
        columns["start_ns"] += [*steps.start.tolist(), *between.start[:1].tolist()]
        both = steps.and_these(between)
        columns["dur_ns"] += _rows(both.lengths, len(steps))
        for name, values in class_times(timeline, both, request.steps).items():
            recorded = _is_recorded(timeline, name)
            columns[f"{name}_ns"] += _rows(values, len(steps)) if recorded else [None] * len(keys)
        lengths = steps.lengths.tolist()
        for step, length in zip(_names(steps), lengths, strict=True):
            work = works.get((steps.pid, *step))
            rates = work.rates(length) if work else _NO_RATES
            for name, value in zip(_RATES, rates, strict=True):
                columns[name].append(value)
        for name in _RATES:
            columns[name] += [None] * (len(keys) - len(steps))
    above = above_note(columns["mfu_pct"], PEAK_FLOP.name)
    return Result(columns, notes=(*notes, above) if above.count else notes)


STEPS = Query(
    options=(
        replace(
            PEAK_FLOP,
            doc="Peak operations per second of all GPUs of a process together (989e12), for the model "
            "FLOP utilization; 0: the devices' peaks for the data types.",
        ),
    ),
    columns=COLUMNS,
    compute=compute,
)


def _rows(values: Array, count: int) -> list[int]:
    """Return the first `count` values, those of steps, and the sum of the others if there are any."""
    others = values[count:]
    return [*values[:count].tolist(), *([int(others.sum())] if len(others) else [])]


@dataclass(frozen=True)
class _Work:
    # What was done in a step: its whole length, the operations of the operators that begin in it as
    # annotated, the time that they would take at the peak, and whether these are all of the GPU's and
    # have a peak.
    length: int
    flop: int
    at_peak_ns: float
    is_all: bool

    def rates(self, length: int) -> tuple[int | None, float | None, float | None]:
        """Return the values of _RATES; of a part of the step, which is shorter, there are none."""
        if length != self.length or not length or not self.flop or self.flop > MOST_SUM:
            return _NO_RATES
        utilization = 100 * self.at_peak_ns / length if self.is_all else None
        return self.flop, 1e9 * self.flop / length, utilization


_Works = dict[tuple[int, str, int], _Work]
_RATES = ("flop_sum", "flop_per_s", "mfu_pct")
_NO_RATES = (None, None, None)


def _works(timeline: Timeline, rule: StepRule, peak: float) -> tuple[_Works, tuple[Note, ...]]:
    # By process, name and occurrence of the step, whatever the slice. `peak`: 0 for the devices' own.
    whole = timeline.whole
    calls = operator_calls(whole)
    flop = flop_of_calls(whole, calls)
    known = np.flatnonzero(flop != MISSING)
    known = known[np.argsort(calls.spans.start[known], kind="stable")]
    at_peak = _at_peak(whole, calls, flop, peak)
    kernels, without = uncounted(whole, calls, flop)
    begun = _launched(whole, kernels[without])
    lengths = {
        (mine.pid, *step): length
        for mine in found_in.steps(timeline, rule) or found_in.whole_profile(timeline)
        for step, length in zip(_names(mine), (mine.end - mine.start).tolist(), strict=True)
    }
    result = {}
    for mine in found_in.annotated(timeline, rule) or found_in.whole_profile(timeline):
        here = known[calls.spans.pid[known] == mine.pid]
        others = np.sort(begun[whole.ops.pid[kernels[without]] == mine.pid])
        # As Python's integers, which have no end.
        upto = [0, *accumulate(flop[here].tolist())]
        times = at_peak[here]
        lacking = [0, *np.cumsum(np.isnan(times)).tolist()]
        spent = [0.0, *np.cumsum(np.nan_to_num(times)).tolist()]
        devices = 1 if peak else max(1, len(distinct(whole.ops.device[whole.ops.pid == mine.pid])))
        for step, low, high in zip(
            _names(mine), mine.start.tolist(), mine.end.tolist(), strict=True
        ):
            first, last = np.searchsorted(calls.spans.start[here], (low, high)).tolist()
            count = int(np.diff(np.searchsorted(others, (low, high)))[0])
            key = (mine.pid, *step)
            result[key] = _Work(
                lengths[key],
                upto[last] - upto[first],
                (spent[last] - spent[first]) / devices,
                bool(len(kernels)) and not count and lacking[last] == lacking[first],
            )
    if any(work.flop for work in result.values()):
        has_shares = any(work.flop and work.is_all for work in result.values())
        notes = [uncounted_note(without)]
        notes += [peaks_note(whole)] if has_shares and not peak else []
    elif not peak:
        notes = []
    else:
        text = (
            "no step has a known operation count: operators, or their input shapes and values, are not "
            "recorded, or have no formula"
        )
        notes = [Note("operations-unknown", Severity.INFO, text, len(result), of=len(result))]
    return result, tuple(note for note in notes if note.count)


def _at_peak(timeline: Timeline, calls: OperatorCalls, flop: Array, peak: float) -> Array:
    # Per node the time in ns that its operations would take at the peak, NaN without any, or unknown.
    rates = np.full(len(flop), peak or np.nan)
    peaks = common_peaks(timeline)
    if not peak and peaks is not None:
        by_place = [peaks.flop_per_s.get(kind, np.nan) for kind in KINDS]
        rates = np.array([*by_place, np.nan])[
            kinds_of_calls(timeline, calls, flop != MISSING, peaks)
        ]
    result: Array = np.where(flop == MISSING, np.nan, 1e9 * flop / rates)
    return result


def _launched(timeline: Timeline, which: Array) -> Array:
    # When operations were launched, as far as it is known, else when they began.
    owner = timeline.owner[which]
    moment: Array = timeline.ops.start[which]
    moment[owner >= 0] = timeline.calls.start[owner[owner >= 0]]
    return moment


def _names(steps: Steps) -> Iterator[tuple[str, int]]:
    return zip(steps.name, steps.occurrence, strict=True)


def _is_recorded(timeline: Timeline, name: str) -> bool:
    if timeline.clocks_disagree:
        return False
    return name not in _FACTS or bool(_FACTS[name] & timeline.profile.facts)


def steps_of(timeline: Timeline, request: Request, report: str) -> list[Steps]:
    """Return the steps that a request asks for, cut to its slice; each process's as one.

    Where none is annotated, one step is all of a process; but a name that somebody asked for has to
    be there. Raises UsageError with the names there are, NotRecorded where nothing bears names.
    """
    rule = request.steps
    annotated = found_in.steps(timeline, rule)
    if not annotated and not rule:
        annotated = found_in.whole_profile(timeline)
    elif not annotated:
        profile = timeline.profile
        if rule.range is None:
            kind = "graphs" if rule.graph else "kernels"
            what, hint = f"no steps: {rule.absent}", f"The report `{kind}` lists {kind}."
            raise UsageError(what, where=profile.ref.label, hint=hint)
        if not STEP_FACTS & profile.facts:
            advice = profile.advice.get(Fact.RANGES)
            raise NotRecorded(report, [Fact.RANGES], [advice] if advice else [])
        spans = ranges(timeline)
        names = sorted(spans.names[i] for i in distinct(spans.name).tolist())
        raise UsageError(
            f"no range {rule.range!r}",
            where=profile.ref.label,
            hint=available_hint(rule.range, names, "The report `ranges` lists them all."),
        )
    return found_in.in_slice(timeline, annotated)


def identity(timeline: Timeline, steps: Steps, place: int) -> dict[str, Any]:
    """Return what says which step of a process a row speaks of."""
    return {
        "rank": timeline.ranks.get(steps.pid),
        "pid": steps.pid,
        "step": steps.name[place],
        "occurrence": steps.occurrence[place],
    }
