"""Phases of a program, such as prefill and decode: annotated steps, and where their time went.

The chapter docs/definitions/phases.md says what counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from nsysconv.timeline.account import CLASSES, IDLE_CLASSES, OPERATION_CLASSES, operation_classes
from nsysconv.timeline.annotations import operators, ranges
from nsysconv.timeline.arrays import Array, blocks, sums
from nsysconv.timeline.grammars import PHASE, STEP, TRAIN, Annotation, grammar
from nsysconv.timeline.idle import PARTS, Gaps, Window, gaps, parts, window
from nsysconv.timeline.intervals import expand_ranges, parents, union, union_with
from nsysconv.timeline.steps import Steps, by_launches, named_steps, occurrences, places
from nsysconv.timeline.timeline import Timeline, cached_whole

OUTSIDE = "[outside any step]"
"""Name of the time that is in no step of a phase."""

# The sorts of annotations, of which a profile's phases are the first that it has.
_SORTS: tuple[Callable[[Annotation], bool], ...] = (
    lambda said: said.kind == STEP and said.phase != TRAIN,
    lambda said: said.kind == PHASE,
    lambda said: said.kind == STEP,
)


@dataclass(frozen=True)
class PhaseSteps:
    """The steps of phases of a profile, of all processes: those of one do not overlap.

    `steps` and `annotated` have the same steps process by process, as they lasted and as they were
    annotated; `said` is what annotations say, by their text, which is a step's name.
    """

    said: Mapping[str, Annotation]
    annotated: list[Steps]
    steps: list[Steps]

    def phase(self, name: str) -> str:
        """Return the phase of a step by its name."""
        return self.said[name].phase or ""


def step_numbers(found: list[Steps], pid: Array, moments: Array) -> Array:
    """Return the step that each moment of a process lies in, numbered over all processes; -1: in none."""
    result, offset = np.full(len(pid), -1, np.int64), 0
    for mine in found:
        place = places([mine], pid, moments)
        result = np.where(place >= 0, place + offset, result)
        offset += len(mine)
    return result


@cached_whole
def phase_steps(timeline: Timeline, path: str | None = None) -> PhaseSteps:
    """Return the steps of phases, none where no annotation is known; `path`: a file of further rules."""
    known = grammar(path)
    texts = {*ranges(timeline).names, *operators(timeline).names}
    said = {text: found for text in texts if (found := known.read(text)) is not None}
    for is_of_sort in _SORTS:
        wanted = {text for text, found in said.items() if is_of_sort(found)}
        annotated = _annotated(timeline, said, wanted) if wanted else []
        if annotated:
            return PhaseSteps(said, annotated, [by_launches(timeline, mine) for mine in annotated])
    return PhaseSteps(said, [], [])


def _annotated(timeline: Timeline, said: Mapping[str, Annotation], wanted: set[str]) -> list[Steps]:
    # Those with these texts that count, of each process, in time order.
    if said[next(iter(wanted))].is_step:
        found = [_outermost(mine) for mine in named_steps(timeline, wanted.__contains__)]
    else:
        threads = named_steps(timeline, wanted.__contains__, by_thread=True)
        of_process: dict[int, Steps] = {}
        for mine in (_apart(each, said) for each in threads):
            before = of_process.get(mine.pid)
            of_process[mine.pid] = mine if before is None else before.and_these(mine)
        found = list(of_process.values())
    ordered = [mine.take(np.lexsort((mine.end, mine.start))) for mine in found]
    return [replace(mine, occurrence=occurrences(mine.name)) for mine in ordered]


def phase_names(timeline: Timeline, path: str | None = None) -> list[str]:
    """Return the phases that a profile has, in the order in which they begin."""
    found = phase_steps(timeline, path)
    begins = [
        (start, found.phase(name))
        for mine in found.steps
        for start, name in zip(mine.start.tolist(), mine.name, strict=True)
    ]
    return list(dict.fromkeys(phase for _, phase in sorted(begins)))


def phase_windows(
    timeline: Timeline, phase: str, path: str | None = None
) -> dict[int, tuple[Array, Array]]:
    """Return by process when the steps of a phase began and ended; of processes that have any."""
    found = phase_steps(timeline, path)
    windows = {}
    for mine in found.steps:
        which = [i for i, name in enumerate(mine.name) if found.phase(name) == phase]
        if which:
            windows[mine.pid] = mine.start[which], mine.end[which]
    return windows


def _longest_first(mine: Steps) -> Steps:
    return mine.take(np.lexsort((-mine.end, mine.start)))


def _outermost(mine: Steps) -> Steps:
    # Of annotations inside others the outermost counts: frameworks call each other.
    mine = _longest_first(mine)
    before = np.maximum.accumulate(mine.end)[:-1]
    return mine.take(np.flatnonzero(np.append(True, mine.end[1:] > before)))


def _apart(mine: Steps, said: Mapping[str, Annotation]) -> Steps:
    # Of annotations of a thread inside others of their phase the outermost counts. One that has others in
    # it is what follows the last of them: PyTorch Lightning computes forward and backward inside the
    # optimizer's step.
    mine = _longest_first(mine)
    numbers: dict[str | None, int] = {}
    phase = np.array([numbers.setdefault(said[name].phase, len(numbers)) for name in mine.name])
    parent, _ = parents(mine.start, mine.end)
    is_inner, above = np.zeros(len(mine), bool), parent
    while len(at := np.flatnonzero(above >= 0)):
        holder = above[at]
        is_inner[at] |= (phase[holder] == phase[at]) & (mine.end[at] <= mine.end[holder])
        above = np.where(above >= 0, parent[above], -1)
    mine = mine.take(np.flatnonzero(~is_inner))
    parent, _ = parents(mine.start, mine.end)
    inside = np.flatnonzero((parent >= 0) & (mine.end <= mine.end[parent]))
    start = mine.start.copy()
    np.maximum.at(start, parent[inside], mine.end[inside])
    return replace(mine, start=start)


# -- the account of stretches of time


def edges_of(mine: list[Steps], span: Window) -> tuple[Array, Array]:
    """Return the moments at which the steps of processes cut a span, its ends among them, and which step
    the stretch between two of them is of: numbered over all, -1 for none.

    Where steps of several processes overlap, the time is that of the one that began first.
    """
    start = np.concatenate([np.empty(0, np.int64), *(each.start for each in mine)])
    end = np.concatenate([np.empty(0, np.int64), *(each.end for each in mine)])
    order = np.lexsort((end, start))
    start, end = (np.clip(moments[order], span.start, span.end) for moments in (start, end))
    reach = np.maximum.accumulate(end)
    start = np.maximum(start, np.append(span.start, reach[:-1])[: len(start)])
    inner = np.column_stack((start, reach)).ravel()
    edges = np.concatenate(([span.start], inner, [span.end]))
    step = np.full(2 * len(order) + 1, -1, np.int64)
    step[1::2] = order
    return edges, step


def class_times(timeline: Timeline, device: int, edges: Array) -> dict[str, Array]:
    """Return per class of CLASSES the time of each stretch of a device between two of these moments.

    They add up to the stretches, and over all stretches to the device's account (timeline/account.py).
    """
    low, high = edges[:-1], edges[1:]
    ops = timeline.ops_on(device)
    own = window(timeline, device, ops) or Window(int(edges[-1]), int(edges[-1]))
    first = np.clip(own.start, low, high)
    last = np.clip(own.end, first, high)
    times = {"before": first - low, "after": high - last}
    place = np.where(ops.timed, operation_classes(timeline, device), -1)
    covered = np.zeros(len(low), np.int64)
    so_far = union(np.empty(0, np.int64), np.empty(0, np.int64))
    for number, name in enumerate(OPERATION_CLASSES):
        so_far = union_with(so_far, ops.start, ops.end, place == number)
        now = so_far.covered(first, last)
        times[name] = now - covered
        covered = now
    for found in gaps(timeline, "no_op"):
        if found.device == device:
            times |= zip(IDLE_CLASSES, _idle(timeline, found, edges), strict=True)
    none = np.zeros(len(low), np.int64)
    return {name: times.get(name, none) for name in CLASSES}


def _idle(timeline: Timeline, found: Gaps, edges: Array) -> Array:
    # The result has the parts of all gaps by stretch. A gap's parts follow from moments: those of a piece
    # of it from these moments, cut.
    result = np.zeros((len(PARTS), len(edges) - 1), np.int64)
    for block in blocks(len(found)):
        mine = found.take(block)
        first = np.maximum(np.searchsorted(edges, mine.start, side="right") - 1, 0)
        last = np.minimum(np.searchsorted(edges, mine.end, side="left"), len(edges) - 1)
        gap, stretch = expand_ranges(first, np.maximum(last - first, 0))
        mine, low, high = mine.take(gap), edges[stretch], edges[stretch + 1]
        start, end, host_end = (
            np.clip(moments, low, high) for moments in (mine.start, mine.end, mine.host_end)
        )
        cut = replace(mine, start=start, end=end, host_end=host_end)
        for part, spent in enumerate(parts(timeline, cut)):
            result[part] += sums(stretch, spent, result.shape[1])
    return result
