"""Rows of traces: from nsys's columns to ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from nsysconv import schema
from nsysconv.importers.nsys_stats.cells import Cells
from nsysconv.importers.nsys_stats.gathered import Gathered, is_api, layer, memory_operation
from nsysconv.report import MISSING, Column, build_table
from nsysconv.store.recording import ArrowRows
from nsysconv.units import Unit

Array = np.ndarray
Columns = dict[str, Array]

_KERNEL, _MEMCPY, _MEMSET, _MIGRATION, _API_CALL, _UNKNOWN = range(6)
_KINDS = {"memcpy": _MEMCPY, "memset": _MEMSET, "unified_memory": _MIGRATION}
_ON_KERNELS = {
    **{f"{what}_{axis}": f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"},
    "registers": "registers_per_thread",
}
_SHARED = {"static": "static_shared_bytes", "dynamic": "dynamic_shared_bytes"}
_UNKNOWN_MEMORY = schema.MEMORY_KINDS.index("Unknown")
_SECOND = 10**9
# More than a double tells apart from its neighbours, times what two spellings of one size may differ by.
_SLACK = 1e-12


class TraceRows:
    """Rows of one recording's traces. What was left out, guessed or rounded is counted along the way.

    `time_step`, `bytes_step`: how far apart the values are that are spelled differently, at the worst;
    `rounded`: copies whose bytes are not known to the byte; `unowned`: GPU operations whose process was
    assumed.
    """

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self.counts: Counter[str] = Counter()
        self.time_step = 0.0
        self.bytes_step = 0.0
        self.rounded = 0
        self.time_rows = 0
        self.unowned = 0

    def batches(
        self, cells: Cells, steps: Mapping[str, float], *, only_calls: bool, done: str
    ) -> Iterator[ArrowRows]:
        """The rows of all tables; `only_calls`: the trace holds API calls and nothing else."""
        names = cells.texts["name"]
        kinds = np.array([_kind(text, "device" in cells.texts) for text in names.known], np.int8)
        kind = np.full(cells.count, _API_CALL, np.int8) if only_calls else kinds[names.place]
        shared, kept = self._interval(cells, steps, kind)
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
                yield self._batch(table, own | columns(cells, steps, rows), done)
        self.counts["unknown operation"] += int(np.count_nonzero(kind == _UNKNOWN))

    def _batch(self, table: str, columns: Columns, done: str) -> ArrowRows:
        found = self._gathered
        found.rows[table] += len(columns["start_ns"])
        end = columns["start_ns"] + np.where(columns["dur_ns"] == MISSING, 0, columns["dur_ns"])
        end = end[columns["start_ns"] != MISSING]
        found.end_ns = max(found.end_ns, int(end.max(initial=0)))
        if table != "api_call" and found.pid is not None:
            self.unowned += len(columns["start_ns"])
            columns["pid"] = np.full(len(columns["start_ns"]), found.pid)
        kinds = [Column(name, Unit.ID, "") for name in columns]
        return ArrowRows(table, build_table(kinds, columns), done)

    def _interval(
        self, cells: Cells, steps: Mapping[str, float], kind: Array
    ) -> tuple[Columns, Array]:
        """Times, and which rows can be placed in time."""
        start, dur = np.rint(cells.quantities["start"]), np.rint(cells.quantities["dur"])
        event = kind < _UNKNOWN
        unplaced = event & (np.isnan(start) | np.isnan(dur))
        far = event & ((np.abs(start) > schema.TIME_LIMIT_NS) | (dur > schema.TIME_LIMIT_NS))
        negative = event & (dur < 0)
        self.counts["no time"] += int(np.count_nonzero(unplaced))
        self.counts["impossible time"] += int(np.count_nonzero(far))
        self.counts["negative duration"] += int(np.count_nonzero(negative))
        kept = ~(unplaced | far | negative)
        self.time_step = max(self.time_step, *(steps.get(role, 0.0) for role in ("start", "dur")))
        self.time_rows += int(np.count_nonzero(event & kept))
        with np.errstate(invalid="ignore"):
            columns = {"start_ns": start.astype(np.int64), "dur_ns": dur.astype(np.int64)}
        # A start and a duration of 0 are no time.
        timeless = (columns["start_ns"] == 0) & (columns["dur_ns"] == 0)
        return {name: np.where(timeless, MISSING, v) for name, v in columns.items()}, kept

    # -- tables

    def _on_gpu(self, cells: Cells, rows: Array) -> Columns:
        context, stream = (_integer(cells, role, rows) for role in ("context", "stream"))
        for at in _first_of_each(context, stream):
            self._gathered.stream(int(context[at]), int(stream[at]))
        correlation = _integer(cells, "correlation", rows)
        return {
            "device_id": _looked_up(cells, "device", rows, self._gathered.device),
            "context_id": context,
            "stream_id": stream,
            "correlation_id": np.where(correlation == 0, MISSING, correlation),
        }

    def _kernels(self, cells: Cells, steps: Mapping[str, float], rows: Array) -> Columns:
        names = cells.texts["name"]
        place = names.place[rows]
        name_of, symbol_of = np.full((2, len(names.known)), MISSING)
        for used in np.unique(place).tolist():
            name, symbol = self._gathered.kernel(names.known[used])
            name_of[used], symbol_of[used] = name, MISSING if symbol is None else symbol
        columns = self._on_gpu(cells, rows) | {"name_id": name_of[place]}
        if (symbol_of != MISSING).any():
            columns["mangled_name_id"] = symbol_of[place]
        for told, ours in _ON_KERNELS.items():
            if told in cells.integers:
                columns[ours] = cells.integers[told][rows]
        for told, ours in _SHARED.items():
            # Megabytes to three decimals do not tell how much shared memory a block takes.
            if told in cells.quantities and steps.get(told, 0) <= 1:
                columns[ours] = _whole(cells.quantities[told][rows])
        green = cells.integers.get("green_context")
        if green is not None and (green[rows] != MISSING).any():
            columns["green_context_id"] = np.where(green[rows] == 0, MISSING, green[rows])
        return columns

    def _copies(self, cells: Cells, steps: Mapping[str, float], rows: Array) -> Columns:
        return self._on_gpu(cells, rows) | {
            "bytes": self._bytes(cells, steps, rows),
            "direction": self._directions(cells, rows),
            "src_kind": self._memory(cells, "src_kind", rows),
            "dst_kind": self._memory(cells, "dst_kind", rows),
        }

    def _sets(self, cells: Cells, steps: Mapping[str, float], rows: Array) -> Columns:
        return self._on_gpu(cells, rows) | {
            "bytes": self._bytes(cells, steps, rows),
            "memory_kind": self._memory(cells, "src_kind", rows),
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
        for used in np.unique(place).tolist():
            text = names.known[used]
            code = layer(text)
            name_of[used] = self._gathered.api_name(text)
            layer_of[used] = MISSING if code is None else code
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

        return _looked_up(cells, "name", rows, code)

    def _memory(self, cells: Cells, column: str, rows: Array) -> Array:
        def code(text: str) -> int:
            if text not in schema.MEMORY_KINDS:
                self.counts["unknown memory"] += 1
                return _UNKNOWN_MEMORY
            return schema.MEMORY_KINDS.index(text)

        return _looked_up(cells, column, rows, code)

    def _bytes(self, cells: Cells, steps: Mapping[str, float], rows: Array) -> Array:
        """Bytes, as exact as size and throughput leave them together."""
        if "bytes" not in cells.quantities:
            return np.full(len(rows), MISSING)
        size = cells.quantities["bytes"][rows]
        step = steps.get("bytes", 1.0)
        if step <= 1:
            return _whole(size)
        low, high = size - step / 2, size + step / 2
        if "throughput" in cells.quantities:
            low, high = _narrowed(low, high, cells, steps, rows)
        slack = np.abs(size) * _SLACK + _SLACK
        first, last = np.ceil(low - slack), np.floor(high + slack)
        inexact = (last > first) & ~np.isnan(size)
        if inexact.any():
            self.rounded += int(np.count_nonzero(inexact))
            self.bytes_step = max(self.bytes_step, float((high - low)[inexact].max()))
        middle = np.where(first <= last, np.floor((first + last) / 2), (low + high) / 2)
        return _whole(np.maximum(middle, 0))


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
        slack = np.abs(high) * _SLACK
        agree = (times > 0) & np.isfinite(times) & (least <= high + slack) & (most >= low - slack)
    exact = steps.get("dur", 1.0) <= 1
    agree &= exact
    return np.where(agree, np.maximum(low, least), low), np.where(
        agree, np.minimum(high, most), high
    )


def _kind(name: str, on_gpu: bool) -> int:
    operation = memory_operation(name)
    if operation is not None:
        return _KINDS[operation[0]]
    if name.startswith("[CUDA "):
        return _UNKNOWN
    return _API_CALL if not on_gpu and is_api(name) else _KERNEL


def _looked_up(cells: Cells, column: str, rows: Array, number: Callable[[str], int]) -> Array:
    """What a function makes of the texts of a column; asked of each text once, of unused ones never."""
    texts = cells.texts.get(column)
    if texts is None:
        return np.full(len(rows), MISSING)
    place = texts.place[rows]
    result = np.full(len(texts.known) + 1, MISSING)  # the last is no text
    for used in np.unique(place).tolist():
        if used >= 0:
            result[used] = number(texts.known[used])
    found: Array = result[place]
    return found


def _first_of_each(first: Array, second: Array) -> list[int]:
    """Where each pair of numbers of 32 bits stands first; those of which one is missing nowhere."""
    told = np.flatnonzero((first != MISSING) & (second != MISSING))
    _, places = np.unique(first[told] << 32 | second[told] & 0xFFFFFFFF, return_index=True)
    found: list[int] = told[places].tolist()
    return found


def _integer(cells: Cells, column: str, rows: Array) -> Array:
    return cells.integers[column][rows] if column in cells.integers else np.full(len(rows), MISSING)


def _whole(values: Array) -> Array:
    told = ~np.isnan(values)
    return np.where(told, np.rint(np.where(told, values, 0)).astype(np.int64), MISSING)
