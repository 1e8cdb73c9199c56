"""Steps of a program, and what each instant of them went to (docs/definitions/steps.md)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysconv import codes, schema
from nsysconv.facts import Fact
from nsysconv.report import MISSING
from nsysconv.timeline.annotations import (
    OPERATOR,
    count_named,
    name_pattern,
    operators,
    ranges,
    which_named,
)
from nsysconv.timeline.arrays import Array, by_group, counts, distinct, factorize, sums, take
from nsysconv.timeline.events import ApiCalls, GpuOps, OpKind, Spans
from nsysconv.timeline.intervals import union, union_with
from nsysconv.timeline.kernel_categories import communicates
from nsysconv.timeline.slices import ANY_STEPS, StepRule
from nsysconv.timeline.step_rules import FRAMEWORKS, marks, resolved, step_names
from nsysconv.timeline.timeline import Timeline, cached_small, cached_whole, cached_whole_small
from nsysconv.timeline.windows import Window

WHOLE = "[whole profile]"
"""The step that covers all of a process where no step was annotated."""

BETWEEN = "[between steps]"
"""Name of the time between the steps of a process. It is no step."""

STEP_FACTS = frozenset({Fact.RANGES, Fact.OPERATORS})
"""Facts that steps are made from: either is enough."""

CLASSES = ("kernel", "memcpy", "memset", "communication", "runtime", "data_loader", "cpu")
"""Classes of an instant, in the order that decides; what is in none of them is `other`."""

_COMMUNICATION = re.compile(r"gloo:", re.IGNORECASE)
DATA_LOADER = re.compile(r"enumerate\((DataLoader\)#.*\.__next__|DataPipe\)#)")
"""Names of ranges and operators in which PyTorch waits for input: a class of a step."""
_INPUT = re.compile(
    # PyTorch, also as a Python function; Lightning; tf.data and Keras; MXNet.
    rf"{DATA_LOADER.pattern}|torch/utils/data/dataloader\.py\(\d+\): __next__"
    r"|(?:dataloader|\bval|\bpredict)_next\b|\bIteratorGetNext|\bIterator(?:V2)?::|\bDataIter\w*\.next\b"
)
# Every such name holds one of these, which is sooner seen: of ranges there may be a million names.
_OF_INPUT = ("next", "Iterator", "DataPipe")


@dataclass(frozen=True)
class Steps:
    """The steps of one process, in time order; they do not overlap.

    `name` is the annotation's text and `occurrence` counts, from 1, the steps of one name. `within` is
    the window that they are cut to, if it is not all of the time from a step's start to its end.
    """

    pid: int
    name: list[str]
    occurrence: list[int]
    start: Array
    end: Array
    within: Window | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.start)

    @property
    def lengths(self) -> Array:
        """Return how long each step is."""
        return self.added(lambda start, end: end - start)

    def added(self, of: Callable[[Array, Array], Array]) -> Array:
        """Return per step what `of` gives for it, or for its parts in the window, added up."""
        if self.within is None:
            return of(self.start, self.end)
        return self.within.added(of, self.start, self.end)

    def clipped(self, window: Window | None) -> Steps:
        """Return the steps that intersect a window, of each what lies inside; None: all of them."""
        if window is None:
            return self
        pieces = window.pieces(self.start, self.end)
        kept, first, last = _first_and_last(pieces.interval)
        cut = replace(self.take(kept), start=pieces.starts[first], end=pieces.ends[last])
        return cut if window.parts is None else replace(cut, within=window)

    def take(self, which: Array) -> Steps:
        """Return the steps at these indices."""
        name, occurrence = [self.name[i] for i in which], [self.occurrence[i] for i in which]
        return replace(
            self, name=name, occurrence=occurrence, start=self.start[which], end=self.end[which]
        )

    def between(self) -> Steps:
        """Return the times from one step to the next, where there is any, as if they were steps."""
        rest = replace(self, start=self.end[:-1], end=self.start[1:])
        some = np.flatnonzero((rest.end > rest.start) & (rest.lengths > 0))
        name, occurrence = [BETWEEN] * len(some), list(range(1, len(some) + 1))
        start, end = rest.start[some], rest.end[some]
        return replace(self, name=name, occurrence=occurrence, start=start, end=end)

    def and_these(self, others: Steps) -> Steps:
        """Return these and then others of the same process."""
        start = np.concatenate((self.start, others.start))
        end = np.concatenate((self.end, others.end))
        name, occurrence = self.name + others.name, self.occurrence + others.occurrence
        return replace(self, name=name, occurrence=occurrence, start=start, end=end)


def waits_for_input(name: str) -> bool:
    """Return whether a framework waits for input in a range or an operator of this name."""
    return any(word in name for word in _OF_INPUT) and _INPUT.search(name) is not None


@cached_whole
def steps(timeline: Timeline, rule: StepRule = ANY_STEPS) -> list[Steps]:
    """Return the steps of each process; no process without steps is in the list.

    A range or operator that is a step lasts to the end of the last GPU operation launched in it, on any
    thread of the process, and begins where the one before has ended. A step that a kernel or a graph ends
    begins where the one before ended; what is before the first end is no step.
    """
    rule = resolved(timeline, rule)
    if rule.range is not None:
        fits = name_pattern(rule.range).fullmatch
        return [by_launches(timeline, mine) for mine in named_steps(timeline, fits)]
    if not rule:
        return []
    return [_numbered(each.pid, each.end) for each in marks(timeline, rule) if len(each.end) > 1]


def by_launches(timeline: Timeline, mine: Steps) -> Steps:
    """Return annotated steps of a process as they lasted: each to the end of what was launched in it.

    Each begins where the one before has ended, so that they do not overlap.
    """
    # What makes a step is not for a slice to say.
    start, end = mine.start, mine.end
    reach = np.maximum(end, _last_ends(timeline.whole, mine.pid, start, end))
    # Each begins at the latest end of all before it, and none ends before it begins.
    before = np.maximum.accumulate(reach)[:-1]
    start = np.concatenate((start[:1], np.maximum(start[1:], before)))
    return replace(mine, start=start, end=np.maximum(reach, start))


def whole_profile(timeline: Timeline) -> list[Steps]:
    """Return per process one step from the first to the last of what it did, migrations left out."""
    return [
        Steps(pid, [WHOLE], [1], np.array([low]), np.array([high]))
        for pid, low, high in _extents(timeline.whole)
    ]


def annotated(timeline: Timeline, rule: StepRule = ANY_STEPS) -> list[Steps]:
    """Return the steps as threads saw them: from an annotation's begin to its end. They may overlap.

    Of those that a kernel or a graph ends it is from the end of one launch to that of the next; where
    launches are not known it is when they were on the GPU.
    """
    rule = resolved(timeline, rule)
    if rule.range is not None:
        return named_steps(timeline, name_pattern(rule.range).fullmatch)
    if not rule:
        return []
    return [
        _numbered(each.pid, np.sort(each.returned if (each.returned >= 0).all() else each.end))
        for each in marks(timeline, rule)
        if len(each.end) > 1
    ]


def _numbered(pid: int, edges: Array) -> Steps:
    count = len(edges) - 1
    names = [f"step {number}" for number in range(1, count + 1)]
    return Steps(pid, names, [1] * count, edges[:-1], edges[1:])


def named_steps(
    timeline: Timeline, fits: Callable[[str], object], *, by_thread: bool = False
) -> list[Steps]:
    """Return as `annotated` the ranges and operators of each process, or thread, whose names fit."""
    parts = [spans.take(which_named(spans, fits)) for spans in _annotations(timeline)]
    pid, tid, start, end = (
        np.concatenate([getattr(spans, column) for spans in parts])
        for column in ("pid", "tid", "start", "end")
    )
    name = [spans.names[i] for spans in parts for i in spans.name.tolist()]
    group, (pids, _) = factorize(pid, tid if by_thread else np.zeros_like(tid))
    found = []
    for of, mine in zip(pids.tolist(), by_group(group, len(pids)), strict=True):
        order = mine[np.lexsort((end[mine], start[mine]))]
        names = [name[i] for i in order.tolist()]
        found.append(Steps(of, names, occurrences(names), start[order], end[order]))
    return found


def step_names_at(timeline: Timeline, rule: StepRule, pid: int, moments: Array) -> list[str | None]:
    """Return the step of a process at each moment of the host, by its name, as annotated; None: in none.

    Of several that overlap it is the one that began last.
    """
    mine = [each for each in annotated(timeline, rule) if each.pid == pid]
    at = places(mine, np.full(len(moments), pid), moments).tolist()
    return [mine[0].name[place] if place >= 0 else None for place in at]


@cached_small
def step_count(timeline: Timeline, rule: StepRule = ANY_STEPS) -> int:
    """Return the most steps that one process has, of those in the slice; 0: no step is annotated in it.

    Without a slice that is a time, annotations are counted, and nothing is read to find when a step ends.
    """
    rule = resolved(timeline, rule)
    if rule.range is None or not STEP_FACTS & timeline.profile.facts:
        return max(map(len, in_slice(timeline, steps(timeline, rule))), default=0) if rule else 0
    annotation_counts = _annotation_counts(timeline, rule.range)
    pids = np.array(list(annotation_counts), np.int64)
    if timeline.window(pids[:0]) is not None and annotation_counts:
        return max(map(len, in_slice(timeline, steps(timeline, rule))), default=0)
    here = pids[timeline.in_processes(pids)].tolist()
    return max((annotation_counts[pid] for pid in here), default=0)


def in_slice(timeline: Timeline, found: list[Steps]) -> list[Steps]:
    """Return the steps cut to the slice; a process in the slice is kept even if it has no step left."""
    kept = []
    for mine in found:
        process = np.array([mine.pid])
        if timeline.in_processes(process).all():
            kept.append(mine.clipped(timeline.window(process)))
    return kept


def uncut_by_slice(timeline: Timeline, found: list[Steps]) -> list[Steps]:
    """Return of these steps those that the slice holds whole; of processes that have any."""
    kept = []
    for mine in found:
        process = np.array([mine.pid])
        window = timeline.window(process) or Window(int(mine.start.min()), int(mine.end.max()))
        inside = timeline.in_processes(process) & window.holds(mine.start, mine.end)
        if inside.any():
            kept.append(mine.take(np.flatnonzero(inside)))
    return kept


@cached_whole_small
def _annotation_counts(timeline: Timeline, pattern: str) -> dict[int, int]:
    return count_named(timeline.whole, pattern)


def _annotations(timeline: Timeline) -> tuple[Spans, Spans]:
    # Both ranges and operators may be steps, or work of the CPU.
    run = operators(timeline)
    return ranges(timeline), run.take(run.kind == OPERATOR)


def _first_and_last(groups: Array) -> tuple[Array, Array, Array]:
    # The result has each number once, where it comes first, and where last. The numbers are in order.
    changes = np.flatnonzero(np.diff(groups))
    first, last = np.append(0, changes + 1), np.append(changes, len(groups) - 1)
    some = slice(0, None if len(groups) else 0)
    first, last = first[some], last[some]
    return groups[first], first, last


def occurrences(names: list[str]) -> list[int]:
    """Return per name how often it has occurred, from 1."""
    seen: Counter[str] = Counter()
    occurrence = []
    for name in names:
        seen[name] += 1
        occurrence.append(seen[name])
    return occurrence


def _last_ends(timeline: Timeline, pid: int, start: Array, end: Array) -> Array:
    # The result has, per interval, the end of the last operation whose call starts in it, else its own
    # end.
    if timeline.clocks_disagree:
        return end
    ops, owner = timeline.ops, timeline.owner
    mine = np.flatnonzero((owner >= 0) & ops.timed & (ops.pid == pid))
    called = timeline.calls.start[owner[mine]]
    order = np.argsort(called, kind="stable")
    called, ended = called[order], ops.end[mine[order]]
    low, high = (np.searchsorted(called, moments, side="left") for moments in (start, end))
    some = high > low
    result = end.copy()
    if some.any():
        # reduceat works on pairs of edges: every second maximum is that of an interval, the others are
        # between intervals.
        edges = np.column_stack((low[some], high[some])).ravel()
        padded = np.append(ended, MISSING)
        result[some] = np.maximum.reduceat(padded, edges)[::2]
    return result


def extent(timeline: Timeline) -> tuple[int, int] | None:
    """Return the time from the first start to the last end of what processes did, migrations left out."""
    found = extents(timeline).values()
    if not found:
        return None
    return min(start for start, _ in found), max(end for _, end in found)


@cached_whole_small
def extents(timeline: Timeline) -> Mapping[int, tuple[int, int]]:
    """Return the same by process, of those with operations, calls, ranges or operators."""
    return {pid: (start, end) for pid, start, end in _extents(timeline.whole)}


def _extents(timeline: Timeline) -> Iterator[tuple[int, int, int]]:
    ops = timeline.ops
    parts: list[GpuOps | ApiCalls | Spans] = [timeline.calls, *_annotations(timeline)]
    if not timeline.clocks_disagree:
        parts.append(ops.take(ops.timed & (ops.kind != OpKind.MIGRATION)))
    for pid in distinct(np.concatenate([distinct(part.pid) for part in parts])).tolist():
        mine = [part.pid == pid for part in parts]
        starts = [take(p.start, m).min() for p, m in zip(parts, mine, strict=True) if m.any()]
        ends = [take(p.end, m).max() for p, m in zip(parts, mine, strict=True) if m.any()]
        yield pid, int(min(starts)), int(max(ends))


def class_times(timeline: Timeline, found: Steps, rule: StepRule = ANY_STEPS) -> dict[str, Array]:
    """Return per class of CLASSES, and `other`, the time of each step; they add up to the steps' lengths.

    An instant goes to the first class of which something runs in the process. Ranges and operators
    that are steps themselves are nobody's work.
    """
    result = {}
    covered = np.zeros(len(found), np.int64)
    so_far = union(np.empty(0, np.int64), np.empty(0, np.int64))
    for name, more in _classes(timeline, found.pid, rule):
        for of, which in more:
            so_far = union_with(so_far, of.start, of.end, which)
        now = found.added(so_far.covered)
        result[name] = now - covered
        covered = now
    result["other"] = found.lengths - covered
    return result


def _classes(
    timeline: Timeline, pid: int, rule: StepRule
) -> Iterator[tuple[str, list[tuple[GpuOps | ApiCalls | Spans, Array | None]]]]:
    # The classes in order, each with what is of it: of columns those of a mask, None: all.
    ops, calls = timeline.ops, timeline.calls
    timed = ops.timed & (ops.pid == pid)
    talks = timed & communicates(timeline)
    works = timed & ~talks & ((ops.kind == OpKind.KERNEL) | (ops.kind == OpKind.GRAPH))
    yield "kernel", [(ops, works)]
    yield "memcpy", [(ops, timed & (ops.kind == OpKind.MEMCPY))]
    yield "memset", [(ops, timed & (ops.kind == OpKind.MEMSET))]
    # A framework's steps are no work, whatever else is called a step.
    step = name_pattern(FRAMEWORKS[0], *step_names(timeline, rule)).fullmatch
    host = [
        spans.take((spans.pid == pid) & ~which_named(spans, step) & timeline.holds(spans))
        for spans in _annotations(timeline)
    ]
    talking = [(spans, which_named(spans, _COMMUNICATION.match)) for spans in host]
    yield "communication", [(ops, talks), *talking]
    yield "runtime", [(calls, timeline.calls_in_slice & (calls.pid == pid))]
    yield "data_loader", [(spans, which_named(spans, DATA_LOADER.match)) for spans in host]
    yield "cpu", [(spans, None) for spans in host]


def lost_in_steps(timeline: Timeline, rule: StepRule = ANY_STEPS) -> int | None:
    """Return how many launches in steps have no recorded work; None where there are no steps."""
    found = annotated(timeline, rule)
    if not found:
        return None
    whole = timeline.whole
    lost = whole.lost_launches
    pid, start = whole.calls.pid[lost], whole.calls.start[lost]
    return int(np.count_nonzero(places(found, pid, start) >= 0))


Key = tuple[Any, ...]

MIN_STEPS = 20
"""Fewer steps give no samples: they would not separate a change from noise."""


@dataclass(frozen=True)
class Samples:
    """One row of `values` per key, one column per step, as int64; no key is there twice.

    `counts`: how many operations each value adds up; None where it is not a sum of operations.

    Column k adds up the k-th steps of all processes: these go through their steps together, so what
    disturbs one disturbs the others. There are as many columns as the process with the most steps has
    steps; a row's sum over the columns is thus all that happened in steps.
    """

    keys: list[Key]
    values: Array
    counts: Array | None = None


def kernel_sums(timeline: Timeline, rule: StepRule = ANY_STEPS) -> Samples | None:
    """Return time of the kernels launched in each step, per device id (None: not recorded) and name.

    A kernel belongs to the step of its process in which its API call starts; without a call, to the
    one in which it starts itself, or to none where the clocks of CPU and GPU disagree. Kernels
    without a time, or in no step, are in no row. None where there are too few steps.
    """
    found = _enough(timeline, rule)
    if found is None:
        return None
    ops = timeline.ops
    kernels = np.flatnonzero((ops.kind == OpKind.KERNEL) & ops.timed)
    step = _steps_of_ops(timeline, kernels, found, _on_host(timeline, rule, found))
    kernels, step = kernels[step >= 0], step[step >= 0]
    name_id = timeline.profile.columns("kernel", ("name_id",))["name_id"]
    of_kernel = take(name_id, ops.row[kernels])
    group, (devices, name_ids) = factorize(take(ops.device, kernels), of_kernel)
    texts = timeline.profile.names(name_ids)
    pairs = zip(devices.tolist(), name_ids.tolist(), strict=True)
    keys: list[Key] = [(None if d == MISSING else d, texts[name]) for d, name in pairs]
    spent = ops.end[kernels] - ops.start[kernels]
    return _table(keys, group, step, spent, _length(found))


def steps_of_ops(timeline: Timeline, rule: StepRule, which: Array) -> Array:
    """Return the place of operations, by their indices, among the steps of their process; -1: in none.

    An operation belongs to the step in which its API call starts; without a call, to the one in which
    it starts itself, or to none where the clocks of CPU and GPU disagree.
    """
    return _steps_of_ops(timeline, which, steps(timeline, rule), annotated(timeline, rule))


def _steps_of_ops(
    timeline: Timeline, which: Array, found: list[Steps], on_host: list[Steps]
) -> Array:
    # The host may be several steps ahead of the GPU: where the call is known, its start decides.
    ops = timeline.ops
    pid, owner = ops.pid[which], timeline.owner[which]
    step = np.full(len(which), -1, np.int64)
    if not timeline.clocks_disagree:
        step = places(found, pid, ops.start[which])
    called = np.flatnonzero(owner >= 0)
    step[called] = places(on_host, pid[called], timeline.calls.start[owner[called]])
    return step


def steps_of_rows(
    timeline: Timeline, table: str
) -> Iterator[tuple[int, int, str | None, int | None]]:
    """Yield the steps of a table's events, in runs of events of a process that follow each other there.

    A run is the process, the first row from 0, and the step's name and occurrence; None: in no step.
    """
    of_process = {mine.pid: mine for mine in annotated(timeline)}
    if not of_process or not timeline.profile.row_count(table):
        return
    columns = timeline.profile.columns(table, ("pid", "start_ns"))
    if table in schema.GPU_OP_TABLES:
        mine = np.flatnonzero(timeline.ops.kind == schema.GPU_OP_TABLES.index(table))
        step = np.full(len(columns["pid"]), -1, np.int64)
        step[timeline.ops.row[mine]] = steps_of_ops(timeline, ANY_STEPS, mine)
    else:
        step = places(annotated(timeline), columns["pid"], columns["start_ns"])
    order = np.argsort(columns["pid"], kind="stable")
    pid, step = columns["pid"][order], step[order]
    is_first = np.ones(len(pid), bool)
    is_first[1:] = (np.diff(pid) != 0) | (np.diff(step) != 0)
    for of, row, place in zip(
        *(each[is_first].tolist() for each in (pid, order, step)), strict=True
    ):
        if place < 0:
            yield of, row, None, None
        else:
            yield of, row, of_process[of].name[place], of_process[of].occurrence[place]


def call_sums(timeline: Timeline, rule: StepRule = ANY_STEPS) -> Samples | None:
    """Return time of the API calls that start in each step, by layer (None: not recorded) and name.

    Calls inside other calls count, too. None where there are too few steps.
    """
    found = _enough(timeline, rule)
    if found is None:
        return None
    calls = timeline.calls
    step = places(_on_host(timeline, rule, found), calls.pid, calls.start)
    inside = np.flatnonzero((step >= 0) & timeline.calls_in_slice)
    group, (layers, name_ids) = factorize(take(calls.layer, inside), take(calls.name_id, inside))
    pairs, names = zip(layers.tolist(), name_ids.tolist(), strict=True), timeline.call_names
    keys: list[Key] = [(_layer(layer), names[name]) for layer, name in pairs]
    spent = calls.end[inside] - calls.start[inside]
    return _table(keys, group, step[inside], spent, _length(found))


def step_durations(timeline: Timeline, rule: StepRule = ANY_STEPS) -> Samples | None:
    """Return how long each step took, in one row with the key (); None where there are too few steps."""
    return _of_steps(timeline, rule, lambda mine: mine.end - mine.start)


def step_periods(timeline: Timeline, rule: StepRule = ANY_STEPS) -> Samples | None:
    """Return as `step_durations` how long after a step's begin the next began; of the last its length."""
    return _of_steps(timeline, rule, lambda mine: np.diff(mine.start, append=mine.end[-1:]))


def _of_steps(
    timeline: Timeline, rule: StepRule, lengths: Callable[[Steps], Array]
) -> Samples | None:
    found = _enough(timeline, rule)
    if found is None:
        return None
    values = np.zeros((1, _length(found)), np.int64)
    for mine in found:
        values[0, : len(mine)] += lengths(mine)
    return Samples([()], values)


def _enough(timeline: Timeline, rule: StepRule) -> list[Steps] | None:
    # A part of a step says less than a step.
    found = uncut_by_slice(timeline, steps(timeline, rule))
    return found if _length(found) >= MIN_STEPS else None


def _on_host(timeline: Timeline, rule: StepRule, found: list[Steps]) -> list[Steps]:
    # The same steps as threads saw them.
    of_host = {each.pid: each for each in annotated(timeline, rule)}
    result = []
    for mine in found:
        host = of_host[mine.pid]
        place = {key: i for i, key in enumerate(zip(host.name, host.occurrence, strict=True))}
        same = [place[key] for key in zip(mine.name, mine.occurrence, strict=True)]
        result.append(host.take(np.array(same, np.int64)))
    return result


def _length(found: list[Steps]) -> int:
    return max(map(len, found), default=0)


def places(found: list[Steps], pid: Array, moment: Array) -> Array:
    """Return per moment of a process which of its steps contains it, from 0, or -1.

    Of several that overlap it is the one that began last.
    """
    place = np.full(len(moment), -1, np.int64)
    for mine in found:
        here = np.flatnonzero(pid == mine.pid)
        # If steps start together, the last is the longest, and the search finds it.
        at = np.searchsorted(mine.start, moment[here], side="right") - 1
        reach, now = np.maximum.accumulate(mine.end), moment[here]
        # Over those that are past, to an earlier one that is not.
        while len(past := np.flatnonzero((mine.end[at] <= now) & (reach[at] > now) & (at >= 0))):
            at[past] -= 1
        inside = (at >= 0) & (now < mine.end[at])
        place[here[inside]] = at[inside]
    return place


def _layer(code: int) -> str | None:
    return codes.API_LAYERS[code] if 0 <= code < len(codes.API_LAYERS) else None


def _table(keys: list[Key], group: Array, step: Array, spent: Array, length: int) -> Samples:
    # `group` is a place in `keys`. Groups of equal keys are one row: two ids may stand for one name.
    rows: dict[Key, int] = {}
    row_of = np.array([rows.setdefault(key, len(rows)) for key in keys], np.int64)
    values = np.zeros((len(rows), length), np.int64)
    counted = np.zeros_like(values)
    if len(spent):
        # Only the cells that hold something are counted: there may be many more of the others.
        cell, (filled,) = factorize(row_of[group] * length + step)
        values.reshape(-1)[filled] = sums(cell, spent, len(filled))
        counted.reshape(-1)[filled] = counts(cell, len(filled))
    return Samples(list(rows), values, counted)
