"""Rows of traces: from nvprof's columns to ours."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from nsysconv import codes
from nsysconv.importers.nvprof_log.cells import Cells
from nsysconv.importers.nvprof_log.gathered import Gathered
from nsysconv.importers.nvprof_log.quantities import spelled
from nsysconv.importers.printed.registry import api_layer
from nsysconv.importers.printed.trace import (
    SLACK,
    Array,
    Columns,
    TraceTally,
    map_texts,
    rounded,
    used_codes,
)
from nsysconv.report import MISSING
from nsysconv.store.recording import ArrayRows

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


class NvprofTraceRows:
    """Rows of one recording's traces. What was left out, guessed or rounded is in `tally`."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self.tally = TraceTally()

    def batches(self, cells: Cells, *, only_calls: bool, done: str) -> Iterator[ArrayRows]:
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
        self.tally.counts["fault"] += int(np.count_nonzero(kind == _OTHER))
        self.tally.counts["unknown operation"] += int(np.count_nonzero(kind == _UNKNOWN))

    def _batch(self, table: str, columns: Columns, done: str) -> ArrayRows:
        if self._gathered.pid is not None:
            columns["pid"] = np.full(len(columns["start_ns"]), self._gathered.pid)
        return self._gathered.batch(table, columns, done)

    # -- what all rows share

    def _interval(self, cells: Cells, kind: Array) -> tuple[Columns, Array]:
        """Times, and which rows can be placed in time."""
        for name in ("Start", "Duration"):
            steps = cells.steps.get(name)
            if steps is not None and len(steps):
                self.tally.time_step = max(self.tally.time_step, float(steps.max()))
        dur = cells.quantities.get("Duration", np.full(cells.count, np.nan))
        return self.tally.times(cells.quantities["Start"], dur, event=kind < _OTHER)

    def _on_gpu(self, cells: Cells, rows: Array) -> Columns:
        label = self._gathered.label
        self._remember_streams(cells, rows)
        return {
            "device_id": map_texts(cells.texts.get("Device"), rows, self._gathered.device),
            "context_id": map_texts(cells.texts.get("Context"), rows, label),
            "stream_id": map_texts(cells.texts.get("Stream"), rows, label),
            "correlation_id": _correlation(cells, rows),
        }

    def _remember_streams(self, cells: Cells, rows: Array) -> None:
        contexts, streams = cells.texts.get("Context"), cells.texts.get("Stream")
        if contexts is None or streams is None:
            return
        context, stream = contexts.place[rows], streams.place[rows]
        both = np.where((context >= 0) & (stream >= 0), context * len(streams.known) + stream, -1)
        for each in used_codes(both, len(contexts.known) * len(streams.known)):
            of, number = divmod(each, len(streams.known))
            label = self._gathered.label
            self._gathered.stream(label(contexts.known[of]), label(streams.known[number]))

    # -- tables

    def _kernels(self, cells: Cells, rows: Array) -> Columns:
        columns = self._on_gpu(cells, rows) | self._gathered.kernels(cells.texts["Name"], rows)
        for told, ours in _ON_KERNELS.items():
            if told in cells.integers:
                columns[ours] = cells.integers[told][rows]
        for told, ours in _SHARED.items():
            if told in cells.quantities:
                columns[ours] = rounded(cells.quantities[told][rows])
        return columns

    def _copies(self, cells: Cells, rows: Array) -> Columns:
        columns = self._on_gpu(cells, rows) | {
            "bytes": self._bytes(cells, rows),
            "direction": self._directions(cells, rows, _COPY),
            "src_kind": map_texts(cells.texts.get("SrcMemType"), rows, self.tally.memory_kind),
            "dst_kind": map_texts(cells.texts.get("DstMemType"), rows, self.tally.memory_kind),
        }
        if {"Src Dev", "Dst Dev"} <= cells.texts.keys():
            source = map_texts(cells.texts.get("Src Dev"), rows, self._gathered.device)
            target = map_texts(cells.texts.get("Dst Dev"), rows, self._gathered.device)
            columns["peer_device_id"] = np.where(source != columns["device_id"], source, target)
        return columns

    def _sets(self, cells: Cells, rows: Array) -> Columns:
        return self._on_gpu(cells, rows) | {
            "bytes": self._bytes(cells, rows),
            "memory_kind": map_texts(cells.texts.get("SrcMemType"), rows, self.tally.memory_kind),
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

        size = map_texts(cells.texts.get("Unified Memory"), rows, moved)
        self.tally.rounded += int(np.isin(size, list(steps)).sum())
        self.tally.bytes_step = max(self.tally.bytes_step, *steps.values(), 0.0)
        return self._on_gpu(cells, rows) | {
            "bytes": size,
            "direction": self._directions(cells, rows, _MOVED),
            "address": map_texts(cells.texts.get("Virtual Address"), rows, _address),
        }

    def _calls(self, cells: Cells, rows: Array) -> Columns:
        known, place = cells.texts["Name"].known, cells.texts["Name"].place[rows]
        name_of, layer_of, launched = np.full((3, len(known)), MISSING)
        for each in used_codes(place, len(known)):
            launch = _LAUNCH.match(known[each])
            name = launch.group(1) if launch else known[each]
            name_of[each], layer_of[each] = self._gathered.api_name(name), api_layer(name)
            if launch and (number := _LAUNCHED.search(known[each])):
                launched[each] = int(number.group(1))
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
            if word not in codes.DIRECTIONS:
                self.tally.counts["unknown direction"] += 1
                return 0
            return codes.DIRECTIONS.index(word)

        return map_texts(cells.texts.get("Name"), rows, code)

    def _bytes(self, cells: Cells, rows: Array) -> Array:
        """Bytes, as exact as Size and Throughput x Duration leave them together."""
        if "Size" not in cells.quantities:
            return np.full(len(rows), MISSING)
        size, size_step = cells.quantities["Size"][rows], cells.steps["Size"][rows]
        low, high = size - size_step / 2, size + size_step / 2
        if "Throughput" in cells.quantities:
            low, high = _narrowed(low, high, cells, rows)
        return self.tally.bytes(size, low, high)


def _narrowed(low: Array, high: Array, cells: Cells, rows: Array) -> tuple[Array, Array]:
    """Bounds of sizes by what the throughput says; kept where it contradicts them."""
    rate, rate_step = cells.quantities["Throughput"][rows], cells.steps["Throughput"][rows]
    dur, dur_step = cells.quantities["Duration"][rows], cells.steps["Duration"][rows]
    # A duration that is spelled to the ns has no fraction of one.
    half = np.where(dur_step > 1, dur_step, 0) / 2
    least = (rate - rate_step / 2) * (dur - half) / 1e9
    most = (rate + rate_step / 2) * (dur + half) / 1e9
    slack = np.abs(high) * SLACK
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
