"""When a slice is, and the time line cut to it (docs/definitions/basics.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from nsysconv import schema
from nsysconv.codes import DIRECTIONS
from nsysconv.errors import AbsentError, UsageError, available_hint
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity, merged
from nsysconv.report import MISSING, Unit, human
from nsysconv.threads import cached_property
from nsysconv.timeline import steps as found_in
from nsysconv.timeline.account import recorded_around
from nsysconv.timeline.annotations import named, operators, ranges, which_named
from nsysconv.timeline.arrays import Array, distinct, take
from nsysconv.timeline.events import ApiCalls, GpuOps, OpKind, Spans, row_times
from nsysconv.timeline.slices import Moment, Percent, Slice
from nsysconv.timeline.timeline import Timeline, cached, cached_small

Interval = tuple[int, int]

_FIRST, _LAST = -schema.TIME_LIMIT_NS, schema.TIME_LIMIT_NS
_LISTED_STEPS = "The report `steps` lists them."


@dataclass(frozen=True)
class SliceTimes:
    """When a slice is, by process, of operations (`own`) and of calls (`launched`); others are not in it.

    Where an end is open, rows have none, and `ends` says where windows have theirs. `notes` say where
    the time that was asked for had to be cut to the recording.
    """

    own: Mapping[int, Interval]
    launched: Mapping[int, Interval]
    ends: Interval
    notes: tuple[Note, ...] = ()


def slice_times(timeline: Timeline, part: Slice) -> SliceTimes:
    """Return the slice's time in each process: where all that is asked for holds."""
    if part.by_range and not part.projected and timeline.clocks_disagree:
        what = "CPU and GPU times are not on one clock: when this was on the GPU is not recorded"
        raise UsageError(what, hint="--projected takes what was launched in it.")
    # Rows of which no process is recorded have MISSING for one.
    pids = {int(row["pid"]) for row in timeline.profile.rows("process")} | {MISSING}
    (low, high), ends, notes = _moments(timeline, part)
    times = dict.fromkeys(pids, (low, high))
    if part.skip_first:
        times = _meet(times, _after_steps(timeline, part))
    if part.step is not None:
        times = _meet(times, _of_steps(timeline, part, part.step))
    if part.range is not None:
        times = _meet(times, _of_range(timeline, part.range))
    launched = {pid: (low, high) for pid, (low, high) in times.items() if high > low}
    if not launched:
        hint = "What was asked for does not happen at one time, or takes none."
        raise UsageError("the slice is empty", hint=hint)
    own = _projected(timeline, launched) if part.projected else launched
    return SliceTimes(own, launched, ends, notes)


def _meet(times: Mapping[int, Interval], more: Mapping[int, Interval]) -> dict[int, Interval]:
    return {
        pid: (max(low, more[pid][0]), min(high, more[pid][1]))
        for pid, (low, high) in times.items()
        if pid in more
    }


def _moments(timeline: Timeline, part: Slice) -> tuple[Interval, Interval, tuple[Note, ...]]:
    # The slice's time as far as `time` says it, for rows; and where windows begin and end at most.
    # From 0 % on, and up to 100 %, is an open end: it leaves nothing out.
    if part.time is None:
        return (_FIRST, _LAST), (_FIRST, _LAST), ()
    start, end = part.time
    start = None if start == Percent(0) else start
    end = None if end == Percent(100) else end
    ends = _FIRST, _LAST
    if not (isinstance(start, int) and isinstance(end, int)):
        if timeline.clocks_disagree:
            what = "CPU and GPU times are not on one clock: the profile has no one beginning or end"
            raise UsageError(what, hint="Say both ends of the time in ns, us, ms or s.")
        ends = found_in.extent(timeline) or (0, 0)
    low = _FIRST if start is None else _moment(start, ends)
    high = _LAST if end is None else _moment(end, ends)
    reach = max(low, ends[0]), min(high, ends[1])
    first, last = recorded_around(timeline, *reach) or (_FIRST, _LAST)
    if high <= max(low, ends[0], first) or low >= min(ends[1], last):
        first, last = (first, last) if first > _FIRST else ends
        hint = f"The profile is from {first} ns to {last} ns."
        raise AbsentError("the slice is empty: nothing was recorded then", hint=hint)
    kept = low if start is None else max(low, first), high if end is None else min(high, last)
    notes = () if kept == (low, high) else (_cut_to_recording(first, last),)
    return kept, (ends[0] if start is None else _FIRST, ends[1] if end is None else _LAST), notes


def _cut_to_recording(first: int, last: int) -> Note:
    when = " to ".join(human(moment, Unit.NS) for moment in (first, last))
    text = f"the requested time exceeds the recording and was cut to it: {when}"
    return Note("slice-beyond-recording", Severity.INFO, text)


def _moment(wanted: Moment, ends: Interval) -> int:
    if isinstance(wanted, Percent):
        return ends[0] + int((ends[1] - ends[0]) * Fraction(wanted.value) / 100)
    return min(max(wanted, _FIRST), _LAST)


def _after_steps(timeline: Timeline, part: Slice) -> dict[int, Interval]:
    skipped, after = part.skip_first, {}
    for steps in _steps(timeline, part):
        if len(steps) > skipped:
            after[steps.pid] = (int(steps.end[skipped - 1]), int(steps.end.max()))
    if not after:
        raise UsageError(f"too few steps: no process has more than {skipped}", hint=_LISTED_STEPS)
    return after


def _of_steps(timeline: Timeline, part: Slice, wanted: str) -> dict[int, Interval]:
    found = {}
    for steps in _steps(timeline, part):
        places = _places(steps, wanted)
        if places:
            found[steps.pid] = (int(steps.start[places[0]]), int(steps.end[places].max()))
    if not found:
        raise UsageError(f"no step {wanted!r}", hint=_LISTED_STEPS)
    return found


def _steps(timeline: Timeline, part: Slice) -> list[found_in.Steps]:
    pattern = found_in.STEP_RANGE if part.step_range is None else part.step_range
    found = (found_in.annotated if part.projected else found_in.steps)(timeline, pattern)
    if not found:
        hint = "--step-range NAME says what steps are called; * stands for anything."
        raise UsageError(f"no steps: no range is called {pattern}", hint=hint)
    return found


def _places(steps: found_in.Steps, wanted: str) -> list[int]:
    # A number is the one in the names, as in `ProfilerStep#5`, where they have one; else it counts.
    if wanted in steps.name:
        return [place for place, name in enumerate(steps.name) if name == wanted]
    match = re.fullmatch(r"(\d{1,18})(?::(\d{1,18}))?", wanted)
    if match is None:
        return []
    first, last = int(match[1]), int(match[2] or match[1])
    in_names = [re.search(r"(\d{1,18})\D*$", name) for name in steps.name]
    numbers = [int(m[1]) for m in in_names if m]
    if len(numbers) < len(steps) or len(set(numbers)) < len(numbers):
        numbers = list(range(1, len(steps) + 1))
    return [place for place, number in enumerate(numbers) if first <= number <= last]


def _of_range(timeline: Timeline, text: str) -> dict[int, Interval]:
    for name, domain, occurrence in _readings(text):
        for spans in (ranges(timeline), operators(timeline)):
            mine = spans.take(named(timeline, spans, name, domain))
            times = {}
            for pid in distinct(mine.pid).tolist():
                here = mine.take(mine.pid == pid)
                if len(here) >= occurrence:
                    place = np.lexsort((here.end, here.start))[occurrence - 1]
                    times[pid] = (int(here.start[place]), int(here.end[place]))
            if times:
                return times
    spans = ranges(timeline)
    named_by = spans if len(spans) else operators(timeline)
    names = sorted(named_by.names[i] for i in distinct(named_by.name).tolist())
    hint = available_hint(text, names, "The report `ranges` lists them all.")
    raise UsageError(f"no range {text!r}", hint=hint)


def _readings(text: str) -> Iterator[tuple[str, str | None, int]]:
    whole = [(text, 1)]
    match = re.fullmatch(r"(.*)#([1-9]\d{0,8})", text, re.DOTALL)
    if match is not None:
        whole.append((match[1], int(match[2])))
    yield from ((name, None, occurrence) for name, occurrence in whole)
    for head, occurrence in whole:
        name, sign, domain = head.rpartition("@")
        if sign:
            yield name, domain, occurrence


def _projected(timeline: Timeline, launched: Mapping[int, Interval]) -> dict[int, Interval]:
    ops, owner = timeline.ops, timeline.owner
    times = {}
    for pid, (low, high) in launched.items():
        mine = np.flatnonzero((owner >= 0) & ops.timed & (ops.pid == pid))
        start = timeline.calls.start[owner[mine]]
        mine = mine[(start >= low) & (start < high)]
        if len(mine):
            times[pid] = (int(ops.start[mine].min()), int(ops.end[mine].max()))
    if not times:
        hint = "Without --projected it has a time."
        raise UsageError("no GPU operation was launched in the range", hint=hint)
    return times


_COPIES = {
    OpKind.MEMCPY: ("memcpy", "[memcpy "),
    OpKind.MIGRATION: ("unified_memory_event", "[UM "),
}
"""The table of copies of a kind, and what names of its operations begin with."""
_WHOLE_KINDS = {OpKind.MEMSET: "[memset]", OpKind.GRAPH: "[graph launch]"}


@cached
def sliced(timeline: Timeline, part: Slice) -> Timeline:
    """Return the time line cut to the slice; raise UsageError for what the profile does not have."""
    return timeline if part.is_whole else _Sliced(timeline, part)


class _Sliced(Timeline):
    # Calls are those of the whole, `calls_in_slice` says which count.

    def __init__(self, whole: Timeline, part: Slice) -> None:
        super().__init__(whole.profile)
        self.whole = whole
        self._part = part
        self._name = regular_expression(part.name)
        self._tids = frozenset(part.threads) or None
        with self._named_profile():
            self._pids = self._processes()

    is_whole = False

    def forget(self) -> None:
        super().forget()
        self.whole.forget()

    @property
    def slice_description(self) -> Mapping[str, Any]:
        limits = self.limits(np.empty(0, np.int64))
        when = {} if limits is None else {"start_ns": limits[0], "end_ns": limits[1]}
        # What a report is of is not what was asked for: both are stated.
        asked = {"time": self._part.time_text} if self.slice_notes else {}
        return {**when, **asked, **self._part.as_dict()}

    @property
    def calls(self) -> ApiCalls:
        return self.whole.calls

    @property
    @cached
    def ops(self) -> GpuOps:
        return self.whole.ops.take(self.ops_in_slice)

    @property
    @cached
    def owner(self) -> Array:
        return take(self.whole.owner, self.ops_in_slice)

    @property
    @cached
    def calls_in_slice(self) -> Array:
        calls, tids = self.whole.calls, self._tids
        kept = self._of_processes(calls.pid)
        if tids is not None:
            of_thread = np.array([tid in tids for _, tid in calls.threads], bool)
            kept &= of_thread[calls.thread] if len(calls) else False
        if self._name is not None:
            kept &= np.isin(calls.name_id, self._fitting(self.whole.call_names))
        kept &= self._in_time(calls.pid, calls.start, calls.end)
        return kept

    @property
    def clocks_disagree(self) -> bool:
        return self.whole.clocks_disagree

    def rows(self, table: str) -> Array:
        if table not in schema.GPU_OP_TABLES:
            return self._kept_rows(table)
        ops = self.whole.ops
        mine = ops.kind == schema.GPU_OP_TABLES.index(table)
        result = np.zeros(int(np.count_nonzero(mine)), bool)
        result[ops.row[mine & self.ops_in_slice]] = True
        return result

    def holds(self, spans: Spans) -> Array:
        kept = self._of_processes(spans.pid)
        if self._tids is not None:
            kept &= np.isin(spans.tid, list(self._tids))
        if self._name is not None:
            kept &= which_named(spans, self._name.search)
        kept &= self._in_time(spans.pid, spans.start, spans.end)
        return kept

    @cached_small
    def holds_all_ops_on(self, device: int) -> bool:
        low, high = self.limits(self.pids_on(device)) or (_FIRST, _LAST)
        ops = self.whole.ops
        there = (ops.device == device) & ops.timed & (ops.start < high)
        # What takes no time, and starts at a moment, is in it.
        there &= np.maximum(ops.end, ops.start + 1) > low
        return not (there & ~self.ops_in_slice).any()

    def limits(self, pids: Array) -> Interval | None:
        if self._times is None:
            return None
        own = self._times.own
        here = [own[p] for p in distinct(pids).tolist() if p in own] or list(own.values())
        low, high = min(low for low, _ in here), max(high for _, high in here)
        first, last = self._times.ends
        return max(low, first), min(high, last)

    def in_processes(self, pids: Array) -> Array:
        kept = self._of_processes(pids)
        if self._times is not None:
            kept &= np.isin(pids, list(self._times.launched))
        return kept

    @property
    @cached
    def at_any_time(self) -> GpuOps:
        return self.whole.ops.take(self._at_any_time)

    @property
    def slice_notes(self) -> tuple[Note, ...]:
        return () if self._times is None else self._times.notes

    @cached_property
    def op_notes(self) -> tuple[Note, ...]:
        return tuple(merged([*super().op_notes, *self._left_out()]))

    def _left_out(self) -> Iterator[Note]:
        facts = frozenset({Fact.KERNELS, Fact.MEMCPYS})
        if self._part.projected or self._tids is not None:
            ops = self.whole.ops
            unowned = (self.whole.owner < 0) & (ops.kind != OpKind.MIGRATION) & self._by_rows
            projected = self._part.projected
            unowned &= self.in_processes(ops.pid) if projected else self._ops_in_time(ops)
            count = int(np.count_nonzero(unowned))
            if count:
                text = "GPU operations without a recorded API call: left out of this slice"
                yield Note("unlinked-ops", Severity.APPROXIMATED, text, count, facts=facts)
        if self._times is not None and not self._part.projected:
            count = int(np.count_nonzero(self._at_any_time & ~self.whole.ops.timed))
            if count:
                text = "GPU operations without a time: left out of this slice"
                yield Note("no-time", Severity.APPROXIMATED, text, count, facts=facts)

    # -- what is kept

    @cached_property
    def _times(self) -> SliceTimes | None:
        with self._named_profile():
            self._check_numbers()
            return slice_times(self.whole, self._part) if self._part.bounds_time else None

    @contextmanager
    def _named_profile(self) -> Iterator[None]:
        try:
            yield
        except UsageError as error:
            where = error.where or self.profile.ref.label
            raise type(error)(error.what, where=where, hint=error.hint) from error

    def _processes(self) -> frozenset[int] | None:
        part = self._part
        known = {int(row["pid"]) for row in self.profile.rows("process")}
        chosen = known
        if part.processes:
            chosen = chosen & _known("process", part.processes, known, _WORK, self._working)
        if part.ranks:
            ranks = self.whole.ranks

            def working_ranks() -> set[int]:
                return {ranks[pid] for pid in self._working() if pid in ranks}

            wanted = _known("rank", part.ranks, set(ranks.values()), _WORK, working_ranks)
            chosen = chosen & {pid for pid, rank in ranks.items() if rank in wanted}
        if not part.processes and not part.ranks:
            return None
        if not chosen:
            raise UsageError("the slice is empty", hint="No such process has such a rank.")
        return frozenset(chosen)

    def _working(self) -> set[int]:
        calling = {pid for pid, _ in self.whole.calls.threads}
        return calling | set(distinct(self.whole.at_any_time.pid).tolist())

    def _check_numbers(self) -> None:
        part = self._part
        if part.devices:
            # Samples may be of devices on which nothing ran.
            sampled = {int(row["device_id"]) for row in self.profile.rows("device")}
            busy = set(self.whole.devices) - {MISSING}
            _known("device", part.devices, sampled | busy, _GPU_WORK, lambda: busy)
        if part.streams:
            streams = set(distinct(self.whole.ops.stream).tolist()) - {MISSING}
            _known("stream", part.streams, streams)
        if part.threads:
            named = {int(row["tid"]) for row in self.profile.rows("thread")}
            calling = {tid for _, tid in self.whole.calls.threads if tid != MISSING}
            _known("thread", part.threads, named | calling, _CALLS, lambda: calling)

    def _of_processes(self, pid: Array) -> Array:
        if self._pids is None:
            return np.ones(len(pid), bool)
        return np.isin(pid, list(self._pids))

    @property
    @cached
    def ops_in_slice(self) -> Array:
        chosen: Array = self._at_any_time & self._ops_in_time(self.whole.ops)
        return chosen

    @property
    @cached
    def _at_any_time(self) -> Array:
        kept = self._by_rows
        if self._tids is not None:
            calls, owner = self.whole.calls, self.whole.owner
            of_thread = np.array([tid in self._tids for _, tid in calls.threads] or [False], bool)
            kept &= (owner >= 0) & of_thread[calls.thread[owner] if len(calls) else owner * 0]
        return kept

    @property
    def _by_rows(self) -> Array:
        part, ops = self._part, self.whole.ops
        kept = self._of_processes(ops.pid)
        if part.devices:
            kept &= np.isin(ops.device, part.devices)
        if part.streams:
            kept &= np.isin(ops.stream, part.streams)
        if self._name is not None:
            kept &= self._named_ops
        return kept

    def _ops_in_time(self, ops: GpuOps) -> Array:
        if self._times is None:
            return np.ones(len(ops), bool)
        if self._part.projected:
            calls, owner = self.whole.calls, self.whole.owner
            start = np.full(len(ops), MISSING)
            start[owner >= 0] = calls.start[owner[owner >= 0]]
            # What starts at a moment is in it, as what takes no time.
            return _in_times(ops.pid, self._times.launched, start, start)
        return _in_times(ops.pid, self._times.own, ops.start, ops.end)

    def _in_time(self, pid: Array, start: Array, end: Array, *, gpu: bool = False) -> Array:
        if self._times is None:
            return np.ones(len(pid), bool)
        return _in_times(pid, self._times.own if gpu else self._times.launched, start, end)

    @property
    @cached
    def _named_ops(self) -> Array:
        ops = self.whole.ops
        fits = np.zeros(len(ops), bool)
        for kind in OpKind:
            mine = ops.kind == kind
            if not mine.any():
                continue
            if kind is OpKind.KERNEL:
                ids = self.profile.columns("kernel", ("name_id",))["name_id"]
                known = self.profile.names(distinct(ids))
                fits[mine] = np.isin(ids[ops.row[mine]], self._fitting(known))
            elif kind in _COPIES:
                table, prefix = _COPIES[kind]
                codes = self.profile.columns(table, ("direction",))["direction"]
                good = self._matches(f"{prefix}{word}]" for word in DIRECTIONS)
                # A direction that is not recorded is the first word, Unknown.
                codes = codes[ops.row[mine]]
                fits[mine] = good[np.where((codes < 0) | (codes >= len(good)), 0, codes)]
            else:
                fits[mine] = self._matches([_WHOLE_KINDS[kind]])
        return fits

    def _matches(self, texts: Iterable[str]) -> Array:
        assert self._name is not None
        return np.array([bool(self._name.search(text)) for text in texts], bool)

    def _fitting(self, names: Mapping[int, str]) -> Array:
        return take(np.array(list(names), np.int64), self._matches(names.values()))

    def _kept_rows(self, table: str) -> Array:
        has = schema.metadata.tables[table].columns

        def column(name: str) -> Array:
            return self.profile.columns(table, (name,))[name]

        start, end = row_times(self.profile, table)
        if table == "range":
            closed = ranges(self.whole)
            end[closed.row] = closed.end
        pid = column("pid")
        gpu = "device_id" in has and "tid" not in has
        kept: Array = self._of_processes(pid) & self._in_time(pid, start, end, gpu=gpu)
        part = self._part
        numbers = {"device_id": part.devices, "stream_id": part.streams, "tid": part.threads}
        for name, wanted in numbers.items():
            if wanted and name in has:
                kept &= np.isin(column(name), wanted)
        if self._name is not None and "name_id" in has:
            ids = column("name_id")
            plain = table == "api_call"
            fits = np.isin(ids, self._fitting(self.profile.names(distinct(ids), plain=plain)))
            if "text" in has:
                own = self.profile.texts(table, "text")
                rows = own.ids[self._matches(own.texts)[own.numbers]]
                fits |= (ids == MISSING) & np.isin(column("id"), rows)
            kept &= fits
        return kept


def _in_times(pid: Array, times: Mapping[int, Interval], start: Array, end: Array) -> Array:
    kept = np.zeros(len(pid), bool)
    for process, (low, high) in times.items():
        mine = np.flatnonzero(pid == process)
        s, e = start[mine], end[mine]
        kept[mine] = (s < high) & ((e > low) | ((s == e) & (s >= low)))
    return kept


def regular_expression(text: str | None) -> re.Pattern[str] | None:
    """Return a user's pattern compiled, None for None; raise UsageError if it cannot be."""
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        what = f"{text!r} is no regular expression: {error}"
        raise UsageError(what, hint="Escape ( [ * + ? with \\.") from error


_GPU_WORK, _CALLS = "GPU work", "API calls"
_WORK = f"{_GPU_WORK} and {_CALLS}"


def _known(
    what: str,
    wanted: Sequence[int],
    known: set[int],
    work: str = "",
    working: Callable[[], set[int]] | None = None,
) -> set[int]:
    unknown = sorted(set(wanted) - known)
    if unknown:
        busy = known & working() if working is not None else known
        hint = available_hint(None, map(str, sorted(busy)))
        if idle := sorted(known - busy):
            some = ", ".join(map(str, idle[:20])) + (", …" if len(idle) > 20 else "")
            hint += f"; without {work}: {some}"
        raise AbsentError(f"no {what} {', '.join(map(str, unknown))} in this profile", hint=hint)
    return set(wanted)
