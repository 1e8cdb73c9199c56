"""What a thread did while a device waited for it: an API call, else an operator, a directive, a range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.timeline.annotations import (
    DIRECTIVE,
    OPERATOR,
    PUSH_POP,
    PYTHON_FUNCTION,
    Spans,
    operators,
    ranges,
)
from nsysconv.timeline.calls import by_group, number_threads
from nsysconv.timeline.idle import Gaps
from nsysconv.timeline.intervals import union
from nsysconv.timeline.nesting import EMPTY, Segments, innermost, split, whole
from nsysconv.timeline.once import Made, once
from nsysconv.timeline.statistics import number
from nsysconv.timeline.timeline import Timeline

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


def activity(timeline: Timeline) -> Activity:
    """What the threads of a profile did."""
    return timeline.kept("activity", lambda: Activity(timeline))


class Activity:
    """What the threads of a profile did, by time. Made by `activity`."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._segments = Made()

    def split(self, gaps: Gaps) -> HostPieces:
        """The host parts of these gaps by activity of the thread that launched what ended each.

        Pieces of a gap add up to its host part; what the profiler did in between is in none.
        """
        timeline = self._timeline
        host = np.flatnonzero(gaps.host_end > gaps.start)
        calls = timeline.calls
        threads = calls.thread[timeline.owner[gaps.ended_by[host]]]
        gap, label, time = [], [], []
        for thread, members in enumerate(by_group(threads, len(calls.threads))):
            if not len(members):
                continue
            mine = host[members]
            rest = whole(gaps.start[mine], gaps.host_end[mine])
            for layer in self._layers(thread):
                inside, labels, rest = split(rest, layer)
                if layer is not self._profiler(thread):
                    gap.append(mine[inside.interval])
                    label.append(labels)
                    time.append(inside.ends - inside.starts)
            gap.append(mine[rest.interval])
            label.append(np.full(len(rest.starts), _OUTSIDE))
            time.append(rest.ends - rest.starts)
        if not gap:
            empty = np.empty(0, np.int64)
            return HostPieces(empty, empty, empty)
        return HostPieces(np.concatenate(gap), np.concatenate(label), np.concatenate(time))

    def name(self, label: int) -> tuple[str, str]:
        """A label in words: the kind of activity and its name."""
        if label == _OUTSIDE:
            return "outside", "[nothing recorded]"
        what, kind = divmod(label, _KINDS)
        if kind == _API_CALL:
            return _WORDS[kind], self._call_names[what]
        return _WORDS[kind], self._nested[kind].name(what)

    @once
    def _call_labels(self) -> tuple[Array, Array]:
        """The labels of calls, and per call the place of its label among them."""
        by_id = self._timeline.call_names
        places = {name: place for place, name in enumerate(self._call_names)}
        index, (ids,) = number(self._timeline.calls.name_id)
        labels = [places[by_id[i]] * _KINDS + _API_CALL for i in ids.tolist()]
        return np.array(labels, np.int64), index

    @once
    def _call_names(self) -> list[str]:
        # Two symbols of one function are one activity.
        return sorted(set(self._timeline.call_names.values()))

    @once
    def _nested(self) -> dict[int, _Nested]:
        """What nests on a thread by kind of activity, what counts first first."""
        found, run = ranges(self._timeline), operators(self._timeline)
        return {
            _OPERATOR: _Nested(run.take(run.kind == OPERATOR), _OPERATOR),
            _DIRECTIVE: _Nested(run.take(run.kind == DIRECTIVE), _DIRECTIVE),
            _PYTHON_FUNCTION: _Nested(run.take(run.kind == PYTHON_FUNCTION), _PYTHON_FUNCTION),
            _RANGE: _Nested(found.take(found.kind == PUSH_POP), _RANGE),
        }

    @once
    def _calls_of(self) -> list[Array]:
        calls = self._timeline.calls
        return by_group(calls.thread, len(calls.threads))

    def _layers(self, thread: int) -> tuple[Segments, ...]:
        """What a thread did, what counts first first: the profiler, outermost calls, what nests."""
        return self._segments.get(thread, lambda: self._layers_now(thread))

    def _layers_now(self, thread: int) -> tuple[Segments, ...]:
        calls, (pid, tid) = self._timeline.calls, self._timeline.calls.threads[thread]
        mine = self._calls_of[thread]
        mine = mine[calls.outermost[mine] & (calls.end[mine] > calls.start[mine])]
        labels, place = self._call_labels
        api = Segments(calls.start[mine], calls.end[mine], labels[place[mine]])
        at_work = self._timeline.overhead.get(pid, union(*(np.empty(0, np.int64),) * 2))
        profiler = Segments(at_work.starts, at_work.ends, np.zeros(len(at_work.starts), np.int64))
        nested = (each.of(pid, tid) for each in self._nested.values())
        return (profiler, api, *nested)

    def _profiler(self, thread: int) -> Segments:
        return self._layers(thread)[0]


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
