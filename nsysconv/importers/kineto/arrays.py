"""Decoded chunks as rows of the store: columns become arrays of numpy, times exact, names numbered.

Columns are int64 arrays, null as MISSING. NAME_COLUMNS index the chunk's own list of names until
`RecordingIndex.add` gives them the ids of their recording.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nsysconv import schema
from nsysconv.importers.kineto import PYTHON_FUNCTIONS
from nsysconv.importers.kineto.packed import (
    BEYOND,
    MISSING,
    NAME_COLUMNS,
    OPERATOR,
    PYTHON_FUNCTION,
    TEXT_KEY,
    Chunk,
    Integers,
    PackedRows,
    TextId,
    Times,
)
from nsysconv.importers.kineto.trace import Metadata
from nsysconv.names import plain_api_name
from nsysconv.store.recording import ArrayRows, ArrowRows, rows_of

Array = np.ndarray
ColumnArrays = dict[str, Array]

GPU_TABLES = ("kernel", "memcpy", "memset")
"""Tables of GPU operations."""

_NS_PER_US = 1000
_NO_STREAM = (-1, 0xFFFFFFFF)
_HOST_MEMORY = 0
# The thread ids of waits are stream ids plus this since PyTorch 2.13.
_SYNC_TID = 1_000_000


def tables_of(chunk: Chunk, zero: int) -> dict[str, ColumnArrays]:
    """Return a chunk's rows by table, times counted from `zero` (ns); note those that no store keeps."""
    tables = {}
    for table, packed in chunk.tables.items():
        columns = {name: _array(values, packed.count) for name, values in packed.columns.items()}
        _derive_columns(table, columns)
        columns = _with_times(chunk, packed, zero, columns)
        if len(columns["start_ns"]):
            tables[table] = columns
    return tables


def nanoseconds(times: Times) -> Array:
    """Return times as exact int64 nanoseconds, with MISSING and BEYOND as they are."""
    return np.concatenate(list(map(_nanoseconds_of_part, times)))


def first_and_last_start(chunk: Chunk, zero: int | None) -> tuple[int, int] | None:
    """Return when the first and the last event of a chunk began (ns), None if none has a time.

    Times of 0, which are none, and times too far from `zero` to be kept do not count.
    """
    bounds: list[int] = []
    columns = [*(packed.starts for packed in chunk.tables.values()), chunk.left_out_starts]
    for times in map(nanoseconds, filter(None, columns)):
        times = times[times > 0]
        if zero is not None:
            times = times[np.abs(times - zero) <= schema.TIME_LIMIT_NS]
        if len(times):
            bounds += [int(times.min()), int(times.max())]
    return (min(bounds), max(bounds)) if bounds else None


def _array(values: Integers, count: int) -> Array:
    array = np.frombuffer(values, np.int64)
    # One value for all rows takes no memory per row.
    return array if len(array) == count else np.broadcast_to(array[0], count)


def _nanoseconds_of_part(times: array[Any]) -> Array:
    if times.typecode == "q":
        return np.frombuffer(times, np.int64)
    # The product of a double and 1000 may be rounded to the wrong nanosecond; that of its fraction is
    # not.
    us = np.frombuffer(times, np.float64)
    below = np.floor(us)
    result: Array = below.astype(np.int64) * _NS_PER_US
    result += np.rint((us - below) * _NS_PER_US).astype(np.int64)
    return result


def _derive_columns(table: str, columns: ColumnArrays) -> None:
    # Made-up traces have process 0; no process has that number.
    columns["pid"] = _zero_as_null(columns["pid"])
    for name in ("graph_node_id", "forward_thread", "op_id"):
        if name in columns:
            columns[name] = _zero_as_null(columns[name])
    if table == "memcpy":
        source, target = columns.pop("from_device"), columns.pop("to_device")
        columns["peer_device_id"] = np.where(columns["device_id"] == source, target, source)
    elif table == "sync":
        stream = columns["stream_id"]
        is_null = np.isin(stream, _NO_STREAM)
        stream = np.where(stream >= _SYNC_TID, stream - _SYNC_TID, stream)
        columns["stream_id"] = np.where(is_null, MISSING, stream)
        call, stream = columns["record_correlation_id"], columns["record_stream_id"]
        columns["record_correlation_id"] = np.where(call > 0, call, MISSING)
        columns["record_stream_id"] = np.where(np.isin(stream, _NO_STREAM), MISSING, stream)
    elif table == "memory_event":
        kind, device = columns.pop("memory_type"), columns["device_id"]
        columns["device_id"] = np.where((kind == _HOST_MEMORY) | (device < 0), MISSING, device)


def _zero_as_null(values: Array) -> Array:
    null = values == 0
    if null.all():
        return np.broadcast_to(np.int64(MISSING), len(values))
    return np.where(null, MISSING, values) if null.any() else values


def _with_times(chunk: Chunk, packed: PackedRows, zero: int, columns: ColumnArrays) -> ColumnArrays:
    start = nanoseconds(packed.starts)
    dur = nanoseconds(packed.durations) if packed.durations else None
    durations = {} if dur is None else {"dur_ns": dur}
    if _can_all_be_kept(start, dur, zero):
        return {"start_ns": start - zero, **durations, **columns}

    def note(key: str, mask: Array) -> None:
        rows = np.flatnonzero(mask)
        if len(rows):
            batch = bisect_right(packed.batches, int(rows[0]), key=lambda batch: batch[0]) - 1
            chunk.note(key, len(rows), packed.batches[batch][1])

    keep = start > BEYOND
    note("no time stamp", ~keep)
    timeless, start = start == 0, start - zero
    far = np.abs(start) > schema.TIME_LIMIT_NS
    if dur is not None:
        note("no duration", (dur == MISSING) & keep)
        keep &= dur != MISSING
        far |= (dur > schema.TIME_LIMIT_NS) | (dur == BEYOND)
        negative = (dur < 0) & (dur > BEYOND)
        note("negative duration", negative & keep)
        keep &= ~negative
        # Profilers write 0 and 0 where they have no time; a store has null there.
        timeless = (timeless | (start == 0)) & (dur == 0)
        start = np.where(timeless, MISSING, start)
        durations["dur_ns"] = np.where(timeless, MISSING, dur)
        far &= ~timeless
    note("impossible time", far & keep)
    keep &= ~far
    columns = {"start_ns": start, **durations, **columns}
    return {name: values[keep] for name, values in columns.items()}


def _can_all_be_kept(start: Array, dur: Array | None, zero: int) -> bool:
    if not 0 <= zero < start.min() <= start.max() <= zero + schema.TIME_LIMIT_NS:
        return False
    return dur is None or bool(0 <= dur.min() <= dur.max() <= schema.TIME_LIMIT_NS)


@dataclass
class RecordingIndex:
    """Ids of one recording's names; its processes, threads, devices, streams, counts of rows and end.

    `texts`: as those of Chunk, of all chunks so far; processes and threads are known by their keys.
    `recorded_of_operators`: what some of them have, by column, and PYTHON_FUNCTIONS if there are some.
    """

    texts: Mapping[int, TextId] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    api_names: set[int] = field(default_factory=set)
    pids: set[int] = field(default_factory=set)
    threads: set[tuple[int, ...]] = field(default_factory=set)
    devices: set[int] = field(default_factory=set)
    streams: set[tuple[int, ...]] = field(default_factory=set)
    row_counts: Counter[str] = field(default_factory=Counter)
    recorded_of_operators: set[str] = field(default_factory=set)
    end_ns: int | None = None

    def add(self, table: str, columns: ColumnArrays, names: list[str], progress: str) -> ArrayRows:
        """Return rows whose NAME_COLUMNS index `names` as the store's, with this recording's name ids."""
        columns = dict(columns)
        for column in [name for name in columns if name in NAME_COLUMNS]:
            columns[column], ids = self._intern(columns[column], names)
            if (table, column) == ("api_call", "name_id"):
                self.api_names.update(ids)
            if table == "operator" and ids:
                self.recorded_of_operators.add(column)
        if table == "operator":
            if (columns["forward_thread"] > 0).any():
                self.recorded_of_operators.add("forward_thread")
            if (columns["kind"] == PYTHON_FUNCTION).any():
                self.recorded_of_operators.add(PYTHON_FUNCTIONS)
        self.row_counts[table] += len(columns["start_ns"])
        self._index(table, columns)
        for column, number in (("pid", self.number_of), ("tid", self._thread_number)):
            if self.texts and column in columns:
                columns[column] = _mapped(columns[column], number)
        return ArrayRows(table, columns, progress)

    def number_of(self, pid: int) -> int:
        """Return the number of a process by its key; MISSING for 0, which no process has."""
        text = self.texts.get(pid)
        return pid if text is None else text.number or MISSING

    def _thread_number(self, tid: int) -> int:
        text = self.texts.get(tid)
        return tid if text is None else text.number

    def _intern(self, indices: Array, names: list[str]) -> tuple[Array, set[int]]:
        if (indices == MISSING).all():
            return indices, set()
        indices = np.where(indices == MISSING, len(names), indices)
        is_used = np.zeros(len(names) + 1, bool)
        is_used[indices] = True
        id_of = np.full(len(names) + 1, MISSING)  # the last is no name
        used = np.flatnonzero(is_used[:-1])
        ids = [self.names.setdefault(names[i], len(self.names) + 1) for i in used.tolist()]
        id_of[used] = ids
        return id_of[indices], set(ids)

    def _index(self, table: str, columns: ColumnArrays) -> None:
        pid = columns["pid"]
        if "tid" in columns:
            self.threads.update(_distinct(pid, columns["tid"]))
        self.pids.update(p for (p,) in _distinct(pid))
        if table in GPU_TABLES:
            self.devices.update(d for (d,) in _distinct(columns["device_id"]))
            self.streams.update(_distinct(pid, columns["context_id"], columns["stream_id"]))
        if table == "operator":
            # A recording's end must not depend on whether rows on request were asked for.
            columns = {
                name: values[columns["kind"] == OPERATOR] for name, values in columns.items()
            }
        start = columns["start_ns"]
        end = start + np.maximum(columns["dur_ns"], 0) if "dur_ns" in columns else start
        end = end[start != MISSING]
        if len(end):
            last = int(end.max())
            self.end_ns = last if self.end_ns is None else max(self.end_ns, last)

    def device_rows(self, metadata: Metadata, sm_counts: Mapping[int, int]) -> list[dict[str, Any]]:
        """Return rows of the devices with GPU operations, each described under its own number."""
        # ROCm numbers devices otherwise than it describes them: equal descriptions hold for any device.
        described = list(metadata.devices.values())
        shared = (
            described[0] if described and described.count(described[0]) == len(described) else {}
        )
        rows = []
        for device in sorted(self.devices):
            row = {"device_id": device, "ordinal": device, **metadata.devices.get(device, shared)}
            if "sm_count" not in row and device in sm_counts:
                row["sm_count"] = sm_counts[device]
            rows.append(row)
        return rows

    def rows(self, findings: Chunk, metadata: Metadata, *, is_merged: bool) -> Iterator[ArrowRows]:
        """Yield the rows of the small tables; `is_merged`: the trace has other recordings, too.

        The trace's own rank is that of its only process; `findings.ranks` are those of merged traces.
        """
        yield rows_of(schema.device, self.device_rows(metadata, findings.sm_counts))
        # In a merged trace it is the rank of any of the processes.
        only = metadata if len(self.pids) == 1 and not is_merged else Metadata()
        number_of, thread_number = self.number_of, self._thread_number
        names, named = findings.process_names, findings.thread_names
        processes = [
            {
                "pid": number_of(pid),
                "name": self._name(pid, names.get(pid, names.get(number_of(pid)))),
                "rank": findings.ranks.get(pid) if only.rank is None else only.rank,
                "world_size": only.world_size,
                "dimensions": only.dimensions,
                "host": metadata.host,
            }
            for pid in sorted(self.pids)
            if number_of(pid) != MISSING
        ]
        yield rows_of(schema.process, processes)
        name_of: dict[tuple[int, int], str | None] = {}
        for pid, tid in sorted(self.threads):
            key = number_of(pid), thread_number(tid)
            if key[0] != MISSING:
                own = named.get(key) or named.get((pid, tid)) or self._name(tid)
                name_of[key] = name_of.get(key) or own
        threads = [{"pid": pid, "tid": tid, "name": name} for (pid, tid), name in name_of.items()]
        yield rows_of(schema.thread, threads)
        streams = [
            {"pid": number_of(pid), "context_id": context, "stream_id": stream}
            for pid, context, stream in sorted(self.streams)
            if number_of(pid) != MISSING
        ]
        yield rows_of(schema.stream, streams)
        texts = [
            {"id": i, "text": text, "plain": plain_api_name(text) if i in self.api_names else None}
            for text, i in self.names.items()
        ]
        yield rows_of(schema.name, texts)

    def _name(self, key: int, name: str | None = None) -> str | None:
        # The name is the text without its number, and the name in the metadata.
        text = self.texts.get(key)
        return " ".join(filter(None, (text.name if text else None, name))) or None


def _mapped(values: Array, number_of: Callable[[int], int]) -> Array:
    for key in dict.fromkeys(values[values >= TEXT_KEY].tolist()):
        values = np.where(values == key, number_of(key), values)
    return values


def _distinct(*columns: Array) -> set[tuple[int, ...]]:
    # Rows that hold a null are left out. Most rows equal the row before them, and a comparison takes
    # less time than conversion of all to Python's numbers.
    differs = np.zeros(len(columns[0]), bool)
    differs[:1] = True
    for column in columns:
        if column.strides != (0,):  # broadcast: all rows are equal
            differs[1:] |= column[1:] != column[:-1]
    rows = set(zip(*(column[differs].tolist() for column in columns), strict=True))
    return {row for row in rows if MISSING not in row}
