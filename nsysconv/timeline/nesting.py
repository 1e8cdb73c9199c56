"""Named intervals nested on their threads: who lies in whom, how deep, and what is left to each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

import numpy as np

from nsysconv.notes import Note, Severity
from nsysconv.threads import cached_property
from nsysconv.timeline.arrays import Array, batches, by_group, counts, factorize, indices, sums
from nsysconv.timeline.events import Spans, number_threads
from nsysconv.timeline.intervals import MAX_LEVELS, expand_ranges, grouped_measure, parents, union


@dataclass(frozen=True)
class Tree:
    """Spans thread by thread, each thread's by start, the longest first: a parent is before its children.

    `parent` is the place in `spans` of the innermost one of its thread that holds a span's start, -1
    for none. A span that crosses the end of its parent, as those of two domains may, counts as inside it.
    """

    spans: Spans
    parent: Array

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.parent)

    @cached_property
    def level(self) -> Array:
        """Return in how many each lies, 0 for the outermost."""
        return levels(self.parent)

    @cached_property
    def child_count(self) -> Array:
        """Return how many direct children each has."""
        return counts(self.parent[self.parent >= 0], len(self))

    @cached_property
    def child_ns(self) -> Array:
        """Return the durations of the direct children of each, added up."""
        inside = self.parent >= 0
        dur = (self.spans.end - self.spans.start)[inside]
        return sums(self.parent[inside], dur, len(self))

    @cached_property
    def end_in_parent(self) -> Array:
        """Return when each and all that lies in it are over; at its parent's end, if that is earlier."""
        reach, end = self.spans.end.copy(), self.spans.end
        inside = np.flatnonzero(self.parent >= 0)
        if (end[inside] > end[self.parent[inside]]).any():
            depth = int(self.level.max(initial=0)) + 1
            for here in reversed(by_group(self.level, depth)[1:]):
                np.maximum.at(reach, self.parent[here], reach[here])
        reach[inside] = np.minimum(reach[inside], end[self.parent[inside]])
        return reach

    @cached_property
    def self_ns(self) -> Array:
        """Return how long each was under way and nothing in it was."""
        spans, inside = self.spans, np.flatnonzero(self.parent >= 0)
        result: Array = spans.end - spans.start
        result -= covered(
            self.parent[inside], spans.start[inside], self.end_in_parent[inside], len(self)
        )
        return result

    @cached_property
    def paths(self) -> Paths:
        """Return which names lead to each span."""
        depth = int(self.level.max(initial=-1)) + 1
        numbered = _level_by_level if depth <= MAX_LEVELS else _one_by_one
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
        """Return the number of rows."""
        return len(self.name)

    @cached_property
    def level(self) -> Array:
        """Return how many names are before each path's last."""
        return levels(self.parent)

    def with_nested(self, values: Array) -> Array:
        """Return per path its value and those of the paths inside, added up."""
        return added_up(self.parent, values, inside_out(self.parent, np.arange(len(self))))

    def depth_first(self, total: Array) -> Array:
        """Return the paths, each followed by those inside, siblings by their totals, largest first."""
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
    of = np.zeros(len(parent), np.int64)
    parts: list[tuple[Array, Array]] = [(np.empty(0, np.int64),) * 2]
    count = 0
    for here in by_group(level, int(level.max(initial=-1)) + 1):
        above = of[parent[here]] if count else np.full(len(here), -1)
        place, (parents_, found) = factorize(above, names[here])
        of[here] = count + place
        parts.append((parents_, found))
        count += len(found)
    above, name = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return of, above, name


def _one_by_one(parent: Array, level: Array, names: Array) -> tuple[Array, Array, Array]:
    # The result is that of `_level_by_level`. The time does not depend on the depth of nesting.
    known: dict[tuple[int, int], int] = {}
    of: list[int] = []
    for above, name in zip(parent.tolist(), names.tolist(), strict=True):
        of.append(known.setdefault((of[above] if above >= 0 else -1, name), len(known)))
    columns = np.array(list(known), np.int64).reshape(-1, 2)
    return np.array(of, np.int64), columns[:, 0], columns[:, 1]


def build_tree(spans: Spans, apart: Array | None = None) -> Tree:
    """Return the spans as a tree per thread; each span of the mask `apart` is a root without children."""
    apart = np.zeros(len(spans), bool) if apart is None else apart
    nesting, alone = indices(~apart), indices(apart)
    order, parent = [], []
    thread, threads = number_threads(spans.pid[nesting], spans.tid[nesting])
    before = 0
    for which in by_group(thread, len(threads)):
        members = nesting[which]
        start, end = spans.start[members], spans.end[members]
        at = np.lexsort((-end, start))
        inside, _ = parents(start[at], end[at])
        order.append(members[at])
        parent.append(np.where(inside >= 0, inside + before, -1))
        before += len(members)
    parent_of = np.concatenate((*parent, np.full(len(alone), -1)))
    return Tree(spans.take(np.concatenate((*order, alone))), parent_of)


def without_crossing(tree: Tree) -> Tree:
    """Return the tree with nothing inside what ends before it does.

    An interval that crosses the end of another lies in what is around both, and what begins after it does
    so, too. So PyTorch's own tables have it.
    """
    spans, inside = tree.spans, np.flatnonzero(tree.parent >= 0)
    crossing = inside[spans.end[inside] > spans.end[tree.parent[inside]]]
    if not len(crossing):
        return tree
    thread, threads = number_threads(spans.pid, spans.tid)
    parent = tree.parent.copy()
    crossed = set(thread[crossing].tolist())
    for number, places in enumerate(by_group(thread, len(threads))):
        if number in crossed:
            parent[places] = _open_ones(
                places.tolist(), spans.end[places].tolist(), spans.start[places].tolist()
            )
    return Tree(spans, parent)


def _open_ones(places: list[int], ends: list[int], starts: list[int]) -> list[int]:
    # The intervals are in the order of their starts. Each result is the last interval that is open then
    # and ends no earlier, or -1.
    result = []
    around: list[tuple[int, int]] = []
    for place, start, end in zip(places, starts, ends, strict=True):
        while around and (start >= around[-1][1] or end > around[-1][1]):
            around.pop()
        result.append(around[-1][0] if around else -1)
        around.append((place, end))
    return result


def covered(parent: Array, start: Array, end: Array, count: int) -> Array:
    """Return per place 0..count-1 the measure of the union of those that have it as parent, by start."""
    order = np.argsort(parent, kind="stable")
    parent, start, end = parent[order], start[order], end[order]
    if ((start[1:] < end[:-1]) & (parent[1:] == parent[:-1])).any():
        return grouped_measure(start, end, parent, count)
    return sums(parent, end - start, count)


def levels(parent: Array) -> Array:
    """Return how many lie around each, by its parent, -1 for none."""
    # Each round doubles the distance from a node to the ancestor that `above` has.
    level = (parent >= 0).astype(np.int64)
    above = parent.copy()
    while len(some := np.flatnonzero(above >= 0)):
        level[some] += level[above[some]]
        above[some] = above[above[some]]
    return level


def inside_out(parent: Array, nodes: Array) -> list[Array]:
    """Return those of these nodes that lie in others, level by level, the innermost first."""
    level = levels(parent)[nodes]
    return by_group(level, int(level.max(initial=0)) + 1, nodes)[:0:-1]


def added_up(parent: Array, values: Array, nodes: Iterable[Array]) -> Array:
    """Return per node its value and those of all nodes inside it; `nodes` are from `inside_out`."""
    result = values.copy()
    for here in nodes:
        np.add.at(result, parent[here], result[here])
    return result


def innermost_of(parent: Array, mask: Array) -> Array:
    """Return per place the innermost of a mask that it is, or lies in by its parent, -1 for none."""
    result = np.append(np.where(mask, np.arange(len(parent)), parent), -1)
    found = np.append(mask, True)
    # Each round doubles the distance to the ancestor for the nodes that have not found one.
    while len(some := np.flatnonzero(~found[result])):
        result[some] = result[result[some]]
    return result[:-1]


MAX_PATH_LENGTH = 2000
"""Most characters of a path, but for the words on those left out of its middle."""
MAX_INDENT = 100
"""Most levels by which names are indented."""

_HEAD, _TAIL = 1200, 700
_DIGEST_BYTES = 6


def path_texts(
    parent: Array, part: Callable[[int], str], shown: Array, separator: str = "/"
) -> list[str]:
    """Return of the places `shown` the parts of all that they lie in, outermost first, and their own.

    `parent` is the place that each lies in, -1 for none, and comes before it. Of a text longer than
    MAX_PATH_LENGTH the middle is left out: how many characters those are, and a digest of the whole path,
    stand there, so that different paths remain different, and equal ones equal in all profiles.
    """
    above = parent.tolist()
    found: dict[int, _Text] = {-1: _Text("", 0)}

    @cache
    def digest_of(text: str) -> bytes:
        return _digest(text.encode("utf-8", "surrogatepass"))

    for place in _with_all_around(above, shown):
        outer, text = found[above[place]], part(place)
        piece = separator + text if above[place] >= 0 else text
        length = outer.length + len(piece)
        if length <= MAX_PATH_LENGTH:
            found[place] = _Text(outer.head + piece, length)
            continue
        head, tail, before = outer.head, outer.tail, outer.digest
        if outer.is_whole:
            head, tail, before = (head + piece)[:_HEAD], head, digest_of(head)
        digest = _digest(before, digest_of(text))
        found[place] = _Text(head, length, (tail + piece)[-_TAIL:], digest)
    return [found[place].spelled() for place in shown.tolist()]


def indent_names(indent: str, level: Array, names: Iterable[str]) -> list[str]:
    """Return the names, indented by their levels, at most MAX_INDENT; equal ones are one (long) text."""
    indented = cache(lambda depth, name: indent * depth + name)
    return list(map(indented, np.minimum(level, MAX_INDENT).tolist(), names))


def deep_path_notes(paths: Sequence[str], level: Array | None = None) -> tuple[Note, ...]:
    """Return what has to be said of these paths, and of names that were set in by these levels."""
    cut = np.array([len(path) > MAX_PATH_LENGTH for path in paths], bool)
    if level is not None:
        cut |= level > MAX_INDENT
    count = int(np.count_nonzero(cut))
    if not count:
        return ()
    text = (
        f"rows with a path longer than {MAX_PATH_LENGTH:,} characters (its middle is left out) "
        f"or nested deeper than {MAX_INDENT} levels (not indented further)"
    )
    return (Note("path-shortened", Severity.INFO, text, count),)


@dataclass(frozen=True)
class _Text:
    # This is a path: a short one is whole in `head`; a long one has its beginning, its end, and a
    # digest.

    head: str
    length: int
    tail: str = ""
    digest: bytes = b""

    @property
    def is_whole(self) -> bool:
        return not self.digest

    def spelled(self) -> str:
        if self.is_whole:
            return self.head
        left_out = self.length - _HEAD - _TAIL
        return f"{self.head}…[{left_out:,} characters left out, {self.digest.hex()}]…{self.tail}"


def _digest(*parts: bytes) -> bytes:
    return blake2b(b"".join(parts), digest_size=_DIGEST_BYTES).digest()


def _with_all_around(parent: list[int], shown: Array) -> list[int]:
    needed: set[int] = set()
    for place in shown.tolist():
        while place >= 0 and place not in needed:
            needed.add(place)
            place = parent[place]
    return sorted(needed)


# Pairs of a group and what lies in it are gathered so many at a time, and each group as a whole.
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Containments:
    """Pairs of a group and the place of an interval that lies in members of it, no pair twice.

    `around` counts these members. Of intervals of one label, `fresh` counts those members in which no
    other of the label begins earlier: over a group and a label it adds up to the members that hold any.
    """

    group: Array
    item: Array
    around: Array
    fresh: Array


def containments(
    groups: Array, starts: Array, ends: Array, start: Array, end: Array, label: Array
) -> Iterator[Containments]:
    """Yield the groups, given by their members, that hold intervals from `start` to `end`, in batches."""
    members = _Members(groups, starts, ends)
    before, is_earlier = _earlier(start, end, label)
    order, windows = _windows(groups, starts, ends, start, end)
    for low, high in _batches(*windows):
        group, first, size = (column[low:high] for column in windows)
        which, place = expand_ranges(first, size)
        item, mine = order[place], group[which]
        around, later = members.around(mine, start[item], end[item], before[item])
        yield Containments(mine, item, around, np.where(is_earlier[item], later, 0))


def _windows(
    groups: Array, starts: Array, ends: Array, start: Array, end: Array
) -> tuple[Array, tuple[Array, Array, Array]]:
    # The result is an order of the intervals, and windows in that order: the group, the first index and
    # the size of each.
    rest = np.lexsort((end, start))
    chains, parts, before = [], [], 0
    # If intervals have their starts and their ends in the same order, those that lie in a member form
    # one window. Usually nearly all intervals form one such chain.
    while len(rest):
        follows = end[rest] >= np.maximum.accumulate(end[rest])
        chain, rest = rest[follows], rest[~follows]
        low = np.searchsorted(start[chain], starts, side="left")
        high = np.searchsorted(end[chain], ends, side="right")
        some = high > low
        shift = groups[some] * (len(chain) + 1)
        found = union(low[some] + shift, high[some] + shift)
        group, first = np.divmod(found.starts, len(chain) + 1)
        parts.append((group, first + before, found.ends - found.starts))
        chains.append(chain)
        before += len(chain)
    if not parts:
        return rest, (rest, rest, rest)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    at = np.argsort(columns[0], kind="stable")
    group, first, size = (column[at] for column in columns)
    return np.concatenate(chains), (group, first, size)


def _batches(group: Array, first: Array, size: Array) -> Iterator[tuple[int, int]]:
    # Runs of windows of whole groups, not many more than are gathered at a time.
    if not len(group):
        return
    edges = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
    until = np.append(edges[1:], len(group))
    for part in batches(np.add.reduceat(size, edges), _AT_ONCE):
        yield int(edges[part.start]), int(until[part.stop - 1])


def _earlier(start: Array, end: Array, label: Array) -> tuple[Array, Array]:
    # The result has, per interval, the last earlier start of an interval with the same label, and
    # whether it counts. An interval that contains another of its label does not count, because every
    # member that holds it holds that one, too.
    order = np.lexsort((end, start, label))
    is_earlier = np.zeros(len(start), bool)
    before = np.full(len(start), np.iinfo(np.int64).min)
    # The least end of those that follow, label by label: ends as ranks, above those of later labels.
    rank = np.unique(end, return_inverse=True)[1].reshape(-1)[order]
    key = rank + label[order] * (len(start) + 1)
    least = np.minimum.accumulate(key[::-1])[::-1]
    inner = np.append(key[:-1] < least[1:], True) if len(key) else np.empty(0, bool)
    kept = order[inner]
    is_earlier[kept] = True
    same = label[kept[1:]] == label[kept[:-1]]
    before[kept[1:][same]] = start[kept[:-1][same]]
    return before, is_earlier


class _Members:
    # Members of groups, to be counted by where they begin and end: a wavelet matrix of their ends.

    def __init__(self, groups: Array, starts: Array, ends: Array) -> None:
        self._starts, self._ends = np.unique(starts), np.unique(ends)
        self._stride = len(self._starts) + 1
        key = groups * self._stride + np.searchsorted(self._starts, starts)
        order = np.argsort(key, kind="stable")
        self._key = key[order]
        value = np.searchsorted(self._ends, ends[order])
        self._levels: list[tuple[int, Array]] = []
        for bit in reversed(range(len(self._ends).bit_length())):
            one = (value >> bit & 1).astype(bool)
            zeros = np.concatenate(([0], np.cumsum(~one)))
            self._levels.append((bit, zeros))
            value = np.concatenate((value[~one], value[one]))

    def around(self, group: Array, start: Array, end: Array, after: Array) -> tuple[Array, Array]:
        # The result has, per group, how many members hold [start, end), and how many of these begin
        # after `after`.
        least = np.searchsorted(self._ends, end, side="left")
        until, low = self._begun(group, start), self._begun(group, after)
        begin = np.searchsorted(self._key, group * self._stride)
        early = self._ending_before(least, begin, low)
        late = self._ending_before(least, low, until)
        return until - begin - early - late, until - low - late

    def _begun(self, group: Array, moment: Array) -> Array:
        rank = np.searchsorted(self._starts, moment, side="right")
        return np.searchsorted(self._key, group * self._stride + rank)

    def _ending_before(self, least: Array, low: Array, high: Array) -> Array:
        # The result is how many places from `low` to `high` have an end of a lower rank than `least`.
        result = np.zeros(len(least), np.int64)
        for bit, zeros in self._levels:
            zeros_low, zeros_high = zeros[low], zeros[high]
            one = (least >> bit & 1).astype(bool)
            result += np.where(one, zeros_high - zeros_low, 0)
            low = np.where(one, zeros[-1] + low - zeros_low, zeros_low)
            high = np.where(one, zeros[-1] + high - zeros_high, zeros_high)
        return result
