"""Cells of a piece of a trace as the columns of our tables.

Columns are int64 arrays, null as MISSING; columns of names hold places in the piece's own list of names.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

import numpy as np

from nsysconv.importers.kineto.packed import (
    BEYOND,
    MISSING,
    NAMES,
    OPERATOR,
    Cells,
    Piece,
    Times,
    TimeUnit,
)
from nsysconv.schema import TIME_LIMIT_NS
from nsysconv.store.recording import ArrayRows

Array = np.ndarray
Columns = dict[str, Array]

_THOUSAND = 1000
_NO_STREAM = (-1, 0xFFFFFFFF)
_HOST_MEMORY = 0
# Wait rows stand on lines of their own since PyTorch 2.13.
_SYNC_TID = 1_000_000


def tables(piece: Piece, zero: int) -> dict[str, Columns]:
    """The rows of a piece by table, with times counted from `zero` (ns).

    What cannot be placed in time is left out, and counted in the piece.
    """
    found = {}
    for table, cells in piece.tables.items():
        columns = {name: _column(values, cells.count) for name, values in cells.columns.items()}
        _finish(table, columns)
        columns = _Placed(piece, cells, zero).rows(columns)
        if len(columns["start_ns"]):
            found[table] = columns
    return found


def nanoseconds(times: Times) -> Array:
    """Times as exact int64 nanoseconds, with MISSING and BEYOND as they are."""
    parts = [_part(unit, values) for unit, values in times]
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def span(piece: Piece, zero: int | None) -> tuple[int, int] | None:
    """When the first and the last event of a piece began (ns); None where none has a time.

    What is too far from `zero` to be kept has no say, nor have times of 0, which are none.
    """
    found = []
    for column in (*(cells.start for cells in piece.tables.values()), piece.left_out_starts):
        times = nanoseconds(column) if column else np.empty(0, np.int64)
        times = times[times > 0]
        if zero is not None:
            times = times[np.abs(times - zero) <= TIME_LIMIT_NS]
        if len(times):
            found += [int(times.min()), int(times.max())]
    return (min(found), max(found)) if found else None


def _column(values: bytes, count: int) -> Array:
    cells = np.frombuffer(values, np.int64)
    return cells if len(cells) == count else np.broadcast_to(cells[0], count)


def _part(unit: TimeUnit, values: bytes) -> Array:
    if unit is TimeUnit.NS:
        return np.frombuffer(values, np.int64)
    if unit is TimeUnit.WHOLE_US:
        whole: Array = np.frombuffer(values, np.int64) * _THOUSAND
        return whole
    us = np.frombuffer(values, np.float64)
    below = np.floor(us)
    fraction = np.rint((us - below) * _THOUSAND)
    exact: Array = below.astype(np.int64) * _THOUSAND + fraction.astype(np.int64)
    return exact


def _finish(table: str, columns: Columns) -> None:
    """What follows from several cells of a row, or is written in other words."""
    # Made-up traces have it; no process has that number.
    columns["pid"] = _zero_as_null(columns["pid"])
    if "graph_node_id" in columns:
        columns["graph_node_id"] = _zero_as_null(columns["graph_node_id"])
    if table == "memcpy":
        source, target = columns.pop("from_device"), columns.pop("to_device")
        here = columns["device_id"]
        columns["peer_device_id"] = np.where(here == source, target, source)
    elif table == "sync":
        stream = columns["stream_id"]
        none = np.isin(stream, _NO_STREAM)
        stream = np.where(stream >= _SYNC_TID, stream - _SYNC_TID, stream)
        columns["stream_id"] = np.where(none, MISSING, stream)
    elif table == "memory_event":
        kind, device = columns.pop("memory_type"), columns["device_id"]
        columns["device_id"] = np.where((kind == _HOST_MEMORY) | (device < 0), MISSING, device)


def _zero_as_null(values: Array) -> Array:
    null = values == 0
    return np.where(null, MISSING, values) if null.any() else values


class _Placed:
    """Puts a piece's rows of one table in their places in time."""

    def __init__(self, piece: Piece, cells: Cells, zero: int) -> None:
        self._piece = piece
        self._begins = cells.begins
        self._zero = zero
        self._start = nanoseconds(cells.start)
        self._dur = nanoseconds(cells.dur) if cells.dur else None

    def rows(self, columns: Columns) -> Columns:
        """The rows with `start_ns` and `dur_ns`, without those that have no place."""
        start, dur = self._start, self._dur
        lasting = {} if dur is None else {"dur_ns": dur}
        if self._all_are_plain():
            return {"start_ns": start - self._zero, **lasting, **columns}
        kept = start > BEYOND
        self._left_out("no time stamp", ~kept)
        timeless, start = start == 0, start - self._zero
        far = np.abs(start) > TIME_LIMIT_NS
        if dur is not None:
            self._left_out("no duration", (dur == MISSING) & kept)
            kept &= dur != MISSING
            far |= (dur > TIME_LIMIT_NS) | (dur == BEYOND)
            negative = (dur < 0) & (dur > BEYOND)
            self._left_out("negative duration", negative & kept)
            kept &= ~negative
            # Profilers write 0 and 0 where they have no time; a store has null there.
            timeless = (timeless | (start == 0)) & (dur == 0)
            start = np.where(timeless, MISSING, start)
            lasting["dur_ns"] = np.where(timeless, MISSING, dur)
            far &= ~timeless
        self._left_out("impossible time", far & kept)
        kept &= ~far
        columns = {"start_ns": start, **lasting, **columns}
        return {name: values[kept] for name, values in columns.items()}

    def _all_are_plain(self) -> bool:
        """Whether all rows stand behind the zero, and none is too far or too long to be kept."""
        start, dur, zero = self._start, self._dur, self._zero
        if not 0 <= zero < start.min() <= start.max() <= zero + TIME_LIMIT_NS:
            return False
        return dur is None or bool(0 <= dur.min() <= dur.max() <= TIME_LIMIT_NS)

    def _left_out(self, what: str, which: Array) -> None:
        rows = np.flatnonzero(which)
        if len(rows):
            batch = bisect_right(self._begins, int(rows[0]), key=lambda begin: begin[0]) - 1
            self._piece.note(what, len(rows), self._begins[batch][1])


GPU_TABLES = ("kernel", "memcpy", "memset")
"""Tables of GPU operations."""


class Gathered:
    """Numbers the names of one recording and remembers its processes, threads, devices and streams."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.api_names: set[int] = set()
        self.pids: set[int] = set()
        self.threads: set[tuple[int, ...]] = set()
        self.devices: set[int] = set()
        self.streams: set[tuple[int, ...]] = set()
        self.rows: Counter[str] = Counter()
        self.end_ns: int | None = None

    def take(self, table: str, columns: Columns, names: list[str], done: str) -> ArrayRows:
        """Rows with names as places in `names`, as rows of the store."""
        columns = dict(columns)
        for column in [name for name in columns if name in NAMES]:
            columns[column], numbers = self._numbered(columns[column], names)
            if (table, column) == ("api_call", "name_id"):
                self.api_names.update(numbers)
        self.rows[table] += len(columns["start_ns"])
        self._remember(table, columns)
        return ArrayRows(table, columns, done)

    def _numbered(self, places: np.ndarray, names: list[str]) -> tuple[np.ndarray, set[int]]:
        """Places in a piece's names as ids of ours, and which: only names that rows refer to get one."""
        if (places == MISSING).all():
            return places, set()
        places = np.where(places == MISSING, len(names), places)
        used = np.zeros(len(names) + 1, bool)
        used[places] = True
        ids = np.full(len(names) + 1, MISSING)  # the last is no name
        known = np.flatnonzero(used[:-1])
        numbers = [self.names.setdefault(names[p], len(self.names) + 1) for p in known.tolist()]
        ids[known] = numbers
        return ids[places], set(numbers)

    def _remember(self, table: str, columns: Columns) -> None:
        pid = columns["pid"]
        if "tid" in columns:
            self.threads.update(_distinct(pid, columns["tid"]))
        self.pids.update(p for (p,) in _distinct(pid))
        if table in GPU_TABLES:
            self.devices.update(d for (d,) in _distinct(columns["device_id"]))
            self.streams.update(_distinct(pid, columns["context_id"], columns["stream_id"]))
        if table == "operator":
            # What is read on request has no say: a recording ends whatever of it is asked for.
            columns = {
                name: values[columns["kind"] == OPERATOR] for name, values in columns.items()
            }
        start = columns["start_ns"]
        end = start + np.maximum(columns["dur_ns"], 0) if "dur_ns" in columns else start
        end = end[start != MISSING]
        if len(end):
            last = int(end.max())
            self.end_ns = last if self.end_ns is None else max(self.end_ns, last)


def _distinct(*columns: np.ndarray) -> set[tuple[int, ...]]:
    """The distinct rows of columns, those with a null left out."""
    # Most rows say the same as the one before them, and making Python's numbers of all takes longer.
    differs = np.zeros(len(columns[0]), bool)
    differs[:1] = True
    for column in columns:
        if column.strides != (0,):  # those are alike in all rows
            differs[1:] |= column[1:] != column[:-1]
    found = set(zip(*(column[differs].tolist() for column in columns), strict=True))
    return {row for row in found if MISSING not in row}
