"""Time of each step, by what it was spent on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nsysconv.errors import NotRecorded, UsageError, available_hint
from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    PID,
    PROCESS_RANK,
    PROFILE,
    duration_column,
    key_column,
    step_pattern,
)
from nsysconv.queries.contract import CALL_FACTS, Array, ColumnValues, Query, Request
from nsysconv.report import Column, Picture, Unit
from nsysconv.timeline import steps as found_in
from nsysconv.timeline.annotations import ranges
from nsysconv.timeline.arrays import distinct
from nsysconv.timeline.steps import BETWEEN, STEP_FACTS, WHOLE, Steps, class_times
from nsysconv.timeline.timeline import Timeline

STEP = key_column(
    "step", f"Name of the step; `{WHOLE}`: no step was annotated, and this is all of the process."
)
_STEP = replace(
    STEP,
    doc=f"{STEP.doc} `{BETWEEN}` is no step but the time between those of the process, together.",
)
OCCURRENCE = Column(
    "occurrence", Unit.ID, "Which step of that name it is in its process, from 1.", key=True
)
_DOCS = {
    "kernel": "kernels ran that do not communicate, or graphs recorded as one interval",
    "memcpy": "explicit copies ran",
    "memset": "memory sets ran",
    "communication": "kernels that communicate ran, or a thread communicated (Gloo)",
    "runtime": "a thread was in an API call",
    "data_loader": "a thread waited for the data loader",
    "cpu": "a thread was in an operator or a range",
    "other": "none of this was recorded",
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
        "When the step began, or the first stretch of time between steps.",
        brief=False,
    ),
    duration_column(
        "dur_ns",
        "How long it took, to the end of the last GPU operation launched in it, or how long all "
        "stretches between steps; the sum of the columns that follow.",
        adds=True,
    ),
    *(
        duration_column(
            f"{name}_ns",
            f"Time of the step in which {doc}"
            f"{', and nothing of the columns before' if place and name != 'other' else ''}.",
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


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per process and step, in time order, then one for the time between the steps.

    Times of classes are null where the clocks disagree.
    """
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
        columns["dur_ns"] += _rows(both.end - both.start, len(steps))
        for name, values in class_times(timeline, both, step_pattern(request)).items():
            recorded = _is_recorded(timeline, name)
            columns[f"{name}_ns"] += _rows(values, len(steps)) if recorded else [None] * len(keys)
    return columns


STEPS = Query(
    title="Step time breakdown: where the time of each step went",
    uses=STEP_FACTS
    | CALL_FACTS
    | {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.GRAPH_LAUNCHES, Fact.RANKS},
    columns=COLUMNS,
    picture=Picture(
        "stacked",
        x=("step", "occurrence"),
        values=tuple(f"{name}_ns" for name in _DOCS),
        by=("rank", "pid"),
    ),
    compute=compute,
)


def _rows(values: Array, count: int) -> list[int]:
    """Return the first `count` values, those of steps, and the sum of the others if there are any."""
    others = values[count:]
    return [*values[:count].tolist(), *([int(others.sum())] if len(others) else [])]


def _is_recorded(timeline: Timeline, name: str) -> bool:
    if timeline.clocks_disagree:
        return False
    return name not in _FACTS or bool(_FACTS[name] & timeline.profile.facts)


def steps_of(timeline: Timeline, request: Request, report: str) -> list[Steps]:
    """Return the steps that a request asks for, cut to its slice; each process's as one.

    Where none is annotated, one step is all of a process; but a name that somebody asked for has to
    be there. Raises UsageError with the names there are, NotRecorded where nothing bears names.
    """
    annotated = found_in.steps(timeline, step_pattern(request))
    if not annotated and request.step_range is None:
        annotated = found_in.whole_profile(timeline)
    elif not annotated:
        profile = timeline.profile
        if not STEP_FACTS & profile.facts:
            advice = profile.advice.get(Fact.RANGES)
            raise NotRecorded(report, [Fact.RANGES], [advice] if advice else [])
        spans = ranges(timeline)
        names = sorted(spans.names[i] for i in distinct(spans.name).tolist())
        raise UsageError(
            f"no range {request.step_range!r}",
            hint=available_hint(request.step_range, names, "The report `ranges` lists them all."),
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
