"""A profile laid out as a trace: its tracks, the rows on them in the order of time, and arrows between.

An arrow (a flow) leads from an API call to each GPU operation that it launched. It has one number for
both of its ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv import schema
from nsysconv.export.columns import EventColumns, TableReader, row_slices
from nsysconv.export.event_args import EventArgs, NameLookup
from nsysconv.export.lanes import apart, nested, spread, time_order
from nsysconv.export.tracks import EventKind, Track
from nsysconv.report import MISSING
from nsysconv.store.read import Profile
from nsysconv.timeline.arrays import blocks, by_group, concatenate, distinct, factorize, take
from nsysconv.timeline.events import ApiCalls, GpuOps, has_correlation, number_threads, owners
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray

# Rows of a table whose columns are kept: five of so many take 50 MB.
_MOST_KEPT = 1 << 21
# For so few groups, a search through all rows per group takes less memory than a sort, and no more
# time.
FEW_GROUPS = 16

NO_FLOW = -1
"""The place of an operation at which no arrow ends."""


@dataclass(frozen=True)
class EventBlock:
    """Rows of one kind in the order of time, ready to be written: columns of equal length.

    `track`: numbers of tracks. Times are ns since the profile's zero. Of calls, `flows_out` are the
    first number of the arrows that begin there, and how many do; of operations, `flow_in` is the number
    of the arrow that ends there, or NO_FLOW.
    """

    kind: EventKind
    track: Array
    start: Array
    dur: Array
    args: EventArgs
    flows_out: tuple[Array, Array] | None = None
    flow_in: Array | None = None


@dataclass(frozen=True)
class Section:
    """Rows of kinds that share tracks, in the order of time; `kind_of` is the next one's kind."""

    kinds: Sequence[EventKind]
    rows: list[Array]
    tracks_of: list[Array]
    kind_of: Array
    tracks: list[Track]


class TraceLayout:
    """The rows of one time line on tracks, cut to its slice.

    `untimed` counts, by kind, rows that have no time and cannot be drawn; `next_track` is the number of
    the next track, from `first_track` on.
    """

    def __init__(self, timeline: Timeline, first_track: int, first_flow: int) -> None:
        """Lay out a time line with these first free numbers of tracks and arrows."""
        self.timeline = timeline
        self.profile: Profile = timeline.profile
        self.lookup = NameLookup(self.profile)
        self.untimed: Counter[str] = Counter()
        self.next_track = first_track
        self.flows = self._make_flows(first_flow)

    def section(self, kinds: Sequence[EventKind], pid: int) -> Section:
        """Return the rows of these kinds that are a process's, on their tracks."""
        selected = (self._select(kind, pid) for kind in kinds)
        rows_of, starts, durs, groups_of, keys_of = map(list, zip(*selected, strict=True))
        sizes = [len(groups) for groups in groups_of]
        keys = sorted({key for some in keys_of for key in some})
        numbered = zip(groups_of, keys_of, strict=True)
        group = _join([_among(keys, groups, some) for groups, some in numbered])
        # Columns of millions of rows: each is freed as soon as it is joined.
        del groups_of, numbered
        start = _join(starts)
        dur = _join(durs)
        order = time_order(start, dur, sizes)
        group = take(group, order)
        track, tracks = self._make_tracks(kinds[0], start, dur, order, group, keys)
        del start, dur, group
        if len(kinds) == 1:
            first_kind = np.broadcast_to(np.int8(0), len(order))
            return Section(kinds, [_take_rows(rows_of[0], order)], [track], first_kind, tracks)
        kind_of = np.repeat(np.arange(len(kinds), dtype=np.int8), sizes)[order]
        edges = np.cumsum([0, *sizes]).tolist()
        rows, tracks_of = [], []
        for index, low in enumerate(edges[:-1]):
            mask = kind_of == index
            rows.append(_take_rows(rows_of[index], order[mask] - np.int32(low)))
            tracks_of.append(take(track, mask))
        return Section(kinds, rows, tracks_of, kind_of, tracks)

    def blocks(self, section: Section) -> Iterator[tuple[list[EventBlock], Array]]:
        """Yield the rows of a section, some at a time.

        Each: a block per kind that occurs, and the order of time of their rows, as indices into all
        rows of the blocks one after the other.
        """
        readers = [
            TableReader(self.profile, kind.table, rows, kind.columns)
            for kind, rows in zip(section.kinds, section.rows, strict=True)
        ]
        done = [0] * len(readers)
        for some in row_slices(len(section.kind_of), self.lookup.longest_name):
            kind_of = section.kind_of[some]
            drawn, places = [], []
            for index in np.flatnonzero(np.bincount(kind_of)).tolist():
                positions = np.flatnonzero(kind_of == index)
                low, high = done[index], done[index] + len(positions)
                done[index] = high
                columns = readers[index].next(len(positions))
                track = section.tracks_of[index][low:high]
                drawn.append(self._block(section.kinds[index], columns, track))
                places.append(positions)
            yield drawn, np.argsort(np.concatenate(places))

    def mask(self, table: str) -> Array | None:
        """Return which rows of a table are of the slice, None for all."""
        return None if self.timeline.is_whole else self.timeline.rows(table)

    def _block(self, kind: EventKind, columns: EventColumns, track: Array) -> EventBlock:
        args = kind.args.make(columns, self.lookup)
        start = columns["start_ns"]
        dur = np.zeros(len(start), np.int64) if kind.instant else columns["dur_ns"]
        if args.dur is not None:
            dur = args.dur
        flows_out = flow_in = None
        if self.flows is not None and kind.table == "api_call":
            flows_out = self.flows.out(columns["pid"], columns["correlation_id"], columns["row"])
        elif self.flows is not None and kind.table in schema.GPU_OP_TABLES:
            flow_in = self.flows.into(columns["pid"], columns["correlation_id"])
        return EventBlock(kind, track, start, dur, args, flows_out, flow_in)

    def _select(
        self, kind: EventKind, pid: int
    ) -> tuple[Array | None, Array, Array, Array, Sequence[tuple[int, ...]]]:
        # The result is the rows that are drawn (None: all of the table), their times, and their groups,
        # which are indices of keys.
        groups, keys, mask = self._group(kind, pid)
        start, dur = self._times(kind.table)
        timed = start != MISSING
        if kind.table != schema.range_.name:
            timed &= dur != MISSING
        self.untimed[kind.what] += int(np.count_nonzero(mask & ~timed))
        chosen = mask & timed
        rows = None if chosen.all() else np.flatnonzero(chosen).astype(np.int32)
        if rows is not None:
            start, dur, groups = take(start, rows), take(dur, rows), take(groups, rows)
        if kind.instant:
            dur = np.broadcast_to(np.int32(0), len(start))
        elif kind.table == schema.range_.name:
            dur = self.lookup.close(start, dur)
        return rows, start, dur, groups, keys

    def _group(self, kind: EventKind, pid: int) -> tuple[Array, list[tuple[int, ...]], Array]:
        names = ("pid", *kind.groups, *kind.mask_columns)
        columns = self._read(kind.table, names)
        mask = self._in_slice(kind.table, columns["pid"] == pid)
        if kind.mask is not None:
            mask &= kind.mask(columns)
        return *_number_keys([columns[name] for name in kind.groups]), mask

    def _times(self, table: str) -> tuple[Array, Array]:
        lasting = "dur_ns" in schema.metadata.tables[table].c
        names = ("start_ns", "dur_ns") if lasting else ("start_ns",)
        columns = self._read(table, names)
        start = columns["start_ns"]
        return start, columns["dur_ns"] if lasting else np.broadcast_to(np.int32(0), len(start))

    def _make_tracks(
        self, kind: EventKind, start: Array, dur: Array, order: Array, group: Array,
        keys: Sequence[tuple[int, ...]],
    ) -> tuple[Array, list[Track]]:  # fmt: skip
        tracks: list[Track] = []
        lanes = []
        for values, members in zip(keys, _members(group, len(keys)), strict=True):
            key = dict(zip(kind.groups, values, strict=True))
            lane = _find_lanes(kind, key, start, dur, order[members])
            lanes.append((lane, self.next_track))
            title = kind.title(self.lookup, key)
            for lane_number in range(int(lane.max(initial=-1)) + 1):
                tracks.append(Track(self.next_track, kind, title, key, lane_number))
                self.next_track += 1
        track_of = np.empty(len(order), np.min_scalar_type(self.next_track))
        for members, (lane, first) in zip(_members(group, len(keys)), lanes, strict=True):
            track_of[members] = lane + first
        return track_of, tracks

    def _make_flows(self, first: int) -> _Flows | None:
        if not self.profile.row_count("api_call"):
            return None
        timed = self._timed_mask("api_call")
        rows = np.flatnonzero(timed).astype(np.int32)
        pid, correlation = self._pids_and_correlations("api_call", timed)

        def more(some: Array) -> dict[str, Array]:
            columns = self._read("api_call", ("start_ns", "dur_ns", "tid", "layer"))
            return {name: take(column, rows[some]) for name, column in columns.items()}

        ops = [
            self._pids_and_correlations(table, self._timed_mask(table))
            for table in schema.GPU_OP_TABLES
        ]
        return _Flows(_FlowCalls(rows, pid, correlation, more), ops, first)

    def _read(self, table: str, names: Sequence[str]) -> Mapping[str, Array]:
        columns = self.profile.columns(table, names)
        # Columns of a large profile are freed; those of a small one are kept, because they are read
        # again.
        if max(map(self.profile.row_count, ("api_call", table))) > _MOST_KEPT:
            self.profile.release(table, names)
        return columns

    def _in_slice(self, table: str, mask: Array) -> Array:
        in_slice = self.mask(table)
        return mask if in_slice is None else mask & in_slice

    def _timed_mask(self, table: str) -> Array:
        start, dur = self._times(table)
        return self._in_slice(table, (start != MISSING) & (dur != MISSING))

    def _pids_and_correlations(self, table: str, mask: Array) -> tuple[Array, Array]:
        columns = self._read(table, ("pid", "correlation_id"))
        return take(columns["pid"], mask), take(columns["correlation_id"], mask)


def _among(
    every: Sequence[tuple[int, ...]], groups: Array, keys: Sequence[tuple[int, ...]]
) -> Array:
    # The groups become indices into the keys of all kinds.
    number_of = {key: index for index, key in enumerate(every)}
    numbers = np.array([number_of[key] for key in keys], np.min_scalar_type(len(every)))
    if len(numbers) == 1:
        return np.broadcast_to(numbers[0], len(groups))
    return take(numbers, groups)


def _number_keys(columns: Sequence[Array]) -> tuple[Array, list[tuple[int, ...]]]:
    if all(column.strides == (0,) for column in columns):  # constant columns
        numbers, values = factorize(*columns)
        return numbers, list(zip(*(column.tolist() for column in values), strict=True))
    index_of: dict[tuple[int, ...], int] = {}
    result = np.zeros(len(columns[0]), np.uint8)
    for block in blocks(len(result)):
        numbers, values = factorize(*(column[block] for column in columns))
        keys = zip(*(column.tolist() for column in values), strict=True)
        indices = np.array([index_of.setdefault(key, len(index_of)) for key in keys])
        # The type is as narrow as the number of keys allows, usually one byte per row.
        if np.min_scalar_type(len(index_of)) > result.dtype:
            result = result.astype(np.min_scalar_type(len(index_of)))
        result[block] = indices[numbers]
    return result, list(index_of)


def _find_lanes(
    kind: EventKind, key: Mapping[str, int], start: Array, dur: Array, rows: Array
) -> Array:
    if kind.instant:
        return np.broadcast_to(np.int32(0), len(rows))
    # Events without a thread may be of several threads, so two that overlap need not nest.
    nests = kind.nests and key.get("tid", 0) != MISSING
    return spread(nested if nests else apart, start, dur, rows)


def _members(group: Array, count: int) -> Iterable[Any]:
    if count == 1:
        return [slice(None)]
    if count <= FEW_GROUPS:
        return (group == index for index in range(count))
    return by_group(group, count)


def _take_rows(rows: Array | None, indices: Array) -> Array:
    return indices if rows is None else take(rows, indices)


def _join(columns: list[Array]) -> Array:
    """Return the columns one after the other, and clear the list, which would keep them in memory."""
    # Empty ones need not be of the others' type.
    filled = [column for column in columns if len(column)] or columns[:1]
    columns.clear()
    return filled[0] if len(filled) == 1 else concatenate(filled)


# -- arrows


@dataclass(frozen=True)
class _FlowCalls:
    """Columns of the calls at which arrows may begin; `row` is a call's index in its table.

    `more` returns the columns start_ns, dur_ns, tid and layer of some of them; few are asked for.
    """

    row: Array
    pid: Array
    correlation: Array
    more: Callable[[Array], Mapping[str, Array]]


class _Flows:
    def __init__(self, calls: _FlowCalls, ops: Sequence[tuple[Array, Array]], first: int) -> None:
        """Give numbers to all arrows; `first` is that of the first."""
        self.next = first
        self._processes: dict[int, _ProcessFlows] = {}
        for pid in distinct(calls.pid).tolist():
            mask = has_correlation(calls.correlation)
            mask &= calls.pid == pid
            if mask.any():
                ids = [take(correlation, pids == pid) for pids, correlation in ops]
                self._processes[pid] = flows = _ProcessFlows(calls, mask, ids, self.next)
                self.next += flows.count

    def out(self, pid: Array, correlation: Array, row: Array) -> tuple[Array, Array]:
        """Return per call the first number of the arrows that begin at it, and how many do."""
        first, count = np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
        for rows, flows in self._by_process(pid):
            first[rows], count[rows] = flows.out(correlation[rows], row[rows])
        return first, count

    def into(self, pid: Array, correlation: Array) -> Array:
        """Return per operation the number of the arrow that ends at it, or NO_FLOW.

        Each operation may be passed once only: those of one call get its numbers one after the other.
        """
        result = np.full(len(pid), NO_FLOW, np.int64)
        for rows, flows in self._by_process(pid):
            result[rows] = flows.into(correlation[rows])
        return result

    def _by_process(self, pid: Array) -> list[tuple[Array, _ProcessFlows]]:
        return [(np.flatnonzero(pid == p), flows) for p, flows in self._processes.items()]


class _ProcessFlows:
    """The arrows of one process: arrays by the index of a correlation id among those of its calls."""

    def __init__(self, calls: _FlowCalls, mask: Array, ops: Sequence[Array], first: int) -> None:
        ids, row = take(calls.correlation, mask), take(calls.row, mask)
        self._index, size = _indexer(ids)
        owner = np.full(size, -1, np.int32)
        for block in blocks(len(ids)):
            owner[self._index(ids[block])] = row[block]
        shared = [
            ids[block][owner[self._index(ids[block])] != row[block]] for block in blocks(len(ids))
        ]
        # Calls that share their id with the call that its operations belong to.
        self._not_owners = np.empty(0, np.int32)
        if any(map(len, shared)):
            is_shared = np.isin(calls.correlation, np.unique(np.concatenate(shared)))
            among = np.flatnonzero(mask & is_shared)
            owning = self._owning(calls, among)
            self._not_owners = np.setdiff1d(calls.row[among], owning)
        has_call = owner >= 0
        del owner, ids, row
        count = np.zeros(size + 1, np.int32)
        for correlation in ops:
            for block in blocks(len(correlation)):
                index = self._index(correlation[block])
                # What has no call is counted at -1, which is the last, and left out.
                np.add.at(count, np.where((index >= 0) & has_call[index], index, -1), 1)
        count[-1] = 0
        most = int(count.max())
        # `_before` has the count of numbers before each index and, last, the count of all.
        self._before = np.zeros(size + 1, np.int32)
        np.cumsum(count[:-1], out=self._before[1:])
        self.count = int(self._before[-1])
        self._first = first
        # How many operations of each call got their number; a byte is enough for most profiles.
        self._used = np.zeros(size, np.uint8 if most < 1 << 8 else np.int32)

    def _owning(self, calls: _FlowCalls, some: Array) -> Array:
        column, pid, ids = calls.more(some), calls.pid[some], calls.correlation[some]
        start = column["start_ns"]
        thread, threads = number_threads(pid, column["tid"])
        unused = np.zeros(len(some), np.int8)
        candidates = ApiCalls(
            start, start + column["dur_ns"], pid, thread, ids, column["layer"],
            unused, unused, unused, 0, threads,
        )  # fmt: skip
        # One operation per id is enough, because `owners` only uses the process and the correlation id.
        wanted = np.array(distinct(ids), np.int64)
        same = np.full(len(wanted), pid[0])
        ops = GpuOps(wanted, wanted, wanted, wanted, wanted, wanted, same, wanted)
        result: Array = calls.row[some[owners(ops, candidates)[0]]]
        return result

    def out(self, correlation: Array, row: Array) -> tuple[Array, Array]:
        index = self._index(correlation)
        has_flows = index >= 0
        if len(self._not_owners):
            has_flows &= ~np.isin(row, self._not_owners)
        before = self._before[index]
        count = self._before[index + 1] - before
        return np.where(has_flows, before + self._first, 0), np.where(has_flows, count, 0)

    def into(self, correlation: Array) -> Array:
        index = self._index(correlation)
        result = np.full(len(index), NO_FLOW, np.int64)
        # Where a call has operations, they were counted.
        with_flow = np.flatnonzero((index >= 0) & (self._before[index + 1] > self._before[index]))
        index = index[with_flow]
        # Operations of one call take its numbers one after the other.
        order = np.argsort(index, kind="stable")
        ordered = index[order]
        nth = np.arange(len(ordered)) - np.searchsorted(ordered, ordered, "left")
        nth += self._used[ordered]
        result[with_flow[order]] = nth + self._before[ordered] + self._first
        if len(ordered):
            last = np.append(ordered[1:] != ordered[:-1], True)
            self._used[ordered[last]] = nth[last] + 1
        return result


def _indexer(ids: Array) -> tuple[Callable[[Array], Array], int]:
    # The index need not represent ids outside of the range of these.
    low, high = np.int64(ids.min()), np.int64(ids.max())
    if high - low <= 8 * len(ids) + 1024:
        # They are nearly consecutive: an id's distance from the least will do.
        return lambda some: np.where((some >= low) & (some <= high), some - low, -1), int(
            high - low
        ) + 1
    distinct_ids = np.unique(ids)

    def index(some: Array) -> Array:
        nearest = np.minimum(np.searchsorted(distinct_ids, some), len(distinct_ids) - 1)
        return np.where(distinct_ids[nearest] == some, nearest, -1)

    return index, len(distinct_ids)
