"""One profile's time line: columns read once, and what several reports derive from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.names import called
from nsysconv.notes import Note, Severity
from nsysconv.phases import phase
from nsysconv.report import MISSING
from nsysconv.schema import GPU_OP_TABLES
from nsysconv.store.read import Profile
from nsysconv.threads import Threads, ThreadSafeCache, cached_in, cached_property
from nsysconv.timeline.arrays import (
    Array,
    Columns,
    among,
    blocks,
    by_group,
    distinct,
    factorize,
    sums,
    take,
)
from nsysconv.timeline.events import (
    Along,
    ApiCalls,
    GpuOps,
    OpKind,
    Spans,
    api_calls,
    gpu_ops,
    has_time,
    owners,
    streams_of,
)
from nsysconv.timeline.intervals import Union, union
from nsysconv.timeline.plausibility import examine_at_hand
from nsysconv.timeline.windows import Window

# Later than this after its call no operation starts, unless the clocks disagree.
_LATEST_START_NS = 1_000_000_000
# A copy that its call waits for cannot end later than this after it.
_LATEST_END_NS = 1_000_000
_DTOH = 2
_NOWHERE = np.empty(0, np.int32)
_LINKS = frozenset({Fact.API_LINKS})

cached = cached_in("cache")
"""Decorator: keep what a function of a time line returns until `Timeline.forget`."""

cached_small = cached_in("small_cache")
"""Like `cached`, for small results, which `Timeline.forget` leaves."""

cached_whole = cached_in("whole.cache")
"""Like `cached`, for results of the whole profile, which all of its slices share."""

cached_whole_small = cached_in("whole.small_cache")
"""Like `cached_small`, for results of the whole profile."""


class Timeline:
    """A profile and everything derived from it that more than one report uses, computed once.

    Several threads may ask at the same time, but none while another lets go of what was made.
    """

    whole: Timeline
    """The time line of the whole profile: this one, unless this one is cut to a slice."""
    is_whole = True
    """True if this is all of the profile."""

    def __init__(self, profile: Profile) -> None:
        """Take the profile whose events these are."""
        self.profile = profile
        profile.examine = examine_at_hand
        self.whole = self
        self._along: Along = {}
        self._assumed = 0  # for how many operations `owner` is
        self._has_ops = False
        self.cache = ThreadSafeCache()
        self.small_cache = ThreadSafeCache()

    def forget(self) -> None:
        """Drop everything large: columns and `cached` results. Both are computed again when asked for."""
        self.cache.clear()
        self.profile.forget()

    def read_ahead(self, along: Along) -> None:
        """Make operations and calls at the same time; columns `along` will be asked for, too."""
        self._along = along
        if along:
            self.profile.examine = partial(examine_at_hand, along=along)
        with Threads(2) as pool:
            for made in (pool.submit(lambda: self.ops), pool.submit(lambda: self.calls)):
                made.result()

    @property
    @cached
    def ops(self) -> GpuOps:
        """Return all GPU operations."""
        with phase("compute gpu operations"):
            found = gpu_ops(self.profile, self._along)
        self._has_ops = True
        return found

    @property
    @cached
    def calls(self) -> ApiCalls:
        """Return all API calls."""
        with phase("compute api calls"):
            return api_calls(self.profile, self._along)

    @property
    @cached
    def owner(self) -> Array:
        """Return per operation of `ops` the index in `calls` of its launching call, -1 for none."""
        with phase("compute links"):
            owner, self._assumed = owners(self.ops, self.calls, self.call_names)
            return owner

    @property
    @cached
    def lost_launches(self) -> Array:
        """Return the indices in `calls` of those whose work was not recorded, or is not believed."""
        rows = self.profile.examination.lost
        return np.flatnonzero(among(self.calls.row, rows)) if len(rows) else rows

    @property
    @cached
    def ops_in_slice(self) -> Array:
        """Return which operations of `whole` belong to the slice, as a mask; without one, all."""
        return np.broadcast_to(np.True_, len(self.ops))

    @property
    @cached
    def calls_in_slice(self) -> Array:
        """Return which of `calls` belong to the slice, as a mask; without one, all."""
        return np.broadcast_to(np.True_, len(self.calls))

    @property
    def slice_description(self) -> Mapping[str, Any] | None:
        """Return the slice as reports state it; None: there is none."""
        return None

    @property
    def slice_notes(self) -> tuple[Note, ...]:
        """Return the notes on the slice itself, which every report on it carries."""
        return ()

    def rows(self, table: str) -> Array:
        """Return which rows of an event table belong to the slice, as a mask."""
        return np.ones(len(self.profile.columns(table, ("pid",))["pid"]), bool)

    def columns(self, table: str, names: Sequence[str]) -> dict[str, Array]:
        """Return columns of an event table: the rows that belong to the slice."""
        found = self.profile.columns(table, names)
        if self.is_whole:
            return found
        kept = self.rows(table)
        return {name: take(values, kept) for name, values in found.items()}

    def holds(self, spans: Spans) -> Array:
        """Return which named intervals belong to the slice, as a mask."""
        return np.ones(len(spans), bool)

    def in_processes(self, pids: Array) -> Array:
        """Return which of these processes are in the slice, as a mask."""
        return np.ones(len(pids), bool)

    def holds_all_ops_on(self, device: int) -> bool:
        """Return whether all that a device ran at the time of the slice is in it."""
        return True

    def window(self, pids: Array) -> Window | None:
        """Return when the slice is in these processes (none: in any); None: it does not say when."""
        return None

    @property
    def at_any_time(self) -> GpuOps:
        """Return the operations that the slice would hold at another time: devices may be idle in it."""
        return self.ops

    @cached_property
    def devices(self) -> list[int]:
        """Return the devices with GPU operations, in order; MISSING for operations that name none."""
        return [int(device) for device in distinct(self.at_any_time.device)]

    def ops_on(self, device: int) -> GpuOps:
        """Return the operations of a device."""
        return self.ops if len(self.devices) == 1 else self._ops_on(device)

    @cached
    def _ops_on(self, device: int) -> GpuOps:
        return self.ops.take(self.places_on(device))

    def places_on(self, device: int) -> Array:
        """Return where the operations of a device are in `ops`: indices, in order."""
        return self._places_on_devices.get(device, _NOWHERE)

    @property
    @cached
    def _places_on_devices(self) -> dict[int, Array]:
        # Found for all at once: devices may be as many as operations.
        group, (devices,) = factorize(self.ops.device)
        return dict(zip(devices.tolist(), by_group(group, len(devices)), strict=True))

    def streams(self, device: int) -> list[tuple[int, int]]:
        """Return the streams of a device, (pid, stream_id), that run more than migrations."""
        return self._streams_of_devices.get(device, [])

    @cached_property
    def _streams_of_devices(self) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for device, pid, stream in streams_of(self.at_any_time):
            found[device].append((pid, stream))
        return found

    def pids_on(self, device: int) -> Array:
        """Return the processes of a device's operations, at whatever time they run."""
        return self._pids_of_devices[device]

    @cached_property
    def _pids_of_devices(self) -> dict[int, Array]:
        ops = self.at_any_time
        if len(self.devices) == 1:
            return {self.devices[0]: distinct(ops.pid)}
        _, (devices, pids) = factorize(ops.device, ops.pid)
        first = np.searchsorted(devices, self.devices).tolist()
        parts = np.split(pids, first[1:])
        return dict(zip(self.devices, parts, strict=True))

    @cached_property
    def call_names(self) -> dict[int, str]:
        """Return the documented names of the API calls by name id."""
        return self.profile.names(distinct(self.calls.name_id), plain=True)

    @cached_property
    def ranks(self) -> dict[int, int]:
        """Return the rank of each ranked process by pid."""
        processes = self.profile.rows("process")
        return {int(p["pid"]): int(p["rank"]) for p in processes if p["rank"] is not None}

    def rank_of(self, pids: Array) -> int | None:
        """Return the rank of the only ranked process among these, else None."""
        if not self.ranks:
            return None
        ranks = {self.ranks[pid] for pid in distinct(pids).tolist() if pid in self.ranks}
        return next(iter(ranks)) if len(ranks) == 1 else None

    @cached_property
    def overhead(self) -> dict[int, Union]:
        """Return, by pid, when the profiler itself was at work in that process, on any thread."""
        column = self.profile.columns("overhead", ("start_ns", "dur_ns", "pid", "kind"))
        own = (column["kind"] == 0) & has_time(column)
        start, dur, pid = (column[name][own] for name in ("start_ns", "dur_ns", "pid"))
        return {int(p): union(start[pid == p], (start + dur)[pid == p]) for p in distinct(pid)}

    @cached_property
    def _lags(self) -> tuple[int, int, int] | None:
        # Smallest and largest time from a call's start to that of an operation it launched, and how
        # many are negative; None where no operation has a call.
        ops = self.ops
        if not len(ops):
            return None
        owners, calls = self.owner, self.calls
        lowest, highest, early = [], [], 0
        for block in blocks(len(ops)):
            start, owner = ops.start[block], owners[block]
            known = (owner >= 0) & (start != MISSING)
            if known.any():
                lag = take(start, known) - calls.start.take(take(owner, known))
                lowest.append(int(lag.min()))
                highest.append(int(lag.max()))
                early += int(np.count_nonzero(lag < 0))
        return (min(lowest), max(highest), early) if lowest else None

    @cached_property
    def clocks_disagree(self) -> bool:
        """Return whether CPU and GPU times cannot be compared (docs/definitions/basics.md, clocks)."""
        if self._lags is None:
            return False
        lowest, highest, _ = self._lags
        if lowest > _LATEST_START_NS or highest < -_LATEST_START_NS:
            return True
        ops, owner, calls = self.ops, self.owner, self.calls
        blocks_host = called("blocking_copy")
        waiting = [i for i, name in self.call_names.items() if blocks_host(name)]
        copies = np.flatnonzero((ops.kind == OpKind.MEMCPY) & (owner >= 0) & ops.timed)
        direction = self.profile.columns("memcpy", ("direction",))["direction"]
        copies = copies[direction[ops.row[copies]] == _DTOH]
        copies = copies[np.isin(calls.name_id[owner[copies]], waiting)]
        return bool((ops.end[copies] - calls.end[owner[copies]] > _LATEST_END_NS).any())

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """Return notes on calls and links: on what latencies and causes cannot be built."""
        calls, lags, notes = self.calls, self._lags, []
        if self.clocks_disagree:
            text = "CPU and GPU times are not on one clock; latencies and causes of gaps are not reported"
            notes.append(Note("clocks-disagree", Severity.APPROXIMATED, text, facts=_LINKS))
        elif lags is not None and lags[2]:
            text = "GPU operations that start before their API call"
            notes.append(Note("op-before-call", Severity.INFO, text, lags[2], facts=_LINKS))
        if assumed := self.whole._assumed:
            text = "GPU operations of calls that share a correlation id, matched by start order"
            notes.append(Note("launch-assumed", Severity.APPROXIMATED, text, assumed, facts=_LINKS))
        if Fact.API_LINKS in self.profile.facts:
            launched = self.ops.kind != OpKind.MIGRATION
            loose, of = int(((self.owner < 0) & launched).sum()), int(launched.sum())
            if loose:
                text = "GPU operations without a recorded API call"
                notes.append(Note("unlinked-ops", Severity.INFO, text, loose, facts=_LINKS, of=of))
        if count := calls.crossing:
            slug, of, facts = "api-call-crossing", len(calls), frozenset({Fact.API_CALLS})
            text = "API calls that overlap the end of an earlier call of their thread"
            notes.append(Note(slug, Severity.APPROXIMATED, text, count, facts=facts, of=of))
        return tuple(notes)

    @cached_property
    def op_notes(self) -> tuple[Note, ...]:
        """Return the notes on the operations alone."""
        of, untimed, graphs = self._op_counts()
        notes = []
        # Those that are not believed have notes of their own.
        hidden = self.profile.examination.rows
        untimed -= sum(len(hidden.get(t, ())) for t in GPU_OP_TABLES)
        if untimed > 0:
            text, facts = "GPU operations without a time", frozenset({Fact.KERNELS})
            notes.append(Note("no-time", Severity.APPROXIMATED, text, untimed, facts=facts, of=of))
        if graphs:
            ids = self.columns("graph_launch", ("graph_exec_id",))["graph_exec_id"]
            known = [str(i) for i in distinct(ids).tolist() if i != MISSING]
            which = f" ({', '.join(known[:5])}{', …' if len(known) > 5 else ''})" if known else ""
            what = "recorded as one interval each; their kernels and copies are not listed"
            text = f"graph launches{which} {what}"
            facts = frozenset({Fact.KERNELS, Fact.MEMCPYS})
            notes.append(Note("graph-intervals", Severity.INFO, text, graphs, facts=facts))
        return tuple(notes)

    def _op_counts(self) -> tuple[int, int, int]:
        # All operations, those without a time, and graph intervals. Where nothing has put all operations
        # in order, the columns are enough.
        if self._has_ops or not self.is_whole:
            kinds, timed = self.ops.kind, self.ops.timed
            return len(kinds), int((~timed).sum()), int((kinds == OpKind.GRAPH).sum())
        times = [
            self.profile.columns(table, ("start_ns", "dur_ns")).values() for table in GPU_OP_TABLES
        ]
        counted = [
            (len(start), int(((start == MISSING) | (dur == MISSING)).sum())) for start, dur in times
        ]
        return sum(n for n, _ in counted), sum(n for _, n in counted), counted[OpKind.GRAPH][0]


@dataclass(frozen=True)
class Launches(Columns):
    """Calls that launched operations with a time, in the order in which the first of those start.

    `call` is the index in Timeline.calls; `device`, `pid`, `stream` and `op_start` are those of the
    first operation, and `op_sum` is how long all of them took. `latency` is from the call's start to
    that of the operation and `queue` from its end; both are MISSING where they are negative, and
    everywhere if the clocks disagree.
    """

    call: Array
    device: Array
    pid: Array
    stream: Array
    op_start: Array
    op_sum: Array
    latency: Array
    queue: Array


def launches(timeline: Timeline) -> Launches:
    """Return the launches of a time line. Of a slice, those whose first operation belongs to it."""
    found, op = _launches(timeline)
    if timeline.is_whole:
        return found
    return found.take(timeline.ops_in_slice[op])


def first_ops(timeline: Timeline) -> Array:
    """Return per call the index in `whole.ops` of the first timed operation it launched, -1 for none."""
    ops, owner = timeline.whole.ops, timeline.whole.owner
    result = np.full(len(timeline.calls) + 1, -1, np.int32)
    # Sorted by start, those without one before all others: written backwards, the first one stays.
    untimed = len(ops) - int(np.count_nonzero(ops.timed))
    for block in reversed(list(blocks(len(ops)))):
        places = np.arange(max(block.start, untimed), block.stop, dtype=np.int32)[::-1]
        result[owner[places].astype(np.intp)] = places
    return result[:-1]  # owner -1 wrote into the one behind


@cached_whole
def _launches(timeline: Timeline) -> tuple[Launches, Array]:
    whole = timeline.whole
    ops, owner, calls = whole.ops, whole.owner, whole.calls
    launched = np.flatnonzero((owner >= 0) & ops.timed)
    first = first_ops(timeline)
    op = np.sort(first[first >= 0])
    call = owner[op].astype(np.int64)
    start = ops.start[op]
    latency, queue = start - calls.start[call], start - calls.end[call]
    comparable = not timeline.clocks_disagree
    found = Launches(
        call=call,
        device=ops.device[op],
        pid=ops.pid[op],
        stream=ops.stream[op],
        op_start=start,
        op_sum=sums(owner[launched], ops.dur[launched], len(calls))[call],
        latency=np.where(comparable & (latency >= 0), latency, MISSING),
        queue=np.where(comparable & (queue >= 0), queue, MISSING),
    )
    return found, op


@dataclass(frozen=True)
class Queues:
    """The queue of each stream: how many of its launches had been called and had not started.

    `device`, `pid`, `stream` say which stream, and `waited` is the sum, in ns, of the times its
    launches waited: one entry per stream. The length changes when a launch's call begins (by +1) and
    when its first operation starts (by -1): `group`, `time` and `length` are these changes by stream
    and time, with the number of the stream and the length after them. Of changes at one moment, those
    by calls come first. Launches without a latency are left out.
    """

    device: Array
    pid: Array
    stream: Array
    waited: Array
    group: Array
    time: Array
    length: Array

    def at_least(self, length: int) -> Array:
        """Return per stream the time, in ns, in which its queue was at least so long, from 1."""
        # A queue is empty after its last change, so that nothing is counted into the next stream's.
        lasts = np.diff(self.time, append=self.time[-1:])
        full = self.length >= length
        return sums(self.group[full], lasts[full], len(self.stream))


def queues(timeline: Timeline) -> Queues:
    """Return the queues of all streams on which something was launched, by device, process and stream."""
    found = launches(timeline)
    stream_of, (device, pid, stream) = factorize(found.device, found.pid, found.stream)
    known = found.latency != MISSING
    group, latency, started = stream_of[known], found.latency[known], found.op_start[known]
    groups = np.concatenate((group, group))
    times = np.concatenate((started - latency, started))
    change = np.repeat((1, -1), len(group))
    order = np.lexsort((-change, times, groups))
    # The changes of a stream add up to 0: one running sum serves all.
    length = np.cumsum(change[order])
    waited = sums(group, latency, len(stream))
    return Queues(device, pid, stream, waited, groups[order], times[order], length)
