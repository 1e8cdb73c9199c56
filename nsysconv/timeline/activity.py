"""What a thread did while a device waited for it: its API call, else its innermost range."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.calls import by_group, number_threads
from nsysconv.timeline.idle import Gaps
from nsysconv.timeline.intervals import union
from nsysconv.timeline.nesting import Segments, innermost, split, whole
from nsysconv.timeline.statistics import distinct
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray

# Labels are one number: the kind of activity in the low bit, what it was above it.
_API_CALL, _RANGE = 0, 1
_KINDS = 2
_OUTSIDE = -1
_PUSH_POP = 0


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
        self._segments: dict[int, tuple[Segments, ...]] = {}

    def split(self, gaps: Gaps) -> HostPieces:
        """The host parts of these gaps by activity of the thread that launched what ended each.

        Pieces of a gap add up to its host part; what the profiler did in between is in none.
        """
        timeline = self._timeline
        host = np.flatnonzero(gaps.host_end > gaps.start)
        calls = timeline.calls
        threads = calls.thread[timeline.owner[gaps.ended_by[host]]]
        gap, label, time = [], [], []
        for number, members in enumerate(by_group(threads, len(calls.threads))):
            if not len(members):
                continue
            mine = host[members]
            rest = whole(gaps.start[mine], gaps.host_end[mine])
            for layer in self._layers(number):
                inside, labels, rest = split(rest, layer)
                if layer is not self._profiler(number):
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
            return "outside", "[no API call or range]"
        what, kind = divmod(label, _KINDS)
        if kind == _API_CALL:
            return "api_call", self._call_names[what]
        return "range", self._ranges.text(what)

    @cached_property
    def _call_numbers(self) -> tuple[Array, Array]:
        """Name ids of calls, sorted, and per id the place of its name in `_call_names`."""
        by_id = self._timeline.call_names
        ids = sorted(by_id)
        places = {name: place for place, name in enumerate(self._call_names)}
        return np.array(ids), np.array([places[by_id[i]] for i in ids])

    @cached_property
    def _call_names(self) -> list[str]:
        # Two symbols of one function are one activity.
        return sorted(set(self._timeline.call_names.values()))

    @cached_property
    def _ranges(self) -> _Ranges:
        return _Ranges(self._timeline)

    @cached_property
    def _calls_of(self) -> list[Array]:
        calls = self._timeline.calls
        return by_group(calls.thread, len(calls.threads))

    def _layers(self, thread: int) -> tuple[Segments, ...]:
        """What a thread did, what counts first first: the profiler, its outermost calls, its ranges."""
        if thread not in self._segments:
            calls, (pid, tid) = self._timeline.calls, self._timeline.calls.threads[thread]
            mine = self._calls_of[thread]
            mine = mine[calls.outermost[mine] & (calls.end[mine] > calls.start[mine])]
            ids, numbers = self._call_numbers
            labels = numbers[np.searchsorted(ids, calls.name_id[mine])] * _KINDS + _API_CALL
            api = Segments(calls.start[mine], calls.end[mine], labels)
            at_work = self._timeline.overhead.get(pid, union(*(np.empty(0, np.int64),) * 2))
            profiler = Segments(
                at_work.starts, at_work.ends, np.zeros(len(at_work.starts), np.int64)
            )
            self._segments[thread] = (profiler, api, self._ranges.of(pid, tid))
        return self._segments[thread]

    def _profiler(self, thread: int) -> Segments:
        return self._layers(thread)[0]


class _Ranges:
    """The push/pop ranges of a profile by thread, and their texts."""

    def __init__(self, timeline: Timeline) -> None:
        self._profile = timeline.profile
        column = self._profile.columns(
            "range", ("start_ns", "dur_ns", "pid", "tid", "kind", "name_id")
        )
        kept = (column["kind"] == _PUSH_POP) & (column["start_ns"] != MISSING)
        self._column = {name: values[kept] for name, values in column.items()}
        self._row = np.flatnonzero(kept)
        last = timeline.profile.attributes["recording_ns"]
        dur, start = self._column["dur_ns"], self._column["start_ns"]
        # An unclosed range ends with the recording.
        end = (
            int(last)
            if last is not None
            else int((start + np.where(dur == MISSING, 0, dur)).max(initial=0))
        )
        self._end = np.where(dur == MISSING, np.maximum(end, start), start + dur)
        self._thread, threads = number_threads(self._column["pid"], self._column["tid"])
        self._members = dict(zip(threads, by_group(self._thread, len(threads)), strict=True))

    def of(self, pid: int, tid: int) -> Segments:
        """The innermost ranges of a thread over time, labelled by text."""
        mine = self._members.get((pid, tid))
        if mine is None:
            return innermost(*(np.empty(0, np.int64),) * 3)
        labels = self._text_numbers[mine] * _KINDS + _RANGE
        return innermost(self._column["start_ns"][mine], self._end[mine], labels)

    def text(self, number: int) -> str:
        """The text that a label's number stands for."""
        return self._texts[number]

    @cached_property
    def _numbered(self) -> tuple[Array, list[str]]:
        """Per range the number of its text, and the texts."""
        name_ids = self._column["name_id"]
        named = name_ids != MISSING
        texts: dict[str, int] = {}
        by_id = self._profile.names(distinct(name_ids[named]))
        number_of_id = {i: texts.setdefault(text, len(texts)) for i, text in by_id.items()}
        result = np.zeros(len(name_ids), np.int64)
        if number_of_id:
            ids = np.array(sorted(number_of_id))
            numbers = np.array([number_of_id[i] for i in ids.tolist()])
            result[named] = numbers[np.searchsorted(ids, name_ids[named])]
        if not named.all():
            own = self._profile.texts("range", "text")
            numbers = np.array([texts.setdefault(t, len(texts)) for t in (*own.texts, "[no text]")])
            id_of_row = self._profile.columns("range", ("id",))["id"]
            ids = id_of_row[self._row[~named]]
            place = np.minimum(np.searchsorted(own.ids, ids), max(len(own.ids) - 1, 0))
            told = own.ids[place] == ids if len(own.ids) else np.zeros(len(ids), bool)
            result[~named] = numbers[-1]
            result[np.flatnonzero(~named)[told]] = numbers[own.numbers[place[told]]]
        return result, list(texts)

    @property
    def _text_numbers(self) -> Array:
        return self._numbered[0]

    @property
    def _texts(self) -> list[str]:
        return self._numbered[1]
