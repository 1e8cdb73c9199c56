"""What the host did in its part of a gap (docs/definitions/idle.md, what the host was doing)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from nsysconv.facts import Fact
from nsysconv.threads import ThreadSafeCache, cached_in, cached_property
from nsysconv.timeline.annotations import (
    DIRECTIVE,
    OPERATOR,
    PUSH_POP,
    PYTHON_FUNCTION,
    shown_operators,
    shown_ranges,
)
from nsysconv.timeline.arrays import (
    Array,
    Columns,
    blocks,
    by_group,
    counts,
    distinct,
    factorize,
    indices,
    take,
)
from nsysconv.timeline.events import Spans, number_threads
from nsysconv.timeline.host_threads import (
    STATES,
    UNRESOLVED,
    frame_names,
    os_call_names,
    os_calls,
    samples,
    scheduling,
)
from nsysconv.timeline.idle import Gaps, launched
from nsysconv.timeline.intervals import (
    EMPTY,
    Pieces,
    Segments,
    Union,
    cut_at,
    difference,
    expand_ranges,
    innermost,
    union,
    union_with,
    whole_pieces,
)
from nsysconv.timeline.timeline import Timeline, cached

# Labels are one number: the kind of activity in the low bits, what it was above it.
_WORDS = ("api_call", "operator", "directive", "python_function", "range", "os_call", "thread")
_API_CALL, _OPERATOR, _DIRECTIVE, _PYTHON_FUNCTION, _RANGE, _OS_CALL, _THREAD = range(len(_WORDS))
_KINDS = len(_WORDS)
_OUTSIDE = -1
OUTSIDE = "outside", "[nothing recorded]"
"""The words for what no activity covers."""
OF_SYSTEM = (_WORDS[_OS_CALL], _WORDS[_THREAD])
"""The words for activities that only the operating system records."""
_OF_SYSTEM = {Fact.OSRT_CALLS, Fact.SCHEDULING}


@dataclass(frozen=True)
class HostPieces(Columns):
    """The host parts of gaps by what the launching thread did: a label for `HostActivity.name`.

    `thread` is the number of that thread in `Timeline.calls.threads`, and the same for all pieces.
    """

    thread: int
    gap: Array
    label: Array
    start: Array
    end: Array

    @property
    def time(self) -> Array:
        """Return how long each piece is."""
        result: Array = self.end - self.start
        return result


# With fewer samples the most frequent function says little.
_FEWEST_SAMPLES = 10


def most_sampled(seen: Counter[tuple[str, str | None]]) -> str | None:
    """Return the function that most samples saw, with its library; None: too few, or of no name."""
    if seen.total() < _FEWEST_SAMPLES:
        return None
    function, library = seen.most_common(1)[0][0]
    if function == UNRESOLVED:
        return library
    return f"{function} ({library})" if library else function


@cached
def host_activity(timeline: Timeline, range_names: str) -> HostActivity:
    """Return what the threads of a profile did; ranges and operators are named as RANGE_NAMES says."""
    return HostActivity(timeline, range_names)


class HostActivity:
    """The activity of a profile's threads over time. Made by `host_activity`."""

    def __init__(self, timeline: Timeline, range_names: str) -> None:
        """Take what the threads did."""
        self._timeline = timeline
        self._range_names = range_names
        self._segments = ThreadSafeCache()

    def split(self, gaps: Gaps) -> Iterator[HostPieces]:
        """Yield the host parts of these gaps by activity of the thread that launched what ended each.

        All pieces of a gap come together; with what the profiler did they add up to its host part.
        """
        for thread, mine in self._by_thread(gaps):
            pid, tid = self._timeline.calls.threads[thread]
            when = Union(gaps.start[mine], gaps.host_end[mine])
            annotated = [each.during(pid, tid, when) for each in self._nested.values()]
            layers = (*annotated, *self._layers(thread).system)
            yield self._pieces(thread, gaps, mine, layers)

    def system(self, gaps: Gaps) -> Iterator[HostPieces]:
        """Yield the same parts outside API calls, by what the operating system says of that thread.

        The labels are those of `split`, without operators, functions and ranges.
        """
        for thread, mine in self._by_thread(gaps):
            found = self._pieces(thread, gaps, mine, self._layers(thread).system)
            yield found.take((found.label < 0) | (found.label % _KINDS != _API_CALL))

    def _by_thread(self, gaps: Gaps) -> Iterator[tuple[int, Array]]:
        # The gaps with a host part, some at a time, by the thread that launched what ended each.
        host = indices(gaps.host_end > gaps.start)
        calls = self._timeline.calls
        threads = calls.thread[launched(self._timeline, gaps.take(host))[0]]
        for thread, members in enumerate(by_group(threads, len(calls.threads))):
            for block in blocks(len(members)):
                yield thread, host[members[block]]

    def _pieces(
        self, thread: int, gaps: Gaps, which: Array, layers: Iterable[Segments]
    ) -> HostPieces:
        whole = whole_pieces(gaps.start[which], gaps.host_end[which])
        _, _, rest = cut_at(whole, self._layers(thread).profiler)
        found: list[tuple[Pieces, Array]] = []
        for layer in (self._calls_around(thread, rest), *layers):
            inside, labels, rest = cut_at(rest, layer)
            found.append((inside, labels))
        found.append((rest, np.full(len(rest), _OUTSIDE)))
        interval, start, end = (
            np.concatenate([getattr(pieces, name) for pieces, _ in found])
            for name in ("interval", "starts", "ends")
        )
        label = np.concatenate([labels for _, labels in found])
        return HostPieces(thread, which[interval], label, start, end)

    def outside_calls(self, gaps: Gaps) -> Iterator[Union]:
        """Yield the host parts of gaps in which the launching thread was in no API call, some at a time.

        What the profiler did is left out. It is what `split` gives to other activities.
        """
        calls = self._timeline.calls
        for block in blocks(len(gaps)):
            mine = gaps.take(block)
            mine = mine.take(np.flatnonzero(mine.host_end > mine.start))
            thread = calls.thread.take(launched(self._timeline, mine)[0])
            for each in distinct(thread).tolist():
                of_thread = mine if len(calls.threads) == 1 else mine.take(thread == each)
                covering = self._covering(each, of_thread)
                yield difference(Union(of_thread.start, of_thread.host_end), covering)

    def _covering(self, thread: int, gaps: Gaps) -> Union:
        # The union covers the time around these gaps in which the thread was in calls or the profiler
        # was at work.
        calls = self._timeline.calls
        which = self._calls_in(thread, gaps.start, gaps.host_end)
        covering = union(calls.start.take(which), calls.end.take(which))
        at_work = self._timeline.overhead.get(calls.threads[thread][0])
        if at_work is None:
            return covering
        return union_with(covering, at_work.starts, at_work.ends)

    def name(self, label: int) -> tuple[str, str]:
        """Return a label in words: the kind of activity and its name."""
        if label == _OUTSIDE:
            return OUTSIDE
        what, kind = divmod(label, _KINDS)
        if kind == _API_CALL:
            return _WORDS[kind], self._call_names[what]
        if kind == _OS_CALL:
            return _WORDS[kind], os_call_names(self._timeline)[what]
        if kind == _THREAD:
            return _WORDS[kind], STATES[what]
        return _WORDS[kind], self._nested[kind].name(what)

    def label_of(self, state: str) -> int:
        """Return the label of one of STATES."""
        return STATES.index(state) * _KINDS + _THREAD

    def sampled(self, thread: int, starts: Array, ends: Array) -> dict[tuple[str, str | None], int]:
        """Return how many samples of a thread, by its number, fell into these intervals.

        The keys are functions and libraries; None: the library is not known.
        """
        mine = samples(self._timeline, self._timeline.calls.threads[thread])
        if not len(mine.moment) or not len(starts):
            return {}
        when = union(starts, ends)
        place = np.searchsorted(when.starts, mine.moment, side="right") - 1
        inside = (place >= 0) & (mine.moment < when.ends[place])
        group, (functions, libraries) = factorize(mine.function[inside], mine.library[inside])
        names, found = frame_names(self._timeline), dict[tuple[str, str | None], int]()
        for function, library, count in zip(
            functions.tolist(), libraries.tolist(), counts(group, len(functions)), strict=True
        ):
            key = names.get(function, UNRESOLVED), names.get(library)
            found[key] = found.get(key, 0) + int(count)
        return found

    def sampled_in(self, pieces: HostPieces) -> dict[int, Counter[tuple[str, str | None]]]:
        """Return the same by label of these pieces; a label without samples is left out."""
        if Fact.CPU_SAMPLES not in self._timeline.profile.facts:
            return {}
        found = {}
        for label in distinct(pieces.label).tolist():
            mine = pieces.take(pieces.label == label)
            if seen := self.sampled(pieces.thread, mine.start, mine.end):
                found[label] = Counter(seen)
        return found

    @cached_property
    def _call_labels(self) -> tuple[Array, Array]:
        by_id = sorted(self._timeline.call_names.items())
        places = {name: place for place, name in enumerate(self._call_names)}
        labels = [places[name] * _KINDS + _API_CALL for _, name in by_id]
        return np.array([i for i, _ in by_id], np.int64), np.array(labels, np.int64)

    @cached_property
    def _call_names(self) -> list[str]:
        # Two symbols of one function are one activity.
        return sorted(set(self._timeline.call_names.values()))

    @cached_property
    def _nested(self) -> dict[int, _Nested]:
        # The kinds are in the order in which they count. Ranges of two domains may have the same text.
        found = shown_ranges(self._timeline, self._range_names)
        run = shown_operators(self._timeline, self._range_names)
        spans_of = {
            _OPERATOR: run.take(run.kind == OPERATOR),
            _DIRECTIVE: run.take(run.kind == DIRECTIVE),
            _PYTHON_FUNCTION: run.take(run.kind == PYTHON_FUNCTION),
            _RANGE: found.take(found.kind == PUSH_POP),
        }
        return {kind: _Nested(spans, kind) for kind, spans in spans_of.items()}

    @cached_property
    def _calls_of(self) -> list[Array]:
        calls = self._timeline.calls
        found = indices(calls.outermost & (calls.end > calls.start))
        return by_group(take(calls.thread, found), len(calls.threads), found)

    def _calls_around(self, thread: int, pieces: Pieces) -> Segments:
        calls, which = self._timeline.calls, self._calls_in(thread, pieces.starts, pieces.ends)
        ids, labels = self._call_labels
        label = labels[np.searchsorted(ids, calls.name_id[which])]
        return Segments(calls.start[which], calls.end[which], label)

    def _calls_in(self, thread: int, low: Array, high: Array) -> Array:
        # The outermost calls of a thread that may run in intervals, which are in order and disjoint.
        calls, mine = self._timeline.calls, self._calls_of[thread]

        def begun(moments: Array, side: Literal["left", "right"]) -> Array:
            place = np.searchsorted(calls.start, moments, side)
            return np.searchsorted(mine, place.astype(mine.dtype))

        # They follow each other: of those that have begun by then, only the last may still run.
        first, past = np.maximum(begun(low, "right") - 1, 0), begun(high, "left")
        first[1:] = np.maximum(first[1:], past[:-1])
        _, place = expand_ranges(first, np.maximum(past - first, 0))
        return mine.take(place)

    @cached_in("_segments")
    def _layers(self, thread: int) -> _Layers:
        pid, tid = self._timeline.calls.threads[thread]
        at_work, profiler = self._timeline.overhead.get(pid), EMPTY
        if at_work is not None:
            profiler = Segments(at_work.starts, at_work.ends, np.zeros_like(at_work.starts))
        if not self._timeline.profile.facts & _OF_SYSTEM:
            return _Layers(profiler, ())
        system = [
            replace(each, labels=each.labels * _KINDS + kind)
            for kind, each in (
                (_OS_CALL, os_calls(self._timeline, (pid, tid))),
                (_THREAD, scheduling(self._timeline, (pid, tid))),
            )
        ]
        return _Layers(profiler, system)


@dataclass(frozen=True)
class _Layers:
    # When the profiler was at work in a thread, and what the operating system says of that thread: the
    # layers of each kind in the order in which they count.
    profiler: Segments
    system: Sequence[Segments]


class _Nested:
    # This says, thread by thread, which span is innermost at which time. Labels are a name and the kind
    # of activity.

    def __init__(self, spans: Spans, kind: int) -> None:
        self._spans = spans
        self._kind = kind
        thread, threads = number_threads(spans.pid, spans.tid)
        self._members = dict(zip(threads, by_group(thread, len(threads)), strict=True))

    def during(self, pid: int, tid: int, when: Union) -> Segments:
        # Spans that share no time with it are left out: none is the innermost then. Usually few are left.
        mine = self._members.get((pid, tid))
        if mine is None:
            return EMPTY
        mine = mine[when.meets(self._spans.start[mine], self._spans.end[mine])]
        labels = self._spans.name[mine].astype(np.int64) * _KINDS + self._kind
        return innermost(self._spans.start[mine], self._spans.end[mine], labels)

    def name(self, number: int) -> str:
        return self._spans.names[number]
