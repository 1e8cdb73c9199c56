"""Phases of a program, such as prefill and decode: annotated steps, and where their time went.

The chapter docs/definitions/phases.md says what counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from nsysconv.report import MISSING, Unit, human
from nsysconv.timeline.annotations import operators, ranges
from nsysconv.timeline.arrays import Array
from nsysconv.timeline.grammars import PHASE, STEP, TRAIN, Annotation, grammar, users_grammar
from nsysconv.timeline.intervals import Union, parents, union
from nsysconv.timeline.slices import StepRule
from nsysconv.timeline.step_rules import SERVING, resolved
from nsysconv.timeline.steps import (
    Steps,
    by_launches,
    named_steps,
    occurrences,
    places,
    uncut_by_slice,
)
from nsysconv.timeline.timeline import Timeline, cached_whole
from nsysconv.timeline.windows import Window, common

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

    @property
    def used(self) -> list[Annotation]:
        """Return what the annotations of these steps say."""
        return [self.said[name] for mine in self.steps for name in mine.name]

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
    read = {text: known.read(text) for text in texts}
    # A phase that has the name of the rest is the rest.
    said = {text: found for text, found in read.items() if found and found.phase != OUTSIDE}
    users = users_grammar(path).read if path else lambda text: None
    for is_of_sort in _SORTS:
        wanted = {
            text: users(text) is not None for text, found in said.items() if is_of_sort(found)
        }
        annotated = _annotated(timeline, said, wanted) if wanted else []
        if annotated:
            return PhaseSteps(said, annotated, [by_launches(timeline, mine) for mine in annotated])
    return PhaseSteps(said, [], [])


def _annotated(
    timeline: Timeline, said: Mapping[str, Annotation], wanted: Mapping[str, bool]
) -> list[Steps]:
    # Those with these texts that count, of each process, in time order; `wanted` says which texts a rule
    # of the user's reads.
    if said[next(iter(wanted))].is_step:
        found = [_outermost(mine, wanted) for mine in named_steps(timeline, wanted.__contains__)]
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


def phases_in_words(timeline: Timeline, rule: StepRule) -> str | None:
    """Return the phases of a server's steps in a slice: how many steps, and the median of each.

    None where the steps say no phases.
    """
    if rule.grammar is None and resolved(timeline, rule).range not in SERVING:
        return None
    found, lengths = phase_steps(timeline, rule.grammar), defaultdict(list)
    for mine in uncut_by_slice(timeline, found.steps):
        for name, length in zip(mine.name, mine.lengths.tolist(), strict=True):
            lengths[found.phase(name)].append(length)
    largest = sorted(lengths, key=lambda phase: (-sum(lengths[phase]), phase))
    words = (f"{phase} {len(lengths[phase]):,} × {human(median(lengths[phase]), Unit.NS)}"
             for phase in largest)  # fmt: skip
    return ", ".join(words) or None


def _longest_first(mine: Steps) -> Steps:
    return mine.take(np.lexsort((-mine.end, mine.start)))


def _outermost(mine: Steps, is_users: Mapping[str, bool]) -> Steps:
    # The outermost of nested annotations counts: frameworks call each other. Those that a user's rule
    # reads are in place of all that share time with them.
    mine = _longest_first(mine)
    users = np.array([is_users[name] for name in mine.name], bool)
    others = ~users & ~union(mine.start, mine.end, users).meets(mine.start, mine.end)
    kept = [each[_reach_on(mine.end[each])] for each in map(np.flatnonzero, (users, others))]
    return mine.take(np.concatenate(kept))


def _reach_on(end: Array) -> Array:
    # The result is which intervals, in the order of their starts, end after all before them.
    return end > np.maximum.accumulate(np.append(MISSING, end))[:-1]


def _apart(mine: Steps, said: Mapping[str, Annotation]) -> Steps:
    # The outermost of a thread's nested annotations of one phase counts. One that has others in
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


# -- whose time it is


def owned(mine: list[Steps], span: Window, group: Array, count: int) -> list[Union]:
    """Return per group which part of a span its steps have; the last one has what is in no step.

    `group` has a number per step, over all processes. Where steps of several processes overlap, the time
    is that of the one that began first.
    """
    start = np.concatenate([np.empty(0, np.int64), *(each.start for each in mine)])
    end = np.concatenate([np.empty(0, np.int64), *(each.end for each in mine)])
    order = np.lexsort((end, start))
    start, end = (np.clip(moments[order], span.start, span.end) for moments in (start, end))
    reach = np.maximum.accumulate(end)
    start = np.maximum(start, np.append(span.start, reach[:-1])[: len(start)])
    found = [common(span.union, union(start, reach, group[order] == i)) for i in range(count - 1)]
    outside = Union(*union(start, reach).gaps(span.start, span.end))
    return [*found, common(span.union, outside)]
