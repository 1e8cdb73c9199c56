"""What makes the steps of a profile: names that say so, or what somebody named (docs/definitions)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nsysconv.facts import Fact
from nsysconv.regex import regular_expression
from nsysconv.report import MISSING
from nsysconv.store.text_tests import may_be_step
from nsysconv.timeline.annotations import BEFORE_ARGUMENTS, name_pattern, ranges
from nsysconv.timeline.arrays import Array, by_group, distinct, factorize, take
from nsysconv.timeline.events import OpKind, Spans
from nsysconv.timeline.graphs import graphs
from nsysconv.timeline.intervals import measure
from nsysconv.timeline.kernel_categories import kernel_names
from nsysconv.timeline.range_names import split_name
from nsysconv.timeline.slices import ANY_STEPS, StepRule
from nsysconv.timeline.timeline import Timeline, cached_whole, cached_whole_small

SERVING = (
    "step[*",  # SGLang
    "execute_*context_*_generation_*",  # vLLM
    "execute_new_*_cached_*",
    "[Executor] _forward_step *",  # TensorRT-LLM
)
"""Names that frameworks give to their steps, which say the phase of each."""

FRAMEWORKS = (
    "ProfilerStep#*",  # PyTorch's profiler
    "[pl][profile]run_training_batch",  # Lightning
    "Profiled batch *",  # Keras' TensorBoard callback
    *SERVING,
)
"""Names that frameworks give to their steps; the first of these that a profile has counts."""

_NUMBERED = re.compile(r"(?P<word>[A-Za-z][A-Za-z _.:/-]{0,22}[#=]? ?)(?P<number>\d{1,9})")
# What a model or a machine has several of, and no pass of the program.
_OF_MODELS = re.compile(
    r"\b(?:layer|level|block|stage|rank|worker|thread|stream|gpu|device|expert|head|bucket|shard)s?\W*$",
    re.IGNORECASE,
)
_FEWEST = 3


@cached_whole_small
def resolved(timeline: Timeline, rule: StepRule) -> StepRule:
    """Return the rule that holds: as somebody said, else the names of ranges that are found to be steps.

    Those are what the program annotated as steps, else a framework's, else ranges of one word
    with a number that rises, three or more, one after the other, which cover half of the time in which
    the GPU is used. Without any it says nothing.
    """
    profile = timeline.profile
    annotated = profile.attributes["step_range"]
    if annotated and not rule:
        return StepRule(annotated)
    if rule or Fact.RANGES not in profile.facts:
        return rule or (StepRule(FRAMEWORKS[0]) if Fact.OPERATORS in profile.facts else rule)
    literal = [pattern.partition("*")[0] for pattern in FRAMEWORKS]
    fits = may_be_step(literal)
    own = profile.texts("range", "text", fits, BEFORE_ARGUMENTS).texts
    known = {split_name(text).name for text in (*profile.names_that(fits).values(), *own)}
    for pattern in FRAMEWORKS:
        is_step = name_pattern(pattern).fullmatch
        if any(is_step(text) for text in known):
            return StepRule(pattern)
    numbers: dict[str, set[int]] = defaultdict(set)
    for text in known:
        if found := _NUMBERED.fullmatch(text):
            numbers[found["word"]].add(int(found["number"]))
    words = [
        word
        for word, several in numbers.items()
        if len(several) >= _FEWEST and not _OF_MODELS.search(word.replace("_", " "))
    ]
    return _numbered(timeline.whole, words) if words else ANY_STEPS


def _numbered(timeline: Timeline, words: list[str]) -> StepRule:
    # The word whose ranges cover most is taken: what lies inside a step covers less.
    spans = ranges(timeline)
    parts = [_NUMBERED.fullmatch(text) for text in spans.names]
    word_of = np.array([words.index(p["word"]) if p and p["word"] in words else -1 for p in parts])
    number_of = np.array([int(p["number"]) if p else -1 for p in parts])
    ops = timeline.ops
    working = ops.timed & (ops.kind != OpKind.MIGRATION)
    best = 0, ""
    for place, word in enumerate(words):
        mine = spans.take(take(word_of, spans.name) == place)
        covered = used = 0
        for pid in distinct(mine.pid).tolist():
            here = working & (ops.pid == pid)
            if not here.any() or timeline.clocks_disagree:
                continue
            low, high = (
                int(ops.start[np.argmax(here)]),
                int(ops.end.max(where=here, initial=MISSING)),
            )
            used += high - low
            own = mine.take(mine.pid == pid)
            if _follow(own, take(number_of, own.name)):
                covered += measure(own.start, own.end, low, high)
        if 2 * covered >= used > 0 and covered > best[0]:
            best = covered, word
    return StepRule(f"{best[1]}*") if best[1] else ANY_STEPS


def _follow(spans: Spans, numbers: Array) -> bool:
    # Whether the ranges come one after the other, each with a larger number.
    order = np.argsort(spans.start, kind="stable")
    apart = spans.start[order][1:] >= spans.end[order][:-1]
    return len(spans) >= _FEWEST and bool((apart & (np.diff(numbers[order]) > 0)).all())


@dataclass(frozen=True)
class Marks:
    """The ends of a process's steps, in order: on the GPU, and when their launches returned.

    `returned` is MISSING where a launch is not known.
    """

    pid: int
    end: Array
    returned: Array


@cached_whole
def marks(timeline: Timeline, rule: StepRule) -> list[Marks]:
    """Return where steps end that a kernel or a graph ends, by process.

    On several devices of a process the n-th step ends with the last of their n-th such kernels or graphs.
    """
    timeline = timeline.whole
    which, ops, owner = _ending(timeline, rule), timeline.ops, timeline.owner
    returned = np.full(len(which), MISSING)
    linked = owner[which] >= 0
    returned[linked] = timeline.calls.end[owner[which][linked]]
    found = []
    for pid in distinct(ops.pid[which]).tolist():
        mine = np.flatnonzero(ops.pid[which] == pid)
        group, (devices,) = factorize(ops.device[which[mine]])
        each = [mine[members] for members in by_group(group, len(devices))]
        each = [members[np.argsort(ops.end[which[members]], kind="stable")] for members in each]
        count = min(map(len, each))
        end = np.max([ops.end[which[members[:count]]] for members in each], axis=0)
        back = np.max([returned[members[:count]] for members in each], axis=0)
        found.append(Marks(pid, end, back))
    return found


def _ending(timeline: Timeline, rule: StepRule) -> Array:
    # The operations that end a step, as indices.
    ops = timeline.ops
    if rule.kernel is not None:
        fits = regular_expression(rule.kernel)
        rows, names = kernel_names(timeline)
        fitting = np.array([bool(name and fits.search(name)) for name in names], bool)
        kernels = np.flatnonzero((ops.kind == OpKind.KERNEL) & ops.timed)
        return kernels[take(fitting, take(rows, ops.row[kernels]))] if len(names) else kernels
    # A replay ends with the last of its operations on each device.
    found = graphs(timeline)
    order = np.lexsort((found.ops.end, found.ops.device, found.replay))
    order = order[found.ops.timed[order]]
    replay, device = found.replay[order], found.ops.device[order]
    last = np.ones(len(order), bool)
    last[:-1] = (np.diff(replay) != 0) | (np.diff(device) != 0)
    return np.sort(found.place[order[last]])


def step_names(timeline: Timeline, rule: StepRule) -> Iterator[str]:
    """Yield the pattern that names of steps fit, if ranges are steps."""
    found = resolved(timeline, rule)
    if found.range is not None:
        yield found.range
