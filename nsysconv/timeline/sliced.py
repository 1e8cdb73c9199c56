"""A time line cut to a slice: what of each table belongs to it.

Definitions, with worked examples: docs/definitions.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from nsysconv import schema
from nsysconv.cache import cached_property
from nsysconv.codes import DIRECTIONS
from nsysconv.errors import UsageError, available_hint
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity, merged
from nsysconv.report import MISSING
from nsysconv.timeline.annotations import Spans, ranges
from nsysconv.timeline.calls import ApiCalls
from nsysconv.timeline.ops import GpuOps, Kind
from nsysconv.timeline.slice_times import Interval, Times, times
from nsysconv.timeline.slices import Slice
from nsysconv.timeline.statistics import distinct
from nsysconv.timeline.timeline import Timeline, cached

Array = np.ndarray

_COPY_PREFIXES = {Kind.MEMCPY: "[memcpy ", Kind.MIGRATION: "[UM "}
_COPY_TABLES = {Kind.MEMCPY: "memcpy", Kind.MIGRATION: "unified_memory_event"}


def sliced(timeline: Timeline, part: Slice) -> Timeline:
    """The time line of only what belongs to the slice; the same one for a slice that is all of it.

    Raises UsageError for names, steps and numbers that the profile does not have.
    """
    return timeline if part.is_whole else _sliced(timeline, part)


@cached
def _sliced(timeline: Timeline, part: Slice) -> Timeline:
    return _Sliced(timeline, part)


class _Sliced(Timeline):
    """The slice of a time line. Calls and links are those of the whole, `called` says which count."""

    def __init__(self, whole: Timeline, part: Slice) -> None:
        super().__init__(whole.profile)
        self.whole = whole
        self._part = part
        self._name = _pattern(part.name)
        with self._named_profile():
            self._pids = self._processes()

    is_whole = False

    def forget(self) -> None:
        super().forget()
        self.whole.forget()

    @property
    def described(self) -> Mapping[str, Any]:
        limits = self.limits(np.empty(0, np.int64))
        when = {} if limits is None else {"start_ns": limits[0], "end_ns": limits[1]}
        return {**when, **self._part.as_dict()}

    @property
    def calls(self) -> ApiCalls:
        return self.whole.calls

    @property
    @cached
    def ops(self) -> GpuOps:
        return self.whole.ops.take(self._chosen_ops)

    @property
    @cached
    def owner(self) -> Array:
        result: Array = self.whole.owner[self._chosen_ops]
        return result

    @property
    @cached
    def called(self) -> Array:
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
        if table in schema.GPU_OP_TABLES:
            return self._op_rows(Kind(schema.GPU_OP_TABLES.index(table)))
        return self._kept_rows(table)

    def holds(self, spans: Spans) -> Array:
        kept = self._of_processes(spans.pid)
        if self._tids is not None:
            kept &= np.isin(spans.tid, list(self._tids))
        if self._name is not None:
            fits = np.array([bool(self._name.search(name)) for name in spans.names], bool)
            kept &= fits[spans.name] if len(spans) else False
        kept &= self._in_time(spans.pid, spans.start, spans.end)
        return kept

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

    @cached_property
    def op_notes(self) -> tuple[Note, ...]:
        return tuple(merged([*super().op_notes, *self._left_out()]))

    def _left_out(self) -> Iterator[Note]:
        """What the slice cannot tell whether it belongs to it."""
        facts = frozenset({Fact.KERNELS, Fact.MEMCPYS})
        by_call = self._part.projected or self._tids is not None
        if by_call:
            ops = self.whole.ops
            unowned = (self.whole.owner < 0) & (ops.kind != Kind.MIGRATION) & self._by_rows
            if self._part.projected:
                unowned &= self.in_processes(ops.pid)
            else:
                unowned &= self._ops_in_time(ops)
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
    def _times(self) -> Times | None:
        """When the slice is; None: it does not say. Found only now: it may take reading everything."""
        with self._named_profile():
            self._check_numbers()
            return times(self.whole, self._part) if self._part.bounds_time else None

    @contextmanager
    def _named_profile(self) -> Iterator[None]:
        """Says which profile it is that does not have what is asked for: there may be two."""
        try:
            yield
        except UsageError as error:
            where = error.where or self.profile.ref.label
            raise UsageError(error.what, where=where, hint=error.hint) from error

    @cached_property
    def _tids(self) -> frozenset[int] | None:
        return frozenset(self._part.threads) or None

    def _processes(self) -> frozenset[int] | None:
        """The processes that are asked for; None: all."""
        part = self._part
        known = {int(row["pid"]) for row in self.profile.rows("process")}
        chosen = known
        if part.processes:
            chosen = chosen & _known("process", part.processes, known, _WORK, self._working)
        if part.ranks:
            ranks = self.whole.ranks
            wanted = _known(
                "rank",
                part.ranks,
                set(ranks.values()),
                _WORK,
                lambda: {ranks[pid] for pid in self._working() if pid in ranks},
            )
            chosen = chosen & {pid for pid, rank in ranks.items() if rank in wanted}
        if not part.processes and not part.ranks:
            return None
        if not chosen:
            raise UsageError("the slice is empty", hint="No such process has such a rank.")
        return frozenset(chosen)

    def _working(self) -> set[int]:
        """The processes with GPU operations or API calls."""
        calling = {pid for pid, _ in self.whole.calls.threads}
        return calling | set(distinct(self.whole.at_any_time.pid).tolist())

    def _check_numbers(self) -> None:
        """Refuses devices, streams and threads that the profile does not have."""
        part = self._part
        if part.devices:
            # Samples may be of devices on which nothing ran.
            sampled = {int(row["device_id"]) for row in self.profile.rows("device")}
            busy = set(self.whole.devices) - {MISSING}
            _known("device", part.devices, sampled | busy, _GPU_WORK, lambda: busy)
        if part.streams:
            _known(
                "stream", part.streams, set(distinct(self.whole.ops.stream).tolist()) - {MISSING}
            )
        if part.threads:
            named = {int(row["tid"]) for row in self.profile.rows("thread")}
            calling = {tid for _, tid in self.whole.calls.threads if tid != MISSING}
            _known("thread", part.threads, named | calling, _CALLS, lambda: calling)

    def _of_processes(self, pid: Array) -> Array:
        if self._pids is None:
            return np.ones(len(pid), bool)
        kept: Array = np.isin(pid, list(self._pids))
        return kept

    @property
    @cached
    def _chosen_ops(self) -> Array:
        chosen: Array = self._at_any_time & self._ops_in_time(self.whole.ops)
        return chosen

    @property
    @cached
    def _at_any_time(self) -> Array:
        """Which operations would be in the slice at another time."""
        kept = self._by_rows
        if self._tids is not None:
            calls, owner = self.whole.calls, self.whole.owner
            of_thread = np.array([tid in self._tids for _, tid in calls.threads] or [False], bool)
            kept &= (owner >= 0) & of_thread[calls.thread[owner] if len(calls) else owner * 0]
        return kept

    @property
    def _by_rows(self) -> Array:
        """Which operations are of the processes, devices, streams and names that are asked for."""
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
        """Which operations run, or are launched, in the slice's time of their process."""
        if self._times is None:
            return np.ones(len(ops), bool)
        if self._part.projected:
            calls, owner = self.whole.calls, self.whole.owner
            start = np.full(len(ops), MISSING)
            start[owner >= 0] = calls.start[owner[owner >= 0]]
            return _by_process(
                ops.pid,
                self._times.launched,
                lambda mine, low, high: (start[mine] >= low) & (start[mine] < high),
            )
        return _by_process(ops.pid, self._times.own, _intersecting(ops.start, ops.end))

    def _in_time(self, pid: Array, start: Array, end: Array, *, gpu: bool = False) -> Array:
        """Which rows, of the CPU's side unless `gpu`, are in the slice's time of their process."""
        if self._times is None:
            return np.ones(len(pid), bool)
        times = self._times.own if gpu else self._times.launched
        return _by_process(pid, times, _intersecting(start, end))

    @property
    @cached
    def _named_ops(self) -> Array:
        """Which operations have a name that fits: a kernel's own, or `[memcpy HtoD]` and the like."""
        assert self._name is not None
        ops = self.whole.ops
        fits = np.zeros(len(ops), bool)
        for kind in Kind:
            mine = ops.kind == kind
            if not mine.any():
                continue
            if kind is Kind.KERNEL:
                ids = self.profile.columns("kernel", ("name_id",))["name_id"]
                known = self.profile.names(distinct(ids))
                fits[mine] = np.isin(ids[ops.row[mine]], self._fitting(known))
            elif kind in _COPY_TABLES:
                codes = self.profile.columns(_COPY_TABLES[kind], ("direction",))["direction"]
                words = [f"{_COPY_PREFIXES[kind]}{word}]" for word in DIRECTIONS]
                good = np.array([bool(self._name.search(word)) for word in words], bool)
                # A direction that is not recorded is the first word, Unknown.
                codes = codes[ops.row[mine]]
                fits[mine] = good[np.where((codes < 0) | (codes >= len(words)), 0, codes)]
            else:
                word = "[memset]" if kind is Kind.MEMSET else "[graph launch]"
                fits[mine] = bool(self._name.search(word))
        return fits

    def _fitting(self, names: Mapping[int, str]) -> list[int]:
        assert self._name is not None
        return [number for number, name in names.items() if self._name.search(name)]

    def _op_rows(self, kind: Kind) -> Array:
        ops = self.whole.ops
        mine = ops.kind == kind
        result = np.zeros(int(np.count_nonzero(mine)), bool)
        result[ops.row[mine & self._chosen_ops]] = True
        return result

    def _kept_rows(self, table: str) -> Array:
        """Which rows of a table of the CPU's side, or of what is neither an operation nor a call."""
        has = schema.metadata.tables[table].columns
        start = self.profile.columns(table, ("start_ns",))["start_ns"]
        end = start
        if "dur_ns" in has:
            dur = self.profile.columns(table, ("dur_ns",))["dur_ns"]
            end = np.where((start == MISSING) | (dur == MISSING), start, start + dur)
        if table == "range":
            closed = ranges(self.whole)
            end[closed.row] = closed.end
        pid = self.profile.columns(table, ("pid",))["pid"]
        gpu = "device_id" in has and "tid" not in has
        kept: Array = self._of_processes(pid) & self._in_time(pid, start, end, gpu=gpu)
        for column, wanted in (
            ("device_id", self._part.devices),
            ("stream_id", self._part.streams),
            ("tid", self._part.threads),
        ):
            if wanted and column in has:
                kept &= np.isin(self.profile.columns(table, (column,))[column], wanted)
        if self._name is not None and "name_id" in has:
            ids = self.profile.columns(table, ("name_id",))["name_id"]
            plain = table == "api_call"
            fits = np.isin(ids, self._fitting(self.profile.names(distinct(ids), plain=plain)))
            if "text" in has:
                own = self.profile.texts(table, "text")
                good = np.array([bool(self._name.search(text)) for text in own.texts], bool)
                row = np.isin(
                    self.profile.columns(table, ("id",))["id"], own.ids[good[own.numbers]]
                )
                fits |= (ids == MISSING) & row
            kept &= fits
        return kept


def _by_process(
    pid: Array, times: Mapping[int, Interval], holds: Callable[[Array, int, int], Array]
) -> Array:
    """Per row what `holds` says of the rows of its process; False for those without a time there."""
    kept = np.zeros(len(pid), bool)
    for process, (low, high) in times.items():
        mine = np.flatnonzero(pid == process)
        kept[mine] = holds(mine, low, high)
    return kept


def _intersecting(start: Array, end: Array) -> Callable[[Array, int, int], Array]:
    """Whether intervals intersect [low, high); one without length does where it starts inside."""

    def holds(mine: Array, low: int, high: int) -> Array:
        s, e = start[mine], end[mine]
        result: Array = (s < high) & ((e > low) | ((s == e) & (s >= low)))
        return result

    return holds


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(
            f"{text!r} is no regular expression: {error}", hint="Escape ( [ * + ? with \\."
        ) from error


_GPU_WORK, _CALLS = "GPU work", "API calls"
_WORK = f"{_GPU_WORK} and {_CALLS}"


def _known(
    what: str,
    wanted: Sequence[int],
    known: set[int],
    work: str = "",
    working: Callable[[], set[int]] | None = None,
) -> set[int]:
    """What is wanted. Raises UsageError where it is not known: it tells those with `work` from others."""
    unknown = sorted(set(wanted) - known)
    if unknown:
        busy = known & working() if working is not None else known
        hint = available_hint(None, map(str, sorted(busy)))
        if known - busy:
            hint += f"; without {work}: {_some(known - busy)}"
        raise UsageError(
            f"no {what} {', '.join(map(str, unknown))} in this profile",
            hint=hint,
        )
    return set(wanted)


def _some(numbers: set[int]) -> str:
    listed = sorted(numbers)
    return (", ".join(map(str, listed[:20])) + (", …" if len(listed) > 20 else "")) or "none"
