"""Rows of traces: from printed cells, column by column, to rows of event tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from nsysconv import codes, schema
from nsysconv.facts import Fact
from nsysconv.importers.printed.registry import IdRegistry
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING, values_of
from nsysconv.store.recording import ArrayRows

Array = np.ndarray
Columns = dict[str, Array]

EVENTS = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.API_CALLS})
"""Facts that rows of traces record."""
SIZES = frozenset({Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY})
"""Those of rows with bytes."""
EMPTY_CELLS = ("", "-")

QUANTITIES = ("start", "dur", "bytes", "throughput", "static", "dynamic")
"""Columns of numbers with units. A column is called by the same role in both dialects."""
_KERNEL_COLUMNS = {
    **{f"{what}_{axis}": f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"},
    "registers": "registers_per_thread",
}
SHARED_MEMORY = {"static": "static_shared_bytes", "dynamic": "dynamic_shared_bytes"}
_UNKNOWN_MEMORY = codes.MEMORY_KINDS.index("Unknown")
# What two spellings of one size may differ by, per byte: more than a double differs from its neighbors.
_SLACK = 1e-12
# What is parsed at once: it fits into a processor's cache, which halves the time.
_BLOCK_BYTES = 1 << 20


class RowKind(IntEnum):
    """The kind of a trace's row; no event table holds the last two kinds."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    MIGRATION = 3
    API_CALL = 4
    FAULT = 5
    UNKNOWN = 6


MEMORY_KINDS = {
    "memcpy": RowKind.MEMCPY,
    "memset": RowKind.MEMSET,
    "unified_memory": RowKind.MIGRATION,
}
"""The kind of a row that is about a memory operation, by the kind of its aggregate."""


# -- cells by column


@dataclass(frozen=True)
class EncodedTexts:
    """A dictionary-encoded column: per row the index of its text in `values`, -1 for none."""

    codes: Array
    values: Sequence[str]


def encode_texts(texts: Iterable[str | None]) -> EncodedTexts:
    """Return a column of texts given row by row, None for none."""
    values: dict[str, int] = {}
    numbers = [-1 if text is None else values.setdefault(text, len(values)) for text in texts]
    return EncodedTexts(np.array(numbers, np.int64), list(values))


def encoded_column(column: pa.DictionaryArray) -> EncodedTexts:
    """Return a dictionary-encoded column of Arrow as ours."""
    return EncodedTexts(values_of(column.indices, -1), column.dictionary.to_pylist())


def map_texts(texts: EncodedTexts | None, rows: Array, number: Callable[[str], int]) -> Array:
    """Return the number of each row's text, by a call per used text, in order; MISSING for no text."""
    if texts is None:
        return np.full(len(rows), MISSING)
    row_codes = texts.codes[rows]
    numbers = np.full(len(texts.values) + 1, MISSING)  # the last, code -1, is no text
    for code in used_codes(row_codes, len(texts.values)):
        numbers[code] = number(texts.values[code])
    result: Array = numbers[row_codes]
    return result


def used_codes(row_codes: Array, count: int) -> list[int]:
    """Return which of the codes 0 to `count` - 1 occur, in order."""
    occurs = np.zeros(count + 1, bool)
    occurs[row_codes] = True  # -1, no text, marks the additional last place
    result: list[int] = np.flatnonzero(occurs[:-1]).tolist()
    return result


def rounded(values: Array) -> Array:
    """Return the nearest integers; MISSING for NaN."""
    is_number = ~np.isnan(values)
    return np.where(is_number, np.rint(np.where(is_number, values, 0)).astype(np.int64), MISSING)


@dataclass(frozen=True)
class TraceCells:
    """Rows of a trace by column; absent columns are left out.

    `quantities` are in ns, bytes and bytes per second, NaN for an empty cell; `steps` say how far apart
    two values of them are that are spelled differently, per column or per row. `integers` have MISSING
    for an empty cell. `units` are those that the header names.
    """

    count: int
    quantities: Mapping[str, Array]
    steps: Mapping[str, Array | float]
    integers: Mapping[str, Array]
    texts: Mapping[str, EncodedTexts]
    units: Mapping[str, str] = field(default_factory=dict)

    def integer(self, role: str, rows: Array) -> Array:
        """Return a column of integers of these rows; MISSING without the column."""
        return self.integers[role][rows] if role in self.integers else np.full(len(rows), MISSING)

    def step(self, role: str, rows: Array) -> Array:
        """Return the steps in which a quantity is spelled in these rows."""
        steps: Array = np.broadcast_to(self.steps[role], self.count)[rows]
        return steps


def read_csv(
    data: bytes,
    types: Mapping[str, pa.DataType],
    delimiter: str,
    *,
    quotes: bool = True,
    is_utf8: bool = False,
    on_odd_row: Callable[[csv.InvalidRow], str] | None = None,
) -> pa.Table | None:
    """Return rows of CSV as columns of these types, or None where a cell is not of its type.

    `quotes` says whether cells may be in quotes, `is_utf8` that `data` has been checked. `on_odd_row` is
    called with rows that have more or fewer cells, and returns "skip" or "error".
    """
    try:
        return csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(use_threads=False, column_names=list(types), block_size=_BLOCK_BYTES),
            csv.ParseOptions(
                delimiter=delimiter,
                quote_char='"' if quotes else False,
                invalid_row_handler=on_odd_row,
            ),
            csv.ConvertOptions(
                column_types=types,
                null_values=list(EMPTY_CELLS),
                strings_can_be_null=True,
                check_utf8=not is_utf8,
            ),
        )
    except pa.ArrowInvalid:
        return None


def table_cells(
    table: pa.Table, scales: Mapping[str, int], steps: Mapping[str, float], units: Mapping[str, str]
) -> TraceCells:
    """Return the columns of a table, quantities times their scale."""
    quantities, integers, texts = {}, {}, {}
    for role in table.column_names:
        column = table[role].combine_chunks()
        if role in QUANTITIES:
            quantities[role] = values_of(pc.cast(column, pa.float64()), np.nan) * scales[role]
        elif pa.types.is_dictionary(column.type):
            texts[role] = encoded_column(column)
        else:
            integers[role] = values_of(column)
    return TraceCells(table.num_rows, quantities, steps, integers, texts, units)


# -- what rows leave out

# What the rows of traces count -> slug, severity, text.
_COUNTED = {
    "no time": ("wrong-type", Severity.DROPPED, "rows whose time is not a number were left out"),
    "impossible time":
        ("impossible-time", Severity.DROPPED, "rows with impossible times were left out"),
    "negative duration":
        ("negative-duration", Severity.DROPPED, "rows that end before they start were left out"),
    "unknown operation":
        ("category-unknown", Severity.DROPPED, "rows of unknown GPU work were left out"),
    "unknown direction": ("unknown-code", Severity.INFO,
                          "unknown copy directions are shown as Unknown"),
    "unknown memory": ("unknown-code", Severity.INFO,
                       "unknown memory kinds are shown as Unknown"),
    "fault": ("rows-not-read", Severity.INFO,
              "page faults and the like on unified memory are not GPU work and were not read"),
}  # fmt: skip


@dataclass
class TraceTally:
    """Counts of what was left out, guessed or rounded in the rows of one recording's traces.

    `counts` are rows by what is wrong with them. `time_step` and `bytes_step` are the coarsest steps in
    which times and bytes are spelled, in ns and bytes; `time_rows` are rows with a time, `rounded` copies
    whose bytes are not known to the byte.
    """

    counts: Counter[str] = field(default_factory=Counter)
    time_step: float = 0.0
    bytes_step: float = 0.0
    time_rows: int = 0
    rounded: int = 0

    def times(self, start: Array, dur: Array, event: Array) -> tuple[Columns, Array]:
        """Return columns of times (ns), and which rows have a place; `event`: rows that a table holds."""
        start, dur = np.rint(start), np.rint(dur)
        unplaced = event & (np.isnan(start) | np.isnan(dur))
        far = event & ((np.abs(start) > schema.TIME_LIMIT_NS) | (dur > schema.TIME_LIMIT_NS))
        negative = event & (dur < 0)
        self.counts["no time"] += int(np.count_nonzero(unplaced))
        self.counts["impossible time"] += int(np.count_nonzero(far))
        self.counts["negative duration"] += int(np.count_nonzero(negative))
        valid = ~(unplaced | far | negative)
        self.time_rows += int(np.count_nonzero(event & valid))
        with np.errstate(invalid="ignore"):
            columns = {"start_ns": start.astype(np.int64), "dur_ns": dur.astype(np.int64)}
        # Profilers print 0 for both where they recorded no time.
        timeless = (columns["start_ns"] == 0) & (columns["dur_ns"] == 0)
        return {name: np.where(timeless, MISSING, v) for name, v in columns.items()}, valid

    def bytes(self, size: Array, low: Array, high: Array) -> Array:
        """Return the integer in the middle between two bounds, for sizes that are spelled `size`."""
        slack = np.abs(size) * _SLACK + _SLACK
        first, last = np.ceil(low - slack), np.floor(high + slack)
        inexact = (last > first) & ~np.isnan(size)
        if inexact.any():
            self.rounded += int(np.count_nonzero(inexact))
            self.bytes_step = max(self.bytes_step, float((high - low)[inexact].max()))
        middle = np.where(first <= last, np.floor((first + last) / 2), (low + high) / 2)
        return rounded(np.maximum(middle, 0))

    def memory_kind(self, text: str) -> int:
        """Return the code of codes.MEMORY_KINDS for a word."""
        if text not in codes.MEMORY_KINDS:
            self.counts["unknown memory"] += 1
            return _UNKNOWN_MEMORY
        return codes.MEMORY_KINDS.index(text)

    def notes(self) -> Iterator[Note]:
        """Yield notes on what was counted."""
        for reason, (slug, severity, text) in _COUNTED.items():
            if self.counts[reason]:
                yield Note(slug, severity, text, self.counts[reason], "", EVENTS)
        if self.time_step > 1 and self.time_rows:
            text = f"times have a resolution of {self.time_step:,.0f} ns"
            yield Note("rounded-times", Severity.APPROXIMATED, text, self.time_rows, "", EVENTS)
        if self.rounded:
            text = f"copy sizes are accurate to {self.bytes_step:,.0f} bytes or better"
            yield Note("rounded-bytes", Severity.APPROXIMATED, text, self.rounded, "", SIZES)


# -- rows of event tables


@dataclass
class TraceRows(ABC):
    """Convert the cells of one recording's traces into rows of event tables.

    `ids` numbers names, devices and streams. `tally` holds what was left out, guessed or rounded;
    `counts` rows by table; `end_ns` the last end of a row; `without_pid` rows whose table has no process.
    """

    ids: IdRegistry
    tally: TraceTally = field(default_factory=TraceTally)
    counts: Counter[str] = field(default_factory=Counter)
    end_ns: int = 0
    without_pid: int = 0

    @abstractmethod
    def kinds(self, cells: TraceCells, *, only_calls: bool) -> Array:
        """Return what each row is about, as codes of RowKind; `only_calls`: all are API calls."""

    @abstractmethod
    def direction(self, name: str) -> int:
        """Return the code of codes.DIRECTIONS for the name of a copy or migration."""

    @abstractmethod
    def stream_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return context_id and stream_id, and register the streams."""

    @abstractmethod
    def call_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the columns of API calls."""

    @abstractmethod
    def bytes_by_throughput(self, cells: TraceCells, rows: Array) -> tuple[Array, Array]:
        """Return bounds of sizes by throughput and duration; NaN where these leave them open."""

    def batches(self, cells: TraceCells, *, only_calls: bool, done: str) -> Iterator[ArrayRows]:
        """Yield the rows of all tables; `done` names the progress for people."""
        kind = self.kinds(cells, only_calls=only_calls)
        for role in ("start", "dur"):
            step = float(np.max(cells.steps.get(role, 0.0), initial=0.0))
            self.tally.time_step = max(self.tally.time_step, step)
        dur = cells.quantities.get("dur", np.full(cells.count, np.nan))
        times, valid = self.tally.times(cells.quantities["start"], dur, event=kind < RowKind.FAULT)
        for code, table, columns in (
            (RowKind.KERNEL, "kernel", self.kernel_columns),
            (RowKind.MEMCPY, "memcpy", self.copy_columns),
            (RowKind.MEMSET, "memset", self.set_columns),
            (RowKind.MIGRATION, "unified_memory_event", self.migration_columns),
            (RowKind.API_CALL, "api_call", self.call_columns),
        ):
            rows = np.flatnonzero((kind == code) & valid)
            if len(rows):
                row_times = {name: values[rows] for name, values in times.items()}
                yield self._batch(table, row_times | columns(cells, rows), done)
        self.tally.counts["fault"] += int(np.count_nonzero(kind == RowKind.FAULT))
        self.tally.counts["unknown operation"] += int(np.count_nonzero(kind == RowKind.UNKNOWN))

    def notes(self) -> Iterator[Note]:
        """Yield notes on the rows."""
        yield from self.tally.notes()

    def _batch(self, table: str, columns: Columns, done: str) -> ArrayRows:
        start, dur = columns["start_ns"], columns["dur_ns"]
        if "pid" not in columns and self.ids.pid is not None:
            columns["pid"] = np.full(len(start), self.ids.pid)
            self.without_pid += len(start)
        self.counts[table] += len(start)
        end = (start + np.where(dur == MISSING, 0, dur))[start != MISSING]
        self.end_ns = max(self.end_ns, int(end.max(initial=0)))
        return ArrayRows(table, columns, done)

    def gpu_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the columns of all GPU work."""
        return self.stream_columns(cells, rows) | {
            "device_id": map_texts(cells.texts.get("device"), rows, self.ids.device),
            "correlation_id": correlation_ids(cells, rows),
        }

    def kernel_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the columns of kernels."""
        columns = self.gpu_columns(cells, rows)
        names = cells.texts["name"]
        row_codes = names.codes[rows]
        name_ids, symbol_ids = np.full((2, len(names.values)), MISSING)
        for code in used_codes(row_codes, len(names.values)):
            name_id, symbol_id = self.ids.kernel(names.values[code])
            name_ids[code], symbol_ids[code] = name_id, MISSING if symbol_id is None else symbol_id
        columns["name_id"] = name_ids[row_codes]
        if (symbol_ids != MISSING).any():
            columns["mangled_name_id"] = symbol_ids[row_codes]
        for role, column in _KERNEL_COLUMNS.items():
            if role in cells.integers:
                columns[column] = cells.integers[role][rows]
        for role, column in SHARED_MEMORY.items():
            if role in cells.quantities:
                columns[column] = rounded(cells.quantities[role][rows])
        green_context = cells.integer("green_context", rows)
        if (green_context != MISSING).any():
            columns["green_context_id"] = np.where(green_context == 0, MISSING, green_context)
        return columns

    def copy_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the columns of copies."""
        return self.gpu_columns(cells, rows) | {
            "bytes": self.byte_counts(cells, rows),
            "direction": map_texts(cells.texts["name"], rows, self.direction),
            "src_kind": map_texts(cells.texts.get("src_kind"), rows, self.tally.memory_kind),
            "dst_kind": map_texts(cells.texts.get("dst_kind"), rows, self.tally.memory_kind),
        }

    def set_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the columns of memsets."""
        return self.gpu_columns(cells, rows) | {
            "bytes": self.byte_counts(cells, rows),
            "memory_kind": map_texts(cells.texts.get("src_kind"), rows, self.tally.memory_kind),
        }

    def migration_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the columns of migrations of unified memory."""
        return self.gpu_columns(cells, rows) | {
            "bytes": self.byte_counts(cells, rows),
            "direction": map_texts(cells.texts["name"], rows, self.direction),
        }

    def byte_counts(self, cells: TraceCells, rows: Array) -> Array:
        """Return bytes, as exact as size and throughput x duration leave them together."""
        if "bytes" not in cells.quantities:
            return np.full(len(rows), MISSING)
        size, half = cells.quantities["bytes"][rows], cells.step("bytes", rows) / 2
        low, high = size - half, size + half
        if "throughput" in cells.quantities:
            least, most = self.bytes_by_throughput(cells, rows)
            slack = np.abs(high) * _SLACK
            with np.errstate(invalid="ignore"):
                # Bounds that contradict the size are ignored, and so is NaN.
                agree = (least <= high + slack) & (most >= low - slack)
            low = np.where(agree, np.maximum(low, least), low)
            high = np.where(agree, np.minimum(high, most), high)
        return self.tally.bytes(size, low, high)


def correlation_ids(cells: TraceCells, rows: Array) -> Array:
    """Return the numbers that link rows to API calls, from their column, else from names."""
    numbers, launches = cells.integer("correlation", rows), cells.integer("launch", rows)
    numbers = np.where(numbers == MISSING, launches, numbers)
    return np.where(numbers == 0, MISSING, numbers)
