"""Rows of traces: from nvprof's columns to ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from nsysconv import schema
from nsysconv.importers.nvprof_log.cells import Cells
from nsysconv.importers.nvprof_log.gathered import Gathered, layer
from nsysconv.importers.nvprof_log.quantities import spelled
from nsysconv.report import MISSING, Column, build_table
from nsysconv.store.recording import ArrowRows
from nsysconv.units import Unit

Array = np.ndarray
Columns = dict[str, Array]

_KERNEL, _MEMCPY, _MEMSET, _MIGRATION, _API_CALL, _OTHER, _UNKNOWN = range(7)
_COPY = re.compile(r"\[CUDA memcpy (\w+)\]$")
_MOVED = re.compile(r"\[Unified Memory Memcpy (\w+)\]$")
# The launch that an API trace of text names behind the function: `cudaLaunchKernel (saxpy(int) [117])`.
_LAUNCH = re.compile(r"^(\w+) \(.*\)$", re.DOTALL)
_LAUNCHED = re.compile(r"\[(\d{1,10})\]\)$")
_ON_KERNELS = {
    "Grid X": "grid_x",
    "Grid Y": "grid_y",
    "Grid Z": "grid_z",
    "Block X": "block_x",
    "Block Y": "block_y",
    "Block Z": "block_z",
    "Registers Per Thread": "registers_per_thread",
}
_SHARED = {"Static SMem": "static_shared_bytes", "Dynamic SMem": "dynamic_shared_bytes"}
_UNKNOWN_MEMORY = schema.MEMORY_KINDS.index("Unknown")
# More than a double tells apart from its neighbours, times what two spellings of one size may differ by.
_SLACK = 1e-12


class TraceRows:
    """Rows of one recording's traces. What was left out, guessed or rounded is counted along the way.

    `time_step`, `bytes_step`: how far apart the values are that nvprof tells apart, at the worst;
    `rounded`: copies whose bytes are not known to the byte.
    """

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self.counts: Counter[str] = Counter()
        self.time_step = 0.0
        self.bytes_step = 0.0
        self.rounded = 0
        self.time_rows = 0

    def batches(self, cells: Cells, *, only_calls: bool, done: str) -> Iterator[ArrowRows]:
        """The rows of all tables; `only_calls`: the trace holds API calls and nothing else."""
        kinds = np.array([_kind(text) for text in cells.texts["Name"].known], np.int8)
        kind = kinds[cells.texts["Name"].place]
        if only_calls:
            kind = np.full(cells.count, _API_CALL, np.int8)
        elif (offered := cells.texts.get("Device")) is not None:
            kind = np.where((kind == _KERNEL) & (offered.place < 0), _API_CALL, kind)
        shared, kept = self._interval(cells, kind)
        for code, table, columns in (
            (_KERNEL, "kernel", self._kernels),
            (_MEMCPY, "memcpy", self._copies),
            (_MEMSET, "memset", self._sets),
            (_MIGRATION, "unified_memory_event", self._migrations),
            (_API_CALL, "api_call", self._calls),
        ):
            rows = np.flatnonzero((kind == code) & kept)
            if len(rows):
                own = {name: values[rows] for name, values in shared.items()}
                yield self._batch(table, own | columns(cells, rows), done)
        self.counts["fault"] += int(np.count_nonzero(kind == _OTHER))
        self.counts["unknown operation"] += int(np.count_nonzero(kind == _UNKNOWN))

    def _batch(self, table: str, columns: Columns, done: str) -> ArrowRows:
        self._gathered.rows[table] += len(columns["start_ns"])
        end = columns["start_ns"] + np.where(columns["dur_ns"] == MISSING, 0, columns["dur_ns"])
        end = end[columns["start_ns"] != MISSING]
        self._gathered.end_ns = max(self._gathered.end_ns, int(end.max(initial=0)))
        if self._gathered.pid is not None:
            columns["pid"] = np.full(len(columns["start_ns"]), self._gathered.pid)
        kinds = [Column(name, Unit.ID, "") for name in columns]
        return ArrowRows(table, build_table(kinds, columns), done)

    # -- what all rows share

    def _interval(self, cells: Cells, kind: Array) -> tuple[Columns, Array]:
        """Times, and which rows can be placed in time."""
        start = np.rint(cells.quantities["Start"])
        dur = np.rint(cells.quantities.get("Duration", np.full(cells.count, np.nan)))
        event = kind < _OTHER
        unplaced = event & (np.isnan(start) | np.isnan(dur))
        far = event & ((np.abs(start) > schema.TIME_LIMIT_NS) | (dur > schema.TIME_LIMIT_NS))
        negative = event & (dur < 0)
        self.counts["no time"] += int(np.count_nonzero(unplaced))
        self.counts["impossible time"] += int(np.count_nonzero(far))
        self.counts["negative duration"] += int(np.count_nonzero(negative))
        kept = ~(unplaced | far | negative)
        for name in ("Start", "Duration"):
            steps = cells.steps.get(name)
            if steps is not None and len(steps):
                self.time_step = max(self.time_step, float(steps.max()))
        self.time_rows += int(np.count_nonzero(event & kept))
        with np.errstate(invalid="ignore"):
            columns = {"start_ns": start.astype(np.int64), "dur_ns": dur.astype(np.int64)}
        # A start and a duration of 0 are no time.
        timeless = (columns["start_ns"] == 0) & (columns["dur_ns"] == 0)
        return {name: np.where(timeless, MISSING, v) for name, v in columns.items()}, kept

    def _on_gpu(self, cells: Cells, rows: Array) -> Columns:
        label = self._gathered.label
        self._remember_streams(cells, rows)
        return {
            "device_id": _looked_up(cells, "Device", rows, self._gathered.device),
            "context_id": _looked_up(cells, "Context", rows, label),
            "stream_id": _looked_up(cells, "Stream", rows, label),
            "correlation_id": _correlation(cells, rows),
        }

    def _remember_streams(self, cells: Cells, rows: Array) -> None:
        contexts, streams = cells.texts.get("Context"), cells.texts.get("Stream")
        if contexts is None or streams is None:
            return
        context, stream = contexts.place[rows], streams.place[rows]
        both = np.where((context >= 0) & (stream >= 0), context * len(streams.known) + stream, -1)
        for used in _used(both, len(contexts.known) * len(streams.known)):
            of, number = divmod(used, len(streams.known))
            label = self._gathered.label
            self._gathered.stream(label(contexts.known[of]), label(streams.known[number]))

    # -- tables

    def _kernels(self, cells: Cells, rows: Array) -> Columns:
        names = cells.texts["Name"]
        place = names.place[rows]
        name_of, symbol_of = np.full((2, len(names.known)), MISSING)
        for used in _used(place, len(names.known)):
            name, symbol = self._gathered.kernel(names.known[used])
            name_of[used], symbol_of[used] = name, MISSING if symbol is None else symbol
        columns = self._on_gpu(cells, rows) | {"name_id": name_of[place]}
        if (symbol_of != MISSING).any():
            columns["mangled_name_id"] = symbol_of[place]
        for told, ours in _ON_KERNELS.items():
            if told in cells.integers:
                columns[ours] = cells.integers[told][rows]
        for told, ours in _SHARED.items():
            if told in cells.quantities:
                columns[ours] = _whole(cells.quantities[told][rows])
        return columns

    def _copies(self, cells: Cells, rows: Array) -> Columns:
        columns = self._on_gpu(cells, rows) | {
            "bytes": self._bytes(cells, rows),
            "direction": self._directions(cells, rows, _COPY),
            "src_kind": self._memory(cells, "SrcMemType", rows),
            "dst_kind": self._memory(cells, "DstMemType", rows),
        }
        if {"Src Dev", "Dst Dev"} <= cells.texts.keys():
            source = _looked_up(cells, "Src Dev", rows, self._gathered.device)
            target = _looked_up(cells, "Dst Dev", rows, self._gathered.device)
            columns["peer_device_id"] = np.where(source != columns["device_id"], source, target)
        return columns

    def _sets(self, cells: Cells, rows: Array) -> Columns:
        return self._on_gpu(cells, rows) | {
            "bytes": self._bytes(cells, rows),
            "memory_kind": self._memory(cells, "SrcMemType", rows),
        }

    def _migrations(self, cells: Cells, rows: Array) -> Columns:
        unit = cells.units.get("Unified Memory", "")
        steps: dict[int, float] = {}

        def moved(text: str) -> int:
            quantity = spelled(text, unit)
            if quantity is None:
                return MISSING
            if not quantity.is_exact:
                steps[quantity.whole] = float(quantity.step)
            return quantity.whole

        size = _looked_up(cells, "Unified Memory", rows, moved)
        self.rounded += int(np.isin(size, list(steps)).sum())
        self.bytes_step = max(self.bytes_step, *steps.values(), 0.0)
        return self._on_gpu(cells, rows) | {
            "bytes": size,
            "direction": self._directions(cells, rows, _MOVED),
            "address": _looked_up(cells, "Virtual Address", rows, _address),
        }

    def _calls(self, cells: Cells, rows: Array) -> Columns:
        known, place = cells.texts["Name"].known, cells.texts["Name"].place[rows]
        name_of, layer_of, launched = np.full((3, len(known)), MISSING)
        for used in _used(place, len(known)):
            launch = _LAUNCH.match(known[used])
            name = launch.group(1) if launch else known[used]
            name_of[used], layer_of[used] = self._gathered.api_name(name), layer(name)
            if launch and (number := _LAUNCHED.search(known[used])):
                launched[used] = int(number.group(1))
        number_of = _correlation(cells, rows)
        return {
            "name_id": name_of[place],
            "layer": layer_of[place],
            "correlation_id": np.where(number_of == MISSING, launched[place], number_of),
        }

    # -- cells

    def _directions(self, cells: Cells, rows: Array, spelling: re.Pattern[str]) -> Array:
        def code(text: str) -> int:
            match = spelling.match(text)
            word = match.group(1) if match else ""
            if word not in schema.DIRECTIONS:
                self.counts["unknown direction"] += 1
                return 0
            return schema.DIRECTIONS.index(word)

        return _looked_up(cells, "Name", rows, code)

    def _memory(self, cells: Cells, column: str, rows: Array) -> Array:
        def code(text: str) -> int:
            if text not in schema.MEMORY_KINDS:
                self.counts["unknown memory"] += 1
                return _UNKNOWN_MEMORY
            return schema.MEMORY_KINDS.index(text)

        return _looked_up(cells, column, rows, code)

    def _bytes(self, cells: Cells, rows: Array) -> Array:
        """Bytes, as exact as Size and Throughput x Duration leave them together."""
        if "Size" not in cells.quantities:
            return np.full(len(rows), MISSING)
        size, size_step = cells.quantities["Size"][rows], cells.steps["Size"][rows]
        low, high = size - size_step / 2, size + size_step / 2
        if "Throughput" in cells.quantities:
            low, high = _narrowed(low, high, cells, rows)
        slack = np.abs(size) * _SLACK + _SLACK
        first, last = np.ceil(low - slack), np.floor(high + slack)
        inexact = (last > first) & ~np.isnan(size)
        if inexact.any():
            self.rounded += int(np.count_nonzero(inexact))
            self.bytes_step = max(self.bytes_step, float((high - low)[inexact].max()))
        middle = np.where(first <= last, np.floor((first + last) / 2), (low + high) / 2)
        return _whole(middle)


def _narrowed(low: Array, high: Array, cells: Cells, rows: Array) -> tuple[Array, Array]:
    """Bounds of sizes by what the throughput says; kept where it contradicts them."""
    rate, rate_step = cells.quantities["Throughput"][rows], cells.steps["Throughput"][rows]
    dur, dur_step = cells.quantities["Duration"][rows], cells.steps["Duration"][rows]
    # A duration that is spelled to the ns has no fraction of one.
    half = np.where(dur_step > 1, dur_step, 0) / 2
    least = (rate - rate_step / 2) * (dur - half) / 1e9
    most = (rate + rate_step / 2) * (dur + half) / 1e9
    slack = np.abs(high) * _SLACK
    with np.errstate(invalid="ignore"):
        agree = (least <= high + slack) & (most >= low - slack)
    return np.where(agree, np.maximum(low, least), low), np.where(
        agree, np.minimum(high, most), high
    )


def _kind(name: str) -> int:
    if not name.startswith("["):
        return _KERNEL
    if _COPY.match(name):
        return _MEMCPY
    if name == "[CUDA memset]":
        return _MEMSET
    if _MOVED.match(name):
        return _MIGRATION
    return _OTHER if name.startswith("[Unified Memory ") else _UNKNOWN


def _looked_up(cells: Cells, column: str, rows: Array, number: Callable[[str], int]) -> Array:
    """What a function makes of the texts of a column; asked of each text once, of unused ones never."""
    texts = cells.texts.get(column)
    if texts is None:
        return np.full(len(rows), MISSING)
    place = texts.place[rows]
    result = np.full(len(texts.known) + 1, MISSING)  # the last is no text
    for used in _used(place, len(texts.known)):
        result[used] = number(texts.known[used])
    found: Array = result[place]
    return found


def _used(place: Array, count: int) -> list[int]:
    """Which places occur, in order; -1 is none."""
    occurs = np.zeros(count + 1, bool)
    occurs[place] = True
    found: list[int] = np.flatnonzero(occurs[:-1]).tolist()
    return found


def _correlation(cells: Cells, rows: Array) -> Array:
    numbered = cells.numbered[rows]
    told = cells.integers.get("Correlation_ID")
    if told is not None:
        numbered = np.where(told[rows] == MISSING, numbered, told[rows])
    return np.where(numbered == 0, MISSING, numbered)


def _address(text: str) -> int:
    try:
        value = int(text, 16)
    except ValueError:
        return MISSING
    return value if value < 1 << 63 else MISSING


def _whole(values: Array) -> Array:
    told = ~np.isnan(values)
    return np.where(told, np.rint(np.where(told, values, 0)).astype(np.int64), MISSING)
