"""Rows of traces: from nsys's columns to ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nsysconv.importers.nsys_stats.cells import Cells
from nsysconv.importers.nsys_stats.gathered import NsysIds, memory_operation
from nsysconv.importers.printed.registry import api_layer, is_api_name
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

KERNEL, _MEMCPY, _MEMSET, _MIGRATION, API_CALL, UNKNOWN = range(6)
_KINDS = {"memcpy": _MEMCPY, "memset": _MEMSET, "unified_memory": _MIGRATION}
_ON_KERNELS = {
    **{f"{what}_{axis}": f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"},
    "registers": "registers_per_thread",
}
_SHARED = {"static": "static_shared_bytes", "dynamic": "dynamic_shared_bytes"}
_SECOND = 10**9


class NsysTraceRows:
    """Rows of one recording's traces. What was left out, guessed or rounded is in `tally`.

    `unowned` counts GPU operations whose process was assumed.
    """

    def __init__(self, gathered: NsysIds) -> None:
        self._gathered = gathered
        self.tally = TraceTally()
        self.unowned = 0

    def batches(
        self, cells: Cells, steps: Mapping[str, float], *, only_calls: bool, done: str
    ) -> Iterator[ArrayRows]:
        """The rows of all tables; `only_calls`: the trace holds API calls and nothing else."""
        kind = kinds_of(cells, only_calls=only_calls)
        shared, kept = self._interval(cells, steps, kind)
        for code, table, columns in (
            (KERNEL, "kernel", self._kernels),
            (_MEMCPY, "memcpy", self._copies),
            (_MEMSET, "memset", self._sets),
            (_MIGRATION, "unified_memory_event", self._migrations),
            (API_CALL, "api_call", self._calls),
        ):
            rows = np.flatnonzero((kind == code) & kept)
            if len(rows):
                own = {name: values[rows] for name, values in shared.items()}
                yield self._batch(table, own | columns(cells, steps, rows), done)
        self.tally.counts["unknown operation"] += int(np.count_nonzero(kind == UNKNOWN))

    def _batch(self, table: str, columns: Columns, done: str) -> ArrayRows:
        pid = self._gathered.pid
        if table != "api_call" and pid is not None:
            self.unowned += len(columns["start_ns"])
            columns["pid"] = np.full(len(columns["start_ns"]), pid)
        return self._gathered.batch(table, columns, done)

    def _interval(
        self, cells: Cells, steps: Mapping[str, float], kind: Array
    ) -> tuple[Columns, Array]:
        """Times, and which rows can be placed in time."""
        step = max(steps.get(role, 0.0) for role in ("start", "dur"))
        self.tally.time_step = max(self.tally.time_step, step)
        start, dur = cells.quantities["start"], cells.quantities["dur"]
        return self.tally.times(start, dur, event=kind < UNKNOWN)

    # -- tables

    def _on_gpu(self, cells: Cells, rows: Array) -> Columns:
        context, stream = (_integer(cells, role, rows) for role in ("context", "stream"))
        for at in _first_of_each(context, stream):
            self._gathered.stream(int(context[at]), int(stream[at]))
        correlation = _integer(cells, "correlation", rows)
        return {
            "device_id": map_texts(cells.texts.get("device"), rows, self._gathered.device),
            "context_id": context,
            "stream_id": stream,
            "correlation_id": np.where(correlation == 0, MISSING, correlation),
        }

    def _kernels(self, cells: Cells, steps: Mapping[str, float], rows: Array) -> Columns:
        columns = self._on_gpu(cells, rows) | self._gathered.kernels(cells.texts["name"], rows)
        for told, ours in _ON_KERNELS.items():
            if told in cells.integers:
                columns[ours] = cells.integers[told][rows]
        for told, ours in _SHARED.items():
            # Megabytes to three decimals do not tell how much shared memory a block takes.
            if told in cells.quantities and steps.get(told, 0) <= 1:
                columns[ours] = rounded(cells.quantities[told][rows])
        green = cells.integers.get("green_context")
        if green is not None and (green[rows] != MISSING).any():
            columns["green_context_id"] = np.where(green[rows] == 0, MISSING, green[rows])
        return columns

    def _copies(self, cells: Cells, steps: Mapping[str, float], rows: Array) -> Columns:
        return self._on_gpu(cells, rows) | {
            "bytes": self._bytes(cells, steps, rows),
            "direction": self._directions(cells, rows),
            "src_kind": map_texts(cells.texts.get("src_kind"), rows, self.tally.memory_kind),
            "dst_kind": map_texts(cells.texts.get("dst_kind"), rows, self.tally.memory_kind),
        }

    def _sets(self, cells: Cells, steps: Mapping[str, float], rows: Array) -> Columns:
        return self._on_gpu(cells, rows) | {
            "bytes": self._bytes(cells, steps, rows),
            "memory_kind": map_texts(cells.texts.get("src_kind"), rows, self.tally.memory_kind),
        }

    def _migrations(self, cells: Cells, steps: Mapping[str, float], rows: Array) -> Columns:
        return self._on_gpu(cells, rows) | {
            "bytes": self._bytes(cells, steps, rows),
            "direction": self._directions(cells, rows),
        }

    def _calls(self, cells: Cells, steps: Mapping[str, float], rows: Array) -> Columns:
        names = cells.texts["name"]
        place = names.place[rows]
        name_of, layer_of = np.full((2, len(names.known)), MISSING)
        for each in used_codes(place, len(names.known)):
            text = names.known[each]
            name_of[each] = self._gathered.api_name(text)
            layer_of[each] = api_layer(text) if is_api_name(text) else MISSING
        correlation = _integer(cells, "correlation", rows)
        columns = {
            "name_id": name_of[place],
            "layer": layer_of[place],
            "correlation_id": np.where(correlation == 0, MISSING, correlation),
            "result": _integer(cells, "result", rows),
        }
        pid, tid = (_integer(cells, role, rows) for role in ("pid", "tid"))
        columns["pid"] = np.where(pid == 0, MISSING, pid)
        columns["tid"] = np.where(columns["pid"] == MISSING, MISSING, tid)
        self._remember_threads(cells, rows, columns["pid"], columns["tid"])
        return columns

    def _remember_threads(self, cells: Cells, rows: Array, pid: Array, tid: Array) -> None:
        names = cells.texts.get("thread")
        place = np.full(len(rows), -1) if names is None else names.place[rows]
        for at in _first_of_each(pid, tid):
            text = names.known[place[at]] if names is not None and place[at] >= 0 else None
            self._gathered.thread(int(pid[at]), int(tid[at]), text)
        self._gathered.pids.update(np.unique(pid[pid != MISSING]).tolist())

    # -- cells

    def _directions(self, cells: Cells, rows: Array) -> Array:
        def code(text: str) -> int:
            operation = memory_operation(text)
            return self._gathered.direction(operation[1]) if operation else 0

        return map_texts(cells.texts.get("name"), rows, code)

    def _bytes(self, cells: Cells, steps: Mapping[str, float], rows: Array) -> Array:
        """Bytes, as exact as size and throughput leave them together."""
        if "bytes" not in cells.quantities:
            return np.full(len(rows), MISSING)
        size = cells.quantities["bytes"][rows]
        step = steps.get("bytes", 1.0)
        if step <= 1:
            return rounded(size)
        low, high = size - step / 2, size + step / 2
        if "throughput" in cells.quantities:
            low, high = _narrowed(low, high, cells, steps, rows)
        return self.tally.bytes(size, low, high)


def _narrowed(
    low: Array, high: Array, cells: Cells, steps: Mapping[str, float], rows: Array
) -> tuple[Array, Array]:
    """Bounds of sizes by what the throughput says; kept where it contradicts them, or says nothing.

    nsys multiplies bytes with how often the duration fits into a second: 0 times for a longer one.
    """
    rate, half = cells.quantities["throughput"][rows], steps.get("throughput", 1.0) / 2
    dur = np.rint(cells.quantities["dur"][rows])
    with np.errstate(invalid="ignore", divide="ignore"):
        times = np.floor(_SECOND / dur)
        least, most = (rate - half) / times, (rate + half) / times
        slack = np.abs(high) * SLACK
        agree = (times > 0) & np.isfinite(times) & (least <= high + slack) & (most >= low - slack)
    exact = steps.get("dur", 1.0) <= 1
    agree &= exact
    return np.where(agree, np.maximum(low, least), low), np.where(
        agree, np.minimum(high, most), high
    )


def kinds_of(cells: Cells, *, only_calls: bool) -> Array:
    """What each row is about, as KERNEL and the like; UNKNOWN work has no place."""
    if only_calls:
        return np.full(cells.count, API_CALL, np.int8)
    names = cells.texts["name"]
    kinds = np.array([_kind(text, "device" in cells.texts) for text in names.known], np.int8)
    found: Array = kinds[names.place]
    return found


def _kind(name: str, on_gpu: bool) -> int:
    operation = memory_operation(name)
    if operation is not None:
        return _KINDS[operation[0]]
    if name.startswith("[CUDA "):
        return UNKNOWN
    return API_CALL if not on_gpu and is_api_name(name) else KERNEL


def _first_of_each(first: Array, second: Array) -> list[int]:
    """Where each pair of numbers of 32 bits stands first; those of which one is missing nowhere."""
    told = np.flatnonzero((first != MISSING) & (second != MISSING))
    _, places = np.unique(first[told] << 32 | second[told] & 0xFFFFFFFF, return_index=True)
    found: list[int] = told[places].tolist()
    return found


def _integer(cells: Cells, column: str, rows: Array) -> Array:
    return cells.integers[column][rows] if column in cells.integers else np.full(len(rows), MISSING)
