"""Named intervals nested on their threads: who lies in whom, how deep, and what is left to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv.timeline.annotations import Spans
from nsysconv.timeline.calls import by_group, number_threads
from nsysconv.timeline.groups import counts, sums
from nsysconv.timeline.nesting import parents
from nsysconv.timeline.once import once
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

    @once
    def child_count(self) -> Array:
        """Direct children of each."""
        return counts(self.parent[self.parent >= 0], len(self))

    @once
    def child_ns(self) -> Array:
        """Durations of the direct children of each, added up."""
        inside = self.parent >= 0
        dur = (self.spans.end - self.spans.start)[inside]
        return sums(self.parent[inside], dur, len(self))

    @once
    def paths(self) -> Paths:
        """Which names lead to each span."""
        of = np.zeros(len(self), np.int64)
        parts: list[tuple[Array, Array]] = [(np.empty(0, np.int64),) * 2]
        count = 0
        for level in range(int(self.level.max(initial=-1)) + 1):
            here = np.flatnonzero(self.level == level)
            above = of[self.parent[here]] if level else np.full(len(here), -1)
            place, (parent, name) = number(above, self.spans.name[here])
            of[here] = count + place
            parts.append((parent, name))
            count += len(name)
        parent, name = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return Paths(of, parent, name)


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

    @once
    def level(self) -> Array:
        """How many names are before each path's last."""
        return _levels(self.parent)

    def texts(self, names: Sequence[str]) -> list[str]:
        """The paths spelled, `/` between two names."""
        texts: list[str] = []
        for parent, name in zip(self.parent.tolist(), self.name.tolist(), strict=True):
            texts.append(f"{texts[parent]}/{names[name]}" if parent >= 0 else names[name])
        return texts

    def depth_first(self, total: Array) -> Array:
        """The paths, each followed by those inside, siblings by their totals, largest first."""
        size = np.ones(len(self), np.int64)
        levels = [
            np.flatnonzero(self.level == n) for n in range(int(self.level.max(initial=-1)) + 1)
        ]
        for here in reversed(levels[1:]):
            size += sums(self.parent[here], size[here], len(self))
        place = np.zeros(len(self), np.int64)
        for here in levels:
            parent = self.parent[here]
            order = np.lexsort((here, -total[here], parent))
            here, parent = here[order], parent[order]
            before = np.cumsum(size[here]) - size[here]
            first = np.concatenate(([True], parent[1:] != parent[:-1]))
            among = before - np.maximum.accumulate(np.where(first, before, 0))
            place[here] = among + np.where(parent >= 0, place[parent] + 1, 0)
        return np.argsort(place)


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
