"""The time line cut to a slice (docs/definitions/basics.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from nsysconv import schema
from nsysconv.codes import DIRECTIONS
from nsysconv.errors import AbsentError, UsageError, available_hint
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity, merged
from nsysconv.regex import regular_expression
from nsysconv.report import MISSING
from nsysconv.threads import cached_property
from nsysconv.timeline.annotations import ranges, which_named
from nsysconv.timeline.arrays import Array, distinct, take
from nsysconv.timeline.events import ApiCalls, GpuOps, OpKind, Spans, row_times
from nsysconv.timeline.intervals import Union, union
from nsysconv.timeline.slice_times import SliceTimes, slice_times
from nsysconv.timeline.slices import Slice
from nsysconv.timeline.timeline import Timeline, cached, cached_small
from nsysconv.timeline.windows import Window, common, window_of

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
        self._name = None if part.name is None else regular_expression(part.name)
        self._tids = frozenset(part.threads) or None
        with self._named_profile():
            self._pids = self._processes()

    is_whole = False

    def forget(self) -> None:
        super().forget()
        self.whole.forget()

    @property
    def slice_description(self) -> Mapping[str, Any]:
        window, when = self.window(np.empty(0, np.int64)), {}
        if window is not None:
            when = {"start_ns": window.start, "end_ns": window.end}
            if window.parts is not None:
                when |= {"window_count": len(window.parts.starts), "window_ns": window.length}
        # What a report is of is not what was asked for: both are stated.
        cut = self._part.time is not None and bool(self.slice_notes)
        asked = {"time": self._part.time_text} if cut else {}
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
        window, ops = self.window(self.pids_on(device)), self.whole.ops
        there = (ops.device == device) & ops.timed
        if window is not None:
            # What takes no time, and starts at a moment, is in it.
            there &= window.union.meets(ops.start, ops.end)
        return not (there & ~self.ops_in_slice).any()

    @cached_small
    def _window_of(self, pids: frozenset[int]) -> Window | None:
        assert self._times is not None
        own = self._times.own
        here = [own[pid] for pid in sorted(pids) if pid in own] or list(own.values())
        starts, ends = (np.concatenate([getattr(u, n) for u in here]) for n in ("starts", "ends"))
        first, last = self._times.ends
        found = common(union(starts, ends), union(np.array([first]), np.array([last])))
        return window_of(found) or Window(first, first)

    def window(self, pids: Array) -> Window | None:
        return None if self._times is None else self._window_of(frozenset(distinct(pids).tolist()))

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


def _in_times(pid: Array, times: Mapping[int, Union], start: Array, end: Array) -> Array:
    kept = np.zeros(len(pid), bool)
    for process, when in times.items():
        mine = np.flatnonzero(pid == process)
        kept[mine] = when.meets(start[mine], end[mine])
    return kept


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
