"""Values per step of one profile: how kernels, API calls and steps themselves vary within a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nsysconv import codes
from nsysconv.report import MISSING
from nsysconv.timeline.groups import counts, sums
from nsysconv.timeline.ops import Kind, taken
from nsysconv.timeline.statistics import number
from nsysconv.timeline.steps import STEP_RANGE, Steps, steps
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray
Key = tuple[Any, ...]

FEWEST_STEPS = 20
"""Of fewer steps there are no samples: they would not tell a change from noise."""


@dataclass(frozen=True)
class Samples:
    """One row of `values` per key, one column per step, as int64; no key is there twice.

    `counts`: how many operations each value adds up; None where it is no sum of operations.

    Column k adds up the k-th steps of all processes. Processes of one job go through their steps
    together, so what disturbs one disturbs the others: their steps are no samples of their own. There
    are as many columns as the process with the most steps has steps; others add nothing to the last
    ones. A row's sum over the columns is thus all that happened in steps.
    """

    keys: list[Key]
    values: Array
    counts: Array | None = None


def kernel_sums(timeline: Timeline, pattern: str = STEP_RANGE) -> Samples | None:
    """Time of the kernels launched in each step, per device id (None: not recorded) and name.

    A kernel belongs to the step of its process in which its API call starts; without a call, to the
    one in which it starts itself, or to none where the clocks of CPU and GPU disagree. Kernels
    without a time, or in no step, are in no row. None where there are too few steps.
    """
    found = _enough(timeline, pattern)
    if found is None:
        return None
    ops = timeline.ops
    kernels = np.flatnonzero((ops.kind == Kind.KERNEL) & ops.timed)
    step = _places(found, taken(ops.pid, kernels), _launched(timeline, kernels))
    kernels, step = kernels[step >= 0], step[step >= 0]
    name_id = timeline.profile.columns("kernel", ("name_id",))["name_id"]
    group, (devices, name_ids) = number(
        taken(ops.device, kernels), taken(name_id, ops.row[kernels])
    )
    texts = timeline.profile.names(name_ids)
    keys: list[Key] = [
        (None if device == MISSING else device, texts[name])
        for device, name in zip(devices.tolist(), name_ids.tolist(), strict=True)
    ]
    spent = ops.end[kernels] - ops.start[kernels]
    return _table(keys, group, step, spent, _length(found))


def call_sums(timeline: Timeline, pattern: str = STEP_RANGE) -> Samples | None:
    """Time of the API calls that start in each step, per layer (None: not recorded) and documented
    name; calls inside other calls included.

    Calls without a time, or in no step, are in no row. None where there are too few steps.
    """
    found = _enough(timeline, pattern)
    if found is None:
        return None
    calls = timeline.calls
    step = _places(found, calls.pid, calls.start)
    inside = np.flatnonzero((step >= 0) & timeline.called)
    group, (layers, name_ids) = number(taken(calls.layer, inside), taken(calls.name_id, inside))
    keys: list[Key] = [
        (_layer(layer), timeline.call_names[name])
        for layer, name in zip(layers.tolist(), name_ids.tolist(), strict=True)
    ]
    spent = calls.end[inside] - calls.start[inside]
    return _table(keys, group, step[inside], spent, _length(found))


def step_durations(timeline: Timeline, pattern: str = STEP_RANGE) -> Samples | None:
    """How long each step took, in one row with the key (); None where there are too few steps."""
    return _of_steps(timeline, pattern, lambda mine: mine.end - mine.start)


def step_periods(timeline: Timeline, pattern: str = STEP_RANGE) -> Samples | None:
    """How long after the begin of each step the next one began, in one row with the key ().

    Of the last step it is how long it took. None where there are too few steps.
    """

    def periods(mine: Steps) -> Array:
        ends: Array = np.append(mine.start[1:], mine.end[-1:])
        lengths: Array = ends - mine.start
        return lengths

    return _of_steps(timeline, pattern, periods)


def _of_steps(
    timeline: Timeline, pattern: str, lengths: Callable[[Steps], Array]
) -> Samples | None:
    found = _enough(timeline, pattern)
    if found is None:
        return None
    values = np.zeros((1, _length(found)), np.int64)
    for mine in found:
        values[0, : len(mine)] += lengths(mine)
    return Samples([()], values)


def _enough(timeline: Timeline, pattern: str) -> list[Steps] | None:
    """The steps of each process that lie in the slice as a whole, if one process has enough of them."""
    found = [mine for mine in map(partial(_uncut, timeline), steps(timeline, pattern)) if len(mine)]
    return found if found and _length(found) >= FEWEST_STEPS else None


def _uncut(timeline: Timeline, mine: Steps) -> Steps:
    """The steps of a process that the slice does not cut: a part of a step tells less than a step."""
    process = np.array([mine.pid])
    low, high = timeline.limits(process) or (mine.start.min(), mine.end.max())
    inside = timeline.in_processes(process) & (mine.start >= low) & (mine.end <= high)
    return mine.take(np.flatnonzero(inside))


def _length(found: list[Steps]) -> int:
    return max(len(mine) for mine in found)


def _launched(timeline: Timeline, which: Array) -> Array:
    """When operations were launched, as far as can be told; else when they start, if that is on the
    clock of the steps, or MISSING.
    """
    owner = timeline.owner[which]
    called = owner >= 0
    moment: Array = timeline.ops.start[which]
    if timeline.clocks_disagree:
        moment[:] = MISSING
    moment[called] = timeline.calls.start[owner[called]]
    return moment


def _places(found: list[Steps], pid: Array, moment: Array) -> Array:
    """Per moment of a process which of the process's steps it is in, from 0; -1 for none.

    A step includes its start, and not its end.
    """
    place = np.full(len(moment), -1, np.int64)
    for mine in found:
        here = np.flatnonzero(pid == mine.pid)
        # Of steps that start together only the last has a length.
        at = np.searchsorted(mine.start, moment[here], side="right") - 1
        inside = (at >= 0) & (moment[here] < mine.end[at])
        place[here[inside]] = at[inside]
    return place


def _layer(code: int) -> str | None:
    return codes.API_LAYERS[code] if 0 <= code < len(codes.API_LAYERS) else None


def _table(keys: list[Key], group: Array, step: Array, spent: Array, length: int) -> Samples:
    """Sums per key and step of values, of which the group (a place in `keys`) and step are given.

    Groups with equal keys are one row: two ids may stand for one name.
    """
    rows: dict[Key, int] = {}
    row_of = np.array([rows.setdefault(key, len(rows)) for key in keys], np.int64)
    values = np.zeros((len(rows), length), np.int64)
    counted = np.zeros_like(values)
    if len(spent):
        # Only the cells that hold something are counted: there may be many more of the others.
        cell, (filled,) = number(row_of[group] * length + step)
        values.reshape(-1)[filled] = sums(cell, spent, len(filled))
        counted.reshape(-1)[filled] = counts(cell, len(filled))
    return Samples(list(rows), values, counted)
