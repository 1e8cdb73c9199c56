"""Named intervals nested on their threads: who lies in whom, how deep, and what is left to each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.cache import cached_property
from nsysconv.timeline.annotations import Spans
from nsysconv.timeline.calls import by_group, number_threads
from nsysconv.timeline.groups import counts, sums
from nsysconv.timeline.nesting import MOST_LEVELS, parents
from nsysconv.timeline.statistics import number

Array = np.ndarray


@dataclass(frozen=True)
class Tree:
    """Spans thread by thread, each thread's by start, the longest first: a parent is before its children.

    `parent` is the place in `spans` of the innermost one of its thread that holds a span's start, -1
    for none; `level` counts them all, 0 for the outermost. A span that crosses the end of its parent
    counts as inside it.
    """

    spans: Spans
    parent: Array
    level: Array

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def child_count(self) -> Array:
        """Direct children of each."""
        return counts(self.parent[self.parent >= 0], len(self))

    @cached_property
    def child_ns(self) -> Array:
        """Durations of the direct children of each, added up."""
        inside = self.parent >= 0
        dur = (self.spans.end - self.spans.start)[inside]
        return sums(self.parent[inside], dur, len(self))

    @cached_property
    def paths(self) -> Paths:
        """Which names lead to each span."""
        levels = int(self.level.max(initial=-1)) + 1
        numbered = _level_by_level if levels <= MOST_LEVELS else _one_by_one
        return Paths(*numbered(self.parent, self.level, self.spans.name))


@dataclass(frozen=True)
class Paths:
    """The distinct paths of a tree, numbered from 0, a parent before its children.

    `of` is the number of each span's path; by number, `parent` is the path without its last name, -1
    for none, and `name` the number of that name.
    """

    of: Array
    parent: Array
    name: Array

    def __len__(self) -> int:
        return len(self.name)

    @cached_property
    def level(self) -> Array:
        """How many names are before each path's last."""
        return _levels(self.parent)

    def depth_first(self, total: Array) -> Array:
        """The paths, each followed by those inside, siblings by their totals, largest first."""
        siblings = np.lexsort((self.name, -total, self.parent))
        edges = np.searchsorted(self.parent[siblings], np.arange(-1, len(self) + 1)).tolist()
        backwards = siblings[::-1].tolist()
        count = len(self)
        order: list[int] = []
        waiting = [-1]
        while waiting:
            path = waiting.pop()
            order.append(path)
            waiting += backwards[count - edges[path + 2] : count - edges[path + 1]]
        return np.array(order[1:], np.int64)


def _level_by_level(parent: Array, level: Array, names: Array) -> tuple[Array, Array, Array]:
    """The paths of spans: that of each; the parent and the name of each path."""
    of = np.zeros(len(parent), np.int64)
    parts: list[tuple[Array, Array]] = [(np.empty(0, np.int64),) * 2]
    count = 0
    for here in by_group(level, int(level.max(initial=-1)) + 1):
        above = of[parent[here]] if count else np.full(len(here), -1)
        place, (parents_, found) = number(above, names[here])
        of[here] = count + place
        parts.append((parents_, found))
        count += len(found)
    above, name = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return of, above, name


def _one_by_one(parent: Array, level: Array, names: Array) -> tuple[Array, Array, Array]:
    """The same; its time does not depend on how deep they nest."""
    known: dict[tuple[int, int], int] = {}
    of: list[int] = []
    for above, name in zip(parent.tolist(), names.tolist(), strict=True):
        of.append(known.setdefault((of[above] if above >= 0 else -1, name), len(known)))
    columns = np.array(list(known), np.int64).reshape(-1, 2)
    return np.array(of, np.int64), columns[:, 0], columns[:, 1]


def nested(spans: Spans, apart: Array | None = None) -> Tree:
    """The spans as a tree per thread; those of the mask `apart` lie in nobody, and nobody in them."""
    order, parent, level = [], [], []
    nesting = np.arange(len(spans)) if apart is None else np.flatnonzero(~apart)
    thread, threads = number_threads(spans.pid[nesting], spans.tid[nesting])
    before = 0
    for which in by_group(thread, len(threads)):
        members = nesting[which]
        start, end = spans.start[members], spans.end[members]
        at = np.lexsort((-end, start))
        inside, _ = parents(start[at], end[at])
        order.append(members[at])
        parent.append(np.where(inside >= 0, inside + before, -1))
        level.append(_levels(inside))
        before += len(members)
    if apart is not None:
        alone = np.flatnonzero(apart)
        order.append(alone)
        parent.append(np.full(len(alone), -1))
        level.append(np.zeros(len(alone), np.int64))
    nothing = np.empty(0, np.int64)
    return Tree(
        spans.take(np.concatenate((nothing, *order))),
        np.concatenate((nothing, *parent)),
        np.concatenate((nothing, *level)),
    )


def _levels(parent: Array) -> Array:
    """How many each lies in. In each round everybody sees twice as far up."""
    level = (parent >= 0).astype(np.int64)
    above = parent.copy()
    while True:
        some = np.flatnonzero(above >= 0)
        if not len(some):
            return level
        level[some] += level[above[some]]
        above[some] = above[above[some]]
