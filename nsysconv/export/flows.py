"""Arrows from API calls to what they launched: one number per GPU operation, the same at both ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv.timeline.arrays import blocks, distinct, take
from nsysconv.timeline.events import ApiCalls, GpuOps, has_correlation, number_threads, owners

Array = np.ndarray

NONE = -1
"""Of an operation: no arrow ends there."""


@dataclass(frozen=True)
class Calls:
    """Columns of the calls that arrows may begin at; `row` is a call's place in its table.

    `others` gives the columns start_ns, dur_ns, tid and layer of some of them, which few are asked for.
    """

    row: Array
    pid: Array
    correlation: Array
    others: Callable[[Array], Mapping[str, Array]]


class Flows:
    """The arrows of one profile. They are numbered from `first` on; `next` is the first free number.

    `calls` are those that are drawn and `ops` pairs of process and correlation id, as arrays, of the
    operations that are. Which call an operation belongs to is told as everywhere (timeline.calls).
    """

    def __init__(self, calls: Calls, ops: Sequence[tuple[Array, Array]], first: int) -> None:
        self.next = first
        self._of: dict[int, _Process] = {}
        for pid in distinct(calls.pid).tolist():
            mine = has_correlation(calls.correlation)
            mine &= calls.pid == pid
            if mine.any():
                ids = [_chosen(correlation, p == pid) for p, correlation in ops]
                self._of[pid] = process = _Process(calls, mine, ids, self.next)
                self.next += process.count

    def leaving(self, pid: Array, correlation: Array, row: Array) -> tuple[Array, Array]:
        """Per call the first number of the arrows that begin at it, and how many do."""
        first, count = np.zeros(len(row), np.int64), np.zeros(len(row), np.int64)
        for mine, process in self._processes(pid):
            first[mine], count[mine] = process.leaving(correlation[mine], row[mine])
        return first, count

    def arriving(self, pid: Array, correlation: Array) -> Array:
        """Per operation the number of the arrow that ends at it, or NONE. Each is to be asked once."""
        result = np.full(len(pid), NONE, np.int64)
        for mine, process in self._processes(pid):
            result[mine] = process.arriving(correlation[mine])
        return result

    def _processes(self, pid: Array) -> list[tuple[Array, _Process]]:
        return [(np.flatnonzero(pid == p), process) for p, process in self._of.items()]


class _Process:
    """The arrows of one process: arrays by the place of a correlation id among those of its calls."""

    def __init__(self, calls: Calls, mine: Array, ops: Sequence[Array], first: int) -> None:
        ids, row = _chosen(calls.correlation, mine), _chosen(calls.row, mine)
        self._place, size = _places(ids)
        owner = np.full(size, -1, np.int32)
        for block in blocks(len(ids)):
            owner[self._place(ids[block])] = row[block]
        shared = [
            ids[block][owner[self._place(ids[block])] != row[block]] for block in blocks(len(ids))
        ]
        # Calls that share their id with the one that its operations belong to.
        self._not_owners = np.empty(0, np.int32)
        if any(map(len, shared)):
            doubled = np.isin(calls.correlation, np.unique(np.concatenate(shared)))
            among = np.flatnonzero(mine & doubled)
            owning = self._owning(calls, among)
            self._not_owners = np.setdiff1d(calls.row[among], owning)
        has_call = owner >= 0
        del owner, ids, row
        count = np.zeros(size + 1, np.int32)
        for correlation in ops:
            for block in blocks(len(correlation)):
                place = self._place(correlation[block])
                # What has no call is counted at -1, which is the last, and left out.
                np.add.at(count, np.where((place >= 0) & has_call[place], place, -1), 1)
        count[-1] = 0
        most = int(count.max())
        # Numbers before each place; the last are all.
        self._before = np.zeros(size + 1, np.int32)
        np.cumsum(count[:-1], out=self._before[1:])
        self.count = int(self._before[-1])
        self._first = first
        self._seen = np.zeros(size, np.uint8 if most < 1 << 8 else np.int32)

    def _owning(self, calls: Calls, mine: Array) -> Array:
        """The rows of those calls that operations belong to where several have one correlation id."""
        column, pid, ids = calls.others(mine), calls.pid[mine], calls.correlation[mine]
        start = column["start_ns"]
        thread, threads = number_threads(pid, column["tid"])
        nothing = np.zeros(len(mine), np.int8)
        found = ApiCalls(
            start, start + column["dur_ns"], pid, thread, ids, column["layer"],
            nothing, nothing, 0, threads,
        )  # fmt: skip
        wanted = np.array(distinct(ids), np.int64)
        same = np.full(len(wanted), pid[0])
        # Only process and correlation id are asked for.
        ops = GpuOps(wanted, wanted, wanted, wanted, wanted, wanted, same, wanted)
        result: Array = calls.row[mine[owners(ops, found)]]
        return result

    def leaving(self, correlation: Array, row: Array) -> tuple[Array, Array]:
        place = self._place(correlation)
        mine = place >= 0
        if len(self._not_owners):
            mine &= ~np.isin(row, self._not_owners)
        count = self._before[place + 1] - self._before[place]
        return np.where(mine, self._before[place] + self._first, 0), np.where(mine, count, 0)

    def arriving(self, correlation: Array) -> Array:
        place = self._place(correlation)
        result = np.full(len(place), NONE, np.int64)
        # Where a call has operations, they were counted.
        known = np.flatnonzero((place >= 0) & (self._before[place + 1] > self._before[place]))
        place = place[known]
        # Operations of one call take its numbers one after the other.
        order = np.argsort(place, kind="stable")
        ordered = place[order]
        nth = np.arange(len(ordered)) - np.searchsorted(ordered, ordered, "left")
        nth += self._seen[ordered]
        result[known[order]] = nth + self._before[ordered] + self._first
        if len(ordered):
            last = np.append(ordered[1:] != ordered[:-1], True)
            self._seen[ordered[last]] = nth[last] + 1
        return result


def _chosen(column: Array, mine: Array) -> Array:
    """The rows of a mask; without copying where these are all."""
    return column if mine.all() else take(column, mine)


def _places(ids: Array) -> tuple[Callable[[Array], Array], int]:
    """What tells the place of an id among these, -1 for others, and how many places there are."""
    # As wide as ids can be: others need not fit where these do.
    low, high = np.int64(ids.min()), np.int64(ids.max())
    if high - low <= 8 * len(ids) + 1024:
        # They are nearly consecutive: an id's distance from the least will do.
        return lambda of: np.where((of >= low) & (of <= high), of - low, -1), int(high - low) + 1
    known = np.unique(ids)

    def place(of: Array) -> Array:
        found = np.minimum(np.searchsorted(known, of), len(known) - 1)
        return np.where(known[found] == of, found, -1)

    return place, len(known)
