"""Rows of traces as columns of cells: many at once where nvprof wrote them, else one by one."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from nsysconv import codes
from nsysconv.importers.nvprof_log.survey import (
    UNITS,
    NvprofHeader,
    PrintedTable,
    measured,
    spelled,
    step_of,
)
from nsysconv.importers.nvprof_log.totals import Gathered
from nsysconv.importers.printed.quantities import parse_digits
from nsysconv.importers.printed.registry import api_layer
from nsysconv.importers.printed.text import RejectedLines, RowSpan, csv_cells
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
from nsysconv.importers.probe import Probe
from nsysconv.report import MISSING, values_of
from nsysconv.store.recording import ArrayRows

QUANTITIES = ("Start", "Duration", "Static SMem", "Dynamic SMem", "Size", "Throughput")
"""Columns of numbers with units."""
INTEGERS = (
    "Grid X", "Grid Y", "Grid Z", "Block X", "Block Y", "Block Z", "Registers Per Thread",
    "Correlation_ID",
)  # fmt: skip
"""Columns of whole numbers."""
_TRIPLES = {
    "Grid Size": ("Grid X", "Grid Y", "Grid Z"),
    "Block Size": ("Block X", "Block Y", "Block Z"),
}
_TRIPLE = re.compile(r"\((\d+) (\d+) (\d+)\)$")
_NOTHING = ("", "-")
_GAP = re.compile(r"\s{2,}")
# At the end of a kernel's name stands the number that it shares with its launch.
_NUMBERED = re.compile(r"^(.*) \[(\d{1,10})\]$", re.DOTALL)
_MIGRATION_BEHIND = re.compile(r"\s{2,}\[Unified Memory ")
_MOST_DIGITS = 10
# What is cut into cells at once: fits into a processor's cache, where it takes half the time.
_BLOCK_BYTES = 1 << 20
_SAMPLE_LINES = 200
_USUAL_STEP = 1e-6
_COMMON_SIGNS = frozenset("0123456789.")


@dataclass(frozen=True)
class Cells:
    """Rows by column, as nvprof's CSV calls the columns; absent ones are left out.

    `quantities` are in ns, bytes and bytes per second, NaN where a cell is empty, and `steps` how far
    apart values are that are spelled differently. `integers` have MISSING for an empty cell. The number
    at the end of a kernel's name is taken off it: `numbered`. `units` are the columns' own.
    """

    count: int
    quantities: Mapping[str, Array]
    steps: Mapping[str, Array]
    integers: Mapping[str, Array]
    texts: Mapping[str, EncodedTexts]
    numbered: Array
    units: Mapping[str, str]


def row_of(line: str, header: NvprofHeader) -> dict[str, str] | None:
    """The cells of a line by column; None where it does not have the header's columns."""
    columns = header.columns
    if header.delimiter:
        cells = csv_cells(line, header.delimiter)
        if cells is None:
            return None
    else:
        cells = _GAP.split(line.strip(), len(columns) - 1)
        if _MIGRATION_BEHIND.search(cells[-1]):
            cells = _GAP.split(line.strip(), len(columns))
    if len(cells) == len(columns) + 1 and "Unified Memory" in columns:
        # A migration between devices names both, in one cell more than the header has.
        del cells[columns.index("Device")]
    if len(cells) != len(columns):
        return None
    row = dict(zip(columns, (cell.strip() for cell in cells), strict=True))
    for name, parts in _TRIPLES.items():
        triple = _TRIPLE.match(row.pop(name, ""))
        if triple:
            row.update(zip(parts, triple.groups(), strict=True))
    return {name: cell for name, cell in row.items() if cell not in _NOTHING}


def is_row(row: Mapping[str, str], block: PrintedTable) -> bool:
    """Whether the cells say when, how long and what."""
    units = dict(zip(block.header.columns, block.units, strict=False))
    return "Name" in row and all(
        measured(row[name], units.get(name, "")) is not None
        if name in row
        else name == "Duration"  # faults have none
        for name in ("Start", "Duration")
    )


class CellReader:
    """How one table spells its cells."""

    def __init__(self, block: PrintedTable) -> None:
        self._header = block.header
        self._units = dict(zip(block.header.columns, block.units, strict=False))
        self._steps: dict[str, float] = {}

    def many(self, data: bytes, odd: list[str]) -> Cells | None:
        """The rows of a piece of CSV at once; `odd` gets those with more or fewer cells.

        None where a cell is not what nvprof writes there.
        """
        columns = self._header.columns
        kinds: dict[str, pa.DataType] = {name: pa.string() for name in columns}
        kinds |= {name: pa.float64() for name in QUANTITIES if name in columns}
        kinds |= {name: pa.int64() for name in INTEGERS if name in columns}
        for name in set(columns) - {"Name", *QUANTITIES, *INTEGERS}:
            kinds[name] = pa.dictionary(pa.int32(), pa.string())

        def refuse(row: csv.InvalidRow) -> str:
            odd.append(row.text)
            return "skip"

        try:
            table = csv.read_csv(
                pa.BufferReader(data),
                csv.ReadOptions(
                    use_threads=False, column_names=columns, block_size=_BLOCK_BYTES
                ),
                csv.ParseOptions(
                    delimiter=self._header.delimiter, invalid_row_handler=refuse
                ),
                csv.ConvertOptions(
                    column_types=kinds, null_values=list(_NOTHING), strings_can_be_null=True,
                    check_utf8=False,
                ),
            )  # fmt: skip
        except pa.ArrowInvalid:
            odd.clear()
            return None
        if not self._regular(table):
            odd.clear()
            return None
        return self._of_table(table)

    def _regular(self, table: pa.Table) -> bool:
        """Whether all rows say when and what, in units that are known."""
        if table["Start"].null_count or table["Name"].null_count:
            return False
        for name in QUANTITIES:
            told = name in table.column_names and table[name].null_count < table.num_rows
            if told and self._units.get(name) not in UNITS:
                return False
        return True

    @property
    def has_to_learn(self) -> bool:
        """Whether `learn_steps` wants to see the rows that come next."""
        return bool(self._header.delimiter) and not self._steps

    def learn_steps(self, sample: bytes) -> None:
        """What the last digit of a column's cells is worth: of those with a decimal sign the most.

        Only the first lines teach: nvprof spells all alike, with six decimals. Fewer are of an editor.
        """
        for line in sample.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES]:
            row = row_of(line.decode("utf-8", "replace").rstrip("\r"), self._header) or {}
            for name in QUANTITIES:
                cell = row.get(name, "")
                found = step_of(cell) if "." in cell and set(cell) <= _COMMON_SIGNS else None
                if found is not None and self._units.get(name) in UNITS:
                    step = float(found) * UNITS[self._units[name]]
                    self._steps[name] = max(step, self._steps.get(name, 0.0))

    def _of_table(self, table: pa.Table) -> Cells:
        quantities, steps, integers, texts = {}, {}, {}, {}
        count = table.num_rows
        for name in table.column_names:
            column = table[name].combine_chunks()
            if name in QUANTITIES:
                values = values_of(column, np.nan)
                quantities[name] = values * UNITS.get(self._units.get(name, ""), 1)
                usual = UNITS.get(self._units.get(name, ""), 1) * _USUAL_STEP
                steps[name] = np.broadcast_to(np.float64(self._steps.get(name, usual)), count)
            elif name in INTEGERS:
                integers[name] = values_of(column)
            elif name == "Name":
                texts[name], numbered = without_numbers(column)
            else:
                texts[name] = _encoded(column)
        return Cells(count, quantities, steps, integers, texts, numbered, self._units)

    def one_by_one(self, rows: Iterable[Mapping[str, str]]) -> Cells:
        """The same of rows that are cut into cells, whatever units and separators they have."""
        found = list(rows)
        # That no row has a device says that all are API calls.
        columns = {name for row in found for name in row} | {"Device"}
        quantities, steps = {}, {}
        for name in columns & set(QUANTITIES):
            told = [
                measured(row.get(name, ""), self._units.get(name, "")) or (np.nan, 0.0)
                for row in found
            ]
            pairs = np.array(told, np.float64).reshape(-1, 2)
            quantities[name], steps[name] = pairs[:, 0], pairs[:, 1]
        integers = {
            name: np.array([_whole(row.get(name)) for row in found], np.int64)
            for name in columns & set(INTEGERS)
        }
        names = [without_number(row["Name"]) for row in found]
        numbered = [MISSING if number is None else number for _, number in names]
        texts = {
            name: encode_texts([row.get(name) for row in found])
            for name in columns - {"Name", *QUANTITIES, *INTEGERS}
        }
        texts["Name"] = encode_texts([name for name, _ in names])
        return Cells(
            len(found),
            quantities,
            steps,
            integers,
            texts,
            np.array(numbered, np.int64),
            self._units,
        )


def without_number(name: str) -> tuple[str, int | None]:
    """A name without the ` [n]` at its end, and the n; None where it has none."""
    match = _NUMBERED.match(name)
    return (match.group(1), int(match.group(2))) if match else (name, None)


def without_numbers(names: pa.StringArray) -> tuple[EncodedTexts, Array]:
    """The same of a column without nulls; MISSING for names that have no number.

    Digits are read from the names' bytes, all names at once, from the last one on: to look for them with
    a regular expression takes as long as all the rest.
    """
    _, offsets, data = names.buffers()
    edges = np.frombuffer(offsets, np.int32)[names.offset : names.offset + len(names) + 1]
    text = np.frombuffer(data or b"\0", np.uint8)
    is_long = np.diff(edges) >= len(" [0]")
    rows = np.flatnonzero(is_long & (text[edges[1:] - 1] == ord("]")))
    digit, number = edges[rows + 1] - 2, np.zeros(len(rows), np.int64)
    for power in range(_MOST_DIGITS):
        value = text[digit] - np.uint8(ord("0"))
        number += np.where(value < 10, value, 0) * np.int64(10**power)
        digit -= value < 10
    # Where a name is all digits, this has read what stands before it.
    found = (text[digit] == ord("[")) & (text[digit - 1] == ord(" ")) & (digit > edges[rows])
    found &= digit < edges[rows + 1] - 2
    rows, ends = rows[found], edges[1:].copy()
    ends[rows] = digit[found] - 1
    numbered = np.full(len(names), MISSING)
    numbered[rows] = number[found]
    # Names and what was taken off them by turns; of these two, only names are texts.
    by_turns = np.append(np.stack([edges[:-1], ends], axis=1).ravel(), edges[-1])
    every_other = np.full(len(names) // 4 + 1, 0b01010101, np.uint8)
    texts = pa.StringArray.from_buffers(
        2 * len(names), pa.py_buffer(by_turns), data, pa.py_buffer(every_other)
    )
    both = _encoded(texts.dictionary_encode())
    return EncodedTexts(both.place[::2], both.known), numbered


def _encoded(column: pa.DictionaryArray) -> EncodedTexts:
    return EncodedTexts(values_of(column.indices, -1), column.dictionary.to_pylist())


def _whole(cell: str | None) -> int:
    number = None if cell is None else parse_digits(cell)
    return MISSING if number is None else number


_PIECES_AHEAD = 3
_SAMPLE_BYTES = 1 << 20


@dataclass
class TraceReader:
    """Reads the rows of one trace, a few pieces ahead in the background of the probe.

    `refused` and `unitless`, how many times have no unit, are complete once all rows are read.
    """

    probe: Probe
    path: Path
    block: PrintedTable
    refused: RejectedLines = field(default_factory=RejectedLines)
    unitless: int = 0

    def cells(self) -> Iterator[tuple[Cells, int]]:
        """Rows, and how far they are read in bytes."""
        rows = CellReader(self.block)
        ahead: deque[tuple[Future[list[Cells]], int]] = deque()
        for span in self.block.spans:
            if rows.has_to_learn:
                rows.learn_steps(self._text(span, _SAMPLE_BYTES))
            if len(ahead) == _PIECES_AHEAD and not ahead[0][0].done():
                # Rather than wait.
                made: Future[list[Cells]] = Future()
                made.set_result(self._piece(rows, span))
            else:
                made = self.probe.beside(self._piece, rows, span)
            ahead.append((made, span.end))
            if len(ahead) > _PIECES_AHEAD:
                yield from _of_piece(*ahead.popleft())
        while ahead:
            yield from _of_piece(*ahead.popleft())

    def _text(self, span: RowSpan, most: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(span.start)
            return file.read(min(most, span.end - span.start))

    def _piece(self, rows: CellReader, span: RowSpan) -> list[Cells]:
        data, found, odd = _as_utf8(self._text(span, span.end)), [], list[str]()
        many = rows.many(data, odd) if self.block.header.delimiter else None
        lines: Iterable[tuple[int, str]]
        if many is None:
            lines = enumerate(data.decode().split("\n"))
        else:
            found.append(many)
            lines = _found_again(odd, data)
        cut = self._cut((span.line + before, line) for before, line in lines)
        return [*found, rows.one_by_one(cut)]

    def _cut(self, lines: Iterable[tuple[int, str]]) -> Iterator[dict[str, str]]:
        """Rows, cell by cell; lines that are none are refused."""
        no_units = bool(self.block.header.delimiter) and not self.block.units
        for number, line in lines:
            if not line.strip():
                continue
            row = row_of(line.rstrip("\r"), self.block.header)
            if row is None or not is_row(row, self.block):
                self.refused.add(number)
            else:
                self.unitless += no_units and not row["Start"][-1:].isalpha()
                yield row


def _as_utf8(data: bytes) -> bytes:
    """The same bytes, those that are no UTF-8 replaced."""
    if data.isascii():
        return data
    return data.decode("utf-8", "replace").encode()


def _found_again(lines: Iterable[str], data: bytes) -> Iterator[tuple[int, str]]:
    """Lines that stand in this order in a piece, and how many there are before each."""
    place = number = 0
    for line in lines:
        found = data.find(line.encode(), place)
        number += data.count(b"\n", place, found) if found >= 0 else 0
        place = max(place, found)
        yield number, line


def _of_piece(made: Future[list[Cells]], end: int) -> Iterator[tuple[Cells, int]]:
    return ((cells, end) for cells in made.result() if cells.count)


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
