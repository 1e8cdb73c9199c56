"""Which tables of a profile are in doubt, seen by reading their rows once, a block at a time.

An examination (plausibility.py) compares rows with rows, and holds the columns of all of them. An import
is to hold no more for a large file than for a small one. What is here says of most profiles that an
examination would find nothing, and of others which tables it need not read; it keeps seven bytes for
each call and four for each operation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nsysconv import schema
from nsysconv.names import called
from nsysconv.store.read import SIZES, Columns, Profile
from nsysconv.timeline.arrays import Array, among, by_group, distinct, factorize, take
from nsysconv.timeline.events import (
    are_linked,
    edges_of_session,
    has_correlation,
    have_impossible_sizes,
    timed_tables,
)

# An operation that starts so long before the call that launched it has a wrong time.
EARLY_NS = 1_000_000_000
# One that overruns the next start on its stream by more than this may have a wrong end. In healthy
# recordings it is 13 µs at most.
OVERRUN_NS = 1_000_000

GPU_TABLES = ("kernel", "memcpy", "memset", "graph_launch")
HOST_TABLES = ("api_call", "operator")
# Higher correlation ids than any tool writes are not compared in blocks.
_HIGHEST_ID = int(np.iinfo(np.uint32).max)
_CALL, _LAUNCH, _WORKED = 1, 2, 4
_STREAM = ("device_id", "pid", "stream_id")


def doubtful_tables(profile: Profile) -> list[str]:
    """Return the tables that an examination has to read; none where it would find nothing.

    Without the session's length it has to read all. Raises what reading rows raises.
    """
    edges = edges_of_session(profile)
    if edges is None:
        return timed_tables(profile)
    sieve = _Sieve(profile, *edges)
    outside = sieve.look_at_host()
    if not outside and sieve.passes_calls() and sieve.passes_gpu() and sieve.passes_streams():
        return []
    return [name for name in timed_tables(profile) if name in (*GPU_TABLES, *HOST_TABLES, *outside)]


class _Process:
    # A block has calls as they come: their correlation ids, in which of 65,536 parts of the session they
    # began, and what is known of them. `in_order` makes one column of each.
    ids: Array
    part: Array
    state: Array

    def __init__(self) -> None:
        self.blocks: list[tuple[Array, Array, Array]] = []

    def in_order(self) -> bool:
        """Sort the calls by id; return whether no two have the same."""
        self.ids, self.part, self.state = map(np.concatenate, zip(*self.blocks, strict=True))
        self.blocks.clear()
        if (self.ids[1:] < self.ids[:-1]).any():
            order = np.argsort(self.ids, kind="stable")
            self.ids, self.part, self.state = self.ids[order], self.part[order], self.state[order]
        return bool((self.ids[1:] != self.ids[:-1]).all())

    def of(self, ids: Array) -> tuple[Array, Array]:
        """Return which of these ids a call has, and the places of these calls."""
        place = np.searchsorted(self.ids, ids.astype(self.ids.dtype))  # others wrap around
        place = np.minimum(place, len(self.ids) - 1)
        mine = np.flatnonzero(self.ids[place] == ids)
        return mine, place[mine]


class _Sieve:
    def __init__(self, profile: Profile, low: int, high: int) -> None:
        self._profile, self._low, self._high = profile, low, high
        self._part_ns = (high - low >> 16) + 1
        self._tables = timed_tables(profile)
        self._gpu = [table for table in GPU_TABLES if table in self._tables]
        self._linked = are_linked(profile) and bool(self._gpu)
        self._owns_ids = True
        self._processes: dict[int, _Process] = {}
        self._launching: dict[int, bool] = {}
        self._first_of_host: int | None = None
        # When operations begin, and those that take time, by stream, in ticks; where some take long, the
        # first and last tick in which no other may begin.
        self._tick_ns = (high - low >> 32) + 1
        self._begun: dict[tuple[int, ...], list[Array]] = {}
        self._lasting: dict[tuple[int, ...], list[Array]] = {}
        self._taken: dict[tuple[int, ...], list[Array]] = {}

    def _blocks(self, table: str, *names: str) -> Iterator[Columns]:
        known = schema.metadata.tables[table].c
        return self._profile.blocks(table, [name for name in names if name in known])

    def _end(self, block: Columns) -> Array | None:
        # The result is the ends of the rows, or None if a row is outside the session.
        start, dur = block["start_ns"], block.get("dur_ns")
        end = start if dur is None else start + np.maximum(dur, 0)
        within = int(start.min()) >= self._low and int(end.max()) <= self._high
        return end if within else None

    # -- the host

    def look_at_host(self) -> list[str]:
        """Return the tables not of a GPU with rows outside the session or of an impossible size."""
        outside = []
        for table in self._tables:
            if table in self._gpu:
                continue
            of_calls = ("correlation_id", "pid", "name_id") if table == "api_call" else ()
            for block in self._blocks(table, "start_ns", "dur_ns", *of_calls, *_sizes(table)):
                if self._end(block) is None or not _has_sound_sizes(table, block):
                    outside.append(table)
                    break
                if table in HOST_TABLES:
                    first = int(block["start_ns"].min())
                    known = self._first_of_host
                    self._first_of_host = first if known is None else min(first, known)
                if of_calls and self._linked and self._owns_ids:
                    self._owns_ids = self._takes(block)
        return outside

    def passes_calls(self) -> bool:
        """Return whether each call has an id of its own, and none launches a graph."""
        return self._owns_ids and all(each.in_order() for each in self._processes.values())

    def _takes(self, calls: Columns) -> bool:
        names, ids = calls["name_id"], calls["correlation_id"]
        new = [each for each in distinct(names).tolist() if each not in self._launching]
        texts = self._profile.names(new, plain=True) if new else {}
        if any(map(called("graph_launch"), texts.values())):
            return False  # replays of a graph are compared with one another
        is_launch = called("kernel_launch")
        self._launching.update((each, bool(is_launch(text))) for each, text in texts.items())
        launching = np.array(sorted(each for each, launches in self._launching.items() if launches))
        for pid in distinct(calls["pid"]).tolist():
            mine = np.flatnonzero((calls["pid"] == pid) & has_correlation(ids))
            if not len(mine):
                continue
            own = ids[mine]
            if int(own.min()) < 0 or int(own.max()) > _HIGHEST_ID:
                return False
            part = (calls["start_ns"][mine] - self._low) // self._part_ns
            state = np.where(among(names[mine], launching), np.uint8(_LAUNCH), np.uint8(_CALL))
            block = own.astype(np.uint32), part.astype(np.uint16), state
            self._processes.setdefault(pid, _Process()).blocks.append(block)
        return True

    # -- the GPU

    def passes_gpu(self) -> bool:
        """Return whether operations are within the session and after their calls, and none is missing."""
        for table in self._gpu:
            names = ("start_ns", "dur_ns", "correlation_id", *_STREAM, *_sizes(table))
            for block in self._blocks(table, *names):
                end = self._end(block)
                if not _has_sound_sizes(table, block):
                    return False
                if end is None or ("dur_ns" in block and int(block["dur_ns"].min()) < 0):
                    return False
                first = self._first_of_host
                if first is not None and int(block["start_ns"].min()) < first:
                    return False  # what was left over from before the recording
                if not self._follow(block):
                    return False
                self._keep_times(block, end)
        return not any((each.state == _LAUNCH).any() for each in self._processes.values())

    def _follow(self, ops: Columns) -> bool:
        for pid in distinct(ops["pid"]).tolist():
            process = self._processes.get(pid)
            if process is None:
                continue
            ids = ops["correlation_id"]
            own = np.flatnonzero(ops["pid"] == pid)
            mine, calls = process.of(ids[own])
            latest_call = self._low + (process.part[calls].astype(np.int64) + 1) * self._part_ns
            if (ops["start_ns"][own[mine]] < latest_call - EARLY_NS).any():
                return False
            process.state[calls] |= _WORKED
        return True

    # -- streams

    def _keep_times(self, ops: Columns, end: Array) -> None:
        if not all(name in ops for name in _STREAM):
            return
        begun = self._ticks(ops["start_ns"])
        until = self._ticks(end - OVERRUN_NS) + 1
        dur = end - ops["start_ns"]
        is_long, lasts = dur > OVERRUN_NS, dur > 0
        all_last = bool(lasts.all())
        group, values = factorize(*(ops[name] for name in _STREAM))
        streams = list(zip(*(each.tolist() for each in values), strict=True))
        for stream, mine in zip(streams, by_group(group, len(streams)), strict=True):
            here = take(begun, mine).astype(np.uint32)
            self._begun.setdefault(stream, []).append(here)
            self._lasting.setdefault(stream, []).append(here if all_last else here[lasts[mine]])
            long = mine[take(is_long, mine)]
            if len(long):
                self._taken.setdefault(stream, []).append(np.stack([begun[long], until[long]]))

    def _ticks(self, times: Array) -> Array:
        result: Array = (times - self._low) // self._tick_ns
        return result

    def passes_streams(self) -> bool:
        """Return whether on no stream operations begin at once, or long before the last one ends."""
        for each in self._lasting.values():
            starts = np.sort(np.concatenate(each))
            if (starts[1:] == starts[:-1]).any():
                return False
        for stream, spans in self._taken.items():
            begun = np.sort(np.concatenate(self._begun[stream]))
            first, last = np.searchsorted(begun, np.concatenate(spans, axis=1))
            if (last - first > 1).any():  # the one is its own
                return False
        return True


def _sizes(table: str) -> tuple[str, ...]:
    return tuple(SIZES.get(table, ()))


def _has_sound_sizes(table: str, block: Columns) -> bool:
    return table not in SIZES or not have_impossible_sizes(table, block).any()
