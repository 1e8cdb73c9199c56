"""Profiles into one trace, whatever its format: on one clock, section by section, then their counters."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from nsysconv import schema
from nsysconv.export.columns import TableReader, int64_array, row_slices
from nsysconv.export.contract import Written
from nsysconv.export.layout import EventBlock, TraceLayout
from nsysconv.export.tracks import (
    ON_DEVICES,
    ON_THREADS,
    OPS,
    EventKind,
    TraceProcess,
    TraceProcesses,
    Track,
    track_name,
)
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity, merged
from nsysconv.report import MISSING
from nsysconv.threads import Threads
from nsysconv.timeline.arrays import distinct, factorize
from nsysconv.timeline.timeline import Timeline, queues

Array = np.ndarray

MOST_QUEUED = 500_000
"""The most operations with which queues are drawn: two points per launch would be most of the trace."""

_SAMPLED = ("start_ns", "name_id", "pid", "device_id", "value_avg", "value_sum", "value_max")
_MOST_WAITING = 2


@dataclass(frozen=True)
class CounterTrack:
    """A number that changes in time, of a process or, if `device` is not None, of a device."""

    what: str
    name: str
    unit: str
    pid: int
    device: int | None = None


@dataclass(frozen=True)
class CounterValues:
    """Values of counters in the order of `time` (ns since zero); `index` indexes `counters`."""

    counters: list[CounterTrack]
    index: Array
    time: Array
    value: Array


class TraceWriter(Protocol):
    """Writes a trace in one format. Times it gets are ns since the trace's zero."""

    def add_process(self, process: TraceProcess) -> None:
        """Write a process or a device, once, before any of its tracks."""

    def add_track(self, track: Track, process: TraceProcess, name: str) -> None:
        """Write a track, before any of its rows."""

    def encode_events(self, block: EventBlock) -> tuple[pa.Array, pa.Array | None]:
        """Return what rows are written as, and the ends of arrows behind them, or None."""

    def encode_counters(self, values: CounterValues, processes: Sequence[TraceProcess]) -> pa.Array:
        """Return what values of counters are written as; a counter is of the process with its index."""

    def write(self, encoded: pa.Array) -> None:
        """Write what was encoded."""


def common_zero(timelines: Sequence[Timeline]) -> tuple[int | None, list[int], list[Note]]:
    """Return the trace's zero (UTC, ns), how much later each profile's zero is (ns), and notes."""
    zeros = [timeline.profile.attributes["zero_utc_ns"] for timeline in timelines]
    utc_zeros = [zero for zero in zeros if zero is not None]
    if len(utc_zeros) == len(zeros):
        return min(utc_zeros), [zero - min(utc_zeros) for zero in utc_zeros], []
    if len(zeros) == 1:
        return None, [0], []
    text = "profiles without a time of day begin at their own zero and are not aligned"
    note = Note("not-aligned", Severity.APPROXIMATED, text, len(zeros) - len(utc_zeros))
    return None, [0] * len(zeros), [note]


def write_trace(
    timelines: Sequence[Timeline], shifts: Sequence[int], writer: TraceWriter
) -> Written:
    """Write all rows and counters of these profiles; return the number of events by kind, and notes."""
    counts: Counter[str] = Counter()
    notes: list[Note] = []
    processes = TraceProcesses(timelines)
    next_track = next_flow = 1
    for index, (timeline, shift) in enumerate(zip(timelines, shifts, strict=True)):
        _settle_guards(timeline)
        layout = TraceLayout(timeline, next_track, next_flow)
        profile = _ProfileWriter(writer, layout, index, shift, processes, counts)
        for pid in _pids(timeline):
            for kind in ON_THREADS:
                profile.write_section((kind,), pid)
            profile.write_section(OPS, pid)
            for kind in ON_DEVICES:
                profile.write_section((kind,), pid)
        profile.write_counters()
        next_track = layout.next_track
        next_flow = next_flow if layout.flows is None else layout.flows.next
        notes += _notes(layout)
        timeline.forget()
    return Written(dict(counts), tuple(merged(notes)))


@dataclass(frozen=True)
class _ProfileWriter:
    """Writes one profile of a trace; `index` counts the profiles, `shift` (ns) is added to times."""

    writer: TraceWriter
    layout: TraceLayout
    index: int
    shift: int
    processes: TraceProcesses
    counts: Counter[str]

    def write_section(self, kinds: Sequence[EventKind], pid: int) -> None:
        layout, writer = self.layout, self.writer
        if not any(layout.profile.row_count(kind.table) for kind in kinds):
            return
        section = layout.section(kinds, pid)
        if kinds is OPS and len(section.kind_of):
            # Rows of devices do not name their process: readers take that of the rows before them.
            self._process(pid, None)
        for track in section.tracks:
            device = track.key["device_id"] if track.kind.on_gpu else None
            process = self._process(pid, device)
            writer.add_track(track, process, track_name(track, layout.timeline))
        with in_background() as submit:
            for blocks, order in layout.blocks(section):
                if self.shift:
                    blocks = [replace(block, start=block.start + self.shift) for block in blocks]
                for block in blocks:
                    self.counts[block.kind.what] += len(block.start)
                submit(partial(self._write_blocks, blocks, order))

    def _write_blocks(self, blocks: Sequence[EventBlock], order: Array) -> None:
        encoded, flows = zip(*(self.writer.encode_events(block) for block in blocks), strict=True)
        by_time = (
            pa.concat_arrays(encoded).take(int64_array(order)) if len(encoded) > 1 else encoded[0]
        )
        self.writer.write(by_time)
        for arrows in flows:
            if arrows is not None:
                self.writer.write(arrows)

    def write_counters(self) -> None:
        for values in _counter_values(self.layout):
            if not len(values.time):
                continue
            processes = [self._process(c.pid, c.device) for c in values.counters]
            self.counts["counter"] += len(values.time)
            shifted = replace(values, time=values.time + self.shift)
            self.writer.write(self.writer.encode_counters(shifted, processes))

    def _process(self, pid: int, device: int | None) -> TraceProcess:
        known = len(self.processes)
        if device is None:
            process = self.processes.process(self.index, self.layout.timeline, pid)
        else:
            process = self.processes.device(self.index, self.layout.timeline, device)
        if len(self.processes) > known:
            self.writer.add_process(process)
        return process


@contextmanager
def in_background() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Yield a function that has a task run after all others, in a thread of their own.

    It blocks while the queue is full, which bounds memory. An error of a task is raised by a later
    call, or at the end; tasks that wait are cancelled then.
    """
    waiting: deque[Future[None]] = deque()
    with Threads(1) as pool:

        def submit(task: Callable[[], None]) -> None:
            while len(waiting) >= _MOST_WAITING:
                waiting.popleft().result()
            waiting.append(pool.submit(task))

        yield submit
        while waiting:
            waiting.popleft().result()


def _settle_guards(timeline: Timeline) -> None:
    # The store notices damaged rows of a source when it reads them first, and counts without them then.
    for table in schema.EVENT_TABLES:
        for _ in timeline.profile.batches(table, 1):
            break
    timeline.forget()


def _pids(timeline: Timeline) -> list[int]:
    profile = timeline.profile
    pids = {int(row["pid"]) for row in profile.rows("process")}
    for table in schema.EVENT_TABLES:
        constant = profile.constants(table).get("pid")
        if constant is not None:
            pids.add(constant)
        elif profile.row_count(table):
            pids.update(distinct(profile.columns(table, ("pid",))["pid"]).tolist())
            profile.release(table, ("pid",))
    return [*sorted(pids - {MISSING}), *sorted(pids & {MISSING})]


def _notes(layout: TraceLayout) -> Iterator[Note]:
    if Fact.API_LINKS in layout.profile.facts and _too_many_queued(layout):
        text = f"queue lengths are drawn only for profiles with at most {MOST_QUEUED:,} kernels"
        yield Note("queues-not-drawn", Severity.INFO, text)
    for kind, count in layout.untimed.items():
        if count:
            text = f"rows of {kind} without a time were left out of the trace"
            yield Note("not-drawn", Severity.DROPPED, text, count)


# -- counters


def _counter_values(layout: TraceLayout) -> Iterator[CounterValues]:
    yield from _memory(layout)
    yield from _metrics(layout)
    if Fact.API_LINKS in layout.profile.facts and not _too_many_queued(layout):
        yield from _queues(layout)


def _too_many_queued(layout: TraceLayout) -> bool:
    return layout.profile.row_count("kernel") > MOST_QUEUED


def _memory(layout: TraceLayout) -> Iterator[CounterValues]:
    names = ("start_ns", "pid", "device_id", "bytes", "allocated_bytes", "reserved_bytes")
    columns = layout.timeline.columns("memory_event", names)
    rows = np.flatnonzero(columns["start_ns"] != MISSING)
    if not len(rows):
        return
    rows = rows[np.argsort(columns["start_ns"][rows], kind="stable")]
    start, pid, device, size, allocated, reserved = (columns[name][rows] for name in names)
    group, (pids, devices) = factorize(pid, device)
    for index, (p, d) in enumerate(zip(pids.tolist(), devices.tolist(), strict=True)):
        members = np.flatnonzero(group == index)
        memory = "host memory" if d == MISSING else f"memory of GPU {d}"
        if (allocated[members] == MISSING).all():
            level = np.cumsum(np.where(size[members] == MISSING, 0, size[members]))
            series = [("since the recording began", start[members], level)]
        else:
            series = []
            for label, column in (("allocated", allocated), ("reserved", reserved)):
                rows = members[column[members] != MISSING]
                if len(rows):
                    series.append((label, start[rows], column[rows]))
        for label, time, value in series:
            counter = CounterTrack("memory", f"{memory}, {label}", "bytes", p)
            yield CounterValues([counter], np.zeros(len(time), np.int64), time, value)


def _metrics(layout: TraceLayout) -> Iterator[CounterValues]:
    profile = layout.profile
    if not profile.row_count("metric_sample"):
        return
    start = profile.columns("metric_sample", ("start_ns",))["start_ns"]
    timed = start != MISSING
    mask = layout.mask("metric_sample")
    inside = np.ones(len(start), bool) if mask is None else mask
    layout.untimed["metric_sample"] += int(np.count_nonzero(inside & ~timed))
    rows = np.flatnonzero(timed & inside)
    rows = rows[np.argsort(start[rows], kind="stable")].astype(np.int32)
    reader = TableReader(profile, "metric_sample", rows, _SAMPLED)
    for some in row_slices(len(rows)):
        columns = reader.next(some.stop - some.start)
        index, (ids, pids, devices) = factorize(
            columns["name_id"], columns["pid"], columns["device_id"]
        )
        names = layout.lookup.names(ids)
        counters = [
            CounterTrack("metric", names.texts[n] if n >= 0 else "[no name]", "", pid, device)
            for n, pid, device in zip(
                names.numbers.tolist(), pids.tolist(), devices.tolist(), strict=True
            )
        ]
        value = columns["value_avg"]
        for other in ("value_sum", "value_max"):
            value = np.where(np.isfinite(value), value, columns[other])
        finite = np.isfinite(value)
        yield CounterValues(counters, index[finite], columns["start_ns"][finite], value[finite])


def _queues(layout: TraceLayout) -> Iterator[CounterValues]:
    lengths = queues(layout.timeline)
    streams = zip(
        lengths.device.tolist(), lengths.pid.tolist(), lengths.stream.tolist(), strict=True
    )
    several = len(set(lengths.pid.tolist())) > 1
    counters = []
    for device, pid, stream in streams:
        name = "queue of no stream" if stream == MISSING else f"queue of stream {stream}"
        process = f", process {pid}" if several else ""
        counters.append(CounterTrack("queue", name + process, "launches", pid, device))
    # If the queue changes several times at one moment, only the last length is drawn.
    last = np.append(
        (np.diff(lengths.time) != 0) | (np.diff(lengths.group) != 0),
        np.ones(min(1, len(lengths.time)), bool),
    )
    rows = np.flatnonzero(last)
    rows = rows[np.argsort(lengths.time[rows], kind="stable")]
    for some in row_slices(len(rows)):
        r = rows[some]
        yield CounterValues(counters, lengths.group[r], lengths.time[r], lengths.length[r])
