"""Traces of nsys stats: printed rows to cells, cells to rows of event tables, or to totals.

CSV is parsed many rows at once where all of it is as nsys writes it, everything else row by row. Rows
whose starts are cut to whole seconds have no place in time; what they add up to is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from nsysconv import schema
from nsysconv.importers.nsys_stats import tables
from nsysconv.importers.nsys_stats.survey import PrintedTable
from nsysconv.importers.nsys_stats.totals import NsysIds, TotalsRow, TraceSums
from nsysconv.importers.printed.lines import read_span
from nsysconv.importers.printed.quantities import ValueRange
from nsysconv.importers.printed.registry import api_layer, is_api_name, memory_operation
from nsysconv.importers.printed.text import RejectedLines
from nsysconv.importers.printed.trace import (
    EMPTY_CELLS,
    EVENTS,
    MEMORY_KINDS,
    QUANTITIES,
    SHARED_MEMORY,
    Array,
    Columns,
    EncodedTexts,
    RowKind,
    TraceCells,
    TraceRows,
    TraceTally,
    correlation_ids,
    encode_texts,
    read_csv,
    rounded,
    table_cells,
    used_codes,
)
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING

_INTEGERS = (
    "correlation", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers",
    "context", "green_context", "stream", "result", "pid", "tid",
)  # fmt: skip
_BATCH_ROWS = 1 << 16
_SAMPLE_ROWS = 1000
_MOST_DIGITS = 19
_SECOND = 10**9


# -- from printed rows to cells


@dataclass
class TraceReader:
    """Read the rows of one trace in pieces.

    `rejected`, `ambiguous` (cells that could be two numbers) and `no_numbers` (cells that are none) are
    complete once all rows are read. `is_cut`: the trace's decimals are cut, so that starts are whole
    seconds.
    """

    path: Path
    table: PrintedTable
    rejected: RejectedLines = field(default_factory=RejectedLines)
    ambiguous: int = 0
    no_numbers: int = 0
    is_cut: bool = False

    def __post_init__(self) -> None:
        """Learn from the first rows how numbers are spelled, and with how many decimals."""
        header = self.table.header
        self._roles = roles = [column.role for column in header.columns]
        self._scales = {role: self._scale(role) for role in (*QUANTITIES, *_INTEGERS)}
        sample = islice((row for row in self._first_rows() if len(row) == len(roles)), _SAMPLE_ROWS)
        rows = [dict(zip(roles, row, strict=True)) for row in sample]
        measured = [role for role in self._scales if role in roles]
        cells = [(row[role], self._cell_kind(role)) for row in rows for role in measured]
        self._format = tables.number_format(cells, has_points=header.has_points)
        numbers = {
            role: [number for row in rows
                   if (number := self._format.number(row[role], self._cell_kind(role))) is not None]
            for role in QUANTITIES if role in roles
        }  # fmt: skip
        self.is_cut = self._has_cut_starts(numbers)
        self._steps: dict[str, float] = {}
        for role, column in numbers.items():
            # Values in a larger unit have three decimals; zeros at the end may not be spelled.
            least = 0 if self._scales[role] == 1 else 3
            decimals = [least, *(number.decimals for number in column)]
            self._steps[role] = self._scales[role] / (1 if self.is_cut else 10 ** max(decimals))

    def cells(self) -> Iterator[tuple[TraceCells, int]]:
        """Yield rows, and up to which byte the file is read."""
        if self.table.header.layout is tables.Layout.JSON:
            yield from self._json_cells()
            return
        for span in self.table.spans:
            data, delimiter = read_span(self.path, span), self.table.header.delimiter
            cells = self._csv_cells(data) if delimiter in (",", ";") else None
            if cells is None:
                cells = self._line_cells(data, span.line)
            if cells.count:
                yield cells, span.end

    def _scale(self, role: str) -> int:
        place = self.table.header.place(role)
        if role in _INTEGERS or place is None:
            return 1
        unit = self.table.header.columns[place].unit
        if role in ("start", "dur"):
            return tables.TIMES.get(unit, 1)
        return tables.SIZES.get(unit.removesuffix("/s").replace("Bps", "B"), 1)

    def _cell_kind(self, role: str) -> tables.CellKind:
        if self._scales[role] == 1:
            return tables.CellKind.WHOLE
        return tables.CellKind.ANY if role in ("start", "dur") else tables.CellKind.THOUSANDTHS

    def _first_rows(self) -> Iterator[Sequence[str]]:
        if self.table.header.layout is tables.Layout.JSON:
            for span in self.table.spans:
                yield from (list(row.values()) for row in tables.JsonRows(self.path, span.start))
            return
        for span in self.table.spans:
            for line in read_span(self.path, span).split(b"\n", _SAMPLE_ROWS)[:_SAMPLE_ROWS]:
                yield self.table.cells(line.decode("utf-8", "replace").rstrip("\r")) or ()

    def _has_cut_starts(self, numbers: Mapping[str, Sequence[tables.SpelledNumber]]) -> bool:
        # Starts in seconds are cut if all decimals that the rows have are 0.
        decimals = [number for column in numbers.values() for number in column if number.decimals]
        return (
            self._format.has_commas
            and self._scales["start"] == _SECOND
            and any(number.decimals for number in numbers.get("start", ()))
            and all(number.value.denominator == 1 for number in decimals)
        )

    # -- many rows at once

    def _csv_cells(self, data: bytes) -> TraceCells | None:
        types: dict[str, pa.DataType] = {}
        for role in self._roles:
            if role in self._scales:
                types[role] = pa.int64() if self._scales[role] == 1 else pa.float64()
            else:
                types[role] = pa.dictionary(pa.int32(), pa.string())
        table = read_csv(data, types, self.table.header.delimiter)
        if table is None or any(table[role].null_count for role in ("start", "name")):
            return None
        return table_cells(table, self._scales, self._steps, {})

    # -- row by row

    def _line_cells(self, data: bytes, first_line: int) -> TraceCells:
        rows: list[Sequence[str]] = []
        lines = []
        for line, raw in enumerate(data.split(b"\n"), first_line):
            text = raw.decode("utf-8", "replace").rstrip("\r")
            if not text.strip():
                continue
            cells = self.table.cells(text)
            if cells is None:
                self.rejected.add(line)
            else:
                rows.append([cell.strip() for cell in cells])
                lines.append(line)
        return self._row_cells(rows, lines)

    def _json_cells(self) -> Iterator[tuple[TraceCells, int]]:
        for span in self.table.spans:
            rows: list[Sequence[str]] = []
            for row in tables.JsonRows(self.path, span.start):
                if len(row) == len(self._roles):
                    rows.append(list(row.values()))
                else:
                    self.rejected.add(span.line)
                if len(rows) == _BATCH_ROWS:
                    yield self._row_cells(rows, [span.line] * len(rows)), span.end
                    rows = []
            if rows:
                yield self._row_cells(rows, [span.line] * len(rows)), span.end

    def _row_cells(self, rows: Sequence[Sequence[str]], lines: Sequence[int]) -> TraceCells:
        columns = {role: [row[i] for row in rows] for i, role in enumerate(self._roles)}
        quantities = {
            role: np.array(self._numbers(columns[role], role, np.nan), np.float64)
            for role in QUANTITIES
            if role in columns
        }
        # A row says when, how long and what.
        valid = ~np.isnan(quantities["start"]) & ~np.isnan(quantities["dur"])
        valid &= np.array([bool(name) for name in columns["name"]], bool)
        for row in np.flatnonzero(~valid).tolist():
            self.rejected.add(lines[row])
        return TraceCells(
            int(valid.sum()),
            {role: values[valid] for role, values in quantities.items()},
            self._steps,
            {
                role: np.array(self._numbers(column, role, MISSING), np.int64)[valid]
                for role, column in columns.items()
                if role in _INTEGERS
            },
            {
                role: _encoded_texts(column, valid)
                for role, column in columns.items()
                if role not in self._scales and not role.startswith("other ")
            },
        )

    def _numbers(self, column: Sequence[str], role: str, empty: float) -> list[float]:
        # Each text is parsed once.
        parsed = {text: self._number(text, role) for text in dict.fromkeys(column)}
        odd = {text for text, value in parsed.items() if value is None and text not in EMPTY_CELLS}
        if odd:
            kind = self._cell_kind(role)
            ambiguous = {text for text in odd if self._format.is_ambiguous(text, kind)}
            self.ambiguous += sum(text in ambiguous for text in column)
            self.no_numbers += sum(text in odd - ambiguous for text in column)
        values = (parsed[text] for text in column)
        return [empty if value is None else value for value in values]

    def _number(self, text: str, role: str) -> float | None:
        scale = self._scales[role]
        if text.isdecimal() and text.isascii() and len(text) < _MOST_DIGITS:
            return int(text) * scale
        number = self._format.number(text, self._cell_kind(role))
        if number is None:
            return None
        value = number.value * scale
        if self.is_cut and number.decimals:
            value = number.cut(scale).middle
        return int(value) if role in _INTEGERS else float(value)


def _encoded_texts(column: Iterable[str], valid: Array) -> EncodedTexts:
    texts = encode_texts(None if text in EMPTY_CELLS else text for text in column)
    return EncodedTexts(texts.codes[valid], texts.values)


# -- from cells to rows of event tables


class NsysTraceRows(TraceRows):
    """Convert cells of nsys's traces; the GPU trace names no process, only the API trace does."""

    ids: NsysIds

    def kinds(self, cells: TraceCells, *, only_calls: bool) -> Array:
        """Return what each row is about."""
        return row_kinds(cells, only_calls=only_calls)

    def direction(self, name: str) -> int:
        """Return the code of the direction that a name says."""
        operation = memory_operation(name)
        return self.ids.direction(operation[1]) if operation else 0

    def stream_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the ids of contexts and streams, which are numbers."""
        context, stream = cells.integer("context", rows), cells.integer("stream", rows)
        for row in _first_of_each_pair(context, stream):
            self.ids.stream(int(context[row]), int(stream[row]))
        return {"context_id": context, "stream_id": stream}

    def kernel_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the columns of kernels."""
        columns = super().kernel_columns(cells, rows)
        for role, column in SHARED_MEMORY.items():
            # Megabytes to three decimals do not say how much shared memory a block takes.
            if np.max(cells.steps.get(role, 0)) > 1:
                columns.pop(column, None)
        return columns

    def call_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the columns of API calls, and register their threads."""
        names = cells.texts["name"]
        row_codes = names.codes[rows]
        name_ids, layers = np.full((2, len(names.values)), MISSING)
        for code in used_codes(row_codes, len(names.values)):
            text = names.values[code]
            name_ids[code] = self.ids.api_name(text)
            layers[code] = api_layer(text) if is_api_name(text) else MISSING
        pid, tid = cells.integer("pid", rows), cells.integer("tid", rows)
        pid = np.where(pid == 0, MISSING, pid)
        tid = np.where(pid == MISSING, MISSING, tid)
        self._register_threads(cells.texts.get("thread"), rows, pid, tid)
        return {
            "name_id": name_ids[row_codes],
            "layer": layers[row_codes],
            "correlation_id": correlation_ids(cells, rows),
            "result": cells.integer("result", rows),
            "pid": pid,
            "tid": tid,
        }

    def _register_threads(
        self, names: EncodedTexts | None, rows: Array, pid: Array, tid: Array
    ) -> None:
        name_codes = np.full(len(rows), -1) if names is None else names.codes[rows]
        for row in _first_of_each_pair(pid, tid):
            code = name_codes[row]
            name = names.values[code] if names is not None and code >= 0 else None
            self.ids.thread(int(pid[row]), int(tid[row]), name)
        self.ids.pids.update(np.unique(pid[pid != MISSING]).tolist())

    def byte_counts(self, cells: TraceCells, rows: Array) -> Array:
        """Return bytes; those that are printed to the byte need no throughput."""
        if "bytes" in cells.quantities and np.max(cells.steps["bytes"]) <= 1:
            return rounded(cells.quantities["bytes"][rows])
        return super().byte_counts(cells, rows)

    def notes(self) -> Iterator[Note]:
        """Yield notes on the rows, and on those whose process was assumed."""
        yield from super().notes()
        if count := self.without_pid:
            text = "the GPU trace names no process; the only one of the API trace was assumed"
            yield Note("process-assumed", Severity.APPROXIMATED, text, count, "", EVENTS)

    def bytes_by_throughput(self, cells: TraceCells, rows: Array) -> tuple[Array, Array]:
        """Return bounds of sizes by the throughput, if durations are printed to the ns."""
        rate, half = cells.quantities["throughput"][rows], cells.step("throughput", rows) / 2
        with np.errstate(invalid="ignore", divide="ignore"):
            # nsys multiplies bytes by how often the duration fits into a second: for a longer one by 0.
            fits = np.floor(_SECOND / np.rint(cells.quantities["dur"][rows]))
            usable = (fits > 0) & np.isfinite(fits) & (cells.step("dur", rows) <= 1)
            fits = np.where(usable, fits, np.nan)
            return (rate - half) / fits, (rate + half) / fits


def row_kinds(cells: TraceCells, *, only_calls: bool) -> Array:
    """Return what each row is about, as codes of RowKind."""
    if only_calls:
        return np.full(cells.count, RowKind.API_CALL, np.int8)
    names = cells.texts["name"]
    kinds = np.array([_name_kind(text, "device" in cells.texts) for text in names.values], np.int8)
    result: Array = kinds[names.codes]
    return result


def _name_kind(name: str, on_gpu: bool) -> int:
    operation = memory_operation(name)
    if operation is not None:
        return MEMORY_KINDS[operation[0]]
    if name.startswith("[CUDA "):
        return RowKind.UNKNOWN
    return RowKind.API_CALL if not on_gpu and is_api_name(name) else RowKind.KERNEL


def _first_of_each_pair(first: Array, second: Array) -> list[int]:
    # Pairs of numbers of 32 bits are compared as one number of 64. Incomplete pairs are left out.
    complete = np.flatnonzero((first != MISSING) & (second != MISSING))
    pairs = first[complete] << 32 | second[complete] & 0xFFFFFFFF
    _, places = np.unique(pairs, return_index=True)
    result: list[int] = complete[places].tolist()
    return result


# -- from cells to totals


_NOTHING = ValueRange(Fraction(0), Fraction(0))
_GROUPS = {RowKind.API_CALL: "api_call", RowKind.KERNEL: "kernel"}


@dataclass
class _Sum:
    # The numbers are in ns or bytes. The sum is a range, because each number was rounded when it was
    # printed.

    count: int = 0
    total: ValueRange = _NOTHING
    least: ValueRange | None = None
    greatest: ValueRange | None = None

    def add(self, values: Array, step: float) -> None:
        # The numbers are spelled in steps of `step`; up to 1 they are exact.
        half = Fraction(step) / 2 if step > 1 else Fraction(0)
        # Python's integers: sums of many may be larger than those of numpy.
        total = sum(np.rint(values).astype(np.int64).tolist())
        spread, before = half * len(values), self.total
        self.count += len(values)
        self.total = ValueRange(before.low + total - spread, before.high + total + spread)
        ends = (Fraction(int(np.rint(end))) for end in (values.min(), values.max()))
        least, greatest = (ValueRange(end - half, end + half) for end in ends)
        if self.least is None or least.low < self.least.low:
            self.least = least
        if self.greatest is None or greatest.high > self.greatest.high:
            self.greatest = greatest

    def row(self, name: str) -> TotalsRow:
        values = {"total": self.total}
        if self.least is not None and self.greatest is not None:
            values |= {"min": self.least, "max": self.greatest}
        return TotalsRow(self.count, values, 0, name)


@dataclass
class TraceTotals:
    """Sum up rows whose place in time is lost, by name; `rows` counts them."""

    tally: TraceTally
    rows: int = 0
    _times: dict[str, dict[str, _Sum]] = field(default_factory=dict)
    _sizes: dict[str, _Sum] = field(default_factory=dict)

    def add(self, cells: TraceCells, *, only_calls: bool) -> None:
        """Add rows of a trace; `only_calls`: it holds API calls and nothing else."""
        for group in ("api_call",) if only_calls else ("kernel", "memory"):
            self._times.setdefault(group, {})
        names = cells.texts["name"]
        kind = row_kinds(cells, only_calls=only_calls)
        dur = cells.quantities["dur"]
        unknown, negative, far = kind == RowKind.UNKNOWN, dur < 0, dur > schema.TIME_LIMIT_NS
        self.tally.counts["unknown operation"] += int(np.count_nonzero(unknown))
        self.tally.counts["negative duration"] += int(np.count_nonzero(negative & ~unknown))
        self.tally.counts["impossible time"] += int(np.count_nonzero(far & ~unknown))
        valid = np.flatnonzero(~(unknown | negative | far))
        self.rows += len(valid)
        dur_step, byte_step = (
            float(np.max(cells.steps.get(role, 1.0))) for role in ("dur", "bytes")
        )
        for code, rows in _rows_by_name(names.codes, valid, len(names.values)):
            name = names.values[code]
            group = _GROUPS.get(RowKind(kind[rows[0]]), "memory")
            times = self._times.setdefault(group, {}).setdefault(name, _Sum())
            times.add(dur[rows], dur_step)
            if group == "memory" and "bytes" in cells.quantities:
                size = cells.quantities["bytes"][rows]
                size = size[~np.isnan(size)]
                if len(size):
                    self._sizes.setdefault(name, _Sum()).add(size, byte_step)

    def sums(self) -> TraceSums:
        """Return rows of totals by group: times, and sizes where all rows of a name have one."""
        return {
            group: [
                (times.row(name), self._size(name, times.count)) for name, times in sums.items()
            ]
            for group, sums in self._times.items()
        }

    def _size(self, name: str, count: int) -> TotalsRow | None:
        size = self._sizes.get(name) if memory_operation(name) else None
        return size.row(name) if size is not None and size.count == count else None


def _rows_by_name(name_codes: Array, rows: Array, count: int) -> list[tuple[int, Array]]:
    row_codes = name_codes[rows]
    order = np.argsort(row_codes, kind="stable")
    codes = used_codes(row_codes, count)
    edges = np.searchsorted(row_codes[order], codes)
    return list(zip(codes, np.split(rows[order], edges[1:]), strict=True)) if codes else []
