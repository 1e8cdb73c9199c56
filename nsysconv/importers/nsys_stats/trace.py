"""Rows of traces as columns of cells: many at once where nsys wrote CSV, else one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from nsysconv import schema
from nsysconv.importers.nsys_stats.survey import PrintedTable
from nsysconv.importers.nsys_stats.tables import (
    SIZES,
    TIMES,
    CellKind,
    JsonRows,
    Layout,
    NumberFormat,
    SpelledNumber,
    number_format,
)
from nsysconv.importers.nsys_stats.totals import NsysIds, TotalsRow, memory_operation
from nsysconv.importers.printed.quantities import ValueRange
from nsysconv.importers.printed.registry import api_layer, is_api_name
from nsysconv.importers.printed.text import RejectedLines, span_chunks
from nsysconv.importers.printed.trace import (
    SLACK,
    Array,
    Columns,
    EncodedTexts,
    TraceTally,
    encode_texts,
    map_texts,
    rounded,
    used_codes,
)
from nsysconv.report import MISSING, values_of
from nsysconv.store.recording import ArrayRows

INTEGERS = (
    "correlation", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers",
    "context", "green_context", "stream", "result", "pid", "tid",
)  # fmt: skip
"""Columns of whole numbers."""
QUANTITIES = ("start", "dur", "bytes", "throughput", "static", "dynamic")
"""Columns of numbers with units."""
_PIECE_ROWS = 1 << 16
_BLOCK_BYTES = 1 << 20
_SAMPLE_ROWS = 1000
_NOTHING = ("", "-")
_MOST_DIGITS = 19
_SECOND = 10**9


@dataclass(frozen=True)
class Cells:
    """Rows by column, absent columns left out.

    `quantities` are in ns, bytes and bytes per second, NaN where a cell is empty; `integers` have
    MISSING there.
    """

    count: int
    quantities: Mapping[str, Array]
    integers: Mapping[str, Array]
    texts: Mapping[str, EncodedTexts]


@dataclass
class TraceReader:
    """Reads the rows of one trace in pieces; `refused` is complete once all are read.

    `steps` says per quantity how far apart two spellings are, in ns, bytes or bytes per second;
    `ambiguous` counts cells that nothing tells how to read, `no_numbers` those that are no numbers.
    `is_cut` tells, once rows are read, whether their decimals are cut and starts tell whole seconds only.
    """

    path: Path
    block: PrintedTable
    refused: RejectedLines = field(default_factory=RejectedLines)
    steps: dict[str, float] = field(default_factory=dict)
    ambiguous: int = 0
    no_numbers: int = 0
    is_cut: bool = False
    _spelling: NumberFormat = field(default_factory=lambda: number_format(()))

    def cells(self) -> Iterator[tuple[Cells, int]]:
        """Rows, and how far they are read in bytes."""
        self._learn()
        if self.block.header.form is Layout.JSON:
            yield from self._of_objects()
            return
        for data, start, line in span_chunks(self.path, self.block.spans):
            found = self._many(data) if self.block.header.delimiter in (",", ";") else None
            if found is None:
                found = self._cut(data, line)
            if found.count:
                yield found, start + len(data)

    # -- many at once

    def _many(self, data: bytes) -> Cells | None:
        """The rows of a piece of CSV; None where a cell or a row is not what nsys writes there."""
        columns = [column.role for column in self.block.header.columns]
        kinds: dict[str, pa.DataType] = {}
        for role in columns:
            if role in INTEGERS or (role in QUANTITIES and self._scale(role) == 1):
                kinds[role] = pa.int64()
            elif role in QUANTITIES:
                kinds[role] = pa.float64()
            else:
                kinds[role] = pa.dictionary(pa.int32(), pa.string())
        try:
            table = csv.read_csv(
                pa.BufferReader(data),
                csv.ReadOptions(use_threads=False, column_names=columns, block_size=_BLOCK_BYTES),
                csv.ParseOptions(delimiter=self.block.header.delimiter),
                csv.ConvertOptions(
                    column_types=kinds, null_values=list(_NOTHING), strings_can_be_null=True
                ),
            )
        except pa.ArrowInvalid:
            return None
        if any(table[role].null_count for role in ("start", "name")):
            return None
        quantities, integers, texts = {}, {}, {}
        for role in columns:
            column = table[role].combine_chunks()
            if role in QUANTITIES:
                values = values_of(pc.cast(column, pa.float64()), np.nan)
                quantities[role] = values * self._scale(role)
            elif role in INTEGERS:
                integers[role] = values_of(column)
            else:
                place = values_of(column.indices, -1)
                texts[role] = EncodedTexts(place, column.dictionary.to_pylist())
        return Cells(table.num_rows, quantities, integers, texts)

    def _scale(self, role: str) -> int:
        return self._scales[role]

    @cached_property
    def _scales(self) -> dict[str, int]:
        return {role: self._scale_of(role) for role in (*QUANTITIES, *INTEGERS)}

    def _scale_of(self, role: str) -> int:
        if role in INTEGERS:
            return 1
        place = self.block.header.place(role)
        unit = self.block.header.columns[place].unit if place is not None else ""
        if role in ("start", "dur"):
            return TIMES.get(unit, 1)
        return SIZES.get(unit.removesuffix("/s").replace("Bps", "B"), 1)

    def _learn(self) -> None:
        """How numbers are spelled, and how many decimals they have; only the first rows teach."""
        roles = self._roles
        sample = islice((row for row in self._first_rows() if len(row) == len(roles)), _SAMPLE_ROWS)
        rows = [dict(zip(roles, row, strict=True)) for row in sample]
        told = [(row[role], self._holds(role)) for row in rows for role in (*QUANTITIES, *INTEGERS)
                if role in row]  # fmt: skip
        has_points = self.block.header.form in (Layout.DELIMITED, Layout.JSON)
        self._spelling = number_format(told, has_points=has_points)
        numbers = {
            role: [number for row in rows
                   if (number := self._spelling.number(row[role], self._holds(role))) is not None]
            for role in QUANTITIES if role in roles
        }  # fmt: skip
        self.is_cut = self._tells_cut(numbers)
        for role, found in numbers.items():
            # What is in another unit has three decimals, which ends of 0 may hide.
            decimals = [0 if self._scale(role) == 1 else 3]
            decimals += [number.decimals for number in found]
            self.steps[role] = self._scale(role) / (1 if self.is_cut else 10 ** max(decimals))

    def _tells_cut(self, numbers: Mapping[str, Sequence[SpelledNumber]]) -> bool:
        """Whether decimals are cut: of no row they are anything but 0, though starts are in seconds."""
        decimals = [number for found in numbers.values() for number in found if number.decimals]
        return (
            self._spelling.has_commas
            and self._scale("start") == _SECOND
            and any(number.decimals for number in numbers.get("start", ()))
            and all(number.value.denominator == 1 for number in decimals)
        )

    def _first_rows(self) -> Iterator[Sequence[str]]:
        if self.block.header.form is Layout.JSON:
            for span in self.block.spans:
                yield from (list(row.values()) for row in JsonRows(self.path, span.start))
            return
        for data, _, _ in span_chunks(self.path, self.block.spans):
            for line in data.split(b"\n", _SAMPLE_ROWS)[:_SAMPLE_ROWS]:
                yield self.block.cells(line.decode("utf-8", "replace").rstrip("\r")) or ()

    @property
    def _roles(self) -> list[str]:
        return [column.role for column in self.block.header.columns]

    def _holds(self, role: str) -> CellKind:
        if role in INTEGERS or self._scale(role) == 1:
            return CellKind.WHOLE
        return CellKind.ANY if role in ("start", "dur") else CellKind.THOUSANDTHS

    # -- one by one

    def _cut(self, data: bytes, line: int) -> Cells:
        """The rows of a piece, cell by cell; lines that are none are refused."""
        rows: list[Mapping[str, str]] = []
        lines = []
        for number, raw in enumerate(data.split(b"\n"), line):
            text = raw.decode("utf-8", "replace").rstrip("\r")
            if not text.strip():
                continue
            cells = self.block.cells(text)
            if cells is None:
                self.refused.add(number)
            else:
                rows.append(dict(zip(self._roles, (cell.strip() for cell in cells), strict=True)))
                lines.append(number)
        return self._one_by_one(rows, lines)

    def _of_objects(self) -> Iterator[tuple[Cells, int]]:
        for span in self.block.spans:
            rows: list[Mapping[str, str]] = []
            for row in JsonRows(self.path, span.start):
                if len(row) == len(self._roles):
                    rows.append(dict(zip(self._roles, row.values(), strict=True)))
                else:
                    self.refused.add(span.line)
                if len(rows) == _PIECE_ROWS:
                    yield self._one_by_one(rows, [span.line] * len(rows)), span.end
                    rows = []
            if rows:
                yield self._one_by_one(rows, [span.line] * len(rows)), span.end

    def _one_by_one(self, rows: Sequence[Mapping[str, str]], lines: Sequence[int]) -> Cells:
        """Rows that are cut into cells; those that do not say when, how long and what are refused."""
        columns = {role: [row.get(role, "") for row in rows] for role in self._roles}
        quantities = {
            role: np.array(self._numbers(columns[role], role, np.nan), np.float64)
            for role in QUANTITIES
            if role in columns
        }
        kept = ~np.isnan(quantities["start"]) & ~np.isnan(quantities["dur"])
        kept &= np.array([bool(name) for name in columns["name"]], bool)
        for number in np.flatnonzero(~kept).tolist():
            self.refused.add(lines[number])
        return Cells(
            int(kept.sum()),
            {role: values[kept] for role, values in quantities.items()},
            {
                role: np.array(self._numbers(column, role, MISSING), np.int64)[kept]
                for role, column in columns.items()
                if role in INTEGERS
            },
            {
                role: _texts(column, kept)
                for role, column in columns.items()
                if role not in (*QUANTITIES, *INTEGERS) and not role.startswith("other ")
            },
        )

    def _numbers(self, column: Sequence[str], role: str, nothing: float) -> list[float]:
        """The numbers of a column in ns, bytes or as they are; each text is looked at once."""
        known = {text: self._number(text, role) for text in dict.fromkeys(column)}
        odd = {text for text, value in known.items() if value is None and text not in _NOTHING}
        if odd:
            ambiguous = {text for text in odd if self._is_ambiguous(text, role)}
            self.ambiguous += sum(text in ambiguous for text in column)
            self.no_numbers += sum(text in odd - ambiguous for text in column)
        found = (known[text] for text in column)
        return [nothing if value is None else value for value in found]

    def _number(self, text: str, role: str) -> float | None:
        scale = self._scales[role]
        if text.isdecimal() and text.isascii() and len(text) < _MOST_DIGITS:
            return int(text) * scale
        number = self._spelling.number(text, self._holds(role))
        if number is None:
            return None
        value = number.value * scale
        if self.is_cut and number.decimals:
            value = number.cut(scale).middle
        return int(value) if role in INTEGERS else float(value)

    def _is_ambiguous(self, text: str, role: str) -> bool:
        return self._spelling.is_ambiguous(text, self._holds(role))


def _texts(values: Iterable[str], kept: Array) -> EncodedTexts:
    found = encode_texts(None if value in _NOTHING else value for value in values)
    return EncodedTexts(found.place[kept], found.known)


KERNEL, _MEMCPY, _MEMSET, _MIGRATION, API_CALL, UNKNOWN = range(6)
_KINDS = {"memcpy": _MEMCPY, "memset": _MEMSET, "unified_memory": _MIGRATION}
_ON_KERNELS = {
    **{f"{what}_{axis}": f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"},
    "registers": "registers_per_thread",
}
_SHARED = {"static": "static_shared_bytes", "dynamic": "dynamic_shared_bytes"}


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


_WHAT = {API_CALL: "api_call", KERNEL: "kernel"}


@dataclass
class _Sum:
    """What rows of one name add up to: numbers between `low` and `high`, and how many had one."""

    count: int = 0
    total: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    least: ValueRange | None = None
    greatest: ValueRange | None = None

    def add(self, values: Array, step: float) -> None:
        """Adds numbers in ns or bytes that are spelled in such steps; a step of 1 is exact."""
        half = Fraction(step) / 2 if step > 1 else Fraction(0)
        # Python's integers: sums of many may be larger than those of numpy.
        total = sum(np.rint(values).astype(np.int64).tolist())
        low, high = self.total
        self.count += len(values)
        self.total = (low + total - half * len(values), high + total + half * len(values))
        least, greatest = (
            ValueRange(value - half, value + half)
            for value in (Fraction(int(np.rint(v))) for v in (values.min(), values.max()))
        )
        if self.least is None or least.low < self.least.low:
            self.least = least
        if self.greatest is None or greatest.high > self.greatest.high:
            self.greatest = greatest

    def figures(self, name: str) -> TotalsRow:
        """The same as a row of a table."""
        told = {"total": ValueRange(*self.total)}
        if self.least is not None and self.greatest is not None:
            told |= {"min": self.least, "max": self.greatest}
        return TotalsRow(0, name, "", "", self.count, told)


@dataclass
class TraceTotals:
    """How often and how long, by name. `rows` counts those that lost their place in time."""

    tally: TraceTally
    rows: int = 0
    _times: dict[str, dict[str, _Sum]] = field(default_factory=dict)
    _sizes: dict[str, _Sum] = field(default_factory=dict)

    def add(self, cells: Cells, steps: Mapping[str, float], *, only_calls: bool) -> None:
        """Adds rows of a trace; `only_calls`: it holds API calls and nothing else."""
        for what in ("api_call",) if only_calls else ("kernel", "memory"):
            self._times.setdefault(what, {})
        names = cells.texts["name"]
        kind = kinds_of(cells, only_calls=only_calls)
        dur = cells.quantities["dur"]
        unknown, negative, far = kind == UNKNOWN, dur < 0, dur > schema.TIME_LIMIT_NS
        self.tally.counts["unknown operation"] += int(np.count_nonzero(unknown))
        self.tally.counts["negative duration"] += int(np.count_nonzero(negative & ~unknown))
        self.tally.counts["impossible time"] += int(np.count_nonzero(far & ~unknown))
        kept = np.flatnonzero(~(unknown | negative | far))
        self.rows += len(kept)
        for place, rows in _by_name(names.place, kept, len(names.known)):
            name = names.known[place]
            what = _WHAT.get(int(kind[rows[0]]), "memory")
            times = self._times.setdefault(what, {}).setdefault(name, _Sum())
            times.add(dur[rows], steps.get("dur", 1.0))
            if what == "memory" and "bytes" in cells.quantities:
                size = cells.quantities["bytes"][rows]
                size = size[~np.isnan(size)]
                if len(size):
                    self._sizes.setdefault(name, _Sum()).add(size, steps.get("bytes", 1.0))

    def figures(self) -> dict[str, list[tuple[TotalsRow, TotalsRow | None]]]:
        """Rows by kind: times, and sizes where all rows of a name tell one."""
        return {
            what: [(times.figures(name), self._size(name, times.count)) for name, times in found.items()]
            for what, found in self._times.items()
        }  # fmt: skip

    def _size(self, name: str, count: int) -> TotalsRow | None:
        size = self._sizes.get(name) if memory_operation(name) else None
        return size.figures(name) if size is not None and size.count == count else None


def _by_name(place: Array, rows: Array, count: int) -> list[tuple[int, Array]]:
    """The rows of each name, by its place."""
    of_rows = place[rows]
    order = np.argsort(of_rows, kind="stable")
    names = used_codes(of_rows, count)
    edges = np.searchsorted(of_rows[order], names)
    return list(zip(names, np.split(rows[order], edges[1:]), strict=True)) if names else []
