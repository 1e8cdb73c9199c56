"""What a thread did while a device waited for it: an API call, else an operator, a directive, a range."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nsysconv.cache import ThreadSafeCache, cached_in, cached_property
from nsysconv.timeline.annotations import (
    DIRECTIVE,
    OPERATOR,
    PUSH_POP,
    PYTHON_FUNCTION,
    Spans,
    operators,
    ranges,
    with_domains,
)
from nsysconv.timeline.calls import by_group, number_threads
from nsysconv.timeline.groups import blocks, indices
from nsysconv.timeline.idle import Gaps
from nsysconv.timeline.intervals import union
from nsysconv.timeline.nesting import EMPTY, Pieces, Segments, enumerated, innermost, split, whole
from nsysconv.timeline.ops import taken
from nsysconv.timeline.statistics import distinct
from nsysconv.timeline.timeline import Timeline, cached

Array = np.ndarray

# Labels are one number: the kind of activity in the low bits, what it was above it.
_WORDS = ("api_call", "operator", "directive", "python_function", "range")
_API_CALL, _OPERATOR, _DIRECTIVE, _PYTHON_FUNCTION, _RANGE = range(len(_WORDS))
_KINDS = len(_WORDS)
_OUTSIDE = -1


@dataclass(frozen=True)
class HostPieces:
    """The host parts of gaps, split over what the launching thread did.

    `gap` is the gap's place among the gaps given, `label` a number for Activity.name, `time` in ns.
    """

    gap: Array
    label: Array
    time: Array


@cached
def activity(timeline: Timeline) -> Activity:
    """What the threads of a profile did."""
    return Activity(timeline)


class Activity:
    """What the threads of a profile did, by time. Made by `activity`."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._segments = ThreadSafeCache()

    def split(self, gaps: Gaps) -> Iterator[HostPieces]:
        """The host parts of these gaps by activity of the thread that launched what ended each.

        Some gaps at a time, all pieces of each together. Pieces of a gap add up to its host part; what
        the profiler did in between is in none.
        """
        host = indices(gaps.host_end > gaps.start)
        calls = self._timeline.calls
        threads = calls.thread[self._timeline.owner[gaps.ended_by[host]]]
        for thread, members in enumerate(by_group(threads, len(calls.threads))):
            for block in blocks(len(members)):
                yield self._split(gaps, host[members[block]], thread)

    def _split(self, gaps: Gaps, mine: Array, thread: int) -> HostPieces:
        """The pieces of these gaps, of which this thread ended the host parts."""
        profiler, nested = self._layers(thread)
        _, _, rest = split(whole(gaps.start[mine], gaps.host_end[mine]), profiler)
        gap, label, time = [], [], []
        for layer in (self._calls_around(thread, rest), *nested):
            inside, labels, rest = split(rest, layer)
            gap.append(mine[inside.interval])
            label.append(labels)
            time.append(inside.ends - inside.starts)
        gap.append(mine[rest.interval])
        label.append(np.full(len(rest.starts), _OUTSIDE))
        time.append(rest.ends - rest.starts)
        return HostPieces(np.concatenate(gap), np.concatenate(label), np.concatenate(time))

    def name(self, label: int) -> tuple[str, str]:
        """A label in words: the kind of activity and its name."""
        if label == _OUTSIDE:
            return "outside", "[nothing recorded]"
        what, kind = divmod(label, _KINDS)
        if kind == _API_CALL:
            return _WORDS[kind], self._call_names[what]
        return _WORDS[kind], self._nested[kind].name(what)

    @cached_property
    def _call_labels(self) -> tuple[Array, Array]:
        """The ids of calls' names, sorted, and the label of each."""
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
        """What nests on a thread by kind of activity, what counts first first."""
        # Ranges of two domains may bear one text.
        found = with_domains(self._timeline, ranges(self._timeline))
        run = operators(self._timeline)
        return {
            _OPERATOR: _Nested(run.take(run.kind == OPERATOR), _OPERATOR),
            _DIRECTIVE: _Nested(run.take(run.kind == DIRECTIVE), _DIRECTIVE),
            _PYTHON_FUNCTION: _Nested(run.take(run.kind == PYTHON_FUNCTION), _PYTHON_FUNCTION),
            _RANGE: _Nested(found.take(found.kind == PUSH_POP), _RANGE),
        }

    @cached_property
    def _calls_of(self) -> list[Array]:
        """Per thread its outermost calls that have a length."""
        calls = self._timeline.calls
        found = indices(calls.outermost & (calls.end > calls.start))
        return by_group(taken(calls.thread, found), len(calls.threads), found)

    def _calls_around(self, thread: int, pieces: Pieces) -> Segments:
        """The outermost calls of a thread that pieces of time, in order, may lie in."""
        calls, mine = self._timeline.calls, self._calls_of[thread]

        def begun(moments: Array, side: Literal["left", "right"]) -> Array:
            """How many of them start before these moments; right: or at them."""
            place = np.searchsorted(calls.start, moments, side)
            return np.searchsorted(mine, place.astype(mine.dtype))

        # They follow each other: of those that have begun by then, only the last may still run.
        first = np.maximum(begun(pieces.starts, "right") - 1, 0)
        _, place = enumerated(first, np.maximum(begun(pieces.ends, "left") - first, 0))
        which = mine[distinct(place)]
        ids, labels = self._call_labels
        label = labels[np.searchsorted(ids, calls.name_id[which])]
        return Segments(calls.start[which], calls.end[which], label)

    @cached_in("_segments")
    def _layers(self, thread: int) -> tuple[Segments, list[Segments]]:
        """When the profiler was at work, and what nests on a thread, what counts first first."""
        pid, tid = self._timeline.calls.threads[thread]
        at_work = self._timeline.overhead.get(pid, union(*(np.empty(0, np.int64),) * 2))
        profiler = Segments(at_work.starts, at_work.ends, np.zeros(len(at_work.starts), np.int64))
        return profiler, [each.of(pid, tid) for each in self._nested.values()]


class _Nested:
    """Who is innermost when, thread by thread; labels are names and the kind of activity."""

    def __init__(self, spans: Spans, kind: int) -> None:
        self._spans = spans
        self._kind = kind
        thread, threads = number_threads(spans.pid, spans.tid)
        self._members = dict(zip(threads, by_group(thread, len(threads)), strict=True))

    def of(self, pid: int, tid: int) -> Segments:
        """The innermost intervals of a thread over time."""
        mine = self._members.get((pid, tid))
        if mine is None:
            return EMPTY
        labels = self._spans.name[mine].astype(np.int64) * _KINDS + self._kind
        return innermost(self._spans.start[mine], self._spans.end[mine], labels)

    def name(self, number: int) -> str:
        """The name that a label's number stands for."""
        return self._spans.names[number]
