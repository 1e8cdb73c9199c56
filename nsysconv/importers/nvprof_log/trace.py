"""Traces of nvprof: printed rows to cells, in the background, and cells to rows of event tables.

Many rows are parsed at once where all of them are as nvprof writes them, everything else row by row.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from nsysconv import codes
from nsysconv.importers.nvprof_log.columns import (
    DELIMITER,
    INTEGERS,
    ROLES,
    TRIPLES,
    PrintedRows,
    csv_types,
)
from nsysconv.importers.nvprof_log.survey import UNITS, PrintedTable, measured, spelled
from nsysconv.importers.nvprof_log.totals import split_number
from nsysconv.importers.printed.lines import RowSpan, read_span
from nsysconv.importers.printed.registry import api_layer, memory_operation
from nsysconv.importers.printed.text import RejectedLines, csv_cells, parse_digits
from nsysconv.importers.printed.trace import (
    EMPTY_CELLS,
    MEMORY_KINDS,
    QUANTITIES,
    Array,
    Columns,
    EncodedTexts,
    RowKind,
    TraceCells,
    TraceRows,
    correlation_ids,
    encode_texts,
    map_texts,
    read_csv,
    table_cells,
    used_codes,
)
from nsysconv.importers.probe import Probe
from nsysconv.report import MISSING, edges_and_data, number_parts

_TRIPLE = re.compile(r"\((\d+) (\d+) (\d+)\)$")
_GAP = re.compile(r"\s{2,}")
_NAME_BEHIND_NAME = re.compile(r"\s{2,}\[Unified Memory ")
_MOST_DIGITS = 10
_PIECES_AHEAD = 3
_SAMPLE_BYTES = 1 << 20
_SAMPLE_LINES = 200
_USUAL_STEP = 1e-6
_USUAL_CHARACTERS = frozenset("0123456789.")

# -- from printed rows to cells


@dataclass
class TraceReader:
    """Read the rows of one trace, a few pieces ahead in the background of the probe.

    `rejected` and `unitless`, the number of times without a unit, are complete once all rows are read.
    """

    probe: Probe
    path: Path
    table: PrintedTable
    rejected: RejectedLines = field(default_factory=RejectedLines)
    unitless: int = 0

    def __post_init__(self) -> None:
        """Prepare what the header says of all rows."""
        self._delimiter = self.table.header.delimiter
        self._units = {ROLES.get(name, name): unit for name, unit in self.table.units.items()}
        self._scales = {role: UNITS.get(self._units.get(role, ""), 1) for role in QUANTITIES}
        self._steps: dict[str, float] = {}
        columns = self.table.header.columns
        self._text = None if self._delimiter else PrintedRows(columns)

    def cells(self) -> Iterator[tuple[TraceCells, int]]:
        """Yield rows, and up to which byte the file is read."""
        ahead: deque[tuple[Future[list[TraceCells]], int]] = deque()
        for span in self.table.spans:
            if self._delimiter and not self._steps:
                self._learn_steps(read_span(self.path, span, _SAMPLE_BYTES))
            if len(ahead) == _PIECES_AHEAD and not ahead[0][0].done():
                # Rather than wait, parse it here.
                future: Future[list[TraceCells]] = Future()
                future.set_result(self._piece(span))
            else:
                future = self.probe.submit(self._piece, span)
            ahead.append((future, span.end))
            if len(ahead) > _PIECES_AHEAD:
                yield from _parsed(*ahead.popleft())
        while ahead:
            yield from _parsed(*ahead.popleft())

    def _learn_steps(self, sample: bytes) -> None:
        # What the last digit of a column's cells is worth: the most of those with a decimal sign. The
        # first lines suffice: nvprof spells all alike, with six decimals. Fewer are an editor's work.
        for line in sample.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES]:
            row = self._row(line.decode("utf-8", "replace").rstrip("\r")) or {}
            for role in QUANTITIES:
                cell, unit = row.get(role, ""), self._units.get(role)
                usual = "." in cell and set(cell) <= _USUAL_CHARACTERS and unit in UNITS
                if usual and (value := measured(cell, unit or "")):
                    self._steps[role] = max(value[1], self._steps.get(role, 0.0))

    def _piece(self, span: RowSpan) -> list[TraceCells]:
        data = read_span(self.path, span)
        if not data.isascii():
            data = data.decode("utf-8", "replace").encode()
        odd: list[str] = []
        many = self._many_cells(data, odd)
        if many is None:
            return [self._row_cells(self._rows(span.line, enumerate(data.decode().split("\n"))))]
        return [many, self._row_cells(self._rows(span.line, _numbered_lines(odd, data)))]

    # -- many rows at once

    def _many_cells(self, data: bytes, odd: list[str]) -> TraceCells | None:
        # None if a cell is not what nvprof writes there. `odd` gets the rows with more or fewer cells.
        def skip(row: csv.InvalidRow) -> str:
            odd.append(row.text)
            return "skip"

        text = self._text
        cells = text.csv(data) if text else data
        if cells is None:
            return None
        delimiter = DELIMITER if text else self._delimiter
        types = text.types if text else csv_types(self.table.header.columns)
        table = read_csv(cells, types, delimiter, quotes=not text, is_utf8=True, on_odd_row=skip)
        if table is None or table["start"].null_count or table["name"].null_count:
            return None
        names, launches = split_numbers(table["name"].combine_chunks())
        table = table.drop_columns(["name"])
        many = text.cells(table) if text else self._csv_cells(table)
        return many and replace(
            many,
            integers={**many.integers, "launch": launches},
            texts={**many.texts, "name": names},
        )

    def _csv_cells(self, table: pa.Table) -> TraceCells | None:
        # None if a quantity is in no unit that is known.
        for role in set(QUANTITIES) & set(table.column_names):
            if self._units.get(role) not in UNITS and table[role].null_count < table.num_rows:
                return None
        steps = {
            role: self._steps.get(role, self._scales[role] * _USUAL_STEP) for role in QUANTITIES
        }
        return table_cells(table, self._scales, steps, self._units)

    # -- row by row

    def _row(self, line: str) -> dict[str, str] | None:
        # The cells of a line that are not empty; None if it lacks the header's columns.
        columns = self.table.header.columns
        if self._delimiter:
            cells = csv_cells(line, self._delimiter) or []
        else:
            cells = _GAP.split(line.strip(), len(columns) - 1)
            if _NAME_BEHIND_NAME.search(cells[-1]):
                cells = _GAP.split(line.strip(), len(columns))
        if len(cells) == len(columns) + 1 and any("[Unified Memory " in cell for cell in cells):
            # A migration between devices names both, in one cell more than the header has.
            del cells[columns.index("Device")]
        cells = self.table.header.with_whole_name(cells)
        if len(cells) != len(columns):
            return None
        row = {
            ROLES.get(name, name): cell.strip() for name, cell in zip(columns, cells, strict=True)
        }
        for name, roles in TRIPLES.items():
            if triple := _TRIPLE.match(row.pop(name, "")):
                row.update(zip(roles, triple.groups(), strict=True))
        return {role: cell for role, cell in row.items() if cell not in EMPTY_CELLS}

    def _is_complete(self, row: Mapping[str, str]) -> bool:
        # It says when, how long and what; faults have no duration.
        return {"name", "start"} <= row.keys() and all(
            measured(row[role], self._units.get(role, "")) is not None
            for role in ("start", "dur")
            if role in row
        )

    def _rows(self, first_line: int, lines: Iterable[tuple[int, str]]) -> Iterator[dict[str, str]]:
        no_units = bool(self._delimiter) and not self._units
        for number, line in lines:
            if not line.strip():
                continue
            row = self._row(line.rstrip("\r"))
            if row is None or not self._is_complete(row):
                self.rejected.add(first_line + number)
            else:
                self.unitless += no_units and not row["start"][-1:].isalpha()
                yield row

    def _row_cells(self, parsed: Iterable[Mapping[str, str]]) -> TraceCells:
        rows = list(parsed)
        # That no row has a device says that all are API calls.
        roles = {role for row in rows for role in row} | {"device"}
        quantities, steps = {}, {}
        for role in roles & set(QUANTITIES):
            unit = self._units.get(role, "")
            pairs = [measured(row.get(role, ""), unit) or (np.nan, 0.0) for row in rows]
            columns = np.array(pairs, np.float64).reshape(-1, 2)
            quantities[role], steps[role] = columns[:, 0], columns[:, 1]
        integers = {
            role: np.array([_integer(row.get(role)) for row in rows], np.int64)
            for role in roles & set(INTEGERS)
        }
        names = [split_number(row["name"]) for row in rows]
        launches = [MISSING if number is None else number for _, number in names]
        integers["launch"] = np.array(launches, np.int64)
        texts = {
            role: encode_texts([row.get(role) for row in rows])
            for role in roles - {"name", *QUANTITIES, *INTEGERS}
        }
        texts["name"] = encode_texts([name for name, _ in names])
        return TraceCells(len(rows), quantities, steps, integers, texts, self._units)


def _parsed(future: Future[list[TraceCells]], end: int) -> Iterator[tuple[TraceCells, int]]:
    return ((cells, end) for cells in future.result() if cells.count)


def _numbered_lines(lines: Iterable[str], data: bytes) -> Iterator[tuple[int, str]]:
    # Lines that occur in this order in a piece, and how many there are before each. Arrow ends rows at a
    # carriage return, too.
    data = b"\n" + data + b"\n"
    ends = data.replace(b"\r", b"\n")
    place, number = 0, -1
    for line in lines:
        start = ends.find(b"\n%b\n" % line.encode(), place)
        if start >= 0:
            number += data.count(b"\n", place, start + 1)
            place = start + 1
        yield max(number, 0), line


def _integer(cell: str | None) -> int:
    number = None if cell is None else parse_digits(cell)
    return MISSING if number is None else number


def split_numbers(names: pa.StringArray) -> tuple[EncodedTexts, Array]:
    """Return names without the ` [n]` at their ends, and the n; MISSING for names without one.

    `names` has no nulls. Digits are read from the names' bytes, all names at once, from the last one on:
    to match them with a regular expression takes as long as all the rest.
    """
    edges, data = edges_and_data(names)
    text = np.frombuffer(data if data.size else b"\0", np.uint8)
    is_long = np.diff(edges) >= len(" [0]")
    rows = np.flatnonzero(is_long & (text[edges[1:] - 1] == ord("]")))
    # `digit` is, for each of these rows, the byte that is read next; it moves to the left as long as that
    # is a digit. Subtraction of bytes without a sign makes what is below "0" larger than 9, too.
    digit, number = edges[rows + 1] - 2, np.zeros(len(rows), np.int64)
    for power in range(_MOST_DIGITS):
        value = text[digit] - np.uint8(ord("0"))
        number += np.where(value < 10, value, 0) * np.int64(10**power)
        digit -= value < 10
    # If a name is all digits, this has read bytes of the name before it: `digit` is checked.
    has_number = (text[digit] == ord("[")) & (text[digit - 1] == ord(" ")) & (digit > edges[rows])
    has_number &= digit < edges[rows + 1] - 2
    rows, ends = rows[has_number], edges[1:].copy()
    ends[rows] = digit[has_number] - 1
    launches = np.full(len(names), MISSING)
    launches[rows] = number[has_number]
    numbers, differing = number_parts(names, edges[:-1], ends)
    return EncodedTexts(numbers, differing.to_pylist()), launches


# -- from cells to rows of event tables

# The launch that an API trace of text names behind the function: `cudaLaunchKernel (saxpy(int) [117])`.
_LAUNCH = re.compile(r"^(\w+) \(.*\)$", re.DOTALL)
_LAUNCH_NUMBER = re.compile(r"\[(\d{1,10})\]\)$")


class NvprofTraceRows(TraceRows):
    """Convert cells of nvprof's traces."""

    def kinds(self, cells: TraceCells, *, only_calls: bool) -> Array:
        """Return what each row is about."""
        if only_calls:
            return np.full(cells.count, RowKind.API_CALL, np.int8)
        names, devices = cells.texts["name"], cells.texts.get("device")
        name_kinds = np.array([_name_kind(name) for name in names.values], np.int8)
        kind: Array = name_kinds[names.codes]
        if devices is not None:
            kind = np.where((kind == RowKind.KERNEL) & (devices.codes < 0), RowKind.API_CALL, kind)
        return kind

    def direction(self, name: str) -> int:
        """Return the code of the direction that a name says."""
        _, word = memory_operation(name) or ("", "")
        if word not in codes.DIRECTIONS:
            self.tally.counts["unknown direction"] += 1
            return 0
        return codes.DIRECTIONS.index(word)

    def stream_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the ids of contexts and streams, which are numbers or names."""
        label = self.ids.label
        contexts, streams = cells.texts.get("context"), cells.texts.get("stream")
        if contexts is not None and streams is not None:
            context, stream = contexts.codes[rows], streams.codes[rows]
            count = len(streams.values)
            # A pair of codes as one code, -1 if one of them is missing.
            pairs = np.where((context >= 0) & (stream >= 0), context * count + stream, -1)
            for pair in used_codes(pairs, len(contexts.values) * count):
                context_code, stream_code = divmod(pair, count)
                context_id = label(contexts.values[context_code])
                self.ids.stream(context_id, label(streams.values[stream_code]))
        return {
            "context_id": map_texts(contexts, rows, label),
            "stream_id": map_texts(streams, rows, label),
        }

    def copy_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the columns of copies; those between devices name both."""
        columns = super().copy_columns(cells, rows)
        if {"src_device", "dst_device"} <= cells.texts.keys():
            source = map_texts(cells.texts["src_device"], rows, self.ids.device)
            target = map_texts(cells.texts["dst_device"], rows, self.ids.device)
            columns["peer_device_id"] = np.where(source != columns["device_id"], source, target)
        return columns

    def migration_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the columns of migrations, which have a column of sizes of their own."""
        unit = cells.units.get("migrated", "")
        steps: dict[int, float] = {}

        def byte_count(text: str) -> int:
            value = spelled(text, unit)
            if value is not None and not value.is_exact:
                steps[value.integer] = float(value.step)
            return MISSING if value is None else value.integer

        size = map_texts(cells.texts.get("migrated"), rows, byte_count)
        self.tally.rounded += int(np.isin(size, list(steps)).sum())
        self.tally.bytes_step = max(self.tally.bytes_step, *steps.values(), 0.0)
        return self.gpu_columns(cells, rows) | {
            "bytes": size,
            "direction": map_texts(cells.texts["name"], rows, self.direction),
            "address": map_texts(cells.texts.get("address"), rows, _address),
        }

    def call_columns(self, cells: TraceCells, rows: Array) -> Columns:
        """Return the columns of API calls; in text, the launched kernel is behind the name."""
        names = cells.texts["name"]
        row_codes = names.codes[rows]
        name_ids, layers, launches = np.full((3, len(names.values)), MISSING)
        for code in used_codes(row_codes, len(names.values)):
            text = names.values[code]
            launch = _LAUNCH.match(text)
            name = launch.group(1) if launch else text
            name_ids[code], layers[code] = self.ids.api_name(name), api_layer(name)
            if launch and (number := _LAUNCH_NUMBER.search(text)):
                launches[code] = int(number.group(1))
        correlation = correlation_ids(cells, rows)
        return {
            "name_id": name_ids[row_codes],
            "layer": layers[row_codes],
            "correlation_id": np.where(correlation == MISSING, launches[row_codes], correlation),
        }

    def bytes_by_throughput(self, cells: TraceCells, rows: Array) -> tuple[Array, Array]:
        """Return bounds of sizes by throughput and duration."""
        rate, half_rate = cells.quantities["throughput"][rows], cells.step("throughput", rows) / 2
        dur, dur_step = cells.quantities["dur"][rows], cells.step("dur", rows)
        # A duration that is spelled to the ns has no fraction of a ns.
        half_dur = np.where(dur_step > 1, dur_step, 0) / 2
        least = (rate - half_rate) * (dur - half_dur) / 1e9
        return least, (rate + half_rate) * (dur + half_dur) / 1e9


def _name_kind(name: str) -> int:
    if not name.startswith("["):
        return RowKind.KERNEL
    if (operation := memory_operation(name)) is not None:
        return MEMORY_KINDS[operation[0]]
    return RowKind.FAULT if name.startswith("[Unified Memory ") else RowKind.UNKNOWN


def _address(text: str) -> int:
    try:
        value = int(text, 16)
    except ValueError:
        return MISSING
    return value if value < 1 << 63 else MISSING
