"""NVTX ranges as `nsys stats` takes them: how they are named, when they end, how they nest.

Formulas, and where these differ from those of nsys: docs/nsys-stats.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nsysconv.queries.columns import key_column
from nsysconv.queries.contract import Array
from nsysconv.report import MISSING
from nsysconv.timeline.annotations import PUSH_POP, START_END, domain_names, exact_ranges
from nsysconv.timeline.arrays import blocks, by_group, factorize, indices, take
from nsysconv.timeline.events import Spans, number_threads
from nsysconv.timeline.nesting import Tree, build_tree
from nsysconv.timeline.projection import Projection, projection
from nsysconv.timeline.timeline import Timeline, cached_whole

STYLES = {PUSH_POP: "PushPop", START_END: "StartEnd"}
"""Names of the kinds of ranges."""

NAME = key_column(
    "name",
    "Name of the range as `domain:text`, without the domain if it is the default one.",
)
STYLE = key_column("style", "Kind of range: PushPop or StartEnd.")


@cached_whole
def ranges(timeline: Timeline) -> Spans:
    """Return all ranges, also those outside a slice, named `domain:text` (`:text` by default).

    One that was never closed ends at the last time of any range or mark of the profile.
    """
    whole = timeline.whole
    spans = exact_ranges(whole)
    if not len(spans):
        return spans
    columns = whole.profile.columns("range", ("start_ns", "dur_ns"))
    start, dur = columns["start_ns"], columns["dur_ns"]
    timed = start != MISSING
    last = int((start + np.where(dur == MISSING, 0, dur))[timed].max())
    unclosed = dur[spans.row] == MISSING
    end = np.where(unclosed, last, spans.end)
    domains = domain_names(whole.profile)
    group, (pids, domain_ids, names) = factorize(spans.pid, spans.domain, spans.name)
    numbers: dict[str, int] = {}
    name_by_group = [
        numbers.setdefault(f"{domains.get((pid, domain), '')}:{spans.names[name]}", len(numbers))
        for pid, domain, name in zip(
            pids.tolist(), domain_ids.tolist(), names.tolist(), strict=True
        )
    ]
    name = np.array(name_by_group, np.int64)[group]
    return replace(spans, end=end, name=name, names=tuple(numbers))


def in_slice(timeline: Timeline) -> Array:
    """Return the mask of those of `ranges` that belong to the slice."""
    # By their texts alone: a user's pattern has no domains in front.
    return timeline.holds(exact_ranges(timeline))


@cached_whole
def push_pop_tree(timeline: Timeline) -> Tree:
    """Return the push/pop ranges of all threads as a tree."""
    spans = ranges(timeline)
    return _by_containment(build_tree(spans.take(np.flatnonzero(spans.kind == PUSH_POP))))


@cached_whole
def own_thread_tree(timeline: Timeline) -> Tree:
    """Return the ranges that were closed on the thread that opened them as a tree. GPU work is projected
    on these.
    """
    spans = ranges(timeline)
    end_tid = timeline.profile.columns("range", ("end_tid",))["end_tid"][spans.row]
    own = (end_tid == MISSING) | (end_tid == spans.tid)
    return _by_containment(build_tree(spans.take(np.flatnonzero(own))))


def tree_in_slice(timeline: Timeline, tree: Tree) -> Array:
    """Return the mask of those ranges of a tree that belong to the slice."""
    spans = ranges(timeline)
    rows = np.zeros(int(spans.row.max(initial=-1)) + 1, bool)
    rows[spans.row] = in_slice(timeline)
    selected: Array = rows[tree.spans.row]
    return selected


def by_thread(spans: Spans) -> dict[tuple[int, int], Array]:
    """Return (pid, tid) -> the places of the thread's ranges, in order."""
    numbers, threads = number_threads(spans.pid, spans.tid)
    return dict(zip(threads, by_group(numbers, len(threads)), strict=True))


def gpu_projection(timeline: Timeline, spans: Spans) -> Projection:
    """Return for each range the operations whose call, on its thread, lies wholly inside it."""
    # `projection` asks where calls start. The calls of a thread follow each other, so those that end in
    # time are the ones before the first that does not: its start is where the range is cut.
    calls, end = timeline.calls, spans.end + 1
    for places, launching in _launching_calls(timeline, spans):
        latest_end = np.maximum.accumulate(take(calls.end, launching))
        late = np.searchsorted(latest_end, spans.end[places], side="right")
        some = late < len(launching)
        places, late = places[some], late[some]
        end[places] = np.minimum(end[places], calls.start[launching[late]])
    return projection(timeline, replace(spans, end=np.maximum(end, spans.start)))


def _launching_calls(timeline: Timeline, spans: Spans) -> Iterator[tuple[Array, Array]]:
    """Yield for each thread the places of its ranges in `spans`, and its calls that launched an operation
    of the slice, by their starts, as indices of `calls`.
    """
    calls = timeline.calls
    launched = np.zeros(len(calls) + 1, bool)
    for block in blocks(len(timeline.owner)):
        launched[timeline.owner[block]] = True
    launching = indices(launched[:-1])  # owner -1 set the entry behind the last call
    thread = take(calls.thread, launching)
    groups = by_group(thread, len(calls.threads), launching)
    calls_by_thread = dict(zip(calls.threads, groups, strict=True))
    for key, places in by_thread(spans).items():
        if key[1] != MISSING and key in calls_by_thread:
            yield places, calls_by_thread[key]


def _by_containment(tree: Tree) -> Tree:
    """Return the tree by what lies wholly in what.

    Where ranges cross each other, the parent is the shortest range around a range.
    """
    spans, inside = tree.spans, np.flatnonzero(tree.parent >= 0)
    crossing = inside[spans.end[inside] > spans.end[tree.parent[inside]]]
    if not len(crossing):
        return tree
    parent = tree.parent.copy()
    thread = number_threads(spans.pid, spans.tid)[0]
    for places in by_thread(spans).values():
        if np.isin(thread[places[0]], thread[crossing]):
            around = _shortest_around(spans.start[places], spans.end[places])
            parent[places] = np.where(around >= 0, places[around], -1)
    return Tree(spans, parent)


def _shortest_around(start: Array, end: Array) -> Array:
    """Return the shortest other interval that each lies in, -1: none. Sorted by start, longest first."""
    count = len(start)
    # An interval lies in those before it that end no earlier. A Fenwick tree over the ends, the latest
    # first, holds the least (length, -place) of the intervals so far in each of its ranges.
    ends = np.unique(end)
    place_of_end = (len(ends) - np.searchsorted(ends, end)).tolist()
    lengths = (end - start).tolist()
    nothing = (1 << 62, 1)
    least = [nothing] * (len(ends) + 1)
    around = []
    for place in range(count):
        shortest, node = nothing, place_of_end[place]
        while node:
            shortest = min(shortest, least[node])
            node &= node - 1
        around.append(-shortest[1])
        entry, node = (lengths[place], -place), place_of_end[place]
        while node <= len(ends):
            least[node] = min(least[node], entry)
            node += node & -node
    return np.array(around, np.int64)
