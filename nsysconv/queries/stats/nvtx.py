"""NVTX ranges as `nsys stats` takes them: how they are named, when they end, how they nest.

Formulas, and where these differ from those of nsys: docs/nsys-stats.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nsysconv.queries.stats.summary import Sum, most_first, sums
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline import annotations as told
from nsysconv.timeline.annotations import PUSH_POP, START_END, domain_names
from nsysconv.timeline.arrays import blocks, by_group, factorize, indices, take
from nsysconv.timeline.events import Spans, number_threads
from nsysconv.timeline.nesting import MAX_PATH_LENGTH, Tree, build_tree, path_texts
from nsysconv.timeline.projection import Projection, projection
from nsysconv.timeline.timeline import Timeline, cached_whole
from nsysconv.units import Unit

Array = np.ndarray

STYLES = {PUSH_POP: "PushPop", START_END: "StartEnd"}
"""What the kinds of ranges are called."""

NAME = "The range: its domain, `:` and its text; without a domain where that is the default one."
STYLE = "PushPop, or StartEnd."
INSTANCES = Column("range_count", Unit.COUNT, "Ranges.", printed=Printed("Instances"))
RANGE = Column("name", Unit.TEXT, NAME, key=True, printed=Printed("Range"))
STACK = (
    "Numbers of the ranges that it lies in, outermost first, and its own. "
    f"Of more than {MAX_PATH_LENGTH} characters the middle is left out."
)
RANGE_ID = "Number of the range in its profile, from 1, in the order of the source."


@cached_whole
def ranges(timeline: Timeline) -> Spans:
    """All ranges, also those outside a slice, named `domain:text` (`:text` in the default domain).

    One that was never closed ends at the last time of any range or mark of the profile.
    """
    whole = timeline.whole
    spans = told.ranges(whole)
    if not len(spans):
        return spans
    column = whole.profile.columns("range", ("start_ns", "dur_ns"))
    start, dur = column["start_ns"], column["dur_ns"]
    timed = start != MISSING
    last = int((start + np.where(dur == MISSING, 0, dur))[timed].max())
    unclosed = dur[spans.row] == MISSING
    end = np.where(unclosed, last, spans.end)
    known = domain_names(whole.profile)
    pairs, (pids, domains, names) = factorize(spans.pid, spans.domain, spans.name)
    numbers: dict[str, int] = {}
    labelled = [
        numbers.setdefault(f"{known.get((pid, domain), '')}:{spans.names[name]}", len(numbers))
        for pid, domain, name in zip(pids.tolist(), domains.tolist(), names.tolist(), strict=True)
    ]
    name = np.array(labelled, np.int64)[pairs]
    return replace(spans, end=end, name=name, names=tuple(numbers))


def held(timeline: Timeline) -> Array:
    """Which of `ranges` belong to the slice, as a mask."""
    # By their texts alone: a pattern that somebody gives knows nothing of domains in front.
    return timeline.holds(told.ranges(timeline))


def sums_by_name(timeline: Timeline, *kinds: int) -> list[Sum]:
    """Durations of the slice's ranges of these kinds, by style and name, most time first."""
    spans = ranges(timeline)
    spans = spans.take(held(timeline) & np.isin(spans.kind, kinds))
    group, (names, styles) = factorize(spans.name, spans.kind)
    labels = [
        (STYLES[style], spans.names[name])
        for name, style in zip(names.tolist(), styles.tolist(), strict=True)
    ]
    return most_first(sums(group, spans.end - spans.start, labels))


def push_pop(timeline: Timeline) -> tuple[Tree, Array]:
    """The push/pop ranges of all threads as a tree, and which of them belong to the slice."""
    tree = _push_pop_tree(timeline)
    return tree, _in_slice(timeline, tree)


@cached_whole
def _push_pop_tree(timeline: Timeline) -> Tree:
    spans = ranges(timeline)
    return _contained(build_tree(spans.take(np.flatnonzero(spans.kind == PUSH_POP))))


def on_own_thread(timeline: Timeline) -> tuple[Tree, Array]:
    """The ranges that were closed on the thread that opened them, as a tree, and which of them belong
    to the slice: those on which GPU work is projected."""
    tree = _own_thread_tree(timeline)
    return tree, _in_slice(timeline, tree)


@cached_whole
def _own_thread_tree(timeline: Timeline) -> Tree:
    spans = ranges(timeline)
    end_tid = timeline.profile.columns("range", ("end_tid",))["end_tid"][spans.row]
    own = (end_tid == MISSING) | (end_tid == spans.tid)
    return _contained(build_tree(spans.take(np.flatnonzero(own))))


def launching(timeline: Timeline, spans: Spans) -> Iterator[tuple[Array, Array]]:
    """Per thread the places of its ranges in `spans`, and the calls that launched an operation of the
    slice there, by their starts, as indices of `calls`."""
    calls = timeline.calls
    launched = np.zeros(len(calls) + 1, bool)
    for block in blocks(len(timeline.owner)):
        launched[timeline.owner[block]] = True
    which = indices(launched[:-1])  # owner -1 wrote into the one behind
    thread_of = take(calls.thread, which)
    members = dict(zip(calls.threads, by_group(thread_of, len(calls.threads), which), strict=True))
    for thread, places in by_thread(spans).items():
        if thread[1] != MISSING and thread in members:
            yield places, members[thread]


def by_thread(spans: Spans) -> dict[tuple[int, int], Array]:
    """(pid, tid) -> the places of the thread's ranges, in order."""
    numbers, threads = number_threads(spans.pid, spans.tid)
    return dict(zip(threads, by_group(numbers, len(threads)), strict=True))


def projected(timeline: Timeline, spans: Spans) -> Projection:
    """The projections of ranges: operations whose call, on the range's thread, lies wholly inside it."""
    # `projection` asks where calls start. The calls of a thread follow each other: what ends in time
    # are those before the first that does not.
    calls, end = timeline.calls, spans.end + 1
    for places, which in launching(timeline, spans):
        reach = np.maximum.accumulate(take(calls.end, which))
        late = np.searchsorted(reach, spans.end[places], side="right")
        some = late < len(which)
        places, late = places[some], late[some]
        end[places] = np.minimum(end[places], calls.start[which[late]])
    return projection(timeline, replace(spans, end=np.maximum(end, spans.start)))


def stacks(tree: Tree, ids: Array, shown: Array) -> list[str]:
    """Of the ranges at these places the ids of all that they lie in, outermost first, and their own:
    `:1:5:9`."""
    return path_texts(tree.parent, lambda place: f":{ids[place]}", shown, separator="")


def _in_slice(timeline: Timeline, tree: Tree) -> Array:
    spans = ranges(timeline)
    rows = np.zeros(int(spans.row.max(initial=-1)) + 1, bool)
    rows[spans.row] = held(timeline)
    in_slice: Array = rows[tree.spans.row]
    return in_slice


def _contained(tree: Tree) -> Tree:
    """The tree by what lies wholly in what: where ranges cross each other, the parent is the shortest
    range around a range."""
    spans, inside = tree.spans, np.flatnonzero(tree.parent >= 0)
    crossing = inside[spans.end[inside] > spans.end[tree.parent[inside]]]
    if not len(crossing):
        return tree
    parent, level = tree.parent.copy(), tree.level.copy()
    threads, places_of = number_threads(spans.pid, spans.tid)[0], by_thread(spans)
    for places in places_of.values():
        if np.isin(threads[places[0]], threads[crossing]):
            around = _shortest_around(spans.start[places], spans.end[places])
            parent[places] = np.where(around >= 0, places[around], -1)
            level[places] = _levels(around.tolist())
    return Tree(spans, parent, level)


def _shortest_around(start: Array, end: Array) -> Array:
    """Of intervals sorted by start, longest first, the shortest other one that each lies in; -1: none."""
    count = len(start)
    # An interval lies in those before it that end no earlier: a tree of least lengths by ends, the
    # latest first.
    ends = np.unique(end)
    place_of_end = (len(ends) - np.searchsorted(ends, end)).tolist()
    lengths = (end - start).tolist()
    nothing = (1 << 62, 1)
    least = [nothing] * (len(ends) + 1)
    around = []
    for own in range(count):
        found, at = nothing, place_of_end[own]
        while at:
            found = min(found, least[at])
            at &= at - 1
        around.append(-found[1])
        mine, at = (lengths[own], -own), place_of_end[own]
        while at <= len(ends):
            least[at] = min(least[at], mine)
            at += at & -at
    return np.array(around, np.int64)


def _levels(parent: list[int]) -> list[int]:
    level: list[int] = []
    for above in parent:
        level.append(level[above] + 1 if above >= 0 else 0)
    return level
